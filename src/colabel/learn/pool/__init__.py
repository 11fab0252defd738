"""Joining the opinions of several joints, by what they said about rows they had not seen."""

from colabel.learn.pool._opinions import HeldOutOpinions, UnansweredError, ask_each, opinions
from colabel.learn.pool.pool import Pool, learn_pool, pool_of
from colabel.learn.pool.prior import LabelPrior, joined_vectors, seen_vectors

__all__ = [
    "HeldOutOpinions",
    "LabelPrior",
    "Pool",
    "UnansweredError",
    "ask_each",
    "joined_vectors",
    "learn_pool",
    "opinions",
    "pool_of",
    "seen_vectors",
]
