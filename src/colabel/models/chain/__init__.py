"""Chains of classifiers: greedy, probabilistic, and ensembles of them."""

from colabel.models.chain._learning import (
    NEEDS_EARLIER,
    LearnedChain,
    earlier_columns,
    learn_chain,
)
from colabel.models.chain._order import mutual_information, order_by_dependence
from colabel.models.chain._scales import resolve_scales
from colabel.models.chain.cc import ClassifierChain
from colabel.models.chain.ecc import EnsembleOfChains
from colabel.models.chain.pcc import ProbabilisticClassifierChain

__all__ = [
    "NEEDS_EARLIER",
    "ClassifierChain",
    "EnsembleOfChains",
    "LearnedChain",
    "ProbabilisticClassifierChain",
    "earlier_columns",
    "learn_chain",
    "mutual_information",
    "order_by_dependence",
    "resolve_scales",
]
