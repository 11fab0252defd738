"""Predictions for a table of any length, a chunk of rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from colabel.core.arrays import Codes
from colabel.core.threads import one_blas_thread
from colabel.decide import LabelSets, resolve_decision
from colabel.joint import Joint
from colabel.joint.user_terms import ImpossibleEvidenceError
from colabel.joint.views import named_set
from colabel.labels import MISSING, LabelSpace
from colabel.labels.columns import ABSENT_PRESENT
from colabel.models.conformal_sets import ConformalSets
from colabel.models.wrapped import model_inside
from colabel.tables.answers import AnswerColumn, Answers, coded_texts
from colabel.tables.frame import Frame, Storage
from colabel.tables.model import TableModel
from colabel.tables.reading import read_chunks
from colabel.tables.source import Source
from colabel.tables.table_labels import expanded, match_columns, split_tags
from colabel.tables.text import TableError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NO_LABEL = "no label"


@dataclass(frozen=True)
class KnownColumn:
    """A column with known values of one label, or (label None) with known tags."""

    name: str
    label: int | None


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
        return [[text or "" for text in frame.column(name)] for name in self._keep]

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
            **self.model.storage,
        }
        yield from read_chunks(self.source, storage, n_rows)

    def joint(self, frame: Frame, first_row: int = 1) -> Joint:
        """Return the joint of a frame's rows, given the labels known in it."""
        joint = self.model.joint(frame)
        if not self._known:
            return joint
        evidence = self.known_codes(frame, first_row)
        try:
            return joint.given_codes(evidence) if (evidence != MISSING).any() else joint
        except ImpossibleEvidenceError as error:
            raise TableError(
                f"{self.source.path}, row {first_row + error.rows[0]}: what is given, "
                f"{{{error.example}}}, has probability zero by the model. Correct it, or leave "
                "some of these labels empty."
            ) from error

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
            names = np.array(joint.space.names, dtype=object)
            tags = [self.model.label_source.written(names[row > 0].tolist()) for row in vectors]
            columns.append(coded_texts(tags, which.reshape(-1)))
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
            yield classes[codes] if is_whole else coded_texts(values, codes)

    def _set_writer(self, space: LabelSpace) -> Callable[[list[int]], str]:
        return lambda codes: self.model.label_source.written(named_set(codes, space)) or _NO_LABEL


def find_known(
    patterns: Sequence[str], names: Sequence[str], space: LabelSpace
) -> tuple[KnownColumn, ...]:
    """Find the columns that hold known labels.

    A column named like a label holds its values, and so does one whose name has a label where a
    pattern has its "*", such as known_red for "known_*". Any other holds tags that are known to
    be there, or, with a "!" before them, known not to be.
    """
    found: dict[str, KnownColumn] = {}
    for pattern in expanded(patterns):
        for name in match_columns([pattern], names, "known labels"):
            label = name if name in space.names else _at_star(name, pattern)
            position = space.names.index(label) if label in space.names else None
            if position is None and not space.is_indicator:
                raise TableError(
                    f"The column {name!r} is named like no label, and only 0/1 labels can be "
                    "given as tags: name it like the label whose values it holds."
                )
            found[name] = KnownColumn(name, position)
    return tuple(found.values())


def _at_star(name: str, pattern: str) -> str | None:
    before, star, after = pattern.partition("*")
    if not star or "*" in after or not name.startswith(before) or not name.endswith(after):
        return None
    return name[len(before) : len(name) - len(after)]


def evidence_codes(
    frame: Frame,
    known: Sequence[KnownColumn],
    space: LabelSpace,
    separator: str = "",
    first_row: int = 1,
    path: Any = None,
) -> Codes:
    """Return the codes (n, d) of what is known, MISSING elsewhere.

    What cannot be understood is named by its row, counted from `first_row`, and by `path`.
    """

    def place(i: int) -> str:
        return f"Row {first_row + i}" if path is None else f"{path}, row {first_row + i}"

    codes = np.full((frame.n_rows, space.n_labels), MISSING, dtype=np.int32)
    for column in known:
        texts = frame.column(column.name)
        if column.label is None:
            _put_tags(codes, texts, column.name, space, separator or ";", place)
            continue
        lookup = _codes_of_texts(space.classes[column.label])
        for i, text in enumerate(texts):
            if text is None:
                continue
            code = lookup.get(text.lower())
            if code is None:
                values = ", ".join(map(str, space.classes[column.label][:6]))
                raise TableError(
                    f"{place(i)}: the column {column.name!r} says {text!r}, but the label "
                    f"{space.names[column.label]!r} has the values {values}."
                )
            codes[i, column.label] = code
    return codes


def _put_tags(
    codes: Codes,
    texts: NDArray[np.object_],
    name: str,
    space: LabelSpace,
    separator: str,
    place: Callable[[int], str],
) -> None:
    position = {label: i for i, label in enumerate(space.names)}
    for i, text in enumerate(texts):
        for tag in split_tags(text, separator):
            label = position.get(tag)
            value = 1
            if label is None and tag.startswith("!"):
                label, value = position.get(tag[1:].strip()), 0
            if label is None:
                raise TableError(
                    f"{place(i)}: the column {name!r} says {tag!r}, which is none of the "
                    f"model's {space.n_labels} labels."
                )
            codes[i, label] = value


def _codes_of_texts(classes: NDArray[Any]) -> dict[str, int]:
    """Texts that stand for the values of a label, in lower case."""
    lookup: dict[str, int] = {}
    for code, value in enumerate(classes.tolist()):
        lookup[str(value).lower()] = code
        if isinstance(value, bool | int | float) and float(value).is_integer():
            lookup[str(int(value))] = lookup[f"{float(value):.1f}"] = code
    if set(lookup) & {"0", "1"} and len(classes) == 2:
        for pair in ABSENT_PRESENT:
            for number, word in enumerate(pair):
                if str(number) in lookup:
                    lookup.setdefault(word, lookup[str(number)])
    return lookup


def require_sets(model: TableModel, coverage: float, given: Any) -> None:
    """Refuse to promise what the model, or the question, does not allow."""
    if not isinstance(model.model, ConformalSets):
        raise TableError(
            "A coverage can only be promised by a model that has held rows out: fit it with "
            "colabel fit --conformal."
        )
    if given:
        raise TableError(
            "A coverage was measured on rows of which no label was known: leave either --coverage "
            "or --given away."
        )
    if not 0 < coverage < 1:
        raise TableError(f"The coverage is {coverage:g}: give a probability, such as 0.9.")


def coverage_header(space: LabelSpace) -> list[str]:
    """Return the names of the columns that `coverage_columns` gives."""
    return ["n_sets", "sets", "sets_listed", *(f"sure_{name}" for name in space.names)]


def coverage_columns(
    model: TableModel, frame: Frame, coverage: float, write: Callable[[list[int]], str]
) -> list[list[str]]:
    """Return the columns for the rows of a frame, as texts.

    - n_sets: how many label sets are listed; sets: these, joined by " | ";
    - sets_listed: "all", or "not listed within K" where the set has more than could be listed, so
      that the true one is in the set, but perhaps not in the list;
    - sure_<label>: yes, no or unsure; in a row, all that are not unsure are right with the
      probability asked for.
    """
    X = model.preprocessor.transform(frame)
    sets: LabelSets = model.model.predict_sets(X, coverage)
    written = [write(codes) for codes in sets.codes.tolist()]
    ends = sets.sizes.cumsum().tolist()
    starts = [0, *ends[:-1]] if ends else []
    beyond = f"not listed within {sets.max_listed}"
    words = model.model.predict_labels(X, coverage)
    return [
        [str(size) for size in sets.sizes.tolist()],
        [" | ".join(written[first:last]) for first, last in zip(starts, ends, strict=True)],
        [beyond if cut else "all" for cut in sets.cut.tolist()],
        *words.T.tolist(),
    ]
