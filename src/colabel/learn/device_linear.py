"""The built-in regressions on a device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from colabel.core.arrays import Array, Indices
from colabel.core.progress import progress_bar
from colabel.learn.conditional import (
    Folds,
    GainOver,
    Gains,
    HeldOutScores,
    Offsets,
    RowGroup,
    TrainingData,
)
from colabel.learn.design import Design
from colabel.learn.glm.device import DeviceLBFGS
from colabel.learn.glm.device.gains import PartData, part_gains
from colabel.learn.glm.device.solver import AnyMatrix, matrix_of
from colabel.learn.glm.lbfgs import LBFGS
from colabel.learn.linear import LOOSER, BatchSizes, LinearLearner, LinearLearning, warn_of_failures

Result = TypeVar("Result")

# The host's share of a batch goes on in other threads while the device solves one.
_BATCH = BatchSizes(scores=1 << 21, narrowest=64, most=1 << 25)


@dataclass(frozen=True)
class DeviceLearning(LinearLearning):
    """A learner on its rows, which a device holds as one dense matrix, or as they are.

    Attributes
    ----------
    device : str
        A torch device.
    matrix : AnyMatrix
        The rows of the design.
    """

    device: str
    matrix: AnyMatrix

    @classmethod
    def of(
        cls,
        learner: LinearLearner,
        data: TrainingData,
        design: Design,
        frequencies: tuple[Array, ...],
        device: str,
    ) -> DeviceLearning:
        """Send the rows of a design."""
        return cls(learner, data, design, frequencies, device, matrix_of(design, device))

    def _solver(self, looser: float = 1.0) -> LBFGS:
        learner = self.learner
        return DeviceLBFGS(
            looser * learner.tol,
            learner.max_iter,
            device=self.device,
            known=(self.design.rows, self.matrix),
        )

    def _batch_sizes(self) -> BatchSizes:
        return _BATCH

    def cross_validate(
        self,
        groups: Sequence[RowGroup],
        folds: Folds,
        reduce: Callable[[RowGroup, HeldOutScores], Result],
        description: str,
        *,
        start: Offsets | None = None,
        keep: bool = False,
        offsets: Offsets | None = None,
        constant: bool = False,
    ) -> list[Result]:
        """See `Learning.cross_validate`; gains of many groups are counted on the device."""
        options: dict[str, Any] = {
            "start": start,
            "keep": keep,
            "offsets": offsets,
            "constant": constant,
        }
        parts = all(group.rows is not None and group.allowed is None for group in groups)
        if not isinstance(reduce, GainOver) or not parts or start is None or offsets is not None:
            return super().cross_validate(groups, folds, reduce, description, **options)
        found: list[Any] = self._gains(groups, folds, reduce, description, start)
        # Labels of more than two values have a softmax, group by group.
        binary = np.array(self.data.cardinalities) == 2
        rest = [np.flatnonzero(~binary[group.targets]) for group in groups]
        if any(map(len, rest)):
            others = [group.take(own) for group, own in zip(groups, rest, strict=True)]
            more = super().cross_validate(others, folds, reduce, description, **options)
            whole: Any
            other: Any
            for gains, own, other in zip(found, rest, more, strict=True):
                for whole, part in zip(gains, other, strict=True):
                    whole[own] = part
        return found

    def _gains(
        self,
        groups: Sequence[RowGroup],
        folds: Folds,
        over: GainOver,
        description: str,
        start: Offsets,
    ) -> list[Gains]:
        data, learner = self.data, self.learner
        binary = np.array(data.cardinalities) == 2
        parts = np.zeros((len(groups), data.n_rows), dtype=bool)
        wanted = np.zeros((len(groups), data.n_labels), dtype=bool)
        for part, tasks, group in zip(parts, wanted, groups, strict=True):
            part[group.rows] = True
            tasks[group.targets] = binary[group.targets]
        sent = PartData.of(
            self.matrix,
            np.where(binary, data.codes, -1).T,
            data.row_weights,
            parts,
            np.array([own[-1] for own in self.frequencies]),
            over.log_prob,
        )
        with progress_bar(description, folds.n_folds, shown=learner.verbose) as advance:
            found = part_gains(
                sent,
                wanted,
                learner.grid,
                folds.of_row,
                folds.n_folds,
                self._solver(LOOSER),
                self._entered(start, np.flatnonzero(binary)),
                advance,
            )
        warn_of_failures(found.n_failed)
        every = (found.gains, found.noise, found.choice)
        return [
            Gains(*(whole[at, group.targets] for whole in every)) for at, group in enumerate(groups)
        ]

    def _entered(self, start: Offsets, labels: Indices) -> Array:
        """Coefficients (G, F, d, q) of the labels in the coordinates of the design."""
        own = self.design.enter(np.stack([start[label][:, :, 0] for label in labels], axis=2))
        every = np.zeros((*own.shape[:2], self.data.n_labels, own.shape[3]))
        every[:, :, labels] = own
        return every
