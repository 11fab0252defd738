"""Chains of classifiers: greedy, probabilistic, and ensembles of them."""

from colabel.models.chain.chains import (
    ClassifierChain,
    EnsembleOfChains,
    ProbabilisticClassifierChain,
)
from colabel.models.chain.learning import (
    NEEDS_EARLIER,
    LearnedChain,
    earlier_columns,
    learn_chain,
    mutual_information,
    order_by_dependence,
    resolve_scales,
)

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
