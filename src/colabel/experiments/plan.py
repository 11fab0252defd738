"""A plan: which methods meet which data sets, by which protocol. Read from TOML, checked whole."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from colabel.experiments._plan_schema import (
    DATASET,
    METHOD,
    PLAN,
    PROTOCOL,
    PlanError,
    refuse_wrong,
)
from colabel.experiments.claims import Claim, read_claim
from colabel.experiments.measures import MEASURES
from colabel.experiments.published import Figure, read_figures
from colabel.experiments.remarks import Remark, nearest_key, read_remarks

__all__ = ["DataPlan", "MethodPlan", "Plan", "PlanError", "Protocol", "load_plan"]

QUICK = "-quick"
"""Ends the name of a plan's quick form."""
# What a quick form lacks, whose figures are no results.
_OF_PRINT = ("win_tie_loss", "printed_as", "left_out")
_BUNDLED = Path(__file__).parent / "studies"


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
    printed : mapping {characteristic: number}
        Sizes that the paper prints, see `Characteristics`.
    first : int or None
        How many of the protocol's splits are run, from the first on; None for all.
    """

    name: str
    protocol: Protocol
    steps: tuple[Any, ...] | None = None
    printed: Mapping[str, float] = field(default_factory=dict)
    first: int | None = None

    @property
    def n_run(self) -> int:
        """Number of splits that are run."""
        return self.protocol.splits if self.first is None else self.first


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
        Parameters that differ on some data sets; under "steps", the preprocessing there, under
        "first", how many splits are run.
    without : mapping {data set: reason}
        Data sets on which the method is not run.
    """

    name: str
    model: Mapping[str, Any]
    steps: tuple[Any, ...] = ()
    on: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    without: Mapping[str, str] = field(default_factory=dict)

    def settings_on(self, dataset: str) -> dict[str, Any]:
        """Return the parameters that differ on a data set, and "steps" where these differ."""
        return {key: own for key, own in self.on.get(dataset, {}).items() if key != "first"}


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
    remarks : mapping {key: Remark}
        Why measured and published figures differ; keys are one to three of "data set/method/
        measure", see `remark_key`.
    paper : str
        The paper that the plan belongs to; plans of one paper share a row of the overview.
    as_run : bool
        Whether the protocol is the authors' own: the paper is judged by this plan then.
    win_tie_loss : mapping {(measure, method): (win, tie, loss)}
        Printed counts of the reference against the method.
    left_out : mapping {data set: reason}
        Data sets of the paper that are not to be had: their figures count as other data.
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
    remarks: Mapping[str, Remark] = field(default_factory=dict)
    paper: str = ""
    as_run: bool = False
    win_tie_loss: Mapping[tuple[str, str], tuple[int, int, int]] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_quick(self) -> bool:
        """Whether this is the quick form of a plan, whose figures are no results."""
        return self.name.endswith(QUICK)

    def n_run(self, data: DataPlan, method: MethodPlan) -> int:
        """Return how many splits of a data set a method is run on, from the first on."""
        if data.name in method.without:
            return 0
        return int(method.on.get(data.name, {}).get("first", data.n_run))

    def remark_key(self, measure: str, dataset: str, method: str) -> str | None:
        """Return the key of the remark that says most closely why a figure differs."""
        return nearest_key(self.remarks, measure, dataset, method)

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

    Published figures are read from the CSV file beside the plan that `figures` names, or that has
    the same name, if there is one.

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
    except (ValueError, RecursionError) as error:  # of syntax, or a number of 5,000 digits
        raise PlanError(f"{file} is not TOML: {error}.") from error
    shortened = table.pop("quick", None)
    if quick:
        if not isinstance(shortened, dict):
            raise PlanError(f"{file} has no [quick] table: run it without --quick.")
        # Figures and what is said of them belong to the whole study.
        table = {**table, "remarks": {}, **{key: {} for key in _OF_PRINT}, **shortened}
    figures_file = _figures_file(file, table)
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


def _figures_file(plan: Path, table: Mapping[str, Any]) -> Path:
    """Return the file of the published figures: one that the plan names must be there."""
    if "figures" not in table:
        return plan.with_suffix(".csv")
    file = plan.with_name(str(table["figures"]))
    if not file.is_file():
        raise PlanError(f"{plan}: figures names {file.name!r}, which is not beside the plan.")
    return file


def _plan(name: str, table: Mapping[str, Any], figures: Sequence[Figure]) -> Plan:
    refuse_wrong(table, PLAN, "the plan")
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
    _refuse_wrong_first(datasets, methods)
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
        _renamed(figures, table.get("printed_as", {}), measures),
        _graphs(table.get("graphs", ()), names),
        tuple(read_claim(claim, names, known) for claim in table.get("claims", ())),
        read_remarks(table.get("remarks", {}), known, names, measures),
        table.get("paper", ""),
        table.get("as_run", False),
        _win_tie_loss(table.get("win_tie_loss", {}), names, measures),
        table.get("left_out", {}),
    )


def _win_tie_loss(
    table: Mapping[str, Mapping[str, Sequence[int]]],
    methods: Sequence[str],
    measures: Sequence[str],
) -> dict[tuple[str, str], tuple[int, int, int]]:
    found = {}
    for measure, counts in table.items():
        for method, three in counts.items():
            if measure not in measures or method not in methods or len(three) != 3:
                raise PlanError(
                    f"win_tie_loss has {measure}.{method} = {three}; give three counts for a"
                    " measure and a method of the plan."
                )
            found[measure, method] = (three[0], three[1], three[2])
    return found


def _renamed(
    figures: Sequence[Figure], printed_as: Mapping[str, str], measures: Sequence[str]
) -> tuple[Figure, ...]:
    """Return the figures under the measures that they are compared with."""
    for measure in printed_as.values():
        if measure not in measures:
            raise PlanError(f"printed_as names {measure!r}, which is no measure of the plan.")
    return tuple(f._replace(measure=printed_as.get(f.measure, f.measure)) for f in figures)


def _protocol(table: Mapping[str, Any], default: Protocol, place: str) -> Protocol:
    refuse_wrong(table, PROTOCOL, place)
    protocol = replace(default, **table)
    if protocol.kind in ("kfold", "first_label", "stratified") and protocol.splits < 2:
        raise PlanError(f"{place} asks for {protocol.splits} fold: give at least 2 splits.")
    if protocol.kind == "random" and (protocol.train is None or protocol.test is None):
        raise PlanError(f"{place} draws random splits: give the sizes train and test.")
    return protocol


def _data_plan(entry: Any, protocol: Protocol) -> DataPlan:
    if isinstance(entry, str):
        entry = {"name": entry}
    refuse_wrong(entry, DATASET, f"data set {entry.get('name', '')!r}")
    own = dict(entry)
    name, steps = own.pop("name", None), own.pop("steps", None)
    printed, first = own.pop("printed", {}), own.pop("first", None)
    if name is None:
        raise PlanError(f"a data set has no name: {entry}.")
    return DataPlan(
        name,
        _protocol(own, protocol, f"data set {name!r}"),
        None if steps is None else tuple(steps),
        printed,
        first,
    )


def _refuse_wrong_first(datasets: Sequence[DataPlan], methods: Sequence[MethodPlan]) -> None:
    """Raise a `PlanError` where more splits are to be run than there are, or none."""
    for data in datasets:
        asked = {f"method {m.name!r}": m.on.get(data.name, {}).get("first", 1) for m in methods}
        for place, first in {f"data set {data.name!r}": data.n_run, **asked}.items():
            whole = isinstance(first, int) and not isinstance(first, bool)
            if not whole or not 1 <= first <= data.protocol.splits:
                raise PlanError(
                    f"{place} runs the first {first!r} of {data.protocol.splits} splits on"
                    f" {data.name}: give a whole number from 1 to {data.protocol.splits}."
                )


def _method_plan(name: str, table: Mapping[str, Any], steps: tuple[Any, ...]) -> MethodPlan:
    refuse_wrong(table, METHOD, f"method {name!r}", others=True)
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


def _chosen(what: str, known: Sequence[str], wanted: Sequence[str]) -> set[str]:
    for name in wanted:
        if name not in known:
            raise PlanError(f"The plan has no {what} {name!r}; choose from {', '.join(known)}.")
    return set(wanted or known)
