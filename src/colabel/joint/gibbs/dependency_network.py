"""DependencyNetwork: labels that all depend on each other, answered by Gibbs sampling."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from colabel.core.arrays import Array, Codes, Indices, Keys, Rows
from colabel.core.chunks import row_slices
from colabel.core.label_features import column_owner
from colabel.joint.base import Joint
from colabel.joint.chain.prefixes import Prefixes
from colabel.joint.exactness import APPROXIMATE, Exactness
from colabel.joint.gibbs.diagnostics import GibbsDiagnostics, diagnose
from colabel.joint.gibbs.random import chain_keys, distinct_keys, random_orders
from colabel.joint.gibbs.sampler import (
    Conditionals,
    GibbsOptions,
    LinearConditionals,
    Run,
    evaluate,
    run,
)
from colabel.joint.tree.passes import draw
from colabel.joint.user_terms import codes_of_labels, merged_evidence
from colabel.labels import MISSING, LabelSpace
from colabel.rules import CompiledRules

if TYPE_CHECKING:
    from colabel.joint.obeying import Weighted

Marginals = Literal["best", "plain"]

# A conditional that saturates in floating point is still not certain.
_SMALLEST_PROBABILITY = 1e-15
# Targets are held for blocks of rows of about this many numbers.
_NUMBERS_AT_ONCE = 1 << 25
_CONSTRAINED_SWEEPS = 10  # of each of many chains, under rules


class DependencyNetwork(Joint):
    r"""One conditional ``p(y_i | x, y_-i)`` for every label; answers come from Gibbs sampling.

    This is the joint of conditional dependency networks (CDN; Guo & Gu, 2011). The conditionals
    are learned apart and need not share any joint distribution. What stands for it is the
    distribution Gibbs sampling converges to, and every answer is an estimate of that:

    - `mode` is Algorithm 1: after `burn_in` sweeps, of the samples of `n_sweeps` sweeps the
      `n_best` with the highest product of conditionals decide, each label by its majority among
      them (a tie goes to the smaller code). ``marginals="plain"`` lets all samples decide.
    - `marginals` are averages of the conditional probabilities over all kept sweeps
      (Rao-Blackwell), which are never exactly 0 or 1.
    - `log_prob` and `pair_marginals` are the probability that one more sweep over the observed
      labels ends there, averaged over the samples (Ritter & Tanner, 1992): positive, summing to
      one, and equal to the marginals for a single label. The product of conditionals, which is
      not a probability, is `pseudo_log_likelihood`.
    - `top_k` are the most frequent samples, ordered by `log_prob`.
    - `sample` runs new chains; its draws are successive sweeps, so they are not independent.

    Every chain of a row draws its starting labels, the order of its sweeps (once, as in
    Algorithm 1) and its samples from a random stream of its own: the same seed and key, the same
    samples, whatever the number of threads and the other rows. `given` clamps labels.

    Parameters
    ----------
    space : LabelSpace
        Names and values of the d labels.
    conditionals : LinearConditionals or Conditionals
        For n rows. Linear ones are sampled by compiled code, O(d) a flip. For others, which are
        asked for all rows and chains at once, all of them sweep in one random order.
    burn_in, n_sweeps, n_best, n_chains : int
        Length of the sampling; the samples of all chains count.
    marginals : {"best", "plain"}
        Which samples decide the `mode`.
    seed : int
        Seed of all random streams.
    row_keys : array of n integers, optional
        What distinguishes the rows' streams, by default their positions; rows with equal keys
        share their random numbers.
    n_jobs : int or None
        Threads (None: all cores); they do not change the answers.

    Examples
    --------
    Two labels that want to be equal:

    >>> import numpy as np
    >>> from colabel.joint import DependencyNetwork, LinearConditionals
    >>> from colabel.labels import LabelSpace
    >>> space = LabelSpace(("a", "b"), (np.array([0, 1]), np.array([0, 1])), "matrix")
    >>> base, weights = np.array([[-1.0, -1.0]]), np.array([[0.0, 2.5], [2.5, 0.0]])
    >>> joint = DependencyNetwork(space, LinearConditionals(base, weights, (2, 2)), n_sweeps=5000)
    >>> joint
    <DependencyNetwork: 1 row, 2 labels, approximate>
    >>> exact = np.exp([0, -1, -1, 0.5]) / np.exp([0, -1, -1, 0.5]).sum()
    >>> bool(abs(np.exp(joint.log_prob([1, 1])) - exact[3]) < 0.02)
    True
    >>> bool(joint.given({"a": 1}).marginals()[0, 1] > 0.8)
    True
    """

    exact: Exactness = APPROXIMATE

    def __init__(
        self,
        space: LabelSpace,
        conditionals: Conditionals,
        *,
        burn_in: int = 100,
        n_sweeps: int = 500,
        n_best: int = 100,
        n_chains: int = 1,
        marginals: Marginals = "best",
        seed: int = 0,
        row_keys: ArrayLike | None = None,
        n_jobs: int | None = None,
    ) -> None:
        check_conditionals(space, conditionals)
        if marginals not in ("best", "plain"):
            raise ValueError(
                f"marginals={marginals!r} must be 'best' (the samples with the highest product of"
                " conditionals decide) or 'plain' (all samples do)."
            )
        n_rows = conditionals.n_rows
        keys = np.arange(n_rows) if row_keys is None else np.asarray(row_keys)
        if keys.shape != (n_rows,) or keys.dtype.kind not in "iu":
            raise ValueError(
                f"row_keys has shape {keys.shape} and type {keys.dtype} but must hold {n_rows}"
                " integers, one a row."
            )
        evidence = np.full((n_rows, space.n_labels), MISSING, dtype=np.int32)
        self._plan = GibbsOptions(burn_in, n_sweeps, n_best, n_chains)
        self._deciding = marginals
        self._seed = int(seed)
        self._n_jobs = n_jobs
        self._set(space, conditionals, keys.astype(np.uint64), evidence)

    def _set(
        self, space: LabelSpace, conditionals: Conditionals, row_keys: Keys, evidence: Codes
    ) -> None:
        super().__init__(space, conditionals.n_rows)
        self.conditionals = conditionals
        self._row_keys = row_keys
        self._evidence = evidence
        plan = self._plan
        self.how = (
            f"Approximate: Gibbs sampling, {plan.n_chains} chain(s) a row, {plan.burn_in} sweeps"
            f" of burn-in and {plan.n_sweeps} kept; see diagnostics()."
        )

    def _with(
        self, conditionals: Conditionals, row_keys: Keys, evidence: Codes
    ) -> DependencyNetwork:
        """Return a network sampled the same way, from parts that need no check."""
        joint = DependencyNetwork.__new__(DependencyNetwork)
        joint._plan, joint._deciding = self._plan, self._deciding
        joint._seed, joint._n_jobs = self._seed, self._n_jobs
        joint._set(self.space, conditionals, row_keys, evidence)
        return joint

    # Sampling

    def _run(self, **wanted: Any) -> Run:
        keys = chain_keys(self._row_keys, self._plan.n_chains, self._seed)
        return run(
            self.conditionals,
            self._plan,
            keys,
            self._evidence,
            order=self._shared_order(),
            n_jobs=self._n_jobs,
            **wanted,
        )

    def _shared_order(self) -> Indices | None:
        """Return one order for all rows, unless the conditionals do not mind one each.

        Compiled loops (see `run`) go row by row. Objects that are asked about all rows at once
        would be asked about every label as often as rows disagree which comes next.
        """
        if isinstance(self.conditionals, LinearConditionals):
            return None
        return shared_order(self._seed, self.space.n_labels)

    @cached_property
    def _summary(self) -> Run:
        return self._run()

    def _by_blocks(self, answer: Callable[[DependencyNetwork, Run], Any]) -> list[Any]:
        """Ask for the samples of a block of rows at a time; those of all may not fit."""
        row = self._plan.n_chains * self._plan.n_sweeps * self.space.n_labels
        chunks = row_slices(self.n_rows, _NUMBERS_AT_ONCE, row)
        blocks = [self] if len(chunks) == 1 else [self.rows(chunk) for chunk in chunks]
        return [answer(block, block._run(keep_samples=True)) for block in blocks]

    # Answers

    def mode_codes(self) -> Codes:
        """Return the codes (n, d) that Algorithm 1 decides for."""
        shares = self._summary.best if self._deciding == "best" else self._summary.plain
        best = [
            columns[:, 0] > 0.5 if size == 2 else columns.argmax(axis=1)
            for columns, size in zip(self._columns(shares), self.space.cardinalities, strict=True)
        ]
        return np.stack(best, axis=1).astype(np.int32)

    def marginal_tables(self) -> list[Array]:
        """Return estimates of P(y_i) for each label as arrays (n, K_i)."""
        tables = []
        for i, columns in enumerate(self._columns(self._summary.smooth)):
            size = self.space.cardinalities[i]
            table = np.hstack([1.0 - columns, columns]) if size == 2 else columns
            table = np.maximum(table, _SMALLEST_PROBABILITY)
            table /= table.sum(axis=1, keepdims=True)
            known = self._evidence[:, i, None]
            tables.append(np.where(known == MISSING, table, known == np.arange(size)))
        return tables

    def log_prob_codes(self, codes: Codes) -> Array:
        """Return estimated log-probabilities (n,) of the observed entries of codes (n, d)."""
        return self._log_prob_of(codes[:, None, :])[:, 0]

    def top_k_codes(self, k: int) -> tuple[Codes, Array]:
        """Return codes (n, k, d) and estimated log-probabilities (n, k), best first.

        The candidates are the k most frequent samples; where fewer differ, vectors that were
        never sampled fill the list.
        """

        def answer(block: DependencyNetwork, found: Run) -> tuple[Codes, Array]:
            assert found.samples is not None
            n_samples = self._plan.n_chains * self._plan.n_sweeps
            flat = found.samples.reshape(block.n_rows, n_samples, self.space.n_labels)
            pairs = zip(flat, block._evidence, strict=True)
            rows = [self._candidates(samples, known, k) for samples, known in pairs]
            codes = np.array(rows, dtype=np.int32).reshape(block.n_rows, k, self.space.n_labels)
            log_prob = block._log_prob_of(codes)
            order = np.argsort(-log_prob, axis=1, kind="stable")
            sorted_codes = np.take_along_axis(codes, order[:, :, None], axis=1)
            return sorted_codes, np.take_along_axis(log_prob, order, axis=1)

        found = self._by_blocks(answer)
        return np.concatenate([c for c, _ in found]), np.concatenate([p for _, p in found])

    def sample_codes(self, size: int, rng: Generator) -> Codes:
        """Return draws (size, n, d): successive sweeps of new chains, interleaved."""
        n_chains = self._plan.n_chains
        if not size or not self.n_rows:
            return np.empty((size, self.n_rows, self.space.n_labels), dtype=np.int32)
        plan = GibbsOptions(self._plan.burn_in, -(-size // n_chains), 1, n_chains)
        # Rows with equal keys share their answers, but should not draw the same vectors.
        rows = distinct_keys(self._row_keys)
        found = run(
            self.conditionals,
            plan,
            chain_keys(rows, n_chains, int(rng.integers(1 << 63))),
            self._evidence,
            order=self._shared_order(),
            keep_samples=True,
            n_jobs=self._n_jobs,
        )
        assert found.samples is not None
        drawn = found.samples.transpose(2, 1, 0, 3)  # (sweeps, chains, n, d)
        return drawn.reshape(-1, self.n_rows, self.space.n_labels)[:size].astype(np.int32)

    def pair_table(self, i: int, j: int) -> Array:
        """Return estimates of P(y_i, y_j) as an array (n, K_i, K_j)."""
        if i == j:
            table = self.marginal_tables()[i]
            return table[:, :, None] * np.eye(table.shape[1])
        sizes = self.space.cardinalities[i], self.space.cardinalities[j]
        queries = np.full((*sizes, self.space.n_labels), MISSING, dtype=np.int32)
        queries[..., i] = np.arange(sizes[0])[:, None]
        queries[..., j] = np.arange(sizes[1])
        flat = queries.reshape(1, -1, self.space.n_labels)
        log_prob = self._log_prob_of(np.repeat(flat, self.n_rows, axis=0))
        return np.exp(log_prob).reshape(self.n_rows, *sizes)

    def given_codes(self, evidence: Codes) -> DependencyNetwork:
        """Return the network with the known entries of evidence (n, d) clamped."""
        return self._with(
            self.conditionals,
            self._row_keys,
            merged_evidence(self.space, self._evidence, evidence),
        )

    def rows(self, index: Rows) -> DependencyNetwork:
        """Return the joint of some of the rows."""
        return self._with(
            self.conditionals.rows(index), self._row_keys[index], self._evidence[index]
        )

    def _obeying(self, rules: CompiledRules) -> tuple[Joint, Array]:
        from colabel.joint.obeying import drawn_joint, obeying_list

        return obeying_list(self, rules) or drawn_joint(self, rules, _constrained_gibbs)

    def pseudo_log_likelihood(self, Y: ArrayLike) -> Array:
        r"""Return the log-product of the conditionals at label vectors, shape (n,).

        .. math:: \sum_i \log p(y_i \mid x, y_{-i})

        over the labels that are not known by evidence. It ranks the samples in Algorithm 1; it
        is not the logarithm of a probability, and does not sum to one.

        Parameters
        ----------
        Y : array-like of shape (n, d) or (d,)
            Label values, none missing.
        """
        codes = codes_of_labels(self.space, Y, self.n_rows)
        if (codes == MISSING).any():
            raise ValueError(
                f"{int((codes == MISSING).sum())} labels are missing, but the product of"
                " conditionals needs all of them. Use log_prob, which leaves them out."
            )
        found: Array = evaluate(codes[None], self.conditionals, self._evidence).log_product[0]
        return found

    def diagnostics(self) -> GibbsDiagnostics:
        """Return split R-hat, effective sample size and flips a sweep, per row and label.

        Computed once; its `to_text` is a table for people. R-hat tells most with `n_chains` of
        two or more: one chain is only compared with its own other half.
        """
        return self._diagnostics

    @cached_property
    def _diagnostics(self) -> GibbsDiagnostics:
        def answer(_: DependencyNetwork, found: Run) -> GibbsDiagnostics:
            assert found.samples is not None
            return diagnose(self.space.names, found.samples, self.space.cardinalities)

        parts = self._by_blocks(answer)
        return GibbsDiagnostics(
            self.space.names,
            parts[0].n_samples,
            np.concatenate([part.r_hat for part in parts]),
            np.concatenate([part.ess for part in parts]),
            np.concatenate([part.flips for part in parts]),
        )

    # Helpers

    def _log_prob_of(self, queries: Codes) -> Array:
        """Return estimated log-probabilities (n, q) of the observed entries of (n, q, d)."""
        return self._run(queries=queries).reached

    def _columns(self, shares: Array) -> list[Array]:
        """Cut shares (n, e) of label columns into those of each label."""
        owner = column_owner(self.space.cardinalities)
        edges = np.searchsorted(owner, np.arange(1, self.space.n_labels))
        return np.split(shares, edges, axis=1)

    def _candidates(self, samples: NDArray[np.int16], known: Codes, k: int) -> list[list[int]]:
        """Return k different vectors: the most frequent of samples (m, d), then others."""
        distinct, counts = np.unique(samples, axis=0, return_counts=True)
        chosen: list[list[int]] = distinct[np.argsort(-counts, kind="stable")[:k]].tolist()
        if len(chosen) == k:
            return chosen
        seen = {tuple(vector) for vector in chosen}
        others = (y for y in _vectors(self.space.cardinalities, known) if y not in seen)
        return chosen + [list(y) for y in itertools.islice(others, k - len(chosen))]


def _constrained_gibbs(joint: Joint, rules: CompiledRules) -> Weighted:
    """Sweep over labels as far as the rules let them change, from many starts that obey.

    One label at a time may not lead from everywhere to everywhere that obeys, so there are as many
    chains as draws, each from a draw of independent labels with the network's marginals.
    """
    from colabel.joint.obeying import Weighted, proposals

    assert isinstance(joint, DependencyNetwork)
    _, codes = proposals(joint, rules)
    size, n_rows, d = codes.shape
    known = joint._evidence
    codes = np.where(known == MISSING, codes, known).astype(np.int32)
    obeyed = rules.may_hold(codes.reshape(-1, d)).reshape(size, n_rows)
    rng = np.random.default_rng(joint._seed)
    for _ in range(_CONSTRAINED_SWEEPS):
        for i in rng.permutation(d).tolist():
            table = joint.conditionals.log_prob(codes, i)
            for value in range(table.shape[2]):
                changed = codes.reshape(-1, d).copy()
                changed[:, i] = value
                allowed = rules.may_hold(changed, i).reshape(size, n_rows)
                table[:, :, value][~allowed] = -np.inf
            stuck = np.isneginf(table).all(axis=2)
            table[stuck] = 0.0
            drawn = draw(table, rng.random((size, n_rows)))
            free = ~stuck & (known[:, i] == MISSING)
            codes[:, :, i] = np.where(free, drawn, codes[:, :, i])
    own = joint.sample_codes(size, rng)
    obeying = rules.may_hold(own.reshape(-1, d)).reshape(size, n_rows).sum(axis=0)
    log_mass = np.log((obeying + 0.5) / (size + 1.0))
    log_mass[~obeyed.any(axis=0)] = -np.inf
    log_weights = np.where(obeyed, 0.0, -np.inf)

    def best(k: int) -> tuple[Prefixes, bool]:
        rows, vectors = np.tile(np.arange(n_rows), size), codes.reshape(-1, d)
        kept = log_weights.ravel() > -np.inf
        keyed = np.column_stack([rows, vectors])[kept]
        distinct, count = np.unique(keyed, axis=0, return_counts=True)
        order = np.lexsort((-count, distinct[:, 0]))
        distinct = distinct[order]
        rank = np.arange(len(order)) - np.searchsorted(distinct[:, 0], distinct[:, 0])
        distinct = distinct[rank < k]
        place, most = distinct[:, 0].astype(np.intp), distinct[:, 1:].astype(np.int32)
        return Prefixes(place, most, joint.log_prob_at(place, most)), False

    how = (
        f"Approximate: Gibbs sampling of labels that obey the rules, {size} chains a row of "
        f"{_CONSTRAINED_SWEEPS} sweeps each from draws of independent labels that obey."
    )
    return Weighted(codes, log_weights, log_mass, best, how)


def _vectors(cardinalities: tuple[int, ...], known: Codes) -> Iterator[tuple[int, ...]]:
    """All label vectors once: those that agree with the known labels first."""
    allowed = [
        range(size) if code == MISSING else (int(code),)
        for size, code in zip(cardinalities, known, strict=True)
    ]
    yield from itertools.product(*allowed)
    for vector in itertools.product(*map(range, cardinalities)):
        if any(value not in values for value, values in zip(vector, allowed, strict=True)):
            yield vector


def shared_order(seed: int, n_labels: int) -> Indices:
    """Return a random order (d,) of the labels that depends on the seed alone."""
    orders = random_orders(chain_keys(np.zeros(1, dtype=np.uint64), 1, seed), n_labels)
    first: Indices = orders[0, 0]
    return first


def check_conditionals(space: LabelSpace, conditionals: Conditionals) -> None:
    """Raise ValueError unless the conditionals are of the labels of the space."""
    if tuple(conditionals.cardinalities) != space.cardinalities:
        raise ValueError(
            f"The conditionals are of labels with {tuple(conditionals.cardinalities)} values but"
            f" the label space has {space.cardinalities}: give one conditional for each label."
        )
