"""How a study was made, and what is missing from it."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from colabel.experiments import Plan, Results
from colabel.experiments.plan import DataPlan, Protocol
from colabel.report._html.markup import Html, counted, details, join, listed, paragraph, tag
from colabel.report._html.tables import EMPTY, Column, Field, table


def protocol_section(results: Results) -> Html:
    """Say what was run: methods, data sets, splits; parameters on demand."""
    plan = results.plan
    methods = counted(len(plan.methods), "method")
    datasets = counted(len(plan.datasets), "data set")
    groups: dict[str, list[str]] = defaultdict(list)
    for data in plan.datasets:
        groups[_splits_words(data)].append(data.name)
    name = f" Plan: {plan.name}."
    if len(groups) == 1:
        how = f"{methods} on {datasets}: {next(iter(groups))}.{name}"
        return join(paragraph(how), _methods(plan))
    items = [tag("li", f"{listed(names)}: {said}") for said, names in groups.items()]
    how = f"{methods} on {datasets}.{name}"
    return join(paragraph(how), tag("ul", items), _methods(plan))


def _splits_words(data: DataPlan) -> str:
    few = "" if data.first is None else f"the first {data.first} of "
    return few + protocol_words(data.protocol)


def protocol_words(protocol: Protocol) -> str:
    """Describe how rows are divided.

    Examples
    --------
    >>> protocol_words(Protocol("kfold", 10, 3))
    '10-fold cross-validation, seed 3'
    >>> protocol_words(Protocol("random", 10, 0, 1500, 0.25))
    '10 random splits, 1,500 rows for training and 25 % for testing, seed 0'
    """
    n, seed = protocol.splits, f", seed {protocol.seed}"
    if protocol.kind == "kfold":
        return f"{n}-fold cross-validation{seed}"
    if protocol.kind == "first_label":
        return f"{n}-fold cross-validation, folds stratified by the first label{seed}"
    if protocol.kind == "stratified":
        return f"{n}-fold cross-validation, folds stratified by label{seed}"
    if protocol.kind == "random":
        sizes = f"{_size(protocol.train)} for training and {_size(protocol.test, '')} for testing"
        return f"{counted(n, 'random split')}, {sizes}{seed}"
    if protocol.kind == "draws":
        return f"{counted(n, 'new draw')} of a synthetic problem, learned whole{seed}"
    return "all rows for learning"


def _size(size: float | None, unit: str = " rows") -> str:
    if size is None:
        return "the rest"
    return f"{size:,.0f}{unit}" if size >= 1 and float(size).is_integer() else f"{100 * size:g} %"


def _methods(plan: Plan) -> Html:
    rows = []
    for method in plan.methods:
        own = {key: value for key, value in method.model.items() if key != "model"}
        rows.append(
            [
                Field(method.name + (" (reference)" if method.name == plan.reference else "")),
                Field(_words(method.model.get("model", "")), kind="code"),
                Field(_parameters(own), kind="code") if own else EMPTY,
                Field(", ".join(map(_words, method.steps)), kind="code") if method.steps else EMPTY,
            ]
        )
    columns = [Column(name, is_text=True) for name in ("method", "model", "parameters", "before")]
    notes = [
        tag("li", f"{method.name} on {dataset}: {_parameters(different)}")
        for method in plan.methods
        for dataset, different in method.on.items()
    ]
    notes += [
        tag("li", f"{method.name} is not run on {dataset}: {reason}")
        for method in plan.methods
        for dataset, reason in method.without.items()
    ]
    return details(
        "Methods and their parameters",
        table(
            "Methods: estimator, parameters that differ from the default, steps before",
            columns,
            rows,
        ),
        tag("ul", notes) if notes else None,
    )


def _parameters(own: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={_words(value)}" for key, value in own.items())


def _words(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)


def state_section(results: Results) -> Html:
    """List what failed, what is missing, and the versions that made the rest."""
    if results.missing:
        cells = counted(results.missing, "cell has", "cells have")
        state = join(paragraph(f"{cells} no result yet."), _missing(results))
    else:
        state = paragraph("Every cell of the plan has been run.")
    failed = _failures(results) if results.failures else paragraph("No cell failed.")
    return join(state, failed, _versions(results))


def _missing(results: Results) -> Html | None:
    """Count the splits that every data set and method lack."""
    seen: dict[tuple[str, str], set[int]] = defaultdict(set)
    for row in results.rows:
        seen[row.dataset, row.method].add(row.split)
    rows = []
    for data in results.plan.datasets:
        asked = [results.plan.n_run(data, method) for method in results.plan.methods]
        lacking = [
            n - len(seen[data.name, method.name])
            for n, method in zip(asked, results.plan.methods, strict=True)
        ]
        fields = [
            Field(f"{short} of {n}", short) if short > 0 else EMPTY
            for n, short in zip(asked, lacking, strict=True)
        ]
        if any(short > 0 for short in lacking):
            rows.append([Field(data.name), *fields])
    if not rows:
        return None  # only fits to all rows, for label graphs
    columns = [Column("data set", is_text=True), *(Column(name) for name in results.methods)]
    return details("Which", table("Splits without a result", columns, rows))


def _failures(results: Results) -> Html:
    splits: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for cell, error in results.failures:
        which = "all rows" if cell.protocol.kind == "whole" else str(cell.split)
        splits[cell.dataset, cell.method, error].append(which)
    rows = [
        [Field(dataset), Field(method), Field(", ".join(which)), Field(error, kind="remark")]
        for (dataset, method, error), which in splits.items()
    ]
    columns = [Column(name, is_text=True) for name in ("data set", "method", "splits", "error")]
    said = counted(len(results.failures), "cell")
    return join(paragraph(f"{said} failed."), table("Cells that failed", columns, rows))


def _versions(results: Results) -> Html | None:
    cells = {(row.dataset, row.method, row.split, row.versions) for row in results.rows}
    counts = Counter(versions for *_, versions in cells)
    if not counts:
        return None
    lines = [
        _version_words(text) + (f" ({counted(n, 'cell')})" if len(counts) > 1 else "")
        for text, n in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    ]
    if len(lines) == 1:
        return paragraph(f"Measured with {lines[0]}.")
    return join(paragraph("Measured with:"), tag("ul", [tag("li", line) for line in lines]))


def _version_words(text: str) -> str:
    try:
        found = json.loads(text)
    except ValueError:
        return text
    if not isinstance(found, dict):
        return text
    return ", ".join(f"{name} {version}" for name, version in found.items())
