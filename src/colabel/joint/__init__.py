"""The families of Joint: distributions over label vectors, one per row of a batch."""

from colabel.joint._gibbs import Conditionals
from colabel.joint._gibbs_linear import LinearConditionals
from colabel.joint.base import Joint, TopK
from colabel.joint.bayes_network import BayesNetwork
from colabel.joint.chain import Chain
from colabel.joint.dependency_network import DependencyNetwork
from colabel.joint.discrete_dependency_network import DiscreteDependencyNetwork
from colabel.joint.independent import Independent
from colabel.joint.mixture import Mixture
from colabel.joint.pairwise_field import PairwiseField
from colabel.joint.tree import Tree

__all__ = [
    "BayesNetwork",
    "Chain",
    "Conditionals",
    "DependencyNetwork",
    "DiscreteDependencyNetwork",
    "Independent",
    "Joint",
    "LinearConditionals",
    "Mixture",
    "PairwiseField",
    "TopK",
    "Tree",
]
