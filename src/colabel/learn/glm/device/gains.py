"""What regressions on parts of the rows add on rows held out: many parts in one batch.

A *part* is a set of rows, such as those with one value of a parent; a task is a part and a label of
two values to learn from it. Tasks of parts that have most of the rows share all rows and skip the
others by their masks; the rows of smaller parts are gathered, and parts of about the same size are
blocks of one batched product. Of rows that stay sparse on the device all parts are masked. Tasks
whose label never varies among their rows have a closed form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from colabel.core.arrays import Array, Flags, Indices
from colabel.learn.glm.device.devices import coarse_products, free_memory
from colabel.learn.glm.device.objective import AnyRows, DeviceRows, Tensor, TorchObjective, aligned
from colabel.learn.glm.device.solver import AnyMatrix, DeviceRidge, Matrix, TorchLBFGS
from colabel.learn.glm.lbfgs import LBFGS

# Parts with a larger share of the rows than this are masked, others gathered.
_WIDE = 0.3
# Gathered blocks are padded to the largest of their batch: at most by this factor.
_PADDING = 1.5
# Scores of one batch: few launches, and indices of 32 bits.
_MOST_SCORES = 1 << 30
# Numbers of a batch for each score and for each coefficient, temporary ones included.
_PER_SCORE, _PER_COEF = 8, 40
_SHARE_OF_MEMORY = 0.5
_HOST_BYTES = 1 << 29  # of torch's CPU device


class PartScores(NamedTuple):
    """Held-out gains of every part's tasks over given log-probabilities, (parts, d) each.

    Attributes
    ----------
    gains, noise : (parts, d)
        Sum of the weighted gains of the rows, and its variance.
    choice : (parts, d)
        Position of the chosen C.
    n_failed : int
        Number of regressions that did not converge.
    """

    gains: Array
    noise: Array
    choice: Indices
    n_failed: int


@dataclass(frozen=True)
class PartData:
    """Rows and labels on a device.

    Attributes
    ----------
    matrix : AnyMatrix
    codes : (d, n)
        Values of the labels, negative where missing.
    weight : (n,)
    parts : (parts, n) of bool
        Rows of every part.
    prior : (d,)
        Frequency of the value 1 of every label in all rows.
    alone : (d, n)
        Log-probabilities over which gains are counted.
    """

    matrix: AnyMatrix
    codes: Tensor
    weight: Tensor
    parts: Tensor
    prior: Tensor
    alone: Tensor

    @classmethod
    def of(
        cls, matrix: AnyMatrix, codes: Any, weight: Array, parts: Flags, prior: Array, alone: Array
    ) -> PartData:
        """Send NumPy arrays to where the matrix is."""
        import torch

        def sent(array: Any, dtype: Any) -> Tensor:
            whole = torch.as_tensor(np.ascontiguousarray(array))
            return whole.to(matrix.device).to(dtype)

        return cls(
            matrix,
            sent(codes, torch.int8),
            sent(weight, torch.float64),
            sent(parts, torch.bool),
            sent(prior, torch.float64),
            sent(alone, torch.float32),
        )


def part_gains(
    data: PartData,
    wanted: Flags,
    grid: Array,
    folds: Indices,
    n_folds: int,
    solver: LBFGS,
    start: Array,
    advance: Callable[[], None],
) -> PartScores:
    """Score the tasks `wanted` (parts, d) on held-out rows over a grid of C (G,).

    `folds` (n,) as in `held_out_path`, and `advance` is called after each; `start` (G, F, d, q) are
    coefficients of the labels, in the coordinates of the matrix, that have not seen its rows.
    """
    import torch

    device = data.matrix.device
    shape = (len(grid), *wanted.shape)
    gains, noise = (torch.zeros(shape, dtype=torch.float64, device=device) for _ in range(2))
    seen = torch.zeros((2, *wanted.shape), dtype=torch.bool, device=device)
    asked = torch.as_tensor(wanted).to(device)
    order = np.argsort(grid, kind="stable")
    penalties = [1.0 / float(grid[position]) for position in order]
    n_failed = 0
    for fold in range(n_folds):
        begin = torch.as_tensor(start[order, fold].astype(np.float32)).to(device)
        begin = torch.nn.functional.pad(begin, (0, data.matrix.width - begin.shape[2]))
        held = torch.as_tensor(folds == fold).to(device)
        one = _Fold.of(data, held, begin, penalties, solver)
        seen |= one.counts.held & one.counts.known
        one.add_constants(asked, gains, noise)
        for batch in one.batches(asked & ~one.counts.constant):
            n_failed += one.add_batch(batch, gains, noise)
        advance()
    present = torch.stack([_sums(data.parts, data.weight * (data.codes == k)) > 0 for k in (0, 1)])
    informed = seen.sum(dim=0) >= present.sum(dim=0)
    best = torch.where(informed, gains.argmax(dim=0), 0)
    chosen = best[None]
    return PartScores(
        gains.gather(0, chosen)[0].cpu().numpy(),
        noise.gather(0, chosen)[0].cpu().numpy(),
        order[best.cpu().numpy()],
        n_failed,
    )


def _sums(parts: Tensor, values: Tensor) -> Tensor:
    """Sums (parts, d) of values (d, n) over the rows of every part (parts, n)."""
    return parts.double() @ values.double().T


class _Counts(NamedTuple):
    """Classes of every task: training rows that have them, (2, parts, d) or (parts, d)."""

    known: Tensor  # whether training rows have the class
    held: Tensor  # whether held-out rows have the class
    log_odds: Tensor  # of the smoothed frequencies, as a constant task has them
    constant: Tensor


class _Batch(NamedTuple):
    """Tasks of one batch: parts (P, c) and labels (P, c); those past a block's own are padding."""

    part: Tensor
    label: Tensor
    real: Tensor  # (P, c)
    wide: bool


@dataclass(frozen=True)
class _Fold:
    """Fits without the rows of a fold, and their scores on them."""

    data: PartData
    train: Tensor  # positions of rows
    held: Tensor
    begin: Tensor  # (G, d, q')
    penalties: list[float]
    solver: LBFGS
    counts: _Counts
    rows: AnyRows  # all training rows
    begin_scores: Tensor  # (d, n') of the first penalty

    @classmethod
    def of(
        cls, data: PartData, held: Tensor, begin: Tensor, penalties: list[float], solver: LBFGS
    ) -> _Fold:
        train, out = (~held).nonzero()[:, 0], held.nonzero()[:, 0]
        rows = data.matrix.one_block(train, data.weight[train])
        with coarse_products(False):
            scores = rows.scores(begin[:1])[0]
        counts = _counted(data, train, out)
        return cls(data, train, out, begin, penalties, solver, counts, rows, scores)

    def add_constants(self, asked: Tensor, gains: Tensor, noise: Tensor) -> None:
        """Add what tasks of one class, with a constant probability, say of the held-out rows."""
        data, log_odds = self.data, self.counts.log_odds
        parts = data.parts[:, self.held]
        weight, codes = data.weight[self.held], data.codes[:, self.held]
        alone = data.alone[:, self.held].double()
        wanted = asked & self.counts.constant
        for value, sign in ((0, 1.0), (1, -1.0)):
            constant = -(sign * log_odds).exp().log1p()  # log-probability of the value
            own = weight * (codes == value)
            gain = constant * _sums(parts, own) - _sums(parts, own * alone)
            square = own * weight
            spread = (
                constant**2 * _sums(parts, square)
                - 2.0 * constant * _sums(parts, square * alone)
                + _sums(parts, square * alone**2)
            )
            gains += gain.where(wanted, 0.0)
            noise += spread.where(wanted, 0.0)

    def batches(self, tasks: Tensor) -> Iterator[_Batch]:
        """Tasks (parts, d) to be solved, in batches that fit the device."""
        n_train = len(self.train)
        size = self.data.parts[:, self.train].sum(dim=1).cpu().numpy()
        n_tasks = tasks.sum(dim=1).cpu().numpy()
        wide = (size > _WIDE * n_train) | (not self.data.matrix.gathers)
        yield from self._masked(tasks, np.flatnonzero(wide & (n_tasks > 0)))
        narrow = np.flatnonzero(~wide & (n_tasks > 0))
        yield from self._gathered(tasks, narrow[np.argsort(size[narrow])], size, n_tasks)

    def _room(self) -> int:
        """Numbers that fit a batch."""
        device = self.data.codes.device
        free = free_memory(str(device)) if device.type == "cuda" else _HOST_BYTES
        return int(_SHARE_OF_MEMORY * free / 4)

    def _masked(self, tasks: Tensor, parts: Indices) -> Iterator[_Batch]:
        import torch

        n_rows, width = self.rows.n_rows, self.rows.width
        room = self._room() // (_PER_SCORE * n_rows + _PER_COEF * width)
        most = max(1, min(room, _MOST_SCORES // n_rows))
        chosen = torch.as_tensor(parts).to(tasks.device)
        which, label = tasks[chosen].nonzero(as_tuple=True)
        part = chosen[which]
        n_batches = -(-len(part) // most)
        step = -(-len(part) // max(1, n_batches))
        for first in range(0, len(part), max(1, step)):
            own = slice(first, first + step)
            real = torch.ones((1, len(part[own])), dtype=torch.bool, device=tasks.device)
            yield _Batch(part[own][None], label[own][None], real, True)

    def _gathered(
        self, tasks: Tensor, parts: Indices, size: Indices, n_tasks: Indices
    ) -> Iterator[_Batch]:
        """Parts come in the order of their sizes."""
        import torch

        width = self.rows.width
        room = self._room()
        # Labels of every part, those to be solved first.
        first = torch.argsort((~tasks).to(torch.int8), dim=1, stable=True)
        begin = 0
        while begin < len(parts):
            end, most = begin, 0
            while end < len(parts):
                n_rows, wider = aligned(int(size[parts[end]])), max(most, int(n_tasks[parts[end]]))
                numbers = (end + 1 - begin) * (
                    wider * (_PER_SCORE * n_rows + _PER_COEF * width) + 3 * n_rows * width
                )
                smallest = aligned(int(size[parts[begin]]))
                if end > begin and (numbers > room or n_rows > _PADDING * smallest + 32):
                    break
                end, most = end + 1, wider
            own = torch.as_tensor(parts[begin:end]).to(tasks.device)
            label = first[own, :most]
            real = torch.arange(most, device=own.device) < tasks[own].sum(dim=1)[:, None]
            yield _Batch(own[:, None].expand_as(label), label, real, False)
            begin = end

    def add_batch(self, batch: _Batch, gains: Tensor, noise: Tensor) -> int:
        """Fit the tasks of a batch along the grid and add their gains; the number that failed."""
        import torch

        rows, targets = self._training_rows(batch)
        strength = self.rows.scale.new_zeros((1, 1, 1, self.rows.width))
        coef: Tensor = None
        begin: Tensor = None
        n_failed = 0
        for point, penalty in enumerate(self.penalties):
            last, begin = begin, self.begin[point][batch.label][:, :, None]
            coef = begin if last is None else coef + (begin - last)
            strength = torch.full_like(strength, penalty)
            strength[..., self.data.matrix.constant] = 0.0
            if batch.wide and last is None:
                scores = self.begin_scores[batch.label][:, :, None]
            else:
                with coarse_products(False):
                    scores = rows.all_scores(coef, None)
            found = TorchLBFGS(self.solver.tol, self.solver.max_iter).solve(
                TorchObjective(rows, targets, scores), DeviceRidge(strength), coef, ~batch.real
            )
            coef = found.coef.float()
            n_failed += int((batch.real & (found.decrement > self.solver.tol)).sum())
            gain, spread = self._held_out(batch, coef[:, :, 0])
            where = (batch.part[batch.real], batch.label[batch.real])
            gains[point].index_put_(where, gain[batch.real], accumulate=True)
            noise[point].index_put_(where, spread[batch.real], accumulate=True)
        return n_failed

    def _training_rows(self, batch: _Batch) -> tuple[AnyRows, Tensor]:
        import torch

        data = self.data
        if batch.wide:
            mask = data.parts[:, self.train][batch.part[0]]
            targets = data.codes[:, self.train][batch.label[0]].masked_fill_(~mask, -1)
            size = self.rows.n_rows
            padding = (0, size - targets.shape[1])
            return self.rows, torch.nn.functional.pad(targets, padding, value=-1)[None]
        index, mask = _gathered_rows(data.parts[batch.part[:, 0]][:, self.train])
        index = self.train[index]
        weight = data.weight[index].float() * mask
        matrix = _dense(data.matrix)
        gathered = matrix.rows[index] * mask[..., None]
        rows = DeviceRows.of(gathered, weight, matrix.constant, matrix.halfway)
        targets = data.codes[batch.label[:, :, None], index[:, None, :]]
        return rows, targets.masked_fill_(~mask[:, None], -1)

    def _held_out(self, batch: _Batch, coef: Tensor) -> tuple[Tensor, Tensor]:
        """Gains and their variances (P, c) of tasks with coefficients (P, c, q)."""
        data = self.data
        if batch.wide:
            mask = data.parts[:, self.held][batch.part]
            index = self.held.expand(len(mask), -1)
            codes, alone = (whole[:, self.held][batch.label] for whole in (data.codes, data.alone))
            with coarse_products(False):
                scores = data.matrix.scores_of(self.held, coef)
        else:
            index, own = _gathered_rows(data.parts[batch.part[:, 0]][:, self.held])
            index, mask = self.held[index], own[:, None]
            where = (batch.label[:, :, None], index[:, None, :])
            codes, alone = data.codes[where], data.alone[where]
            with coarse_products(False):
                scores = coef @ _dense(data.matrix).rows[index].transpose(1, 2)
        return _gains(scores, codes, alone, mask, data.weight[index].float()[:, None])


def _dense(matrix: AnyMatrix) -> Matrix:
    assert isinstance(matrix, Matrix)  # of sparse rows nothing is gathered
    return matrix


def _gains(
    scores: Tensor, codes: Tensor, alone: Tensor, mask: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor]:
    """Weighted gains over `alone` and their squares, summed over rows: (P, c, m) -> (P, c).

    The log-probability of value y is -log(1 + exp((1 - 2 y) s)).
    """
    import torch

    signed = scores * (1 - 2 * codes)
    log_prob = -(signed.clamp_min(0.0) + (-signed.abs()).exp().log1p())
    more = (log_prob - alone) * weight * (mask & (codes >= 0))
    double = torch.float64
    return more.sum(dim=2, dtype=double), (more * more).sum(dim=2, dtype=double)


def _gathered_rows(mask: Tensor) -> tuple[Tensor, Tensor]:
    """Positions (P, m) of the rows of masks (P, n), and which of them are no padding."""
    import torch

    sizes = mask.sum(dim=1)
    most = aligned(max(1, int(sizes.max())))
    index = torch.argsort((~mask).to(torch.int8), dim=1, stable=True)[:, :most]
    return index, torch.arange(index.shape[1], device=mask.device) < sizes[:, None]


def _counted(data: PartData, train: Tensor, held: Tensor) -> _Counts:
    """Count the classes of all tasks, among training rows and held-out ones."""
    import torch

    def counts(rows: Tensor) -> Tensor:
        parts, codes, weight = data.parts[:, rows], data.codes[:, rows], data.weight[rows]
        return torch.stack([_sums(parts, weight * (codes == value)) for value in (0, 1)])

    learned = counts(train)
    frequency = torch.stack([1.0 - data.prior, data.prior])[:, None, :]
    smoothed = learned + 2.0 * frequency
    known = learned > 0
    log_odds = smoothed[1].log() - smoothed[0].log()
    return _Counts(known, counts(held) > 0, log_odds, ~known.all(dim=0))
