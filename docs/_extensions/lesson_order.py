"""The order of the lessons, from what everybody needs to what some do."""

from __future__ import annotations

from pathlib import Path

ORDER = (
    "plot_joint_and_marginals",
    "plot_label_tree",
    "plot_known_labels",
    "plot_hierarchy",
    "plot_feature_evidence",
    "plot_f1_decisions",
    "plot_compare_own_table",
    "plot_compare_models",
    "plot_calibration",
    "plot_label_graph",
)


class LessonOrder:
    """Sort key for sphinx-gallery: lessons that are not listed come last."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, file: str) -> tuple[int, str]:
        """Return the place of a lesson."""
        name = Path(file).stem
        return (ORDER.index(name) if name in ORDER else len(ORDER), name)
