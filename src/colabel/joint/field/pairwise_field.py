"""PairwiseField: labels that depend on each other in pairs, along any graph."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from colabel.core.arrays import Array, Codes, Indices, Rows
from colabel.joint._long_sums import less, long_sum
from colabel.joint.base import Joint, common
from colabel.joint.elimination import Elimination, eliminate, eliminate_listed, merged
from colabel.joint.field import engine as engines
from colabel.joint.field.approximate import BeliefPropagation, GibbsField
from colabel.joint.field.tables import FieldTables, checked_field, checked_start
from colabel.joint.user_terms import require_possible
from colabel.labels import MISSING, LabelSpace
from colabel.rules import CompiledRules

# Enumeration takes as long for this many vectors as variable elimination for one table entry.
_ENTRY_COST = 8
# Above this many entries, check whether most of them are impossible in every row.
_MANY_ENTRIES = 1 << 12


def engine_of(
    field: FieldTables, options: engines.FieldOptions, row_keys: NDArray[np.uint64], start: Codes
) -> engines.FieldEngine:
    """Return the engine for a connected field.

    "auto" enumerates if all label vectors of a row fit into the memory and are not many more
    than the table entries of variable elimination; eliminates if these fit; and otherwise
    propagates beliefs. Fields whose scores are far from zero are never enumerated.
    """
    most = options.most_entries

    def eliminated(entries: int) -> Elimination | None:
        return eliminate(field.cardinalities, field.edges, entries)

    if field.n_labels == 1:
        alone = eliminated(max(most, *field.cardinalities))
        assert alone is not None
        return engines.JunctionTree(field, options, alone)
    if options.engine == "belief_propagation":
        return BeliefPropagation(field, options, row_keys, start)
    if options.engine == "gibbs":
        return GibbsField(field, options, row_keys, start)
    n_states = math.prod(field.cardinalities)
    if options.engine == "enumeration":
        _require(n_states <= most, field, options, f"all {n_states} label vectors of a row")
    if field.is_far:
        # Only elimination sums long numbers; its tables have at most twice as many entries as there
        # are label vectors.
        elimination = eliminated(2 * most)
        if elimination is not None:
            return engines.JunctionTree(field, options, elimination)
    if options.engine == "enumeration":
        return engines.Enumeration(field, options)
    elimination = eliminated(most)
    if field.has_zeros and (elimination is None or elimination.n_entries > _MANY_ENTRIES):
        listed = eliminate_listed(field.cardinalities, field.edges, field.possible, most)
        if listed and (elimination is None or 4 * listed.n_entries < elimination.n_entries):
            return engines.JunctionTree(field, options, listed)
    if options.engine == "junction_tree":
        _require(elimination is not None, field, options, "the tables of a row")
    if elimination is None:
        # Enumeration needs no more than elimination, so it may fit where that does not.
        if n_states <= most:
            return engines.Enumeration(field, options)
        return BeliefPropagation(field, options, row_keys, start)
    small = n_states <= min(_ENTRY_COST * elimination.n_entries, most)
    if options.engine == "auto" and small:
        return engines.Enumeration(field, options)
    return engines.JunctionTree(field, options, elimination)


def _require(fits: bool, field: FieldTables, options: engines.FieldOptions, what: str) -> None:
    """Raise ValueError if an engine that the user named needs too much memory."""
    if not fits:
        raise ValueError(
            f"engine={options.engine!r} cannot answer a component of {field.n_labels} labels and "
            f"{len(field.edges)} edges: {what} need more than memory={options.memory} bytes. "
            "Raise memory, or use engine='auto' or 'belief_propagation'."
        )


class PairwiseField(Joint):
    r"""Labels with a score for each value and for each pair of values along the edges of a graph.

    .. math:: P(y \mid x) = \frac{1}{Z(x)} \exp\Big(\sum_i u_i(y_i; x)
              + \sum_{(i, j)} t_{ij}(y_i, y_j; x)\Big)

    This is the joint of pairwise conditional random fields. The connected components of the graph
    are independent and answered one by one; a label without edges has a closed form. For the
    others there are four engines:

    ==================== ==================================================================
    enumeration          exact: all label vectors at once, by matrix products
    junction_tree        exact: variable elimination in min-fill order; cost grows with
                         the treewidth of the graph, not with the number of labels
    belief_propagation   marginals by damped loopy sum-product, log Z by Bethe's estimate
                         (both exact if the component is a tree)
    gibbs                marginals and pairs by sampling, log Z by the estimated probability
                         of the mode
    ==================== ==================================================================

    "auto" takes the cheaper of the exact two if one fits into `memory`, and belief propagation
    otherwise. `how` says what was chosen, `report` says it in detail.

    Where the engine is not exact, `mode` comes from max-product, from a few sweeps of sum-product
    (or the best sample) and from `start`, each improved by changing one or two labels at a time
    (ICM): the best one wins, so that it is never worse than `start`. `top_k` searches the
    neighbourhood of the mode; `sample` draws by Gibbs sampling; `log_prob` uses the estimate of
    log Z. Modes and sums come from different computations there: on a tree max-product proves
    the mode and `top_k`, however the sums are estimated. `exact` says so, question by question.

    Parameters
    ----------
    space : LabelSpace
        Names and values of the d labels.
    unary : sequence of d arrays of shape (n, K_i)
        Score of each value of each label, for each row; -inf forbids.
    edges : array-like of int of shape (E, 2)
        Pairs of labels, each pair at most once.
    tables : sequence of E arrays of shape (n, K_i, K_j) or (1, K_i, K_j)
        Score of each pair of values; one row if the table does not depend on x.
    start : array-like of int of shape (n, d), optional
        Codes of good label vectors, such as those of independent models; by default the best value
        of each label by its own scores. A search for the mode that is not exact starts here too.
    engine : {"auto", "enumeration", "junction_tree", "belief_propagation", "gibbs"}
        How components of two labels and more are answered.
    memory : int
        Bytes that the tables of one row may take; it bounds the treewidth. Larger batches are
        cut into pieces.
    damping : float
        Share of the old message that stays in belief propagation, 0 <= damping < 1. Without
        effect on trees, which need none.
    tol : float
        Belief propagation stops when no message changes by more, in nats.
    max_iter : int
        Belief propagation stops after as many iterations, converged or not.
    n_chains, n_sweeps, burn_in : int
        Gibbs sampling: chains per row, sweeps that each chain keeps, and sweeps that it discards.
    random_state : int
        Seed of the answers that come from Gibbs sampling, except `sample`.
    n_jobs : int or None
        Threads (None: all cores); they do not change the answers.

    Attributes
    ----------
    edges : ndarray of shape (E, 2)
        The edges, i < j, in ascending order; those of known labels are gone after `given`.
    engine : str
        Names of the engines in use, joined by " + ".
    exact : Exactness
        The questions answered exactly, by all engines in use: all of them by enumeration and
        junction trees, and by belief propagation on trees.
    how : str
        What was chosen, in a sentence.
    report : FieldReport
        Per component: engine, treewidth, convergence; `report.to_text()` is for people.

    Examples
    --------
    Three labels in a circle that would rather be equal:

    >>> import numpy as np
    >>> from colabel.joint import PairwiseField
    >>> from colabel.labels import LabelSpace
    >>> zero_one = np.array([0, 1])
    >>> space = LabelSpace(("a", "b", "c"), (zero_one,) * 3, "matrix")
    >>> unary = [np.array([[0.0, 1.0]]), np.zeros((1, 2)), np.zeros((1, 2))]
    >>> equal = np.array([[[1.0, 0.0], [0.0, 1.0]]])
    >>> joint = PairwiseField(space, unary, [(0, 1), (1, 2), (0, 2)], [equal] * 3)
    >>> joint
    <PairwiseField: 1 row, 3 labels, exact>
    >>> joint.marginals().round(3)
    array([[0.731, 0.642, 0.642]])
    >>> joint.top_k(2).labels[0]
    array([[1, 1, 1],
           [0, 0, 0]])
    >>> joint.given({"a": 0}).mode()
    array([[0, 0, 0]])
    >>> print(joint.report.to_text())
    3 labels (a, b, c): enumeration, exact, all 8 label vectors
    """

    def __init__(
        self,
        space: LabelSpace,
        unary: Sequence[ArrayLike],
        edges: ArrayLike,
        tables: Sequence[ArrayLike],
        *,
        start: ArrayLike | None = None,
        engine: engines.Engine = "auto",
        memory: int = 2**24,
        damping: float = 0.3,
        tol: float = 1e-6,
        max_iter: int = 200,
        n_chains: int = 4,
        n_sweeps: int = 500,
        burn_in: int = 100,
        random_state: int = 0,
        n_jobs: int | None = None,
    ) -> None:
        iterations = (damping, tol, max_iter)
        options = engines.FieldOptions(
            engine, memory, *iterations, n_chains, n_sweeps, burn_in, random_state, n_jobs
        )
        field = checked_field(space, unary, edges, tables)
        row_keys = np.arange(field.n_rows, dtype=np.uint64)
        self._set(space, field, options, row_keys, checked_start(field, start))

    def _set(
        self,
        space: LabelSpace,
        field: FieldTables,
        options: engines.FieldOptions,
        row_keys: NDArray[np.uint64],
        start: Codes,
        like: Sequence[tuple[Indices, engines.FieldEngine]] = (),
    ) -> None:
        super().__init__(space, field.n_rows)
        self._field = field
        self._options = options
        self._row_keys = row_keys
        self._start = start
        # the labels of each connected component, ascending, and the engine that answers for them
        self._parts: list[tuple[Indices, engines.FieldEngine]] = []
        for labels in field.components():
            part = field.restricted(labels), start[:, labels]
            engine = next((e for known, e in like if known[0] == labels[0]), None)
            if isinstance(engine, engines.JunctionTree):  # whatever is impossible in these rows
                self._parts.append((labels, engine._of(part[0])))
            else:
                self._parts.append((labels, engine_of(part[0], options, row_keys, part[1])))
        self.exact = common(engine.exact for _, engine in self._parts)
        self.how = self._sentence()

    def _with(
        self,
        field: FieldTables,
        row_keys: NDArray[np.uint64],
        start: Codes,
        like: Sequence[tuple[Indices, engines.FieldEngine]] = (),
    ) -> PairwiseField:
        """Return a field answered the same way, from tables that need no check."""
        return PairwiseField._unchecked(self.space, field, self._options, row_keys, start, like)

    # What and how

    @property
    def edges(self) -> Indices:
        """The edges (E, 2), i < j, ascending."""
        return np.array(self._field.edges, dtype=np.intp).reshape(-1, 2)

    @property
    def unary(self) -> tuple[Array, ...]:
        """Scores of the labels' values, d arrays (n, K_i)."""
        return self._field.unary

    @property
    def tables(self) -> tuple[Array, ...]:
        """Scores of pairs of values in the order of `edges`: (n, K_i, K_j) or (1, K_i, K_j)."""
        return self._field.tables

    @property
    def engine(self) -> str:
        """Names of the engines in use, joined by " + "; "closed_form" if there are no edges."""
        names = dict.fromkeys(engine.name for _, engine in self._parts)
        used = [name for name in names if name != "closed_form"]
        return " + ".join(used) or "closed_form"

    @property
    def report(self) -> engines.FieldReport:
        """How each component is answered; this runs belief propagation if it has not run."""
        return engines.FieldReport(
            tuple(
                engines.ComponentReport(
                    tuple(self.space.names[i] for i in labels),
                    engine.name,
                    engine.exact,
                    engine.treewidth,
                    engine.ended(),
                    engine.note,
                )
                for labels, engine in self._parts
            )
        )

    def _sentence(self) -> str:
        """Say in a sentence how the answers are computed."""
        counts: dict[str, int] = {}
        for labels, engine in self._parts:
            name = engine.name.replace("_", " ")
            counts[name] = counts.get(name, 0) + len(labels)
        listed = ", ".join(f"{name} ({count} labels)" for name, count in counts.items())
        listed = listed.replace("(1 labels)", "(1 label)")
        said = f"{str(self.exact).capitalize()}: {listed}"
        if self.exact.all:
            return f"{said}."
        if "log_prob" in self.exact:
            return f"{said}; modes are searched for, see report."
        return f"{said}; log_prob uses an estimate of log Z, see report."

    # Answers

    def mode_codes(self) -> Codes:
        """Return the codes (n, d) of the most probable vectors found."""
        if self._field.has_zeros:
            self.log_partition()  # raises an error for rows without any possible vector
        codes = np.empty((self.n_rows, self.space.n_labels), dtype=np.int32)
        for labels, engine in self._parts:
            codes[:, labels] = engine.k_best(1)[0][:, 0]
        return codes

    def marginal_tables(self) -> list[Array]:
        """Return P(y_i) for each label as an array (n, K_i)."""
        self.log_partition()  # raises an error for rows without any possible vector
        tables: dict[int, Array] = {}
        for labels, engine in self._parts:
            tables.update(zip(labels, engine.sums().marginals, strict=True))
        return [tables[i] for i in range(self.space.n_labels)]

    def log_partition(self) -> Array:
        """Return log Z of each row, shape (n,); an estimate where `exact` lacks "sums".

        Raises
        ------
        ValueError
            If some row has no possible label vector.
        """
        totals = self._log_partition
        empty = np.flatnonzero(np.isneginf(totals))
        if empty.size:
            raise ValueError(
                f"{empty.size} of {self.n_rows} rows have no possible label vector (the first is "
                f"row {empty[0]}): too many of their scores are -inf."
            )
        return totals

    def score_codes(self, codes: Codes) -> Array:
        """Return the scores (n,) of label vectors (n, d): log-probabilities plus log Z."""
        return self._field.score(codes)

    def log_prob_codes(self, codes: Codes) -> Array:
        """Return the log-probability (n,) of the observed entries of codes (n, d)."""
        log_partition = self.log_partition()
        partial = (codes == MISSING).any(axis=1)
        log_prob = np.empty(self.n_rows)
        whole, rows = np.flatnonzero(~partial), np.flatnonzero(partial)
        log_prob[whole] = self.log_prob_at(whole, codes[whole])
        if rows.size:
            field = self._field.rows(rows).conditioned(codes[rows])
            # The scores of vectors that agree are unchanged, so this is their share of Z. An
            # estimate of a share may come out above one.
            known = self._with(field, self._row_keys[rows], self._start[rows])
            share = known._log_partition - log_partition[rows]
            if field.is_far:
                share = less(known._long_partition, self._long_partition[:, rows])
            log_prob[rows] = np.minimum(share, 0.0)
        return log_prob

    def log_prob_at(self, rows: Indices, codes: Codes) -> Array:
        """Return the log-probability (m,) of codes (m, d), each in one of the rows (m,)."""
        if (codes == MISSING).any():
            return super().log_prob_at(rows, codes)
        field, log_partition = self._field.rows(rows), self.log_partition()
        if field.is_far:
            score = long_sum(field.score_terms(codes), (len(rows),))
            return np.minimum(less(score, self._long_partition[:, rows]), 0.0)
        return field.score(codes) - log_partition[rows]

    def top_k_codes(self, k: int) -> tuple[Codes, Array]:
        """Return codes (n, k, d) and log-probabilities (n, k), best first."""
        (_, first), *others = self._parts
        codes, scores = first.k_best(k)
        for _, engine in others:
            codes, scores = _merged(codes, scores, *engine.k_best(k), k)
        codes = codes[:, :, np.argsort(np.concatenate([labels for labels, _ in self._parts]))]
        if self._field.is_far:  # scores rank vectors, but do not give probabilities
            each = [self.log_prob_codes(vectors) for vectors in codes.transpose(1, 0, 2)]
            return codes, np.stack(each, axis=1)
        return codes, scores - self.log_partition()[:, None]

    def sample_codes(self, size: int, rng: Generator) -> Codes:
        """Return draws (size, n, d)."""
        self.log_partition()
        codes = np.empty((size, self.n_rows, self.space.n_labels), dtype=np.int32)
        for labels, engine in self._parts:
            codes[:, :, labels] = engine.sample(size, rng)
        return codes

    def given_codes(self, evidence: Codes) -> PairwiseField:
        """Return the field given the known entries of evidence (n, d).

        Labels known in all rows leave the graph, so the engine may change.
        """
        start = np.where(evidence == MISSING, self._start, evidence).astype(np.int32)
        joint = self._with(self._field.conditioned(evidence), self._row_keys, start)
        if self._field.has_zeros:
            require_possible(self.space, evidence, np.isneginf(joint._log_partition))
        return joint

    def rows(self, index: Rows) -> PairwiseField:
        """Return the joint of some of the rows."""
        field = self._field.rows(index)
        return self._with(field, self._row_keys[index], self._start[index], self._parts)

    def pair_table(self, i: int, j: int) -> Array:
        """Return P(y_i, y_j) as an array (n, K_i, K_j)."""
        self.log_partition()
        for labels, engine in self._parts:
            if i != j and i in labels and j in labels:
                first, second = np.searchsorted(labels, [i, j])
                return engine.pair_table(int(first), int(second))
        single = self.marginal_tables()
        if i == j:
            return single[i][:, :, None] * np.eye(single[i].shape[1])
        return single[i][:, :, None] * single[j][:, None, :]

    def edge_tables(self) -> list[Array]:
        """Return P(y_i, y_j) of every edge, in the order of `edges`, as arrays (n, K_i, K_j)."""
        tables: dict[tuple[int, int], Array] = {}
        for labels, engine in self._parts:
            inside = set(labels.tolist())
            own = [edge for edge in self._field.edges if edge[0] in inside]
            tables.update(zip(own, engine.edge_tables(), strict=True))
        return [tables[edge] for edge in self._field.edges]

    def entropy(self) -> Array:
        """Return the entropy of each row's distribution in nats, shape (n,), where exact."""
        if "sums" not in self.exact:
            raise NotImplementedError(
                f"The entropy needs exact marginals, but this field is answered by {self.engine}: "
                "average -log_prob over sample(size), or raise `memory` for an exact engine."
            )
        self.log_partition()
        return np.asarray(sum(engine.entropy() for _, engine in self._parts))

    # Rules

    def extended(
        self,
        space: LabelSpace,
        unary: Sequence[Array],
        tables: Mapping[tuple[int, int], Array],
        memory: int,
    ) -> PairwiseField:
        """Return a field with other factors, and perhaps more variables, by the cheapest engine."""
        order = sorted(tables)
        field = FieldTables(tuple(unary), tuple(order), tuple(tables[edge] for edge in order))
        options = replace(self._options, engine="auto", memory=memory)
        start = checked_start(field, None)
        return PairwiseField._unchecked(space, field, options, self._row_keys, start)

    def log_share_of(self, whole: PairwiseField) -> Array:
        """Return log Z less that of another field of the same rows, shape (n,)."""
        if self._field.is_far:
            return less(self._long_partition, whole._long_partition)
        return self._log_partition - whole.log_partition()

    def _obeying(self, rules: CompiledRules) -> tuple[Joint, Array]:
        from colabel.joint.obeying import obeying, obeying_field

        return obeying_field(self, rules) or obeying(self, rules)

    # Helpers

    @cached_property
    def _long_partition(self) -> Array:
        """Return log Z (3, n) as a long number."""
        terms: list[Array] = []
        for _, engine in self._parts:
            log_partition, _, long = engine.sums()
            terms.extend([log_partition] if long is None else long)
        return long_sum(terms, (self.n_rows,))

    @cached_property
    def _log_partition(self) -> Array:
        """Return log Z (n,), -inf where no vector is possible."""
        totals: Array = np.sum([own.sums().log_partition for _, own in self._parts], axis=0)
        return totals


def _merged(
    codes: Codes, scores: Array, more_codes: Codes, more_scores: Array, k: int
) -> tuple[Codes, Array]:
    """Join the best vectors of two independent parts: (n, L, d) and (n, M, e) to (n, k, d + e)."""
    best = merged([scores[:, None, :], more_scores[:, None, :]], k)
    rows, rank = np.arange(len(codes))[:, None], np.arange(best.score.shape[2])
    left, right = best.ranks(rows, np.zeros(1, dtype=np.intp), rank)
    return np.concatenate([codes[rows, left], more_codes[rows, right]], axis=2), best.score[:, 0]
