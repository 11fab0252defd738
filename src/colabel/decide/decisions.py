"""Decisions: the label vector to predict, given a joint distribution and a loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from colabel.core.arrays import Array, Codes
from colabel.core.schema import stored
from colabel.decide.overlap import F1, Decision, Jaccard
from colabel.joint import Joint, Mixture

__all__ = [
    "DECISIONS",
    "F1",
    "Decision",
    "Hamming",
    "Jaccard",
    "RiskMinimiser",
    "Seen",
    "Subset",
    "Votes",
    "decide",
    "resolve_decision",
]


_CODES_AT_ONCE = 1 << 22


@runtime_checkable
class RiskMinimiser(Protocol):
    """A decision that minimises an expected loss between 0 and 1, and says how large that is."""

    def risk(self, joint: Joint) -> Array:
        """Return the least expected loss, min_h E[loss(y, h)], of each row, (n,)."""
        ...


@stored("subset")
@dataclass(frozen=True)
class Subset(Decision):
    """Minimise the expected subset 0/1 loss, 1[y != h]: predict the most probable vector."""

    def codes(self, joint: Joint) -> Codes:
        """Return the codes (n, d) of the mode."""
        return joint.mode_codes()

    def risk(self, joint: Joint) -> Array:
        """Return 1 - max_y P(y), (n,)."""
        found: Array = 1.0 - np.exp(joint.log_prob_codes(joint.mode_codes()))
        return found


@stored("seen")
@dataclass(frozen=True, eq=False)
class Seen(Decision):
    """Predict the most probable of some label vectors, such as those that training rows have.

    Where models know labels one by one or in pairs, their most probable vector may be one that
    never occurs. As a model's ``decision="seen"`` the vectors are those of its training rows. A
    softer way is ``calibrate=True``, which learns what a vector that was never seen shall pay.

    Attributes
    ----------
    vectors : (V, d) array of int
        Codes of the vectors, at least one.
    """

    vectors: Annotated[Codes, "v d"]

    def codes(self, joint: Joint) -> Codes:
        """Return codes (n, d); in a tie the first vector of the list wins."""
        if not len(self.vectors):
            raise ValueError("There is no label vector to choose from: no row has all its labels.")
        vectors = self.vectors.astype(np.int32)
        best = np.full(joint.n_rows, -np.inf)
        codes = np.repeat(vectors[:1], joint.n_rows, axis=0)
        step = 1
        # Lists look up many vectors at a time; other families would copy their rows for each.
        if type(joint).log_prob_at is not Joint.log_prob_at:
            step = max(1, _CODES_AT_ONCE // max(1, codes.size))
        for start in range(0, len(vectors), step):
            some = vectors[start : start + step]
            values = _log_prob_of_each(joint, some)
            first = values.argmax(axis=1)
            value = values[np.arange(joint.n_rows), first]
            better = value > best
            best[better], codes[better] = value[better], some[first[better]]
        return codes


def _log_prob_of_each(joint: Joint, vectors: Codes) -> Array:
    """Log-probabilities (n, m) of vectors (m, d) in every row."""
    n_rows, shape = joint.n_rows, (joint.n_rows, vectors.shape[1])
    if len(vectors) == 1:
        return joint.log_prob_codes(np.broadcast_to(vectors[0], shape))[:, None]
    rows = np.repeat(np.arange(n_rows), len(vectors))
    found = joint.log_prob_at(rows, np.tile(vectors, (n_rows, 1)))
    return found.reshape(n_rows, len(vectors))


@stored("hamming")
@dataclass(frozen=True)
class Hamming(Decision):
    """Minimise the expected Hamming loss, mean_i 1[y_i != h_i]: each label's own best value.

    A tie goes to the smaller code. For a label of two values the decision is P(y=1) > 1/2, which
    agrees with rounding the probability (NumPy rounds one half to the even number, 0).
    """

    def codes(self, joint: Joint) -> Codes:
        """Return the codes (n, d) of the most probable value of each label."""
        best = [
            # not argmax: P(y=0) may be off one half by a rounding error where P(y=1) is not
            table[:, 1] > 0.5 if table.shape[1] == 2 else table.argmax(axis=1)
            for table in joint.marginal_tables()
        ]
        return np.stack(best, axis=1).astype(np.int32)

    def risk(self, joint: Joint) -> Array:
        """Return mean_i (1 - max_v P(y_i = v)), (n,)."""
        right = [table.max(axis=1) for table in joint.marginal_tables()]
        found: Array = 1.0 - np.mean(right, axis=0)
        return found


DECISIONS: Mapping[str, Decision] = MappingProxyType(
    {"subset": Subset(), "hamming": Hamming(), "f1": F1(), "jaccard": Jaccard()}
)


@dataclass(frozen=True)
class Votes(Decision):
    """Predict the value of each label that most members of a `Mixture` have in their mode."""

    def codes(self, joint: Joint) -> Codes:
        """Return codes (n, d); the smaller code wins a tie."""
        assert isinstance(joint, Mixture)
        return joint.vote_codes()


@dataclass(frozen=True)
class _Custom(Decision):
    """A user's function from a joint to label values (n, d)."""

    function: Callable[[Joint], ArrayLike]

    def codes(self, joint: Joint) -> Codes:
        values = np.asarray(self.function(joint))
        wanted = (joint.n_rows, joint.space.n_labels)
        if values.shape != wanted:
            raise ValueError(
                f"The decision {self.function!r} returned shape {values.shape}, but must return "
                f"label values of shape {wanted}, as joint.mode() does."
            )
        return joint.space.encode(values)


def decide(
    joint: Joint, loss: str | Decision | Callable[[Joint], ArrayLike] = "subset"
) -> NDArray[Any]:
    """Choose the label vector of each row that minimises the expected loss.

    Parameters
    ----------
    joint : Joint
        The distribution over label vectors, for n rows.
    loss : str or callable, default="subset"
        `"subset"` (the most probable vector), `"hamming"` (the most probable value of each
        label), `"f1"` or `"jaccard"` (for 0/1 labels: the vector with the largest expected F1 or
        overlap, see `F1` and `Jaccard`), a `Decision`, or any function from a joint to label
        values (n, d).

    Returns
    -------
    ndarray of shape (n, d)
        Label values, as `joint.mode()` returns them.

    Examples
    --------
    >>> import numpy as np
    >>> from colabel.joint import Tree
    >>> from colabel.labels import LabelSpace
    >>> space = LabelSpace(("a", "b"), (np.array([0, 1]), np.array([0, 1])), "matrix")
    >>> a, b = np.log([[[0.6, 0.4]]]), np.log([[[0.5, 0.5], [0.9, 0.1]]])
    >>> joint = Tree(space, [-1, 0], [a, b])
    >>> decide(joint).tolist(), decide(joint, "hamming").tolist()
    ([[1, 0]], [[0, 0]])

    F1 prefers to name a label too many over one too few.

    >>> decide(joint, "f1").tolist()
    [[1, 1]]
    """
    return resolve_decision(loss)(joint)


def resolve_decision(loss: str | Decision | Callable[[Joint], ArrayLike]) -> Decision:
    """Return the decision behind a name or a function, or the decision itself."""
    if isinstance(loss, Decision):
        return loss
    if isinstance(loss, str):
        if loss == "seen":
            raise ValueError(
                "The decision 'seen' needs the label vectors of the training rows: give it to a"
                " model before it is fitted."
            )
        if loss not in DECISIONS:
            known = ", ".join(map(repr, DECISIONS))
            raise ValueError(
                f"There is no decision for the loss {loss!r}: choose one of {known}, or pass a "
                "function from a joint to label values."
            )
        return DECISIONS[loss]
    if not callable(loss):
        raise ValueError(
            f"loss must be a name or a function from a joint to label values, but it is {loss!r}."
        )
    return _Custom(loss)
