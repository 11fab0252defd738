"""Draw what is in a store: all methods of each set on a page, the best of them in BENCHMARKS.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks._common import ROOT
from benchmarks.peers.measures import (
    LOWER,
    MEASURES,
    Held,
    held_out,
    is_better,
    paired_error,
)
from benchmarks.peers.methods import METHODS
from benchmarks.peers.store import N_FOLDS, FoldedData, Record, Store
from colabel.core.files import written_whole

PAGE = ROOT / "docs" / "peers.md"
BENCHMARKS = ROOT / "BENCHMARKS.md"
BEGIN, END = "<!-- peers: begin -->", "<!-- peers: end -->"
NOT_RUN = "not run"
MAIN = "JointStack"  # the model of ours that is asked without looking at the others
SUMMED = ("exact match", "Hamming accuracy", "log-loss")
# In the order of the pages.
ORDER = (
    "emotions",
    "scene",
    "yeast",
    "image",
    "enron",
    "medical",
    "water_quality",
    "solar_flare",
)
LEGEND = (Path(__file__).parent / "legend.md").read_text(encoding="utf-8")


@dataclass(frozen=True, eq=False)
class SetTable:
    """What is known of all methods on one data set."""

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
        names = [n for n in self.held if ours is None or METHODS[n].ours == ours]
        values = {n: self.held[n].measures[measure].value for n in names}
        values = {n: v for n, v in values.items() if np.isfinite(v)}
        if not values:
            return None
        return min(values, key=lambda n: values[n] if measure in LOWER else -values[n])

    def error(self, measure: str, one: str, other: str) -> float:
        """Paired standard error of the difference between two methods."""
        return paired_error(self.held[one].measures[measure], self.held[other].measures[measure])


def gather(store: Store, dataset: str) -> SetTable | None:
    """Read all records of a set; None if the store knows nothing of it."""
    path = store.data_path(dataset)
    if not path.exists():
        return None
    data = FoldedData.read(path)
    held, missing = {}, {}
    folds = compared_folds(store, dataset)
    for name in METHODS:
        records = list(store.records(dataset, name))
        done = [r for r in records if r.status == "done" and r.cell.fold in folds]
        if len(done) == len(folds):
            held[name] = held_out(data, done)
        elif records:
            missing[name] = why(records)
        else:
            missing[name] = NOT_RUN
    nothing = not held and set(missing.values()) == {NOT_RUN}
    return None if nothing else SetTable(dataset, data, held, missing, folds)


def compared_folds(store: Store, dataset: str) -> tuple[int, ...]:
    """All folds; or those that the main model has done, while it has not done them all."""
    records = store.records(dataset, MAIN)
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


def full_table(table: SetTable) -> str:
    """Draw all methods of one set."""
    best = {measure: table.best(measure) for measure in MEASURES}
    header = ["method", *MEASURES, "log-loss of", "rows of P = 0", "CPU s per fold", "peak MB"]
    lines = [header, ["---"] * len(header)]
    for name, method in METHODS.items():
        shown = f"**{name}**" if method.ours else name
        if table.missing.get(name) == NOT_RUN:
            continue
        if name in table.missing:
            lines.append([shown, table.missing[name], *[""] * (len(header) - 2)])
            continue
        held = table.held[name]
        figures = [_figure(table, measure, name, best[measure]) for measure in MEASURES]
        cost = [f"{held.cpu_seconds:.2f}", f"{held.peak_mb:.0f}"]
        lines.append([shown, *figures, method.joint, str(held.n_zero or "–"), *cost])
    not_run = [name for name, reason in table.missing.items() if reason == NOT_RUN]
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


def summary(tables: Sequence[SetTable]) -> str:
    """Draw the best peer beside ours on each set, for the measures that are summed up."""
    header = ["data", "measure", "best peer", "", "best of ours", "", f"{MAIN} – best peer"]
    lines = [header, ["---"] * len(header)]
    for table in tables:
        for measure in SUMMED:
            peer, own = table.best(measure, ours=False), table.best(measure, ours=True)
            name_of_set = f"{table.dataset} ({table.partly})" if table.partly else table.dataset
            row = [name_of_set, measure]
            for name in (peer, own):
                row += (
                    [name, f"{table.held[name].measures[measure].value:.3f}"] if name else ["–"] * 2
                )
            lines.append([*row, _difference(table, measure, MAIN, peer)])
    return _markdown(lines)


def _difference(table: SetTable, measure: str, name: str, peer: str | None) -> str:
    if peer is None or name not in table.held:
        return "–"
    one, other = (table.held[n].measures[measure].value for n in (name, peer))
    error = table.error(measure, name, peer)
    text = f"{one - other:+.3f} ± {error:.3f}"
    return f"**{text}**" if is_better(measure, one, other) else text


def between_markers(text: str, inside: str) -> str:
    """Replace what stands between the markers of a page."""
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise ValueError(f"The page needs one line {BEGIN!r} and one {END!r}, in this order.")
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{inside.strip()}\n{END}{rest.split(END)[1]}"


def page(store: Store, tables: Sequence[SetTable]) -> str:
    """Draw the page of the site."""
    parts = ["# All methods on the same folds\n", LEGEND, _versions(store, tables)]
    for table in tables:
        n, d = table.data.codes.shape
        values = "labels" if set(table.data.cardinalities) == {2} else "class variables"
        shape = f"{n} rows, {table.data.X.shape[1]} features, {d} {values}"
        partly = f"; {table.partly} only" if table.partly else ""
        parts += [f"## {table.dataset}\n\n{shape}{partly}.\n", full_table(table)]
    return "\n".join(parts)


def _versions(store: Store, tables: Sequence[SetTable]) -> str:
    found: dict[str, set[str]] = {}
    for table in tables:
        for name in table.held:
            for record in store.records(table.dataset, name):
                for package, version in record.versions.items():
                    found.setdefault(package, set()).add(version)
    listed = (f"{package} {' and '.join(sorted(v))}" for package, v in sorted(found.items()))
    return f"Versions: {', '.join(listed)}.\n"


def write_tables(store: Store) -> None:
    """Write the page, and the section of BENCHMARKS.md."""
    found = (gather(store, dataset) for dataset in ORDER)
    tables = [table for table in found if table is not None]
    if not tables:
        raise SystemExit(f"{store.folder} holds no cells: run them first.")
    section = between_markers(BENCHMARKS.read_text(encoding="utf-8"), summary(tables))
    for path, text in ((PAGE, page(store, tables)), (BENCHMARKS, section)):
        with written_whole(path) as part:
            part.write_text(text, encoding="utf-8")
        print(f"wrote {path}")
