"""How a pairwise field is asked: which engine, with how much memory, how long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from colabel.core.parameters import check_choice, check_integer, check_positive

Engine = Literal["auto", "enumeration", "junction_tree", "belief_propagation", "gibbs"]
ModeEngine = Literal["auto", "icm", "toulbar2"]

# Bytes per entry at work: the tables in double precision, and as much again on the way.
_BYTES = 16
_LEAST = {"memory": 1, "max_iter": 1, "n_chains": 1, "n_sweeps": 1, "burn_in": 0}


@dataclass(frozen=True)
class FieldOptions:
    """Options of `PairwiseField`; see there."""

    engine: Engine = "auto"
    mode_engine: ModeEngine = "auto"
    memory: int = 2**24
    damping: float = 0.3
    tol: float = 1e-6
    max_iter: int = 200
    n_chains: int = 4
    n_sweeps: int = 500
    burn_in: int = 100
    random_state: int = 0
    n_jobs: int | None = None

    def __post_init__(self) -> None:
        for name, choices in (("engine", Engine), ("mode_engine", ModeEngine)):
            check_choice(name, getattr(self, name), get_args(choices))
        for name, least in _LEAST.items():
            check_integer(name, getattr(self, name), least)
        if not 0.0 <= self.damping < 1.0:
            raise ValueError(
                f"damping={self.damping!r} must be at least 0 and below 1: it is the share of the "
                "old message that stays."
            )
        check_positive("tol", self.tol)

    @property
    def most_entries(self) -> int:
        """How many entries the tables of one row may have in all."""
        return self.memory // _BYTES
