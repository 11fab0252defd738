"""The four synthetic problems SD1-SD4 of the MLCRF paper, with known label graphs.

Six features are uniform on [-1, 1]; three labels follow rules whose dependence is known, so that
structure learning can be checked against the truth.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit

from colabel.datasets import Dataset
from colabel.tables import TableError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

    Draw = Callable[[np.random.Generator, Array], NDArray[np.int64]]

SYNTHETIC_GRAPHS: dict[str, tuple[tuple[str, str], ...]] = {
    "SD1": (),
    "SD2": (("y1", "y2"),),
    "SD3": (("y1", "y3"), ("y2", "y3")),
    "SD4": (("y1", "y2"), ("y1", "y3"), ("y2", "y3")),
}
"""Edges between labels given the features, as Figure 1 of the paper draws them."""


def _bernoulli(rng: np.random.Generator, X: Array, slope: float, first: int) -> NDArray[np.int64]:
    """Draw 0/1 with P(1) = sigmoid(slope * (x_first + x_{first+1})), one a row: shape (n,)."""
    probability = expit(slope * (X[:, first] + X[:, first + 1]))
    return (rng.random(X.shape[0]) < probability).astype(np.int64)


def _sd1(rng: np.random.Generator, X: Array) -> NDArray[np.int64]:
    """Independent: three logistic labels on features of their own."""
    draws = [_bernoulli(rng, X, slope, first) for slope, first in ((1, 0), (3, 2), (5, 4))]
    return np.stack(draws, axis=1)


def _sd2(rng: np.random.Generator, X: Array) -> NDArray[np.int64]:
    """Single edge: z decides whether exactly one of y1, y2 is on; y3 stands alone."""
    y3, z = _bernoulli(rng, X, 1, 0), _bernoulli(rng, X, 3, 2)
    first = rng.integers(2, size=X.shape[0])
    return np.stack([z * first, z * (1 - first), y3], axis=1)


def _sd3(rng: np.random.Generator, X: Array) -> NDArray[np.int64]:
    """Chain: y3 is off exactly when y1 and y2 are both on."""
    y1, y2 = _bernoulli(rng, X, 1, 0), _bernoulli(rng, X, 3, 2)
    return np.stack([y1, y2, 1 - y1 * y2], axis=1)


def _sd4(rng: np.random.Generator, X: Array) -> NDArray[np.int64]:
    """Complete graph: none of the labels, or exactly one of the three."""
    z = _bernoulli(rng, X, 1, 0)
    which = rng.integers(3, size=X.shape[0])
    one_of_three: NDArray[np.int64] = np.eye(3, dtype=np.int64)[which]
    return (1 - z)[:, None] * one_of_three


_RULES: dict[str, Draw] = {"SD1": _sd1, "SD2": _sd2, "SD3": _sd3, "SD4": _sd4}


def make_synthetic(
    kind: str = "SD1",
    n_rows: int = 500,
    random_state: int | np.random.Generator | None = None,
) -> Dataset:
    r"""Generate one of the synthetic problems SD1, SD2, SD3, SD4.

    With features :math:`x_1, \dots, x_6` uniform on [-1, 1],
    :math:`\mu_1 = \sigma(x_1 + x_2)`, :math:`\mu_2 = \sigma(3x_3 + 3x_4)` and
    :math:`\mu_3 = \sigma(5x_5 + 5x_6)`:

    - ``SD1`` (no edges): :math:`y_i \sim B(\mu_i)`, independently.
    - ``SD2`` (edge y1 - y2): :math:`y_3 \sim B(\mu_1)`, :math:`z \sim B(\mu_2)`; (y1, y2) is (0, 0)
      when z = 0, otherwise (1, 0) or (0, 1) with equal probability.
    - ``SD3`` (chain y1 - y3 - y2): :math:`y_1 \sim B(\mu_1)`, :math:`y_2 \sim B(\mu_2)`, y3 = 0
      when both are 1 and 1 otherwise.
    - ``SD4`` (complete): :math:`z \sim B(\mu_1)`; all labels 0 when z = 1, otherwise exactly one of
      the three is 1, each with probability 1/3.

    The true graphs are in ``SYNTHETIC_GRAPHS``. The chain of SD3 is the skeleton of
    y1 -> y3 <- y2: y1 and y2 are independent given the features, and become dependent once y3 is
    known as well, so an undirected learner may rightly add the third edge.

    Parameters
    ----------
    kind : {"SD1", "SD2", "SD3", "SD4"}
        Which problem.
    n_rows : int, default=500
        Number of rows (the paper used 500).
    random_state : int, numpy.random.Generator or None
        Seed or generator.

    Returns
    -------
    Dataset
        X of shape (n_rows, 6), Y of shape (n_rows, 3) of 0/1.

    References
    ----------
    Naeini, Batal, Liu, Hong and Hauskrecht, An optimization-based framework to learn conditional
    random fields for multi-label classification, section 4.2.

    Examples
    --------
    >>> from studies.datasets import make_synthetic
    >>> data = make_synthetic("SD2", n_rows=200, random_state=0)
    >>> data
    Dataset('SD2': 200 rows, 6 features, 3 labels)
    >>> bool((data.Y[:, 0] & data.Y[:, 1]).any())  # y1 and y2 exclude each other
    False
    """
    if kind not in _RULES:
        raise TableError(f"There is no synthetic problem {kind!r}: choose one of {list(_RULES)}.")
    if n_rows < 1:
        raise TableError(f"n_rows is {n_rows}: ask for at least one row.")
    rng = np.random.default_rng(random_state)
    X = rng.uniform(-1.0, 1.0, size=(n_rows, 6))
    edges = ", ".join(f"{a} - {b}" for a, b in SYNTHETIC_GRAPHS[kind]) or "none"
    return Dataset(
        name=kind,
        X=X,
        Y=_RULES[kind](rng, X),
        description=f"Synthetic problem {kind} of the MLCRF paper; edges between labels: {edges}.",
    )
