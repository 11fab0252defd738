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
    MLkNN,
    PairwiseCRF,
    ProbabilisticClassifierChain,
    StackedBinaryRelevance,
    ThresholdedClassifier,
)

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
    "Mixture",
    "PairwiseCRF",
    "PairwiseField",
    "ProbabilisticClassifierChain",
    "StackedBinaryRelevance",
    "ThresholdedClassifier",
    "TopK",
    "Tree",
    "__version__",
    "decide",
]
