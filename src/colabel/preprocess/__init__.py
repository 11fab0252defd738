"""Before learning: continuous features into bins, and a choice among features."""

from colabel.preprocess.entropy_bins import EntropyBins
from colabel.preprocess.feature_bins import FeatureBins
from colabel.preprocess.selection import CorrelationSelector

__all__ = ["CorrelationSelector", "EntropyBins", "FeatureBins"]
