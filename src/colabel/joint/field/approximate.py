"""Engines whose sums are estimated: belief propagation, and Gibbs sampling."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import ClassVar, TypeVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from colabel.core.arrays import Array, Codes, Flags, Indices, Keys, column_owner, row_slices
from colabel.joint.base import APPROXIMATE, Exactness
from colabel.joint.elimination import Elimination, eliminate
from colabel.joint.field import _flat as kernels
from colabel.joint.field.engine import FieldEngine, FieldOptions, FieldSums, k_best_rows
from colabel.joint.field.tables import FieldTables
from colabel.joint.gibbs.diagnostics import SUSPICIOUS, diagnose
from colabel.joint.gibbs.kernels import chain_keys
from colabel.joint.gibbs.sampler import (
    Compiled,
    GibbsOptions,
    Run,
    interleaved,
    network_of,
    run,
)
from colabel.labels import MISSING

# Max-product that has not converged by then oscillates, as it does on most dense graphs; the local
# search that follows makes better use of the time.
_MAX_PRODUCT_SWEEPS = 50
_GUESS_SWEEPS = 10  # of sum-product, for a vector that a local search improves
_NUMBERS_AT_ONCE = 1 << 24  # labels in samples of several rows

Answer = TypeVar("Answer")


class Approximate(FieldEngine):
    """A connected field whose sums are estimated; its best vectors may still be exact.

    They are where the field is a tree, on which max-product is variable elimination.

    Parameters
    ----------
    field : FieldTables
        The field.
    options : FieldOptions
        How to search and to sample.
    row_keys : (n,)
        What distinguishes the rows' random streams.
    start : (n, d)
        Vectors from which the search for the mode starts too.
    """

    exact_on_trees: ClassVar[Exactness] = APPROXIMATE  # in addition to the best vectors

    def __init__(
        self,
        field: FieldTables,
        options: FieldOptions,
        row_keys: NDArray[np.uint64],
        start: Codes,
    ) -> None:
        super().__init__(field, options)
        sums = self.exact_on_trees if not field.is_far else APPROXIMATE
        # scores far from zero are subtracted from each other: shift the best of each table to zero
        self._field, self._offset = field.centred() if field.is_far else (field, np.zeros(1))
        self._row_keys = row_keys
        self._start = start
        self._wires = kernels.wires_of(field)
        self._is_tree = len(field.edges) == field.n_labels - 1
        sums = sums if self._is_tree else APPROXIMATE
        proved = self._eliminates and not field.is_far  # sums of such scores lose digits
        self.exact = Exactness([*sums, "mode"]) if proved else sums
        self._mode_note = "mode by max-product"
        if not self._eliminates:
            self._mode_note += " and local search"

    def _of(self, field: FieldTables) -> FieldEngine:
        return type(self)(field, self._options, self._row_keys, self._start)

    # The best vectors

    @property
    def _eliminates(self) -> bool:
        """Whether the best vectors are found by elimination: lists fit the tables of a tree."""
        if not self._is_tree:
            return False
        sizes = self._field.cardinalities
        n_entries = max(sizes) + sum(sizes[i] * sizes[j] for i, j in self._field.edges)
        return n_entries <= self._options.most_entries

    @cached_property
    def _elimination(self) -> Elimination:
        field = self._field
        order = eliminate(field.cardinalities, field.edges, self._options.most_entries)
        assert order is not None  # the tables of a tree are those of its edges and of its root
        return order

    @cached_property
    def _mode(self) -> Codes:
        # Which value of a label is likelier shows long before the beliefs have converged.
        starts = [
            self._likeliest(_GUESS_SWEEPS, maximise=False),
            self._start,
            self._likeliest(_MAX_PRODUCT_SWEEPS, maximise=True),
        ]
        return kernels.climbed(self._field, self._wires, starts, self._options.n_jobs)

    def entropy(self) -> Array:
        """Return the entropy (n,) in nats."""
        sums = self.sums()
        log_partition = sums.log_partition - self._offset
        return self._field.entropy(log_partition, sums.marginals, self.edge_tables())

    def k_best(self, k: int) -> tuple[Codes, Array]:
        """Return codes (n, k, d) and scores (n, k), best first, of the vectors found."""
        if self._eliminates:
            return k_best_rows(self._field, self._elimination, k, self._options)
        if k == 1:
            return self._mode[:, None, :], self._field.score(self._mode)[:, None]
        k = min(k, math.prod(self._field.cardinalities))
        return kernels.neighbourhood(self._field, self._wires, self._mode, k, self._options.n_jobs)

    def _likeliest(self, most: int, maximise: bool) -> Codes:
        """Return the value of each label with the largest belief after a few sweeps, (n, d)."""
        most = min(self._options.max_iter, most)
        single, _, _ = self.propagated(most, maximise=maximise, with_pairs=False)
        best = [table.argmax(axis=1) for table in self._by_label(single)]
        return np.stack(best, axis=1).astype(np.int32)

    # Passes over the rows

    def propagated(self, most: int, maximise: bool, with_pairs: bool) -> tuple[Array, Array, Array]:
        """Return beliefs (n, C) and (n or 0, W), and (n, 3) log Z, iterations, residuals.

        Rows that have not converged after `most` sweeps stop there.
        """
        options = self._options
        damping = 0.0 if self._is_tree else options.damping

        def work(flat: kernels.FlatField, _: slice) -> tuple[Array, Array, Array]:
            n_rows = len(flat.unary)
            single = np.zeros(flat.unary.shape)
            pairs = np.zeros((n_rows if with_pairs else 0, flat.tables.shape[1]))
            ended = np.empty((n_rows, 3))
            kernels.run_rows(flat, maximise, damping, options.tol, most, single, pairs, ended)
            return single, pairs, ended

        single, pairs, ended = kernels.joined(
            kernels.by_blocks(self._field, self._wires, work, options.n_jobs)
        )
        return single, pairs, ended

    def sample(self, size: int, rng: Generator) -> Codes:
        """Return draws (size, n, d): successive sweeps of Gibbs chains, interleaved."""
        field, options = self._field, self._options
        if not size or not field.n_rows:
            return np.empty((size, field.n_rows, field.n_labels), dtype=np.int32)
        n_chains = min(options.n_chains, size)
        plan = GibbsOptions(options.burn_in, -(-size // n_chains), 1, n_chains)
        # By position, not by key: equal rows should not draw the same vectors.
        positions = np.arange(field.n_rows, dtype=np.uint64)
        keys = chain_keys(positions, n_chains, int(rng.integers(1 << 63)))
        return interleaved(self._gibbs(plan, keys, slice(None), keep_samples=True), size)

    def _gibbs(
        self,
        plan: GibbsOptions,
        keys: Keys,
        rows: slice,
        queries: Codes | None = None,
        keep_samples: bool = False,
    ) -> Run:
        """Sample some of the rows."""
        field = self._field.rows(rows)
        unknown = np.full((field.n_rows, field.n_labels), MISSING, dtype=np.int32)
        return run(
            linear_conditionals(field),
            plan,
            keys[:, rows],
            unknown,
            queries=queries,
            keep_samples=keep_samples,
            n_jobs=self._options.n_jobs,
        )

    # Helpers

    def _by_label(self, columns: Array) -> list[Array]:
        """Cut (n, C) into arrays (n, K_i)."""
        return np.split(columns, self._wires.first[1:-1], axis=1)

    def _by_edge(self, pairs: Array) -> list[Array]:
        """Cut (n, W) into arrays (n, K_i, K_j)."""
        sizes = self._field.cardinalities
        shapes = [(sizes[i], sizes[j]) for i, j in self._field.edges]
        cuts = np.cumsum([a * b for a, b in shapes])[:-1]
        parts = np.split(pairs, cuts, axis=1) if shapes else []
        return [p.reshape(-1, *shape) for p, shape in zip(parts, shapes, strict=True)]


class BeliefPropagation(Approximate):
    """Marginals by damped sum-product; log Z by Bethe's estimate. Both are exact on trees.

    Messages are sent one after the other, towards the first label and back, until none changes
    by more than `tol` nats: residuals count the change before damping.
    """

    name = "belief_propagation"

    # one sweep is enough, whatever `tol` and `max_iter` say
    exact_on_trees: ClassVar[Exactness] = Exactness(["sums", "log_prob"])

    def sums(self) -> FieldSums:
        """Return Bethe's estimate of the partition function and the beliefs, computed once."""
        single, _, ended = self._sums
        return FieldSums(ended[:, 0] + self._offset, self._by_label(single))

    def edge_tables(self) -> list[Array]:
        """Return the beliefs of every edge as arrays (n, K_i, K_j)."""
        return self._by_edge(self._pair_beliefs)

    def ended(self) -> tuple[Flags, Indices, Array] | None:
        """Return how sum-product ended in each row."""
        _, iterations, residual = self._sums[2].T
        return residual <= self._options.tol, iterations.astype(np.intp), residual

    @property
    def note(self) -> str:  # type: ignore[override]
        """Say which answers are exact."""
        if self._is_tree:
            return "a tree, so marginals and log Z are exact, " + self._mode_note
        return "log Z is Bethe's estimate, " + self._mode_note

    @cached_property
    def _sums(self) -> tuple[Array, Array, Array]:
        return self.propagated(self._options.max_iter, maximise=False, with_pairs=False)

    @cached_property
    def _pair_beliefs(self) -> Array:
        return self.propagated(self._options.max_iter, maximise=False, with_pairs=True)[1]


class GibbsField(Approximate):
    r"""Marginals by Gibbs sampling, log Z by the probability that it gives the mode.

    Marginals are means of the conditional probabilities that the labels are drawn from
    (Rao-Blackwell); pairs are counted in the samples. With :math:`\hat y` the best vector found
    and :math:`\hat p` the mean probability that one more sweep from a sample ends there,
    :math:`\log Z \approx s(\hat y) - \log \hat p(\hat y)` (Ritter & Tanner, 1992; Chib, 1995).
    """

    name = "gibbs"

    def sums(self) -> FieldSums:
        """Return estimates of the partition function and of the marginals, computed once."""
        return self._sums

    def edge_tables(self) -> list[Array]:
        """Return the shares of the pairs of values of every edge as arrays (n, K_i, K_j)."""
        return self._pair_shares

    def pair_table(self, i: int, j: int) -> Array:
        """Return the shares of the pairs of values of two labels, (n, K_i, K_j)."""
        return self._shares([(i, j)])[0]

    def ended(self) -> tuple[Flags, Indices, Array] | None:
        """Return whether the chains agree: the residual is the largest split R-hat minus one."""
        options = self._options

        names, sizes = ("",) * self._field.n_labels, self._field.cardinalities
        worst = self._by_chunks(lambda rows: diagnose(names, self._samples(rows), sizes).r_hat)
        excess = np.concatenate(worst).max(axis=1) - 1.0
        sweeps = np.full(len(excess), options.burn_in + options.n_sweeps, dtype=np.intp)
        return excess <= SUSPICIOUS - 1.0, sweeps, excess

    @property
    def note(self) -> str:  # type: ignore[override]
        """Say what was sampled."""
        return (
            f"{self._options.n_chains} chains per row, the residual is R-hat - 1, log Z by the "
            f"estimated probability of the mode, {self._mode_note}"
        )

    @property
    def _plan(self) -> GibbsOptions:
        options = self._options
        return GibbsOptions(options.burn_in, options.n_sweeps, 1, options.n_chains)

    @property
    def _keys(self) -> Keys:
        return chain_keys(self._row_keys, self._options.n_chains, self._options.random_state)

    @cached_property
    def _sums(self) -> FieldSums:
        mode = self.k_best(1)[0]
        run = self._gibbs(self._plan, self._keys, slice(None), queries=mode)
        tables = []
        for i, size in enumerate(self._field.cardinalities):
            own = run.smooth[:, column_owner(self._field.cardinalities) == i]
            tables.append(np.hstack([1.0 - own, own]) if size == 2 else own)
        log_partition = self._field.score(mode[:, 0])
        possible = log_partition > -np.inf
        log_partition[possible] -= run.log_prob[possible, 0]
        return FieldSums(log_partition + self._offset, tables)

    @cached_property
    def _pair_shares(self) -> list[Array]:
        return self._shares(list(self._field.edges))

    def _shares(self, pairs: list[tuple[int, int]]) -> list[Array]:
        """Count pairs of values in the samples: arrays (n, K_i, K_j)."""
        sizes = self._field.cardinalities

        def count(rows: slice) -> tuple[Array, ...]:
            samples = self._samples(rows)
            flat = samples.reshape(len(samples), self._n_samples, -1)
            return tuple(
                _pair_share(flat[..., i], flat[..., j], sizes[i], sizes[j]) for i, j in pairs
            )

        shares: list[Array] = kernels.joined(self._by_chunks(count))
        return shares

    def _samples(self, rows: slice) -> NDArray[np.int16]:
        return self._gibbs(self._plan, self._keys, rows, keep_samples=True).samples

    @property
    def _n_samples(self) -> int:
        return self._options.n_chains * self._options.n_sweeps

    def _by_chunks(self, work: Callable[[slice], Answer]) -> list[Answer]:
        numbers = self._n_samples * self._field.n_labels
        chunks = row_slices(self._field.n_rows, _NUMBERS_AT_ONCE, numbers)
        return [work(rows) for rows in chunks]


def linear_conditionals(field: FieldTables) -> Compiled:
    """Return the conditionals of a field, which are linear in the columns of its labels.

    The score of a value is its own and, for each neighbour, the entry of the edge's table; that of
    a label of two values is the difference of the two. -inf is a low score.
    """
    sizes, n_rows = field.cardinalities, field.n_rows
    owner = column_owner(sizes)
    first = np.searchsorted(owner, np.arange(len(sizes)))
    base = np.zeros((n_rows, len(owner)))
    degree = max(map(len, field.neighbours), default=0)
    for i, unary in enumerate(field.unary):
        base[:, owner == i] = _scores(kernels.walled_unary(unary, degree))
    columns, targets, weights = [], [], []
    for (i, j), table in zip(field.edges, field.tables, strict=True):
        low = np.maximum(table, kernels.WALL)
        for a, b, pair in ((i, j, low), (j, i, low.transpose(0, 2, 1))):
            added = _scores(pair)  # (m, K_a, scores of b): what each value of a adds
            if sizes[a] == 2:
                base[:, owner == b] += added[:, 0]
                added = added[:, 1:] - added[:, :1]
            own, other = np.indices(added.shape[1:]).reshape(2, -1)
            columns.append(first[a] + own)
            targets.append(first[b] + other)
            weights.append(added.reshape(len(added), -1))
    none = np.zeros(0, dtype=np.intp)
    column = np.concatenate([none, *columns])
    order = np.argsort(column, kind="stable")
    starts = np.searchsorted(column[order], np.arange(len(owner) + 1))
    m = max((len(part) for part in weights), default=1)
    flat = [np.zeros((m, 0)), *(np.broadcast_to(w, (m, w.shape[1])) for w in weights)]
    net = network_of(sizes, starts, np.concatenate([none, *targets])[order], np.zeros(len(owner)))
    return Compiled(sizes, base, np.concatenate(flat, axis=1)[:, order], net)


def _scores(values: Array) -> Array:
    """Scores of a label's values (..., K): of two, the log-odds of the second."""
    return values[..., 1:] - values[..., :1] if values.shape[-1] == 2 else values


def _pair_share(one: NDArray[np.int16], two: NDArray[np.int16], n_one: int, n_two: int) -> Array:
    """Share (m, K, L) of each pair of values in samples (m, N) of two labels."""
    m, n_samples = one.shape
    cells = (np.arange(m)[:, None] * n_one + one) * n_two + two
    counts = np.bincount(cells.ravel(), minlength=m * n_one * n_two)
    shares: Array = counts.reshape(m, n_one, n_two) / n_samples
    return shares
