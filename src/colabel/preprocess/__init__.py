"""Before learning: features in bins, a choice among features, features of kernels and forests."""

from colabel.preprocess.feature_bins import FeatureBins
from colabel.preprocess.forest_features import BoostedFeatures, ForestFeatures
from colabel.preprocess.kernel_features import KernelFeatures
from colabel.preprocess.spline_features import SplineFeatures

__all__ = [
    "BoostedFeatures",
    "FeatureBins",
    "ForestFeatures",
    "KernelFeatures",
    "SplineFeatures",
]
