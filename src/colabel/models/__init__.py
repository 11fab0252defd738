"""The estimators, one file or one package per published method."""

from colabel.models.base import JointClassifier, LabelClassifier
from colabel.models.bayes_nets.ensemble import BayesNetEnsemble
from colabel.models.binary_relevance import BinaryRelevance
from colabel.models.cdn.cdn import CDN
from colabel.models.chain.cc import ClassifierChain
from colabel.models.chain.ecc import EnsembleOfChains
from colabel.models.chain.pcc import ProbabilisticClassifierChain
from colabel.models.conformal_sets import ConformalSets
from colabel.models.ctbn import CTBN
from colabel.models.field.collective_crf import CollectiveCRF
from colabel.models.field.pairwise_crf import PairwiseCRF
from colabel.models.forest.joint_forest import JointForest
from colabel.models.lazy import LazyJoint
from colabel.models.lds.mixture import LDSMixture
from colabel.models.margin.mmoc import MaxMarginOutputCoding
from colabel.models.margin.rank_svm import RankSVM
from colabel.models.mixture_of_trees import MixtureOfTrees
from colabel.models.naive_bayes import DiscreteNaiveBayes
from colabel.models.neighbours.iblr import IBLR
from colabel.models.neighbours.mlknn import MLkNN
from colabel.models.stack import JointStack
from colabel.models.stacking.stacked import StackedBinaryRelevance
from colabel.models.thresholds import ThresholdedClassifier

__all__ = [
    "CDN",
    "CTBN",
    "IBLR",
    "BayesNetEnsemble",
    "BinaryRelevance",
    "ClassifierChain",
    "CollectiveCRF",
    "ConformalSets",
    "DiscreteNaiveBayes",
    "EnsembleOfChains",
    "JointClassifier",
    "JointForest",
    "JointStack",
    "LDSMixture",
    "LabelClassifier",
    "LazyJoint",
    "MLkNN",
    "MaxMarginOutputCoding",
    "MixtureOfTrees",
    "PairwiseCRF",
    "ProbabilisticClassifierChain",
    "RankSVM",
    "StackedBinaryRelevance",
    "ThresholdedClassifier",
]
