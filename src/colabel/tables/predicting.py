"""Predictions for a table of any length, a chunk of rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from colabel.core.arrays import Codes
from colabel.core.threads import one_blas_thread
from colabel.datasets.frame import Frame, Storage, TableError
from colabel.datasets.readers.table import Source
from colabel.decide import resolve_decision
from colabel.joint import Joint
from colabel.joint.views import named_set
from colabel.labels import MISSING, LabelSpace
from colabel.models.wrapped import model_inside
from colabel.tables.answers import AnswerColumn, Answers, CodedTexts
from colabel.tables.columns import storage_of
from colabel.tables.coverage import coverage_columns, coverage_header, require_sets
from colabel.tables.known_labels import KnownColumn, evidence_codes, find_known
from colabel.tables.model import TableModel
from colabel.tables.reading import read_chunks
from colabel.tables.table_labels import match_columns

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SEPARATOR = ";"


@dataclass(frozen=True)
class PredictionRequest:
    """What is wanted for each row.

    Attributes
    ----------
    decision : str, optional
        Loss that the labels minimise, see `decide`; by default the model's own.
    probabilities : bool
        Whether to give the probability of each label alone.
    top_k : int
        How many label sets to give with their joint probabilities.
    given : sequence of str
        Names, globs, @lists of columns with labels that are already known, see `find_known`.
    keep : sequence of str
        Columns to copy.
    coverage : float, optional
        Probability with which a row's listed label sets shall have the true one among them; only
        for models that have held rows out, see `coverage_columns`.
    """

    decision: str | None = None
    probabilities: bool = True
    top_k: int = 0
    given: Sequence[str] = ()
    keep: Sequence[str] = ()
    coverage: float | None = None


class Predictor:
    r"""A model and a request, applied to the rows of a source.

    Parameters
    ----------
    model : TableModel
    source : what `open_table` returned
    request : PredictionRequest

    Attributes
    ----------
    header : list of str
        Names of the columns of the answer: the row's number (from 1), the columns that are kept,
        the labels (where they were learned from a column of tags, that column), p_<label> (or
        p_<label>=<value>), and set_1, p_set_1, set_2, ...; with a coverage also n_sets, sets,
        sets_listed and sure_<label>.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from colabel.tables import *
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = pathlib.Path(folder.name) / "toy.csv"
    >>> _ = file.write_text("size,a,b\n" + "1,0,1\n2,1,1\n5,1,0\n" * 10)
    >>> data = load_table(TableRequest(file, ["a", "b"]))
    >>> estimator = make_model("ctbn", seed=0, settings={"C": 1.0})
    >>> model = TableModel.fit(estimator, data.features, data.choice, data.labels)
    >>> predictor = Predictor(model, open_table(file), PredictionRequest(probabilities=False))
    >>> predictor.header
    ['row', 'a', 'b']
    >>> next(predictor.chunks(n_rows=2))
    [('1', '0', '1'), ('2', '1', '1')]
    >>> folder.cleanup()
    """

    def __init__(self, model: TableModel, source: Source, request: PredictionRequest) -> None:
        self.model, self.source, self.request = model, source, request
        asked = request.decision
        self.rule = resolve_decision(asked) if asked else model_inside(model.model).decision_rule()
        space = model.space
        self._values = [[str(v) for v in classes.tolist()] for classes in space.classes]
        self._known: tuple[KnownColumn, ...] = ()
        if request.given:
            self._known = find_known(request.given, source.names, space)
        clash = [column.name for column in self._known if column.name in model.storage]
        if clash:
            raise TableError(f"The column {clash[0]!r} is a feature of the model, not a label.")
        self._keep: tuple[str, ...] = ()
        if request.keep:
            self._keep = match_columns(request.keep, source.names, "column to keep")
            taken = sorted({"row", *self._label_columns} & set(self._keep))
            if taken:
                raise TableError(
                    f"The column {taken[0]!r} cannot be kept beside the predictions, for they have "
                    "one of the same name: rename it."
                )
        if request.top_k < 0:
            raise TableError(f"top_k is {request.top_k}: give the number of label sets, 1 or more.")
        if request.coverage is not None:
            require_sets(model, request.coverage, request.given)
        self.header = self._header(space)

    @property
    def kept(self) -> tuple[str, ...]:
        """Names of the columns that are copied."""
        return self._keep

    def kept_texts(self, frame: Frame) -> list[list[str]]:
        """Return the columns that are copied, as texts."""
        return [_as_texts(frame.column(name)) for name in self._keep]

    def chunks(self, n_rows: int | None = None) -> Iterator[list[tuple[str, ...]]]:
        """Give the answers as rows of texts, a chunk of rows at a time."""
        for answers in self.answers(n_rows):
            yield answers.rows()

    def answers(self, n_rows: int | None = None) -> Iterator[Answers]:
        """Give the answers as columns, a chunk of rows at a time."""
        start = 1
        for frame in self.frames(n_rows):
            with one_blas_thread:  # the products of a chunk are too small to share
                answers = self._answers(frame, start)
            yield answers
            start += frame.n_rows

    def frames(self, n_rows: int | None = None) -> Iterator[Frame]:
        """Give the rows, a chunk at a time, with the columns that the answers need."""
        storage: dict[str, Storage] = {
            **dict.fromkeys((column.name for column in self._known), "text"),
            **dict.fromkeys(self._keep, "text"),
            **storage_of(self.model.columns),
        }
        yield from read_chunks(self.source, storage, n_rows)

    def joint(self, frame: Frame, first_row: int = 1) -> Joint:
        """Return the joint of a frame's rows, given the labels known in it."""
        joint = self.model.joint(frame)
        if not self._known:
            return joint
        evidence = self.known_codes(frame, first_row)
        return joint.given_codes(evidence) if (evidence != MISSING).any() else joint

    def known_codes(self, frame: Frame, first_row: int = 1) -> Codes:
        """Return the codes (n, d) of the labels known in a frame, -1 where they are not."""
        space = self.model.space
        if not self._known:
            return np.full((frame.n_rows, space.n_labels), MISSING, dtype=np.int32)
        separator = self.model.label_source.separator
        return evidence_codes(frame, self._known, space, separator, first_row, self.source.path)

    def _header(self, space: LabelSpace) -> list[str]:
        header = ["row", *self._keep, *self._label_columns]
        if self.request.probabilities:
            for name, values in zip(space.names, self._values, strict=True):
                if space.is_indicator:
                    header.append(f"p_{name}")
                else:
                    header += [f"p_{name}={value}" for value in values]
        for place in range(1, self._n_sets(space) + 1):
            header += [f"set_{place}", f"p_set_{place}"]
        return header if self.request.coverage is None else [*header, *coverage_header(space)]

    def _n_sets(self, space: LabelSpace) -> int:
        n_vectors = 1
        for size in space.cardinalities:
            n_vectors = min(n_vectors * size, self.request.top_k)
        return min(n_vectors, self.request.top_k)

    def _answers(self, frame: Frame, start: int) -> Answers:
        joint = self.joint(frame, start)
        columns: list[AnswerColumn | list[str]] = [np.arange(start, start + frame.n_rows)]
        columns += self.kept_texts(frame)
        decided = self.rule.codes(joint)
        if self.model.label_source.separator:
            vectors, which = np.unique(decided, axis=0, return_inverse=True)
            tags = [*map(self._set_writer(joint.space), vectors.tolist())]
            columns.append(CodedTexts(tags, which.reshape(-1)))
        else:
            columns += self._label_values(joint.space, decided)
        if self.request.probabilities:
            for table in joint.marginal_tables():
                columns += list(table[:, 1:].T if joint.space.is_indicator else table.T)
        n_sets = self._n_sets(joint.space)
        if n_sets:
            best, log_prob = joint.top_k_codes(n_sets)
            write = self._set_writer(joint.space)
            for place in range(n_sets):
                columns.append([write(codes) for codes in best[:, place].tolist()])
                columns.append(np.exp(log_prob[:, place]))
        if self.request.coverage is not None:
            write = self._set_writer(joint.space)
            columns += coverage_columns(self.model, frame, self.request.coverage, write)
        return Answers.of(self.header, columns)

    @property
    def _label_columns(self) -> tuple[str, ...]:
        """Tags in, tags out: the columns that labels stood in are those they are written to."""
        source = self.model.label_source
        return source.columns if source.separator else self.model.label_names_

    def _label_values(self, space: LabelSpace, decided: Codes) -> Iterator[AnswerColumn]:
        for classes, values, codes in zip(space.classes, self._values, decided.T, strict=True):
            is_whole = classes.dtype.kind in "iu"
            yield classes[codes] if is_whole else CodedTexts(values, codes)

    def _set_writer(self, space: LabelSpace) -> Callable[[list[int]], str]:
        separator = self.model.label_source.separator or _SEPARATOR
        return lambda codes: separator.join(named_set(codes, space))


def _as_texts(column: NDArray[Any]) -> list[str]:
    if column.dtype.kind == "f":
        return ["" if np.isnan(value) else f"{value:.15g}" for value in column.tolist()]
    return ["" if text is None else text for text in column]
