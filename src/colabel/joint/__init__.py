"""The families of Joint: distributions over label vectors, one per row of a batch."""

from colabel.joint.base import Joint, TopK
from colabel.joint.chain import Chain
from colabel.joint.dependence import LabelDependence, label_dependence
from colabel.joint.exactness import Exactness
from colabel.joint.field import PairwiseField
from colabel.joint.gibbs import (
    Conditionals,
    DependencyNetwork,
    DiscreteDependencyNetwork,
    LinearConditionals,
)
from colabel.joint.lds.posterior import LDSPosterior
from colabel.joint.mixture import Mixture
from colabel.joint.reweighted import Reweighted
from colabel.joint.tree import Independent, Tree
from colabel.joint.vectors import VectorList

__all__ = [
    "Chain",
    "Conditionals",
    "DependencyNetwork",
    "DiscreteDependencyNetwork",
    "Exactness",
    "Independent",
    "Joint",
    "LDSPosterior",
    "LabelDependence",
    "LinearConditionals",
    "Mixture",
    "PairwiseField",
    "Reweighted",
    "TopK",
    "Tree",
    "VectorList",
    "label_dependence",
]
