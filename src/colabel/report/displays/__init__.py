"""Displays in scikit-learn's manner: numbers first, drawn by `plot`."""

from colabel.report.displays.calibration import CalibrationDisplay
from colabel.report.displays.joint_probability import JointProbabilityDisplay
from colabel.report.displays.label_graph import LabelGraphDisplay

__all__ = ["CalibrationDisplay", "JointProbabilityDisplay", "LabelGraphDisplay"]
