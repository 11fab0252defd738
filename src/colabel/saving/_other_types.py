"""Types of SciPy and scikit-learn that a model file may hold, and what they must look like.

They are not ours to annotate: a class beside each says what its fields are (`colabel.core.schema`).
An estimator that is not listed, or whose settings are (a vectorizer that opens files or splits
words by a pattern of its own), is written by skops instead and loads only if the caller names it.
Fitted forests and trees come back as a `PlainForest`, which answers as they did; an unfitted one,
the parameter of a model, comes back as itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import BSpline
from sklearn import preprocessing as pre
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import BernoulliNB, ComplementNB, GaussianNB, MultinomialNB
from sklearn.pipeline import Pipeline
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

from colabel.core import schema
from colabel.core.arrays import Array, Indices
from colabel.core.content import CannotBeWrittenError
from colabel.learn.forest.contents import PlainForest

Floats = NDArray[np.floating[Any]]  # scikit-learn keeps the precision of its rows
Values = NDArray[Any]


def _describes(*classes: type, **options: Any) -> Callable[[type], type]:
    """Declare types of scikit-learn whose fields are the annotations of a class."""

    def register(spec: type) -> type:
        for cls in classes:
            options_of = {"spec": spec, "others": schema.Setting, **options}
            schema.declare(cls, f"sklearn.{cls.__name__}", **options_of)
        return spec

    return register


class _Features:
    n_features_in_: Annotated[int, schema.Is("p")]
    feature_names_in_: Annotated[Values, "p", schema.SOMETIMES]

    @staticmethod
    def _check_stored(fields: schema.Fields, dims: schema.Dims) -> None:
        dims.setdefault("made", dims["p"])


# ------------------------------------------------------------------------ classifiers


class _Classes(_Features):
    classes_: Annotated[Values, "k"]
    priors: Any
    class_prior: Any
    class_weight: Any


@_describes(LogisticRegression, LinearSVC)
class _Linear(_Classes):
    coef_: Annotated[Floats, "scores p"]
    intercept_: Annotated[Floats, "scores"] | Annotated[float, schema.Between(0.0, 0.0)]
    n_iter_: Annotated[Any, schema.SOMETIMES]
    l1_ratio_: Annotated[Any, schema.SOMETIMES]
    C_: Annotated[Any, schema.SOMETIMES]

    @staticmethod
    def _check_stored(fields: schema.Fields, dims: schema.Dims) -> None:
        classes, scores = dims["k"], dims["scores"]
        schema.check_that(classes > 1, "classes_ of a linear classifier has fewer than two")
        schema.check_that(
            scores == (1 if classes == 2 else classes), "coef_ does not fit the classes"
        )


@_describes(GaussianNB)
class _Gaussian(_Classes):
    class_count_: Annotated[Floats, "k", schema.Between(0.0)]
    class_prior_: Annotated[Floats, "k", schema.Distribution()]
    theta_: Annotated[Floats, "k p"]
    var_: Annotated[Floats, "k p", schema.POSITIVE]
    epsilon_: Annotated[float, schema.Between(0.0)]


@_describes(BernoulliNB, MultinomialNB, ComplementNB)
class _Counted(_Classes):
    class_count_: Annotated[Floats, "k", schema.Between(0.0)]
    feature_count_: Annotated[Floats, "k p", schema.Between(0.0)]
    class_log_prior_: Annotated[Floats, "k", schema.Between(high=1e-9)]
    feature_log_prob_: Annotated[Floats, "k p"]
    feature_all_: Annotated[Floats, "p", schema.Between(0.0), schema.SOMETIMES]


# ------------------------------------------------------------------------ transformers


@_describes(pre.StandardScaler, pre.MinMaxScaler, pre.MaxAbsScaler, pre.RobustScaler)
class _Scaler(_Features):
    scale_: Annotated[Floats | None, "p", schema.POSITIVE]
    mean_: Annotated[Floats | None, "p"]
    var_: Annotated[Floats | None, "p"]
    center_: Annotated[Floats | None, "p"]
    min_: Annotated[Floats | None, "p"]
    data_min_: Annotated[Floats | None, "p"]
    data_max_: Annotated[Floats | None, "p"]
    data_range_: Annotated[Floats | None, "p"]
    max_abs_: Annotated[Floats | None, "p"]
    n_samples_seen_: Annotated[Any, schema.SOMETIMES]

    @staticmethod
    def _check_stored(fields: schema.Fields, dims: schema.Dims) -> None:
        wanted = {"with_mean": "mean_", "with_centering": "center_", "feature_range": "min_"}
        for asked, name in {**wanted, "with_std": "scale_", "with_scaling": "scale_"}.items():
            there = not fields.get(asked) or fields.get(name) is not None
            schema.check_that(there, f"it has lost its {name}")
        dims["made"] = dims["p"]


@_describes(pre.Normalizer)
class _Normalizer(_Features):
    norm: Literal["l1", "l2", "max"]


@_describes(PCA, TruncatedSVD)
class _Spectrum(_Features):
    components_: Annotated[Floats, "made p"]
    mean_: Annotated[Floats | None, "p"]
    explained_variance_: Annotated[Floats | None, "made"]
    explained_variance_ratio_: Annotated[Floats | None, "made"]
    singular_values_: Annotated[Floats | None, "made"]
    noise_variance_: Annotated[float | None, schema.Between(0.0)]
    n_components_: Annotated[int | None, schema.Is("made")]
    n_samples_: Annotated[Any, schema.SOMETIMES]
    _fit_svd_solver: Annotated[Any, schema.SOMETIMES]


def _groups_no_categories(encoder: Any) -> bool:
    return not getattr(encoder, "_infrequent_enabled", False)


@_describes(pre.OneHotEncoder, pre.OrdinalEncoder, accepts=_groups_no_categories)
class _Encoder(_Features):
    categories_: Annotated[list[Values], "p [values]"]
    categories: Any
    drop: Any
    drop_idx_: Annotated[Values | None, "p"]
    _drop_idx_after_grouping: Annotated[Values | None, "p"]
    _infrequent_enabled: Literal[False]
    _n_features_outs: Annotated[list[int] | None, "p"]
    _missing_indices: dict[int, int] | None

    @staticmethod
    def _check_stored(fields: schema.Fields, dims: schema.Dims) -> None:
        outs = fields.get("_n_features_outs")
        if outs is None:  # one column for each
            there = fields.get("_missing_indices") is not None
            schema.check_that(there, "it has lost its _missing_indices")
            dims["made"] = dims["p"]
            return
        schema.check_that(isinstance(outs, list), "_n_features_outs is no list")
        dropped = fields["_drop_idx_after_grouping"]
        left_out = [None] * dims["p"] if dropped is None else dropped.tolist()
        for n_values, n_columns, drop in zip(dims["values"], outs, left_out, strict=True):
            known = drop is None or (type(drop) is int and 0 <= drop < n_values)
            fits = known and n_columns == n_values - (drop is not None)
            schema.check_that(fits, "_n_features_outs does not fit categories_")
        dims["made"] = sum(outs)


@_describes(MissingIndicator)
class _Indicator(_Features):
    features_: Annotated[Indices, "made", schema.Below("p")]
    _n_features: Annotated[int, schema.Is("p")]
    _precomputed: bool
    features: Literal["missing-only", "all"]


@_describes(SimpleImputer)
class _Imputer(_Features):
    statistics_: Annotated[Values, "p"]
    indicator_: Annotated[MissingIndicator | None, "p"]
    _fit_dtype: np.dtype
    _fill_dtype: Annotated[np.dtype, schema.SOMETIMES]

    @staticmethod
    def _check_stored(fields: schema.Fields, dims: schema.Dims) -> None:
        fields.setdefault("_fill_dtype", fields["_fit_dtype"])  # of older versions of scikit-learn
        known = [value is not None and value == value for value in fields["statistics_"].tolist()]
        dims["made"] = len(known) if fields["keep_empty_features"] else sum(known)
        if fields["indicator_"] is not None:
            dims["made"] += fields["indicator_"].dims["made"]


class _BSpline:
    t: Annotated[Array, "knots", schema.SORTED]
    c: Annotated[Array, "rows splines"]
    k: Annotated[int, schema.Between(0, 20), schema.Is("degree")]
    extrapolate: bool | Literal["periodic"]
    axis: Literal[0]

    @staticmethod
    def _check_stored(fields: schema.Fields, dims: schema.Dims) -> None:
        schema.bind(dims, "knots", dims["rows"] + dims["degree"] + 1, "t")


@_describes(pre.SplineTransformer)
class _Spline(_Features):
    bsplines_: Annotated[list[BSpline], "p splines"]
    n_features_out_: Annotated[int, schema.Is("made")]
    degree: Annotated[int, schema.Between(0, 20)]
    knots: Any

    @staticmethod
    def _check_stored(fields: schema.Fields, dims: schema.Dims) -> None:
        each = dims["splines"] - (not fields["include_bias"])
        schema.bind(dims, "made", dims["p"] * each, "n_features_out_")


# ------------------------------------------------------------------------ words

_WORDS = CountVectorizer().token_pattern


def _splits_words_as_usual(vectorizer: Any) -> bool:
    """Whether a vectorizer reads no files and has no function or pattern of its own."""
    given = [vectorizer.tokenizer, vectorizer.preprocessor, vectorizer.vocabulary]
    return (
        given == [None] * 3
        and vectorizer.input == "content"
        and vectorizer.analyzer in ("word", "char", "char_wb")
        and vectorizer.token_pattern == _WORDS
        and vectorizer.ngram_range[-1] <= 10
    )


@_describes(TfidfTransformer)
class _Tfidf(_Features):
    idf_: Annotated[Floats, "p", schema.SOMETIMES]
    norm: Literal["l1", "l2"] | None


@_describes(CountVectorizer, TfidfVectorizer, accepts=_splits_words_as_usual)
class _Vectorizer:
    vocabulary_: dict[str, int]
    fixed_vocabulary_: Literal[False]
    _tfidf: Annotated[TfidfTransformer, "p=made", schema.SOMETIMES]
    input: Literal["content"]
    analyzer: Literal["word", "char", "char_wb"]
    tokenizer: None
    preprocessor: None
    vocabulary: None
    stop_words: list[str] | str | None
    strip_accents: Literal["ascii", "unicode"] | None
    encoding: Literal["utf-8", "latin-1", "ascii"]
    ngram_range: tuple[Annotated[int, schema.Between(1, 10)], Annotated[int, schema.Between(1, 10)]]

    @staticmethod
    def _check_stored(fields: schema.Fields, dims: schema.Dims) -> None:
        schema.bind(dims, "made", len(fields["vocabulary_"]), "vocabulary_")
        places = sorted(fields["vocabulary_"].values()) == list(range(dims["made"]))
        schema.check_that(places, "vocabulary_ gives two words one column, or a column none")
        there = "use_idf" not in fields or "_tfidf" in fields
        schema.check_that(there, "it has lost its _tfidf")
        schema.check_that(fields["token_pattern"] == _WORDS, "token_pattern is not scikit-learn's")


# ------------------------------------------------------------------------ compositions


@_describes(ColumnTransformer)
class _ColumnTransformer(_Features):
    transformers: Any
    transformers_: list[tuple[str, Any, Any]]
    transformer_weights: None
    sparse_output_: bool
    output_indices_: dict[str, Any]
    n_jobs: Annotated[int | None, schema.Between(-1024, 1024)]
    _n_features: Annotated[Any, schema.SOMETIMES]
    _columns: Any
    _remainder: Any
    _transformer_to_input_indices: dict[str, list[int]]
    _name_to_fitted_passthrough: Annotated[Any, schema.SOMETIMES]

    @staticmethod
    def _check_stored(fields: schema.Fields, dims: schema.Dims) -> None:
        made: list[int | None] = []
        for name, step, columns in fields["transformers_"]:
            known = name in fields["_transformer_to_input_indices"]
            schema.check_that(known, f"nothing says what the columns of {name!r:.40} are")
            names = fields.get("feature_names_in_")
            taken = _n_columns(columns, dims["p"], () if names is None else names.tolist())
            if step == "drop" or not taken:
                continue
            if step != "passthrough":
                schema.Estimator(does="transform").check(step, {}, f"the transformer {name!r:.40}")
                if not isinstance(columns, str | int):  # a column by itself: of words
                    schema.bind(dims, taken, step.dims.get("p", taken), f"columns of {name!r:.40}")
            made.append(taken if step == "passthrough" else step.dims.get("made"))
        if None not in made:
            dims["made"] = sum(n for n in made if n is not None)


def _n_columns(columns: Any, n_features: int, names: Any) -> int:
    """Count the columns that a transformer takes, given by position, by name, or by flags."""
    if isinstance(columns, slice):
        ends = [end for end in (columns.start, columns.stop) if isinstance(end, str)]
        schema.check_that(not ends, "a transformer takes columns from one name to another")
        return len(range(*columns.indices(n_features)))
    several = columns if isinstance(columns, list | tuple) else [columns]
    several = columns.tolist() if isinstance(columns, np.ndarray) else several
    for column in several:
        there = column in names if isinstance(column, str) else type(column) in (int, bool)
        inside = there and (isinstance(column, str) or -n_features <= column < n_features)
        schema.check_that(inside, "a transformer takes a column that is not there")
    flags = several and all(type(column) is bool for column in several)
    return sum(several) if flags else len(several)


@_describes(Pipeline, has_state=False, others=Any)
class _Pipeline:
    steps: list[tuple[str, Any]]
    memory: None
    feature_names_in_: Annotated[Any, schema.SOMETIMES]

    @staticmethod
    def _check_stored(fields: schema.Fields, dims: schema.Dims) -> None:
        for i, (_, step) in enumerate(fields["steps"]):
            if step is not None and step != "passthrough":
                schema.Estimator(fitted=False).check(step, {}, f"step {i} of the pipeline")
        steps = [step for _, step in fields["steps"] if isinstance(step, schema.Node)]
        last: Any = fields["steps"][-1][1] if fields["steps"] else None
        schema.check_that(isinstance(last, schema.Node), "the pipeline ends in no estimator")
        for before, after in itertools.pairwise(steps):
            passes_on = before.does("transform")
            schema.check_that(
                passes_on, "a step before the last of the pipeline transforms nothing"
            )
            made, taken = before.dims.get("made"), after.dims.get("p")
            fits = made is None or taken is None or made == taken
            schema.check_that(
                fits, "a step of the pipeline makes other features than the next one takes"
            )
        # the pipeline takes what its first step takes, and answers as its last step does
        of_the_last = ("d", "sizes", "k", "made")
        dims.update({name: last.dims[name] for name in of_the_last if name in last.dims})
        known = [step.dims["fitted"] for step in steps if "fitted" in step.dims]
        dims["last"], dims["fitted"] = last.last, all(known)
        if isinstance(fields["steps"][0][1], schema.Node) and "p" in steps[0].dims:
            dims["p"] = steps[0].dims["p"]
        schema.check_that(
            len(set(known)) <= 1, "some steps of the pipeline are fitted and some are not"
        )


# ------------------------------------------------------------------------ forests


_PLAIN = ("forest_", "probabilities_", "classes_", "n_features_in_")


def _take_forest(value: Any) -> schema.Fields:
    parameters = value.get_params(deep=False)
    if not hasattr(value, "classes_"):
        return dict(parameters)
    if value.n_outputs_ != 1:
        raise CannotBeWrittenError(
            f"its {type(value).__name__} has {value.n_outputs_} outputs, where one is expected"
        )
    plain = PlainForest.of(value)
    return {**parameters, **{name: getattr(plain, name) for name in _PLAIN}}


def _make_forest(cls: Any, fields: schema.Fields) -> Any:
    if "forest_" not in fields:
        return cls(**fields)
    made = PlainForest()
    made.__dict__.update({name: fields[name] for name in _PLAIN})
    return made


@_describes(
    RandomForestClassifier,
    ExtraTreesClassifier,
    DecisionTreeClassifier,
    ExtraTreeClassifier,
    taken=_take_forest,
    made=_make_forest,
)
class _Forest(PlainForest):
    class_weight: Any
    monotonic_cst: Any


# ------------------------------------------------------------------------ others


@_describes(make_column_selector, others=Any)
class _Selector:
    pattern: str | None
    dtype_include: Any
    dtype_exclude: Any


schema.declare(BSpline, "scipy.BSpline", spec=_BSpline)
