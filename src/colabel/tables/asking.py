"""Which label of each row of a table to check first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from colabel.decide import DECISIONS, RiskMinimiser, next_question
from colabel.models.wrapped import model_inside
from colabel.tables.answers import AnswerColumn, Answers, coded_texts
from colabel.tables.model import TableModel
from colabel.tables.predicting import PredictionRequest, Predictor
from colabel.tables.source import Source
from colabel.tables.text import TableError


class Asker:
    r"""A model, applied to the rows of a source to find the label whose value would help most.

    Labels that the table knows already, in the columns where the training table had its labels and
    in those named by `given`, are taken as known.

    Parameters
    ----------
    model : TableModel
    source : what `open_table` returned
    loss : str, optional
        See `next_question`; by default what the model's predictions minimise.
    n_questions : int
        How many labels to name.
    given, keep : sequence of str
        Columns of labels that are known, and to copy; see `PredictionRequest`.

    Attributes
    ----------
    header : list of str
        Names of the columns of the answer: the row's number (from 1), the columns that are kept,
        the expected loss as things are, and ask_1, gain_1, ask_2, ...: the labels, and what of the
        loss each would remove if its value were known. No label is named where all are known.
    n_open : int
        Of how many rows so far some label is unknown.

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
    >>> new = pathlib.Path(folder.name) / "new.csv"
    >>> _ = new.write_text("size,a,b\n3,,\n3,1,\n3,1,0\n")
    >>> asker = Asker(model, open_table(new))
    >>> asker.header
    ['row', 'expected_loss', 'ask_1', 'gain_1']
    >>> [(row[0], row[2]) for row in next(asker.chunks())]
    [('1', 'b'), ('2', 'b'), ('3', '')]
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
        losses = (*DECISIONS, "log")
        if loss is not None and loss not in losses:
            raise TableError(f"There is no loss {loss!r}: choose from {', '.join(losses)}.")
        own = model_inside(model.model).decision_rule()
        self.loss = loss or (own if isinstance(own, RiskMinimiser) else "subset")
        known = [name for name in model.label_source.columns if name in source.names]
        request = PredictionRequest(given=[*known, *given], keep=keep)
        self.predictor = Predictor(model, source, request)
        self.n_open = 0
        self.n_questions = min(n_questions, model.space.n_labels)
        places = range(1, self.n_questions + 1)
        self.header = [
            "row",
            *self.predictor.kept,
            "expected_loss",
            *(name for place in places for name in (f"ask_{place}", f"gain_{place}")),
        ]

    def answers(self, n_rows: int | None = None) -> Iterator[Answers]:
        """Give the answers as columns, a chunk of rows at a time."""
        start = 1
        for frame in self.predictor.frames(n_rows):
            found = next_question(self.predictor.joint(frame, start), self.loss)
            rows = np.arange(frame.n_rows)
            self.n_open += int(found.is_open.any(axis=1).sum())
            columns: list[AnswerColumn | list[str]] = [start + rows]
            columns += self.predictor.kept_texts(frame)
            columns.append(found.risk)
            for label in found.order[:, : self.n_questions].T:
                is_open = found.is_open[rows, label]
                # the place after the last name is that of no label
                named = np.where(is_open, label, len(found.space.names))
                columns.append(coded_texts([*found.space.names, ""], named))
                columns.append(np.where(is_open, found.gain[rows, label], np.nan))
            yield Answers.of(self.header, columns)
            start += frame.n_rows

    def chunks(self, n_rows: int | None = None) -> Iterator[list[tuple[str, ...]]]:
        """Give the answers as rows of texts, a chunk of rows at a time."""
        for answers in self.answers(n_rows):
            yield answers.rows()
