"""The types a model file may name.

Every one of them is written out here, so that what a file can make is known without reading it: a
file that names any other class or function of colabel, or of anything else, is refused. Types
only hold what they are given; none does anything when it is made. A new model adds its line, and
`tests/saving/test_model_files.py` says which one is missing.
"""

from __future__ import annotations

import numpy as np

from colabel.decide import F1, Hamming, Jaccard, Subset
from colabel.joint.lds.network import LDSNetwork
from colabel.joint.lds.sets import DependencySets, FeatureColumns
from colabel.labels import LabelSpace
from colabel.learn.crf.layout import FieldLayout
from colabel.learn.crf.learner import FittedField
from colabel.learn.from_estimator import EstimatorModel, EstimatorModels
from colabel.learn.glm import FittedTasks
from colabel.learn.linear import LinearModels
from colabel.models import (
    CDN,
    CTBN,
    IBLR,
    BayesNetEnsemble,
    BinaryRelevance,
    ClassifierChain,
    CollectiveCRF,
    DiscreteNaiveBayes,
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
from colabel.models._cdn_conditionals import HardDecisions, LinearNetwork
from colabel.models._chain_learning import LearnedChain
from colabel.models._scores import ScoresAsLogOdds
from colabel.models.bayes_nets.tables import FeatureFactor
from colabel.models.discrete_features import DiscreteFeatures
from colabel.models.neighbours.neighbours import Neighbours
from colabel.tables.columns import Column
from colabel.tables.model import TableModel
from colabel.tables.preprocessing import Preprocessor
from colabel.tables.table_labels import LabelSource

TRUSTED_TYPES: tuple[type, ...] = (
    # models
    BayesNetEnsemble,
    BinaryRelevance,
    CDN,
    CTBN,
    ClassifierChain,
    CollectiveCRF,
    DiscreteNaiveBayes,
    EnsembleOfChains,
    IBLR,
    LDSMixture,
    MLkNN,
    MaxMarginOutputCoding,
    PairwiseCRF,
    ProbabilisticClassifierChain,
    RankSVM,
    StackedBinaryRelevance,
    ThresholdedClassifier,
    # what fitted models are made of
    DependencySets,
    DiscreteFeatures,
    EstimatorModel,
    EstimatorModels,
    FeatureColumns,
    FeatureFactor,
    FieldLayout,
    FittedField,
    FittedTasks,
    HardDecisions,
    LDSNetwork,
    LabelSpace,
    LearnedChain,
    LinearModels,
    LinearNetwork,
    Neighbours,
    ScoresAsLogOdds,
    # decisions
    F1,
    Hamming,
    Jaccard,
    Subset,
    # models of a user's table
    Column,
    LabelSource,
    Preprocessor,
    TableModel,
    # which scikit-learn's imputer keeps; a dtype made from a file can be nothing but a dtype
    np.dtype,
)


def trusted_names() -> list[str]:
    """Return the full names of the trusted types, as a model file writes them."""
    return [f"{kind.__module__}.{kind.__qualname__}" for kind in TRUSTED_TYPES]
