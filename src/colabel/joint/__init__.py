"""The families of Joint: distributions over label vectors, one per row of a batch."""

import warnings
from typing import Any

from colabel.joint._gibbs import Conditionals
from colabel.joint._gibbs_linear import LinearConditionals
from colabel.joint.base import Joint, TopK
from colabel.joint.chain import Chain
from colabel.joint.dependency_network import DependencyNetwork
from colabel.joint.discrete_dependency_network import DiscreteDependencyNetwork
from colabel.joint.exactness import Exactness
from colabel.joint.independent import Independent
from colabel.joint.lds import LDSPosterior
from colabel.joint.mixture import Mixture
from colabel.joint.pairwise_field import PairwiseField
from colabel.joint.tree import Tree
from colabel.joint.vectors import VectorList

__all__ = [
    "Chain",
    "Conditionals",
    "DependencyNetwork",
    "DiscreteDependencyNetwork",
    "Exactness",
    "Independent",
    "Joint",
    "LDSPosterior",
    "LinearConditionals",
    "Mixture",
    "PairwiseField",
    "TopK",
    "Tree",
    "VectorList",
]


def __getattr__(name: str) -> Any:
    if name == "BayesNetwork":
        warnings.warn(
            "BayesNetwork is now called LDSPosterior, after what it is: the posterior of an LDS "
            "mixture. The old name will go.",
            FutureWarning,
            stacklevel=2,
        )
        return LDSPosterior
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
