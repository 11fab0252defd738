"""Joining the opinions of several joints, by what they said about rows they had not seen."""

from colabel.learn.pool.pool import (
    HeldOutOpinions,
    LabelPrior,
    Pool,
    UnansweredError,
    ask_each,
    joined_vectors,
    learn_pool,
    opinions,
    pool_of,
    seen_vectors,
)

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
