"""Fitting a table in parts: where the work is done, and what is shown of it."""

from __future__ import annotations

import logging
import re
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from colabel.cli._console import note
from colabel.core.files import scratch_folder
from colabel.core.progress import Rehearsal, pass_counter, row_counter

if TYPE_CHECKING:
    from colabel.tables import PreparedTable, TableModel, TableRequest, TableSummary

Result = TypeVar("Result")

_ADDRESS = re.compile(r"(tcp|tls|ucx|ws|wss)://[^\s/:]+:\d{1,5}$|tcp://\[[0-9a-fA-F:]+\]:\d{1,5}$")
# A table of so many times the rows of a pilot fit has one, which takes two hundredths of its time.
_PILOT_ROWS, _PILOT_TIMES = 1 << 13, 50
_WAIT = 10  # seconds for a scheduler to answer, and for a first worker


@dataclass(frozen=True)
class Workplace:
    """Where a table in parts is read and learned from.

    Attributes
    ----------
    cluster : str
        Address of a running Dask scheduler; "" for none.
    workers : int
        Worker processes to start here; 0 for threads of this process.
    scratch : Path
        Folder in which the prepared rows lie for a while.
    shown : bool
        Whether progress is shown.
    checkpoint : Path, optional
        File in which the results of passes are kept until the fit is finished.
    """

    cluster: str
    workers: int
    scratch: Path
    shown: bool
    checkpoint: Path | None = None
    _n_rows: dict[str, int] = field(default_factory=dict)  # of the passes that were made

    def __post_init__(self) -> None:
        """Refuse what cannot be meant, before anything is read."""
        from colabel.core.optional import require
        from colabel.tables import TableError

        if self.cluster and self.workers:
            raise TableError("--cluster names workers and --workers starts some: give one of them.")
        if self.cluster and not _ADDRESS.match(self.cluster):
            raise TableError(
                f"--cluster {self.cluster!r} is no address of a Dask scheduler: write it like "
                "tcp://host:8786."
            )
        if not self.scratch.is_dir():
            raise TableError(f"{self.scratch} is no folder: make it, or name another (--scratch).")
        require("dask", "A table in parts")
        if self.cluster or self.workers:
            require("distributed", "A cluster")

    def fit(
        self,
        estimator: Any,
        request: TableRequest,
        parts: Sequence[Path],
        seen: Callable[[TableSummary], None],
    ) -> TableModel:
        """Fit a model; `seen` is called with what was seen in the table before it is learned."""
        from colabel.learn.chunks import counting_passes
        from colabel.models.wrapped import title_of
        from colabel.tables import TableError, TableModel, prepare_parts

        if not fits_parts(estimator):
            raise TableError(
                f"{title_of(estimator)} learns from rows in memory only: fit one file of a sample"
                " of the rows, or another model, such as ctbn."
            )
        files = [part.absolute() for part in parts] if self.cluster else parts
        try:
            with (
                self._client() as client,
                scratch_folder(self.scratch, ".colabel-rows-") as folder,
            ):
                run = self._one_by_one if client is None else self._by_workers
                table = prepare_parts(request, files, folder.absolute(), run)
                seen(table.summary)
                most = getattr(estimator, "samples_chunks", False) and estimator.max_rows
                if most and table.n_rows > most:
                    note(
                        f"{type(estimator).__name__} learns from a sample of about {most:,} of the"
                        f" {table.n_rows:,} rows; --set max_rows={table.n_rows} takes all, in"
                        " memory."
                    )
                rehearsal = _pilot_fit(estimator, table) if self.shown else None
                with (
                    pass_counter("learning", shown=self.shown, rehearsal=rehearsal) as count,
                    counting_passes(count),
                    self._checkpoint(estimator, request, parts),
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
    def _checkpoint(
        self, estimator: Any, request: TableRequest, parts: Sequence[Path]
    ) -> Iterator[None]:
        """Go on after the passes that a stopped fit has left in a file, if one is named."""
        if self.checkpoint is None:
            yield
            return
        from colabel._version import __version__
        from colabel.core.journal import Journal
        from colabel.learn.chunks import journaled

        states = [(part.name, part.stat().st_size, part.stat().st_mtime_ns) for part in parts]
        key = repr((__version__, estimator.get_params(), type(estimator), request, states))
        with Journal(self.checkpoint, key) as journal:
            if journal.n_recorded:
                note(f"Goes on after {journal.n_recorded} passes, which {self.checkpoint} has.")
            with journaled(journal):
                yield

    def _one_by_one(
        self,
        what: str,
        function: Callable[..., Result],
        parts: Sequence[Path],
        combine: Callable[[Result, Result], Result] | None = None,
    ) -> list[Result]:
        from colabel.tables.streaming import one_by_one

        total = self._n_rows.get("counting")
        with row_counter(what, shown=self.shown, total=total) as count:

            def counted(n_rows: int) -> None:
                self._n_rows[what] = self._n_rows.get(what, 0) + n_rows
                count(n_rows)

            return one_by_one(what, partial(function, count=counted), parts, combine)

    def _by_workers(
        self,
        what: str,
        function: Callable[..., Result],
        parts: Sequence[Path],
        combine: Callable[[Result, Result], Result] | None = None,
    ) -> list[Result]:
        from dask import delayed

        from colabel.learn.chunks.chunked_data import active_client, computed, reduced

        call = delayed(partial(function), pure=False, traverse=False)
        with pass_counter(f"{what} {len(parts)} parts", shown=self.shown) as count:
            count(0)
            results = list(map(call, parts))
            nodes = results if combine is None else [reduced(results, combine)]
            return list(computed(*nodes, client=active_client()))

    @contextmanager
    def _client(self) -> Iterator[Any]:
        """Give a client of the cluster or of workers here; None for threads of this process."""
        if not (self.cluster or self.workers):
            yield None
            return
        from distributed import Client, LocalCluster

        from colabel.tables import TableError

        _silence("distributed", "tornado", "asyncio")
        if self.workers:
            options = {"threads_per_worker": 1, "dashboard_address": None}
            with LocalCluster(self.workers, **options) as local, Client(local) as client:
                yield client
            return
        try:
            client = Client(self.cluster, timeout=_WAIT)
        except OSError as error:  # a TimeoutError is one
            raise TableError(
                f"No Dask scheduler answers at {self.cluster}: start one (dask scheduler), or "
                "check the address."
            ) from error
        with client:
            try:
                client.wait_for_workers(1, timeout=_WAIT)
            except TimeoutError as error:
                raise TableError(
                    f"The Dask scheduler at {self.cluster} has no workers: start some (dask "
                    f"worker {self.cluster})."
                ) from error
            yield client


def _pilot_fit(estimator: Any, table: PreparedTable) -> Rehearsal | None:
    """Fit a model to the first rows of a table, to say how long all of them will take.

    A solver takes about as many passes over few rows as over many. None where the table is small,
    or a label does not vary in these rows.
    """
    if table.n_rows < _PILOT_TIMES * _PILOT_ROWS:
        return None
    from colabel.learn.chunks import counting_passes
    from colabel.tables import TableModel

    started, began = time.monotonic(), list[float]()
    count = lambda _: began.append(time.monotonic() - started)  # noqa: E731
    with warnings.catch_warnings(), counting_passes(count):
        warnings.simplefilter("ignore")
        try:
            TableModel.fit_parts(estimator, table.first_rows(_PILOT_ROWS))
        except ValueError:
            return None
    return Rehearsal(tuple(began), time.monotonic() - started) if began else None


def fits_parts(estimator: Any) -> bool:
    """Whether a model learns from a table in parts."""
    return bool(getattr(estimator, "fits_chunks", False))


def _silence(*packages: str) -> None:
    """Have packages log nothing: what goes wrong is said in a sentence of ours.

    Loggers with levels of their own, as Dask's configuration gives them, do not ask a parent.
    """
    known = [name for name in logging.root.manager.loggerDict if name.split(".")[0] in packages]
    for name in (*packages, *known):
        logging.getLogger(name).setLevel(logging.CRITICAL)
