"""Learning the generative mixture over label dependency sets (LDS)."""

from colabel.learn.lds.em import EMOptions, EMTrace, LabelledCounts, fit_parameters
from colabel.learn.lds.network import LDSNetwork
from colabel.learn.lds.sets import DependencySets, FeatureColumns

__all__ = [
    "DependencySets",
    "EMOptions",
    "EMTrace",
    "FeatureColumns",
    "LDSNetwork",
    "LabelledCounts",
    "fit_parameters",
]
