"""Dependency networks: a conditional for each label, given all others.

By Gibbs sampling where conditionals are probabilities, by fixed points where they only decide.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from colabel.core.arrays import Array, Codes, Indices, Keys, Rows, column_owner, row_slices
from colabel.core.warning import warn
from colabel.joint.base import APPROXIMATE, Exactness, Joint
from colabel.joint.chain.prefixes import Prefixes
from colabel.joint.elimination import draw
from colabel.joint.gibbs.diagnostics import GibbsDiagnostics, diagnose
from colabel.joint.gibbs.kernels import chain_keys, distinct_keys, random_orders
from colabel.joint.gibbs.sampler import (
    Conditionals,
    GibbsOptions,
    LinearConditionals,
    Run,
    interleaved,
    run,
)
from colabel.joint.user_terms import merged_evidence
from colabel.joint.vectors import VectorList
from colabel.labels import MISSING, LabelSpace
from colabel.rules import CompiledRules

Marginals = Literal["best", "plain"]

# A conditional that saturates in floating point is still not certain.
_SMALLEST_PROBABILITY = 1e-15
_CONSTRAINED_SWEEPS = 10  # of each of many chains, under rules


class DependencyNetwork(Joint):
    r"""One conditional ``p(y_i | x, y_-i)`` for every label; answers come from Gibbs sampling.

    This is the joint of conditional dependency networks (CDN; Guo & Gu, 2011). The conditionals
    are learned separately and need not share any joint distribution. What stands for it is the
    distribution Gibbs sampling converges to, and every answer is an estimate of that:

    - `mode` is Algorithm 1: after `burn_in` sweeps, of the samples of `n_sweeps` sweeps the
      `n_best` with the highest product of conditionals decide, each label by its majority among
      them (a tie goes to the smaller code). ``marginals="plain"`` lets all samples decide.
    - `marginals` are averages of the conditional probabilities over all kept sweeps
      (Rao-Blackwell), which are never exactly 0 or 1.
    - `log_prob` and `pair_marginals` are the probability that one more sweep over the observed
      labels ends there, averaged over the samples (Ritter & Tanner, 1992): positive, summing to
      one, and equal to the marginals for a single label.
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
        For n rows. Linear ones are sampled by compiled code, O(d) a flip. Others are
        evaluated for all rows and chains at once, so all of them sweep in one random order.
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
                " integers, one per row."
            )
        super().__init__(space, n_rows)
        self.conditionals = conditionals
        self._plan = plan = GibbsOptions(burn_in, n_sweeps, n_best, n_chains)
        self._deciding, self._seed, self._n_jobs = marginals, int(seed), n_jobs
        self._row_keys = keys.astype(np.uint64)
        self._evidence = np.full((n_rows, space.n_labels), MISSING, dtype=np.int32)
        self.how = (
            f"Approximate: Gibbs sampling, {plan.n_chains} chain(s) per row, {plan.burn_in} sweeps"
            f" of burn-in and {plan.n_sweeps} kept; see diagnostics()."
        )

    # Sampling

    def _run(
        self, plan: GibbsOptions | None = None, keys: Keys | None = None, **wanted: Any
    ) -> Run:
        plan = plan or self._plan
        if keys is None:
            keys = chain_keys(self._row_keys, plan.n_chains, self._seed)
        order = self._shared_order()
        model, known, n_jobs = self.conditionals, self._evidence, self._n_jobs
        return run(model, plan, keys, known, order=order, n_jobs=n_jobs, **wanted)

    def _shared_order(self) -> Indices | None:
        """Return one order for all rows, unless the conditionals do not mind one each.

        Compiled loops (see `run`) go row by row. Objects that are evaluated for all rows at once
        would be evaluated for every label once per order.
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
        blocks = [self.rows(chunk) for chunk in row_slices(self.n_rows, self.codes_at_once, row)]
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

        def answer(block: DependencyNetwork, run: Run) -> tuple[Codes, Array]:
            n_samples = self._plan.n_chains * self._plan.n_sweeps
            codes, _ = VectorList.of_draws(self.space, interleaved(run, n_samples)).top_k_codes(k)
            log_prob = block._log_prob_of(codes)
            order = np.argsort(-log_prob, axis=1, kind="stable")
            sorted_codes = np.take_along_axis(codes, order[:, :, None], axis=1)
            return sorted_codes, np.take_along_axis(log_prob, order, axis=1)

        best = self._by_blocks(answer)
        return np.concatenate([c for c, _ in best]), np.concatenate([p for _, p in best])

    def sample_codes(self, size: int, rng: Generator) -> Codes:
        """Return draws (size, n, d): successive sweeps of new chains, interleaved."""
        n_chains = self._plan.n_chains
        if not size or not self.n_rows:
            return np.empty((size, self.n_rows, self.space.n_labels), dtype=np.int32)
        plan = GibbsOptions(self._plan.burn_in, -(-size // n_chains), 1, n_chains)
        # Rows with equal keys share their answers, but should not draw the same vectors.
        keys = chain_keys(distinct_keys(self._row_keys), n_chains, int(rng.integers(1 << 63)))
        return interleaved(self._run(plan, keys, keep_samples=True), size)

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
        return self._copy(_evidence=merged_evidence(self.space, self._evidence, evidence))

    def rows(self, index: Rows) -> DependencyNetwork:
        """Return the joint of some of the rows."""
        part = self.conditionals.rows(index)
        return self._copy(
            conditionals=part,
            n_rows=part.n_rows,
            _row_keys=self._row_keys[index],
            _evidence=self._evidence[index],
        )

    def _obeying(self, rules: CompiledRules) -> tuple[Joint, Array]:
        from colabel.joint.obeying import obeying_list

        return obeying_list(self, rules) or _constrained_gibbs(self, rules)

    def diagnostics(self) -> GibbsDiagnostics:
        """Return split R-hat, effective sample size and flips a sweep, per row and label.

        Computed once; its `to_text` is a table for people. R-hat tells most with `n_chains` of
        two or more: one chain is only compared with its own other half.
        """
        return self._diagnostics

    @cached_property
    def _diagnostics(self) -> GibbsDiagnostics:
        def answer(_: DependencyNetwork, found: Run) -> GibbsDiagnostics:
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
        return self._run(queries=queries).log_prob

    def _columns(self, shares: Array) -> list[Array]:
        """Cut shares (n, e) of label columns into those of each label."""
        owner = column_owner(self.space.cardinalities)
        edges = np.searchsorted(owner, np.arange(1, self.space.n_labels))
        return np.split(shares, edges, axis=1)


def _constrained_gibbs(joint: DependencyNetwork, rules: CompiledRules) -> tuple[Joint, Array]:
    """Sweep over labels as far as the rules let them change, from many starts that obey.

    One label at a time may not lead from everywhere to everywhere that obeys, so there are as many
    chains as draws, each from a draw of independent labels with the network's marginals.
    """
    from colabel.joint.obeying import drawn, proposals

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
            values = draw(table, rng.random((size, n_rows)))
            free = ~stuck & (known[:, i] == MISSING)
            codes[:, :, i] = np.where(free, values, codes[:, :, i])
    own = joint.sample_codes(size, rng)
    obeying = rules.may_hold(own.reshape(-1, d)).reshape(size, n_rows).sum(axis=0)
    log_mass = np.log((obeying + 0.5) / (size + 1.0))
    log_mass[~obeyed.any(axis=0)] = -np.inf
    log_weights = np.where(obeyed, 0.0, -np.inf)
    dead = np.isneginf(log_mass)

    def best(k: int) -> Prefixes:
        listed = VectorList.of_draws(joint.space, codes, np.where(dead, 0.0, log_weights))
        most, of_most = listed.top_k_codes(k)
        place, rank = np.nonzero((of_most > -np.inf) & ~dead[:, None])
        vectors = most[place, rank]
        return Prefixes(place, vectors, joint.log_prob_at(place, vectors))

    how = (
        f"Approximate: Gibbs sampling of labels that obey the rules, {size} chains per row of "
        f"{_CONSTRAINED_SWEEPS} sweeps each from draws of independent labels that obey."
    )
    return drawn(joint, rules, codes, log_weights, log_mass, best, how), log_mass


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


@dataclass(frozen=True, eq=False, repr=False)
class FixedPointReport:
    """How discrete inference ended for each row.

    Attributes
    ----------
    status : (n,) array of str
        "converged": a pass changed nothing. "cycled": the labels came back to an earlier vector
        and would go round for ever. "capped": neither happened within the passes allowed.
    passes : (n,) array of int
        Passes over the labels until then.
    """

    status: NDArray[np.str_]
    passes: Indices

    @property
    def counts(self) -> dict[str, int]:
        """Number of rows of each status."""
        return {
            name: int((self.status == name).sum()) for name in ("converged", "cycled", "capped")
        }

    def to_text(self) -> str:
        """Return one line with the counts."""
        listed = ", ".join(f"{count} {name}" for name, count in self.counts.items())
        most = int(self.passes.max()) if self.passes.size else 0
        return f"{len(self.status)} rows: {listed}; at most {most} passes."

    def __repr__(self) -> str:
        return f"FixedPointReport({self.to_text()})"


def fixed_point(
    model: Conditionals,
    initial: Codes,
    order: Indices,
    evidence: Codes,
    max_iterations: int,
) -> tuple[Codes, FixedPointReport]:
    """Set each label in turn to its most probable value given the others, until none changes.

    A pass is a function of the label vector, so a row that meets a vector it has met before
    will go round for ever. Such a row is decided as Algorithm 1 decides its samples: by the
    marginals of the vectors it visits for ever, a tie going to the smaller code.

    Parameters
    ----------
    initial : (n, d)
        Where to start; labels known by the evidence start there.
    order : (d,)
        In which a pass visits the labels.
    evidence : (n, d)
        Known labels, MISSING elsewhere; they never change.
    """
    labels = np.where(evidence == MISSING, initial, evidence).astype(np.int32)
    status = np.full(len(labels), "capped", dtype="<U9")
    passes = np.full(len(labels), max_iterations, dtype=np.intp)
    moving = np.arange(len(labels))
    past = labels[None].copy()  # (passes + 1, moving rows, d)
    for number in range(1, max_iterations + 1):
        if not len(moving):
            break
        part = model if len(moving) == len(labels) else model.rows(moving)
        now = one_pass(part, past[-1], order, evidence[moving])
        met = (past == now).all(axis=2)  # (passes + 1, moving rows)
        fixed, repeated = met[-1], met.any(axis=0)
        labels[moving] = now
        for row in np.flatnonzero(repeated & ~fixed):
            visited = past[int(met[:, row].argmax()) :, row]
            labels[moving[row]] = [np.bincount(column).argmax() for column in visited.T]
        status[moving[repeated]] = np.where(fixed, "converged", "cycled")[repeated]
        passes[moving[repeated]] = number
        past = np.concatenate([past, now[None]])[:, ~repeated]
        moving = moving[~repeated]
    return labels, FixedPointReport(status, passes)


def one_pass(model: Conditionals, labels: Codes, order: Indices, evidence: Codes) -> Codes:
    """Set every label that is not known to its most probable value, in order; all rows at once."""
    labels = labels.copy()
    for i in order:
        best = model.log_prob(labels[None], int(i))[0].argmax(axis=1)
        labels[:, i] = np.where(evidence[:, i] == MISSING, best, labels[:, i])
    return labels


class DiscreteDependencyNetwork(Joint):
    """One rule ``y_i = f_i(x, y_-i)`` for every label; a label vector that obeys them all.

    The extension of conditional dependency networks to classifiers without probabilities, such
    as support vector machines (Guo & Gu, 2011, Algorithm 2): each label in turn is set to the
    most probable value of its conditional, until a pass over the labels changes nothing. There
    may be no such vector, or several; `report` says how it ended for each row. Rows that go
    round in a cycle are decided by the majority, label by label, over the cycle.

    It answers `mode`, also `given` some labels. It has no probabilities.

    Parameters
    ----------
    space : LabelSpace
        Names and values of the d labels.
    conditionals : Conditionals
        For n rows; their most probable values count.
    initial : array-like of int of shape (d,) or (n, d), optional
        Codes to start from, by default 0.
    max_iterations : int
        Most passes over the labels.
    seed : int
        Seed of the order in which a pass visits the labels, one for all rows.

    Examples
    --------
    >>> import numpy as np
    >>> from colabel.joint import DiscreteDependencyNetwork, LinearConditionals
    >>> from colabel.labels import LabelSpace
    >>> space = LabelSpace(("a", "b"), (np.array([0, 1]), np.array([0, 1])), "matrix")
    >>> base, weights = np.array([[1.0, -1.0]]), np.array([[0.0, 2.0], [0.0, 0.0]])
    >>> rules = LinearConditionals(base, weights, (2, 2))  # a is 1, and brings b along
    >>> joint = DiscreteDependencyNetwork(space, rules)
    >>> joint.mode()
    array([[1, 1]])
    >>> joint.report.counts
    {'converged': 1, 'cycled': 0, 'capped': 0}
    """

    exact: Exactness = APPROXIMATE

    def __init__(
        self,
        space: LabelSpace,
        conditionals: Conditionals,
        *,
        initial: ArrayLike | None = None,
        max_iterations: int = 100,
        seed: int = 0,
    ) -> None:
        check_conditionals(space, conditionals)
        if max_iterations < 1:
            raise ValueError(f"max_iterations={max_iterations!r} must be at least 1.")
        shape = (conditionals.n_rows, space.n_labels)
        start = np.zeros(shape) if initial is None else np.broadcast_to(np.asarray(initial), shape)
        super().__init__(space, conditionals.n_rows)
        self.conditionals = conditionals
        self._max_iterations, self._seed = max_iterations, int(seed)
        self._initial = start.astype(np.int32)
        self._evidence = np.full(shape, MISSING, dtype=np.int32)
        self.how = (
            "Approximate: labels are set in turn to what their conditionals say, at most"
            f" {max_iterations} times each, until none changes; see report."
        )

    @cached_property
    def _ended(self) -> tuple[Codes, FixedPointReport]:
        order = shared_order(self._seed, self.space.n_labels)
        ended = fixed_point(
            self.conditionals, self._initial, order, self._evidence, self._max_iterations
        )
        n_capped = ended[1].counts["capped"]
        if n_capped:
            warn(
                f"{n_capped} of {self.n_rows} rows had not settled after {self._max_iterations}"
                " passes over the labels. Raise max_iterations.",
                ConvergenceWarning,
            )
        return ended

    @property
    def report(self) -> FixedPointReport:
        """How the iteration ended for each row: converged, cycled or capped."""
        return self._ended[1]

    def mode_codes(self) -> Codes:
        """Return the codes (n, d) at which the iteration ended."""
        return self._ended[0]

    def marginal_tables(self) -> list[Array]:
        """Not available: there are no probabilities."""
        self._unavailable("marginals")

    def log_prob_codes(self, codes: Codes) -> Array:
        """Not available: there are no probabilities."""
        self._unavailable("log_prob")

    def top_k_codes(self, k: int) -> tuple[Codes, Array]:
        """Not available: there are no probabilities."""
        self._unavailable("top_k")

    def sample_codes(self, size: int, rng: Generator) -> Codes:
        """Not available: there are no probabilities."""
        self._unavailable("sample")

    def pair_table(self, i: int, j: int) -> Array:
        """Not available: there are no probabilities."""
        self._unavailable("pair_marginals")

    def given_codes(self, evidence: Codes) -> DiscreteDependencyNetwork:
        """Return the network with the known entries of evidence (n, d) clamped."""
        return self._copy(_evidence=merged_evidence(self.space, self._evidence, evidence))

    def _obeying(self, rules: CompiledRules) -> tuple[Joint, Array]:
        self._unavailable("subject_to")

    def rows(self, index: Rows) -> DiscreteDependencyNetwork:
        """Return the joint of some of the rows."""
        part = self.conditionals.rows(index)
        known, initial = self._evidence[index], self._initial[index]
        return self._copy(conditionals=part, n_rows=part.n_rows, _evidence=known, _initial=initial)

    def _unavailable(self, question: str) -> NoReturn:
        raise NotImplementedError(
            f"{question} needs probabilities, but the classifiers of this dependency network only"
            " decide: it answers mode(), so decide by 'subset'. For probabilities learn it from"
            " classifiers with predict_proba, such as logistic regression or"
            " sklearn.calibration.CalibratedClassifierCV."
        )
