from colabel.preprocess.feature_bins import FeatureBins as FeatureBins
from colabel.preprocess.forest_features import BoostedFeatures as BoostedFeatures
from colabel.preprocess.forest_features import ForestFeatures as ForestFeatures
from colabel.preprocess.kernel_features import KernelFeatures as KernelFeatures
from colabel.preprocess.spline_features import SplineFeatures as SplineFeatures

__all__ = [
    "BoostedFeatures",
    "FeatureBins",
    "ForestFeatures",
    "KernelFeatures",
    "SplineFeatures",
]
