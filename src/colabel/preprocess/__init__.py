"""Before learning: continuous features into bins, a choice among features, new ones."""

from colabel.preprocess.entropy_bins import EntropyBins
from colabel.preprocess.feature_bins import FeatureBins
from colabel.preprocess.forest_features import ForestFeatures
from colabel.preprocess.selection import CorrelationSelector

__all__ = ["CorrelationSelector", "EntropyBins", "FeatureBins", "ForestFeatures"]
