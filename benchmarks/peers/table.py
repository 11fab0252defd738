"""Draw what is in a store: all methods of each set on a page, the best of them in BENCHMARKS.md."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks._common import ROOT
from benchmarks.peers.measures import (
    LOWER,
    MEASURES,
    Held,
    held_out,
    paired_error,
)
from benchmarks.peers.methods import METHODS, Method
from benchmarks.peers.store import N_FOLDS, FoldedData, Record, Store
from colabel.core.files import written_whole

PAGE = ROOT / "docs" / "peers.md"
BENCHMARKS = ROOT / "BENCHMARKS.md"
BEGIN, END = "<!-- peers: begin -->", "<!-- peers: end -->"
NOT_RUN = "not run"
SUMMED = ("exact match", "Hamming accuracy", "log-loss")
F1S = ("micro", "macro", "row")
# The best of 28 methods in the largest published comparison; – where it has not the data.
IN_PRINT = {
    "emotions": ".719 / .698 / .693",
    "scene": ".792 / .800 / .806",
    "yeast": ".682 / .483 / .668",
    "image": "–",
    "enron": ".610 / .229 / .604",
    "medical": ".813 / .400 / .801",
}
F1_NOTE = (
    'F1 by `decision="micro_f1"`, `"macro_f1"` and `"f1"`; in print: the best of 28 methods'
    " (Bogatinovski et al., 2022)."
)
LEGEND = (Path(__file__).parent / "legend.md").read_text(encoding="utf-8")


@dataclass(frozen=True, eq=False)
class LineUp:
    """What is compared: the methods, and the data sets in the order of the pages.

    `main` is the model of ours that is asked without looking at the others.
    """

    methods: Mapping[str, Method]
    datasets: Sequence[str]
    main: str


ALL = LineUp(
    METHODS,
    ("emotions", "scene", "yeast", "image", "enron", "medical", "water_quality", "solar_flare"),
    "JointStack",
)


@dataclass(frozen=True, eq=False)
class SetTable:
    """What is known of all methods on one data set."""

    line_up: LineUp
    dataset: str
    data: FoldedData
    held: dict[str, Held]
    missing: dict[str, str]  # why a method has no figures
    folds: tuple[int, ...] = tuple(range(N_FOLDS))  # those that are compared

    @property
    def partly(self) -> str:
        """Which folds are compared, if not all."""
        if len(self.folds) == N_FOLDS:
            return ""
        return f"folds {', '.join(map(str, self.folds))} of {N_FOLDS}"

    def best(self, measure: str, ours: bool | None = None) -> str | None:
        """Name of the method with the best value, of all or of one side."""
        methods = self.line_up.methods
        names = [n for n in self.held if ours is None or methods[n].ours == ours]
        values = {n: self.held[n].measures[measure].value for n in names}
        values = {n: v for n, v in values.items() if np.isfinite(v)}
        if not values:
            return None
        return min(values, key=lambda n: values[n] if measure in LOWER else -values[n])

    def error(self, measure: str, one: str, other: str) -> float:
        """Paired standard error of the difference between two methods."""
        return paired_error(self.held[one].measures[measure], self.held[other].measures[measure])


def gather(store: Store, dataset: str, line_up: LineUp = ALL) -> SetTable | None:
    """Read all records of a set; None if the store knows nothing of it."""
    path = store.data_path(dataset)
    if not path.exists():
        return None
    data = FoldedData.read(path)
    held, missing = {}, {}
    folds = compared_folds(store, dataset, line_up.main)
    for name in line_up.methods:
        records = list(store.records(dataset, name))
        done = [r for r in records if r.status == "done" and r.cell.fold in folds]
        if len(done) == len(folds):
            held[name] = held_out(data, done)
        elif records:
            missing[name] = why(records)
        else:
            missing[name] = NOT_RUN
    nothing = not held and set(missing.values()) == {NOT_RUN}
    return None if nothing else SetTable(line_up, dataset, data, held, missing, folds)


def compared_folds(store: Store, dataset: str, main: str) -> tuple[int, ...]:
    """All folds; or those that the main model has done, while it has not done them all."""
    records = store.records(dataset, main)
    done = tuple(record.cell.fold for record in records if record.status == "done")
    return done if len(done) > 1 else tuple(range(N_FOLDS))


def why(records: Sequence[Record]) -> str:
    """Say why a method has no figures."""
    for status in ("limit", "absent", "failed"):
        for record in records:
            if record.status == status:
                limit = f"> {record.limit:g} s of CPU in fold {record.cell.fold}"
                told = {"limit": limit, "absent": NOT_RUN, "failed": "failed"}[status]
                return told if status == "limit" else f"{told}: {record.message}"
    return f"{len(records)} of {N_FOLDS} folds"


Printed = dict[str, dict[str, list[str]]]
"""Of each set the cells of each method's line, as a page has them."""


def printed_lines(text: str, line_up: LineUp = ALL) -> Printed:
    """Read the tables of a page."""
    printed: Printed = {}
    for part in text.split("\n## ")[1:]:
        own = printed.setdefault(part.split("\n")[0].strip(), {})
        for line in part.splitlines():
            cells = [cell.strip() for cell in line.strip("| ").split(" | ")]
            if cells[0].strip("* ") in line_up.methods:
                own[cells[0].strip("* ")] = cells
    return printed


def value_of(cells: Sequence[str], measure: str) -> float:
    """Read a figure of a line; NaN where it has none."""
    text = " ".join(cells[1 + MEASURES.index(measure) :][:1]).strip("* ").replace("∞", "inf")
    number = re.match(r"(inf|\d+\.\d+)( ±|$)", text)
    return float(number[1]) if number else float("nan")


def full_table(table: SetTable, printed: dict[str, list[str]]) -> str:
    """Draw all methods of one set; those that were not run keep the line that they had."""
    best = {measure: table.best(measure) for measure in MEASURES}
    header = ["method", *MEASURES, "log-loss of", "rows of P = 0", "CPU s per fold", "peak MB"]
    lines, not_run = [header, ["---"] * len(header)], []
    for name, method in table.line_up.methods.items():
        shown = f"**{name}**" if method.ours else name
        if table.missing.get(name) == NOT_RUN:
            if name in printed:
                kept = printed[name]
                lines.append([*kept, *[""] * (len(header) - len(kept))])
            else:
                not_run.append(name)
            continue
        if name in table.missing:
            lines.append([shown, table.missing[name], *[""] * (len(header) - 2)])
            continue
        held = table.held[name]
        figures = [_figure(table, measure, name, best[measure]) for measure in MEASURES]
        cost = [f"{held.cpu_seconds:.2f}", f"{held.peak_mb:.0f}"]
        lines.append([shown, *figures, method.joint, str(held.n_zero or "–"), *cost])
    for place, measure in enumerate(MEASURES, 1):  # only the best of all is bold
        values = [value_of(line, measure) for line in lines[2:]]
        top = (np.nanmin if measure in LOWER else np.nanmax)(values)
        for line, value in zip(lines[2:], values, strict=True):
            if len(line) > place and line[place].startswith("**") and value != top:
                line[place] = line[place].strip("*")
    note = f"\nNot run: {', '.join(not_run)}.\n" if not_run else ""
    return _markdown(lines) + note


def _markdown(lines: Sequence[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def _figure(table: SetTable, measure: str, name: str, best: str | None) -> str:
    value = table.held[name].measures[measure].value
    if not np.isfinite(value):
        return "∞"
    if best is None or name == best:
        return f"**{value:.3f}**"
    error = table.error(measure, name, best)
    text = f"{value:.3f} ± {error:.3f}"
    gap = abs(value - table.held[best].measures[measure].value)
    return f"*{text}*" if gap <= error else text


def summary(printed: Printed, line_up: LineUp = ALL) -> str:
    """Draw the best peer beside ours on each set, from the lines of the page."""
    main, methods = line_up.main, line_up.methods
    lines = [["data", *(head for measure in SUMMED for head in (f"{measure}: best peer", main))]]
    f1 = [["data", "micro", "macro", "row", "best peer", "best in print"]]
    for dataset, own in printed.items():
        if main not in own:
            continue

        def best(measure: str, own: dict[str, list[str]] = own) -> tuple[str, float]:
            values = {n: value_of(c, measure) for n, c in own.items() if not methods[n].ours}
            values = {name: value for name, value in values.items() if np.isfinite(value)}
            name = (min if measure in LOWER else max)(values, key=lambda n: values[n])
            return name, values[name]

        line = [dataset]
        for measure in SUMMED:
            peer, value = best(measure)
            line += [f"{peer} {_short(value)}", _short(value_of(own[main], measure))]
        lines.append(line)
        if dataset in IN_PRINT:
            ours_f1 = [_short(value_of(own[main], f"{kind} F1")) for kind in F1S]
            peers = " / ".join(_short(best(f"{kind} F1")[1]) for kind in F1S)
            f1.append([dataset, *ours_f1, peers, IN_PRINT[dataset]])
    tables = [_markdown([rows[0], ["---"] * len(rows[0]), *rows[1:]]) for rows in (lines, f1)]
    return f"{tables[0]}\n{F1_NOTE}\n\n{tables[1]}"


def _short(value: float) -> str:
    text = f"{value:.3f}"
    return text[1:] if text.startswith("0.") else text


def between_markers(text: str, inside: str) -> str:
    """Replace what stands between the markers of a page."""
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise ValueError(f"The page needs one line {BEGIN!r} and one {END!r}, in this order.")
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{inside.strip()}\n{END}{rest.split(END)[1]}"


def page(store: Store, tables: Sequence[SetTable], old: str, line_up: LineUp = ALL) -> str:
    """Draw the page of the site; sets of which the store knows nothing stay as they were."""
    parts = ["# All methods on the same folds\n", LEGEND, _versions(store, tables, old)]
    printed, known = printed_lines(old, line_up), {table.dataset: table for table in tables}
    sections = {part.split("\n")[0].strip(): part for part in old.split("\n## ")[1:]}
    for dataset in line_up.datasets:
        if dataset not in known:
            parts += [f"## {sections[dataset].strip()}\n"] if dataset in sections else []
            continue
        table = known[dataset]
        n, d = table.data.codes.shape
        values = "labels" if set(table.data.cardinalities) == {2} else "class variables"
        shape = f"{n} rows, {table.data.X.shape[1]} features, {d} {values}"
        partly = f"; {table.partly} only" if table.partly else ""
        lines = full_table(table, printed.get(dataset, {}))
        parts += [f"## {table.dataset}\n\n{shape}{partly}.\n", lines]
    return "\n".join(parts)


def _versions(store: Store, tables: Sequence[SetTable], old: str) -> str:
    line = re.search(r"^Versions: (.*)\.$", old, re.MULTILINE)
    found: dict[str, set[str]] = {}
    for each in line[1].split(", ") if line else ():
        package, _, versions = each.partition(" ")
        found[package] = set(versions.split(" and "))
    for table in tables:
        for name in table.held:
            for record in store.records(table.dataset, name):
                for package, version in record.versions.items():
                    found.setdefault(package, set()).add(version)
    listed = (f"{package} {' and '.join(sorted(v))}" for package, v in sorted(found.items()))
    return f"Versions: {', '.join(listed)}.\n"


def write_tables(
    store: Store, line_up: LineUp = ALL, page_of_all: Path = PAGE, benchmarks: Path = BENCHMARKS
) -> None:
    """Write the page, and the section of BENCHMARKS.md."""
    found = (gather(store, dataset, line_up) for dataset in line_up.datasets)
    tables = [table for table in found if table is not None]
    if not tables:
        raise SystemExit(f"{store.folder} holds no cells: run them first.")
    old = page_of_all.read_text(encoding="utf-8") if page_of_all.exists() else ""
    whole = page(store, tables, old, line_up)
    section = summary(printed_lines(whole, line_up), line_up)
    section = between_markers(benchmarks.read_text(encoding="utf-8"), section)
    for path, text in ((page_of_all, whole), (benchmarks, section)):
        with written_whole(path) as part:
            part.write_text(text, encoding="utf-8")
        print(f"wrote {path}")
