"""The rows of groups on a device: as many groups and targets in a batch as it holds.

Groups that have most of the rows share all of them and skip the others by their masks; the rows of
smaller groups are gathered, and groups of about the same size are one batched product. Of rows
that stay sparse on the device all groups are masked.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from colabel.core.arrays import Indices, is_sparse, like
from colabel.learn.design import Design
from colabel.learn.glm.device import device_for_rows, free_memory, padded, sent_rows
from colabel.learn.glm.path import LocalRows
from colabel.learn.linear import LOOSER, Asked, Batch, LinearLearning, batches_in_memory

# Below this many multiplications a pass, the device's launches cost more than the work.
LEAST_WORK = 1 << 26
# Groups with a larger share of the rows than this are masked, others gathered.
WIDE = 0.3
# Gathered groups are padded to the largest of their batch: at most by this factor.
_PADDING = 1.5
# Numbers of a batch for each score, each coefficient and each number of gathered rows.
_PER_SCORE, _PER_COEF, _PER_GATHERED = 8, 40, 3
_SIZES = (1 << 21, 64, 1 << 25)


def batches_on_device(learning: LinearLearning, asked: Asked, n_fits: int) -> list[Batch] | None:
    """Targets of as many groups together as there is room for, which are masked or gathered.

    None where there is little to do, or no device: the rows stay in memory.
    """
    groups, here = asked.groups, learning.design
    every = np.arange(here.n_rows)
    members = [every if group.rows is None else group.rows for group in groups]
    n_scores = sum(
        len(own) * len(group.targets) for own, group in zip(members, groups, strict=True)
    )
    if n_scores * here.n_coordinates < LEAST_WORK:
        return None
    stored = here.rows.nnz if is_sparse(here.rows) else None
    shape = here.n_rows, here.n_coordinates
    device, dense = device_for_rows(learning.learner.device, *shape, stored)
    if device is None:
        return None
    tol = learning.learner.tol * (1.0 if groups[0].rows is None else LOOSER)
    key = (device, tol >= 1e-3)
    if key not in learning.known:
        learning.known[key] = sent_rows(here, device, tol, dense)
    whole, coordinates = learning.known[key], here
    if asked.constant:
        ones = Design(np.ones((here.n_rows, 1)), None, here.weight, here.coordinates)
        whole = sent_rows(ones, device, tol, True)
        coordinates = here.constants(np.zeros(0, dtype=np.intp))

    def sent(array: Any) -> Any:
        return like(array, whole.weight).to(whole.weight.dtype)

    all_codes = np.ascontiguousarray(learning.data.codes.T, dtype=np.int16)
    all_codes = like(all_codes, whole.weight)
    all_folds = None if asked.folds is None else like(asked.folds.of_row, whole.weight)

    def masked(group: int) -> bool:
        return whole.columns is not None or len(members[group]) > WIDE * whole.n_rows

    def rows(groups: Indices, targets: Indices) -> tuple[LocalRows, Indices, Indices]:
        own_groups, group = np.unique(groups, return_inverse=True)
        own = [members[g] for g in own_groups]
        labels, label = np.unique(targets, return_inverse=True)
        codes, design, fold = all_codes[labels], whole, all_folds
        if masked(int(own_groups[0])):
            at, inside = None, np.zeros((len(own), whole.n_rows), dtype=bool)
            for marks, part in zip(inside, own, strict=True):
                marks[part] = True
        else:
            index, inside = padded(own)
            at = like(index, codes)[group]
            weight = whole.weight[index] * sent(inside)
            design = Design(whole.rows[index], None, weight, here.coordinates)
            fold = None if fold is None else fold[index]

        def of_tasks(known: Any) -> Any:
            """What is known (L, ..., n) of the labels for the rows of each task."""
            if at is None:
                return known[label]
            task = label.reshape(-1, *[1] * (known.ndim - 1))
            score = [like(np.arange(known.shape[1]), codes)[:, None]] if known.ndim > 2 else []
            return known[(task, *score, at.reshape(len(label), *[1] * len(score), -1))]

        codes, member = of_tasks(codes), sent(inside)
        codes[member[group] == 0.0] = -1
        offset = over = tables = None
        if asked.offsets is not None:
            offset = of_tasks(sent(np.stack([asked.offsets[i] for i in labels])))
        if asked.over is not None:
            over = of_tasks(sent(np.stack([asked.over[i] for i in labels])))
        if asked.tables is not None:
            tables = of_tasks(sent(np.stack([asked.tables[i].T for i in labels])))
        shared = member if at is None else None
        local = LocalRows(design, codes, fold, offset, over, coordinates, shared, tables)
        return local, group, np.arange(len(label))

    room, q = free_memory(device) // 8, whole.n_coordinates
    together: list[list[Batch]] = []
    kind, n_targets, n_rows = (0, False), 0, 0
    small = batches_in_memory(learning, asked, n_fits, _SIZES)
    for batch in sorted(small, key=lambda own: (own.n_classes, not masked(own.group[0]))):
        own_kind = batch.n_classes, masked(batch.group[0])
        length = whole.n_rows if own_kind[1] else max(1, len(members[batch.group[0]]))
        fits = own_kind == kind and n_rows <= _PADDING * length + 32
        if fits:
            n_scores = (n_targets + len(batch.label)) * n_fits * batch.n_classes
            gathered = 0 if kind[1] else (len(together[-1]) + 1) * n_rows * q * _PER_GATHERED
            fits = n_scores * (_PER_SCORE * n_rows + _PER_COEF * q) + gathered <= room
        if fits:
            together[-1].append(batch)
            n_targets += len(batch.label)
        else:
            together.append([batch])
            kind, n_targets, n_rows = own_kind, len(batch.label), length
    merged = []
    for parts in together:
        group, position, label = (np.concatenate([own[i] for own in parts]) for i in range(3))
        own_rows = partial(rows, group, label)
        merged.append(Batch(group, position, label, parts[0].n_classes, own_rows))
    return merged
