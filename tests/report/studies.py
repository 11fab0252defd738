"""Studies made up for tests: seeded random rows, no learning."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from colabel.experiments import Cell, Figure, Plan, Results, Row
from colabel.experiments.claims import Claim
from colabel.experiments.plan import DataPlan, MethodPlan, Protocol
from colabel.experiments.remarks import Remark

VERSIONS = json.dumps({"python": "3.11.7", "colabel": "0.1.0", "numpy": "2.0.0"})
DATASETS = (
    ("emotions", 6),
    ("scene", 6),
    ("image", 5),
    ("yeast", 14),
    ("genbase", 27),
    ("medical", 45),
    ("enron", 53),
    ("rcv1_top10", 10),
    ("tmc2007", 22),
    ("bibtex_top10", 10),
)
METHODS = ("BR", "CHF", "CC", "PCC", "ECC", "MLKNN", "IBLR", "CML", "CTBN")
MEASURES = ("exact_match", "micro_f1", "log_loss_sum_per_fold")


def make_plan(
    n_datasets: int = 3,
    n_methods: int = 3,
    measures: Sequence[str] = MEASURES,
    splits: int = 10,
    **parts: Any,
) -> Plan:
    """A plan of the first data sets and the last methods, with CTBN as the reference."""
    datasets = tuple(DataPlan(name, Protocol("kfold", splits)) for name, _ in DATASETS[:n_datasets])
    methods = tuple(
        MethodPlan(name, {"model": name, "C": 1.0}, ("StandardScaler",))
        for name in METHODS[-n_methods:]
    )
    about = "Ten folds of random numbers, to see what a report looks like."
    made = {"title": "A made-up study", "description": about, "reference": METHODS[-1], **parts}
    name = made.pop("name", "made-up")
    return Plan(
        name,
        made.pop("title"),
        made.pop("description"),
        made.pop("reference"),
        tuple(measures),
        datasets,
        methods,
        **made,
    )


def make_rows(plan: Plan, seed: int = 0) -> tuple[Row, ...]:
    """One value for each measure, data set, method and split."""
    rng = np.random.default_rng(seed)
    rows = []
    for data in plan.datasets:
        level, slowness = rng.uniform(0.2, 0.8), rng.uniform(-2, 2)
        for place, method in enumerate(plan.methods):
            skill = level + 0.015 * place + rng.normal(0, 0.02)
            learn = 10 ** (slowness + rng.uniform(-0.8, 0.8))
            for split in range(data.protocol.splits):
                noise = rng.normal(0, 0.015)
                for measure in plan.measures:
                    value = float(np.clip(skill + noise + rng.normal(0, 0.005), 0, 1))
                    if measure.startswith("log_loss"):
                        value = 400 * (1.2 - value)
                    rows.append(
                        Row(
                            data.name,
                            method.name,
                            "kfold",
                            split,
                            measure,
                            value,
                            "done",
                            "",
                            learn * float(rng.uniform(0.9, 1.1)),
                            0.1,
                            300.0,
                            900,
                            100,
                            VERSIONS,
                        )
                    )
    return tuple(rows)


def make_figures(plan: Plan, rows: Sequence[Row], seed: int = 1) -> tuple[Figure, ...]:
    """Published figures near what is measured, some of them far above."""
    rng = np.random.default_rng(seed)
    found: dict[tuple[str, str, str], list[float]] = {}
    for row in rows:
        found.setdefault((row.measure, row.dataset, row.method), []).append(row.value)
    return tuple(
        Figure("2", *key, round(float(np.mean(values)) + float(rng.normal(0, 0.01)), 3))
        for key, values in found.items()
        if rng.random() < 0.7 and not key[0].startswith("log")
    )


def make_tree(names: Sequence[str], seed: int = 0, reach: int = 6) -> dict[str, Any]:
    """A random label tree."""
    rng = np.random.default_rng(seed)
    pairs = [(int(rng.integers(max(0, i - reach), i)), i) for i in range(1, len(names))]
    return _graph(names, pairs, True, rng)


def make_graph(names: Sequence[str], share: float = 0.3, seed: int = 0) -> dict[str, Any]:
    """A random undirected label graph."""
    rng = np.random.default_rng(seed)
    pairs = [
        (i, j) for i in range(len(names)) for j in range(i + 1, len(names)) if rng.random() < share
    ]
    return _graph(names, pairs, False, rng)


def _graph(
    names: Sequence[str], pairs: Sequence[tuple[int, int]], directed: bool, rng: np.random.Generator
) -> dict[str, Any]:
    edges = []
    for i, j in pairs:
        on, off = (float(p) for p in rng.beta(0.6, 0.9, size=2))
        edges.append(
            {
                "from": i,
                "to": j,
                "given_on": on,
                "given_off": off,
                "back_on": on * 0.9,
                "back_off": off * 0.8,
            }
        )
    shares = [float(p) for p in rng.beta(1.0, 3.0, size=len(names))]
    return {"labels": list(names), "probability": shares, "directed": directed, "edges": edges}


def make_cell(plan: Plan, dataset: str, method: str, split: int = 0, kind: str = "whole") -> Cell:
    return Cell(dataset, method, Protocol(kind, 1), split, {"model": method}, (), ())


def make_results(n_datasets: int = 3, n_methods: int = 3, **parts: Any) -> Results:
    """Results with everything: figures, claims, remarks, graphs, a failure, missing cells."""
    plan = make_plan(n_datasets, n_methods, **parts)
    rows = make_rows(plan)
    names = [data.name for data in plan.datasets]
    others = [method.name for method in plan.methods if method.name != plan.reference]
    claim = Claim(
        "The tree beats the other methods by exact match and micro F1",
        plan.reference,
        tuple(others),
        ("exact_match", "micro_f1"),
        tuple(names),
    )
    plan = make_plan(
        n_datasets,
        n_methods,
        **{
            "figures": make_figures(plan, rows),
            "claims": (claim,),
            "remarks": {
                names[0]: Remark("The paper does not say how it scaled the features."),
                f"{names[0]}/{METHODS[0]}": Remark("The penalty is not printed.", "convention"),
            },
            **parts,
        },
    )
    sizes = dict(DATASETS)
    graphs = []
    for place, name in enumerate(names):
        labels = [f"{_WORDS[i % len(_WORDS)]}.{i}" for i in range(sizes[name])]
        graphs.append((make_cell(plan, name, "CTBN"), make_tree(labels, place)))
        if place % 2 == 0:
            crf = make_graph(labels, min(0.5, 2.0 / len(labels)), place)
            graphs.append((make_cell(plan, name, "CML"), crf))
    failure = (make_cell(plan, names[0], METHODS[0], 3, "kfold"), "ValueError: too few rows (fit)")
    return Results(plan, rows, tuple(graphs), (failure,), 2)


_WORDS = (
    "amazed-surprised",
    "calm",
    "company business",
    "legal advice",
    "emotional tone jubilation",
    "forwarded",
    "B.B8",
    "internal operations",
)
