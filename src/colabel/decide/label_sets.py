"""Sets of label vectors, one for each row, as a conformal method finds them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from colabel.core.arrays import Array, Codes, Flags, Indices
from colabel.joint.user_terms import codes_of_labels
from colabel.joint.views import label_set_text, require_pandas
from colabel.labels import LabelSpace

if TYPE_CHECKING:
    import pandas as pd

_SHOWN = 5


@dataclass(frozen=True, eq=False)
class LabelSets:
    """A set of label vectors for each of n rows, m vectors in all.

    ``len(sets)`` is n, and ``sets[i]`` the label values (k, d) of row i's vectors, the most
    plausible first.

    Attributes
    ----------
    space : LabelSpace
    coverage : float
        Probability with which a set was to hold the true vector.
    rows : (m,) array of int
        Row that each vector belongs to, ascending.
    codes : (m, d) array of int
    p_values : (m,) array
        Share of the held-out rows whose own vector was at least as strange as this one.
    cut : (n,) array of bool
        Rows whose set has more vectors than could be listed. The promise is about the whole set:
        that the true vector is *listed* is not promised in such a row.
    max_listed : int
        How many vectors a joint was asked for at most.
    """

    space: LabelSpace
    coverage: float
    rows: Indices
    codes: Codes
    p_values: Array
    cut: Flags
    max_listed: int

    @classmethod
    def joined(cls, *parts: LabelSets) -> LabelSets:
        """Put sets of some rows under those of others."""
        starts = np.cumsum([0, *(len(part) for part in parts)])[:-1]
        return replace(
            parts[0],
            rows=np.concatenate([p.rows + start for p, start in zip(parts, starts, strict=True)]),
            codes=np.concatenate([part.codes for part in parts]),
            p_values=np.concatenate([part.p_values for part in parts]),
            cut=np.concatenate([part.cut for part in parts]),
        )

    @property
    def sizes(self) -> Indices:
        """Number of vectors listed in each row, (n,)."""
        return np.bincount(self.rows, minlength=len(self.cut))

    def contains(self, Y: ArrayLike) -> Flags:
        """Whether the list of each row has its vector of Y (n, d), (n,)."""
        return self.contains_codes(codes_of_labels(self.space, Y, len(self)))

    def contains_codes(self, codes: Codes) -> Flags:
        """Whether the list of each row has its vector of codes (n, d), (n,)."""
        found = np.zeros(len(self), dtype=bool)
        found[self.rows[(self.codes == codes[self.rows]).all(axis=1)]] = True
        return found

    def to_frame(self) -> pd.DataFrame:
        """Return a data frame with a line a vector: row, rank, p-value, label values."""
        require_pandas()
        import pandas as pd

        rank = np.arange(len(self.rows)) - np.searchsorted(self.rows, self.rows) + 1
        index = pd.MultiIndex.from_arrays([self.rows, rank], names=["row", "rank"])
        values = self.space.values(self.codes)
        frame = pd.DataFrame(values, columns=list(self.space.names), index=index)
        frame.insert(0, "p_value", self.p_values)
        return frame

    def __len__(self) -> int:
        return len(self.cut)

    def __getitem__(self, row: int) -> NDArray[Any]:
        if not -len(self) <= row < len(self):
            raise IndexError(f"Row {row} does not exist: there are sets for {len(self)} rows.")
        first, last = np.searchsorted(self.rows, [row % len(self), row % len(self) + 1])
        return self.space.values(self.codes[first:last])

    def __repr__(self) -> str:
        cut = int(self.cut.sum())
        ending = f", {cut} not listed within {self.max_listed}" if cut else ""
        mean = self.sizes.mean() if len(self) else 0.0
        return (
            f"<LabelSets: {len(self)} rows, {mean:.1f} label vectors a row for a coverage of "
            f"{self.coverage:g}{ending}>"
        )

    def __str__(self) -> str:
        lines = [repr(self)]
        for row in range(min(_SHOWN, len(self))):
            first, last = np.searchsorted(self.rows, [row, row + 1])
            shown = self.codes[first : min(last, first + _SHOWN)].tolist()
            more = [f"{last - first - _SHOWN} more"] if last - first > _SHOWN else []
            more += [f"not listed within {self.max_listed}"] if self.cut[row] else []
            texts = [label_set_text(codes, self.space) for codes in shown]
            lines.append(f"  row {row}: {' | '.join([*texts, *more])}")
        if len(self) > _SHOWN:
            lines.append(f"  and {len(self) - _SHOWN} more rows")
        return "\n".join(lines)
