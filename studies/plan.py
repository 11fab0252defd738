"""A plan: which methods meet which data sets, by which protocol. Read from TOML, checked whole."""

from __future__ import annotations

import csv
import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from studies.measures import MEASURES

PLANS = Path(__file__).parent / "plans"
QUICK = "-quick"
"""Ends the name of a plan's quick form."""
# What a quick form lacks, whose figures are no results.
_OF_PRINT = ("remarks", "win_tie_loss", "printed_as", "left_out")

Splits = Annotated[int, Meta(ge=1, le=10_000)]
Size = Annotated[int, Meta(ge=1, le=10**9)] | Annotated[float, Meta(gt=0, le=1e9)]
Step = str | dict[str, Any]


class PlanError(ValueError):
    """A plan cannot be used; the message says where and what to do."""


class Table(Struct, frozen=True, forbid_unknown_fields=True):
    """A table of a plan; unknown keys are refused."""


class Protocol(Table, frozen=True):
    """How rows are divided into training and test rows.

    Attributes
    ----------
    kind : str
        k-fold; k-fold stratified on the first label alone; k-fold by iterative stratification;
        random splits of given sizes; ten folds drawn anew (a split is the mean
        over ten folds of one draw); new draws of a synthetic problem, learned whole.
    splits : int
        Number of folds, splits or draws.
    seed : int
        Seed of the division.
    train, test : float or None
        Sizes for "random".
    """

    kind: Literal["kfold", "first_label", "stratified", "random", "redrawn", "draws"] = "kfold"
    splits: Splits = 10
    seed: Annotated[int, Meta(ge=0, lt=2**32)] = 0
    train: Size | None = None
    test: Size | None = None


class DataPlan(Table, frozen=True):
    """One data set of a plan.

    Attributes
    ----------
    name : str
        Name in the catalogue, "digit_traits", or "SD1" to "SD4".
    protocol : Protocol
        In the file, its keys that differ from the plan's stand beside the name.
    steps : list or None
        Preprocessing instead of the methods' own; None for those.
    printed : mapping {characteristic: number}
        Sizes that the paper prints, see `Characteristics`.
    first : int or None
        How many of the protocol's splits are run, from the first on; None for all.
    """

    name: str
    protocol: Protocol = Protocol()
    steps: tuple[Step, ...] | None = None
    printed: dict[
        Literal["rows", "features", "labels", "cardinality", "distinct"],
        Annotated[float, Meta(ge=0, le=1e12)],
    ] = {}
    first: Splits | None = None

    @property
    def n_run(self) -> int:
        """Number of splits that are run."""
        return self.protocol.splits if self.first is None else self.first


class MethodPlan(Struct, frozen=True):
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
    model: dict[str, Any]
    steps: tuple[Step, ...] = ()
    on: dict[str, dict[str, Any]] = {}
    without: dict[str, str] = {}

    def settings_on(self, dataset: str) -> dict[str, Any]:
        """Return the parameters that differ on a data set, and "steps" where these differ."""
        return {key: own for key, own in self.on.get(dataset, {}).items() if key != "first"}


class Claim(Table, frozen=True):
    """What a paper says: `method` beats each of `over` by `measures` on `datasets`.

    With `faster`, that it learns so many times as fast; `measures` is then empty. With `above`,
    that its measures lie above that value; `over` is then empty. With `equal`, that it differs by
    no more than this margin; with `at_least`, that it is worse by no more than this. With `growth`,
    that its measures grow with at most this power of the number that ends the names of `datasets`
    ("yeast:7"); `over` is then empty. `beside` is a measure by which the verdict is given too.
    """

    text: str
    method: str
    over: tuple[str, ...] = ()
    measures: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()
    faster: float | None = None
    above: float | None = None
    equal: Annotated[float, Meta(gt=0)] | None = None
    at_least: Annotated[float, Meta(ge=0)] | None = None
    growth: Annotated[float, Meta(gt=0)] | None = None
    beside: str = ""


KINDS: Mapping[str, str] = {
    "convention": "convention",
    "data": "other data",
    "method": "other method",
    "print": "print itself",
}
"""What a difference may come from: a rule of measuring or of setting up, which the authors had and
we do not; data that are not the paper's; a method that is not the paper's, on purpose; print that
contradicts itself. Names in plans, words in tables."""


class Remark(Table, frozen=True):
    """A cause that was thought of for a difference, and the cells that test it.

    Attributes
    ----------
    cause : str
    kind : str
        One of `KINDS`.
    study : str
        The plan whose figures of the same measure show the cause if they agree with print.
    dataset, method : str
        The figure's there, where they have other names.
    """

    cause: str
    kind: Literal["convention", "data", "method", "print"] = "convention"
    study: str = ""
    dataset: str = ""
    method: str = ""


class Figure(Struct, frozen=True):
    """One printed number.

    Attributes
    ----------
    table : str
        Where it is printed.
    measure, dataset, method : str
        As named in the plan.
    value : float
    mark : str or None
        "+" where the paper marks its own method as significantly better, "-" as worse, "" as
        neither; None where it prints no marks.
    deviation : float or None
        The standard deviation over splits that the paper prints beside it.
    """

    table: str
    measure: str
    dataset: str
    method: str
    value: float
    mark: Literal["+", "-", ""] | None = None
    deviation: Annotated[float, Meta(ge=0)] | None = None

    @property
    def place(self) -> tuple[str, str, str]:
        """Measure, data set and method."""
        return self.measure, self.dataset, self.method


class Plan(Struct, frozen=True):
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
    claims : tuple of Claim
    remarks : mapping {key: Remark}
        Why measured and published figures differ; keys are one to three of "data set/method/
        measure", see `remark_key`.
    paper : str
        The paper that the plan belongs to; plans of one paper share a row of the overview.
    as_run : bool
        Whether the protocol is the authors' own: the paper is judged by this plan then.
    win_tie_loss : mapping {measure: {method: (win, tie, loss)}}
        Printed counts of the reference against the method.
    left_out : mapping {data set: reason}
        Data sets of the paper that are not to be had: their figures count as other data.
    normalised : tuple of str
        Measures that are shown once more, divided by the largest of each data set.
    front : tuple of str
        Measures that are shown on the page of verdicts, too.
    """

    name: str
    title: str
    description: str
    reference: str
    measures: tuple[str, ...]
    datasets: tuple[DataPlan, ...]
    methods: tuple[MethodPlan, ...]
    figures: tuple[Figure, ...] = ()
    claims: tuple[Claim, ...] = ()
    remarks: dict[str, Remark] = {}
    paper: str = ""
    as_run: bool = False
    win_tie_loss: dict[str, dict[str, tuple[int, int, int]]] = {}
    left_out: dict[str, str] = {}
    normalised: tuple[str, ...] = ()
    front: tuple[str, ...] = ()

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
        places = (
            f"{dataset}/{method}/{measure}",
            f"{dataset}/{method}",
            f"{dataset}/{measure}",
            f"{method}/{measure}",
            dataset,
            method,
            measure,
        )
        return next((key for key in places if key in self.remarks), None)

    def only(self, datasets: Sequence[str] = (), methods: Sequence[str] = ()) -> Plan:
        """Return the plan with some of its data sets and methods; empty for all."""
        _known("data set", datasets, [d.name for d in self.datasets])
        data = set(datasets) or {d.name for d in self.datasets}
        _known("method", methods, [m.name for m in self.methods])
        chosen = set(methods) or {m.name for m in self.methods}
        return replace(
            self,
            datasets=tuple(d for d in self.datasets if d.name in data),
            methods=tuple(m for m in self.methods if m.name in chosen),
            claims=tuple(
                replace(
                    claim,
                    over=tuple(name for name in claim.over if name in chosen),
                    datasets=tuple(name for name in claim.datasets if name in data),
                )
                for claim in self.claims
                if claim.method in chosen
            ),
        )


# ------------------------------------------------------------------------------------ the TOML file


class _DataTable(DataPlan, frozen=True):
    """A data set as a plan writes it: keys of the protocol beside its own."""

    kind: str | None = None
    splits: int | None = None
    seed: int | None = None
    train: Size | None = None
    test: Size | None = None


class _MethodTable(Struct, frozen=True):
    """What is fixed in the table of a method; the other keys are parameters of the model."""

    model: str
    steps: tuple[Step, ...] | None = None
    on: dict[str, dict[str, Any]] = {}
    without: dict[str, str] = {}


class _File(Table, frozen=True):
    """A plan as it is written."""

    datasets: Annotated[tuple[str | _DataTable, ...], Meta(min_length=1)]
    methods: Annotated[dict[str, dict[str, Any]], Meta(min_length=1)]
    title: str = ""
    description: str = ""
    reference: str = ""
    measures: tuple[str, ...] = ("exact_match",)
    protocol: Protocol = Protocol()
    steps: tuple[Step, ...] = ()
    claims: tuple[Claim, ...] = ()
    remarks: dict[str, Remark] = {}
    paper: str = ""
    as_run: bool = False
    figures: str = ""
    printed_as: dict[str, str] = {}
    left_out: dict[str, str] = {}
    win_tie_loss: dict[str, dict[str, tuple[int, int, int]]] = {}
    normalised: tuple[str, ...] = ()
    front: tuple[str, ...] = ()


def load_plan(path: str | Path, *, quick: bool = False) -> Plan:
    """Read a plan, or its quick form: the tables under ``[quick]`` replace those of the same name.

    Published figures are read from the CSV file beside the plan that `figures` names, or that has
    the same name, if there is one.

    Parameters
    ----------
    path : str or path
        A TOML file, or the name of one in ``studies/plans``.
    quick : bool, default=False

    Raises
    ------
    PlanError
        When the file is missing, not TOML, or says something that has no meaning.
    """
    file = _find(Path(path))
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
        shortened = table.pop("quick", None)
        if quick:
            if not isinstance(shortened, dict):
                raise PlanError("it has no [quick] table: run it without --quick.")
            # Figures and what is said of them belong to the whole study.
            table = {**{k: v for k, v in table.items() if k not in _OF_PRINT}, **shortened}
        written = msgspec.convert(table, _File)
        figures_file = file.with_name(written.figures or f"{file.stem}.csv")
        if written.figures and not figures_file.is_file():
            raise PlanError(f"figures names {written.figures!r}, which is not beside the plan.")
        figures = read_figures(figures_file) if figures_file.is_file() and not quick else ()
        return _plan(f"{file.stem}{QUICK if quick else ''}", written, figures)
    except tomllib.TOMLDecodeError as error:
        raise PlanError(f"{file} is not TOML: {error}.") from error
    except (OSError, ValueError, RecursionError) as error:
        raise PlanError(f"{file}: {error}") from error


def _find(path: Path) -> Path:
    for candidate in (path, PLANS / path.name, PLANS / f"{path.name}.toml"):
        if candidate.is_file():
            return candidate
    known = ", ".join(sorted(file.stem for file in PLANS.glob("*.toml")))
    raise PlanError(f"There is no plan {path}. There are: {known}.")


def _plan(name: str, file: _File, figures: Sequence[Figure]) -> Plan:
    datasets = tuple(_data(entry, file.protocol) for entry in file.datasets)
    methods = tuple(_method(key, table, file.steps) for key, table in file.methods.items())
    known, names = [data.name for data in datasets], [method.name for method in methods]
    for data in datasets:
        for method in methods:
            first = method.on.get(data.name, {}).get("first", data.n_run)
            if type(first) is not int or not 1 <= first <= data.protocol.splits:
                raise PlanError(
                    f"method {method.name!r} runs the first {first!r} of {data.protocol.splits}"
                    f" splits on {data.name}: give a whole number from 1 to that."
                )
    _known("measure", file.measures, MEASURES)
    _known("measure (in normalised or front)", file.normalised + file.front, file.measures)
    _known("method (as reference)", [file.reference or names[0]], names)
    _known("measure (in printed_as)", file.printed_as.values(), file.measures)
    for measure, counts in file.win_tie_loss.items():
        _known("measure (in win_tie_loss)", [measure], file.measures)
        _known("method (in win_tie_loss)", counts, names)
    for key in file.remarks:
        parts = key.split("/")
        kinds = [[part in group for group in (known, names, file.measures)] for part in parts]
        places = [own.index(True) if True in own else -1 for own in kinds]
        if -1 in places or places != sorted(set(places)):
            raise PlanError(
                f"remarks has the key {key!r}; give a data set, a method and a measure of the plan,"
                ' or some of them, as in "emotions/BR/exact_match".'
            )
    return Plan(
        name,
        file.title or name,
        file.description,
        file.reference or names[0],
        file.measures,
        datasets,
        methods,
        tuple(replace(f, measure=file.printed_as.get(f.measure, f.measure)) for f in figures),
        tuple(_claim(claim, names, known) for claim in file.claims),
        file.remarks,
        file.paper,
        file.as_run,
        file.win_tie_loss,
        file.left_out,
        file.normalised,
        file.front,
    )


def _data(entry: str | _DataTable, default: Protocol) -> DataPlan:
    if isinstance(entry, str):
        entry = _DataTable(entry)
    own = {n: v for n in Protocol.__struct_fields__ if (v := getattr(entry, n)) is not None}
    protocol = msgspec.convert({**msgspec.to_builtins(default), **own}, Protocol)
    place = f"data set {entry.name!r}"
    if protocol.kind in ("kfold", "first_label", "stratified") and protocol.splits < 2:
        raise PlanError(f"{place} asks for {protocol.splits} fold: give at least 2 splits.")
    if protocol.kind == "random" and (protocol.train is None or protocol.test is None):
        raise PlanError(f"{place} draws random splits: give the sizes train and test.")
    if entry.first is not None and entry.first > protocol.splits:
        raise PlanError(f"{place} runs the first {entry.first} of {protocol.splits} splits.")
    return DataPlan(entry.name, protocol, entry.steps, entry.printed, entry.first)


def _method(name: str, table: Mapping[str, Any], steps: tuple[Step, ...]) -> MethodPlan:
    try:
        fixed = msgspec.convert(table, _MethodTable)
    except msgspec.ValidationError as error:
        raise PlanError(f"method {name!r}: {error}") from error
    model = {key: own for key, own in table.items() if key not in ("steps", "on", "without")}
    return MethodPlan(
        name, model, steps if fixed.steps is None else fixed.steps, fixed.on, fixed.without
    )


def _claim(claim: Claim, methods: Sequence[str], datasets: Sequence[str]) -> Claim:
    """Check a claim about methods and data sets of a plan; without data sets it is about all."""
    place = f"(in the claim {claim.text!r})"
    _known(f"data set {place}", claim.datasets, datasets)
    _known(f"method {place}", [claim.method, *claim.over], methods)
    _known(f"measure {place}", [*claim.measures, *filter(None, [claim.beside])], MEASURES)
    alone = claim.above is not None or claim.growth is not None
    if (claim.faster is None) != bool(claim.measures) or alone == bool(claim.over):
        raise PlanError(f"give measures or faster, and over, above or growth {place}.")
    return replace(claim, datasets=claim.datasets or tuple(datasets))


def _known(what: str, wanted: Iterable[str], known: Iterable[str]) -> None:
    for name in wanted:
        if name not in known:
            raise PlanError(f"there is no {what} {name!r}; choose from {', '.join(known)}.")


def read_figures(path: Path) -> tuple[Figure, ...]:
    """Read the columns table, measure, dataset, method and value, mark and deviation if any.

    Raises
    ------
    PlanError
        With a sentence, if the file does not hold them.
    """
    found = []
    with path.open(encoding="utf-8", newline="") as lines:
        rows = csv.DictReader(lines)
        try:
            for row in rows:
                # an empty mark is a mark, an empty deviation is none
                own = {k: v for k, v in row.items() if v or (k == "mark" and v is not None)}
                figure = msgspec.convert(own, Figure, strict=False)
                if not math.isfinite(figure.value):
                    raise ValueError(f"the value {figure.value} is no number")
                found.append(figure)
        except (csv.Error, ValueError) as error:
            raise PlanError(
                f"{path.name}, line {rows.line_num}, should hold published figures: {error}."
            ) from error
    return tuple(found)
