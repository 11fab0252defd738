"""What the estimators of the library share: labels in, a Joint out, decisions on it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags, check_random_state, get_tags
from sklearn.utils.validation import check_is_fitted, validate_data

from colabel.core import parameters
from colabel.core.arrays import Array, Codes, is_dask, one_entry_each
from colabel.core.estimators import Parameters, attribute, unfitted_copy
from colabel.core.lazy import require
from colabel.core.progress import row_counter
from colabel.core.schema import CODES, NOT_EMPTY, SOMETIMES, Between, Is
from colabel.core.warning import warn
from colabel.decide import Decision, Seen
from colabel.decide.decisions import resolve_decision
from colabel.joint import Independent, Joint
from colabel.labels import MISSING, LabelSpace
from colabel.labels.columns import says_presence
from colabel.learn.chunks import chunked_data
from colabel.learn.conditional import TrainingData
from colabel.learn.pool import joined_vectors, seen_vectors
from colabel.models.cross_fitting import learn_calibration, uncalibrated
from colabel.models.label_graph import LabelGraph
from colabel.models.lazy import LazyJoint, check_takes_chunks, is_short, lazy_rows, row_chunks
from colabel.models.learning import CompletedData, layered, positive_only, unlabelled_positives

if TYPE_CHECKING:
    from colabel.models.cross_fitting import Calibration

_CONTAINERS = ("default", "pandas", "polars")


def _index(X: Any) -> Any:
    return X.index if hasattr(X, "iloc") else None


_MOST = 30


def labels_html(model: Any) -> str:
    """Return a list of the labels of a fitted model; nothing if it is not fitted."""
    space = getattr(model, "label_space_", None)
    if not isinstance(space, LabelSpace):
        return ""
    notes = model.label_notes()
    items = []
    for i, name in enumerate(space.names[:_MOST]):
        values = "" if space.is_indicator else f" [{len(space.classes[i])} values]"
        items.append(f"<li>{escape(name)}{values}{escape(notes.get(i, ''))}</li>")
    if space.n_labels > _MOST:
        items.append(f"<li>and {space.n_labels - _MOST} more</li>")
    what = "labels" if space.is_indicator else "class variables"
    return (
        f"<details><summary>{space.n_labels} {what} learned by {escape(type(model).__name__)}"
        f"</summary><ul>{''.join(items)}</ul></details>"
    )


@dataclass(frozen=True)
class LinearLogOdds:
    r"""Log-odds of every label given the others, for labels of two values.

    .. math:: \log \frac{P(y_i = 1 \mid x, y_{-i})}{P(y_i = 0 \mid x, y_{-i})}
        = b_i + w_i \cdot x + \sum_j u_{ij}(x) \, (y_j - o_j)

    with b and w taken where the other labels are at a point of reference o, which may lie between
    their values.

    Attributes
    ----------
    coef : (d, p)
        w, for the others at the point of reference.
    intercept : (d,)
        b, likewise.
    weights : (d, d)
        u at one row x; the diagonal is zero.
    """

    coef: Array
    intercept: Array
    weights: Array


class LabelClassifier(Parameters, ClassifierMixin, BaseEstimator):
    """Base of all estimators, probabilistic or not: any labels in, the same kind of labels out.

    A subclass implements `_learn(data)`, which sets the fitted attributes, and `_codes(X)`. It may
    say by what short name the command line knows it, and which label depends on which.

    Parameters
    ----------
    n_jobs : int or None
        Number of threads (None: all cores). The answer does not depend on it.
    random_state : int, RandomState or None
        Seed of everything that is random.
    verbose : int
        Whether to show progress.

    Attributes
    ----------
    label_space_ : LabelSpace
        Names and values of the labels.
    classes_ : array (d, 2), or list of arrays, or array for one-dimensional y
        Values of every label variable; the first where all have two.
    label_names_ : tuple of str
    n_features_in_ : int
    feature_names_in_ : array of str
        Only where X had string column names.
    """

    # what every fitted model holds: d labels of some sizes, p features
    label_space_: Annotated[LabelSpace, "d sizes"] = attribute()
    label_names_: Annotated[tuple[str, ...], "d"] = attribute()
    classes_: Any = attribute()
    n_features_in_: Annotated[int, Between(1), Is("p")] = attribute()
    feature_names_in_: Annotated[NDArray[Any] | None, "p"] = attribute()
    n_iter_: Annotated[int, SOMETIMES] = attribute()
    C_: Annotated[Array, "d", Between(0.0), SOMETIMES] = attribute()
    n_jobs: Annotated[int | None, Between(-1024, 1024)] = None
    random_state: Any = None
    verbose: int | bool = 0

    short_name: ClassVar[str] = ""
    """What a user may type instead of the name of the class."""

    fits_chunks: ClassVar[bool] = False
    """Whether `_learn` takes rows in chunks (`ChunkedData`), which is what Dask arrays become."""

    samples_chunks: ClassVar[bool] = False
    """Whether a sample of such rows is taken, and learned from in memory."""

    unlabelled_rows: ClassVar[str] = "nothing is learned from them"
    """What becomes of rows of which no label is known."""

    @abstractmethod
    def _learn(self, data: TrainingData) -> None:
        """Fit the model to checked data."""

    @abstractmethod
    def _codes(self, X: Any) -> Codes:
        """Return the codes (n, d) predicted for checked rows."""

    def _with_absence(self, space: LabelSpace, codes: Codes) -> tuple[LabelSpace, Codes]:
        """Return the space and codes with a value for what blanks mean."""
        return space, codes

    def _interpreted(self, data: TrainingData, of_labels: Array | None) -> TrainingData:
        """Return the rows as they are learned from; labels may have weights (n, d)."""
        return data

    def _labelled(self, data: TrainingData) -> TrainingData:
        """Return the rows that have a label; all where splits of the rows are given by position."""
        without = (data.codes == MISSING).all(axis=1)
        splits = getattr(self, "cv", None)
        by_position = hasattr(splits, "__iter__") and not hasattr(splits, "split")
        return data.take(~without) if without.any() and not by_position else data

    def _finish(self, data: TrainingData) -> None:
        """Do what is left to do after `_learn`."""

    def _check_parameters(self) -> None:
        """Refuse wrong parameters before any work is done."""

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        label_names: Sequence[str] | None = None,
    ) -> Self:
        """Learn from rows X and their labels.

        A fitted model stays as it is until the new fit is done: it answers meanwhile, and after a
        fit that was interrupted.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, p)
            Or a Dask array (its chunks of rows dense or CSR) or data frame, for the models that
            learn chunk by chunk; `y` and `sample_weight` are then Dask collections too.
        y : labels of n rows
            A 0/1 matrix, a table of class variables, a data frame, a sparse matrix, or a
            sequence of sets of label names; see `LabelSpace`. NaN and None mean "not observed".
        sample_weight : array of shape (n,) or (n, d), optional
            Weights of the rows; or of each label of each row, where zero means missing. A row
            whose labels have several weights is learned from as several rows.
        label_names : sequence of d str, optional
            Names of the labels, where `y` has none.

        Returns
        -------
        self
        """
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None: call"
                " fit(X, y) with the labels of each row."
            )
        parameters.check_jobs(getattr(self, "n_jobs", None))
        parameters.check_annotated(self)
        self._check_parameters()
        fresh = unfitted_copy(self)
        if is_dask(X):
            fresh._fit_chunks(X, y, sample_weight, label_names)
            self.__dict__ = fresh.__dict__
            return self
        X = fresh._checked(X, reset=True)
        space, codes = LabelSpace.infer(y, label_names)
        if codes.shape[0] != X.shape[0]:
            raise ValueError(
                f"X has {X.shape[0]} rows but y has {codes.shape[0]}. Give one row of labels for"
                " each row of X."
            )
        space, codes = fresh._with_absence(space, codes)
        fresh._keep_labels(space)
        data, of_labels = _training_data(X, codes, space, sample_weight)
        data = fresh._interpreted(data, of_labels)
        data = data if of_labels is None else layered(data, of_labels)
        _warn_of_unlabelled(data, space, self.unlabelled_rows)
        data = fresh._labelled(data)
        fresh._learn(data)
        fresh._finish(data)
        self.__dict__ = fresh.__dict__
        return self

    def _keep_labels(self, space: LabelSpace) -> None:
        self.label_space_ = space
        self.label_names_ = space.names
        self.classes_ = class_values(space)

    def _fit_chunks(self, X: Any, y: Any, weight: Any, label_names: Sequence[str] | None) -> None:
        """Learn from Dask collections."""
        check_takes_chunks(self)
        if not is_dask(y):
            chunked_data.same_chunks(X, y, "y")  # says what is wrong
        self._check_columns(X, reset=True)
        space = LabelSpace.of_seen(chunked_data.seen_labels(y), label_names)
        names = getattr(self, "feature_names_in_", None)
        chunked = chunked_data.chunked_data(
            X, y, space, weight, names=names, allow_nan=self._allows_nan()
        )
        self._keep_labels(space)
        data = self._of_chunks(chunked)
        shown = bool(getattr(self, "verbose", 0))
        with row_counter("reading", shown=shown) as count, chunked_data.counting_passes(count):
            self._learn(data)
            self._finish(data)

    def _of_chunks(self, data: chunked_data.ChunkedData) -> Any:
        """Return the rows that `_learn` is given: in chunks, or in memory where they are few."""
        return data.gathered(None)[0] if is_short(data) else data

    def _check_columns(self, X: Any, *, reset: bool) -> None:
        """Check number and names of the columns of a Dask collection."""
        blocks = chunked_data.Blocks.of(X)
        frame = hasattr(blocks.meta, "columns")
        shape = blocks.meta if frame else np.empty((1, blocks.n_columns))
        validate_data(self, shape, reset=reset, skip_check_array=True)

    def predict(self, X: Any) -> Any:
        """Predict the labels of each row of X (n, p).

        Returns
        -------
        labels
            In the container the training labels had: (n, d) array, 1-d array, CSR, or sets; or a
            data frame, see `set_output`.
        """
        check_is_fitted(self)
        if is_dask(X):
            self._check_columns(X, reset=False)
            empty = self.label_space_.decode(np.empty((0, self.label_space_.n_labels), np.int32))
            return lazy_rows(self.predict, X, empty.shape[1:], empty)
        rows = self._checked(X, reset=False)
        return self._labels_out(self._codes_of_all(row_chunks(rows, self.label_space_)), X)

    def _codes_of_all(self, parts: Iterable[Any]) -> Codes:
        """Return the predicted codes (n, d) of checked rows that come in parts."""
        return np.concatenate([self._codes(part) for part in parts])

    def set_output(self, *, predict: str | None = None) -> Self:
        """Choose the container of what is predicted; scikit-learn's own is about `transform`.

        Clones keep what was set.

        Parameters
        ----------
        predict : {"default", "pandas", "polars"} or None
            With "pandas" or "polars", `predict`, `predict_proba` and `predict_log_proba` return
            data frames whose columns have the labels' names, and whose index (pandas) is that of X
            where it has one. None leaves it as it is.

        Returns
        -------
        self
        """
        if predict is None:
            return self
        if predict not in _CONTAINERS:
            listed = ", ".join(map(repr, _CONTAINERS))
            raise ValueError(f"predict={predict!r} is unknown: choose from {listed}.")
        if predict != "default":
            require(predict, "A data frame")
        self._sklearn_output_config = {"predict": predict}
        return self

    @property
    def _container(self) -> str:
        return str(getattr(self, "_sklearn_output_config", {}).get("predict", "default"))

    def _labels_out(self, codes: Codes, X: Any) -> Any:
        """Return codes (n, d) of rows X as the labels that `predict` answers with."""
        space = self.label_space_
        if self._container == "default":
            return space.decode(codes)
        named = zip(space.names, space.classes, codes.T, strict=True)
        columns = {name: classes[own] for name, classes, own in named}
        if self._container == "polars":
            return nw.from_dict(columns, backend="polars").to_native()
        import pandas as pd

        return pd.DataFrame(columns, _index(X))

    def _probabilities_out(self, prob: Any, X: Any) -> Any:
        """Return probabilities, (n, d), (n, K) or a list of tables, as `predict_proba` does."""
        if self._container == "default":
            return prob
        space, columns = self.label_space_, []
        for name, classes in zip(space.names, space.classes, strict=True):
            columns += [(name, value) for value in classes.tolist()]
        if self._container == "polars":
            flat = np.concatenate(prob, axis=1) if isinstance(prob, list) else prob
            plain = [f"{label}={value}" for label, value in columns]
            plain = [str(v) for _, v in columns] if space.kind == "vector" else plain
            named = plain if isinstance(prob, list) or space.kind == "vector" else space.names
            return nw.from_dict(dict(zip(named, flat.T, strict=True)), backend="polars").to_native()
        import pandas as pd

        index = _index(X)
        if isinstance(prob, list):
            names = pd.MultiIndex.from_tuples(columns, names=["label", "value"])
            return pd.DataFrame(np.concatenate(prob, axis=1), index, names)
        of_values = space.kind == "vector"
        return pd.DataFrame(prob, index, [v for _, v in columns] if of_values else space.names)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Exact match: the share of rows whose labels are all predicted right."""
        from colabel.metrics import exact_match  # takes a while to import, and few ask for it

        return exact_match(y, self.predict(X), sample_weight=sample_weight)

    def label_graph(self) -> LabelGraph:
        """Return which label depends on which, as the fitted model has learned it."""
        meaning = f"{type(self).__name__} learns no graph of the labels."
        return LabelGraph.without_edges(self.label_names_, meaning)

    def _checked(self, X: Any, *, reset: bool) -> Any:
        parameters.check_column_names(X)
        parameters.check_no_text(X)
        checked = validate_data(
            self,
            one_entry_each(X),
            reset=reset,
            accept_sparse="csr",
            dtype=np.float64,
            ensure_all_finite="allow-nan",
        )
        checked = one_entry_each(checked)  # other sparse formats are CSR by now
        names = getattr(self, "feature_names_in_", None)
        if not self._allows_nan():
            parameters.check_no_nan(checked, names, type(self).__name__)
        parameters.check_magnitude(checked, names, parameters.LARGEST_FEATURE)
        return checked

    def _allows_nan(self) -> bool:
        estimator = getattr(self, "estimator", None)
        return estimator is not None and bool(get_tags(estimator).input_tags.allow_nan)

    def _record(self, n_iter: int | None, C: Array | None = None) -> None:
        """Keep what the built-in regressions say of their fit; other classifiers say None."""
        if n_iter is not None:
            self.n_iter_ = n_iter
        if C is not None:
            self.C_ = C

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    def label_notes(self) -> dict[int, str]:
        """Return for labels, by position, what a notebook says beside their names."""
        return {}

    def _repr_html_inner(self) -> str:
        return str(super()._repr_html_inner()) + labels_html(self)

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**options)
        if "text/html" in bundle:
            bundle["text/html"] = self._repr_html_inner()
        return bundle

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self._allows_nan()
        tags.target_tags.multi_output = True
        tags.classifier_tags.multi_label = True
        return tags


class JointClassifier(LabelClassifier):
    """Base of the probabilistic estimators: learns P(y | x), answers through a `Joint`.

    A subclass implements `_learn(data)`, which sets the fitted attributes, and `_joint(X)`.
    `predict` returns the labels that minimise the expected loss named by `decision`.

    Parameters
    ----------
    decision : str or Decision
        Loss that `predict` minimises, see `decide`: "subset" gives the most probable label
        vector, "hamming" the most probable value of each label, "f1" the vector with the largest
        expected F1. "micro_f1" and "macro_f1" are about all rows that `predict` is given.
    calibrate : bool
        Whether to learn, on rows held out, how far the joint can be trusted, and to temper it:
        see `calibration_`. The model is fitted four times.
    blank : {"missing", "absent", "unlabelled"} or {label: one of these}
        What a missing value means in a column of 0/1 labels that holds no 0: nothing ("missing"),
        a 0 ("absent"), or that the row was not marked, though it may have the label
        ("unlabelled"). For the last, the share of rows that have the label is estimated, and
        blanks are drawn accordingly. That assumes that rows with the label are marked at random,
        whatever their features are, and that features tell some rows surely (Elkan & Noto, 2008).

    Attributes
    ----------
    class_priors_ : (d,) array
        Estimated share of the rows that have each label whose blanks are "unlabelled", NaN for
        the others; only with ``blank="unlabelled"``.
    calibration_ : Calibration
        What rows held out say of the joint, and by which it is tempered; only with `calibrate`.
    """

    calibration_: Annotated[Calibration, "d sizes m=2", SOMETIMES] = attribute()
    seen_: Annotated[Codes, "_ d", CODES, NOT_EMPTY, SOMETIMES] = attribute()
    class_priors_: Annotated[Array, "d", Between(0.0, 1.0, nan=True), SOMETIMES] = attribute()
    decision: str | Decision = "subset"
    calibrate: bool = False
    blank: str | dict[Any, str] = "missing"

    @abstractmethod
    def _joint(self, X: Any) -> Joint:
        """Return the joint distribution for checked rows."""

    def _check_parameters(self) -> None:
        parameters.check_flag("calibrate", self.calibrate)
        if self.decision != "seen":  # which only a fitted model can resolve
            self.decision_rule()

    def _keep_labels(self, space: LabelSpace) -> None:
        super()._keep_labels(space)
        if self.decision not in ("seen", "thresholds"):  # which only a fitted model can resolve
            self.decision_rule().check(space)

    def decision_rule(self) -> Decision:
        """Return how `predict` chooses the labels of a joint."""
        if self.decision != "seen":
            return resolve_decision(self.decision)
        if not hasattr(self, "seen_"):
            raise ValueError(
                "decision='seen' needs the label vectors of the training rows, which the model did"
                " not keep: fit it with this decision."
            )
        return Seen(self.seen_)

    def _blank_of(self, space: LabelSpace) -> dict[int, str]:
        """What blanks of the labels mean, checked."""
        given: Any = self.blank
        if not isinstance(given, dict):
            given = dict.fromkeys(space.names, given)
        for name, value in given.items():
            parameters.check_choice(
                f"blank of {name!r}", value, ("missing", "absent", "unlabelled")
            )
        return {space.index(label): value for label, value in given.items()}

    def _with_absence(self, space: LabelSpace, codes: Codes) -> tuple[LabelSpace, Codes]:
        for i, value in self._blank_of(space).items():
            known, values = codes[:, i] != MISSING, space.classes[i]
            if value != "missing" and not known.all() and values.tolist() == [1]:
                # a column of 1 and blanks beside variables of other values
                both = np.array([0, 1]).astype(values.dtype)
                space = replace(space, classes=(*space.classes[:i], both, *space.classes[i + 1 :]))
                codes = codes.copy()
                codes[known, i] = 1
        return space, codes

    def _interpreted(self, data: TrainingData, of_labels: Array | None) -> TrainingData:
        """Return the rows with zeros or draws in the place of blanks, where these mean that."""
        space = self.label_space_
        meaning = self._blank_of(space)
        blank = positive_only(data.codes) & [says_presence(values) for values in space.classes]
        for i, value in meaning.items():
            name = space.names[i]
            gaps = value != "missing" and (data.codes[:, i] == MISSING).any()
            if gaps and len(space.classes[i]) == 1:
                raise ValueError(
                    f"blank of {name!r} is {value!r}, but its one value is {space.classes[i][0]!r},"
                    " which does not say what its absence is called: give 1 in its place."
                )
            if gaps and isinstance(self.blank, dict) and not blank[i]:
                raise ValueError(
                    f"blank of {name!r} is {value!r}, but its blanks are missing labels: the label"
                    " also has other values than 1. Leave it out of blank."
                )
        absent, drawn = (
            np.array([i for i in np.flatnonzero(blank).tolist() if meaning.get(i) == wanted])
            for wanted in ("absent", "unlabelled")
        )
        if len(absent):
            codes = data.codes.copy()
            codes[:, absent] = codes[:, absent] == 1
            data = replace(data, codes=codes)
        if len(drawn):
            own = None if of_labels is None else of_labels[:, drawn]
            data, priors = unlabelled_positives(data, drawn, self._seed(), self.n_jobs, own)
            self.class_priors_ = np.full(space.n_labels, np.nan)
            self.class_priors_[drawn] = priors
        return data

    def _finish(self, data: TrainingData) -> None:
        if self.decision == "seen":
            self.seen_ = data.sum(seen_vectors, combine=joined_vectors)
            if not len(self.seen_):
                raise ValueError(
                    "decision='seen' chooses among the label vectors of training rows, but no row "
                    "has all its labels: choose another decision."
                )
        if self.calibrate:
            found = learn_calibration(uncalibrated(self), data, self.label_space_, self._seed())
            if found is not None:
                self.calibration_ = found

    def _calibrated(self, X: Any) -> Joint:
        """Return the joint for checked rows, as users see it."""
        joint = self._joint(X)
        return self.calibration_(joint) if hasattr(self, "calibration_") else joint

    def linear_log_odds(self, x: Any, others: Array) -> LinearLogOdds | None:
        """Return the log-odds of labels of two values given the others, where linear in x.

        Parameters
        ----------
        x : (1, p)
            The row at which the weights of the labels are wanted.
        others : (d,)
            Point of reference of the labels, each from 0 to 1.
        """
        return None

    def decides_by_joint(self) -> bool:
        """Whether `predict` is the decision of a joint, so that one joint serves both."""
        return hasattr(self, "joint")

    def _codes(self, X: Any) -> Codes:
        return self.decision_rule().codes(self._calibrated(X))

    def _codes_of_all(self, parts: Iterable[Any]) -> Codes:
        rule = self.decision_rule()
        if not rule.over_rows:
            return super()._codes_of_all(parts)
        tables = zip(*(self._calibrated(part).marginal_tables() for part in parts), strict=True)
        with np.errstate(divide="ignore"):
            of_all = [np.log(np.concatenate(own)) for own in tables]
        return rule.codes(Independent(self.label_space_, of_all))

    def joint(self, X: Any) -> Joint:
        """Return the joint distribution of the labels for each row of X (n, p).

        Of a Dask array it is a `LazyJoint`, whose answers are Dask arrays.
        """
        check_is_fitted(self)
        if is_dask(X):
            self._check_columns(X, reset=False)
            lazy: Any = LazyJoint(self.label_space_, X, self.joint)
            return lazy  # type: ignore[no-any-return]
        return self._calibrated(self._checked(X, reset=False)).with_index(_index(X))

    def predict_proba(self, X: Any) -> Any:
        """Probability of each label alone.

        Returns
        -------
        marginals : (n, d) array of P(y = 1) for 0/1 labels; list of (n, K_i) arrays for class
            variables; (n, K) array for one-dimensional y.
        """
        check_is_fitted(self)
        if is_dask(X):
            return self._lazy_proba(X)
        if self.label_space_.kind == "vector":
            chunks = self._by_chunks(X, lambda joint: joint.marginal_tables()[0])
        else:
            chunks = self._by_chunks(X, lambda joint: joint.marginals())
        if isinstance(chunks[0], list):
            tables = [np.concatenate(parts) for parts in zip(*chunks, strict=True)]
            return self._probabilities_out(tables, X)
        return self._probabilities_out(np.concatenate(chunks), X)

    def _lazy_proba(self, X: Any) -> Any:
        self._check_columns(X, reset=False)
        space, prob = self.label_space_, self.predict_proba
        if space.is_binary and space.kind != "vector":
            return lazy_rows(prob, X, (space.n_labels,), np.empty((0, space.n_labels)))
        sizes = space.cardinalities
        if space.kind == "vector":
            return lazy_rows(prob, X, sizes, np.empty((0, *sizes)))
        return [
            lazy_rows(lambda block, i=i: prob(block)[i], X, (size,), np.empty((0, size)))
            for i, size in enumerate(sizes)
        ]

    def predict_log_proba(self, X: Any) -> Any:
        """Return the logarithm of `predict_proba`."""
        prob = self.predict_proba(X)
        return [np.log(table) for table in prob] if isinstance(prob, list) else np.log(prob)

    def _by_chunks(self, X: Any, answer: Callable[[Joint], Any]) -> list[Any]:
        """Ask rows a chunk at a time: a joint may be many times larger than its rows."""
        X = self._checked(X, reset=False)
        return [answer(self._calibrated(part)) for part in row_chunks(X, self.label_space_)]


def class_values(space: LabelSpace) -> Any:
    """Return the values of every label, in the form that scikit-learn expects of `classes_`.

    Where all labels have two values `predict_proba` is one matrix (n, d), and
    `cross_val_predict` looks for the d of its columns in the shape of `classes_`.
    """
    if space.kind == "vector":
        return space.classes[0]
    if not space.is_binary:
        return list(space.classes)
    alike = len({values.dtype for values in space.classes}) == 1
    return np.array([values.tolist() for values in space.classes], None if alike else object)


def _training_data(
    X: Any, codes: Codes, space: LabelSpace, sample_weight: Any
) -> tuple[TrainingData, Array | None]:
    """Return checked rows, and the weights (n, d) of labels, if they have their own."""
    weight = of_labels = None
    if sample_weight is not None and np.asarray(sample_weight).ndim == 2:
        of_labels = np.asarray(sample_weight, np.float64)
        if of_labels.shape != codes.shape:
            raise ValueError(
                f"sample_weight has the shape {of_labels.shape}, but the labels have {codes.shape}."
                " Give one weight per row, or one per row and label."
            )
        if not (of_labels >= 0).all():
            raise ValueError(
                "sample_weight holds negative numbers or NaN. Give weights of at least 0."
            )
        parameters.checked_weights(of_labels.max(axis=1), X)
        unweighted = np.flatnonzero(~of_labels.any(axis=0))
        if len(unweighted):
            raise ValueError(
                f"sample_weight is zero for all of {space.names[unweighted[0]]!r}: leave that label"
                " out, or give some of its rows weight."
            )
    elif sample_weight is not None:
        weight = parameters.checked_weights(sample_weight, X)
        weight = None if (weight == 1.0).all() else weight
    return TrainingData(X, codes, space.cardinalities, weight), of_labels


def _warn_of_unlabelled(data: TrainingData, space: LabelSpace, use: str) -> None:
    """Warn of labels that are 1 or unknown, and of rows without any label; refuse if all are."""
    codes = data.codes
    known, n_rows = (codes != MISSING).any(axis=1), len(codes)
    if isinstance(data, CompletedData):  # copies of a row count as one
        n_rows = data.origin.n_rows
        known = np.bincount(data.source, known, n_rows) > 0
    n_without = n_rows - int(known.sum())
    if n_without == n_rows:
        raise ValueError("No label of any row is known: y holds nothing but missing values.")
    positive = [
        space.names[i]
        for i in np.flatnonzero(positive_only(codes))
        if says_presence(space.classes[i])
    ]
    if positive:
        warn(
            f"{len(positive)} label{'s are' if len(positive) > 1 else ' is'} 1 or missing, never 0 "
            f"({', '.join(map(repr, positive[:3]))}{', …' * (len(positive) > 3)}): from positive "
            "and unlabelled rows alone every row looks positive. Set blank='absent' if a blank "
            "means that the label is absent, blank='unlabelled' if it may be there.",
        )
    one_word = [
        f"{name!r} is {classes.tolist()[0]!r}"
        for name, classes, own in zip(space.names, space.classes, codes.T, strict=True)
        if len(classes) == 1 and (own == MISSING).any()
    ]
    if one_word:
        warn(
            f"There is nothing to learn of labels with one value and blanks ({one_word[0]}"
            f"{', …' * (len(one_word) > 1)}). If a blank may mean that the label is absent,"
            " write the value as 1 and set `blank`.",
        )
    if n_without:
        warn(
            f"{n_without} of {n_rows} rows have no known label: {use}.",
        )
