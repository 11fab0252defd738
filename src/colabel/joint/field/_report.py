"""What a pairwise field says about how it was answered."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from colabel.core.arrays import Array, Flags, Indices
from colabel.joint.exactness import Exactness, common

_SHOWN = 6  # how many labels of a component are named


@dataclass(frozen=True, eq=False)
class Convergence:
    """How an iteration ended for each row.

    Attributes
    ----------
    converged : (n,) array of bool
        Whether the last residual was at most the tolerance.
    iterations : (n,) array of int
        Iterations done.
    residual : (n,) array
        Largest change of a message, in nats, in the last iteration.
    """

    converged: Flags
    iterations: Indices
    residual: Array

    def to_text(self) -> str:
        """Return one line for people."""
        if not len(self.converged):
            return "no rows"
        return (
            f"{int(self.converged.sum())} of {len(self.converged)} rows converged, "
            f"{int(np.median(self.iterations))} iterations (median), "
            f"largest residual {self.residual.max():.1e}"
        )


@dataclass(frozen=True, eq=False)
class ComponentReport:
    """How one connected component of the graph is answered.

    Attributes
    ----------
    labels : tuple of str
        Names of its labels.
    engine : str
        "closed_form" for a label without edges, otherwise the engine's name.
    exact : Exactness
        The questions answered exactly.
    n_states : int
        Number of label vectors of the component.
    treewidth : int or None
        Width of the elimination order, where one was sought and found within the budget.
    convergence : Convergence or None
        Of belief propagation.
    note : str
        Anything else worth knowing, such as how the mode was found.
    """

    labels: tuple[str, ...]
    engine: str
    exact: Exactness
    n_states: int
    treewidth: int | None = None
    convergence: Convergence | None = None
    note: str = ""

    def to_text(self) -> str:
        """Return one line for people."""
        shown = ", ".join(self.labels[:_SHOWN]) + (", …" if len(self.labels) > _SHOWN else "")
        parts = [
            f"{len(self.labels)} label{'s' * (len(self.labels) > 1)} ({shown}): {self.engine}",
            str(self.exact),
        ]
        if self.treewidth is not None:
            parts.append(f"treewidth at most {self.treewidth}")
        if self.convergence is not None:
            parts.append(self.convergence.to_text())
        if self.note:
            parts.append(self.note)
        return ", ".join(parts)


@dataclass(frozen=True, eq=False, repr=False)
class FieldReport:
    """How a pairwise field is answered, component by component.

    Attributes
    ----------
    components : tuple of ComponentReport
        One per connected component of the graph.
    """

    components: tuple[ComponentReport, ...]

    @property
    def exact(self) -> Exactness:
        """The questions answered exactly in all components."""
        return common(part.exact for part in self.components)

    @property
    def converged(self) -> Flags | None:
        """Whether each row converged in all components (n,); None if nothing iterates."""
        found = [c.convergence.converged for c in self.components if c.convergence is not None]
        return np.logical_and.reduce(found) if found else None

    def to_text(self) -> str:
        """Return one line a component."""
        return "\n".join(part.to_text() for part in self.components)

    def __repr__(self) -> str:
        return self.to_text()
