"""Chains: each label given all the labels before it, and the searches for their modes."""

from colabel.joint.chain._links import EstimatorLinks, LinearLink, LinearLinks, Links, TableLinks
from colabel.joint.chain._search import (
    ENUMERATION_LIMIT,
    BeamSearch,
    BranchAndBound,
    ChainSearch,
    EpsilonSearch,
    Exhaustive,
    MonteCarlo,
    as_search,
)
from colabel.joint.chain.chain import Chain, as_order

__all__ = [
    "ENUMERATION_LIMIT",
    "BeamSearch",
    "BranchAndBound",
    "Chain",
    "ChainSearch",
    "EpsilonSearch",
    "EstimatorLinks",
    "Exhaustive",
    "LinearLink",
    "LinearLinks",
    "Links",
    "MonteCarlo",
    "TableLinks",
    "as_order",
    "as_search",
]
