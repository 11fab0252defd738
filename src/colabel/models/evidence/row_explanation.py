"""Why a row has the labels it has: what a joint distribution says about one row, as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from colabel.core.arrays import Array
from colabel.decide import Hamming
from colabel.joint import Joint
from colabel.joint.views import label_set_text, named_set
from colabel.labels import MISSING, LabelSpace

Vector = tuple[int, ...]

_MOST_LABELS = 40  # looked at in pairs
_DRAWS = 4000  # for joints without a closed form for pairs
_LEAST_LIFT = 1.05


@dataclass(frozen=True)
class LabelSet:
    """A label vector and its joint probability."""

    codes: Vector
    prob: float


@dataclass(frozen=True)
class Pull:
    """Two labels of the answer that are more probable together than each alone suggests.

    `lift` is P(both) / (P(one) P(other)), for the values in the answer.
    """

    labels: tuple[int, int]
    lift: float


@dataclass(frozen=True)
class Switch:
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
    pulls : tuple of Pull
        Strongest first.
    switches : tuple of Switch
        The one that is expected to change most first.
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
    pulls: tuple[Pull, ...]
    switches: tuple[Switch, ...]
    exact: bool
    how: str

    @property
    def prob_if_independent(self) -> float:
        """Probability of `best` if its labels were independent of each other."""
        return float(np.prod(self.alone))

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
            "pulls": [
                {"labels": [names[i] for i in pull.labels], "lift": pull.lift}
                for pull in self.pulls
            ],
            "if_known": [
                {
                    "label": names[switch.label],
                    "value": str(self.space.classes[switch.label][switch.value]),
                    "probability": switch.prob,
                    "answer": as_dict(switch.answer),
                    "changes": [names[i] for i in switch.changed],
                }
                for switch in self.switches
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
    >>> why.value(why.switches[0].label, why.switches[0].value), why.switches[0].changed
    ('rain = 0', (1,))
    """
    one = joint[row]
    codes, log_prob = one.top_k_codes(min(n_runners_up + 1, _n_vectors(one.space)))
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
        pulls=_pulls(one, best.codes, tables),
        switches=_switches(one, best.codes, tables),
        exact=one.exact.all,
        how=one.how,
    )


def _n_vectors(space: LabelSpace) -> int:
    n_vectors = 1
    for size in space.cardinalities:
        n_vectors = min(n_vectors * size, 1 << 30)
    return n_vectors


def _pulls(one: Joint, best: Vector, tables: Sequence[Array]) -> tuple[Pull, ...]:
    uncertain = np.argsort([table[c] for table, c in zip(tables, best, strict=True)])
    looked_at = sorted(uncertain[:_MOST_LABELS].tolist())
    draws = None
    found = []
    for i, j in combinations(looked_at, 2):
        try:
            both = float(one.pair_table(i, j)[0, best[i], best[j]]) if draws is None else None
        except NotImplementedError:
            draws = one.sample_codes(_DRAWS, np.random.default_rng(0))[:, 0]
            both = None
        if both is None:
            assert draws is not None
            both = float(((draws[:, i] == best[i]) & (draws[:, j] == best[j])).mean())
        apart = float(tables[i][best[i]] * tables[j][best[j]])
        if apart > 0 and both / apart >= _LEAST_LIFT:
            found.append(Pull((i, j), both / apart))
    return tuple(sorted(found, key=lambda pull: -pull.lift))


def _switches(one: Joint, best: Vector, tables: Sequence[Array]) -> tuple[Switch, ...]:
    found = []
    for label, table in enumerate(tables):
        for value in range(len(table)):
            if value == best[label] or not table[value] > 0:
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
            found.append(Switch(label, value, float(table[value]), then, changed))
    return tuple(sorted(found, key=lambda s: (-s.expected_changes, -s.prob)))
