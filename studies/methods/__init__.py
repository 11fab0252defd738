"""Methods that only the papers' tables need; they have no joint distribution."""

from studies.methods.liblinear import LiblinearRegression
from studies.methods.mmoc import MaxMarginOutputCoding
from studies.methods.naive_bayes import DiscreteNaiveBayes
from studies.methods.rank_svm import RankSVM
from studies.methods.selection import CorrelationSelector

__all__ = [
    "CorrelationSelector",
    "DiscreteNaiveBayes",
    "LiblinearRegression",
    "MaxMarginOutputCoding",
    "RankSVM",
]
