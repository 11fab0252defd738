"""Working out one cell: divide the rows, learn, ask about the rows held out, measure."""

from __future__ import annotations

import re
import time
import traceback
import warnings
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.pipeline import make_pipeline

from colabel.comparing import Ask, Task, answer, learn
from studies.build import build, build_steps
from studies.cells import Cell
from studies.datasets import (
    SYNTHETIC_GRAPHS,
    Dataset,
    first_label_folds,
    iterative_stratification,
    kfold,
    load,
    load_digit_traits,
    make_synthetic,
    random_splits,
)
from studies.measures import CPU, MEASURES, PATH, TRUE_GRAPH, true_graph
from studies.plan import Protocol

if TYPE_CHECKING:
    from studies.methods.arrays import Indices

_SYNTHETIC_ROWS = 500
_REDRAWN = 10  # folds of a draw of the folds


@dataclass(frozen=True)
class Outcome:
    """What became of a cell.

    Attributes
    ----------
    status : {"done", "failed"}
    values : {measure: float}
    learn_seconds, predict_seconds : float
    n_train, n_test : int
    error : str
        Last line of the error, with the place; empty where done.
    warnings : tuple of str
        Distinct warnings, first lines.
    """

    status: str
    values: dict[str, float] = field(default_factory=dict)
    learn_seconds: float = 0.0
    predict_seconds: float = 0.0
    n_train: int = 0
    n_test: int = 0
    error: str = ""
    warnings: tuple[str, ...] = ()


def evaluate(cell: Cell, data_home: str | None = None) -> Outcome:
    """Work out a cell; an error becomes part of the outcome."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            parts = _work_out(cell, data_home)
            status, error = "done", ""
        except Exception as raised:
            parts, status, error = {}, "failed", _one_line(raised)
    said = tuple(dict.fromkeys(str(entry.message).split("\n")[0] for entry in caught))
    return Outcome(status, **parts, error=error, warnings=said[:10])


def _work_out(cell: Cell, data_home: str | None) -> dict[str, Any]:
    if cell.protocol.kind == "redrawn":
        folds = Protocol("first_label", _REDRAWN, cell.protocol.seed + cell.split)
        each = [replace(cell, protocol=folds, split=fold) for fold in range(_REDRAWN)]
        return _mean([_work_out(one, data_home) for one in each])
    if cell.protocol.kind == "draws":
        data = make_synthetic(cell.dataset, _SYNTHETIC_ROWS, cell.protocol.seed + cell.split)
        train = test = np.arange(data.n_rows)
    else:
        data = load_data(cell.dataset, data_home)
        train, test = _splits(cell.dataset, cell.protocol, data_home)[cell.split]
    model = make_pipeline(*build_steps(cell.steps), build(cell.model))
    task = Task.of(data.X, data.Y, data.label_names)
    start = time.process_time()
    fitted, learned = learn(model, task, train)
    found: dict[str, Any] = {"learn_seconds": learned, "n_train": len(train)}
    measures = {name: MEASURES[name] for name in cell.measures}
    log_prob = any(measure.needs_log_prob for measure in measures.values())
    ask = Ask(log_prob, marginals=False, confidence=False, joint=PATH in measures)
    held_out = answer(fitted, task, test, ask)
    seconds = time.process_time() - start
    values = {name: measure.take(held_out) for name, measure in measures.items()}
    if CPU in values:
        values[CPU] = seconds
    if TRUE_GRAPH in values:
        values[TRUE_GRAPH] = true_graph(held_out, cell.dataset)
    return {
        **found,
        "values": values,
        "predict_seconds": held_out.predict_seconds,
        "n_test": len(test),
    }


def _mean(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Average the measures of folds; seconds are summed."""
    values = {m: float(np.mean([part["values"][m] for part in parts])) for m in parts[0]["values"]}
    sums = {k: sum(part[k] for part in parts) for k in ("learn_seconds", "predict_seconds")}
    return {**parts[0], **sums, "values": values}


def _one_line(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({frames[-1].name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{place}"


@lru_cache(maxsize=2)
def load_data(name: str, data_home: str | None) -> Dataset:
    """Return a data set of the catalogue, the bundled one, or one draw of a synthetic problem.

    Of "yeast:7" the first seven labels, of "yeast/600" the first 600 rows.
    """
    if found := re.fullmatch(r"(.+)([:/])(\d+)", name):
        whole, number = load_data(found[1], data_home), int(found[3])
        if found[2] == "/":
            return replace(whole, X=whole.X[:number], Y=whole.Y[:number])
        return replace(whole, Y=whole.Y[:, :number], label_names=whole.label_names[:number])
    if name == "digit_traits":
        return load_digit_traits()
    if name in SYNTHETIC_GRAPHS:
        return make_synthetic(name, _SYNTHETIC_ROWS, 0)
    return load(name, data_home=data_home)


@lru_cache(maxsize=2)
def _splits(name: str, protocol: Protocol, data_home: str | None) -> list[tuple[Indices, Indices]]:
    data = load_data(name, data_home)
    if protocol.kind == "kfold":
        return kfold(data.n_rows, protocol.splits, protocol.seed)
    if protocol.kind == "first_label":
        return first_label_folds(data.Y, protocol.splits, protocol.seed)
    if protocol.kind == "stratified":
        return iterative_stratification(data.Y, protocol.splits, protocol.seed)
    assert protocol.train is not None
    assert protocol.test is not None
    return random_splits(data.n_rows, protocol.train, protocol.test, protocol.splits, protocol.seed)
