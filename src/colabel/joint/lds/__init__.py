"""The posterior of labels under a mixture over label dependency sets."""

from colabel.joint.lds.posterior import Inference, LDSPosterior, chosen_inference

__all__ = ["Inference", "LDSPosterior", "chosen_inference"]
