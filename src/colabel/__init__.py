"""colabel learns P(y | x) for many labels at once, and answers any question about it."""

from typing import TYPE_CHECKING

from colabel._version import __version__
from colabel.core.lazy import export_lazily

if TYPE_CHECKING:
    from colabel.comparing import audit as audit
    from colabel.comparing import compare as compare
    from colabel.comparing import describe as describe
    from colabel.comparing import evaluate as evaluate
    from colabel.decide import decide as decide
    from colabel.decide import next_question as next_question
    from colabel.joint import Chain as Chain
    from colabel.joint import Independent as Independent
    from colabel.joint import Joint as Joint
    from colabel.joint import LDSPosterior as LDSPosterior
    from colabel.joint import Mixture as Mixture
    from colabel.joint import PairwiseField as PairwiseField
    from colabel.joint import Reweighted as Reweighted
    from colabel.joint import TopK as TopK
    from colabel.joint import Tree as Tree
    from colabel.joint import VectorList as VectorList
    from colabel.labels import LabelSpace as LabelSpace
    from colabel.models import CDN as CDN
    from colabel.models import CTBN as CTBN
    from colabel.models import IBLR as IBLR
    from colabel.models import BayesNetEnsemble as BayesNetEnsemble
    from colabel.models import BinaryRelevance as BinaryRelevance
    from colabel.models import ClassifierChain as ClassifierChain
    from colabel.models import CollectiveCRF as CollectiveCRF
    from colabel.models import ConformalSets as ConformalSets
    from colabel.models import EnsembleOfChains as EnsembleOfChains
    from colabel.models import JointForest as JointForest
    from colabel.models import JointStack as JointStack
    from colabel.models import LDSMixture as LDSMixture
    from colabel.models import MixtureOfTrees as MixtureOfTrees
    from colabel.models import MLkNN as MLkNN
    from colabel.models import PairwiseCRF as PairwiseCRF
    from colabel.models import ProbabilisticClassifierChain as ProbabilisticClassifierChain
    from colabel.models import RuledClassifier as RuledClassifier
    from colabel.models import StackedBinaryRelevance as StackedBinaryRelevance
    from colabel.models import ThresholdedClassifier as ThresholdedClassifier
    from colabel.models.evidence import feature_evidence as feature_evidence
    from colabel.models.wrapped import joint_of as joint_of
    from colabel.preprocess import BoostedFeatures as BoostedFeatures
    from colabel.preprocess import ForestFeatures as ForestFeatures
    from colabel.preprocess import KernelFeatures as KernelFeatures
    from colabel.preprocess import SplineFeatures as SplineFeatures
    from colabel.rules import Rules as Rules
    from colabel.saving import load as load
    from colabel.saving import save as save
    from colabel.tables import TableModel as TableModel

# scikit-learn and numba take a second to import: nobody waits for them before asking for a model.
__all__ = [
    "__version__",
    *export_lazily(
        __name__,
        {
            "colabel.decide": ["decide", "next_question"],
            "colabel.comparing": ["audit", "compare", "describe", "evaluate"],
            "colabel.joint": [
                "Chain",
                "Independent",
                "Joint",
                "LDSPosterior",
                "Mixture",
                "PairwiseField",
                "Reweighted",
                "TopK",
                "Tree",
                "VectorList",
            ],
            "colabel.labels": ["LabelSpace"],
            "colabel.models": [
                "CDN",
                "CTBN",
                "IBLR",
                "BayesNetEnsemble",
                "BinaryRelevance",
                "ClassifierChain",
                "CollectiveCRF",
                "ConformalSets",
                "EnsembleOfChains",
                "JointStack",
                "JointForest",
                "LDSMixture",
                "MixtureOfTrees",
                "MLkNN",
                "PairwiseCRF",
                "ProbabilisticClassifierChain",
                "RuledClassifier",
                "StackedBinaryRelevance",
                "ThresholdedClassifier",
            ],
            "colabel.models.evidence": ["feature_evidence"],
            "colabel.models.wrapped": ["joint_of"],
            "colabel.preprocess": [
                "BoostedFeatures",
                "ForestFeatures",
                "KernelFeatures",
                "SplineFeatures",
            ],
            "colabel.rules": ["Rules"],
            "colabel.saving": ["load", "save"],
            "colabel.tables": ["TableModel"],
        },
    ),
]
