"""A plan: which methods meet which data sets, by which protocol. Read from TOML, checked whole."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from colabel.core.schema import Kind
from colabel.experiments._plan_schema import CLAIM, DATASET, METHOD, PLAN, PROTOCOL, wrong
from colabel.experiments.measures import MEASURES
from colabel.experiments.published import Figure, read_figures

QUICK = "-quick"
"""Ends the name of a plan's quick form."""
_BUNDLED = Path(__file__).parent / "studies"


class PlanError(ValueError):
    """A plan cannot be used; the message says where and what to do."""


@dataclass(frozen=True)
class Protocol:
    """How rows are divided into training and test rows.

    Attributes
    ----------
    kind : {"kfold", "first_label", "stratified", "random", "draws", "whole"}
        k-fold; k-fold stratified on the first label alone; k-fold by iterative stratification;
        random splits of given sizes; new draws of a synthetic problem, learned whole; all rows for
        training and none for testing.
    splits : int
        Number of folds, splits or draws.
    seed : int
        Seed of the division.
    train, test : int or float or None
        Sizes for "random".
    """

    kind: str = "kfold"
    splits: int = 10
    seed: int = 0
    train: float | None = None
    test: float | None = None


@dataclass(frozen=True)
class DataPlan:
    """One data set of a plan.

    Attributes
    ----------
    name : str
        Name in the catalogue, "digit_traits", or "SD1" to "SD4".
    protocol : Protocol
    steps : tuple or None
        Preprocessing instead of the methods' own; None for those.
    """

    name: str
    protocol: Protocol
    steps: tuple[Any, ...] | None = None


@dataclass(frozen=True)
class MethodPlan:
    """One method of a plan.

    Attributes
    ----------
    name : str
        As in the tables.
    model : mapping
        The estimator: its class under "model", parameters beside it.
    steps : tuple
        Preprocessing, fitted on training rows: names, or tables like `model`.
    on : mapping {data set: parameters}
        Parameters that differ on some data sets; under "steps", the preprocessing there.
    without : mapping {data set: reason}
        Data sets on which the method is not run.
    """

    name: str
    model: Mapping[str, Any]
    steps: tuple[Any, ...] = ()
    on: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    without: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Claim:
    """What a paper says: `method` beats each of `over` by `measures` on `datasets`.

    With `faster`, that it learns so many times as fast; `measures` is then empty.
    """

    text: str
    method: str
    over: tuple[str, ...]
    measures: tuple[str, ...]
    datasets: tuple[str, ...]
    faster: float | None = None


@dataclass(frozen=True)
class Plan:
    """A whole study.

    Attributes
    ----------
    name, title, description : str
    reference : str
        The method against which the others are marked in the tables.
    measures : tuple of str
    datasets : tuple of DataPlan
    methods : tuple of MethodPlan
    figures : tuple of Figure
        Published figures.
    graphs : tuple of str
        Methods that are also fitted to all rows of every data set, for their label graphs.
    claims : tuple of Claim
    remarks : mapping {key: text}
        Why measured and published figures differ; keys are one to three of "data set/method/
        measure", see `remark_key`.
    """

    name: str
    title: str
    description: str
    reference: str
    measures: tuple[str, ...]
    datasets: tuple[DataPlan, ...]
    methods: tuple[MethodPlan, ...]
    figures: tuple[Figure, ...] = ()
    graphs: tuple[str, ...] = ()
    claims: tuple[Claim, ...] = ()
    remarks: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_quick(self) -> bool:
        """Whether this is the quick form of a plan, whose figures are no results."""
        return self.name.endswith(QUICK)

    def remark_key(self, measure: str, dataset: str, method: str) -> str | None:
        """Return the key of the remark that says most closely why a figure differs."""
        keys = (
            f"{dataset}/{method}/{measure}",
            f"{dataset}/{method}",
            f"{dataset}/{measure}",
            f"{method}/{measure}",
            dataset,
            method,
            measure,
        )
        return next((key for key in keys if key in self.remarks), None)

    def only(self, datasets: Sequence[str] = (), methods: Sequence[str] = ()) -> Plan:
        """Return the plan with some of its data sets and methods; empty for all."""
        chosen_data = _chosen("data set", [d.name for d in self.datasets], datasets)
        chosen_methods = _chosen("method", [m.name for m in self.methods], methods)
        return replace(
            self,
            datasets=tuple(d for d in self.datasets if d.name in chosen_data),
            methods=tuple(m for m in self.methods if m.name in chosen_methods),
            graphs=tuple(name for name in self.graphs if name in chosen_methods),
            claims=tuple(
                replace(
                    claim,
                    over=tuple(name for name in claim.over if name in chosen_methods),
                    datasets=tuple(name for name in claim.datasets if name in chosen_data),
                )
                for claim in self.claims
                if claim.method in chosen_methods
            ),
        )


def load_plan(path: str | Path, *, quick: bool = False) -> Plan:
    """Read a plan, or its quick form: the tables under ``[quick]`` replace those of the same name.

    Published figures are read from the CSV file of the same name beside the plan, if there is one.

    Parameters
    ----------
    path : str or path
        A TOML file, or the name of one in the folder ``studies`` of the working directory, or
        of one that comes with the library, such as "demo".
    quick : bool, default=False

    Returns
    -------
    Plan

    Raises
    ------
    PlanError
        When the file is missing, not TOML, or says something that has no meaning.
    """
    file = _find(Path(path))
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise PlanError(f"Cannot read the plan {file}: {error}.") from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise PlanError(f"{file} is not TOML: {error}.") from error
    shortened = table.pop("quick", None)
    if quick:
        if not isinstance(shortened, dict):
            raise PlanError(f"{file} has no [quick] table: run it without --quick.")
        # Figures and what is said of them belong to the whole study.
        table = {**table, "remarks": {}, **shortened}
    figures_file = file.with_suffix(".csv")
    try:
        figures = read_figures(figures_file) if figures_file.exists() else ()
    except (OSError, ValueError) as error:
        raise PlanError(
            f"{figures_file}, which stands beside the plan, should hold its published figures: "
            f"{error}. Mend it, or move it away."
        ) from error
    name = f"{file.stem}{QUICK}" if quick else file.stem
    try:
        return _plan(name, table, () if quick else figures)
    except PlanError as error:
        raise PlanError(f"{file}: {error}") from error


def _find(path: Path) -> Path:
    folders = (Path("studies"), _BUNDLED)
    names = (path.name, f"{path.name}.toml")
    for candidate in (path, *(folder / name for folder in folders for name in names)):
        if candidate.is_file():
            return candidate
    known = ", ".join(sorted({f.stem for folder in folders for f in folder.glob("*.toml")}))
    there = f"There are: {known}." if known else "There is no folder studies here."
    raise PlanError(f"There is no plan {path}. {there}")


def _plan(name: str, table: Mapping[str, Any], figures: Sequence[Figure]) -> Plan:
    _refuse_wrong(table, PLAN, "the plan")
    measures = tuple(table.get("measures", ("exact_match",)))
    for measure in measures:
        if measure not in MEASURES:
            raise PlanError(f"unknown measure {measure!r}; choose from {', '.join(MEASURES)}.")
    protocol = _protocol(table.get("protocol", {}), Protocol(), "[protocol]")
    steps = tuple(table.get("steps", ()))
    datasets = tuple(_data_plan(entry, protocol) for entry in table.get("datasets", ()))
    methods = tuple(_method_plan(key, own, steps) for key, own in table.get("methods", {}).items())
    if not datasets or not methods:
        raise PlanError("name at least one data set ([[datasets]]) and one method ([methods.X]).")
    names = [method.name for method in methods]
    known = [data.name for data in datasets]
    reference = table.get("reference", names[0])
    if reference not in names:
        raise PlanError(f"reference is {reference!r}; choose from {', '.join(names)}.")
    return Plan(
        name,
        table.get("title", name),
        table.get("description", ""),
        reference,
        measures,
        datasets,
        methods,
        tuple(figures),
        _graphs(table.get("graphs", ()), names),
        tuple(_claim(claim, names, known) for claim in table.get("claims", ())),
        _remarks(table.get("remarks", {}), known, names, measures),
    )


def _protocol(table: Mapping[str, Any], default: Protocol, place: str) -> Protocol:
    _refuse_wrong(table, PROTOCOL, place)
    protocol = replace(default, **table)
    if protocol.kind in ("kfold", "first_label", "stratified") and protocol.splits < 2:
        raise PlanError(f"{place} asks for {protocol.splits} fold: give at least 2 splits.")
    if protocol.kind == "random" and (protocol.train is None or protocol.test is None):
        raise PlanError(f"{place} draws random splits: give the sizes train and test.")
    return protocol


def _data_plan(entry: Any, protocol: Protocol) -> DataPlan:
    if isinstance(entry, str):
        entry = {"name": entry}
    _refuse_wrong(entry, DATASET, f"data set {entry.get('name', '')!r}")
    own = dict(entry)
    name, steps = own.pop("name", None), own.pop("steps", None)
    if name is None:
        raise PlanError(f"a data set has no name: {entry}.")
    return DataPlan(
        name,
        _protocol(own, protocol, f"data set {name!r}"),
        None if steps is None else tuple(steps),
    )


def _method_plan(name: str, table: Mapping[str, Any], steps: tuple[Any, ...]) -> MethodPlan:
    _refuse_wrong(table, METHOD, f"method {name!r}", others=True)
    own = dict(table)
    if "model" not in own:
        raise PlanError(f'method {name!r} has no model: give one, as in model = "CTBN".')
    own_steps, on = tuple(own.pop("steps", steps)), dict(own.pop("on", {}))
    return MethodPlan(name, own, own_steps, on, own.pop("without", {}))


def _graphs(wanted: Sequence[str], methods: Sequence[str]) -> tuple[str, ...]:
    for name in wanted:
        if name not in methods:
            raise PlanError(f"graphs names {name!r}; choose from {', '.join(methods)}.")
    return tuple(wanted)


def _claim(entry: Mapping[str, Any], methods: Sequence[str], datasets: Sequence[str]) -> Claim:
    _refuse_wrong(entry, CLAIM, "a claim")
    try:
        claim = Claim(
            entry["text"],
            entry["method"],
            tuple(entry["over"]),
            tuple(entry["measures"] if "faster" not in entry else ()),
            tuple(entry.get("datasets", datasets)),
            entry.get("faster"),
        )
    except KeyError as error:
        raise PlanError(f"a claim lacks {error}: {dict(entry)}.") from error
    if claim.faster is not None and "measures" in entry:
        raise PlanError(f"a claim has both measures and faster: make two of it: {claim.text!r}.")
    for name in claim.datasets:
        if name not in datasets:
            raise PlanError(f"a claim speaks of the data set {name!r}, which the plan lacks.")
    for method in (claim.method, *claim.over):
        if method not in methods:
            raise PlanError(f"a claim speaks of the method {method!r}, which the plan lacks.")
    for measure in claim.measures:
        if measure not in MEASURES:
            raise PlanError(f"a claim speaks of the unknown measure {measure!r}.")
    return claim


def _remarks(
    table: Mapping[str, str],
    datasets: Sequence[str],
    methods: Sequence[str],
    measures: Sequence[str],
) -> dict[str, str]:
    """Refuse keys that no figure has: their remarks would never be read."""
    for key in table:
        places = [
            next((i for i, names in enumerate((datasets, methods, measures)) if part in names), -1)
            for part in key.split("/")
        ]
        if -1 in places or places != sorted(set(places)):
            raise PlanError(
                f"remarks has the key {key!r}; give a data set, a method and a measure of the plan,"
                ' or some of them, as in "emotions/BR/exact_match".'
            )
    return dict(table)


def _refuse_wrong(
    table: Mapping[str, Any], fields: Mapping[str, Kind], place: str, *, others: bool = False
) -> None:
    reason = wrong(table, fields, others=others)
    if reason is not None:
        raise PlanError(f"{place} {reason}.")


def _chosen(what: str, known: Sequence[str], wanted: Sequence[str]) -> set[str]:
    for name in wanted:
        if name not in known:
            raise PlanError(f"The plan has no {what} {name!r}; choose from {', '.join(known)}.")
    return set(wanted or known)
