"""The report: one page of verdicts, RESULTS.md, and the tables of every paper in docs/results/."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from studies.characteristics import COLUMNS, size_words
from studies.judging import (
    KINDS,
    Broken,
    Difference,
    Paper,
    Studies,
    Tested,
    broken,
    claims,
    differences,
    papers,
)
from studies.measures import MEASURES
from studies.plan import PLANS, Claim, DataPlan, Plan
from studies.results import LEVEL, NARROW, SPEED, WIDE, Results, Verdict, table_order

ROOT = Path(__file__).parents[1]
_LISTED = 60  # rows of what is not reproduced on the page of verdicts

_VERDICTS = {
    "yes": "hold",
    "ahead": "ahead, not significantly or not told",
    "no": "do not hold",
    "undecided": "undecided",
    "not comparable": "not comparable",
    "not measured": "not measured",
}


def write_report(studies: Studies, root: Path = ROOT) -> list[Path]:
    """Write RESULTS.md and docs/results/; return the files."""
    folder = root / "docs" / "results"
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.md"):
        old.unlink()
    pages = {root / "RESULTS.md": verdicts_page(studies)}
    own = papers(studies)
    for paper in own:
        pages[folder / f"{_slug(paper.name)}.md"] = paper_page(paper, studies)
    rest = [r for r in studies.values() if not r.plan.paper]
    pages[folder / "tests.md"] = tests_page(rest)
    sight = (PLANS / "in_sight_of_test_folds.md").read_text(encoding="utf-8")
    pages[folder / "in_sight_of_test_folds.md"] = sight.strip().replace("## ", "# ", 1) + "\n"
    for file, text in pages.items():
        file.write_text(text, encoding="utf-8")
    return list(pages)


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower().split("(")[0]).strip("_")


# ------------------------------------------------------------------ the page of verdicts


def verdicts_page(studies: Studies) -> str:
    """Return the text of RESULTS.md."""
    found = papers(studies)
    lines = [
        "# What of four papers is reproduced",
        "",
        "Written by `python -m studies report` from `studies/record.csv`; not edited by hand.",
        _runs(studies),
        _hours(studies),
        "",
        *_table(_HEADS, [_row(paper) for paper in found]),
        "",
        "Print and our figures are ten folds of the same rows. A figure **agrees** within"
        f" {NARROW:.1f} of our standard errors,",
        f"as two draws of the folds do; beyond {WIDE:.1f}, which two draws of the rows would hardly"
        " reach, it **differs**;",
        "between, it is **in doubt**. A cause is counted only where cells of another study, named"
        " below, bring the figure",
        "to print; everything else is **not reproduced**. Claims hold where the paired t-test at"
        f" {LEVEL:g} says so, as in the papers;",
        "*strictly* by the corrected resampled t-test with Holm's correction over a claim's"
        " comparisons.",
        "",
        *_spread(studies),
        "## Causes that cells show",
        "",
        *_causes(found, studies),
        "## Not reproduced",
        "",
        *_not_reproduced(found, studies),
        *_front(studies),
        "## Choices made in sight of test folds",
        "",
        "Whatever was chosen while figures of test folds could be seen is listed in"
        " [docs/results/in_sight_of_test_folds.md](docs/results/in_sight_of_test_folds.md).",
    ]
    return "\n".join(lines).rstrip() + "\n"


def _runs(studies: Studies) -> str:
    """Say when figures were measured, and how many of them still have their splits."""
    every = [own for study in studies.values() for own in study.figures.values()]
    days: dict[str, int] = {}
    for own in every:
        days[own.run] = days.get(own.run, 0) + 1
    said = ", ".join(f"{n} on {day}" for day, n in sorted(days.items()))
    kept = sum(bool(own.values) for own in every)
    return (
        f"Figures were measured: {said}; of {kept} the single splits are kept, of the others mean"
        " and error."
    )


def _hours(studies: Studies) -> str:
    """Say how long all cells take, from the seconds of those that were run."""
    seconds, unknown = 0.0, 0
    for study in studies.values():
        for data in study.plan.datasets:
            for method in study.plan.methods:
                n_run, own = study.plan.n_run(data, method), (data.name, method.name)
                seconds += n_run * study.seconds.get(own, 0.0)
                unknown += n_run if own not in study.seconds else 0
    rest = f" ({unknown} cells were never run and are not counted)" if unknown else ""
    return (
        f"`make studies` from an empty store: about {seconds / 60:.0f} minutes of learning by the"
        f" stored seconds{rest}."
    )


_HEADS = (
    "paper", "figures", "agree", "in doubt", "cause shown", "differ", "data lost", "not measured",
    "claims", "hold", "strictly", "ahead", "do not hold", "undecided",
)  # fmt: skip


def _row(paper: Paper) -> list[str]:
    own = paper.counts
    verdicts = own.verdicts
    strict = f"{own.strict}" + (f" ({own.untold} not told)" if own.untold else "")
    link = f"[{paper.name}](docs/results/{_slug(paper.name)}.md)"
    numbers = [own.printed, own.agree, own.doubtful, sum(own.kinds.values()), own.differ]
    numbers += [own.left_out, own.missing, sum(verdicts.values()), verdicts.get("yes", 0)]
    rest = [verdicts.get(key, 0) for key in ("ahead", "no", "undecided")]
    return [link, *map(str, numbers), strict, *map(str, rest)]


def _spread(studies: Studies) -> list[str]:
    """Say what the study of redrawn folds measured, in standard errors over folds."""
    study = studies.get("redrawn")
    judge = studies.get("mlcrf_authors")
    if study is None or judge is None:
        return []
    ratios = []
    for place, own in study.figures.items():
        usual = judge.figures.get(place)
        if usual is not None and len(own.values) > 2 and usual.error > 0.0:
            deviation = own.error * math.sqrt(own.splits)
            ratios.append((deviation / usual.error, f"{place[1]} {place[2]}"))
    if not ratios:
        return []
    values = sorted(ratio for ratio, _ in ratios)
    names = ", ".join(dict.fromkeys(name for _, name in ratios))
    middle = values[len(values) // 2]
    return [
        "The deviation of ten-fold means over draws of the folds, in standard errors over folds"
        f" (study `redrawn`: {names}): {values[0]:.2f} to {values[-1]:.2f}, median {middle:.2f} of"
        f" {len(values)} figures; {NARROW / WIDE:g} is used.",
        "",
    ]


def _causes(found: Sequence[Paper], studies: Studies) -> list[str]:
    rows: dict[tuple[str, str, str], list[str]] = {}
    for paper in found:
        for own in differences(paper.judge, studies):
            if own.tested is not None and own.kind:
                key = (paper.name, KINDS[own.kind], own.tested.remark.cause)
                rows.setdefault(key, []).append(_shown(own))
        for lost in _lost(paper, studies):
            if lost.kind:
                cause = lost.why or (lost.tested.remark.cause if lost.tested else "")
                cause = "Not so in print either." if lost.why else cause
                cell = lost.why or (f"`{lost.tested.cell}`" if lost.tested else "")
                rows.setdefault((paper.name, KINDS[lost.kind], cause), []).append(
                    f"{_claim_words(lost)} ({cell.removeprefix('not so in print either: ')})"
                )
    if not rows:
        return ["No cause is shown.", ""]
    listed = [
        [paper, kind, cause, f"{len(own)}: {'; '.join(own[:4])}{' …' if len(own) > 4 else ''}"]
        for (paper, kind, cause), own in rows.items()
    ]
    return [*_table(["paper", "from", "cause", "figures and comparisons"], listed), ""]


def _shown(own: Difference) -> str:
    tested = own.tested
    if tested is None or tested.found is None:
        return ""
    return (
        f"{_place(own.place)} {_number(own.found.mean)}, in `{tested.cell}`"
        f" {_number(tested.found.mean)} (print {_number(own.published)})"
    )


def _lost(paper: Paper, studies: Studies) -> list[Broken]:
    own = claims(paper.judge, paper.studies)
    return [lost for study, claim in own for lost in broken(study, studies, claim)]


def _not_reproduced(found: Sequence[Paper], studies: Studies) -> list[str]:
    rows = []
    for paper in found:
        name = paper.name.split(" (")[0]
        for own in differences(paper.judge, studies):
            if own.far and not own.kind:
                figure = f"{_place(own.place)}: {_with_error(own)} (print {_number(own.published)})"
                rows.append([name, figure, f"{own.gap:+.1f}", _tried(own.tested)])
        grouped: dict[str, list[Broken]] = {}
        for lost in _lost(paper, studies):
            if not lost.kind:
                grouped.setdefault(lost.claim.text, []).append(lost)
        for text, own_lost in grouped.items():
            where = ", ".join(
                f"{v.verdict.dataset} {v.verdict.over} {_signed(v.verdict.difference)}".replace(
                    "  ", " "
                )
                for v in own_lost[:6]
            )
            others = f" and {len(own_lost) - 6} more" if len(own_lost) > 6 else ""
            tried = next((t for t in (_tried(v.tested) for v in own_lost) if t), "")
            rows.append([name, f"“{text}”: {where}{others}", f"{len(own_lost)}", tried])
    head = ["paper", "figure, or claim and where it does not hold", "errors, or how many", "tried"]
    shown = rows[:_LISTED]
    more = [f"{len(rows) - _LISTED} more are on the papers' pages.", ""] if rows[_LISTED:] else []
    return [*_table(head, shown), "", *more]


def _front(studies: Studies) -> list[str]:
    """Return the studies that have a place on the page of verdicts: a row a method."""
    lines: list[str] = []
    for results in studies.values():
        plan = results.plan
        if not plan.front or not results.figures:
            continue
        rows = [
            [f"{data}, {method}", *(_cell(results, m, data, method) for m in plan.front)]
            for data in results.datasets
            for method in results.methods
        ]
        head = ["", *(MEASURES[measure].title for measure in plan.front)]
        lines += [f"## {plan.title}", "", *_table(head, rows), ""]
    return lines


def _tried(tested: Tested | None) -> str:
    """Say what was measured to test a cause that it did not show."""
    if tested is None or tested.found is None:
        return ""
    cause = tested.remark.cause.split(": ")[-1].rstrip(".")
    return f"{cause}: {_number(tested.found.mean)} (`{tested.cell}`)"


# ------------------------------------------------------------------ the page of a paper


def paper_page(paper: Paper, studies: Studies) -> str:
    """Return the tables of a paper, in its own shape, and what is said of them."""
    lines = [f"# {paper.name}", ""]
    for results in (paper.judge, *(r for r in paper.studies if r is not paper.judge)):
        lines += study_section(results, studies)
    return "\n".join(lines).rstrip() + "\n"


def tests_page(rest: Sequence[Results]) -> str:
    """Return the studies that test causes, and others that belong to no paper."""
    lines = ["# Studies that test causes", ""]
    for results in rest:
        lines += study_section(results, {})
    return "\n".join(lines).rstrip() + "\n"


def study_section(results: Results, studies: Studies) -> list[str]:
    """Return the lines of one study."""
    plan = results.plan
    lines = [f"## {plan.title}", "", plan.description.strip(), "", _protocols(plan), ""]
    lines += _characteristics(results)
    if not results.figures:
        return [*lines, "No figure of this study has been measured yet.", ""]
    printed = ", the printed figure in parentheses" if plan.figures else ""
    lines += [
        f"Mean ± standard error over splits{printed}, the best in bold. + {plan.reference} is"
        f" significantly better than this method, - it is worse (paired t-test at {LEVEL:g}).",
        "",
    ]
    for measure in plan.measures:
        lines += _measure(results, measure)
        if measure in plan.normalised:
            lines += _normalised(results, measure)
    lines += _differences(results, studies)
    lines += _claims(results, studies)
    return [*lines, *_seconds(results)]


def _protocols(plan: Plan) -> str:
    said: dict[str, list[str]] = {}
    for data in plan.datasets:
        said.setdefault(_protocol(data), []).append(data.name)
    listed = [f"{', '.join(names)}: {how}" for how, names in said.items()]
    text = "; ".join(listed) if len(said) > 1 else next(iter(said))
    found = [f"Protocol: {text}."]
    for method in plan.methods:
        few: dict[str, list[str]] = {}
        for data in plan.datasets:
            if data.name in method.without:
                few.setdefault(f"not run: {method.without[data.name]}", []).append(data.name)
            elif (n_run := plan.n_run(data, method)) != data.n_run:
                few.setdefault(f"the first {n_run} splits", []).append(data.name)
        found += [f"{method.name} on {', '.join(names)}: {why}." for why, names in few.items()]
    return " ".join(found)


def _protocol(data: DataPlan) -> str:
    protocol = data.protocol
    if protocol.kind == "random":
        sizes = f"{protocol.train:g} training and {protocol.test:g} test rows"
        text = f"{protocol.splits} random splits with {sizes} (seed {protocol.seed})"
    elif protocol.kind in ("draws", "redrawn"):
        what = "draws" if protocol.kind == "draws" else "draws of ten folds"
        text = f"{protocol.splits} {what} (seeds from {protocol.seed})"
    else:
        kind = "stratified " if protocol.kind == "stratified" else ""
        how = ", stratified by the first label" if protocol.kind == "first_label" else ""
        text = f"{kind}{protocol.splits}-fold cross-validation{how} (seed {protocol.seed})"
    return text if data.first is None else f"the first {data.first} splits of {text}"


def _characteristics(results: Results) -> list[str]:
    printed = {data.name: data.printed for data in results.plan.datasets if data.printed}
    if not printed or not results.characteristics:
        return []
    names = [name for name in COLUMNS if any(name in own for own in printed.values())]
    rows = []
    for dataset, own in printed.items():
        found = results.characteristics.get(dataset)
        ours = ["-" if found is None else size_words(getattr(found, name)) for name in names]
        in_print = [f" ({size_words(own[n])})" if n in own else "" for n in names]
        rows.append([dataset, *(a + b for a, b in zip(ours, in_print, strict=True))])
    header = ["data set", *(COLUMNS[name] for name in names)]
    return ["### Data sets, the printed numbers in parentheses", "", *_table(header, rows), ""]


def _measure(results: Results, measure: str) -> list[str]:
    """Data sets down and methods across, in the order of the paper's table."""
    entries = results.table(measure)
    if not entries:
        return []
    datasets, methods = table_order(results, measure)
    rows = [[d, *(_cell(results, measure, d, m) for m in methods)] for d in datasets]
    others = [m for m in methods if m != results.plan.reference]
    counts = {m: results.win_tie_loss(measure, m) for m in others}
    in_print = {m: results.printed_win_tie_loss(measure, m) for m in others}
    for name, own in (("win/tie/loss", counts), ("win/tie/loss in print", in_print)):
        known = {m: c for m, c in own.items() if c is not None and any(c)}
        if known:
            rows.append(
                [name, *("/".join(map(str, known[m])) if m in known else "" for m in methods)]
            )
    return [f"### {_title(results, measure)}", "", *_table(["data set", *methods], rows), "",
            *_ranks(results, measure)]  # fmt: skip


def _normalised(results: Results, measure: str) -> list[str]:
    """Return means divided by the largest of the data set, and their means over data sets."""
    entries = results.table(measure)
    datasets, methods = table_order(results, measure)
    shares: dict[str, list[float]] = {method: [] for method in methods}
    rows = []
    for dataset in datasets:
        own = {
            m: e.measured.mean for m in methods if (e := entries.get((dataset, m))) and e.measured
        }
        shown = {m: value / max(own.values()) for m, value in own.items()}
        for method, value in shown.items():
            shares[method].append(value)
        rows.append([dataset, *(_number(shown[m]) if m in shown else "" for m in methods)])
    mean = [_number(sum(own) / len(own)) if own else "" for own in shares.values()]
    title = f"### {_title(results, measure)}, divided by the largest of the data set"
    return [title, "", *_table(["data set", *methods], [*rows, ["mean", *mean]]), ""]


def _title(results: Results, measure: str) -> str:
    title = MEASURES[measure].title
    tables = dict.fromkeys(f.table for f in results.plan.figures if f.measure == measure)
    if not tables:
        return title[:1].upper() + title[1:]
    names = [f"Table {name}" if name.isdigit() else name.capitalize() for name in tables]
    return f"{' and '.join(names)}: {title}"


def _cell(results: Results, measure: str, dataset: str, method: str) -> str:
    """Write mean, error and mark, and in parentheses what is printed; empty where there is none."""
    entry = results.table(measure).get((dataset, method))
    if entry is None:
        return ""
    figure = results.published.get((measure, dataset, method))
    sign = f" {figure.mark}" if figure is not None and figure.mark else ""
    published = "" if entry.published is None else f" ({_number(entry.published)}{sign})"
    own = entry.measured
    if own is None:
        return f"-{published}"
    spread = "" if math.isnan(own.error) else f" ± {_number(own.error, own.mean)}"
    text = f"{_number(own.mean)}{spread}"
    most = max(f.splits for p, f in results.figures.items() if p[:2] == (measure, dataset))
    if own.splits < most:
        text = f"{text} [{own.splits} of {most} splits]"
    text = f"**{text}**" if entry.best else text
    mark = results.mark(measure, dataset, method)
    return f"{text}{f' {mark}' if mark else ''}{published}"


def _ranks(results: Results, measure: str) -> list[str]:
    ranking = results.ranking(measure)
    if ranking is None:
        return []
    pairs = zip(ranking.methods, ranking.ranks, strict=True)
    listed = ", ".join(f"{name} {rank:.2f}" for name, rank in pairs)
    known = not math.isnan(ranking.friedman_p)
    friedman = f" (Friedman p = {ranking.friedman_p:.3g})" if known else ""
    said = f"Average ranks{friedman}: {listed}. Nemenyi's critical difference is "
    return [f"{said}{ranking.critical_difference:.2f}.", ""]


def _differences(results: Results, studies: Studies) -> list[str]:
    if not results.compared:
        return []
    found = differences(results, studies)
    rows = []
    for own in found:
        kind = KINDS[own.kind] if own.kind else "not reproduced" if own.far else "in doubt"
        tested = own.tested
        cause = tested.remark.cause if tested is not None and tested.shown else ""
        evidence = ""
        if tested is not None and tested.found is not None:
            evidence = f"{_number(tested.found.mean)} in `{tested.cell}`"
        figures = [_place(own.place), _with_error(own), _number(own.published), f"{own.gap:+.1f}"]
        rows.append([*figures, kind, cause, evidence])
    head = ["figure", "ours", "print", "errors", "from", "cause", "cells that test it"]
    said = (
        f"Of {len(results.compared)} figures {len(found)} differ by more than {NARROW:.1f} standard"
        f" errors, {sum(own.far for own in found)} by more than {WIDE:.1f}."
    )
    return ["### Figures that differ from print", "", said, "", *_table(head, rows), ""]


def _claims(results: Results, studies: Studies) -> list[str]:
    if not results.plan.claims:
        return []
    lines = ["### Claims", ""]
    for claim in results.plan.claims:
        lines.append(f"- {claim_sentence(claim, results.verdicts(claim))}")
        if claim.beside:
            beside = claim_sentence(claim, results.verdicts(claim, claim.beside))
            lines.append(f"  - By {MEASURES[claim.beside].title}: {beside.partition(': ')[2]}")
    rows = []
    for claim in results.plan.claims:
        for lost in broken(results, studies, claim):
            kind = KINDS[lost.kind] if lost.kind else "not reproduced"
            evidence = lost.why or _tried(lost.tested)
            rows.append([_claim_words(lost), _signed(lost.verdict.difference), kind, evidence])
    head = ["comparison that does not hold", "by", "from", "evidence"]
    return [*lines, "", *(_table(head, rows) if rows else []), ""]


def claim_sentence(claim: Claim, verdicts: Sequence[Verdict]) -> str:
    """Say in how many comparisons a claim holds."""
    counts = {key: sum(v.holds == key for v in verdicts) for key in _VERDICTS}
    said = ", ".join(f"{n} {_VERDICTS[key]}" for key, n in counts.items() if n)
    start = f"“{claim.text}”: of {len(verdicts)} comparisons {said}"
    if claim.faster is not None:
        known = [v for v in verdicts if v.holds != "not measured"]
        times = ", ".join(f"{v.difference:.2g} ({v.dataset}, {v.over})" for v in known)
        return f"{start}; other programs on other machines were timed. Times as fast here: {times}."
    if claim.growth is not None:
        return f"{start}; by the power {', '.join(f'{v.difference:.2f}' for v in verdicts)} here."
    margin = claim.equal if claim.equal is not None else claim.at_least
    within = "" if margin is None else f" (margin {margin:g})"
    told = [v for v in verdicts if math.isfinite(v.corrected) and margin is None]
    strict = sum(v.holds == "yes" and v.corrected < LEVEL for v in told)
    more = f"; {strict} of {len(told)} strictly" if told else ""
    return f"{start}{within}{more}."


def _claim_words(lost: Broken) -> str:
    claim, verdict = lost.claim, lost.verdict
    over = f"over {verdict.over}" if verdict.over else f"above {claim.above or claim.growth:g}"
    title = SPEED if verdict.measure == SPEED else MEASURES[verdict.measure].title
    return f"{verdict.dataset}, {claim.method} {over}, {title}"


def _seconds(results: Results) -> list[str]:
    if not results.seconds:
        return []
    rows = []
    for dataset in results.datasets:
        known = [results.seconds.get((dataset, method)) for method in results.methods]
        rows.append([dataset, *("" if s is None else f"{s:.2f}" for s in known)])
    title = "### Seconds of learning, median of the splits"
    return [title, "", *_table(["data set", *results.methods], rows), ""]


# ------------------------------------------------------------------ words


def _place(place: tuple[str, str, str]) -> str:
    measure, dataset, method = place
    return f"{dataset}, {method}, {MEASURES[measure].title}"


def _with_error(own: Difference) -> str:
    return f"{_number(own.found.mean)} ± {_number(own.found.error, own.found.mean)}"


def _signed(difference: float) -> str:
    return f"{'-' if difference < 0 else '+'}{_number(abs(difference))}"


def _number(value: float, like: float | None = None) -> str:
    """Three digits after the point below ten, one above; no leading zero, as the papers print."""
    large = abs(value if like is None else like) >= 10.0
    text = f"{value:.1f}" if large else f"{value:.3f}"
    return text.removeprefix("0") if text.startswith("0.") else text


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [
        "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
        for cells in (header, ["---"] * len(header), *rows)
    ]
