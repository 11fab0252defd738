"""Pages about rows: why one has its labels, and many to explore by setting labels as known."""

from __future__ import annotations

from typing import Any

import numpy as np

from colabel.models.evidence.record import (
    Exploration,
    ExploredRow,
    FeatureEvidence,
    RowExplanation,
)
from colabel.report.graphs import page_graph
from colabel.report.pages import counted, fixed, page, signed
from colabel.rules.compiled import Combinations, Node, Tally

_DRAWN = 6  # terms of a label, the others being one; and lines of a table


def explanation_html(why: RowExplanation, evidence: FeatureEvidence | None, name: str) -> str:
    """Return why a row has its labels as HTML that needs nothing else.

    Parameters
    ----------
    why : RowExplanation
    evidence : FeatureEvidence or None
        What its columns say; None leaves that part out.
    name : str
        What the row is called.
    """

    def number(value: float) -> dict[str, Any]:
        return {"text": fixed(value, 3), "key": value}

    n_labels = 0 if evidence is None else len(evidence.positions)
    counterfactuals = [
        [
            why.value(one.label, one.value),
            number(one.prob),
            why.named(one.answer.codes),
            number(one.answer.prob),
        ]
        for one in why.counterfactuals[:_DRAWN]
    ]
    return page(
        "explanation.html",
        title=f"{name}: why these labels?",
        about=why.how,
        why=why,
        evidence=evidence,
        sets=[[why.named(one.codes), number(one.prob)] for one in (why.best, *why.runners_up)],
        labels=[_label(evidence, place) for place in range(n_labels) if evidence is not None],
        lifts=[
            [
                " and ".join(why.value(i, why.best.codes[i]) for i in pair.labels),
                {"text": f"{pair.lift:.2f}", "key": pair.lift},
            ]
            for pair in why.lifts[:_DRAWN]
        ],
        counterfactuals=counterfactuals if len(why.alone) > 1 else [],
    )


def _label(evidence: FeatureEvidence, place: int) -> dict[str, Any]:
    terms = evidence.terms(place)
    bars = [("average row", float(evidence.average[place]), "start")]
    for term in terms[:_DRAWN]:
        name = f"label {term}" if term.kind == "label" else str(term)
        bars.append((name, term.log_odds, term.kind.split()[-1]))
    rest = terms[_DRAWN:]
    if rest:
        bars.append((f"{len(rest):,} more", sum(term.log_odds for term in rest), "rest"))
    bars.append(("sum", float(evidence.log_odds[place]), "sum"))
    rows = [
        [
            str(term),
            {"text": signed(term.log_odds, 3), "key": term.log_odds},
            {"text": fixed(term.error, 3), "key": term.error},
        ]
        for term in terms
    ]
    return {
        "heading": f"{evidence.statement(place)}: P = {fixed(float(evidence.prob[place]), 3)}",
        "bars": bars,
        "rows": rows if rest else [],
    }


def exploration_html(exploration: Exploration, title: str) -> str:
    """Return a page to ask the joint as HTML that needs nothing else.

    Parameters
    ----------
    exploration : Exploration
    title : str
    """
    space, graph = exploration.space, exploration.graph
    about = (
        f"{counted(len(exploration.rows), 'row')}, {counted(space.n_labels, 'label')}; "
        f"{counted(exploration.n_vectors, 'label set')} listed, which hold "
        f"{exploration.listed_text} of a row's probability on average. "
        f"{exploration.how}"
    )
    if not exploration.exact:
        about += " The probabilities of label sets are estimates, and so are all bounds."
    data = {
        "labels": list(space.names),
        "values": [[str(value) for value in classes.tolist()] for classes in space.classes],
        "indicator": space.is_indicator,
        "rows": [_row(row, space.is_indicator) for row in exploration.rows],
        "rules": [_rule(node) for node in exploration.rules.nodes] if exploration.rules else [],
    }
    return page(
        "exploration.html",
        "explore.js",
        title=title,
        about=about,
        with_evidence=any(row.evidence is not None for row in exploration.rows),
        graph=page_graph(graph) if graph is not None and graph["edges"] else None,
        data=data,
    )


def _rule(node: Node) -> dict[str, Any]:
    """Write a rule as the page's script reads it."""
    if isinstance(node, Tally):
        worth = [[label, own.tolist()] for label, own in node.worth.items()]
        return {"worth": worth, "low": node.low, "high": node.high}
    if isinstance(node, Combinations):
        return {"labels": node.labels.tolist(), "vectors": node.vectors.tolist()}
    kind = "every" if node.every else "some"
    return {kind: [_rule(part) for part in node.parts]}


def _row(row: ExploredRow, indicator: bool) -> dict[str, Any]:
    """Write a row: of 0/1 labels a set is the positions of its labels, else all the codes."""

    def rounded(prob: Any) -> list[float]:
        return [float(f"{p:.6g}") for p in prob.tolist()]

    evidence = None
    if row.evidence is not None:
        # for each label: what is explained, and the strongest terms for it and against it
        evidence = [
            [
                row.evidence.statement(place),
                *(
                    [[str(term), round(term.log_odds, 3), term.kind] for term in side]
                    for side in row.evidence.speaking(place)
                ),
            ]
            for place in range(len(row.evidence.positions))
        ]
    return {
        "name": row.name,
        "cells": [list(cell) for cell in row.cells],
        "sets": [np.flatnonzero(c).tolist() if indicator else c.tolist() for c in row.codes],
        "p": rounded(row.prob),
        "marginals": [rounded(table[1:] if indicator else table) for table in row.marginals],
        "evidence": evidence,
    }
