from colabel.joint.base import Exactness as Exactness
from colabel.joint.base import Joint as Joint
from colabel.joint.base import TopK as TopK
from colabel.joint.chain import Chain as Chain
from colabel.joint.dependence import LabelDependence as LabelDependence
from colabel.joint.dependence import label_dependence as label_dependence
from colabel.joint.field import PairwiseField as PairwiseField
from colabel.joint.gibbs import Conditionals as Conditionals
from colabel.joint.gibbs import DependencyNetwork as DependencyNetwork
from colabel.joint.gibbs import DiscreteDependencyNetwork as DiscreteDependencyNetwork
from colabel.joint.gibbs import LinearConditionals as LinearConditionals
from colabel.joint.lds.posterior import LDSPosterior as LDSPosterior
from colabel.joint.mixture import Mixture as Mixture
from colabel.joint.reweighted import Reweighted as Reweighted
from colabel.joint.tree import Independent as Independent
from colabel.joint.tree import Tree as Tree
from colabel.joint.vectors import VectorList as VectorList

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
