"""Chain: every label depends on x and on all the labels before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from colabel.core.arrays import Array, Codes, Indices, Rows
from colabel.core.numeric import bin_sums
from colabel.core.parameters import check_integer
from colabel.joint.base import Exactness, Joint, Listed
from colabel.joint.chain import _search
from colabel.joint.chain import prefixes as grown
from colabel.joint.chain._search import BranchAndBound, ChainSearch, above, as_search
from colabel.joint.chain.links import Links, PrunedLinks
from colabel.joint.chain.prefixes import Prefixes
from colabel.joint.sizes import SizeMarginals
from colabel.joint.user_terms import fill_impossible, require_possible
from colabel.joint.vectors import VectorList
from colabel.labels import MISSING, LabelSpace
from colabel.rules import CompiledRules

__all__ = ["Chain", "as_order"]


# Draws that tell which value of each label is likelier, where a search was cut short.
_GUESS_DRAWS = 100


class Chain(Joint):
    r"""Labels in an order, each dependent on all before it.

    .. math:: P(y \mid x) = \prod_k P(y_{o(k)} \mid x, y_{o(0)}, \dots, y_{o(k-1)})

    This is the joint of classifier chains. Any distribution can be written so, and nothing is
    lost by the order itself; what is hard is to ask.

    - The probability of a complete label vector is exact, and samples are exact draws.
    - The mode and `top_k` come from a search, `inference`. Branch and bound is exact and visits
      about d / P(mode) prefixes of a row. A row that needs more than
      `BranchAndBound.max_prefixes` (a million, with a warning; 32768 for "auto", without) keeps
      the best vector found by beams and that of the most probable values of each label alone (of
      marginals from 100 draws where they cannot be enumerated): never less probable than that of
      greedy search, or of these marginals.
    - Marginals, `pair_marginals`, entropy and probabilities of partly observed vectors are sums
      over label vectors: exact by enumeration while there are at most `limit` of them (labels
      that are known do not count), otherwise estimated from `n_samples` draws along the chain,
      marginals as averages of the links' probabilities (Rao-Blackwell).
    - Evidence whose earlier labels are all known clamps the links and costs nothing. Other
      evidence restricts the searches, which stay exact; sums weigh all the prefixes up to the
      last known label, or draws of them (importance weights) where there are more than `limit`.

    `exact` names the questions answered exactly, and `how` says what is not. A search that was
    cut short takes "mode" back: ask again after `mode` or `top_k`.

    Parameters
    ----------
    space : LabelSpace
        Names and values of the d labels.
    order : array-like of int of shape (d,)
        Position in the space of the first, second, ... label of the chain.
    links : Links
        The conditionals, in chain order: `LinearLinks`, `EstimatorLinks`, `TableLinks`, or any
        object like them.
    inference : str or ChainSearch, default="exact"
        "exact" (branch and bound), "auto" (the same, with a beam where that takes more than 32768
        prefixes), "epsilon", "beam", "greedy", "monte_carlo", or one of `BranchAndBound()`,
        `EpsilonSearch(epsilon)`, `BeamSearch(width)` and `MonteCarlo(n_samples, seed)`.
    limit : int, default=65536
        Most label vectors of a row that sums enumerate.
    n_samples : int, default=1000
        Draws per row where there are more.
    seed : int, default=0
        Seed of these draws. All rows share their random numbers, so the answer for a row does
        not depend on the others.

    Examples
    --------
    Greedy search takes the likelier value of `a` and misses the mode.

    >>> import numpy as np
    >>> from colabel.joint.chain import Chain, TableLinks
    >>> from colabel.labels import LabelSpace
    >>> space = LabelSpace(("a", "b"), (np.array([0, 1]), np.array([0, 1])), "matrix")
    >>> a, b_given_a = np.log([[0.6, 0.4]]), np.log([[[0.5, 0.5], [0.9, 0.1]]])
    >>> links = TableLinks.of([a, b_given_a])
    >>> joint = Chain(space, [0, 1], links)
    >>> joint
    <Chain: 1 row, 2 labels, exact>
    >>> joint.mode(), Chain(space, [0, 1], links, inference="greedy").mode()
    (array([[1, 0]]), array([[0, 0]]))
    >>> joint.marginals().round(2), joint.given({"b": 1}).marginals().round(2)
    (array([[0.4 , 0.34]]), array([[0.12, 1.  ]]))
    """

    # vectors of a row that are listed for a mixture; fewer where a greedy chain asks classifiers
    most_listed: ClassVar[int] = 4096
    few_listed: ClassVar[int] = 64

    def __init__(
        self,
        space: LabelSpace,
        order: ArrayLike,
        links: Links,
        *,
        inference: str | ChainSearch = "exact",
        limit: int = 1 << 16,
        n_samples: int = 1000,
        seed: int = 0,
    ) -> None:
        order = as_order(order, space)
        wanted = tuple(space.cardinalities[label] for label in order)
        if links.cardinalities != wanted:
            raise ValueError(
                f"The links are of labels with {links.cardinalities} values but the chain has "
                f"{wanted}: give one link per label, in the order of the chain."
            )
        check_integer("limit", limit, 1)
        check_integer("n_samples", n_samples, 1)
        effort = _search.Effort(limit, n_samples, seed)
        known = np.full((links.n_rows, space.n_labels), MISSING, dtype=np.int32)
        self._set(space, order, links, as_search(inference), effort, known)

    def _set(
        self,
        space: LabelSpace,
        order: Indices,
        links: Links,
        search: ChainSearch,
        effort: _search.Effort,
        known: Codes,
    ) -> None:
        super().__init__(space, links.n_rows)
        self.order = order
        self.links = links
        self.inference = search
        self._effort = effort
        self._known = known  # in chain order
        self._log_evidence: Array | None = None
        summed = bool(effort.allows(grown.log_completions(known, links.cardinalities)).all())
        weighed = bool(effort.allows(_search.bits_before_last(links, known)).all())
        answers = {"mode": search.exact, "sums": summed, "log_prob": weighed}
        self.exact = Exactness(question for question, exactly in answers.items() if exactly)
        self.how = f"{search.how} {self._how_sums(summed)}"

    def _take_back(self, n_cut: int) -> None:
        """Say from now on that the search was cut short in some rows."""
        if n_cut and "mode" in self.exact:
            self.exact = self.exact.without("mode")
            self.how += f" The search was cut short in {n_cut} rows: their modes are not proven."

    def _how_sums(self, enumerable: bool) -> str:
        if enumerable:
            return "Sums exact, by enumeration of the label vectors."
        weighted = ", weighted by the evidence" if (self._known != MISSING).any() else ""
        return (
            f"Marginals and other sums over more than {self._effort.limit} label vectors are "
            f"estimated from {self._effort.n_samples} draws{weighted}."
        )

    def _with(self, links: Links, known: Codes) -> Chain:
        """Return the chain of other rows or with other evidence."""
        return self._unchecked(self.space, self.order, links, self.inference, self._effort, known)

    def top_k_codes(self, k: int) -> tuple[Codes, Array]:
        """Return codes (n, k, d) and log-probabilities (n, k), best first.

        In a tie the smaller code wins at the label earliest in the chain.

        Exact with the inference "exact". "greedy" and "beam" return the k
        last survivors of a beam at least k wide, "epsilon" and "monte_carlo" the best of the
        vectors they have seen.
        """
        k = self._at_most_all(k)
        candidates, cut = self.inference.candidates(self.links, self._known, k)
        self._take_back(int(cut.sum()))
        vectors = grown.joined([candidates, self._of_marginals(np.flatnonzero(cut))])
        codes, log_prob, count = grown.best_distinct(vectors, self.n_rows, k)
        lacking = np.flatnonzero(count < k)
        if lacking.size and not self.inference.exact:
            # an approximate search ran out of vectors; others may still be possible
            some = self.links.take(lacking), self._known[lacking]
            rest, _ = BranchAndBound().candidates(*some, k)
            completed = grown.best_distinct(rest, len(lacking), k)
            codes[lacking], log_prob[lacking], count[lacking] = completed
        fill_impossible(codes, count, self.links.cardinalities)
        return self._to_labels(codes), log_prob - self._evidence_mass()[:, None]

    def _of_marginals(self, rows: Indices) -> Prefixes:
        """Return the vector of the most probable values of each label alone, in some rows."""
        if not rows.size:
            return grown.nothing(self.space.n_labels)
        some, n_samples = self.rows(rows), min(self._effort.n_samples, _GUESS_DRAWS)
        some._effort = replace(self._effort, n_samples=n_samples)
        best = [table.argmax(axis=1) for table in some.marginal_tables()]
        codes = np.stack(best, axis=1).astype(np.int32)[:, self.order]
        log_prob = _search.log_mass(some.links, codes, self._effort)
        return Prefixes(rows, codes, log_prob).take(log_prob > -np.inf)

    @property
    def lists_all(self) -> bool:
        """Whether `listed_above` leaves no vector out, unless it says so."""
        return self.inference.exact or not self.links.costly

    def listed_above(self, least: Array) -> Listed:
        """Return the vectors whose log-probability is at least `least` (n,) in their row."""
        width = self.most_listed if self.lists_all else self.few_listed
        vectors, cut = above(self.links, self._known, least + self._evidence_mass(), width)
        return Listed(vectors.rows, self._to_labels(vectors.codes), cut)

    def log_prob_codes(self, codes: Codes) -> Array:
        """Return the log-probability (n,) of the observed entries of codes (n, d).

        Exact for complete vectors, and for others while no more than `limit` prefixes have to
        be summed.
        """
        asked = codes[:, self.order]
        both = np.where(asked == MISSING, self._known, asked).astype(np.int32)
        contradicts = ((self._known != MISSING) & (both != self._known)).any(axis=1)
        mass = _search.log_mass(self.links, both, self._effort) - self._evidence_mass()
        return np.where(contradicts, -np.inf, mass)

    def marginal_tables(self) -> list[Array]:
        """Return P(y_i) for each label as an array (n, K_i)."""
        place = np.argsort(self.order)

        def tables(part: Indices, enumerable: bool) -> list[Array]:
            if enumerable:
                return self._listed(part, enumerable)[0].marginal_tables()
            links, known = self.links.take(part), self._known[part]
            marginals = _search.sampled_marginals(links, known, self._effort)
            return [marginals[position] for position in place]

        return self._by_parts(tables)

    def pair_table(self, i: int, j: int) -> Array:
        """Return P(y_i, y_j) as an array (n, K_i, K_j)."""
        return self.pair_tables([(i, j)])[0]

    def pair_tables(self, pairs: Sequence[tuple[int, int]]) -> list[Array]:
        """Return P(y_i, y_j) of several pairs (i, j) as arrays (n, K_i, K_j)."""
        return self._by_parts(lambda *part: self._listed(*part)[0].pair_tables(pairs))

    def _size_marginals(self) -> SizeMarginals:
        if "sums" not in self.exact:
            return super()._size_marginals()
        return SizeMarginals(
            *self._by_parts(lambda *part: self._listed(*part)[0]._size_marginals())
        )

    def entropy(self) -> Array:
        """Return the entropy of each row's distribution in nats, shape (n,)."""

        def of(part: Indices, enumerable: bool) -> tuple[Array]:
            listed, mean_log_prob = self._listed(part, enumerable)
            return (
                listed.entropy() if enumerable else self._evidence_mass()[part] - mean_log_prob,
            )

        return self._by_parts(of)[0]

    def _by_parts(self, work: Callable[[Indices, bool], Sequence[Array]]) -> list[Array]:
        """Join what work makes of rows that are summed together, array by array."""
        parts = list(_search.parts(self.links, self._known, self._effort))
        parts = parts or [(np.arange(0), True)]
        answers = [work(*part) for part in parts]
        order = np.argsort(np.concatenate([rows for rows, _ in parts]))
        return [np.concatenate(column)[order] for column in zip(*answers, strict=True)]

    def _listed(self, rows: Indices, enumerable: bool) -> tuple[VectorList, Array]:
        """All vectors of some rows, or draws by their weights, and their mean log-probability."""
        links, known, d = self.links.take(rows), self._known[rows], self.space.n_labels
        if not len(rows):
            codes = np.zeros((0, d), dtype=np.int32)
            none = VectorList.of_shared_and_own(self.space, codes, codes[:, None], np.empty((0, 0)))
            return none, np.empty(0)
        if enumerable:
            codes, log_prob = _search.every(links, known[0])
            own = np.empty((len(rows), 0, d), dtype=np.int32)
            codes = self._to_labels(codes)
            return VectorList.of_shared_and_own(self.space, codes, own, log_prob), np.empty(0)
        draws = _search.sampled(links, known, self._effort)
        vectors, weight = draws.vectors, draws.vector_weight
        possible = np.where(weight > 0, vectors.log_prob, 0.0)
        starts = np.searchsorted(vectors.rows, np.arange(len(rows) + 1))
        with np.errstate(divide="ignore"):
            listed = VectorList._unchecked(
                self.space,
                self._to_labels(vectors.codes),
                starts,
                np.arange(len(vectors), dtype=np.int32),
                np.log(weight),
            )
        return listed, bin_sums(vectors.rows, weight * possible, len(rows))

    def sample_codes(self, size: int, rng: Generator) -> Codes:
        """Return draws (size, n, d).

        Given evidence that cannot be enumerated, they are resampled by weight from `n_samples`
        draws of each row.
        """
        drawn = _search.sample(self.links, self._known, self._effort, size, rng)
        return self._to_labels(drawn)

    def given_codes(self, evidence: Codes) -> Chain:
        """Return the joint given the known entries of evidence (n, d)."""
        asked = evidence[:, self.order]
        known = np.where(asked == MISSING, self._known, asked).astype(np.int32)
        contradicts = ((self._known != MISSING) & (known != self._known)).any(axis=1)
        joint = self._with(self.links, known)
        require_possible(self.space, evidence, contradicts | np.isneginf(joint._evidence_mass()))
        return joint

    def _obeying(self, rules: CompiledRules) -> tuple[Joint, Array]:
        from colabel.joint.obeying import obeying_list, with_mass

        listed = obeying_list(self, rules)
        if listed is not None:
            return listed
        joint = self._with(PrunedLinks(self.links, self.order, rules), self._known)
        joint.how += " Prefixes that nothing which obeys the rules begins with are left out."
        mass = np.minimum(joint._evidence_mass() - self._evidence_mass(), 0.0)
        return (self if np.isneginf(mass).all() else with_mass(joint, mass)), mass

    def rows(self, index: Rows) -> Chain:
        """Return the joint of some of the rows."""
        joint = self._with(self.links.take(index), self._known[index])
        if self._log_evidence is not None:
            joint._log_evidence = self._log_evidence[index]
        return joint

    def path_tables(self) -> list[Array]:
        """Return P(y_i | x, mode of the labels before it) for each label, arrays (n, K_i).

        With greedy inference these are what classifier chains classically report as
        probabilities; they are not marginals.
        """
        mode = self.mode_codes()[:, self.order]
        rows = np.arange(self.n_rows)
        tables = [
            np.exp(self.links.log_prob(rows, np.ascontiguousarray(mode[:, :position])))
            for position in range(self.space.n_labels)
        ]
        return [tables[position] for position in np.argsort(self.order)]

    def _evidence_mass(self) -> Array:
        """Log-probability (n,) of what is known, computed once."""
        if self._log_evidence is None:
            self._log_evidence = _search.log_mass(self.links, self._known, self._effort)
        return self._log_evidence

    def _to_labels(self, codes: Codes) -> Codes:
        """Turn codes (..., d) in chain order into codes in the order of the space."""
        return np.ascontiguousarray(codes[..., np.argsort(self.order)])


def as_order(order: Any, space: LabelSpace) -> Indices:
    """Return an order of labels, given by names or positions, as positions (d,)."""
    positions = np.array([space.index(label) for label in order], dtype=np.intp)
    if sorted(positions.tolist()) != list(range(space.n_labels)):
        raise ValueError(
            f"order={list(order)!r} must name each of the {space.n_labels} labels once, by name "
            "or by position."
        )
    return positions
