"""From the name of a loss to a decision, and from a joint to label vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from colabel.core.arrays import Codes
from colabel.decide._f1 import F1
from colabel.decide._jaccard import Jaccard
from colabel.decide._rules import Decision, Hamming, Subset
from colabel.joint import Joint

DECISIONS: Mapping[str, Decision] = MappingProxyType(
    {"subset": Subset(), "hamming": Hamming(), "f1": F1(), "jaccard": Jaccard()}
)


def decide(joint: Joint, loss: str | Decision | Callable[[Joint], Codes] = "subset") -> Codes:
    """Choose the label vector of each row that minimises the expected loss.

    Parameters
    ----------
    joint : Joint
        The distribution over label vectors, for n rows.
    loss : str or callable, default="subset"
        `"subset"` (the most probable vector), `"hamming"` (the most probable value of each
        label), `"f1"` or `"jaccard"` (for 0/1 labels: the vector with the largest expected F1 or
        overlap, see `F1` and `Jaccard`), or a `Decision` or any function from a joint to codes
        (n, d).

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

    F1 prefers to name a label too many over one too few.

    >>> decide(joint, "f1").tolist()
    [[1, 1]]
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
