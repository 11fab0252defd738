"""Before learning: features in bins, a choice among features, and features of a kernel."""

from colabel.preprocess.entropy_bins import EntropyBins
from colabel.preprocess.feature_bins import FeatureBins
from colabel.preprocess.kernel_features import KernelFeatures
from colabel.preprocess.selection import CorrelationSelector

__all__ = ["CorrelationSelector", "EntropyBins", "FeatureBins", "KernelFeatures"]
