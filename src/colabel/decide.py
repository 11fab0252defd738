"""Decisions: the label vector to announce, given a joint distribution and a loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Protocol

import numpy as np

from colabel.joint import Joint
from colabel.labels import Codes

__all__ = ["DECISIONS", "Decision", "Hamming", "Subset", "decide"]


class Decision(Protocol):
    """A rule that turns a joint distribution into one label vector per row."""

    needs: ClassVar[frozenset[str]]  # the questions it asks: "mode", "marginals", ...

    def __call__(self, joint: Joint) -> Codes:
        """Return codes (n, d)."""
        ...


@dataclass(frozen=True)
class Subset:
    """Minimise the expected subset 0/1 loss, 1[y != h]: announce the most probable vector.

    Examples
    --------
    >>> Subset().needs
    frozenset({'mode'})
    """

    needs: ClassVar[frozenset[str]] = frozenset({"mode"})

    def __call__(self, joint: Joint) -> Codes:
        """Return the codes (n, d) of the mode."""
        return joint.mode_codes()


@dataclass(frozen=True)
class Hamming:
    """Minimise the expected Hamming loss, mean_i 1[y_i != h_i]: each label's own best value.

    A tie goes to the smaller code. For a label of two values the decision is P(y=1) > 1/2, which
    agrees with rounding the probability (NumPy rounds one half to the even number, 0).

    Examples
    --------
    >>> Hamming().needs
    frozenset({'marginals'})
    """

    needs: ClassVar[frozenset[str]] = frozenset({"marginals"})

    def __call__(self, joint: Joint) -> Codes:
        """Return the codes (n, d) of the most probable value of each label."""
        best = [
            # not argmax: P(y=0) may be off one half by a rounding error where P(y=1) is not
            table[:, 1] > 0.5 if table.shape[1] == 2 else table.argmax(axis=1)
            for table in joint.marginal_tables()
        ]
        return np.stack(best, axis=1).astype(np.int32)


DECISIONS: Mapping[str, Decision] = MappingProxyType({"subset": Subset(), "hamming": Hamming()})


def decide(joint: Joint, loss: str | Decision | Callable[[Joint], Codes] = "subset") -> Codes:
    """Choose the label vector of each row that minimises the expected loss.

    Parameters
    ----------
    joint : Joint
        The distribution over label vectors, for n rows.
    loss : str or callable, default="subset"
        `"subset"` (the most probable vector), `"hamming"` (the most probable value of each
        label), or a `Decision` or any function from a joint to codes (n, d).

    Returns
    -------
    ndarray of int32 of shape (n, d)
        Codes; `joint.space.values` and `joint.space.decode` turn them into labels.

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
    """
    rule = resolve_decision(loss)
    codes = np.asarray(rule(joint))
    wanted = (joint.n_rows, joint.space.n_labels)
    if codes.shape != wanted or not np.issubdtype(codes.dtype, np.integer):
        raise ValueError(
            f"The decision {rule!r} returned shape {codes.shape} and type {codes.dtype}, but must "
            f"return integer codes of shape {wanted}."
        )
    return codes.astype(np.int32, copy=False)


def resolve_decision(loss: str | Decision | Callable[[Joint], Codes]) -> Callable[[Joint], Codes]:
    """Return the decision behind a name, or the callable itself."""
    if isinstance(loss, str):
        if loss not in DECISIONS:
            known = ", ".join(map(repr, DECISIONS))
            raise ValueError(
                f"There is no decision for the loss {loss!r}: choose one of {known}, or pass a "
                "function from a joint to codes."
            )
        return DECISIONS[loss]
    if not callable(loss):
        raise ValueError(
            f"loss must be a name or a function from a joint to codes, but it is {loss!r}."
        )
    return loss
