"""colabel learns P(y | x) for many labels at once, and answers any question about it."""

from typing import Any

from colabel._version import __version__
from colabel.decide import decide
from colabel.joint import (
    Chain,
    Independent,
    Joint,
    LDSPosterior,
    Mixture,
    PairwiseField,
    TopK,
    Tree,
    VectorList,
)
from colabel.labels import LabelSpace
from colabel.models import (
    CDN,
    CTBN,
    IBLR,
    BayesNetEnsemble,
    BinaryRelevance,
    ClassifierChain,
    CollectiveCRF,
    EnsembleOfChains,
    LDSMixture,
    MaxMarginOutputCoding,
    MLkNN,
    PairwiseCRF,
    ProbabilisticClassifierChain,
    RankSVM,
    StackedBinaryRelevance,
    ThresholdedClassifier,
)
from colabel.models.wrapped import joint_of
from colabel.saving import load, save

__all__ = [
    "CDN",
    "CTBN",
    "IBLR",
    "BayesNetEnsemble",
    "BinaryRelevance",
    "Chain",
    "ClassifierChain",
    "CollectiveCRF",
    "EnsembleOfChains",
    "Independent",
    "Joint",
    "LDSMixture",
    "LDSPosterior",
    "LabelSpace",
    "MLkNN",
    "MaxMarginOutputCoding",
    "Mixture",
    "PairwiseCRF",
    "PairwiseField",
    "ProbabilisticClassifierChain",
    "RankSVM",
    "StackedBinaryRelevance",
    "ThresholdedClassifier",
    "TopK",
    "Tree",
    "VectorList",
    "__version__",
    "decide",
    "joint_of",
    "load",
    "save",
]


def __getattr__(name: str) -> Any:
    if name == "BayesNetwork":
        from colabel import joint

        return joint.BayesNetwork  # an old name, which says so
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
