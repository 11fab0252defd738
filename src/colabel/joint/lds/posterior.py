"""LDSPosterior: labels of a generative network, given the features it generated."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any, Literal, TypeVar, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from colabel.core.arrays import Array, Codes
from colabel.core.parameters import check_choice
from colabel.joint.base import APPROXIMATE, EXACT
from colabel.joint.lds.network import LDSNetwork
from colabel.joint.user_terms import contradictions
from colabel.joint.vectors import ListsByChunks, VectorList
from colabel.labels import MISSING, LabelSpace

__all__ = ["Inference", "LDSPosterior"]

Answer = TypeVar("Answer")
Inference = Literal["auto", "exact", "search", "coordinate ascent"]

# "auto" writes out all label vectors up to this many, and up to this many entries of their table,
# which has a column for each value of each feature; "exact" refuses more than the second numbers.
MOST_ENUMERATED, MOST_ENTRIES = 2**14, 2**25
MOST_POSSIBLE, MOST_POSSIBLE_ENTRIES = 2**18, 2**28
_SCORES_AT_ONCE = 2**21
_OWN_CODES_AT_ONCE = 2**21


class LDSPosterior(ListsByChunks):
    r"""Labels of a generative network given the features: P(y | x) = P(y, x) / sum_y' P(y', x).

    This is the joint of the mixture over label dependency sets. There are three ways to answer:

    ================== ====================================================================
    exact              all label vectors are written out
    search             the mode is the better end of two block coordinate ascents, from the
                       best label vector seen in training and from the first value of every
                       label; the probabilities of all vectors are taken relative to those
                       seen in training and to the neighbours of the mode (vectors that
                       differ from it within one dependency set)
    coordinate ascent  the same, but the mode is the end of the ascent from the first value
                       of every label (no label, where these are 0 and 1), as published;
                       `top_k` may list a better vector
    ================== ====================================================================

    "auto" is exact up to 16,384 label vectors (fewer where features have more than 2,048 values in
    all), and searches beyond.

    Parameters
    ----------
    space : LabelSpace
        Names and values of the d labels.
    network : LDSNetwork
        The generative model.
    features : array-like of int of shape (n, p)
        Codes of the features of each row.
    inference : {"auto", "exact", "search", "coordinate ascent"}
        How questions are answered.
    n_jobs : int or None
        Threads (None: all cores); they do not change the answers.

    Attributes
    ----------
    inference : str
        How questions are answered; never "auto".
    exact : Exactness
    how : str

    Examples
    --------
    >>> import numpy as np
    >>> from colabel import LDSMixture
    >>> Y = np.array([[0, 0], [0, 1], [1, 1], [1, 1]] * 20)
    >>> X = Y @ np.array([[1, 0], [1, 2]])
    >>> joint = LDSMixture(bins=None).fit(X, Y).joint([[2, 2]])
    >>> joint
    <LDSPosterior: 1 row, 2 labels, exact>
    >>> joint.mode()
    array([[1, 1]])
    >>> joint.how
    'Exact: all 4 label vectors are written out.'
    """

    def __init__(
        self,
        space: LabelSpace,
        network: LDSNetwork,
        features: ArrayLike,
        *,
        inference: Inference = "auto",
        n_jobs: int | None = None,
    ) -> None:
        codes = np.asarray(features)
        _check_features(codes, network, space)
        super().__init__(space, len(codes), n_jobs)
        self.network = network
        self._features = codes.astype(np.int32)
        chosen = chosen_inference(inference, space.cardinalities, network.columns.n_columns)
        self.inference = chosen
        self.exact = EXACT if chosen == "exact" else APPROXIMATE
        self.how = _sentence(chosen, network)
        if chosen == "exact":
            self.rows_at_once = _SCORES_AT_ONCE // math.prod(space.cardinalities)
        else:
            own = int(network.sets.n_states.sum()) * space.n_labels
            most = min(_OWN_CODES_AT_ONCE // own, _SCORES_AT_ONCE // len(network.vectors))
            self.rows_at_once = most

    # Answers

    def mode_codes(self) -> Codes:
        """Return the codes (n, d) of the most probable vectors found."""
        return super().mode_codes() if self.inference == "exact" else self._climbed

    def log_prob_codes(self, codes: Codes) -> Array:
        """Return the log-probability (n,) of the observed entries of codes (n, d)."""
        if self.inference == "exact":
            return super().log_prob_codes(codes)
        clash = contradictions(self._evidence, codes)
        whole = np.flatnonzero((codes != MISSING).all(axis=1) & ~clash)
        partial = np.flatnonzero((codes == MISSING).any(axis=1) & ~clash)
        log_prob = np.full(self.n_rows, -np.inf)
        log_prob[whole] = self.network.log_joint(self._own_features[whole], codes[whole])
        if partial.size:
            known = np.where(codes == MISSING, self._evidence, codes)[partial].astype(np.int32)
            log_prob[partial] = self.rows(partial)._copy(_evidence=known).log_partition()
        # a lower bound of the total may be below a part of it
        return np.minimum(log_prob - self.log_partition(), 0.0)

    # Lists of vectors

    @property
    def _own_features(self) -> Codes:
        """Features (n, p) of the rows."""
        return self._features[self._positions]

    @cached_property
    def _climbed(self) -> Codes:
        """Ends (n, d) of coordinate ascent, from one start or the better of two."""
        network, features, evidence = self.network, self._own_features, self._evidence

        def climb(start: Codes) -> Codes:
            return network.ascend(features, start, evidence=evidence, n_jobs=self._n_jobs)

        from_first = climb(np.zeros_like(evidence))
        if self.inference == "coordinate ascent":
            return from_first
        from_seen = climb(network.vectors[network.seen_scores(features).argmax(axis=1)])
        better = network.log_joint(features, from_first) > network.log_joint(features, from_seen)
        return np.where(better[:, None], from_first, from_seen)

    def _list(self, chunk: slice) -> VectorList:
        """The vectors of some rows that count, weighted by P(y, x)."""
        features = self._own_features[chunk]
        if self.inference == "exact":
            shared, scores = self.network.every_vector(features)
            own = np.empty((len(features), 0, self.space.n_labels), dtype=np.int32)
        else:
            shared, evidence = self.network.vectors, self._evidence[chunk]
            own, of_own = self.network.neighbours(features, self._climbed[chunk], evidence=evidence)
            scores = np.concatenate([self.network.seen_scores(features), of_own], axis=1)
        return VectorList.of_shared_and_own(self.space, shared, own, scores)

    def _by_chunks(self, work: Callable[[VectorList, slice], Answer]) -> list[Answer]:
        if self.inference != "exact":
            self._climbed  # noqa: B018 - computed once, before the threads need it
        return super()._by_chunks(work)


def chosen_inference(
    inference: str, cardinalities: tuple[int, ...], n_columns: int = 1
) -> Inference:
    """Return how to answer for labels of these sizes and so many values of all features.

    Raises ValueError if the name is unknown or the tables would be too large.
    """
    check_choice("inference", inference, get_args(Inference))
    n_vectors = math.prod(cardinalities)
    if inference == "auto":
        small = n_vectors <= MOST_ENUMERATED and n_vectors * n_columns <= MOST_ENTRIES
        return "exact" if small else "search"
    if inference == "exact":
        entries = n_vectors * n_columns
        if n_vectors > MOST_POSSIBLE or entries > MOST_POSSIBLE_ENTRIES:
            raise ValueError(
                f"inference='exact' writes out all label vectors, but {len(cardinalities)} labels "
                f"have {n_vectors} of them, and a table over {n_columns} values of features: more "
                "than fits. Use inference='search'."
            )
    return inference  # type: ignore[return-value]  # checked above


def _sentence(inference: Inference, network: LDSNetwork) -> str:
    if inference == "exact":
        n_vectors = math.prod(network.sets.cardinalities)
        return f"Exact: all {n_vectors} label vectors are written out."
    start = {
        "search": "the best label vector seen in training and from the first value of each label",
        "coordinate ascent": "the first value of each label",
    }[inference]
    return (
        f"Approximate: modes by block coordinate ascent from {start}; probabilities relative to "
        f"the {len(network.vectors)} label vectors seen in training and the neighbours of the mode."
    )


def _check_features(codes: NDArray[Any], network: LDSNetwork, space: LabelSpace) -> None:
    n_values = np.array(network.columns.n_values)
    if codes.ndim != 2 or codes.shape[1] != len(n_values):
        raise ValueError(
            f"features have shape {codes.shape}, but the network has {len(n_values)} features: "
            "give one row of feature codes per case."
        )
    if not np.issubdtype(codes.dtype, np.integer) or (codes < 0).any() or (codes >= n_values).any():
        raise ValueError(
            "features must be integer codes, those of feature j from 0 to its number of values "
            "less one."
        )
    if space.cardinalities != network.sets.cardinalities:
        raise ValueError(
            f"The labels have {space.cardinalities} values, but those of the network "
            f"{network.sets.cardinalities}."
        )
