"""Dependency networks: a conditional for each label, answered by Gibbs sampling or fixed points."""

from colabel.joint.gibbs.dependency_network import DependencyNetwork
from colabel.joint.gibbs.discrete_dependency_network import DiscreteDependencyNetwork
from colabel.joint.gibbs.sampler import Conditionals, LinearConditionals

__all__ = ["Conditionals", "DependencyNetwork", "DiscreteDependencyNetwork", "LinearConditionals"]
