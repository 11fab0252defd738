"""What several joints say about the vectors that some of them find probable."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from colabel.core.arrays import Array, Codes, Flags, Indices
from colabel.core.chunks import row_slices
from colabel.core.numeric import bin_sums, log_sum_exp
from colabel.joint import Joint
from colabel.joint.vectors.lists import row_max

# A joint that calls a vector impossible says no more than one that finds it so many nats less
# probable than the best of the row's list.
_MOST_BELOW = 40.0
_CODES_AT_ONCE = 1 << 23  # numbers of listed vectors that are sorted at once

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Opinions:
    """The union of the joints' most probable vectors, row by row, with the opinions of all.

    Attributes
    ----------
    indptr : (n + 1,)
        The list of row r has the entries ``indptr[r]`` to ``indptr[r + 1]``.
    codes : (N, d)
        The listed vectors of each row, ascending.
    log_prob : (N, M)
        Log-probability of each under each joint.
    most_unlisted : (n, M)
        Log-probability that no vector outside the list exceeds under each joint.
    proven : (M,)
        Whether that is so: a joint may have named vectors that are not its best.
    """

    indptr: Indices
    codes: Codes
    log_prob: Array
    most_unlisted: Array
    proven: Flags

    @property
    def n_rows(self) -> int:
        """Number of rows n."""
        return len(self.indptr) - 1

    @property
    def row(self) -> Indices:
        """Row (N,) of each entry."""
        return np.repeat(np.arange(self.n_rows), np.diff(self.indptr))

    def features(self, new: Flags) -> Array:
        """What a log-linear pool sees of each entry: opinions, and whether it is new (N, M + 1).

        Opinions are relative to the best of the row's list: a pool is normed row by row.
        """
        best = np.stack([row_max(column, self.indptr) for column in self.log_prob.T], axis=1)
        below = self.log_prob - np.where(np.isneginf(best), 0.0, best)[self.row]
        return np.column_stack([np.maximum(below, -_MOST_BELOW), new])

    def mixed(self, weights: Array) -> Array:
        """Log-probability (N,) of the entries under the mixture of the joints."""
        used = weights > 0
        return log_sum_exp(self.log_prob[:, used] + np.log(weights[used]))

    def listed_mass(self, weights: Array) -> Array:
        """Probability (n,) of all that is listed under the mixture of the joints."""
        return np.minimum(bin_sums(self.row, np.exp(self.mixed(weights)), self.n_rows), 1.0)

    def most_left(self, weights: Array) -> Array:
        """Log-probability (n,) under the mixture that no vector outside the list exceeds."""
        used = weights > 0
        return log_sum_exp(self.most_unlisted[:, used] + np.log(weights[used]))

    def entry_of(self, codes: Codes) -> Indices:
        """Entry (n,) of one vector (n, d) of each row; -1 where it is not listed."""
        row = self.row
        same = np.flatnonzero((self.codes == codes[row]).all(axis=1))
        found = np.full(self.n_rows, -1, dtype=np.intp)
        found[row[same]] = same
        return found

    def joined(self, *others: Opinions) -> Opinions:
        """Return these rows and then those of the others."""
        parts = (self, *others)
        lengths = np.concatenate([np.diff(part.indptr) for part in parts])
        return Opinions(
            np.concatenate([[0], np.cumsum(lengths)]),
            np.concatenate([part.codes for part in parts]),
            np.concatenate([part.log_prob for part in parts]),
            np.concatenate([part.most_unlisted for part in parts]),
            np.all([part.proven for part in parts], axis=0),
        )

    def without_codes(self) -> Opinions:
        """Return the opinions without the vectors they are about, which take most of the room."""
        return replace(self, codes=np.empty((len(self.codes), 0), dtype=np.int32))


class UnansweredError(Exception):
    """A joint that could not be asked, by its position among all."""

    def __init__(self, position: int, why: str) -> None:
        super().__init__(position, why)
        self.position, self.why = position, why


def ask_each(
    joints: Sequence[Joint],
    question: Callable[[Joint], Answer],
    excused: tuple[type[Exception], ...] = (),
) -> list[Answer]:
    """Return the answer of every joint; of an error that is excused, say whose it is.

    Raises
    ------
    UnansweredError
        Instead of an error that is excused.
    """
    found = []
    for position, joint in enumerate(joints):
        try:
            found.append(question(joint))
        except excused as error:
            raise UnansweredError(position, str(error) or type(error).__name__) from error
    return found


def opinions(
    joints: Sequence[Joint],
    n_listed: int,
    excused: tuple[type[Exception], ...] = (),
    *,
    proven: bool = False,
) -> Opinions:
    """List the most probable vectors of each joint, and ask all of them about all of these.

    Parameters
    ----------
    joints : sequence of M Joint
        Of the same rows and labels.
    n_listed : int
        How many vectors each joint names.
    excused : tuple of exceptions
        See `ask_each`.
    proven : bool
        Whether the joints are to prove that what they name is their best, if they can.
    """
    n_rows, d = joints[0].n_rows, joints[0].space.n_labels
    chunks = row_slices(n_rows, _CODES_AT_ONCE, len(joints) * n_listed * (d + 1))
    if len(chunks) == 1:
        return _opinions(joints, n_listed, excused, proven)
    parts = [[joint.rows(chunk) for joint in joints] for chunk in chunks]
    first, *others = [_opinions(part, n_listed, excused, proven) for part in parts]
    return first.joined(*others)


def _opinions(
    joints: Sequence[Joint], n_listed: int, excused: tuple[type[Exception], ...], prove: bool
) -> Opinions:
    best = ask_each(
        joints, lambda j: (j.top_k_codes if prove else j.likely_codes)(n_listed), excused
    )
    n_rows, d = joints[0].n_rows, joints[0].space.n_labels
    flat = np.concatenate([codes.reshape(-1, d) for codes, _ in best])
    row = np.concatenate([np.repeat(np.arange(n_rows), codes.shape[1]) for codes, _ in best])
    keyed = np.column_stack([row, flat]).astype(np.int32)
    keyed = np.unique(keyed, axis=0)  # sorted by row, then by codes
    row, codes = keyed[:, 0].astype(np.intp), np.ascontiguousarray(keyed[:, 1:], dtype=np.int32)
    indptr = np.searchsorted(row, np.arange(n_rows + 1))
    said = ask_each(joints, lambda joint: joint.log_prob_at(row, codes), excused)
    log_prob = np.stack(said, axis=1)
    unlisted = np.stack([values[:, -1] for _, values in best], axis=1)
    every = math.prod(joints[0].space.cardinalities)  # beyond any float, of a thousand labels
    unlisted[np.diff(indptr) >= every] = -np.inf
    proven = np.array([prove and "mode" in joint.exact for joint in joints])  # after the search
    return Opinions(indptr, codes, log_prob, unlisted, proven)


@dataclass(frozen=True)
class HeldOutOpinions:
    """Opinions about rows that the joints' models had not seen, and what was true.

    Attributes
    ----------
    opinions : Opinions
        With or without the codes of the vectors: nothing here needs them.
    new : (N,)
        Whether a listed vector is none of those the models had learned from.
    truth : (n, M)
        Log-probability of the true labels, as far as known, under each joint.
    entry : (n,)
        Entry of the true vector; -1 where it is not listed.
    known : (n,)
        Whether all labels of the row are known.
    weight : (n,)
    """

    opinions: Opinions
    new: Flags
    truth: Array
    entry: Indices
    known: Flags
    weight: Array

    def of_joints(self, columns: Indices) -> HeldOutOpinions:
        """Return the opinions of some of the joints; what the others named stays listed."""
        said = self.opinions
        kept = replace(
            said,
            log_prob=said.log_prob[:, columns],
            most_unlisted=said.most_unlisted[:, columns],
            proven=said.proven[columns],
        )
        return replace(self, opinions=kept, truth=self.truth[:, columns])

    def joined(self, *others: HeldOutOpinions) -> HeldOutOpinions:
        """Return these rows and then those of the others."""
        parts = (self, *others)
        starts = np.cumsum([0, *(len(part.new) for part in parts[:-1])])
        entry = [np.where(p.entry < 0, -1, p.entry + s) for p, s in zip(parts, starts, strict=True)]
        return HeldOutOpinions(
            self.opinions.joined(*(part.opinions for part in others)),
            np.concatenate([part.new for part in parts]),
            np.concatenate([part.truth for part in parts]),
            np.concatenate(entry),
            np.concatenate([part.known for part in parts]),
            np.concatenate([part.weight for part in parts]),
        )
