from colabel.joint.chain._search import BeamSearch as BeamSearch
from colabel.joint.chain._search import BranchAndBound as BranchAndBound
from colabel.joint.chain._search import ChainSearch as ChainSearch
from colabel.joint.chain._search import EpsilonSearch as EpsilonSearch
from colabel.joint.chain._search import MonteCarlo as MonteCarlo
from colabel.joint.chain._search import as_search as as_search
from colabel.joint.chain.chain import Chain as Chain
from colabel.joint.chain.chain import as_order as as_order
from colabel.joint.chain.links import EstimatorLinks as EstimatorLinks
from colabel.joint.chain.links import LinearLink as LinearLink
from colabel.joint.chain.links import LinearLinks as LinearLinks
from colabel.joint.chain.links import Links as Links
from colabel.joint.chain.links import TableLinks as TableLinks

__all__ = [
    "BeamSearch",
    "BranchAndBound",
    "EpsilonSearch",
    "MonteCarlo",
]
