"""colabel learns P(y | x) for many labels at once, and answers any question about it."""

from colabel._version import __version__
from colabel.decide import decide
from colabel.joint import (
    BayesNetwork,
    Chain,
    Independent,
    Joint,
    Mixture,
    PairwiseField,
    TopK,
    Tree,
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
    "BayesNetwork",
    "BinaryRelevance",
    "Chain",
    "ClassifierChain",
    "CollectiveCRF",
    "EnsembleOfChains",
    "Independent",
    "Joint",
    "LDSMixture",
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
    "__version__",
    "decide",
    "joint_of",
    "load",
    "save",
]
