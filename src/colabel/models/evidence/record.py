"""FeatureEvidence: what speaks for and against the labels of one row, as plain data.

What a joint says of rows, as plain data: why one has its labels, and rows to explore.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from colabel.core.arrays import Array, Codes, Indices
from colabel.core.lazy import require
from colabel.decide import Hamming
from colabel.joint import Joint
from colabel.joint.base import label_set_text, named_set
from colabel.labels import MISSING, LabelSpace
from colabel.rules import CompiledRules

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


Vector = tuple[int, ...]

_MOST_LABELS = 40  # looked at in pairs
_DRAWS = 4000  # for joints without a closed form for pairs
_LEAST_LIFT = 1.05
_LEAST_PROB = 0.01  # of a value that is supposed to be known
_IN_DOUBT, _MOST_EXPLAINED = 0.05, 8
_COVER = 0.9995  # of a row's probability; less probable label sets are not listed


class LabelSet(NamedTuple):
    """A label vector and its joint probability."""

    codes: Vector
    prob: float


class Lift(NamedTuple):
    """Two labels of the answer that are more probable together than each alone suggests.

    `lift` is P(both) / (P(one) P(other)), for the values in the answer.
    """

    labels: tuple[int, int]
    lift: float


class Counterfactual(NamedTuple):
    """What becomes of the answer if a label is known to have another value.

    Attributes
    ----------
    label, value : int
        The label and the code of the value.
    prob : float
        Probability of that value.
    answer : LabelSet
        The most probable vector then, and its probability then.
    changed : tuple of int
        The other labels that change with it.
    """

    label: int
    value: int
    prob: float
    answer: LabelSet
    changed: tuple[int, ...]

    @property
    def expected_changes(self) -> float:
        """How many other labels asking for this one is expected to change."""
        return self.prob * len(self.changed)


@dataclass(frozen=True, eq=False)
class RowExplanation:
    """Why these labels together.

    Attributes
    ----------
    space : LabelSpace
    best : LabelSet
        The most probable label vector.
    alone : tuple of d float
        Probability of each label's value in `best`, by itself.
    one_by_one : LabelSet
        The most probable value of each label by itself, and their probability together.
    runners_up : tuple of LabelSet
        The next most probable vectors.
    lifts : tuple of Lift
        Strongest first.
    counterfactuals : tuple of Counterfactual
        Of values with probability at least 0.01; what is expected to change most comes first.
    exact : bool
        Whether the joint's answers are exact.
    how : str
        How they were computed.
    """

    space: LabelSpace
    best: LabelSet
    alone: tuple[float, ...]
    one_by_one: LabelSet
    runners_up: tuple[LabelSet, ...]
    lifts: tuple[Lift, ...]
    counterfactuals: tuple[Counterfactual, ...]
    exact: bool
    how: str

    @property
    def prob_if_independent(self) -> float:
        """Probability of `best` if its labels were independent of each other."""
        return float(np.prod(self.alone))

    @property
    def in_question(self) -> list[int]:
        """The labels worth explaining: those of the answer, and others that are in doubt.

        At most eight, and at least one; in doubt is a label with another value at 0.05 or more.
        """
        doubt = [1.0 - prob for prob in self.alone]
        present = [self.space.is_indicator and code > 0 for code in self.best.codes]
        ranked = sorted(range(len(doubt)), key=lambda i: (not present[i], -doubt[i]))
        worth = [i for i in ranked if present[i] or doubt[i] >= _IN_DOUBT] or ranked[:1]
        return sorted(worth[:_MOST_EXPLAINED])

    def named(self, codes: Sequence[int]) -> str:
        """Write a label vector with the names of its labels."""
        return label_set_text(codes, self.space)

    def value(self, label: int, code: int) -> str:
        """Write one label with its value."""
        return f"{self.space.names[label]} = {self.space.classes[label][code]}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values with names, for JSON."""

        def as_dict(one: LabelSet) -> dict[str, Any]:
            return {"labels": named_set(one.codes, self.space), "probability": one.prob}

        names = self.space.names
        return {
            "answer": as_dict(self.best),
            "probability_if_independent": self.prob_if_independent,
            "alone": {
                name: {"value": str(classes[code]), "probability": prob}
                for name, classes, code, prob in zip(
                    names, self.space.classes, self.best.codes, self.alone, strict=True
                )
            },
            "one_by_one": as_dict(self.one_by_one),
            "runners_up": [as_dict(one) for one in self.runners_up],
            "lifts": [
                {"labels": [names[i] for i in pair.labels], "lift": pair.lift}
                for pair in self.lifts
            ],
            "if_known": [
                {
                    "label": names[one.label],
                    "value": str(self.space.classes[one.label][one.value]),
                    "probability": one.prob,
                    "answer": as_dict(one.answer),
                    "changes": [names[i] for i in one.changed],
                }
                for one in self.counterfactuals
            ],
            "exact": self.exact,
            "how": self.how,
        }


def explain_row(joint: Joint, row: int = 0, *, n_runners_up: int = 3) -> RowExplanation:
    """Say why a row has the labels it has.

    Parameters
    ----------
    joint : Joint
    row : int
        Position of the row in the joint.
    n_runners_up : int
        How many less probable label vectors to list.

    Returns
    -------
    RowExplanation

    Examples
    --------
    >>> import numpy as np
    >>> from colabel.joint import Tree
    >>> from colabel.labels import LabelSpace
    >>> from colabel.report import explain_row
    >>> zero_one = np.array([0, 1])
    >>> space = LabelSpace(("rain", "wet"), (zero_one, zero_one), "matrix")
    >>> rain, wet = np.log([[[0.4, 0.6]]]), np.log([[[0.8, 0.2], [0.1, 0.9]]])
    >>> why = explain_row(Tree(space, [-1, 0], [rain, wet]))
    >>> why.named(why.best.codes), round(why.best.prob, 2), round(why.prob_if_independent, 2)
    ('rain, wet', 0.54, 0.37)
    >>> first = why.counterfactuals[0]
    >>> why.value(first.label, first.value), first.changed
    ('rain = 0', (1,))
    """
    one = joint[row]
    codes, log_prob = one.top_k_codes(min(n_runners_up + 1, math.prod(one.space.cardinalities)))
    sets = [
        LabelSet(tuple(vector), float(np.exp(log)))
        for vector, log in zip(codes[0].tolist(), log_prob[0], strict=True)
    ]
    best = sets[0]
    tables = [table[0] for table in one.marginal_tables()]
    single = Hamming().codes(one)[0]
    return RowExplanation(
        space=one.space,
        best=best,
        alone=tuple(float(table[c]) for table, c in zip(tables, best.codes, strict=True)),
        one_by_one=LabelSet(
            tuple(single.tolist()), float(np.exp(one.log_prob_codes(single[None])[0]))
        ),
        runners_up=tuple(found for found in sets[1:] if found.prob > 0),
        lifts=_lifts(one, best.codes, tables),
        counterfactuals=_counterfactuals(one, best.codes, tables),
        exact=one.exact.all,
        how=one.how,
    )


def _lifts(one: Joint, best: Vector, tables: Sequence[Array]) -> tuple[Lift, ...]:
    uncertain = np.argsort([table[c] for table, c in zip(tables, best, strict=True)])
    looked_at = sorted(uncertain[:_MOST_LABELS].tolist())
    draws = None
    found = []
    for i, j in combinations(looked_at, 2):
        if draws is None:
            try:
                both = float(one.pair_table(i, j)[0, best[i], best[j]])
            except NotImplementedError:
                draws = one.sample_codes(_DRAWS, np.random.default_rng(0))[:, 0]
        if draws is not None:
            both = float(((draws[:, i] == best[i]) & (draws[:, j] == best[j])).mean())
        apart = float(tables[i][best[i]] * tables[j][best[j]])
        if apart > 0 and both / apart >= _LEAST_LIFT:
            found.append(Lift((i, j), both / apart))
    return tuple(sorted(found, key=lambda pair: -pair.lift))


def _counterfactuals(
    one: Joint, best: Vector, tables: Sequence[Array]
) -> tuple[Counterfactual, ...]:
    found = []
    for label, table in enumerate(tables):
        for value in range(len(table)):
            if value == best[label] or table[value] < _LEAST_PROB:
                continue
            known = np.full((1, len(tables)), MISSING, dtype=np.int32)
            known[0, label] = value
            try:
                given = one.given_codes(known)
            except ValueError:  # impossible after all, but for a rounding error
                continue
            answer = given.mode_codes()[0]
            prob = float(np.exp(given.log_prob_codes(answer[None])[0]))
            others = np.flatnonzero(answer != np.array(best))
            changed = tuple(int(i) for i in others if i != label)
            then = LabelSet(tuple(answer.tolist()), prob)
            found.append(Counterfactual(label, value, float(table[value]), then, changed))
    return tuple(sorted(found, key=lambda s: (-s.expected_changes, -s.prob)))


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
    rules : CompiledRules or None
        What the model's answers obey.
    """

    space: LabelSpace
    rows: tuple[ExploredRow, ...]
    how: str
    exact: bool
    graph: Mapping[str, Any] | None = None
    rules: CompiledRules | None = None

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
    codes, log_prob = joint.top_k_codes(min(most, math.prod(joint.space.cardinalities)))
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
