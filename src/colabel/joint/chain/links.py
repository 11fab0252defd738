"""Links of a chain: P(y_k | x, the labels before it), for many (row, prefix) pairs at once."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_softmax

from colabel.core.arrays import Array, Codes, Indices, Rows, label_columns, row_slices
from colabel.core.compiling import njit
from colabel.labels import MISSING
from colabel.rules import CompiledRules

# Features of (row, prefix) pairs that a classifier is shown at once, as numbers: 128 MiB.
_NUMBERS_AT_ONCE = 1 << 24


class Links(ABC):
    """The conditionals of a chain for a batch of rows; everything here is in chain order.

    Attributes
    ----------
    costly : bool
        Whether asking is far more work than a few sums: then searches ask on request only.
    normalised : bool
        Whether the probabilities after each prefix sum to one.
    codes_at_once : int
        Codes that the prefixes of one step of a search may hold, as numbers: 32 MiB.
    """

    costly: ClassVar[bool] = False
    normalised: ClassVar[bool] = True
    codes_at_once: ClassVar[int] = 1 << 23

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """Number of rows n."""

    @property
    @abstractmethod
    def cardinalities(self) -> tuple[int, ...]:
        """Number of values of the label at each position, (d,)."""

    @abstractmethod
    def log_prob(self, rows: Indices, prefix: Codes) -> Array:
        """Log-probabilities (m, K) of the values of the label at position k.

        Parameters
        ----------
        rows : (m,)
            Rows of the batch, repeated as often as there are prefixes to ask about.
        prefix : (m, k)
            Codes of the labels at positions 0 to k - 1.
        """

    @abstractmethod
    def take(self, rows: Rows) -> Self:
        """Return the links of some of the rows."""

    def log_prob_grid(self, prefixes: Codes) -> Array:
        """Log-probabilities (n, M, K) for every row and each of the prefixes (M, k)."""
        rows = np.repeat(np.arange(self.n_rows), len(prefixes))
        table = self.log_prob(rows, np.tile(prefixes, (self.n_rows, 1)))
        return table.reshape(self.n_rows, len(prefixes), -1)

    def log_ceiling(self, known: Codes) -> Array:
        """Upper bounds (n, d) of the log-probability any value has after any prefix.

        Tighter bounds than zeros spare an exact search some prefixes.

        Parameters
        ----------
        known : (n, d)
            Values that prefixes must have, MISSING elsewhere; a bound may make use of them.
        """
        return np.zeros(known.shape)


@dataclass(frozen=True)
class TableLinks(Links):
    """Links as tables: one table (n, K_0, ..., K_k) of log-probabilities per position k.

    For chains made by hand. The tables grow as fast as the number of prefixes does.

    Examples
    --------
    >>> import numpy as np
    >>> first = np.log([[0.6, 0.4]])
    >>> second = np.log([[[0.5, 0.5], [0.9, 0.1]]])
    >>> links = TableLinks.of([first, second])
    >>> np.exp(links.log_prob(np.array([0, 0]), np.array([[0], [1]])))
    array([[0.5, 0.5],
           [0.9, 0.1]])
    """

    tables: tuple[Array, ...]

    @classmethod
    def of(cls, tables: Sequence[ArrayLike]) -> TableLinks:
        """Check the shapes of the tables."""
        arrays = tuple(np.asarray(table, dtype=np.float64) for table in tables)
        for position, table in enumerate(arrays):
            wanted = arrays[position - 1].shape if position else arrays[0].shape[:1]
            if table.shape[:-1] != wanted:
                raise ValueError(
                    f"The table at position {position} has shape {table.shape}, but its axes "
                    f"before the last must be {wanted}: rows, then the values of each earlier "
                    "label."
                )
        return cls(arrays)

    @property
    def n_rows(self) -> int:
        return len(self.tables[0])

    @property
    def cardinalities(self) -> tuple[int, ...]:
        return tuple(table.shape[-1] for table in self.tables)

    def log_prob(self, rows: Indices, prefix: Codes) -> Array:
        log_prob: Array = self.tables[prefix.shape[1]][(rows, *prefix.T)]
        return log_prob

    def log_ceiling(self, known: Codes) -> Array:
        largest = [table.max(axis=tuple(range(1, table.ndim))) for table in self.tables]
        return np.stack(largest, axis=1)

    def take(self, rows: Rows) -> TableLinks:
        return TableLinks(tuple(table[rows] for table in self.tables))


@dataclass(frozen=True)
class LinearLink:
    """One linear conditional, split into what x adds to the scores and what the labels add.

    Attributes
    ----------
    base : (n, S)
        Scores of every row without labels; S is 1 for two values, K otherwise.
    gain : (k, V, S)
        Entry [j, v]: what value v at position j adds.
    n_classes : int
        Number of values K.
    floor : (K,)
        Probability kept for values that training lacked.
    """

    base: Array
    gain: Array
    n_classes: int
    floor: Array

    def log_prob(self, rows: Indices, prefix: Codes) -> Array:
        if self.n_classes == 2:
            table = np.empty((len(rows), 2))
            _log_odds_to_log_prob(self.base[:, 0], self.gain[:, :, 0], rows, prefix, table)
            return table
        return self._softmax(self.base[rows] + self._gained(prefix))

    def log_prob_grid(self, prefixes: Codes) -> Array:
        """See `Links.log_prob_grid`: the labels' part is the same for all rows."""
        gained = self._gained(prefixes)
        if self.n_classes == 2:
            table = np.empty((len(self.base), len(prefixes), 2))
            _log_odds_grid(self.base[:, 0], gained[:, 0], table)
            return table
        scores = self.base[:, None, :] + gained
        return self._softmax(scores.reshape(-1, scores.shape[2])).reshape(scores.shape)

    def _gained(self, prefix: Codes) -> Array:
        """What the labels add to the scores, (m, S)."""
        gained = np.zeros((len(prefix), self.base.shape[1]))
        _add_gains(self.gain, prefix, gained)
        return gained

    def _softmax(self, scores: Array) -> Array:
        seen = self.floor == 0
        log_prob = np.empty(scores.shape)
        log_prob[:, seen] = log_softmax(scores[:, seen], axis=1) + np.log1p(-self.floor.sum())
        log_prob[:, ~seen] = np.log(self.floor[~seen])
        return log_prob

    def log_ceiling(self, before: Codes, n_values: Sequence[int]) -> Array:
        r"""Upper bound (n,) of the log-probability of any value, by interval arithmetic.

        A value v with scores s has probability 1 / sum_u exp(s_u - s_v), and each difference is
        at least the row's own plus the least that each earlier label can add.

        Parameters
        ----------
        before : (n, k)
            Values of the earlier labels, MISSING where any is possible.
        n_values : (k,)
            Number of their values.
        """
        base, gain = self.base, self.gain
        if self.n_classes == 2 and not self.floor.any() and all(k == 2 for k in n_values):
            return self._binary_ceiling(before)
        if self.n_classes == 2:  # the first value has score zero
            base = np.column_stack([np.zeros(len(base)), base])
            gain = np.concatenate([np.zeros_like(gain), gain], axis=2)
        open_values = self.floor == 0  # the others keep their floor and are left out of the sum
        base, gain = base[:, open_values], gain[:, :, open_values]
        ahead = base[:, :, None] - base[:, None, :]  # [., u, v]: s_u - s_v
        for position, k in enumerate(n_values):
            added = gain[position, :k, :, None] - gain[position, :k, None, :]
            value = before[:, position]
            exact = added[np.maximum(value, 0)]
            ahead += np.where((value == MISSING)[:, None, None], added.min(axis=0), exact)
        with np.errstate(over="ignore"):
            largest = (1.0 / np.exp(ahead).sum(axis=1)).max(axis=1)
        kept = largest * (1.0 - self.floor.sum())
        ceiling: Array = np.log(np.clip(kept, self.floor.max(), 1.0))
        return ceiling

    def _binary_ceiling(self, before: Codes) -> Array:
        """Do what `log_ceiling` does where all labels have two values: bounds of the log-odds."""
        off, on = self.gain[:, 0, 0], self.gain[:, 1, 0]
        low, high = np.minimum(off, on), np.maximum(off, on)
        is_off, is_on = before == 0, before == 1
        least = low.sum() + is_off @ (off - low) + is_on @ (on - low)
        most = high.sum() + is_off @ (off - high) + is_on @ (on - high)
        log_odds = self.base[:, 0]
        ceiling: Array = -np.minimum(
            np.logaddexp(0.0, log_odds + least), np.logaddexp(0.0, -log_odds - most)
        )
        return ceiling


@njit(nogil=True, cache=True, error_model="numpy")
def _add_gains(gain: Array, prefix: Codes, gained: Array) -> None:
    """Add to gained (m, S) what each prefix (m, k) gains, in the order of the chain."""
    for i in range(len(prefix)):
        for j in range(prefix.shape[1]):
            for score in range(gained.shape[1]):
                gained[i, score] += gain[j, prefix[i, j], score]


@njit(nogil=True, cache=True, error_model="numpy")
def _log_odds_to_log_prob(
    base: Array, gain: Array, rows: Indices, prefix: Codes, table: Array
) -> None:
    """Fill table (m, 2) for a label of two values; sums run in the order of the chain.

    So a prefix has the same probability to the last bit whatever else stands in the batch.
    """
    for i in range(rows.size):
        score = base[rows[i]]
        for j in range(prefix.shape[1]):
            score += gain[j, prefix[i, j]]
        tail = math.log1p(math.exp(-abs(score)))
        table[i, 0] = -tail - max(score, 0.0)
        table[i, 1] = -tail + min(score, 0.0)


@njit(nogil=True, cache=True, error_model="numpy")
def _log_odds_grid(base: Array, gained: Array, table: Array) -> None:
    """Fill table (n, M, 2) from log-odds base (n,) + gained (M,)."""
    for i in range(base.size):
        for j in range(gained.size):
            score = base[i] + gained[j]
            tail = math.log1p(math.exp(-abs(score)))
            table[i, j, 0] = -tail - max(score, 0.0)
            table[i, j, 1] = -tail + min(score, 0.0)


@dataclass(frozen=True)
class LinearLinks(Links):
    """Links that are linear in x and in the labels before: no product with X after the first."""

    links: tuple[LinearLink, ...]

    @property
    def n_rows(self) -> int:
        return len(self.links[0].base)

    @property
    def cardinalities(self) -> tuple[int, ...]:
        return tuple(link.n_classes for link in self.links)

    def log_prob(self, rows: Indices, prefix: Codes) -> Array:
        return self.links[prefix.shape[1]].log_prob(rows, prefix)

    def log_prob_grid(self, prefixes: Codes) -> Array:
        return self.links[prefixes.shape[1]].log_prob_grid(prefixes)

    def log_ceiling(self, known: Codes) -> Array:
        sizes = self.cardinalities
        return np.stack(
            [link.log_ceiling(known[:, :k], sizes[:k]) for k, link in enumerate(self.links)], axis=1
        )

    def take(self, rows: Rows) -> LinearLinks:
        return LinearLinks(tuple(replace(link, base=link.base[rows]) for link in self.links))


class Classifier(Protocol):
    """One conditional of any kind, evaluated on rows and on label columns."""

    def log_prob(self, X: Any, extra: Array | None = None) -> Array:
        """Log-probabilities (m, K) of the values for rows X (m, p) and label columns (m, e)."""
        ...


@dataclass(frozen=True)
class EstimatorLinks(Links):
    """Links by any fitted classifiers; a level of the chain is one call of `predict_proba`."""

    classifiers: Sequence[Classifier]  # in label order
    X: Any  # (n, p) dense or CSR
    order: Indices
    label_cardinalities: tuple[int, ...]  # in label order, as the classifiers were taught
    costly: ClassVar[bool] = True

    @property
    def n_rows(self) -> int:
        return int(self.X.shape[0])

    @property
    def cardinalities(self) -> tuple[int, ...]:
        return tuple(self.label_cardinalities[label] for label in self.order)

    def log_prob(self, rows: Indices, prefix: Codes) -> Array:
        position = prefix.shape[1]
        target = int(self.order[position])
        table = np.empty((len(rows), self.label_cardinalities[target]))
        width = self.X.shape[1] + len(self.order)
        for part in row_slices(len(rows), _NUMBERS_AT_ONCE, width):
            codes = np.full((len(rows[part]), len(self.order)), MISSING, dtype=np.int32)
            codes[:, self.order[:position]] = prefix[part]
            extra = label_columns(codes, self.label_cardinalities)
            table[part] = self.classifiers[target].log_prob(self.X[rows[part]], extra)
        return table

    def take(self, rows: Rows) -> EstimatorLinks:
        return replace(self, X=self.X[rows])


@dataclass(frozen=True)
class PrunedLinks(Links):
    """Links in which a value is impossible if no vector with this prefix obeys the rules.

    They do not sum to one: the chain of them is that of the vectors that obey, unnormalised.
    """

    links: Links
    order: Indices
    rules: CompiledRules
    normalised: ClassVar[bool] = False

    @property
    def n_rows(self) -> int:
        return self.links.n_rows

    @property
    def cardinalities(self) -> tuple[int, ...]:
        return self.links.cardinalities

    @property
    def costly(self) -> bool:  # type: ignore[override]
        return self.links.costly

    def log_prob(self, rows: Indices, prefix: Codes) -> Array:
        table = self.links.log_prob(rows, prefix).copy()
        length = prefix.shape[1]
        label = int(self.order[length])
        if not self.rules.touching[label]:
            return table
        codes = np.full((len(prefix), len(self.order)), MISSING, dtype=np.int32)
        codes[:, self.order[:length]] = prefix
        for value in range(table.shape[1]):
            codes[:, label] = value
            table[~self.rules.may_hold(codes, label), value] = -np.inf
        return table

    def log_ceiling(self, known: Codes) -> Array:
        return self.links.log_ceiling(known)

    def take(self, rows: Rows) -> PrunedLinks:
        return replace(self, links=self.links.take(rows))
