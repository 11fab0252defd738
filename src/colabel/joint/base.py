"""Joint: what a fitted model knows about the label vectors of a batch of rows.

Which questions a joint answers exactly.

A joint for people: as a data frame, as lines of text, as HTML for a notebook.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, NoReturn, Self, get_args

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from colabel.core.arrays import Array, Codes, Flags, Indices, Rows, row_slices
from colabel.core.lazy import require
from colabel.core.parameters import check_integer
from colabel.core.warning import warn
from colabel.joint.sizes import SizeMarginals, require_zero_one, sizes_by_counting
from colabel.joint.user_terms import as_rows, codes_of_evidence, codes_of_labels
from colabel.labels import MISSING, LabelSpace
from colabel.labels.space import UNSEEN
from colabel.rules import CompiledRules, Rules

if TYPE_CHECKING:
    import pandas as pd


Question = Literal["mode", "sums", "log_prob"]
QUESTIONS: tuple[Question, ...] = get_args(Question)


class Exactness(frozenset[str]):
    """The questions that a joint answers exactly, out of "mode", "sums" and "log_prob".

    - ``"mode"``: the most probable label vectors, `mode` and `top_k`;
    - ``"sums"``: what adds up label vectors: `marginals`, `pair_marginals`, `entropy`,
      `size_marginals`, and the probability of some of the labels;
    - ``"log_prob"``: the probability of a complete label vector.

    It is a set of names without a truth value: test for one question, or for `all` of them.

    Examples
    --------
    >>> greedy = Exactness(["sums", "log_prob"])
    >>> "mode" in greedy, "sums" in greedy, greedy.all
    (False, True, False)
    >>> greedy
    Exactness('sums', 'log_prob')
    """

    def __new__(cls, questions: Iterable[str] = ()) -> Self:
        """Check the names."""
        names = super().__new__(cls, questions)
        if not names.issubset(QUESTIONS):
            unknown = sorted(names - set(QUESTIONS))
            raise ValueError(f"There is no question {unknown[0]!r}: choose from {QUESTIONS}.")
        return names

    @property
    def all(self) -> bool:
        """Whether every question is answered exactly."""
        return len(self) == len(QUESTIONS)

    def without(self, *questions: Question) -> Exactness:
        """Return the exactness without some of the questions."""
        return Exactness(self.difference(questions))

    def __bool__(self) -> NoReturn:
        raise TypeError(
            "Whether a joint is exact depends on the question: ask for one, as in "
            '`"mode" in joint.exact` (or "sums", "log_prob"), or for all, by `joint.exact.all`.'
        )

    def __str__(self) -> str:
        if self.all:
            return "exact"
        if not len(self):
            return "approximate"
        return f"exact {' and '.join(name for name in QUESTIONS if name in self)}"

    def __repr__(self) -> str:
        return f"Exactness({', '.join(repr(name) for name in QUESTIONS if name in self)})"


EXACT = Exactness(QUESTIONS)
APPROXIMATE = Exactness()


def common(parts: Iterable[Exactness]) -> Exactness:
    """Return what is exact in all the parts."""
    return Exactness(frozenset(QUESTIONS).intersection(*parts))


_ROWS, _SETS = 5, 3


def named_set(codes: Sequence[int], space: LabelSpace) -> list[str]:
    """Write a label vector: the labels that are 1, or variable=value for class variables."""
    if space.is_indicator:
        return [name for name, code in zip(space.names, codes, strict=True) if code]
    return [
        f"{name}={classes[code]}"
        for name, classes, code in zip(space.names, space.classes, codes, strict=True)
    ]


def label_set_text(codes: Sequence[int], space: LabelSpace) -> str:
    """Write a label vector on one line."""
    return ", ".join(named_set(codes, space)) or "no label"


def marginals_frame(joint: Joint) -> pd.DataFrame:
    """Probability of each label alone: one row per row, one column per label or value."""
    require("pandas", "A data frame")
    import pandas as pd

    marginals = joint.marginals()
    space = joint.space
    if isinstance(marginals, np.ndarray):
        return pd.DataFrame(marginals, joint.index, list(space.names))
    pairs = [
        (name, value)
        for name, classes in zip(space.names, space.classes, strict=True)
        for value in classes.tolist()
    ]
    columns = pd.MultiIndex.from_tuples(pairs, names=["label", "value"])
    return pd.DataFrame(np.concatenate(marginals, axis=1), joint.index, columns)


def top_k_frame(joint: Joint, k: int) -> pd.DataFrame:
    """The k most probable label vectors of each row: one line each, with its probability."""
    require("pandas", "A data frame")
    import pandas as pd

    labels, log_prob = joint.top_k(k)
    n_rows, n_sets = log_prob.shape
    rows = range(n_rows) if joint.index is None else joint.index
    index = pd.MultiIndex.from_product([rows, range(1, n_sets + 1)], names=["row", "rank"])
    flat = labels.reshape(n_rows * n_sets, -1)
    frame = pd.DataFrame(flat, columns=list(joint.space.names), index=index)
    frame.insert(0, "probability", np.exp(log_prob).ravel())
    return frame


def as_text(joint: Joint) -> str:
    """Return the first line of the representation, then the best label sets of some rows."""
    lines = [repr(joint), f"  {joint.how}"]
    for row, sets in enumerate(_best_sets(joint)):
        written = " | ".join(f"{prob:.3f} {text}" for text, prob in sets)
        lines.append(f"  row {row}: {written}")
    if joint.n_rows > _ROWS:
        lines.append(f"  and {joint.n_rows - _ROWS} more rows")
    return "\n".join(lines)


def as_html(joint: Joint) -> str:
    """Return a small table: the best label sets of some rows, with bars for probabilities."""
    rows = []
    for row, sets in enumerate(_best_sets(joint)):
        for rank, (text, prob) in enumerate(sets):
            number = f'<th rowspan="{len(sets)}" scope="row">{row}</th>' if rank == 0 else ""
            bar = (
                '<span style="display:inline-block;height:.7em;vertical-align:baseline;'
                f"background:currentColor;opacity:.45;margin-right:.4em;"
                f'width:{6 * prob:.2f}em"></span>'
            )
            cells = f'<td style="text-align:left">{escape(text)}</td>'
            prob_cell = f'<td style="text-align:left">{bar}{prob:.3f}</td>'
            rows.append(f"<tr>{number}{cells}{prob_cell}</tr>")
    more = f"<p>and {joint.n_rows - _ROWS} more rows</p>" if joint.n_rows > _ROWS else ""
    return (
        f"<div><p><b>{escape(repr(joint)[1:-1])}</b><br><small>{escape(joint.how)}</small></p>"
        "<table><thead><tr><th>row</th><th>label set</th><th>probability</th></tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table>{more}</div>"
    )


def _best_sets(joint: Joint) -> list[list[tuple[str, float]]]:
    """The most probable label sets of the first rows, as texts with probabilities."""
    if not joint.n_rows:
        return []
    first = joint[: min(_ROWS, joint.n_rows)]
    try:
        codes, log_prob = first.top_k_codes(first._at_most_all(_SETS))
    except NotImplementedError:  # a family that has only its most probable vectors
        codes = first.mode_codes()[:, None]
        log_prob = np.full(codes.shape[:2], np.nan)
    return [
        [
            (label_set_text(vector, joint.space), float(np.exp(log)))
            for vector, log in zip(vectors.tolist(), logs.tolist(), strict=True)
            if log > -np.inf or np.isnan(log)
        ]
        for vectors, logs in zip(codes, log_prob, strict=True)
    ]


# Lengths of the lists requested from a family that only has a `top_k`: the first, and the last.
_FIRST, _LONGEST = 16, 4096
# A list whose estimated length is above this is not begun. It is far beyond the longest list
# because the estimate is rough.
_HOPELESS = 1 << 16


class TopK(NamedTuple):
    """The most probable label vectors of each row, best first.

    Attributes
    ----------
    labels : ndarray of shape (n, k, d)
        Label values.
    log_prob : ndarray of shape (n, k)
        Their natural log-probabilities, descending; -inf for vectors that cannot occur, listed
        when fewer than k can.
    """

    labels: NDArray[Any]
    log_prob: Array


class Listed(NamedTuple):
    """Label vectors of several rows.

    Attributes
    ----------
    rows : (m,)
        Row of the batch each vector belongs to.
    codes : (m, d)
        The vectors.
    cut : (n,)
        Rows that may lack some vector that should be listed.
    """

    rows: Indices
    codes: Codes
    cut: Flags


class Joint(ABC):
    """The distribution P(y | x) over label vectors, for each of n rows.

    The methods without `codes` or `tables` in their name speak in the user's label values; the
    others, which a family implements, speak in the integer codes of `space` and are meant for
    library code. There, -1 (`colabel.labels.MISSING`) stands for a label that is not observed.

    Attributes
    ----------
    space : LabelSpace
        Names and values of the d labels.
    n_rows : int
        Number of rows n.
    exact : Exactness
        The questions that are answered exactly: ``"mode" in joint.exact``, likewise ``"sums"``
        and ``"log_prob"``, or all of them, ``joint.exact.all``. `how` names the approximations.
    how : str
        One sentence that says how the answers are computed.
    index : index of pandas, or None
        That of the data frame the rows came in; `to_frame` has it.

    Examples
    --------
    `Independent` and `Tree` are families; every family answers the same questions.

    >>> import numpy as np
    >>> from colabel.joint import Tree
    >>> from colabel.labels import LabelSpace
    >>> zero_one = np.array([0, 1])
    >>> space = LabelSpace(("rain", "wet"), (zero_one, zero_one), "matrix")
    >>> rain = np.log([[[0.6, 0.4]]])                    # one row: P(rain)
    >>> wet = np.log([[[0.8, 0.2], [0.1, 0.9]]])         # P(wet | rain)
    >>> joint = Tree(space, parents=[-1, 0], log_tables=[rain, wet])
    >>> joint.mode()
    array([[0, 0]])
    >>> joint.marginals().round(2)
    array([[0.4 , 0.48]])
    >>> joint.given({"wet": 1}).marginals().round(2)
    array([[0.75, 1.  ]])
    """

    exact: Exactness
    how: str
    index: Any = None
    # numbers in the vectors that are looked up, or listed, at once
    codes_at_once: ClassVar[int] = 1 << 23
    # what a family's joints are made of, once it is checked
    _set: Callable[..., None]

    def __init__(self, space: LabelSpace, n_rows: int) -> None:
        self.space = space
        self.n_rows = n_rows

    @classmethod
    def _unchecked(cls, *parts: Any) -> Self:
        """Make a joint of what `_set` takes."""
        joint = cls.__new__(cls)
        joint._set(*parts)
        return joint

    def _copy(self, **changes: Any) -> Self:
        """Return a joint like this one with other attributes; cached answers are dropped."""
        joint = object.__new__(type(self))
        for name, value in (self.__dict__ | changes).items():
            if not isinstance(getattr(type(self), name, None), cached_property):
                joint.__dict__[name] = value
        return joint

    # In the user's terms

    def mode(self) -> NDArray[Any]:
        """Return the most probable label vector of each row, shape (n, d)."""
        return self.space.values(self.mode_codes())

    def marginals(self) -> Array | list[Array]:
        """Return the probability of each label alone.

        Returns
        -------
        ndarray of shape (n, d) or list of d ndarrays of shape (n, K_i)
            For labels of two values each, the probability of the second (of 1, for 0/1 labels);
            otherwise, per label, the probability of each of its values.
        """
        tables = self.marginal_tables()
        if self.space.is_binary:
            return np.stack([table[:, 1] for table in tables], axis=1)
        return tables

    def pair_marginals(self, i: str | int, j: str | int) -> Array:
        """Return P(y_i, y_j) of two labels given by name or position, shape (n, K_i, K_j)."""
        return self.pair_table(self.space.index(i), self.space.index(j))

    def log_prob(self, Y: ArrayLike) -> Array:
        """Return the natural log-probability of label vectors, shape (n,).

        Parameters
        ----------
        Y : array-like of shape (n, d) or (d,)
            Label values, one vector per row or one for all rows. Where an entry is NaN or None
            the label is not observed, and the others' joint marginal probability is returned.
            Values that were never seen in training have probability zero: -inf, with a warning.
        """
        codes = codes_of_labels(self.space, Y, self.n_rows, mark_unseen=True)
        unseen = (codes == UNSEEN).any(axis=1)
        if not unseen.any():
            return self.log_prob_codes(codes)
        warn(
            f"{int(unseen.sum())} of {self.n_rows} rows hold a value that was never seen in "
            "training: its probability is zero.",
        )
        known = self.log_prob_codes(np.where(codes == UNSEEN, MISSING, codes))
        return np.where(unseen, -np.inf, known)

    def top_k(self, k: int) -> TopK:
        """Return the k most probable label vectors of each row and their log-probabilities.

        There are never more than there are label vectors, so k may come back smaller. Ties are
        broken the same way every time.
        """
        check_integer("k", k, 1)
        codes, log_prob = self.top_k_codes(self._at_most_all(k))
        return TopK(self.space.values(codes), log_prob)

    def sample(self, size: int, rng: Generator | int | None = None) -> NDArray[Any]:
        """Draw `size` label vectors per row, shape (size, n, d); the same seed, the same draws."""
        check_integer("size", size, 0)
        return self.space.values(self.sample_codes(size, np.random.default_rng(rng)))

    def given(self, evidence: Mapping[str | int, Any] | ArrayLike) -> Joint:
        """Return the distribution when some labels are already known.

        Parameters
        ----------
        evidence : mapping or array-like of shape (n, d) or (d,)
            Label (name or position) -> its value in all rows, or an array (n,) of values in which
            NaN or None means unknown; or a table of label values with NaN for the unknown ones.

        Raises
        ------
        ValueError
            If some row gives the evidence probability zero.
        """
        codes = codes_of_evidence(self.space, evidence, self.n_rows)
        return self.given_codes(codes).with_index(self.index)

    def subject_to(
        self,
        rules: Rules | CompiledRules | str,
        *,
        max_listed: int = 1 << 12,
        memory: int = 1 << 24,
    ) -> Joint:
        """Return the distribution over the label vectors that obey rules.

        Parameters
        ----------
        rules : Rules or str
            What is known about label sets, see `colabel.rules.Rules`; or, where many batches of
            rows obey the same, ``Rules.compiled(joint.space)``.
        max_listed : int
            All vectors that obey are written out if there are no more, where that is the way to an
            exact answer.
        memory : int
            Bytes that the tables of one row may take where labels are eliminated one by one. Where
            neither is enough, there are weighted draws.

        Returns
        -------
        Joint
            Exact where the joint is and the rules are few enough, or tie few labels together at a
            time; otherwise `exact` and `how` say what is estimated. The mode always obeys.

        Raises
        ------
        ValueError
            If a rule does not fit the labels, if rules contradict each other, or if some row gives
            them probability zero.

        Examples
        --------
        >>> import numpy as np
        >>> from colabel.joint import Independent
        >>> from colabel.labels import LabelSpace
        >>> space = LabelSpace(("whale", "mammal"), (np.array([0, 1]),) * 2, "matrix")
        >>> joint = Independent(space, [np.log([[0.4, 0.6]]), np.log([[0.5, 0.5]])])
        >>> joint.subject_to("whale -> mammal").marginals().round(2)
        array([[0.43, 0.71]])
        >>> np.exp(joint.log_prob_of("whale -> mammal")).round(2)
        array([0.7])
        """
        joint, log_prob = self._obeying(self._compiled(rules, max_listed, memory))
        zero = np.flatnonzero(np.isneginf(log_prob))
        if zero.size:
            shown = ", ".join(map(str, zero[:5])) + (", ..." if len(zero) > 5 else "")
            raise ValueError(
                f"The rules have probability zero in {len(zero)} of {self.n_rows} rows ({shown}): "
                "no label vector that the model, or what was given, thinks possible obeys them."
            )
        return joint.with_index(self.index)

    def log_prob_of(
        self,
        rules: Rules | CompiledRules | str,
        *,
        max_listed: int = 1 << 12,
        memory: int = 1 << 24,
    ) -> Array:
        """Return the log-probability that a row's labels obey rules, shape (n,).

        Exact where `subject_to` (see there) is and the joint's own sums are; -inf where nothing
        obeys.
        """
        return self._obeying(self._compiled(rules, max_listed, memory))[1]

    def _compiled(
        self, rules: Rules | CompiledRules | str, max_listed: int, memory: int
    ) -> CompiledRules:
        if isinstance(rules, str):
            rules = Rules.parse(rules)
        compiled = rules if isinstance(rules, CompiledRules) else rules.compiled(self.space)
        if (compiled.max_listed, compiled.memory) == (max_listed, memory):
            return compiled  # which keeps the vectors that it has listed before
        return CompiledRules(self.space, compiled.nodes, max_listed, memory)

    def _obeying(self, rules: CompiledRules) -> tuple[Joint, Array]:
        """Return the joint subject to rules, and their log-probability (n,).

        Rows in which nothing obeys, -inf, have some other distribution.
        """
        from colabel.joint.obeying import obeying

        return obeying(self, rules)

    # For people

    def to_frame(self, k: int | None = None) -> pd.DataFrame:
        """Return probabilities as a data frame (needs pandas).

        Parameters
        ----------
        k : int, optional
            How many label vectors to list for each row. By default no vectors are listed, and
            the frame has the probability of each label alone.

        Returns
        -------
        DataFrame
            Without k: n rows, one column per label (of 1, for 0/1 labels; else one per value).
            With k: one line per row and rank, with the joint probability and the label values.

        Examples
        --------
        >>> import numpy as np
        >>> from colabel.joint import Independent
        >>> from colabel.labels import LabelSpace
        >>> space = LabelSpace(("a", "b"), (np.array([0, 1]), np.array([0, 1])), "matrix")
        >>> joint = Independent(space, [np.log([[0.25, 0.75]]), np.log([[0.5, 0.5]])])
        >>> joint.to_frame()
              a    b
        0  0.75  0.5
        >>> joint.to_frame(k=2)
                  probability  a  b
        row rank
        0   1           0.375  1  0
            2           0.375  1  1
        """
        return marginals_frame(self) if k is None else top_k_frame(self, k)

    def __str__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)

    # In codes, for library code

    def mode_codes(self) -> Codes:
        """Return the codes (n, d) of the most probable vectors."""
        return self.top_k_codes(1)[0][:, 0]

    @abstractmethod
    def marginal_tables(self) -> list[Array]:
        """Return P(y_i) for each label as an array (n, K_i)."""

    @abstractmethod
    def log_prob_codes(self, codes: Codes) -> Array:
        """Return the log-probability (n,) of the observed entries of codes (n, d)."""

    def log_prob_at(self, rows: Indices, codes: Codes) -> Array:
        """Return the log-probability (m,) of codes (m, d), each in one of the rows (m,).

        A row may appear many times: the cost depends on the number of vectors, not on the size of
        the row's tables.
        """
        chunks = row_slices(len(rows), self.codes_at_once, self.space.n_labels)
        return np.concatenate([self.rows(rows[c]).log_prob_codes(codes[c]) for c in chunks])

    @abstractmethod
    def top_k_codes(self, k: int) -> tuple[Codes, Array]:
        """Return codes (n, k, d) and log-probabilities (n, k), best first."""

    def likely_codes(self, k: int) -> tuple[Codes, Array]:
        """Return codes (n, k, d) and log-probabilities (n, k), best first, without any proof.

        Where the best are not found by themselves, these are candidates for them.
        """
        return self.top_k_codes(k)

    @abstractmethod
    def sample_codes(self, size: int, rng: Generator) -> Codes:
        """Return draws (size, n, d)."""

    @abstractmethod
    def given_codes(self, evidence: Codes) -> Joint:
        """Return the joint given the known entries of evidence (n, d)."""

    @abstractmethod
    def rows(self, index: Rows) -> Joint:
        """Return the joint of some of the rows."""

    @property
    def lists_all(self) -> bool:
        """Whether `listed_above` is complete, except where it says that it was cut."""
        return "mode" in self.exact

    def listed_above(self, least: Array) -> Listed:
        """Return the vectors whose log-probability is at least `least` (n,) in their row."""
        return listed_by_top_k(self, least)

    def pair_table(self, i: int, j: int) -> Array:
        """Return P(y_i, y_j) as an array (n, K_i, K_j)."""
        raise NotImplementedError(
            f"{type(self).__name__} has no closed form for pairs of labels: count them in "
            "sample(size) instead."
        )

    def pair_tables(self, pairs: Sequence[tuple[int, int]]) -> list[Array]:
        """Return P(y_i, y_j) of several pairs (i, j) as arrays (n, K_i, K_j).

        Families that sum over label vectors do so once for all the pairs.
        """
        return [self.pair_table(i, j) for i, j in pairs]

    def entropy(self) -> Array:
        """Return the entropy of each row's distribution in nats, shape (n,)."""
        raise NotImplementedError(
            f"{type(self).__name__} has no closed form for the entropy: average -log_prob over "
            "sample(size) instead."
        )

    def size_marginals(self) -> SizeMarginals:
        """Return how many labels a row has, alone and together with each label.

        Only for 0/1 labels. `Independent`, `Tree` and `VectorList` give it exactly, and so does
        a `Chain` whose sums are exact; a `Mixture` averages what its members give. Other families
        sum over all label vectors if there are at most 1024 and their `log_prob` is exact, and
        otherwise count in 1000 draws of each row, from a fixed seed.

        Returns
        -------
        SizeMarginals
            `size` (n, d + 1): ``P(|y| = s)``, and `with_label` (n, d, d + 1):
            ``P(y_i = 1, |y| = s)``.
        """
        require_zero_one(self.space, "size_marginals")
        return self._size_marginals()

    def _size_marginals(self) -> SizeMarginals:
        """Return the size marginals of 0/1 labels."""
        return sizes_by_counting(self)

    # The container

    def __len__(self) -> int:
        return self.n_rows

    def __getitem__(self, index: int | slice | ArrayLike) -> Joint:
        chosen = as_rows(index, self.n_rows)
        return self.rows(chosen).with_index(None if self.index is None else self.index[chosen])

    def with_index(self, index: Any) -> Joint:
        """Return the joint with the index of a data frame for its rows; None is for none."""
        return self if index is self.index else self._copy(index=index)

    def __repr__(self) -> str:
        rows, labels = _counted(self.n_rows, "row"), _counted(self.space.n_labels, "label")
        return f"<{type(self).__name__}: {rows}, {labels}, {self.exact}>"

    def _at_most_all(self, k: int) -> int:
        """Return k, or the number of label vectors if that is smaller."""
        return min(k, math.prod(self.space.cardinalities))


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def listed_by_top_k(joint: Joint, least: Array) -> Listed:
    """List the vectors of log-probability at least `least` (n,), by ever longer lists of the best.

    Where a row's best vectors are approximate, one list is requested and all of it is returned.
    No longer list is requested for rows where it would be far too long.
    """
    cut, d = least < np.inf, joint.space.n_labels
    open_rows, length = np.flatnonzero(cut), _FIRST
    rows: list[Indices] = [np.empty(0, dtype=np.intp)]
    codes: list[Codes] = [np.empty((0, d), dtype=np.int32)]
    while open_rows.size:
        going_on = [open_rows[:0]]
        for chunk in row_slices(open_rows.size, joint.codes_at_once, length * d):
            part = open_rows[chunk]
            some = joint.rows(part)
            best, log_prob = some.top_k_codes(length)
            exact = "mode" in some.exact  # after the search, which may take it back
            complete = best.shape[1] == joint._at_most_all(length + 1)
            ended = complete | (log_prob[:, -1] < least[part])
            done = ended | (length >= _LONGEST) | (not exact)
            # their number grows by about the same factor per nat: k are within log P_1 - log P_k;
            # ties do not show how many come after them
            reach, gap = log_prob[:, 0] - log_prob[:, -1], log_prob[:, 0] - least[part]
            share = np.divide(gap, reach, out=np.zeros(len(gap)), where=reach > 1e-3)
            with np.errstate(over="ignore"):
                expected = np.power(float(log_prob.shape[1]), share)
            done |= np.minimum(expected, joint._at_most_all(2 * _HOPELESS)) > _HOPELESS
            wanted = (log_prob >= least[part, None]) | (not exact)
            place, rank = np.nonzero(wanted & (log_prob > -np.inf) & done[:, None])
            rows.append(part[place])
            codes.append(best[place, rank])
            if exact:
                cut[part[ended]] = False
            going_on.append(part[~done])
        open_rows, length = np.concatenate(going_on), 4 * length
    return Listed(np.concatenate(rows), np.concatenate(codes), cut)
