"""Dependency networks: a conditional for each label, answered by Gibbs sampling or fixed points."""

from colabel.joint.gibbs.dependency_network import DependencyNetwork, DiscreteDependencyNetwork
from colabel.joint.gibbs.sampler import Conditionals, LinearConditionals

__all__ = ["Conditionals", "DependencyNetwork", "DiscreteDependencyNetwork", "LinearConditionals"]
