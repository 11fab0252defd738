"""TableModel: a model that takes a user's table as it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from sklearn.base import ClassifierMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from colabel.core.schema import Dims, Estimator, Fields, refuse_unless, stored
from colabel.models.evidence.evidence import evidence_of_row
from colabel.models.wrapped import fit_arguments, joint_of, model_inside, title_of
from colabel.tables.columns import Column, ColumnChoice
from colabel.tables.frame import Frame
from colabel.tables.preprocessing import Preprocessor, terms_of_row
from colabel.tables.source import TableError
from colabel.tables.table_labels import Labels, LabelSource

if TYPE_CHECKING:
    from colabel.joint import Joint
    from colabel.labels import LabelSpace
    from colabel.models.evidence.record import FeatureEvidence
    from colabel.models.label_graph import LabelGraph
    from colabel.tables.streaming import PreparedTable


@stored("table-model")
@dataclass(eq=False, repr=False)
class TableModel:
    """Columns, their preprocessing, and a fitted model of the labels.

    Attributes
    ----------
    columns : tuple of Column
        The feature columns of the table.
    preprocessor : Preprocessor
    model : fitted estimator of colabel, or a pipeline that ends in one
    label_source : LabelSource
        Where the labels stood in the training table.
    n_rows : int
        Rows it was fitted to.

    Examples
    --------
    >>> from colabel import CTBN
    >>> from colabel.tables import Frame, TableModel, choose_columns, read_labels
    >>> frame = Frame.of({"size": [1, 5, 2, 6] * 5, "tags": ["a", "a;b", "a", "b"] * 5})
    >>> features = frame.without(["tags"])
    >>> model = TableModel.fit(
    ...     CTBN(C=1.0, random_state=0), features, choose_columns(features),
    ...     read_labels(frame, ["tags"]))
    >>> model
    TableModel(CTBN: 1 column, 2 labels, fitted to 20 rows)
    >>> model.joint(features.rows(slice(0, 1))).mode()
    array([[1, 0]])
    """

    columns: tuple[Column, ...]
    preprocessor: Annotated[Preprocessor, "p"]
    model: Annotated[Any, "p", Estimator(does="predict")]
    label_source: LabelSource
    n_rows: int

    @staticmethod
    def _check_stored(fields: Fields, dims: Dims) -> None:
        own, theirs = (
            [column.fields for column in columns]
            for columns in (fields["columns"], fields["preprocessor"].fields["columns"])
        )
        refuse_unless(own == theirs, "its columns are not those of its preprocessor")

    @classmethod
    def fit(
        cls, model: Any, frame: Frame, choice: ColumnChoice, labels: Labels, weight: Any = None
    ) -> TableModel:
        """Learn the preprocessing and a clone of the model from the rows of a frame."""
        preprocessor = Preprocessor(choice.used).fit(frame)
        fresh = clone(model)
        if preprocessor.is_sparse_:
            _refuse_dense_estimator(fresh)
        arguments = fit_arguments(fresh, labels.names, weight)
        fitted = fresh.fit(preprocessor.transform(frame), labels.Y, **arguments)
        return cls(choice.used, preprocessor, fitted, labels.source, frame.n_rows)

    @classmethod
    def fit_parts(cls, model: Any, table: PreparedTable) -> TableModel:
        """Learn a clone of the model from a table in parts (`prepare_parts`), by Dask."""
        X, Y = table.dask_arrays()
        fresh = clone(model)
        fitted = fresh.fit(X, Y, **fit_arguments(fresh, table.labels.space.names))
        return cls(table.choice.used, table.preprocessor, fitted, table.labels.source, table.n_rows)

    @property
    def space(self) -> LabelSpace:
        """Names and values of the labels."""
        inner = model_inside(self.model)
        check_is_fitted(inner)
        space: LabelSpace = inner.label_space_
        return space

    @property
    def label_names_(self) -> tuple[str, ...]:
        """Names of the labels."""
        return self.space.names

    @property
    def storage(self) -> Mapping[str, Literal["number", "text"]]:
        """The columns it needs, and how each is read from a file."""
        return {column.name: column.storage for column in self.columns}

    def joint(self, frame: Any) -> Joint:
        """Return the joint distribution of the labels for each row of a frame."""
        joint = joint_of(self.model, self.preprocessor.transform(Frame.of(frame)))
        return joint.with_index(frame.index if hasattr(frame, "iloc") else None)

    def predict(self, frame: Any) -> Any:
        """Predict the labels of each row of a frame, (n, d)."""
        return np.asarray(self.model.predict(self.preprocessor.transform(Frame.of(frame))))

    def predict_proba(self, frame: Any) -> Any:
        """Probability of each label alone."""
        return self.model.predict_proba(self.preprocessor.transform(Frame.of(frame)))

    def feature_evidence(
        self, frame: Any, row: int = 0, *, background: Any = None, **options: Any
    ) -> FeatureEvidence:
        """Say which columns, words and other labels speak for and against each label of a row.

        Parameters
        ----------
        frame : Frame, data frame or mapping of names to columns
        row : int
            The row of it to explain.
        background : rows like those of `frame`, optional
            What the row is compared with; by default `frame`.
        **options
            Those of `colabel.feature_evidence`.
        """
        table = Frame.of(frame)
        if not -table.n_rows <= row < table.n_rows:
            raise TableError(
                f"row={row!r} is not there: the table has {table.n_rows} rows, from 0."
            )
        own = table.rows(np.array([row % table.n_rows]))
        x = self.preprocessor.transform(own)
        other = table if background is None else Frame.of(background)
        return evidence_of_row(
            self.model,
            x,
            self.preprocessor.transform(other),
            terms_of_row(self.preprocessor, own, x),
            **options,
        )

    def label_graph(self) -> LabelGraph:
        """Return which label depends on which."""
        graph: LabelGraph = model_inside(self.model).label_graph()
        return graph

    def __repr__(self) -> str:
        def counted(n: int, what: str) -> str:
            return f"{n} {what}{'s' * (n != 1)}"

        return (
            f"TableModel({title_of(self.model)}: {counted(len(self.columns), 'column')}, "
            f"{counted(len(self.label_names_), 'label')}, fitted to "
            f"{counted(self.n_rows, 'row')})"
        )


def _refuse_dense_estimator(model: Any) -> None:
    """Refuse a model whose `estimator` does not take sparse features."""
    base = getattr(model_inside(model), "estimator", None)
    if isinstance(base, ClassifierMixin) and not get_tags(base).input_tags.sparse:
        raise TableError(
            f"{type(base).__name__} takes no sparse features, which columns of text and of many "
            "categories become: leave such columns out (--drop), or choose an estimator that does,"
            " such as forest or nb."
        )
