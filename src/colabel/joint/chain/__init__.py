"""Chains: each label given all the labels before it, and the searches for their modes."""

from colabel.joint.chain._links import EstimatorLinks, LinearLink, LinearLinks, Links, TableLinks
from colabel.joint.chain._search import (
    BeamSearch,
    BranchAndBound,
    ChainSearch,
    EpsilonSearch,
    MonteCarlo,
    as_search,
)
from colabel.joint.chain.chain import Chain, as_order

__all__ = [
    "BeamSearch",
    "BranchAndBound",
    "Chain",
    "ChainSearch",
    "EpsilonSearch",
    "EstimatorLinks",
    "LinearLink",
    "LinearLinks",
    "Links",
    "MonteCarlo",
    "TableLinks",
    "as_order",
    "as_search",
]
