"""FeatureEvidence: what speaks for and against the labels of one row, as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from colabel.core.arrays import Array, Codes, Indices
from colabel.core.optional import require
from colabel.labels import LabelSpace

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal["column", "label", "other labels"]

_SHOWN = 3  # terms for and against in a summary
_LEAST = 0.005  # log-odds of such a term: less is written as zero


class Term(NamedTuple):
    """One thing that speaks for a label (positive) or against it, in log-odds.

    Attributes
    ----------
    kind : {"column", "label", "other labels"}
    name : str
        Of the column or of the label.
    value : str
        What the row or the answer has there.
    log_odds : float
        What it adds.
    error : float
        Its standard error; 0 where it is exact.
    """

    kind: Kind
    name: str
    value: str
    log_odds: float
    error: float

    def __str__(self) -> str:
        return f"{self.name} = {self.value}" if self.value else self.name


@dataclass(frozen=True, eq=False)
class FeatureEvidence:
    r"""What speaks for and against each label of one row, in log-odds.

    For each label i, with v the value explained (1 of 0/1 labels, otherwise that of the answer),

    .. math:: \text{average}_i + \sum_g \text{columns}_{ig} + \sum_j \text{labels}_{ij}
        = \log \frac{P(y_i = v \mid x, y_{-i})}{P(y_i \neq v \mid x, y_{-i})}

    where the other labels have the values of the answer.

    Attributes
    ----------
    space : LabelSpace
    positions : (L,) array of int
        The labels that are explained, by their position in the space.
    answer : (d,) array of int
        Codes of the most probable label vector.
    values : (L,) array of int
        Code of the value of each label that is explained.
    prob : (L,) array
        Its probability by itself.
    names, shown : tuple of G str
        The columns or words, and what the row has there.
    average : (L,) array
        Where the sum begins: what is said of an average row.
    columns, errors : (L, G) arrays
        What each column adds, and the standard errors.
    labels : (L, d + 1) array
        What each other label of the answer adds; last, all those without a term of their own.
    method : {"linear", "shapley"}
    how : str
        How it was computed, in a sentence.
    """

    space: LabelSpace
    positions: Indices
    answer: Codes
    values: Indices
    prob: Array
    names: tuple[str, ...]
    shown: tuple[str, ...]
    average: Array
    columns: Array
    errors: Array
    labels: Array
    method: Literal["linear", "shapley"]
    how: str

    @property
    def log_odds(self) -> Array:
        """Log-odds (L,) of each label given the others, as in the answer."""
        total: Array = self.average + self.columns.sum(axis=1) + self.labels.sum(axis=1)
        return total

    @property
    def label_names(self) -> tuple[str, ...]:
        """Names of the labels that are explained."""
        return tuple(self.space.names[i] for i in self.positions)

    def statement(self, place: int) -> str:
        """Write what is explained at a place: the label's name, and its value if it has several."""
        label = int(self.positions[place])
        name = self.space.names[label]
        if self.space.is_indicator:
            return name
        return f"{name} = {self.space.classes[label][self.values[place]]}"

    def terms(self, label: str | int) -> list[Term]:
        """Return the terms of a label, by its name or place, strongest first, without zeros."""
        place = self._place(label)
        found = [
            Term("column", *rest)
            for rest in zip(
                self.names,
                self.shown,
                self.columns[place].tolist(),
                self.errors[place].tolist(),
                strict=True,
            )
        ]
        for other, added in enumerate(self.labels[place, :-1].tolist()):
            value = str(self.space.classes[other][self.answer[other]])
            found.append(Term("label", self.space.names[other], value, added, 0.0))
        rest = float(self.labels[place, -1])
        found.append(Term("other labels", "the other labels", "", rest, 0.0))
        return sorted((t for t in found if t.log_odds), key=lambda t: -abs(t.log_odds))

    def speaking(self, label: str | int, n_terms: int = _SHOWN) -> tuple[list[Term], list[Term]]:
        """Return the strongest terms for a label and against it, down to 0.005."""
        terms = self.terms(label)
        return (
            [term for term in terms if term.log_odds >= _LEAST][:n_terms],
            [term for term in terms if term.log_odds <= -_LEAST][:n_terms],
        )

    @property
    def table(self) -> pd.DataFrame:
        """Every term as a line of a data frame (needs pandas); the average comes first."""
        require("pandas", "A data frame")
        import pandas as pd

        lines = []
        for place in range(len(self.positions)):
            what = self.statement(place)
            lines.append((what, "average", "", "", float(self.average[place]), 0.0))
            lines += [(what, *term) for term in self.terms(place)]
        return pd.DataFrame(lines, columns=["label", "kind", "name", "value", "log_odds", "error"])

    def to_dict(self, n_terms: int | None = None) -> dict[str, Any]:
        """Return plain values, for JSON; of each label at most `n_terms` terms."""
        return {
            "method": self.method,
            "how": self.how,
            "labels": [
                {
                    "label": self.space.names[int(label)],
                    "value": str(self.space.classes[int(label)][self.values[place]]),
                    "probability": float(self.prob[place]),
                    "average": float(self.average[place]),
                    "columns": float(self.columns[place].sum()),
                    "other_labels": float(self.labels[place].sum()),
                    "log_odds_given_others": float(self.log_odds[place]),
                    "terms": [term._asdict() for term in self.terms(place)[:n_terms]],
                }
                for place, label in enumerate(self.positions)
            ],
        }

    def __str__(self) -> str:
        lines = []
        for place in range(len(self.positions)):
            sides = self.speaking(place)
            written = " | ".join(
                f"{side}: " + ("; ".join(map(signed_term, found)) or "nothing")
                for side, found in zip(("for", "against"), sides, strict=True)
            )
            lines.append(f"{self.statement(place)}  P = {self.prob[place]:.3f}  {written}")
        return "\n".join([*lines, self.how])

    def _repr_html_(self) -> str:
        rows = []
        for place in range(len(self.positions)):
            cells = [
                self.statement(place),
                f"{self.prob[place]:.3f}",
                *("; ".join(map(signed_term, side)) for side in self.speaking(place)),
                f"{self.average[place]:+.2f}",
                f"{self.columns[place].sum():+.2f}",
                f"{self.labels[place].sum():+.2f}",
                f"{self.log_odds[place]:+.2f}",
            ]
            rows.append("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>")
        heads = ("label", "P", "for it", "against it", "average", "columns", "labels", "sum")
        head = "".join(f"<th>{name}</th>" for name in heads)
        return (
            f"<div><table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
            f"<p><small>{escape(self.how)}</small></p></div>"
        )

    def _place(self, label: str | int) -> int:
        if isinstance(label, int | np.integer):
            return range(len(self.positions))[int(label)]
        names: Sequence[str] = self.label_names
        if label not in names:
            raise ValueError(
                f"The evidence has no label {label!r}: it explains {', '.join(names[:8])}"
                f"{', …' if len(names) > 8 else ''}. Ask for others by labels=[…]."
            )
        return names.index(label)


def signed_term(term: Term) -> str:
    """Write a term with what it adds."""
    return f"{term.log_odds:+.2f} {term}"
