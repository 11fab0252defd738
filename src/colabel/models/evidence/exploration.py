"""Rows to explore: the label sets of each with their probabilities, as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from colabel.core.arrays import Array, Codes
from colabel.joint import Joint
from colabel.labels import LabelSpace
from colabel.models.evidence.record import FeatureEvidence

_COVER = 0.9995  # of a row's probability; less probable label sets are not listed


@dataclass(frozen=True, eq=False)
class ExploredRow:
    """One row: its name, what its columns hold, its label sets.

    Attributes
    ----------
    name : str
    cells : tuple of (column, value)
        What is shown of the row itself.
    codes : (k, d) array
        Its most probable label vectors.
    prob : (k,) array
        Their probabilities, descending; what is missing to 1 is not listed.
    marginals : tuple of d arrays (K_i,)
        Probability of each value of each label, by the joint itself.
    evidence : FeatureEvidence, optional
        What speaks for and against its labels, nothing being known.
    """

    name: str
    cells: tuple[tuple[str, str], ...]
    codes: Codes
    prob: Array
    marginals: tuple[Array, ...]
    evidence: FeatureEvidence | None = None


@dataclass(frozen=True, eq=False)
class Exploration:
    """What a page to ask the joint holds.

    Attributes
    ----------
    space : LabelSpace
    rows : tuple of ExploredRow
    how : str
        How the joint answers.
    exact : bool
        Whether the probabilities of the listed vectors are exact.
    graph : mapping or None
        The label graph with averaged probabilities, for labels of two values.
    """

    space: LabelSpace
    rows: tuple[ExploredRow, ...]
    how: str
    exact: bool
    graph: Mapping[str, Any] | None = None

    @property
    def listed(self) -> float:
        """Probability that the listed vectors have, on average over the rows."""
        return float(np.mean([row.prob.sum() for row in self.rows]))

    @property
    def listed_text(self) -> str:
        """Write `listed` as a percentage, which is 100 only if nothing is missing."""
        percent = 100.0 * self.listed
        return ">99.9 %" if 99.95 <= percent < 100.0 else f"{percent:.1f} %"

    @property
    def n_vectors(self) -> int:
        """How many label vectors are listed."""
        return sum(len(row.prob) for row in self.rows)


def explored_rows(
    joint: Joint,
    names: Sequence[str],
    cells: Sequence[tuple[tuple[str, str], ...]],
    most: int = 200,
) -> list[ExploredRow]:
    """List the label vectors of each row of a joint until 99.95 % of its probability is listed.

    Parameters
    ----------
    joint : Joint
    names : sequence of n str
    cells : sequence of n tuples of (column, value)
    most : int
        Most vectors of a row.

    Examples
    --------
    >>> import numpy as np
    >>> from colabel.joint import Independent
    >>> from colabel.labels import LabelSpace
    >>> zero_one = np.array([0, 1])
    >>> space = LabelSpace(("a", "b"), (zero_one, zero_one), "matrix")
    >>> joint = Independent(space, [np.log([[0.2, 0.8]]), np.log([[1e-9, 1 - 1e-9]])])
    >>> row, = explored_rows(joint, ["first"], [()])
    >>> row.codes.tolist(), row.prob.round(2).tolist()
    ([[1, 1], [0, 1]], [0.8, 0.2])
    """
    n_vectors = 1
    for size in joint.space.cardinalities:
        n_vectors = min(n_vectors * size, most)
    codes, log_prob = joint.top_k_codes(n_vectors)
    tables = joint.marginal_tables()
    found = []
    for i, (name, shown) in enumerate(zip(names, cells, strict=True)):
        prob = np.exp(log_prob[i])
        # estimates of probabilities may exceed 1 together
        prob = prob / max(1.0, float(prob.sum()))
        covered = np.concatenate([[0.0], np.cumsum(prob)[:-1]])
        kept = (covered < _COVER) & (prob > 0)
        marginals = tuple(table[i] for table in tables)
        found.append(ExploredRow(name, shown, codes[i][kept], prob[kept], marginals))
    return found
