"""What several models say of their parameters, and labels that must be complete."""

from __future__ import annotations

from colabel.labels import LabelSpace, MissingLabelsError
from colabel.learn.conditional import TrainingData

# Laplace's one, and less for rare labels and values.
DEFAULT_SMOOTHING = (0.01, 0.1, 1.0)


def refuse_missing(data: TrainingData, space: LabelSpace, reason: str) -> None:
    """Raise MissingLabelsError unless every label is known; the `reason` is a clause."""
    n_missing, row, label = data.missing_labels
    if n_missing:
        raise MissingLabelsError(
            f"y has {n_missing} missing labels (the first is {space.names[label]!r} in row"
            f" {row}), but {reason}. Leave out or fill in these rows, or use BinaryRelevance or"
            " CTBN, which learn from the labels a row has."
        )
