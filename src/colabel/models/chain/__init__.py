"""Chains of classifiers: greedy, probabilistic, and ensembles of them."""

from colabel.models.chain.cc import ClassifierChain
from colabel.models.chain.ecc import EnsembleOfChains
from colabel.models.chain.pcc import ProbabilisticClassifierChain

__all__ = ["ClassifierChain", "EnsembleOfChains", "ProbabilisticClassifierChain"]
