"""The rows of groups on a device: as many groups and targets in a batch as it holds.

Groups that have most of the rows share all of them and skip the others by their masks; the rows of
smaller groups are gathered, and groups of about the same size are one batched product. Of rows
that stay sparse on the device all groups are masked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from colabel.core.arrays import Indices, is_sparse, like
from colabel.learn.design import Design
from colabel.learn.glm.device import GroupedRows, device_for_rows, free_memory, padded, sent_rows
from colabel.learn.glm.path import LocalRows
from colabel.learn.linear import LOOSER, Batch, RowsInMemory

# Below this many multiplications a pass, the device's launches cost more than the work.
LEAST_WORK = 1 << 28
# Groups with a larger share of the rows than this are masked, others gathered.
WIDE = 0.3
# Gathered groups are padded to the largest of their batch: at most by this factor.
_PADDING = 1.5
# Numbers of a batch for each score, each coefficient and each number of gathered rows.
_PER_SCORE, _PER_COEF, _PER_GATHERED = 8, 40, 3
_SIZES = (1 << 21, 64, 1 << 25)


@dataclass(frozen=True)
class RowsOnDevice:
    """See `RowsInMemory`.

    Attributes
    ----------
    here : RowsInMemory
    whole : Design
        All rows on the device, or their constant alone.
    codes : (d, n)
    fold : (n,) or None
    room : int
        Numbers that a batch may have.
    """

    here: RowsInMemory
    whole: Any
    codes: Any
    fold: Any
    room: int
    n_jobs = 1  # one batch has the whole device

    @classmethod
    def of(cls, here: RowsInMemory) -> RowsOnDevice | None:
        """Send the rows, unless there is little to do; None: they stay in memory."""
        learning, design = here.learning, here.learning.design
        n_scores = sum(here.n_rows(g) * len(own.targets) for g, own in enumerate(here.groups))
        if n_scores * design.n_coordinates < LEAST_WORK:
            return None
        stored = design.rows.nnz if is_sparse(design.rows) else None
        shape = design.n_rows, design.n_coordinates
        device, dense = device_for_rows(learning.learner.device, *shape, stored)
        if device is None:
            return None
        tol = learning.learner.tol * (1.0 if here.groups[0].rows is None else LOOSER)
        key = (device, tol >= 1e-3)
        if key not in learning.known:
            learning.known[key] = sent_rows(design, device, tol, dense)
        whole = learning.known[key]
        if here.constant:
            ones = Design(np.ones((design.n_rows, 1)), None, design.weight, design.coordinates)
            whole = sent_rows(ones, device, tol, True)
        codes = like(np.ascontiguousarray(learning.data.codes.T, dtype=np.int16), whole.weight)
        fold = None if here.folds is None else like(here.folds.of_row, whole.weight)
        return cls(here, whole, codes, fold, free_memory(device) // 8)

    @property
    def groups(self) -> Any:
        return self.here.groups

    def _masked(self, group: int) -> bool:
        return self.whole.columns is not None or self.here.n_rows(group) > WIDE * self.whole.n_rows

    def batches(self, n_fits: int) -> list[Batch]:
        """Targets of as many groups together as there is room for, which are masked or gathered."""
        found: list[list[Batch]] = []
        kinds: list[tuple[int, bool]] = []
        q, n_targets, n_rows = self.whole.n_coordinates, 0, 0
        small = self.here.batches(n_fits, _SIZES)
        for batch in sorted(small, key=lambda own: (own.n_classes, not self._masked(own.group[0]))):
            kind = batch.n_classes, self._masked(batch.group[0])
            own = self.whole.n_rows if kind[1] else max(1, self.here.n_rows(batch.group[0]))
            together = bool(kinds) and kinds[-1] == kind and n_rows <= _PADDING * own + 32
            if together:
                n_scores = (n_targets + len(batch.label)) * n_fits * batch.n_classes
                gathered = 0 if kind[1] else (len(found[-1]) + 1) * n_rows * q * _PER_GATHERED
                needed = n_scores * (_PER_SCORE * n_rows + _PER_COEF * q) + gathered
                together = needed <= self.room
            if together:
                found[-1].append(batch)
                n_targets += len(batch.label)
            else:
                found.append([batch])
                kinds.append(kind)
                n_targets, n_rows = len(batch.label), own
        merged = []
        for parts in found:
            group, position, label = (np.concatenate([own[i] for own in parts]) for i in range(3))
            merged.append(Batch(group, position, label, parts[0].n_classes))
        return merged

    def rows(self, batch: Batch) -> tuple[LocalRows, Indices, Indices]:
        """See `RowsInMemory.rows`."""
        here, whole = self.here, self.whole
        coordinates = here.learning.design
        if here.constant:
            coordinates = coordinates.constants(np.zeros(0, dtype=np.intp))
        groups, group = np.unique(batch.group, return_inverse=True)
        rows = [here.groups[g].rows for g in groups]
        every = np.arange(whole.n_rows)
        rows = [every if own is None else own for own in rows]
        labels, label = np.unique(batch.label, return_inverse=True)
        codes, design, fold = self.codes[labels], whole, self.fold
        if self._masked(int(groups[0])):
            at, inside = None, np.zeros((len(groups), whole.n_rows))
            for own, part in zip(inside, rows, strict=True):
                own[part] = 1.0
        else:
            index, inside = padded(rows)
            at = like(index, codes)[group]
            weight = whole.weight[index] * self._sent(inside)
            design = GroupedRows.of(whole.rows[index], weight, group, is_sparse(coordinates.rows))
            fold = None if fold is None else fold[index]

        def of_tasks(known: Any) -> Any:
            """What is known (L, ..., n) of the labels for the rows of each task."""
            if at is None:
                return known[label]
            task = label.reshape(-1, *[1] * (known.ndim - 1))
            score = [like(np.arange(known.shape[1]), codes)[:, None]] if known.ndim > 2 else []
            return known[(task, *score, at.reshape(len(label), *[1] * len(score), -1))]

        codes, member = of_tasks(codes), self._sent(inside)
        codes[member[group] == 0.0] = -1
        offset = over = None
        if here.offsets is not None:
            offset = of_tasks(self._sent(np.stack([here.offsets[i] for i in labels])))
        if here.over is not None:
            over = of_tasks(self._sent(np.stack([here.over[i] for i in labels])))
        shared = member if at is None else None
        local = LocalRows(design, codes, fold, offset, over, coordinates, shared)
        return local, group, np.arange(len(label))

    def _sent(self, array: Any) -> Any:
        return like(array, self.codes).to(self.whole.weight.dtype)
