"""`colabel fit`: a model of one's own table, in a file; in parts where the table is large."""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.console import Console
from rich.markup import escape

from colabel.cli import _console as ui
from colabel.core.files import check_not_input, scratch_folder
from colabel.core.progress import pass_counter, row_counter

if TYPE_CHECKING:
    from colabel.tables import TableModel, TableRequest, TableSummary

_MOST_THRESHOLDS = 12
_SET = (
    "A parameter of the model, or, as kernel.NAME, of its features. The estimator is forest,"
    " boosting, nb or gaussian."
)
_CONFORMAL = (
    "Hold out a quarter of the rows, so that predict --coverage can guarantee a coverage; --set"
    " conformal.cv=5 uses folds instead."
)
_DEVICE = "Where regressions are solved: cpu, cuda or auto (needs torch)."
_CALIBRATE = "Calibrate the joint on held-out rows."
_WORKERS = "Learn from the table in parts, with N worker processes."
_CLUSTER = "The same by the workers of a Dask scheduler, such as tcp://host:8786."
_SCRATCH = "Folder for the prepared rows during the fit; workers must reach it."
_CHECKPOINT = "For a table in parts: continue a stopped fit that used the same file."

_ADDRESS = re.compile(r"(tcp|tls|ucx|ws|wss)://[^\s/:]+:\d{1,5}$|tcp://\[[0-9a-fA-F:]+\]:\d{1,5}$")


@ui.command
def fit(
    asked: ui.LearnedParts,
    model: Annotated[str, ui.opt("TEXT", "One of {models}. {features}", "--model", "-m")] = "ctbn",
    output_file: Annotated[Path, ui.opt("FILE", "Where the model goes.", "--output", "-o")] = Path(
        "model.colabel"
    ),
    settings: Annotated[list[str], ui.opt("NAME=VALUE", _SET, "--set", default=False)] = [],
    conformal: Annotated[bool, ui.opt("", _CONFORMAL, "--conformal")] = False,
    device: Annotated[str, ui.opt("NAME", _DEVICE, default=False)] = "",
    calibrate: Annotated[bool, ui.opt("", _CALIBRATE, "--calibrate")] = False,
    thresholds: ui.Thresholds = False,
    rules: ui.RulesFile = None,
    weights: Annotated[
        str, ui.opt("COLUMN", "How many rows each row stands for.", default=False)
    ] = "",
    workers: Annotated[int, ui.opt("N", _WORKERS, default=False, min=0)] = 0,
    cluster: Annotated[str, ui.opt("ADDRESS", _CLUSTER, default=False)] = "",
    scratch: Annotated[
        Path | None, ui.opt("FOLDER", _SCRATCH, default="that of the model file")
    ] = None,
    checkpoint: Annotated[Path | None, ui.opt("FILE", _CHECKPOINT, default=False)] = None,
    seed: ui.Seed = 0,
    as_json: ui.AsJson = False,
    quiet: ui.Quiet = False,
) -> None:
    """Fit a model to a table and save it.

    Numbers are scaled, categories encoded, words counted (TF-IDF) and missing
    values filled in; the model file stores how. A table of several files, or of
    more than 500 MB, is read in passes and never held in memory as a whole.

    [bold]Examples[/bold]

      [cyan]colabel fit data.csv --labels 'tag_*' --model ctbn -o model.colabel[/cyan]

      [cyan]colabel fit data.csv --labels tags --separator ';' --set C=0.1[/cyan]

      [cyan]colabel fit data.csv --labels tags --model kernel+pcc --set kernel.width=3[/cyan]

      [cyan]colabel fit data.csv --labels tags --conformal[/cyan]

      [cyan]colabel fit data.csv --labels 'tag_*' --model pcc --thresholds --calibrate[/cyan]

      [cyan]colabel fit data.csv --labels 'tag_*' --rules rules.txt[/cyan]

      [cyan]colabel fit 'part-*.parquet' --labels 'tag_*' --workers 4[/cyan]
    """
    from colabel import tables
    from colabel.models import RuledClassifier
    from colabel.models.around import thresholded
    from colabel.models.wrapped import model_inside, title_of
    from colabel.report.text import show_summary
    from colabel.rules import Rules
    from colabel.saving import save
    from colabel.tables.loading import column_of
    from colabel.tables.model_names import parse_setting
    from colabel.tables.reading import is_large

    request, parts = asked
    parameters = dict(map(parse_setting, settings))
    if device:
        parameters["device"] = device
    if calibrate:
        parameters["calibrate"] = True
    if thresholds and conformal:
        raise tables.TableError(
            "--thresholds changes which labels are predicted, --conformal lists label sets by"
            " their probability: give one of them."
        )
    estimator = tables.make_model(model, seed, parameters, conformal=conformal)
    if thresholds:
        estimator = thresholded(estimator, seed)
    if rules is not None:
        if thresholds:
            raise tables.TableError(
                "--thresholds decides each label by itself and would break --rules: give one."
            )
        known = Rules.load(rules)
        inner = estimator.estimator if conformal else estimator
        ruled = RuledClassifier(inner, str(known), decision=model_inside(inner).decision)
        estimator = estimator.set_params(estimator=ruled) if conformal else ruled
    check_not_input(output_file, *parts)
    check_not_input(checkpoint, *parts)
    is_watched = ui.stderr_is_terminal() and not quiet
    console = ui.output()
    summary: TableSummary | None = None

    def show(found: TableSummary) -> None:
        nonlocal summary
        summary = found
        if not (quiet or as_json):
            show_summary(console, found)

    started = time.perf_counter()
    fits_parts = getattr(estimator, "fits_chunks", False)
    in_parts = workers or cluster or checkpoint or len(parts) > 1
    if in_parts or (fits_parts and is_large([part for part in parts if part.exists()])):
        if weights:
            raise tables.TableError("--weights is for tables that are read as a whole.")
        if not quiet:
            n_parts = f"{len(parts)} parts are" if len(parts) > 1 else "The table is"
            ui.note(f"{n_parts} read in passes and never in memory as a whole.")
        fitted = _fit_parts(
            estimator,
            request,
            parts,
            show,
            cluster=cluster,
            workers=workers,
            scratch=scratch or output_file.absolute().parent,
            checkpoint=checkpoint,
            shown=is_watched,
        )
    else:
        weight = column_of(request.path, request.options, weights) if weights else None
        drop = [*request.drop, *filter(None, [weights])]
        data = tables.load_table(replace(request, drop=drop))
        show(tables.summarise(data))
        _show_progress(estimator, shown=is_watched)
        own = None if weight is None else weight[data.row_numbers]
        fitted = tables.TableModel.fit(estimator, data.features, data.choice, data.labels, own)
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
    """Say where the model is, and what calibration and thresholds came to."""
    from colabel.models.wrapped import model_inside, title_of

    n_held_out = getattr(model.model, "n_held_out_", 0)
    held_out = f" {n_held_out:,} rows held out for predict --coverage." * bool(n_held_out)
    console.print(
        f"\n{title_of(model.model)} fitted in {seconds:.1f} s and saved to "
        f"[bold]{escape(str(file))}[/bold] ({file.stat().st_size / 1000:,.0f} kB).{held_out}",
        soft_wrap=True,
    )
    inner = model_inside(model.model)
    if hasattr(inner, "thresholds_"):
        pairs = zip(model.label_names_, inner.thresholds_.tolist(), strict=True)
        shown = [f"{name} {cut:.2f}" for name, cut in list(pairs)[:_MOST_THRESHOLDS]]
        more = ", …" if len(inner.thresholds_) > len(shown) else ""
        console.print(escape(f"Labels are predicted above thresholds: {', '.join(shown)}{more}."))
        inner = inner.estimator_
    priors = zip(model.label_names_, getattr(inner, "class_priors_", ()), strict=False)
    if shown := [f"{name} {prior:.0%}" for name, prior in priors if prior >= 0]:
        console.print(escape(f"Estimated share of rows with a label: {', '.join(shown)}."))
    if hasattr(inner, "calibration_"):
        temperature, price = inner.calibration_.temperature, inner.calibration_.price_of_new
        off = f", and {price:.2f} nats off a label set that no row has" if price > 0 else ""
        console.print(
            f"Calibrated on rows held out: temperature {temperature:.2f} (above 1, it was too sure"
            f" of itself){off}."
        )


def _fit_parts(
    estimator: Any,
    request: TableRequest,
    parts: Sequence[Path],
    seen: Callable[[TableSummary], None],
    *,
    cluster: str,  # address of a running Dask scheduler; "" for none
    workers: int,  # processes to start here; 0 for threads of this one
    scratch: Path,  # folder in which the prepared rows lie for a while
    checkpoint: Path | None,  # file in which the results of passes are kept until the end
    shown: bool,
) -> TableModel:
    """Fit a model to a table in parts; `seen` is called with what was seen before it is learned."""
    from colabel.core.lazy import require
    from colabel.learn.chunks.chunked_data import counting_passes
    from colabel.models.wrapped import title_of
    from colabel.tables import TableError, TableModel, prepare_parts
    from colabel.tables.streaming import one_by_one

    if cluster and workers:
        raise TableError("--cluster names workers and --workers starts some: give one of them.")
    if cluster and not _ADDRESS.match(cluster):
        raise TableError(
            f"--cluster {cluster!r} is no address of a Dask scheduler: write it like "
            "tcp://host:8786."
        )
    if not scratch.is_dir():
        raise TableError(f"{scratch} is no folder: make it, or name another (--scratch).")
    require("dask", "A table in parts")
    if cluster or workers:
        require("distributed", "A cluster")
    if not getattr(estimator, "fits_chunks", False):
        raise TableError(
            f"{title_of(estimator)} learns from rows in memory only: fit one file of a sample"
            " of the rows, or another model, such as ctbn."
        )

    def by_threads(what: str, function: Any, parts: Sequence[Path], combine: Any = None) -> Any:
        with row_counter(what, shown=shown) as count:
            return one_by_one(what, partial(function, count=count), parts, combine)

    def by_workers(what: str, function: Any, parts: Sequence[Path], combine: Any = None) -> Any:
        from dask import delayed

        from colabel.learn.chunks.chunked_data import active_client, computed, reduced

        call = delayed(partial(function), pure=False, traverse=False)
        with pass_counter(f"{what} {len(parts)} parts", shown=shown) as count:
            count(0)
            results = list(map(call, parts))
            nodes = results if combine is None else [reduced(results, combine)]
            return list(computed(*nodes, client=active_client()))

    files = [part.absolute() for part in parts] if cluster else parts
    try:
        with _client(cluster, workers) as client, scratch_folder(scratch, ".colabel-rows-") as rows:
            run = by_threads if client is None else by_workers
            table = prepare_parts(request, files, rows.absolute(), run)
            seen(table.summary)
            most = getattr(estimator, "samples_chunks", False) and estimator.max_rows
            if most and table.n_rows > most:
                ui.note(
                    f"{type(estimator).__name__} learns from a sample of about {most:,} of the"
                    f" {table.n_rows:,} rows; --set max_rows={table.n_rows} takes all, in memory."
                )
            with (
                pass_counter("learning", shown=shown) as count,
                counting_passes(count),
                _going_on(checkpoint, estimator, request, parts),
            ):
                return TableModel.fit_parts(estimator, table)
    except (RuntimeError, TypeError) as error:
        if "Dask" not in str(error):
            raise
        # sentences of the fit on chunks: a scheduler that is gone, a parameter it cannot have
        raise TableError(str(error)) from error
    except Exception as error:
        if type(error).__name__ != "KilledWorker":  # distributed need not be imported
            raise
        raise TableError(
            "One worker after the other failed at the same rows: they may lack memory. Give "
            "them more, or take fewer of them (--workers)."
        ) from error


@contextmanager
def _going_on(
    checkpoint: Path | None, estimator: Any, request: TableRequest, parts: Sequence[Path]
) -> Iterator[None]:
    """Go on after the passes that a stopped fit has left in a file, if one is named."""
    if checkpoint is None:
        yield
        return
    from colabel._version import __version__
    from colabel.core.journal import Journal
    from colabel.learn.chunks.chunked_data import journaled

    states = [(part.name, part.stat().st_size, part.stat().st_mtime_ns) for part in parts]
    key = repr((__version__, estimator.get_params(), type(estimator), request, states))
    with Journal(checkpoint, key) as journal, journaled(journal):
        if journal.n_recorded:
            ui.note(f"Goes on after {journal.n_recorded} passes, which {checkpoint} has.")
        yield


@contextmanager
def _client(cluster: str, workers: int) -> Iterator[Any]:
    """Give a client of the cluster or of workers here; None for threads of this process."""
    if not (cluster or workers):
        yield None
        return
    import dask
    from distributed import Client, LocalCluster

    from colabel.tables import TableError

    _silence("distributed", "tornado", "asyncio")
    if workers:
        options = {"threads_per_worker": 1, "dashboard_address": None}
        with LocalCluster(workers, **options) as local, Client(local) as client:
            yield client
        return
    # for the scheduler to answer, and for a first worker: Dask's own setting
    wait = dask.config.get("distributed.comm.timeouts.connect")
    try:
        client = Client(cluster, timeout=wait)
    except OSError as error:  # a TimeoutError is one
        raise TableError(
            f"No Dask scheduler answers at {cluster}: start one (dask scheduler), or "
            "check the address."
        ) from error
    with client:
        try:
            client.wait_for_workers(1, timeout=wait)
        except TimeoutError as error:
            raise TableError(
                f"The Dask scheduler at {cluster} has no workers: start some (dask "
                f"worker {cluster})."
            ) from error
        yield client


def _silence(*packages: str) -> None:
    """Have packages log nothing: what goes wrong is said in a sentence of ours.

    Loggers with levels of their own, as Dask's configuration gives them, do not ask a parent.
    """
    known = [name for name in logging.root.manager.loggerDict if name.split(".")[0] in packages]
    for name in (*packages, *known):
        logging.getLogger(name).setLevel(logging.CRITICAL)
