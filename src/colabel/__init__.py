"""colabel learns P(y | x) for many labels at once, and answers any question about it."""

from colabel._version import __version__
from colabel.decide import decide
from colabel.joint import Independent, Joint, TopK, Tree
from colabel.labels import LabelSpace
from colabel.models import CTBN, BinaryRelevance

__all__ = [
    "CTBN",
    "BinaryRelevance",
    "Independent",
    "Joint",
    "LabelSpace",
    "TopK",
    "Tree",
    "__version__",
    "decide",
]
