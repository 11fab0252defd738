"""One row of the demo: what a joint distribution knows that single labels do not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.console import Console
from rich.table import Table

from colabel.datasets import Dataset
from colabel.datasets.digit_traits import TRAITS
from colabel.decide import Hamming
from colabel.experiments.held_out import HeldOut
from colabel.joint import Joint

_SHADES = " ░▒▓█"
_BRIGHTEST = 16
_DIGIT_OF = {frozenset(name for name, of in TRAITS.items() if d in of): d for d in range(10)}

Labels = NDArray[Any]


@dataclass(frozen=True)
class _Case:
    """A row of the data and the answers for it.

    Attributes
    ----------
    row : int
    joint : Joint of this one row
    one_by_one : (d,)
        The more probable value of each label.
    n_unlike : int
        Rows whose most probable vector is not made of the more probable values.
    """

    row: int
    joint: Joint
    one_by_one: Labels
    n_unlike: int

    @property
    def prob_one_by_one(self) -> float:
        """Probability that all the values in `one_by_one` are right together."""
        return float(np.exp(self.joint.log_prob(self.one_by_one)[0]))


@dataclass(frozen=True)
class _Hint:
    """A label that is given, and the joint that results."""

    name: str
    value: int
    joint: Joint


def show_one_row(console: Console, data: Dataset, held_out: Sequence[HeldOut]) -> None:
    """Show a row whose most probable label set is not made of the most probable labels."""
    case = _pick(held_out)
    names = data.label_names
    hint = _best_hint(case.joint, names)
    digit = _DIGIT_OF[_label_set(data.Y[case.row], names)]
    console.print(
        f"\n[bold]One image that CTBN had not seen[/bold] (row {case.row}, a {digit}) and its most "
        "probable label sets\n"
    )
    picture = Table.grid(padding=(0, 3))
    picture.add_row(_as_blocks(data.X[case.row]), _answers(case.joint, hint, names))
    console.print(picture)
    console.print()
    console.print(_why(case, names, data.n_rows))
    console.print(_what_the_hint_does(case.joint, hint, names))


def _pick(held_out: Sequence[HeldOut]) -> _Case:
    """Pick the row where choosing labels one by one goes wrong most clearly."""
    cases = []
    for part in held_out:
        assert part.joint is not None
        single = Hamming().codes(part.joint)
        unlike = (part.codes != single).any(axis=1)
        right = (part.codes == part.true).all(axis=1)
        log_prob = part.joint.log_prob_codes(single)
        # a row where the joint is right, if there is one; else one that is unlike, else any
        rank = np.where(unlike & right, 0, np.where(unlike, 1, 2))
        place = int(np.lexsort((log_prob, rank))[0])
        case = _Case(int(part.rows[place]), part.joint[place], single[place], int(unlike.sum()))
        cases.append((int(rank[place]), float(log_prob[place]), case))
    best = min(cases, key=lambda found: found[:2])[2]
    return replace(best, n_unlike=sum(case.n_unlike for *_, case in cases))


def _best_hint(joint: Joint, names: Sequence[str]) -> _Hint:
    """Give the label that speaks most clearly for the second most probable label set."""
    first, second = joint.top_k(2).labels[0]
    hints = [
        _Hint(names[i], int(second[i]), joint.given({names[i]: second[i]}))
        for i in np.flatnonzero(first != second).tolist()
    ]
    return max(hints, key=lambda hint: float(hint.joint.log_prob(second)[0]))


def _answers(joint: Joint, hint: _Hint, names: Sequence[str]) -> Table:
    """Tabulate the three most probable label sets, without and with the hint."""
    labels, log_prob = joint.top_k(3)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("label set")
    table.add_column("digit", justify="right")
    table.add_column("P", justify="right")
    table.add_column(f"P given {hint.name} = {hint.value}", justify="right")
    for vector, log in zip(labels[0], log_prob[0], strict=True):
        with_hint = float(np.exp(hint.joint.log_prob(vector)[0]))
        digit = _DIGIT_OF.get(_label_set(vector, names))
        shown = "none" if digit is None else str(digit)
        table.add_row(_listed(vector, names), shown, f"{np.exp(log):.2f}", f"{with_hint:.2f}")
    return table


def _why(case: _Case, names: Sequence[str], n_rows: int) -> str:
    if not case.n_unlike:
        return "It is the image the model is least sure about."
    fits = _label_set(case.one_by_one, names) in _DIGIT_OF
    verdict = "another digit's labels" if fits else "labels that no digit has"
    return (
        f"Taken one by one, the most probable labels are {_listed(case.one_by_one, names)}: "
        f"{verdict}; together their probability is {case.prob_one_by_one:.2f}. "
        f"In {case.n_unlike} of {n_rows} images the two answers differ."
    )


def _what_the_hint_does(joint: Joint, hint: _Hint, names: Sequence[str]) -> str:
    best = hint.joint.mode()[0]
    before, after = (float(np.exp(one.log_prob(best)[0])) for one in (joint, hint.joint))
    return (
        f"If {hint.name} were known to be {hint.value}, the answer would be "
        f"{_listed(best, names)}: its probability goes from {before:.2f} to {after:.2f}."
    )


def _label_set(vector: Labels, names: Sequence[str]) -> frozenset[str]:
    return frozenset(name for name, value in zip(names, vector, strict=True) if value)


def _listed(vector: Labels, names: Sequence[str]) -> str:
    return ", ".join(name for name, value in zip(names, vector, strict=True) if value) or "no label"


def _as_blocks(pixels: Any) -> str:
    """Draw an image of 8x8 pixels, two characters a pixel."""
    shades = np.rint(pixels / _BRIGHTEST * (len(_SHADES) - 1)).astype(int).reshape(8, 8)
    return "\n".join("".join(2 * _SHADES[shade] for shade in line) for line in shades)
