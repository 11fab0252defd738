"""Chains of classifiers: greedy, probabilistic, and ensembles of them."""

from colabel.models.chain.chains import (
    ClassifierChain,
    EnsembleOfChains,
    ProbabilisticClassifierChain,
)
from colabel.models.chain.learning import (
    LearnedChain,
    completed_by_chain,
    earlier_columns,
    learn_chain,
    mutual_information,
    order_by_dependence,
    resolve_scales,
)

__all__ = [
    "ClassifierChain",
    "EnsembleOfChains",
    "LearnedChain",
    "ProbabilisticClassifierChain",
    "completed_by_chain",
    "earlier_columns",
    "learn_chain",
    "mutual_information",
    "order_by_dependence",
    "resolve_scales",
]
