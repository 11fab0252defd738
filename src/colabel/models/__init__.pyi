from colabel.models.around import ConformalSets as ConformalSets
from colabel.models.around import RuledClassifier as RuledClassifier
from colabel.models.around import ThresholdedClassifier as ThresholdedClassifier
from colabel.models.base import JointClassifier as JointClassifier
from colabel.models.base import LabelClassifier as LabelClassifier
from colabel.models.bayes_nets import BayesNetEnsemble as BayesNetEnsemble
from colabel.models.binary_relevance import BinaryRelevance as BinaryRelevance
from colabel.models.binary_relevance import StackedBinaryRelevance as StackedBinaryRelevance
from colabel.models.cdn import CDN as CDN
from colabel.models.chain.chains import ClassifierChain as ClassifierChain
from colabel.models.chain.chains import EnsembleOfChains as EnsembleOfChains
from colabel.models.chain.chains import (
    ProbabilisticClassifierChain as ProbabilisticClassifierChain,
)
from colabel.models.ctbn import CTBN as CTBN
from colabel.models.field import CollectiveCRF as CollectiveCRF
from colabel.models.field import PairwiseCRF as PairwiseCRF
from colabel.models.forest.joint_forest import JointForest as JointForest
from colabel.models.lazy import LazyJoint as LazyJoint
from colabel.models.lds.mixture import LDSMixture as LDSMixture
from colabel.models.mixture_of_trees.mixture import MixtureOfTrees as MixtureOfTrees
from colabel.models.neighbours import IBLR as IBLR
from colabel.models.neighbours import MLkNN as MLkNN
from colabel.models.stack.joint_stack import JointStack as JointStack
from colabel.models.with_estimator import HardDecisions as HardDecisions

__all__: list[str]
