"""A page to ask the joint: pick a row, set labels as known, watch the others follow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from colabel.core.arrays import Array
from colabel.models.evidence import Exploration, ExploredRow, FeatureEvidence
from colabel.report._html.graphs import graph_figure
from colabel.report._html.markup import counted, details, join, paragraph, tag
from colabel.report._html.page import data_block, page, section, write_page

_ABOUT_LISTED = (
    "The page knows the most probable label sets of each row, until 99.95 % of its probability is "
    "listed or there are too many of them, and nothing else. While nothing is set, the "
    "probability of each label is the model's own. Once labels are set, it is the share of the "
    "listed sets that agree with them: exact up to what is not listed. Where that matters a "
    "lighter band shows within which bounds the number lies, wherever the rest may be. What is "
    "set may be so improbable that few listed sets agree, or none; then ask the model itself: "
)


def write_exploration_html(path: str | Path, exploration: Exploration, title: str) -> None:
    """Write the page; it appears under its name when it is complete."""
    write_page(path, exploration_html(exploration, title))


def exploration_html(exploration: Exploration, title: str) -> str:
    """Return the page as HTML that needs nothing else.

    Parameters
    ----------
    exploration : Exploration
    title : str
    """
    n_rows, n_labels = len(exploration.rows), exploration.space.n_labels
    about = (
        f"{counted(n_rows, 'row')}, {counted(n_labels, 'label')}; "
        f"{counted(exploration.n_vectors, 'label set')} listed, with "
        f"{exploration.listed_text} of the probability of a row on average. "
        f"{exploration.how}"
    )
    if not exploration.exact:
        about += " The probabilities of label sets are estimates, and so are all bounds."
    parts = [
        tag("noscript", paragraph("The page needs JavaScript, which is switched off.")),
        section("Row", "row", tag("div", id="explore-rows")),
        section("Labels", "labels", tag("div", id="explore-labels")),
        section("Label sets", "sets", tag("div", id="explore-sets", aria_live="polite")),
    ]
    if any(row.evidence is not None for row in exploration.rows):
        said = (
            "In log-odds, while nothing is set: what the columns of the row and the other labels "
            "of its most probable set add to each label."
        )
        content = join(paragraph(said, class_="legend"), tag("div", id="explore-evidence"))
        parts.append(section("What speaks for and against each label", "evidence", content))
    if exploration.graph is not None and exploration.graph["edges"]:
        said = paragraph("What the model learned, averaged over the rows.", class_="legend")
        figure = graph_figure(exploration.graph, title, "label-graph")
        parts.append(section("Label graph", "graph", join(said, figure)))
    asking = join(
        paragraph(
            _ABOUT_LISTED,
            tag("code", "colabel predict … --given"),
            " or ",
            tag("code", "joint.given(…)"),
            ".",
        )
    )
    parts.append(details("What the numbers mean", asking))
    parts.append(data_block(_data(exploration), "explore-data"))
    return page(title, about, None, join(parts), extra="explore")


def _data(exploration: Exploration) -> dict[str, Any]:
    space = exploration.space
    return {
        "labels": list(space.names),
        "values": [[str(value) for value in classes.tolist()] for classes in space.classes],
        "indicator": space.is_indicator,
        "rows": [_row(row, space.is_indicator) for row in exploration.rows],
    }


def _row(row: ExploredRow, indicator: bool) -> dict[str, Any]:
    """Write a row: of 0/1 labels a set is the positions of its labels, else all the codes."""
    sets = [np.flatnonzero(codes).tolist() if indicator else codes.tolist() for codes in row.codes]
    marginals = [table[1:] if indicator else table for table in row.marginals]
    return {
        "name": row.name,
        "cells": [list(cell) for cell in row.cells],
        "sets": sets,
        "p": _rounded(row.prob),
        "marginals": [_rounded(table) for table in marginals],
        "evidence": None if row.evidence is None else _evidence(row.evidence),
    }


def _evidence(found: FeatureEvidence) -> list[list[Any]]:
    """Write, for each label, what is explained and the strongest terms for it and against it."""
    lines = []
    for place in range(len(found.positions)):
        sides = (
            [[str(term), round(term.log_odds, 3), term.kind] for term in side]
            for side in found.speaking(place)
        )
        lines.append([found.statement(place), *sides])
    return lines


def _rounded(prob: Array) -> list[float]:
    """Keep six digits, and the sum at most 1."""
    return [float(f"{p:.6g}") for p in prob.tolist()]
