"""What the approximate engines of a pairwise field share: the search for the mode, and sampling."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from colabel.core.arrays import Array, Codes, Keys, Targets
from colabel.core.numeric import log_sum_exp
from colabel.joint.exactness import APPROXIMATE, Exactness
from colabel.joint.field._engine import Convergence, FieldOptions, FieldSums, pair_by_conditioning
from colabel.joint.field._flat import (
    FlatField,
    anneal_rows,
    by_blocks,
    joined,
    run_rows,
    sample_rows,
    wires_of,
)
from colabel.joint.field._junction import Elimination, eliminate, k_best_rows
from colabel.joint.field._search import (
    best_by_toulbar2,
    climbed,
    k_best_by_toulbar2,
    neighbourhood,
    walled,
)
from colabel.joint.field._tables import FieldTables
from colabel.joint.gibbs.diagnostics import split_r_hat
from colabel.joint.gibbs.random import chain_keys

# Max-product that has not settled by then circles, as it does on most dense graphs; the local
# search that follows it makes more of the time.
_MAX_PRODUCT_SWEEPS = 50


class Approximate:
    """A connected field whose sums are estimated; its best vectors may be proved all the same.

    They are where the field is a tree, on which max-product is variable elimination, or where
    toulbar2 is asked.

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

    exact_on_trees: ClassVar[Exactness] = APPROXIMATE  # beside the best vectors

    def __init__(
        self,
        field: FieldTables,
        options: FieldOptions,
        row_keys: NDArray[np.uint64],
        start: Codes,
    ) -> None:
        sums = self.exact_on_trees if not field.is_far else APPROXIMATE
        # differences of scores far from zero are taken: the best value of each table is the zero
        self._field, self._offset = field.centred() if field.is_far else (field, np.zeros(1))
        self._options = options
        self._row_keys = row_keys
        self._start = start
        self._wires = wires_of(field)
        self._is_tree = len(field.edges) == field.n_labels - 1
        proved = self._eliminates or options.mode_engine == "toulbar2"
        sums = sums if self._is_tree else APPROXIMATE
        self.exact = Exactness([*sums, "mode"]) if proved else sums

    def sums(self) -> FieldSums:
        """Return estimates of the partition function and of the marginals, computed once."""
        raise NotImplementedError

    def edge_tables(self) -> list[Array]:
        """Return P(y_i, y_j) of every edge as arrays (n, K_i, K_j)."""
        raise NotImplementedError

    def _first_guess(self) -> Codes:
        """Return good vectors (n, d), where the search for the mode starts."""
        raise NotImplementedError

    # The best vectors

    @property
    def _eliminates(self) -> bool:
        """Whether the best vectors are found by elimination: lists fit the tables of a tree."""
        if not self._is_tree or self._options.mode_engine == "icm":
            return False
        sizes = self._field.cardinalities
        n_entries = max(sizes) + sum(sizes[i] * sizes[j] for i, j in self._field.edges)
        return n_entries <= self._options.most_entries

    @cached_property
    def _elimination(self) -> Elimination:
        found = eliminate(self._field, self._options.most_entries)
        assert found is not None  # the tables of a tree are those of its edges and of its root
        return found

    @cached_property
    def _mode(self) -> Codes:
        options = self._options
        starts = [self._first_guess(), self._start]
        if options.mode_engine != "icm":
            starts.append(self._max_product())
        found = climbed(self._field, self._wires, starts, options.n_jobs)
        if options.mode_engine == "toulbar2":
            return best_by_toulbar2(self._field, found)
        return found

    def entropy(self) -> Array:
        """Return the entropy (n,) in nats."""
        found = self.sums()
        log_partition = found.log_partition - self._offset
        return self._field.entropy(log_partition, found.marginals, self.edge_tables())

    def k_best(self, k: int) -> tuple[Codes, Array]:
        """Return codes (n, k, d) and scores (n, k), best first, of the vectors found."""
        if self._eliminates:
            return k_best_rows(self._field, self._elimination, k, self._options.n_jobs)
        if k == 1:
            return self._mode[:, None, :], self._field.score(self._mode)[:, None]
        k = min(k, math.prod(self._field.cardinalities))
        found = neighbourhood(self._field, self._wires, self._mode, k, self._options.n_jobs)
        if self._options.mode_engine != "toulbar2":
            return found
        codes, scores, cut = k_best_by_toulbar2(self._field, *found)
        if cut.any():
            self.exact = self.exact.without("mode")
        return codes, scores

    def _max_product(self) -> Codes:
        """Return for each label the value of the largest max-marginal, (n, d)."""
        most = min(self._options.max_iter, _MAX_PRODUCT_SWEEPS)
        single, _, _ = self._propagated(most, maximise=True, with_pairs=False)
        return self._largest(single)

    # Passes over the rows

    def _propagated(
        self, most: int, maximise: bool, with_pairs: bool
    ) -> tuple[Array, Array, Array]:
        """Return beliefs (n, C) and (n or 0, W), and (n, 3) log Z, iterations, residuals.

        Rows that have not converged after `most` sweeps stop there.
        """
        options = self._options
        damping = 0.0 if self._is_tree else options.damping

        def work(flat: FlatField, _: slice) -> tuple[Array, Array, Array]:
            n_rows = len(flat.unary)
            single = np.zeros(flat.unary.shape)
            pairs = np.zeros((n_rows if with_pairs else 0, flat.tables.shape[1]))
            ended = np.empty((n_rows, 3))
            run_rows(flat, maximise, damping, options.tol, most, single, pairs, ended)
            return single, pairs, ended

        single, pairs, ended = joined(by_blocks(self._field, self._wires, work, options.n_jobs))
        return single, pairs, ended

    def _chain_keys(self) -> Keys:
        """Return the random streams (n, chains) of the engine's own answers."""
        return chain_keys(self._row_keys, self._options.n_chains, self._options.random_state).T

    def sample(self, size: int, rng: Generator) -> Codes:
        """Return draws (size, n, d): successive sweeps of Gibbs chains, interleaved."""
        n_rows, n_labels = self._field.n_rows, self._field.n_labels
        n_chains = max(1, min(self._options.n_chains, size))
        # By position, not by key: equal rows should not draw the same vectors.
        positions = np.arange(n_rows, dtype=np.uint64)
        keys = chain_keys(positions, n_chains, int(rng.integers(1 << 63))).T
        n_sweeps = -(-size // n_chains)
        codes = np.empty((size, n_rows, n_labels), dtype=np.int32)

        def work(flat: FlatField, block: slice) -> None:
            m = len(flat.unary)
            samples = np.empty((m, n_chains, n_sweeps, n_labels), dtype=np.int16)
            single, best = np.empty(flat.unary.shape), np.empty((m, n_labels), dtype=np.int32)
            own = np.ascontiguousarray(keys[block])
            sample_rows(walled(flat), own, self._options.burn_in, n_sweeps, single, best, samples)
            drawn = samples.transpose(2, 1, 0, 3).reshape(-1, m, n_labels)
            codes[:, block] = drawn[:size]

        if size and n_rows:
            extra = n_chains * n_sweeps * n_labels
            by_blocks(self._field, self._wires, work, self._options.n_jobs, extra)
        return codes

    # Helpers

    def _by_label(self, columns: Array) -> list[Array]:
        """Cut (n, C) into arrays (n, K_i)."""
        return np.split(columns, self._wires.first[1:-1], axis=1)

    def _largest(self, columns: Array) -> Codes:
        """Return the value of each label with the largest belief, (n, d), of beliefs (n, C)."""
        best = [table.argmax(axis=1) for table in self._by_label(columns)]
        return np.stack(best, axis=1).astype(np.int32)

    def _by_edge(self, pairs: Array) -> list[Array]:
        """Cut (n, W) into arrays (n, K_i, K_j)."""
        sizes = self._field.cardinalities
        shapes = [(sizes[i], sizes[j]) for i, j in self._field.edges]
        cuts = np.cumsum([a * b for a, b in shapes])[:-1]
        parts = np.split(pairs, cuts, axis=1) if shapes else []
        return [p.reshape(-1, *shape) for p, shape in zip(parts, shapes, strict=True)]

    def treewidth(self) -> int | None:
        """Return None: no elimination order fits."""
        return None

    def _mode_note(self) -> str:
        """Say how the mode is found."""
        if self._eliminates:
            return "mode by max-product"
        return {
            "auto": "mode by max-product and local search",
            "icm": "mode by local search",
            "toulbar2": "mode proved optimal by toulbar2",
        }[self._options.mode_engine]


_GUESS_SWEEPS = 10  # of sum-product, for a vector that a local search improves
_KEPT = 2**23  # beliefs of edges (64 MB) that are kept without being asked for


class BeliefPropagation(Approximate):
    """Marginals by damped sum-product; log Z by Bethe's estimate. Both are exact on trees.

    Messages are sent one after the other, towards the first label and back, until none changes
    by more than `tol` nats: residuals count the change before damping.
    """

    name: ClassVar[str] = "belief_propagation"

    # one sweep is enough, whatever `tol` and `max_iter` say
    exact_on_trees: ClassVar[Exactness] = Exactness(["sums", "log_prob"])

    def sums(self) -> FieldSums:
        """Return Bethe's estimate of the partition function and the beliefs, computed once."""
        single, _, ended = self._sums
        return FieldSums(ended[:, 0] + self._offset, self._by_label(single))

    def edge_tables(self) -> list[Array]:
        """Return the beliefs of every edge as arrays (n, K_i, K_j)."""
        return self._by_edge(self._sums_of_pairs[1])

    def pair_table(self, i: int, j: int) -> Array:
        """Return P(y_i, y_j), (n, K_i, K_j): a belief on an edge, else P(y_i) P(y_j | y_i)."""
        edge = (min(i, j), max(i, j))
        if edge in self._field.edges:
            table = self.edge_tables()[self._field.edges.index(edge)]
            return table if i < j else table.transpose(0, 2, 1)
        return pair_by_conditioning(self._field, i, j, self.sums().marginals[i], self._sums_of)

    def convergence(self) -> Convergence | None:
        """Return how sum-product ended in each row."""
        _, _, ended = self._sums
        return Convergence(
            ended[:, 2] <= self._options.tol, ended[:, 1].astype(np.intp), ended[:, 2]
        )

    def note(self) -> str:
        """Say what is exact all the same."""
        if self._is_tree:
            return "a tree, so marginals and log Z are exact, " + self._mode_note()
        return "log Z is Bethe's estimate, " + self._mode_note()

    def _first_guess(self) -> Codes:
        # Which value of a label is likelier shows long before the beliefs have converged.
        most = min(self._options.max_iter, _GUESS_SWEEPS)
        return self._largest(self._propagated(most, maximise=False, with_pairs=False)[0])

    def _sums_of(self, field: FieldTables) -> FieldSums:
        return BeliefPropagation(field, self._options, self._row_keys, self._start).sums()

    @cached_property
    def _sums(self) -> tuple[Array, Array, Array]:
        if "_sums_of_pairs" in self.__dict__ or self._n_pair_beliefs <= _KEPT:
            return self._sums_of_pairs
        return self._propagated(self._options.max_iter, maximise=False, with_pairs=False)

    @cached_property
    def _sums_of_pairs(self) -> tuple[Array, Array, Array]:
        return self._propagated(self._options.max_iter, maximise=False, with_pairs=True)

    @property
    def _n_pair_beliefs(self) -> int:
        return self._field.n_rows * sum(int(table[0].size) for table in self._field.tables)


Answer = Callable[[Array, Codes, Targets], tuple[Any, ...]]

_SUSPICIOUS = 1.05  # R-hat above which chains are commonly not trusted


class GibbsField(Approximate):
    r"""Marginals by Gibbs sampling, log Z by annealed importance sampling (Neal, 2001).

    Marginals are means of the conditional probabilities that the labels are drawn from
    (Rao-Blackwell); pairs are counted in the samples. With :math:`E(y)` the score of the edges
    and T steps that each multiply the edges' scores by :math:`t / T` and sweep once,

    .. math:: \log Z \approx \log Z_0 + \log \frac1C \sum_c \exp\Big(\frac1T
              \sum_{t=1}^T E(y^{(t-1)}_c)\Big)

    where :math:`Z_0` belongs to the unary scores alone and c runs over the chains.
    """

    name: ClassVar[str] = "gibbs"

    def sums(self) -> FieldSums:
        """Return estimates of the partition function and of the marginals, computed once."""
        return self._sums

    def edge_tables(self) -> list[Array]:
        """Return the shares of the pairs of values of every edge as arrays (n, K_i, K_j)."""
        return self._pair_shares

    def pair_table(self, i: int, j: int) -> Array:
        """Return the shares of the pairs of values of two labels, (n, K_i, K_j)."""
        return self._shares([(i, j)])[0]

    def convergence(self) -> Convergence | None:
        """Return whether the chains agree: the residual is the largest split R-hat minus one."""
        excess = self._r_hat - 1.0
        sweeps = self._options.burn_in + self._options.n_sweeps
        return Convergence(
            self._r_hat <= _SUSPICIOUS, np.full(len(excess), sweeps, dtype=np.intp), excess
        )

    def note(self) -> str:
        """Say what was sampled."""
        options = self._options
        return (
            f"{options.n_chains} chains a row, the residual is R-hat - 1, log Z by annealed "
            f"importance sampling, {self._mode_note()}"
        )

    def _first_guess(self) -> Codes:
        return self._sampled[1]

    # Sampling

    @cached_property
    def _sums(self) -> FieldSums:
        return FieldSums(self._annealed() + self._offset, self._by_label(self._sampled[0]))

    @cached_property
    def _sampled(self) -> tuple[Array, Codes]:
        """Marginals (n, C) and the best vectors visited (n, d)."""
        single, best = joined(self._run(lambda single, best, _: (single, best), keep=False))
        return single, best

    @cached_property
    def _pair_shares(self) -> list[Array]:
        return self._shares(list(self._field.edges))

    def _shares(self, pairs: list[tuple[int, int]]) -> list[Array]:
        """Count pairs of values in the samples: arrays (n, K_i, K_j)."""
        sizes = self._field.cardinalities

        def count(_: Array, __: Codes, samples: Targets) -> tuple[Array, ...]:
            flat = samples.reshape(len(samples), samples.shape[1] * samples.shape[2], -1)
            return tuple(
                _pair_share(flat[..., i], flat[..., j], sizes[i], sizes[j]) for i, j in pairs
            )

        found: list[Array] = joined(self._run(count, keep=True))
        return found

    @cached_property
    def _r_hat(self) -> Array:
        """Largest split R-hat of a value, (n,)."""

        def largest(_: Array, __: Codes, samples: Targets) -> tuple[Array]:
            worst = np.ones(len(samples))
            for i, size in enumerate(self._field.cardinalities):
                traces = np.moveaxis(samples[..., i], 0, -1)  # (chains, sweeps, m)
                for value in range(1, size):
                    worst = np.maximum(worst, split_r_hat((traces == value).astype(np.float64)))
            return (worst,)

        found: Array = joined(self._run(largest, keep=True))[0]
        return found

    def _run(self, answer: Answer, keep: bool) -> list[tuple[Any, ...]]:
        """Sample blocks of rows, and let `answer` make arrays of the results of each."""
        options = self._options
        keys = self._chain_keys()
        n_labels = self._field.n_labels

        def work(flat: FlatField, block: slice) -> tuple[Any, ...]:
            m = len(flat.unary)
            shape = (m if keep else 0, options.n_chains, options.n_sweeps, n_labels)
            samples = np.empty(shape, dtype=np.int16)
            single, best = np.empty(flat.unary.shape), np.zeros((m, n_labels), dtype=np.int32)
            own = np.ascontiguousarray(keys[block])
            sample_rows(walled(flat), own, options.burn_in, options.n_sweeps, single, best, samples)
            return answer(single, best, samples)

        extra = options.n_chains * options.n_sweeps * n_labels if keep else 0
        return by_blocks(self._field, self._wires, work, options.n_jobs, extra)

    def _annealed(self) -> Array:
        """Estimate log Z (n,)."""
        options = self._options
        keys = self._chain_keys()
        n_steps = options.burn_in + options.n_sweeps

        def work(flat: FlatField, block: slice) -> tuple[Array]:
            log_weights = np.empty((len(flat.unary), options.n_chains))
            anneal_rows(walled(flat), np.ascontiguousarray(keys[block]), n_steps, log_weights)
            return (log_sum_exp(log_weights) - np.log(options.n_chains),)

        found: Array = joined(by_blocks(self._field, self._wires, work, options.n_jobs))[0]
        for unary in self._field.unary:
            found += log_sum_exp(unary)
        return found


def _pair_share(one: Targets, two: Targets, n_one: int, n_two: int) -> Array:
    """Share (m, K, L) of each pair of values in samples (m, N) of two labels."""
    m, n_samples = one.shape
    cells = (np.arange(m)[:, None] * n_one + one) * n_two + two
    counts = np.bincount(cells.ravel(), minlength=m * n_one * n_two)
    shares: Array = counts.reshape(m, n_one, n_two) / n_samples
    return shares
