"""Types of NumPy and scikit-learn that a model file may hold, with what they must hold.

They are not ours to decorate. An estimator that is not listed is written by skops instead and
loads only if the caller names it. Vectorizers are not listed on purpose: some of their parameters
open files or are patterns that take for ever.
"""

from __future__ import annotations

import inspect
import itertools
from typing import Any

import numpy as np
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.dummy import DummyClassifier
from sklearn.feature_selection import VarianceThreshold
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import BernoulliNB, ComplementNB, GaussianNB, MultinomialNB
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, StandardScaler
from sklearn.svm import LinearSVC

from colabel.core.schema import (
    LARGEST,
    Anything,
    Dims,
    Estimator,
    Fields,
    Kind,
    Many,
    Maybe,
    Node,
    Numbers,
    OneOf,
    OrNone,
    Positions,
    Real,
    Record,
    Setting,
    Text,
    Values,
    Whole,
    declare,
    refuse_unless,
)

_ANY = Maybe(Anything())


def _numbers(shape: str, low: float = -LARGEST, high: float = LARGEST) -> Kind:
    """Numbers of either precision: scikit-learn keeps that of its rows."""
    return Numbers(shape, low, high, ("float64", "float32"))


_WIDTH: dict[str, Kind] = {
    "n_features_in_": Whole(size="p"),
    "feature_names_in_": Maybe(Values("p")),
}
_CLASSES: dict[str, Kind] = {**_WIDTH, "classes_": Values("k")}


class _Intercept:
    """A constant for each score, or a plain zero where none was asked for."""

    def check(self, value: Any, dims: Dims, where: str) -> None:
        if isinstance(value, np.ndarray) or value != 0.0:
            _numbers("scores").check(value, dims, where)


def _declare(cls: type, tag: str, fields: dict[str, Kind], check: Any = None) -> None:
    """Declare an estimator whose parameters are plain, but for a few that are not."""
    names = ("priors", "class_prior", "class_weight", "feature_range")
    accepted = inspect.signature(cls).parameters
    wider: dict[str, Kind] = {name: Anything() for name in names if name in accepted}
    declare(cls, tag, {**fields, **wider}, check, others=Setting())


def _linear(*others: str) -> dict[str, Kind]:
    """Fields of a linear classifier: one row of coefficients for two classes, else one a class."""
    fitted: dict[str, Kind] = {
        **_CLASSES,
        "coef_": _numbers("scores p"),
        "intercept_": _Intercept(),
    }
    return {**fitted, **dict.fromkeys(others, _ANY)}


def _check_linear(fields: Fields, dims: Dims) -> None:
    classes, scores = dims.get("k", 2), dims.get("scores", 1)
    refuse_unless(classes > 1, "classes_ of a linear classifier has fewer than two")
    refuse_unless(scores == (1 if classes == 2 else classes), "coef_ does not fit the classes")


def _bayes(**fitted: Kind) -> dict[str, Kind]:
    return {**_CLASSES, **fitted}


_COUNTED: dict[str, Kind] = {
    "class_count_": _numbers("k", low=0),
    "feature_count_": _numbers("k p", low=0),
    "class_log_prior_": _numbers("k", high=1e-9),
    "feature_log_prob_": _numbers("k p"),
}


# sizes that a pipeline has of its last step: labels, classes, features made
_OF_THE_LAST = ("d", "sizes", "k", "made")


def _check_pipeline(fields: Fields, dims: Dims) -> None:
    for i, (_, step) in enumerate(fields["steps"]):
        if step is not None and step != "passthrough":
            Estimator(fitted=False).check(step, {}, f"step {i} of the pipeline")
    steps = [step for _, step in fields["steps"] if isinstance(step, Node)]
    last: Any = fields["steps"][-1][1] if fields["steps"] else None
    refuse_unless(isinstance(last, Node), "the pipeline ends in no estimator")
    for before, after in itertools.pairwise(steps):
        passes_on = before.does("transform")
        refuse_unless(passes_on, "a step before the last of the pipeline transforms nothing")
        made, taken = before.dims.get("made"), after.dims.get("p")
        fits = made is None or taken is None or made == taken
        refuse_unless(fits, "a step of the pipeline makes other features than the next one takes")
    # the whole takes what its first step takes, and is of its last what that is
    dims.update({name: last.dims[name] for name in _OF_THE_LAST if name in last.dims})
    dims["last"], dims["fitted"] = last.last, last.dims.get("fitted", True)
    if isinstance(fields["steps"][0][1], Node) and "p" in steps[0].dims:
        dims["p"] = steps[0].dims["p"]
    alike = all(step.dims.get("fitted", True) == dims["fitted"] for step in steps)
    refuse_unless(alike, "some steps of the pipeline are fitted and some are not")


def _declare_estimators() -> None:
    for cls, more in (
        (LogisticRegression, ("n_iter_", "l1_ratio_", "C_")),
        (LinearSVC, ("n_iter_",)),
    ):
        _declare(cls, f"sklearn.{cls.__name__}", _linear(*more), _check_linear)
    positive = _numbers("k p", low=1e-300)
    counts = _bayes(
        class_count_=_numbers("k", low=0),
        class_prior_=_numbers("k", 0.0, 1.0),
        theta_=_numbers("k p"),
        var_=positive,
        epsilon_=Real(0.0),
    )
    _declare(GaussianNB, "sklearn.GaussianNB", counts)
    for cls in (BernoulliNB, MultinomialNB):
        _declare(cls, f"sklearn.{cls.__name__}", _bayes(**_COUNTED))
    complement = _bayes(**_COUNTED, feature_all_=_numbers("p", low=0))
    _declare(ComplementNB, "sklearn.ComplementNB", complement)
    dummy = _bayes(
        n_classes_=Whole(1),
        n_outputs_=OneOf(1),
        class_prior_=_numbers("k", 0.0, 1.0),
        sparse_output_=OneOf(False),
        _strategy=Text(),
    )
    _declare(DummyClassifier, "sklearn.DummyClassifier", dummy)


def _check_scaled(fields: Fields, dims: Dims) -> None:
    dims["made"] = dims["p"]


def _check_chosen(fields: Fields, dims: Dims) -> None:
    dims["made"] = int((fields["variances_"] > fields["threshold"]).sum())


def _check_projected(fields: Fields, dims: Dims) -> None:
    dims["made"] = dims["q"]


def _declare_transformers() -> None:
    column = _numbers("p")
    scalers: dict[type, dict[str, Kind]] = {
        StandardScaler: {
            "mean_": OrNone(column),
            "scale_": OrNone(_numbers("p", low=1e-300)),
            "var_": OrNone(column),
            "n_samples_seen_": Anything(),
        },
        MinMaxScaler: {
            "min_": column,
            "scale_": column,
            "data_min_": column,
            "data_max_": column,
            "data_range_": column,
            "n_samples_seen_": Anything(),
        },
        MaxAbsScaler: {
            "scale_": _numbers("p", low=1e-300),
            "max_abs_": column,
            "n_samples_seen_": Anything(),
        },
        Normalizer: {"norm": OneOf("l1", "l2", "max")},
        VarianceThreshold: {"variances_": column, "threshold": Real(0.0)},
    }
    for cls, fields in scalers.items():
        makes = _check_chosen if cls is VarianceThreshold else _check_scaled
        _declare(cls, f"sklearn.{cls.__name__}", {**_WIDTH, **fields}, makes)
    spectrum: dict[str, Kind] = {
        **_WIDTH,
        "components_": _numbers("q p"),
        "mean_": Maybe(_numbers("p")),
        **{
            name: Maybe(_numbers("q"))
            for name in ("explained_variance_", "explained_variance_ratio_", "singular_values_")
        },
        "noise_variance_": Maybe(Real(0.0)),
        "n_components_": Maybe(Whole(size="q")),
        "n_samples_": Maybe(Anything()),
        "_fit_svd_solver": Maybe(Anything()),
    }
    for cls in (PCA, TruncatedSVD):
        _declare(cls, f"sklearn.{cls.__name__}", spectrum, _check_projected)
    pipeline: dict[str, Kind] = {
        "steps": Many(Record(Text(), Maybe(Anything()))),
        "memory": OneOf(None),
        "feature_names_in_": _ANY,
    }
    declare(Pipeline, "sklearn.Pipeline", pipeline, _check_pipeline, has_state=False)


def _declare_random_state() -> None:
    def take(value: Any) -> Fields:
        name, keys, position, has_gauss, cached = value.get_state(legacy=True)
        refuse_unless(name == "MT19937", f"the random state is a {name}")
        return {"keys": keys, "position": position, "has_gauss": has_gauss, "cached": cached}

    def make(fields: Fields) -> Any:
        state = np.random.RandomState()
        state.set_state(
            ("MT19937", fields["keys"], fields["position"], fields["has_gauss"], fields["cached"])
        )
        return state

    kinds: dict[str, Kind] = {
        "keys": Positions("624", below=2**32),
        "position": Whole(0, 624),
        "has_gauss": Whole(0, 1),
        "cached": Real(),
    }
    declare(np.random.RandomState, "random-state", kinds, take=take, make=make)


_declare_estimators()
_declare_transformers()
_declare_random_state()
