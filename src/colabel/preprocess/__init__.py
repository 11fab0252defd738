"""Before learning: features in bins, a choice among features, features of kernels and forests."""

from colabel.preprocess.feature_bins import FeatureBins
from colabel.preprocess.forest_features import ForestFeatures
from colabel.preprocess.kernel_features import KernelFeatures

__all__ = ["FeatureBins", "ForestFeatures", "KernelFeatures"]
