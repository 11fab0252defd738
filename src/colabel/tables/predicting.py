"""Predictions, and the labels to ask for, for a table of any length in chunks of rows.

CSV files hold numbers of six digits, Parquet files the numbers unchanged. A spreadsheet would run a
text as a formula if it begins with =, +, -, @ or a tab and is not a number. In CSV files such texts
and names of columns get an apostrophe in front, by which a spreadsheet recognises text.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from colabel.core.arrays import Array, Codes
from colabel.core.files import check_not_input, written_whole
from colabel.core.threads import one_blas_thread
from colabel.decide import LabelSets, RiskMinimiser, next_question, resolve_decision
from colabel.decide.questions import LOSSES
from colabel.joint import Joint
from colabel.joint.base import named_set
from colabel.joint.user_terms import ImpossibleEvidenceError
from colabel.labels import MISSING, LabelSpace
from colabel.labels.columns import ABSENT_PRESENT
from colabel.models.around import ConformalSets
from colabel.models.wrapped import model_inside
from colabel.tables.model import TableModel
from colabel.tables.reading import read_chunks
from colabel.tables.source import Frame, Source, Storage, TableError, as_numbers, state_of
from colabel.tables.table_labels import expanded, match_columns, split_tags

_NO_LABEL = "no label"
ENDINGS = (".csv", ".csv.gz", ".parquet")
_RECORD = ".colabel-predict.json"
_FORMULA = r"^[=+\-@\t]"


@dataclass(frozen=True)
class PredictionRequest:
    """What to predict for each row.

    Attributes
    ----------
    decision : str, optional
        Loss that the predicted labels minimise, see `decide`; by default that of the model.
    probabilities : bool
        Whether to give the probability of each label alone.
    top_k : int
        Number of label sets to return with their joint probabilities.
    given : sequence of str
        Names, globs, @lists of columns with known labels. A column named like a label holds its
        values, and so does a column such as known_red, which the pattern "known_*" matches with a
        label in place of "*". Any other column holds tags that are known to be present or, with a
        "!" before them, absent.
    keep : sequence of str
        Columns to copy.
    coverage : float, optional
        Probability with which the listed label sets of a row contain the true one; only for models
        fitted with held-out rows.
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

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from colabel.tables import TableRequest, load_table, make_model, open_table
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = pathlib.Path(folder.name) / "toy.csv"
    >>> _ = file.write_text("size,a,b\n" + "1,0,1\n2,1,1\n5,1,0\n" * 10)
    >>> data = load_table(TableRequest(file, ["a", "b"]))
    >>> estimator = make_model("ctbn", seed=0, settings={"C": 1.0})
    >>> model = TableModel.fit(estimator, data.features, data.choice, data.labels)
    >>> predictor = Predictor(model, open_table(file), PredictionRequest(probabilities=False))
    >>> next(predictor.answers(n_rows=2)).to_pydict()
    {'row': [1, 2], 'a': [0, 1], 'b': [1, 1]}
    >>> folder.cleanup()
    """

    def __init__(
        self,
        model: TableModel,
        source: Source,
        request: PredictionRequest = PredictionRequest(),  # noqa: B008
    ) -> None:
        self.model, self.source, self.request = model, source, request
        asked = request.decision
        self.rule = resolve_decision(asked) if asked else model_inside(model.model).decision_rule()
        self._known = self._find_known(model.space) if request.given else {}
        clash = [name for name in self._known if name in model.storage]
        if clash:
            raise TableError(f"The column {clash[0]!r} is a feature of the model, not a label.")
        self._keep: tuple[str, ...] = ()
        if request.keep:
            self._keep = match_columns(request.keep, source.names, "column to keep")
            labels = model.label_source
            own = labels.columns if labels.separator else model.label_names_
            taken = sorted({"row", *own} & set(self._keep))
            if taken:
                raise TableError(
                    f"The column {taken[0]!r} cannot be kept beside the predictions, for they have "
                    "one of the same name: rename it."
                )
        if request.top_k < 0:
            raise TableError(f"top_k is {request.top_k}: give the number of label sets, 1 or more.")
        if request.coverage is not None:
            if not isinstance(model.model, ConformalSets):
                raise TableError(
                    "A coverage can only be promised by a model that has held rows out: fit it "
                    "with colabel fit --conformal."
                )
            if request.given:
                raise TableError(
                    "A coverage was measured on rows of which no label was known: leave either "
                    "--coverage or --given away."
                )
            if not 0 < request.coverage < 1:
                raise TableError(
                    f"The coverage is {request.coverage:g}: give a probability, such as 0.9."
                )

    def answers(self, n_rows: int | None = None) -> Iterator[pa.Table]:
        """Yield the answers in chunks of rows.

        Their columns are the number of the row (from 1), the kept columns, the labels (or the
        column of tags, if they were learned from one), p_<label> (or p_<label>=<value>), and
        set_1, p_set_1, set_2, ...; with a coverage also

        - n_sets: number of listed label sets; sets: these sets, joined by " | ";
        - sets_listed: "all", or "not listed within K" if there are more sets than the limit, so
          that the true one may be missing from the list;
        - sure_<label>: yes, no or unsure; with the given probability, all labels of a row that are
          not unsure are right.
        """
        start = 1
        for frame in self.frames(n_rows):
            with one_blas_thread:  # the products of a chunk are too small for several threads
                answers = self._answers(frame, start)
            yield answers
            start += frame.n_rows

    def frames(self, n_rows: int | None = None) -> Iterator[Frame]:
        """Yield the rows in chunks, with the columns that the answers need."""
        storage: dict[str, Storage] = dict.fromkeys((*self._known, *self._keep), "text")
        yield from read_chunks(self.source, {**storage, **self.model.storage}, n_rows)

    def numbered(self, frame: Frame, start: int) -> dict[str, Any]:
        """Return the numbers of the rows, and the kept columns."""
        rows = np.arange(start, start + frame.n_rows)
        return {"row": rows, **{name: frame.texts[name] for name in self._keep}}

    def joint(self, frame: Frame, first_row: int = 1) -> Joint:
        """Return the joint of the rows of a frame, given the labels known in it."""
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
        """Return the codes (n, d) of the labels known in a frame, -1 where unknown."""
        space = self.model.space
        out = np.full((frame.n_rows, space.n_labels), MISSING, dtype=np.int32)
        position = {name: i for i, name in enumerate(space.names)}
        separator = self.model.label_source.separator or ";"
        for name, label in self._known.items():
            texts, places = frame.coded(name)
            lookup = {} if label is None else _codes_of_texts(space.classes[label])
            of_texts = np.full((len(texts) + 1, space.n_labels), MISSING, dtype=np.int32)
            used, first = np.unique(places, return_index=True)
            for k, i in zip(used.tolist(), first.tolist(), strict=True):
                where = f"{self.source.path}, row {first_row + i}: the column {name!r} says"
                if k < 0:
                    continue
                if label is not None:
                    if texts[k].lower() not in lookup:
                        values = ", ".join(map(str, space.classes[label][:6]))
                        raise TableError(
                            f"{where} {texts[k]!r}, but the label {space.names[label]!r} has the "
                            f"values {values}."
                        )
                    of_texts[k, label] = lookup[texts[k].lower()]
                    continue
                for tag in split_tags(texts[k], separator):
                    is_known = tag in position or not tag.startswith("!")
                    own = tag if is_known else tag[1:].strip()
                    if own not in position:
                        raise TableError(
                            f"{where} {tag!r}, which is none of the model's {space.n_labels} "
                            "labels."
                        )
                    of_texts[k, position[own]] = is_known
            told = of_texts[places]
            out = np.where(told == MISSING, out, told)
        return out

    def _find_known(self, space: LabelSpace) -> dict[str, int | None]:
        """Return the columns with known values, and the label of each; None for tags."""
        known: dict[str, int | None] = {}
        for pattern in expanded(self.request.given):
            before, star, after = pattern.partition("*")
            for name in match_columns([pattern], self.source.names, "known labels"):
                label = name
                if name not in space.names and star and "*" not in after:
                    label = name.removeprefix(before).removesuffix(after)
                known[name] = space.names.index(label) if label in space.names else None
                if known[name] is None and not space.is_indicator:
                    raise TableError(
                        f"The column {name!r} is named like no label, and only 0/1 labels can be "
                        "given as tags: name it like the label whose values it holds."
                    )
        return known

    def _answers(self, frame: Frame, start: int) -> pa.Table:
        joint = self.joint(frame, start)
        space, source = joint.space, self.model.label_source
        columns = self.numbered(frame, start)
        decided = self.rule.codes(joint)
        texts = [[str(value) for value in classes.tolist()] for classes in space.classes]
        if source.separator:
            vectors, which = np.unique(decided, axis=0, return_inverse=True)
            names = np.array(space.names, dtype=object)
            tags = [source.written(names[row > 0].tolist()) for row in vectors]
            columns[source.columns[0]] = coded_texts(tags, which.reshape(-1))
        else:
            for name, own, classes, codes in zip(
                space.names, texts, space.classes, decided.T, strict=True
            ):
                is_whole = classes.dtype.kind in "iu"
                columns[name] = classes[codes] if is_whole else coded_texts(own, codes)
        if self.request.probabilities:
            tables = joint.marginal_tables()
            for name, own, table in zip(space.names, texts, tables, strict=True):
                if space.is_indicator:
                    columns[f"p_{name}"] = table[:, 1]
                else:
                    columns |= {f"p_{name}={v}": p for v, p in zip(own, table.T, strict=True)}

        def written(vectors: Codes) -> list[str]:
            return [source.written(named_set(v, space)) or _NO_LABEL for v in vectors.tolist()]

        n_sets = 1
        for size in space.cardinalities:
            n_sets = min(n_sets * size, self.request.top_k)
        if n_sets:
            best, log_prob = joint.top_k_codes(n_sets)
            for k in range(n_sets):
                columns[f"set_{k + 1}"] = written(best[:, k])
                columns[f"p_set_{k + 1}"] = np.exp(log_prob[:, k])
        if self.request.coverage is not None:
            X = self.model.preprocessor.transform(frame)
            sets: LabelSets = self.model.model.predict_sets(X, self.request.coverage)
            listed, ends = written(sets.codes), sets.sizes.cumsum()
            columns["n_sets"] = sets.sizes
            columns["sets"] = [
                " | ".join(listed[end - size : end])
                for size, end in zip(sets.sizes.tolist(), ends.tolist(), strict=True)
            ]
            beyond = f"not listed within {sets.max_listed}"
            columns["sets_listed"] = [beyond if cut else "all" for cut in sets.cut.tolist()]
            words = self.model.model.predict_labels(X, self.request.coverage)
            pairs = zip(space.names, words.T.tolist(), strict=True)
            columns |= {f"sure_{name}": own for name, own in pairs}
        return pa.table(columns)


def coded_texts(values: Sequence[str], codes: Any) -> pa.DictionaryArray:
    """Return a column of texts from distinct values and the code of each row."""
    return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(values, "string"))


def _codes_of_texts(classes: Any) -> dict[str, int]:
    """Return the codes of texts, in lower case, that mean a value of a label."""
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


class Asker(Predictor):
    r"""A model that finds, for each row of a source, the label whose value would help most.

    The values in the label columns of the training table, and in the columns `given`, are known.
    The columns of the answers are the number of the row (from 1), the kept columns, the expected
    loss, and ask_1, gain_1, ask_2, ...: the labels, and by how much the loss would decrease if the
    value of each were known. No label is named if all are known.

    Parameters
    ----------
    model : TableModel
    source : what `open_table` returned
    loss : str, optional
        See `next_question`; by default the loss that the predictions of the model minimise.
    n_questions : int
        Number of labels to name.
    given, keep : sequence of str
        Columns with known labels, and columns to copy; see `PredictionRequest`.

    Attributes
    ----------
    n_open : int
        Number of rows so far with an unknown label.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from colabel.tables import TableRequest, load_table, make_model, open_table
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = pathlib.Path(folder.name) / "toy.csv"
    >>> _ = file.write_text("size,a,b\n" + "1,0,1\n2,1,1\n5,1,0\n" * 10)
    >>> data = load_table(TableRequest(file, ["a", "b"]))
    >>> estimator = make_model("ctbn", seed=0, settings={"C": 1.0})
    >>> model = TableModel.fit(estimator, data.features, data.choice, data.labels)
    >>> new = pathlib.Path(folder.name) / "new.csv"
    >>> _ = new.write_text("size,a,b\n3,,\n3,1,\n3,1,0\n")
    >>> answers = next(Asker(model, open_table(new)).answers())
    >>> answers.column_names
    ['row', 'expected_loss', 'ask_1', 'gain_1']
    >>> answers["ask_1"].to_pylist()
    ['b', 'b', '']
    >>> folder.cleanup()
    """

    def __init__(
        self,
        model: TableModel,
        source: Source,
        loss: str | None = None,
        n_questions: int = 1,
        given: Sequence[str] = (),
        keep: Sequence[str] = (),
    ) -> None:
        if loss is not None and loss not in LOSSES:
            raise TableError(f"There is no loss {loss!r}: choose from {', '.join(LOSSES)}.")
        own = model_inside(model.model).decision_rule()
        self.loss = loss or (own if isinstance(own, RiskMinimiser) else "subset")
        known = [name for name in model.label_source.columns if name in source.names]
        super().__init__(model, source, PredictionRequest(given=[*known, *given], keep=keep))
        self.n_open = 0
        self.n_questions = min(n_questions, model.space.n_labels)

    def _answers(self, frame: Frame, start: int) -> pa.Table:
        question = next_question(self.joint(frame, start), self.loss)
        rows = np.arange(frame.n_rows)
        self.n_open += int(question.is_open.any(axis=1).sum())
        columns = self.numbered(frame, start)
        columns["expected_loss"] = question.risk
        for k, label in enumerate(question.order[:, : self.n_questions].T, start=1):
            is_open = question.is_open[rows, label]
            # the code after the last name means no label
            named = np.where(is_open, label, len(question.space.names))
            columns[f"ask_{k}"] = coded_texts([*question.space.names, ""], named)
            columns[f"gain_{k}"] = np.where(is_open, question.gain[rows, label], np.nan)
        return pa.table(columns)


def texts_of(answers: pa.Table) -> list[tuple[str, ...]]:
    """Return the rows of answers as texts, numbers with six digits.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from colabel.tables.predicting import texts_of
    >>> texts_of(pa.table({"row": [1, 2], "colour": ["=blue", None], "p": [1 / 3, 1.0]}))
    [('1', '=blue', '0.333333'), ('2', '', '1')]
    """
    columns = _as_written(answers, safe=False).columns
    return list(zip(*(c.cast("string").fill_null("").to_pylist() for c in columns), strict=True))


def csv_of(answers: pa.Table, *, safe: bool = True, header: bool = False) -> bytes:
    """Return answers as lines of a CSV file, in UTF-8; with `safe`, no text is a formula.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from colabel.tables.predicting import csv_of
    >>> print(csv_of(pa.table({"colour": ["=blue", "red"], "p": [1 / 3, 1.0]})).decode(), end="")
    '=blue,0.333333
    red,1
    """
    table = _as_written(answers, safe=safe)
    names_line = b""
    if header:
        names = _harmless(pa.array(answers.column_names), safe=safe).to_pylist()
        names_line = csv_of(pa.table({str(k): [name] for k, name in enumerate(names)}), safe=False)
    for style in ("none", "needed"):  # if one text needs quotes, all texts get them
        lines = pa.BufferOutputStream()
        options = arrow_csv.WriteOptions(include_header=False, quoting_style=style)
        try:
            arrow_csv.write_csv(table, lines, options)
            break
        except pa.ArrowInvalid:
            continue
    return names_line + bytes(lines.getvalue())


def _as_written(answers: pa.Table, *, safe: bool) -> pa.Table:
    columns = {}
    for name, column in zip(answers.column_names, answers.columns, strict=True):
        kind = column.type
        if pa.types.is_floating(kind):
            column = pa.array(_six_digits(column.to_numpy()), from_pandas=True)
        elif pa.types.is_dictionary(kind):
            column = column.combine_chunks()
            values = _harmless(column.dictionary, safe=safe)
            column = pa.DictionaryArray.from_arrays(column.indices, values).cast("string")
        elif pa.types.is_string(kind):
            column = _harmless(column, safe=safe)
        columns[name] = column
    return pa.table(columns)


def _harmless(texts: Any, *, safe: bool) -> Any:
    """Put an apostrophe before texts that are formulas."""
    formula = pc.match_substring_regex(texts, _FORMULA)
    if not safe or not pc.any(formula).as_py():
        return texts
    is_number = pa.array(~as_numbers(pc.fill_null(texts, ""), [])[1])
    marked = pc.binary_join_element_wise("'", texts, "")
    return pc.if_else(pc.and_not(formula, is_number), marked, texts)


def _six_digits(values: Array) -> Array:
    """Round numbers to six digits: to the double that is next to the decimal number."""
    size = np.abs(values)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        shift = np.clip(5 - np.floor(np.log10(size)), -22, 22)
        # powers of ten up to the 22nd are exact, and so is the whole number between them
        up, down = 10.0 ** np.maximum(shift, 0), 10.0 ** np.maximum(-shift, 0)
        rounded = np.rint(values * up / down) / up * down
    plain = (size > 1e-16) & (size < 1e16)
    return np.where(plain, rounded, values)


def check_ending(file: Path) -> None:
    """Refuse a file name with an ending that cannot be written."""
    if not file.name.endswith(ENDINGS):
        raise TableError(
            f"{file} is neither .csv nor .csv.gz nor .parquet, the formats of answers: rename it."
        )


@contextmanager
def answers_written(
    file: Path | None, *, safe: bool = True
) -> Iterator[Callable[[pa.Table], None]]:
    """Yield a function that writes answers to a file, or (None) to standard output.

    Without answers nothing is written, not even the names of the columns. With `safe`, no cell of a
    CSV file is a formula.
    """
    is_parquet = file is not None and file.suffix == ".parquet"
    is_first = True
    with ExitStack() as stack:
        sink: Any = None
        if file is not None:
            part = stack.enter_context(written_whole(file))
            if file.suffix == ".gz":
                sink = stack.enter_context(gzip.open(part, "wb"))
            elif not is_parquet:
                sink = stack.enter_context(part.open("wb"))

        def write(answers: pa.Table) -> None:
            nonlocal sink, is_first
            if is_parquet:
                import pyarrow.parquet as parquet

                coded = [f.name for f in answers.schema if pa.types.is_dictionary(f.type)]
                fields = [
                    f.with_type(pa.string()) if f.name in coded else f for f in answers.schema
                ]
                if is_first:
                    # a dictionary of probabilities or numbers of rows would cost time
                    schema = pa.schema(fields)
                    writer = parquet.ParquetWriter(part, schema, use_dictionary=coded)
                    sink = stack.enter_context(writer)
                sink.write_table(answers.cast(pa.schema(fields)))
            else:
                lines = csv_of(answers, safe=safe, header=is_first)
                _ = sys.stdout.write(lines.decode()) if sink is None else sink.write(lines)
            is_first = False

        yield write
    if file is None:
        sys.stdout.flush()


@dataclass(frozen=True)
class AnswerFolder:
    """A folder with one file of answers for each part of a table.

    A record in it stores the request and the state of each answered part, so that finished parts
    are not answered again.

    Attributes
    ----------
    folder : Path
    request : str
        A digest of the model and of the request.
    """

    folder: Path
    request: str

    @classmethod
    def open(cls, folder: Path, model: Path, asked: Mapping[str, Any]) -> AnswerFolder:
        """Make the folder if it does not exist."""
        if folder.exists() and not folder.is_dir():
            raise TableError(f"{folder} is a file: several tables are answered into a folder.")
        folder.mkdir(exist_ok=True)
        digest = hashlib.sha256(model.read_bytes())
        digest.update(json.dumps(asked, sort_keys=True).encode())
        return cls(folder, digest.hexdigest())

    def targets(self, parts: Sequence[Path]) -> list[Path]:
        """Return the file of the answers to each part: Parquet for Parquet, CSV for others."""
        targets: dict[Path, Path] = {}
        for part in parts:
            is_parquet = part.suffix.lower() in (".parquet", ".pq")
            name = part.name.split(".")[0] + (".parquet" if is_parquet else ".csv")
            other = targets.setdefault(self.folder / name, part)
            if other != part:
                raise TableError(
                    f"{other} and {part} would both be answered to {self.folder / name}: rename "
                    "one, or give them folders of their own."
                )
        for target in targets:
            check_not_input(target, *parts)
        return list(targets)

    def is_finished(self, part: Path, target: Path) -> bool:
        """Return whether the answers to the present state of a part exist."""
        return target.exists() and self._finished().get(target.name) == [*state_of(part)]

    def finish(self, part: Path, target: Path) -> None:
        """Record that a part is answered."""
        record = {
            "request": self.request,
            "parts": self._finished() | {target.name: state_of(part)},
        }
        with written_whole(self.folder / _RECORD) as file:
            file.write_text(json.dumps(record), encoding="utf-8")

    def _finished(self) -> dict[str, Any]:
        try:
            record = json.loads((self.folder / _RECORD).read_text(encoding="utf-8"))
            parts = record["parts"] if record["request"] == self.request else {}
        except (OSError, ValueError, LookupError, TypeError):
            return {}
        return parts if isinstance(parts, dict) else {}
