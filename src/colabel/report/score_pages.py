"""Pages about labels that look wrong, and about how good a model is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from colabel.comparing import MEASURES, Evaluation
from colabel.core.arrays import Indices
from colabel.decide import Audit
from colabel.report.pages import counted, fixed, page, signed


def audit_html(
    audit: Audit,
    row_numbers: Indices,
    cells: Callable[[int], Sequence[tuple[str, str]]],
    most: int,
) -> str:
    """Return a page of the most suspicious labels, row by row; the worst row comes first.

    Parameters
    ----------
    audit : Audit
    row_numbers : (n,)
        Which rows of the table were audited, from 0.
    cells : callable
        From a row to the names and values of its columns.
    most : int
        Labels on the page.
    """
    worst = audit.worst_labels[:most]
    looked = audit.wrong[worst[:, 0], worst[:, 1]] > 0.1
    by_row: dict[int, list[int]] = {}
    for row, label in worst[looked]:
        by_row.setdefault(int(row), []).append(int(label))
    for row in np.flatnonzero(audit.broken.any(axis=1)):
        by_row.setdefault(int(row), [])
    order = [int(row) for row in audit.order if int(row) in by_row]
    names = audit.space.names

    def value(codes: Any, row: int, label: int) -> str:
        return str(audit.values_at(codes, np.array([[row, label]]))[0])

    rows = [
        {
            "number": f"{int(row_numbers[row]) + 1:,}",
            "breaks": bool(audit.broken[row].any()),
            "cells": cells(row),
            "labels": [
                {
                    "label": names[label],
                    "given": value(audit.codes, row, label),
                    "rather": value(audit.suggestion, row, label),
                    "wrong": fixed(float(audit.wrong[row, label]), 3),
                    "probability": fixed(float(audit.probability[row, label]), 3),
                    "evidence": [
                        (what, signed(nats, 1))
                        for what, nats in audit.evidence.get((row, label), ())
                    ],
                }
                for label in by_row[row]
            ],
            "others": ", ".join(
                f"{names[i]}={value(audit.codes, row, int(i))}"
                for i in np.flatnonzero(audit.known[row])
                if i not in by_row[row]
                and not (audit.space.is_indicator and not audit.codes[row, i])
            ),
        }
        for row in order
    ]
    n_wrong = audit.n_wrong()
    about = (
        f"{counted(len(audit.codes), 'row')}, {counted(len(names), 'label')}. About "
        f"{n_wrong.rate:,.0f} of {int(audit.known.sum()):,} given labels look wrong (between "
        f"{n_wrong.low:,.0f} and {n_wrong.high:,.0f}). Each was judged by models that have not "
        "seen its row, from the features and the row's other labels. The columns and labels that "
        "speak most for the correction are named, with what they add to its log-odds. Keys: j next "
        "row, k previous."
    )
    return page("audit.html", "audit.js", title="Labels that look wrong", about=about, rows=rows)


def evaluation_html(scores: Evaluation, title: str) -> str:
    """Return a page of measures, labels and confusions."""
    measures = []
    for name, (score, error) in scores.measures.items():
        if score == score:
            shown = MEASURES[name].title if name in MEASURES else name.replace("_", " ")
            spread = {"error": fixed(error, 3)} if error == error else {}
            measures.append([shown, {**_number(score, 3), **spread}])
    labels = [
        [one.name, {"text": f"{one.n_true:,}", "key": one.n_true}]
        + [_number(value, 3) for value in one[2:]]
        for one in scores.labels
    ]
    confusions = [
        [one.missed, one.predicted, {"text": f"{one.n_rows:,}", "key": one.n_rows}]
        for one in scores.confusions
    ]
    about = f"{counted(scores.n_rows, 'row')}; ± is the standard error over rows."
    if scores.n_unseen:
        unseen = counted(scores.n_unseen, "row")
        about += f" {unseen} with a value never seen in training; the log-loss is of the others."
    if scores.coverage is not None:
        about += f" The sets held the true labels in {scores.coverage.value:.1%} of the rows."
    return page(
        "evaluation.html",
        title=title,
        about=about,
        measures=measures,
        labels=labels,
        confusions=confusions,
    )


def _number(value: float, digits: int) -> dict[str, Any]:
    return {"text": fixed(float(value), digits), "key": float(value)}
