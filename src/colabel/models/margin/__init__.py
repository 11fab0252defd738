"""Large margins without probabilities: ranking labels, and coding label vectors."""

from colabel.models.margin.mmoc import MaxMarginOutputCoding
from colabel.models.margin.rank_svm import RankSVM

__all__ = ["MaxMarginOutputCoding", "RankSVM"]
