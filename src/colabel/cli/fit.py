"""`colabel fit`: a model of one's own table, in a file."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.console import Console
from rich.markup import escape

from colabel.cli import _options as given
from colabel.cli._console import guarded, note, output, stderr_is_terminal
from colabel.cli._options import opt
from colabel.cli._parts import Workplace, fits_parts
from colabel.core.files import refuse_input

if TYPE_CHECKING:
    from colabel.tables import TableModel, TableSummary

_MOST_THRESHOLDS = 12
_SET = (
    "A parameter of the model, or, as kernel.NAME, of its features. The estimator is forest,"
    " boosting, nb or gaussian."
)
_CONFORMAL = (
    "Hold a quarter of the rows out, so that predict --coverage can promise something; --set"
    " conformal.cv=5 for folds instead."
)
_DEVICE = "Where regressions are solved: cpu, cuda or auto (needs torch)."
_CALIBRATE = "Learn on rows held out how far the joint is to be trusted."
_WORKERS = "Learn from the table in parts, with N worker processes."
_CLUSTER = "The same by the workers of a Dask scheduler, such as tcp://host:8786."
_SCRATCH = "Where prepared rows lie meanwhile; workers must reach it."
_CHECKPOINT = "Of a table in parts: go on where a stopped fit with the same file was."


@guarded
def fit(
    table: given.TableParts,
    labels: given.LabelColumns = [],
    model: Annotated[str, opt("TEXT", "One of {models}. {features}", "--model", "-m")] = "ctbn",
    output_file: Annotated[Path, opt("FILE", "Where the model goes.", "--output", "-o")] = Path(
        "model.colabel"
    ),
    settings: Annotated[list[str], opt("NAME=VALUE", _SET, "--set", default=False)] = [],
    conformal: Annotated[bool, opt("", _CONFORMAL, "--conformal")] = False,
    device: Annotated[str, opt("NAME", _DEVICE, default=False)] = "",
    calibrate: Annotated[bool, opt("", _CALIBRATE, "--calibrate")] = False,
    thresholds: given.Thresholds = False,
    rules: given.RulesFile = None,
    workers: Annotated[int, opt("N", _WORKERS, default=False, min=0)] = 0,
    cluster: Annotated[str, opt("ADDRESS", _CLUSTER, default=False)] = "",
    scratch: Annotated[
        Path | None, opt("FOLDER", _SCRATCH, default="that of the model file")
    ] = None,
    checkpoint: Annotated[Path | None, opt("FILE", _CHECKPOINT, default=False)] = None,
    separator: given.Separator = None,
    drop: given.Drop = [],
    category: given.Category = [],
    text: given.Text = [],
    missing: given.Missing = [],
    delimiter: given.Delimiter = "",
    decimal: given.Decimal = "",
    encoding: given.Encoding = "utf-8",
    seed: given.Seed = 0,
    as_json: given.AsJson = False,
    quiet: given.Quiet = False,
) -> None:
    """Fit a model to a table and save it.

    Numbers are scaled, categories encoded, texts counted (TF-IDF) and missing
    values filled in; the model file remembers how. A table of several files, or
    of more than 500 MB, is never in memory as a whole: it is read in passes.

    [bold]Examples[/bold]

      [cyan]colabel fit data.csv --labels 'tag_*' --model ctbn -o model.colabel[/cyan]

      [cyan]colabel fit data.csv --labels tags --separator ';' --set C=0.1[/cyan]

      [cyan]colabel fit data.csv --labels tags --model kernel+pcc --set kernel.width=3[/cyan]

      [cyan]colabel fit data.csv --labels tags --conformal[/cyan]

      [cyan]colabel fit data.csv --labels 'tag_*' --model pcc --thresholds --calibrate[/cyan]

      [cyan]colabel fit data.csv --labels 'tag_*' --rules rules.txt[/cyan]

      [cyan]colabel fit 'part-*.parquet' --labels 'tag_*' --workers 4[/cyan]
    """
    from colabel.models import RuledClassifier
    from colabel.models.thresholds import thresholded
    from colabel.models.wrapped import model_inside, title_of
    from colabel.report.text import show_summary
    from colabel.rules import Rules
    from colabel.saving import save
    from colabel.tables import (
        TableError,
        TableModel,
        TableRequest,
        find_parts,
        load_table,
        make_model,
        summarise,
    )
    from colabel.tables.model_names import parse_setting
    from colabel.tables.reading import is_large

    options = given.reading_options(delimiter, encoding, missing, decimal)
    parameters = dict(map(parse_setting, settings))
    if device:
        parameters["device"] = device
    if calibrate:
        parameters["calibrate"] = True
    if thresholds and conformal:
        raise TableError(
            "--thresholds changes which labels are predicted, --conformal lists label sets by"
            " their probability: give one of them."
        )
    estimator = make_model(model, seed, parameters, conformal=conformal)
    if thresholds:
        estimator = thresholded(estimator, seed)
    if rules is not None:
        if thresholds:
            raise TableError(
                "--thresholds decides each label by itself and would break --rules: give one."
            )
        known = Rules.load(rules)
        inner = estimator.estimator if conformal else estimator
        ruled = RuledClassifier(inner, str(known), decision=model_inside(inner).decision)
        estimator = estimator.set_params(estimator=ruled) if conformal else ruled
    parts = find_parts(table)
    refuse_input(output_file, *parts)
    refuse_input(checkpoint, *parts)
    more = f" and {len(table) - 1} more" * (len(table) > 1)
    path = parts[0] if len(parts) == 1 else Path(f"{table[0]}{more}")
    request = TableRequest(path, labels, separator, drop, category, text, options)
    is_watched = stderr_is_terminal() and not quiet
    console = output()
    summary: TableSummary | None = None

    def show(found: TableSummary) -> None:
        nonlocal summary
        summary = found
        if not (quiet or as_json):
            show_summary(console, found)

    started = time.perf_counter()
    asked = bool(workers or cluster or checkpoint or len(parts) > 1)
    if asked or (is_large([part for part in parts if part.exists()]) and fits_parts(estimator)):
        folder = scratch or output_file.absolute().parent
        place = Workplace(cluster, workers, folder, is_watched, checkpoint)
        if not quiet:
            n_parts = f"{len(parts)} parts are" if len(parts) > 1 else "The table is"
            note(f"{n_parts} read in passes and never in memory as a whole.")
        fitted = place.fit(estimator, request, parts, show)
    else:
        data = load_table(request)
        show(summarise(data))
        _show_progress(estimator, shown=is_watched)
        fitted = TableModel.fit(estimator, data.features, data.choice, data.labels)
        _show_progress(fitted.model, shown=False)  # only while it learns
    seconds = time.perf_counter() - started
    save(fitted, output_file)
    if checkpoint is not None:
        checkpoint.unlink(missing_ok=True)
    if as_json:
        found = {"model": title_of(estimator), "file": str(output_file), "seconds": seconds}
        seen = {} if summary is None else summary.to_dict()
        console.print_json(json.dumps({**found, "table": seen}))
    elif not quiet:
        _show_end(console, fitted, output_file, seconds)


def _show_progress(model: Any, *, shown: bool) -> None:
    """Let every step show its progress that can, or let none."""
    from colabel.models.wrapped import parts_of

    for part in parts_of(model):
        if "verbose" in part.get_params(deep=False):
            part.set_params(verbose=int(shown))


def _show_end(console: Console, model: TableModel, file: Path, seconds: float) -> None:
    from colabel.models.wrapped import title_of

    size = file.stat().st_size / 1000
    n_held_out = getattr(model.model, "n_held_out_", 0)
    held_out = f" {n_held_out:,} rows held out for predict --coverage." * bool(n_held_out)
    console.print(
        f"\n{title_of(model.model)} fitted in {seconds:.1f} s and saved to "
        f"[bold]{escape(str(file))}[/bold] ({size:,.0f} kB).{held_out}",
        soft_wrap=True,
    )
    for sentence in _remedies(model):
        console.print(escape(sentence))


def _remedies(model: TableModel) -> list[str]:
    """Say what calibration and thresholds came to, where they were asked for."""
    from colabel.models.wrapped import model_inside

    inner = model_inside(model.model)
    said = []
    if hasattr(inner, "thresholds_"):
        pairs = zip(model.label_names_, inner.thresholds_.tolist(), strict=True)
        shown = [f"{name} {cut:.2f}" for name, cut in list(pairs)[:_MOST_THRESHOLDS]]
        more = ", …" if len(inner.thresholds_) > len(shown) else ""
        said.append(f"A label is predicted above its threshold: {', '.join(shown)}{more}.")
        inner = inner.estimator_
    if hasattr(inner, "calibration_"):
        found = inner.calibration_
        price = ""
        if found.price_of_new > 0:
            price = f", and {found.price_of_new:.2f} nats off a label set that no row has"
        said.append(
            f"Calibrated on rows held out: temperature {found.temperature:.2f} (above 1, it was "
            f"too sure of itself){price}."
        )
    return said
