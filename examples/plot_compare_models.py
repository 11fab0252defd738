"""
Comparing models
================

The models are scikit-learn estimators: what scikit-learn has for cross-validation works with them.
"""

# %%
# Six models on the same folds. Exact match is the share of rows with all labels right; the joint
# log-loss asks how probable the true label set was.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import KFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from colabel import (
    CDN,
    CTBN,
    BinaryRelevance,
    MLkNN,
    ProbabilisticClassifierChain,
    StackedBinaryRelevance,
    joint_of,
)
from colabel.datasets import load_digit_traits
from colabel.metrics import joint_log_loss

data = load_digit_traits()
models = {
    "BinaryRelevance": BinaryRelevance(C=1.0),
    "StackedBinaryRelevance": StackedBinaryRelevance(C=1.0, random_state=0),
    "CDN": CDN(C=1.0, random_state=0),
    "CTBN": CTBN(C=1.0, random_state=0),
    "ProbabilisticClassifierChain": ProbabilisticClassifierChain(C=1.0, label_scale=10.0),
    "MLkNN": MLkNN(random_state=0),
}


def log_loss(pipeline, X, Y):
    """Score a pipeline by minus the joint log-loss: in scikit-learn more is better."""
    return -joint_log_loss(joint_of(pipeline, X).log_prob(Y))


def exact(pipeline, X, Y):
    """Score a pipeline by exact match, the score of the estimators themselves."""
    return pipeline.score(X, Y)


results = {
    name: cross_validate(
        make_pipeline(MinMaxScaler(), model),
        data.X,
        data.Y,
        cv=KFold(3, shuffle=True, random_state=0),
        scoring={"exact": exact, "log_loss": log_loss},
    )
    for name, model in models.items()
}

# %%
# Of the models made of logistic regressions, those that let labels depend on each other get far
# more rows wholly right. Nearest neighbours suit these images better than any of them: like the
# rest of their pixels, the labels of similar images are the same.

figure, axes = plt.subplots(1, 2, figsize=(9, 3), sharey=True, layout="constrained")
for ax, key, sign, title in (
    (axes[0], "test_exact", 1, "exact match"),
    (axes[1], "test_log_loss", -1, "joint log-loss (less is better)"),
):
    folds = sign * np.array([results[name][key] for name in models])
    ax.barh(list(models), folds.mean(axis=1), xerr=folds.std(axis=1, ddof=1) / 3**0.5)
    ax.set_title(title)
    ax.spines[["top", "right"]].set_visible(False)
axes[0].invert_yaxis()

for name, result in results.items():
    print(f"{name:<29} {result['test_exact'].mean():.3f} {-result['test_log_loss'].mean():6.3f}")
