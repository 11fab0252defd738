"""Every model on small bundled data: what the golden file holds.

`python -m tests.golden` writes the file again; do that only where an answer is meant to change, and
say so in the commit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline

import colabel
from colabel.datasets import load_digit_traits

HELD_OUT = 40


class Split(NamedTuple):
    """Training rows and held-out rows of one data set."""

    X: np.ndarray
    Y: np.ndarray
    X_new: np.ndarray
    Y_new: np.ndarray


def digits() -> Split:
    """Seven 0/1 traits of handwritten digits."""
    data = load_digit_traits()
    X, Y = np.asarray(data.X, dtype=float), np.asarray(data.Y)
    return Split(X[:240], Y[:240], X[-HELD_OUT:], Y[-HELD_OUT:])


def variables() -> Split:
    """Four class variables of two to four values that depend on each other and on x."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(300, 6)) * [1, 1, 3, 0.2, 1, 1]
    first = (X[:, 0] + rng.normal(size=300) > 0).astype(int)
    second = np.digitize(X[:, 1] + first + 0.7 * rng.normal(size=300), [-0.5, 0.5, 1.5])
    third = (second + rng.integers(0, 2, 300)) % 3
    fourth = ((third == 1) ^ (rng.random(300) < 0.15)).astype(int)
    Y = np.column_stack([first, second, third, fourth])
    return Split(X[:-HELD_OUT], Y[:-HELD_OUT], X[-HELD_OUT:], Y[-HELD_OUT:])


def missing() -> Split:
    """The traits with a fifth of them unknown."""
    whole = digits()
    Y = whole.Y.astype(float)
    Y[np.random.default_rng(3).random(Y.shape) < 0.2] = np.nan
    return whole._replace(Y=Y)


class Case(NamedTuple):
    """A model and the rows it learns from."""

    data: Callable[[], Split]
    make: Callable[[], Any]

    def fitted(self) -> Any:
        """Return the model, fitted with one seed."""
        data, model = self.data(), self.make()
        seeds = {name: 0 for name in model.get_params() if name.endswith("random_state")}
        return model.set_params(**seeds).fit(data.X, data.Y)


def _boosting() -> HistGradientBoostingClassifier:
    return HistGradientBoostingClassifier(max_iter=10, min_samples_leaf=5, random_state=0)


BINARY: dict[str, Callable[[], Any]] = {
    "binary relevance": lambda: colabel.BinaryRelevance(),
    "binary relevance, naive Bayes": lambda: colabel.BinaryRelevance(estimator=GaussianNB()),
    "ctbn": lambda: colabel.CTBN(),
    "ctbn, one C": lambda: colabel.CTBN(C=1.0),
    "ctbn, boosting": lambda: colabel.CTBN(estimator=_boosting()),
    "classifier chain": lambda: colabel.ClassifierChain(),
    "probabilistic chain": lambda: colabel.ProbabilisticClassifierChain(),
    "ensemble of chains": lambda: colabel.EnsembleOfChains(n_chains=3),
    "mixture of trees": lambda: colabel.MixtureOfTrees(),
    "mlknn": lambda: colabel.MLkNN(),
    "iblr": lambda: colabel.IBLR(),
    "forest": lambda: colabel.JointForest(n_estimators=30),
    "stacked": lambda: colabel.StackedBinaryRelevance(),
    "pairwise crf": lambda: colabel.PairwiseCRF(),
    "collective crf": lambda: colabel.CollectiveCRF(),
    "cdn": lambda: colabel.CDN(C=1.0, burn_in=50, n_sweeps=200),
    "lds": lambda: colabel.LDSMixture(),
    "bayes nets": lambda: colabel.BayesNetEnsemble(),
    "kernel features": lambda: make_pipeline(
        colabel.KernelFeatures(), colabel.BinaryRelevance(C=1.0)
    ),
    "forest features": lambda: make_pipeline(
        colabel.ForestFeatures(n_estimators=20), colabel.CTBN(C=1.0)
    ),
    "stack of two": lambda: colabel.JointStack(
        [colabel.BinaryRelevance(C=1.0), colabel.CTBN(C=1.0)],
        cv=2,
    ),
}
VALUED = """binary relevance, ctbn, classifier chain, probabilistic chain, mixture of trees, forest,
pairwise crf, collective crf, cdn, bayes nets""".replace("\n", " ").split(", ")
MISSING = """binary relevance, ctbn, probabilistic chain, cdn, forest, lds, bayes nets,
stack of two""".replace("\n", " ").split(", ")

# At the default tolerance another solver stops elsewhere: the same graph, nearly the same numbers.
# Near the optimum (TIGHT) all solvers agree.
CLOSED_FORMS = {"binary relevance, naive Bayes", "mlknn", "forest", "lds", "bayes nets"}
LOOSE = set(BINARY) - CLOSED_FORMS
TIGHT: dict[str, Callable[[], Any]] = {
    "binary relevance": lambda: colabel.BinaryRelevance(tol=1e-7, max_iter=5000),
    "ctbn": lambda: colabel.CTBN(tol=1e-7, max_iter=5000),
    "ctbn, shared pairs": lambda: colabel.CTBN(C=1.0, pairs="shared", tol=1e-7, max_iter=5000),
    "probabilistic chain": lambda: colabel.ProbabilisticClassifierChain(tol=1e-7, max_iter=5000),
    "stacked": lambda: colabel.StackedBinaryRelevance(tol=1e-7, max_iter=5000),
    "pairwise crf": lambda: colabel.PairwiseCRF(
        C=1.0, ridge=0.1, group=0.01, tol=1e-9, max_iter=20_000
    ),
    "collective crf": lambda: colabel.CollectiveCRF(C=1.0, ridge=0.1, tol=1e-7, max_iter=5000),
    "cdn": lambda: colabel.CDN(C=1.0, burn_in=50, n_sweeps=200, tol=1e-7, max_iter=5000),
}

CASES = (
    {name: Case(digits, model) for name, model in BINARY.items()}
    | {f"{name}, variables": Case(variables, BINARY[name]) for name in VALUED}
    | {f"{name}, missing labels": Case(missing, BINARY[name]) for name in MISSING}
    | {f"{name}, solved closely": Case(digits, model) for name, model in TIGHT.items()}
    | {
        f"{name}, missing labels, solved closely": Case(missing, TIGHT[name])
        for name in ("pairwise crf", "collective crf")
    }
    | {
        f"{name}, variables, solved closely": Case(variables, model)
        for name, model in TIGHT.items()
        if name != "stacked"
    }
)


def answers(model: Any, data: Split) -> dict[str, Any]:
    """What a fitted model says of the held-out rows, and the graph it learned."""
    joint = colabel.joint_of(model, data.X_new)
    marginals = joint.marginals()
    tables = marginals if isinstance(marginals, list) else [marginals]
    last = model[-1] if hasattr(model, "steps") else model
    graph = last.label_graph() if hasattr(last, "label_graph") else None
    edges = [] if graph is None else sorted(map(tuple, graph.ends.tolist()))
    return {
        "log_prob": joint.log_prob(data.Y_new).tolist(),
        "marginals": [np.asarray(table)[:8].tolist() for table in tables],
        "mode": np.asarray(joint.mode()).astype(int).tolist(),
        "graph": [list(edge) for edge in edges],
    }
