"""The generative mixture over label dependency sets, and the posterior of its labels."""

from colabel.joint.lds.network import DependencySets, FeatureColumns, LDSNetwork
from colabel.joint.lds.posterior import Inference, LDSPosterior, chosen_inference

__all__ = [
    "DependencySets",
    "FeatureColumns",
    "Inference",
    "LDSNetwork",
    "LDSPosterior",
    "chosen_inference",
]
