"""LabelSpace: any Y a user has -> integer codes, and back."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from colabel.core.arrays import Codes
from colabel.core.schema import ASCENDING, NOT_EMPTY, UNIQUE, Dims, Fields, check_that, stored
from colabel.labels import inputs
from colabel.labels.columns import (
    MISSING,
    SEPARATORS,
    common_dtype,
    distinct,
    few,
    is_missing,
    lookup,
    ordered,
    says_presence,
    tidy,
)

Kind = Literal["vector", "matrix", "sparse", "sets"]
UNSEEN = -2
"""The code of a value that a label space does not have, where it is not an error."""

__all__ = ["MISSING", "Codes", "EncodedLabels", "Kind", "LabelSpace", "SeenLabels"]


@stored("label-space")
@dataclass(frozen=True, eq=False, repr=False)
class LabelSpace:
    """The label variables of a problem: their names, their values, and how Y was given.

    Made by :meth:`infer` from training labels. Afterwards :meth:`encode` turns labels into integer
    codes and :meth:`decode` turns codes into labels, in the container the training labels had.

    Attributes
    ----------
    names : tuple of d str
        One per variable.
    classes : tuple of d arrays
        ``classes[i]`` holds the values of variable i in ascending order; the code of a value is
        its position there.
    kind : {"vector", "matrix", "sparse", "sets"}
        The container of the training labels, see :meth:`infer`.
    members : tuple of d labels, or empty
        For kind "sets", the labels that stand in the sets where these are not strings.

    Examples
    --------
    >>> from colabel.labels import LabelSpace
    >>> space, codes = LabelSpace.infer([{"sad", "quiet"}, {"happy"}, set()])
    >>> space
    LabelSpace(3 labels given as sets: happy, quiet, sad)
    >>> codes
    array([[0, 1, 1],
           [1, 0, 0],
           [0, 0, 0]], dtype=int32)
    >>> space.decode(codes)[1]
    {'happy'}

    Class variables with more than two values:

    >>> space, codes = LabelSpace.infer([["low", 3], ["high", 1], ["low", 2]], names=["risk", "n"])
    >>> space.cardinalities
    (2, 3)
    >>> space.decode(codes[:1])
    array([['low', 3]], dtype=object)
    """

    names: Annotated[tuple[str, ...], "d", UNIQUE]
    classes: Annotated[tuple[NDArray[Any], ...], "d [sizes]", NOT_EMPTY]
    kind: Kind
    members: tuple[Hashable, ...] = ()  # kind "sets": the labels, if they are not strings

    @staticmethod
    def _check_stored(fields: Fields, dims: Dims) -> None:
        classes, kind, members = fields["classes"], fields["kind"], fields["members"]
        for values in classes:
            if values.dtype.kind == "O":
                UNIQUE.check(values.tolist(), dims, "the values of a label")
            else:
                ASCENDING.check(values, dims, "the values of a label")
                whole = values.dtype.kind != "f" or (values == np.rint(values)).all()
                check_that(whole, "the values of a label are no classes")
        check_that(kind != "vector" or dims["d"] == 1, "a vector has more than one label")
        zero_one = all(values.tolist() == [0, 1] for values in classes)
        check_that(kind in ("vector", "matrix") or zero_one, "labels in sets are not 0 and 1")
        plain = all(isinstance(member, Hashable) for member in members)
        check_that(len(members) in (0, dims["d"]) and plain, "the members of sets are damaged")

    @classmethod
    def infer(cls, Y: Any, names: Sequence[str] | None = None) -> tuple[LabelSpace, Codes]:
        """Learn the space from training labels; return it with the codes (n, d).

        Parameters
        ----------
        Y : labels of n rows and d variables, in one of these containers
            - array of shape (n, d), list of n lists of length d, or data frame of any library:
              kind "matrix". Numbers, booleans, strings, dates or a mixture, one class variable per
              column.
            - sparse matrix or array of shape (n, d) of 0 and 1: kind "sparse".
            - list, series or 1-d object array of n collections of labels: kind "sets". Sets and
              frozensets always are label sets. Lists and tuples of strings are label sets when
              their lengths differ, and in a series or object array always. A list of equally long
              ones could be either and is refused: give sets, or an array. None stands for a row
              not observed.
            - array, series or list of n values: kind "vector", one class variable. Labels joined in
              texts ("a;b", "a", "b;c") and lists written out ("['a', 'b']") are refused: split
              them, or give classes as (n, 1).

            NaN, None, NaT and pandas.NA mean "not observed" and get the code `MISSING`.
        names : sequence of d str, optional
            Names of the variables. By default those of the data frame's columns, of the labels in
            the sets, or "y0", "y1", …. For sets, names are all the labels there can be.

        Returns
        -------
        space : LabelSpace
        codes : int32 array of shape (n, d), C-contiguous

        Notes
        -----
        If no value other than 0 and 1 (or False and True) is observed in the whole matrix, every
        variable has both values, also one that is constant in these rows. Otherwise, and for a
        vector, a variable has exactly the values observed, be it a single one; categories that a
        pandas categorical declares without using are left out. Values keep their dtype: integers
        stay integers, whole floats stay floats. A column of several types is ordered by the name
        of the type, then by value. Sparse matrices and sets have the integers 0 and 1.

        Examples
        --------
        >>> import numpy as np
        >>> from colabel.labels import LabelSpace
        >>> space, codes = LabelSpace.infer(np.array([[0.0, 1.0], [np.nan, 1.0]]))
        >>> codes
        array([[ 0,  1],
               [-1,  1]], dtype=int32)
        >>> space.classes[1]
        array([0., 1.])
        """
        return infer_space(Y, names)

    @classmethod
    def of_seen(cls, seen: SeenLabels, names: Sequence[str] | None = None) -> LabelSpace:
        """Return the space that :meth:`infer` would find in rows, from a summary of them."""
        chosen = inputs.chosen_names(names, seen.names, len(seen.values))
        _require_observed(chosen, [len(values) > 0 for values in seen.values])
        if seen.kind == "sparse":
            return cls(chosen, seen.values, "sparse")
        if seen.kind == "vector" or seen.names:
            _check_no_lists(seen.values)
        return _space_of_values(list(seen.values), chosen, is_vector=seen.kind == "vector")

    @property
    def n_labels(self) -> int:
        """Number of variables d."""
        return len(self.names)

    @property
    def cardinalities(self) -> tuple[int, ...]:
        """Number of values of each variable.

        At least 2 for 0/1 labels, where a constant one keeps both values. A multi-valued variable
        that is constant in the training rows has 1.
        """
        return tuple(len(c) for c in self.classes)

    @property
    def is_binary(self) -> bool:
        """Whether every variable has two values (multi-label)."""
        return all(k == 2 for k in self.cardinalities)

    @property
    def is_indicator(self) -> bool:
        """Whether every variable says that a label is present or absent.

        By 0 and 1, by False and True, or, in a matrix, by words such as no and yes.
        """
        numbers = all(c.dtype.kind in "biuf" for c in self.classes)
        return (numbers or self.kind == "matrix") and all(map(says_presence, self.classes))

    def __repr__(self) -> str:
        shown = [
            name if self.is_indicator else f"{name}[{len(c)}]"
            for name, c in zip(self.names[:6], self.classes, strict=False)
        ]
        dots = ", …" if self.n_labels > len(shown) else ""
        what = "label" if self.is_indicator else "class variable"
        plural = "" if self.n_labels == 1 else "s"
        listed = ", ".join(shown) + dots
        return f"LabelSpace({self.n_labels} {what}{plural} given as {self.kind}: {listed})"

    def index(self, name: str | int) -> int:
        """Position of a variable given by name or position; a clear KeyError otherwise."""
        if isinstance(name, str) and name in self.names:
            return self.names.index(name)
        if isinstance(name, int | np.integer) and 0 <= name < self.n_labels:
            return int(name)
        if isinstance(name, str):
            close = get_close_matches(name, self.names, n=3)
            hint = f"did you mean {few(close)}?" if close else f"there are {few(self.names)}."
        else:
            hint = f"positions go from 0 to {self.n_labels - 1}."
        raise KeyError(f"There is no label {name!r}: {hint}")

    def encode(self, Y: Any, *, mark_unseen: bool = False) -> Codes:
        """(n, d) codes of labels of this space; NaN/None become MISSING (-1).

        Parameters
        ----------
        Y : labels of n rows, in any container :meth:`infer` takes
            A data frame's columns may be in another order. Sets of labels suit any space of 0/1
            labels, and an array of shape (n, d) suits every space. In a space of kind "sets",
            lists of strings are label sets, of whatever lengths.
        mark_unseen : bool
            Whether values that the space does not have become UNSEEN (-2) instead of an error.

        Returns
        -------
        codes : int32 array of shape (n, d), C-contiguous

        Examples
        --------
        >>> from colabel.labels import LabelSpace
        >>> space, _ = LabelSpace.infer([["low", 1], ["high", 2]], names=["risk", "grade"])
        >>> space.encode([["low", 2], [None, 1]])
        array([[ 1,  1],
               [-1,  0]], dtype=int32)
        """
        if isinstance(Y, EncodedLabels):
            if Y.space is not self:
                raise ValueError(
                    "Y was encoded by another label space: give the labels themselves."
                )
            return Y.codes
        given = inputs.read(Y, lists="sets" if self.kind == "sets" else "table")
        if isinstance(given, inputs.Columns):
            return self._encode_columns(given, mark_unseen)
        if not self.is_indicator:
            raise ValueError(
                "Y is given as label sets or as a sparse 0/1 matrix, but the class variables here "
                f"have other values ({self!r}): give an array of shape (n, {self.n_labels})."
            )
        if isinstance(given, list):
            return inputs.set_codes(given, self.names)
        self._require_width(given.shape[1])
        return given

    def _encode_columns(self, given: inputs.Columns, mark_unseen: bool) -> Codes:
        arrays = self._in_order(given)
        codes = np.full((len(arrays[0]), len(arrays)), MISSING, dtype=np.int32)
        for i, (array, name, classes) in enumerate(
            zip(arrays, self.names, self.classes, strict=True)
        ):
            values, observed = tidy(array, name)
            column = lookup(classes, values)
            if mark_unseen:
                column = np.where(column == MISSING, UNSEEN, column)
            elif column.size and column.min() == MISSING:
                unseen = few(distinct(values[column == MISSING], name)[0])
                raise ValueError(
                    f"Label {name!r} is given as {unseen}, but the values it was learnt with are "
                    f"{few(classes)}."
                )
            codes[slice(None) if observed is None else observed, i] = column
        return codes

    def _require_width(self, width: int) -> None:
        if width != self.n_labels:
            raise ValueError(
                f"Y has {width} column{'s' * (width != 1)}, but there are {self.n_labels} label "
                f"variables ({few(self.names)}): give an array of shape (n, {self.n_labels})."
            )

    def _in_order(self, given: inputs.Columns) -> tuple[NDArray[Any], ...]:
        """Put the columns in the order of the variables, matched by name where both have names."""
        unnamed = (
            given.names is None
            or given.is_vector
            or self.names == inputs.default_names(self.n_labels)
        )
        if not unnamed and set(given.names or ()) != set(self.names):
            absent = [name for name in self.names if name not in (given.names or ())]
            extra = [name for name in given.names or () if name not in self.names]
            raise ValueError(
                "The columns of Y are not those this space was learnt from "
                f"(absent: {few(absent) or 'none'}; unexpected: {few(extra) or 'none'}). Rename "
                f"the columns, or give an array of shape (n, {self.n_labels})."
            )
        self._require_width(len(given.arrays))
        if given.names is None or set(given.names) != set(self.names):
            return given.arrays
        position = {name: i for i, name in enumerate(given.names)}
        return tuple(given.arrays[position[name]] for name in self.names)

    def values(self, codes: Codes) -> NDArray[Any]:
        """Return the array of label values (..., d) behind codes (..., d).

        Parameters
        ----------
        codes : integer array of shape (..., d)

        Returns
        -------
        values : array of shape (..., d)
            Of the dtype common to all classes; of dtype object if they mix numbers, strings and
            dates. A code `MISSING` becomes NaN among floats, NaT among dates, and otherwise None
            in an array of dtype object.

        Examples
        --------
        >>> import numpy as np
        >>> from colabel.labels import LabelSpace
        >>> space, _ = LabelSpace.infer(np.array([["a", "no"], ["b", "yes"]]))
        >>> space.values([[1, 0], [-1, 1]])
        array([['b', 'no'],
               [None, 'yes']], dtype=object)
        """
        codes = self._checked(codes)
        missing = codes < 0
        dtype = common_dtype(self.classes)
        if missing.any() and dtype.kind not in "fMm":
            dtype = np.dtype(object)
        first = self.classes[0]
        # code -1 reads the last class here; it is overwritten below
        if all(np.array_equal(c, first) for c in self.classes):
            out = np.take(first.astype(dtype), codes)
        else:
            out = np.empty(codes.shape, dtype=dtype)
            for i, classes in enumerate(self.classes):
                out[..., i] = classes[codes[..., i]]
        if missing.any():
            out[missing] = {"f": np.nan, "O": None}.get(dtype.kind, "NaT")
        return out

    def _checked(self, given: Any) -> NDArray[Any]:
        codes: NDArray[Any] = np.asarray(given)
        if codes.ndim == 0 or codes.shape[-1] != self.n_labels or codes.dtype.kind not in "iub":
            raise ValueError(
                f"Codes have shape {codes.shape} and dtype {codes.dtype}: give integers of shape "
                f"(..., {self.n_labels}), one per label variable."
            )
        codes = codes.astype(np.int64) if codes.dtype.kind in "ub" else codes
        wrong = (codes < MISSING) | (codes >= np.array(self.cardinalities))
        if wrong.any():
            i = int(np.argwhere(wrong)[0, -1])
            raise ValueError(
                f"Code {int(codes[wrong][0])} of label {self.names[i]!r} is out of range: its "
                f"codes go from 0 to {self.cardinalities[i] - 1}, and {MISSING} is missing."
            )
        return codes

    def decode(self, codes: Codes) -> Any:
        """Codes (n, d) in the container the labels came in.

        Parameters
        ----------
        codes : integer array of shape (n, d)

        Returns
        -------
        Y : array of shape (n,) for kind "vector", array of shape (n, d) for "matrix", integer
            ``scipy.sparse.csr_array`` for "sparse", list of n sets of labels for "sets"
            Missing labels of a vector or matrix are as in :meth:`values`. A row of sets whose
            labels are all missing is None; a set or a sparse matrix cannot hold single missing
            labels, which is an error.

        Examples
        --------
        >>> from colabel.labels import LabelSpace
        >>> space, codes = LabelSpace.infer(["yes", "no", "yes"])
        >>> space.decode(codes)
        array(['yes', 'no', 'yes'], dtype='<U3')
        """
        checked = self._checked(codes)
        if checked.ndim != 2:
            raise ValueError(
                f"Codes have shape {checked.shape}: give shape (n, {self.n_labels}), or use "
                "`values` for other shapes."
            )
        if self.kind == "sparse":
            inputs.check_representable(checked < 0, "a sparse matrix")
            return sparse.csr_array(checked.astype(np.int64))
        if self.kind == "sets":
            return inputs.sets_of(checked, self.members or self.names)
        values = self.values(codes)
        return values[:, 0] if self.kind == "vector" else values


@dataclass(frozen=True, eq=False)
class EncodedLabels:
    """Labels that have been encoded already, as any `y` may be given.

    A model or transformer that is fitted to some rows of a problem so knows all the values that
    the labels can have, also those that its own rows lack: probabilities of models that were
    fitted to different rows are then about the same label vectors.

    Attributes
    ----------
    space : LabelSpace
    codes : (n, d) array of int32
    """

    space: LabelSpace
    codes: Codes

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and labels."""
        return self.codes.shape

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: Any) -> EncodedLabels:
        return EncodedLabels(self.space, self.codes[rows])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self.codes, dtype=dtype)


class SeenLabels(NamedTuple):
    """A summary of the labels of some rows: names, observed values of each, and container.

    Those of several parts can be `joined`; `LabelSpace.of_seen` is then what `LabelSpace.infer`
    finds in all rows.
    """

    names: tuple[str, ...] | None
    values: tuple[NDArray[Any], ...]
    kind: Kind

    @classmethod
    def of(cls, Y: Any) -> SeenLabels:
        """Summarise labels (n, d) or (n,) in an array, a data frame or a sparse matrix."""
        given = inputs.read(Y)
        if isinstance(given, list):
            raise ValueError(
                "Y holds sets of labels, which are only known together: give chunks of a 0/1 "
                "matrix or of class variables."
            )
        if isinstance(given, np.ndarray):
            return cls(None, (np.array([0, 1]),) * given.shape[1], "sparse")
        names = inputs.default_names(len(given.arrays)) if given.names is None else given.names
        columns = zip(given.arrays, names, strict=True)
        values = tuple(distinct(tidy(column, name)[0], name)[0] for column, name in columns)
        return cls(given.names, values, "vector" if given.is_vector else "matrix")

    def joined(self, other: SeenLabels) -> SeenLabels:
        """Join the summaries of two parts."""
        names = self.names or inputs.default_names(len(self.values))
        both = [
            a if not len(b) else b if not len(a) else distinct(np.concatenate([a, b]), name)[0]
            for a, b, name in zip(self.values, other.values, names, strict=True)
        ]
        return SeenLabels(self.names, tuple(both), self.kind)


def infer_space(
    Y: Any,
    names: Sequence[str] | None = None,
    *,
    allow_unobserved: bool = False,
    lists: inputs.Lists = "asked",
) -> tuple[LabelSpace, Codes]:
    """`LabelSpace.infer`, also for metrics, whose labels need not suffice for learning.

    With ``allow_unobserved``, a variable without any observed value has no classes (0 and 1 among
    0/1 labels), and sets that are all empty make a space without variables; `lists` says what
    equally long lists of strings are.
    """
    if isinstance(Y, EncodedLabels):
        return Y.space, Y.codes
    given = inputs.read(Y, lists=lists)
    if isinstance(given, list):
        space = _infer_sets(given, names, allow_unobserved)
        codes = inputs.set_codes(given, space.names)
    elif isinstance(given, np.ndarray):
        codes, d = given, given.shape[1]
        space = LabelSpace(inputs.chosen_names(names, None, d), (np.array([0, 1]),) * d, "sparse")
    else:
        chosen = inputs.chosen_names(names, given.names, len(given.arrays))
        space, codes = _infer_columns(given, chosen)
    if not allow_unobserved:
        _require_observed(space.names, (codes != MISSING).any(axis=0))
    return space, codes


def _require_observed(names: Sequence[str], observed: Sequence[bool] | NDArray[Any]) -> None:
    none = [name for name, seen in zip(names, observed, strict=True) if not seen]
    if none:
        raise ValueError(
            f"Y has no observed value for {few(none)}: every entry is missing (NaN or None). Leave "
            "the variable out, or give at least one observed label."
        )


def _infer_columns(given: inputs.Columns, names: tuple[str, ...]) -> tuple[LabelSpace, Codes]:
    codes = np.full((len(given.arrays[0]), len(names)), MISSING, dtype=np.int32)
    classes: list[NDArray[Any]] = []
    for i, (array, name) in enumerate(zip(given.arrays, names, strict=True)):
        values, observed = tidy(array, name)
        own, column = distinct(values, name)
        codes[slice(None) if observed is None else observed, i] = column
        classes.append(own)
    if given.is_vector or given.names:
        _check_no_lists(classes)
    space = _space_of_values(classes, names, is_vector=given.is_vector)
    for i, (own, known) in enumerate(zip(classes, space.classes, strict=True)):
        if len(own) < len(known):  # both values of a 0/1 label, of which one was observed
            codes[codes[:, i] == 0, i] = lookup(known, own)[0] if len(own) else 0
    return space, codes


def _space_of_values(
    classes: list[NDArray[Any]], names: tuple[str, ...], *, is_vector: bool
) -> LabelSpace:
    """Space of columns with these observed values; see the notes of `LabelSpace.infer`."""
    if is_vector:
        return LabelSpace(names, tuple(classes), "vector")
    if all(c.dtype.kind in "biuf" and np.isin(c, (0, 1)).all() for c in classes):
        classes = [np.array([0, 1]).astype(c.dtype) for c in classes]
    return LabelSpace(names, tuple(classes), "matrix")


def written_list(text: str) -> list[str] | None:
    """Return the labels in a list that is written out, as Python or JSON do; None if it is none.

    Examples
    --------
    >>> from colabel.labels.space import written_list
    >>> written_list("['billing', 'login']"), written_list("[sic]")
    (['billing', 'login'], None)
    """
    text = text.strip()
    if text in ("set()", "frozenset()"):
        return []
    if text[:1] + text[-1:] not in ("[]", "{}", "()"):
        return None
    try:
        labels = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    plain = isinstance(labels, list | tuple | set) and all(
        isinstance(label, str | int) for label in labels
    )
    return [str(label) for label in labels] if plain else None


def _check_no_lists(classes: Sequence[NDArray[Any]]) -> None:
    """Raise an error for a class variable whose values are lists of labels: "a;b", "['b', 'c']".

    So it is where more than a quarter of the different values hold the separator, and more than
    half of the parts of these occur in another value too. A name such as "Paris, France" stays.
    """
    if len(classes) != 1 or not all(isinstance(value, str) for value in classes[0].tolist()):
        return
    values: list[str] = classes[0].tolist()
    advice = "for a label each. If they are classes as they stand, give them as an array of shape"
    if any(value.strip() for value in values) and all(
        written_list(value) is not None for value in values if value.strip()
    ):
        raise ValueError(
            f"y is a single class variable with values such as {values[-1]!r}, which are lists of "
            "labels written out: read them, y = [set(ast.literal_eval(text)) for text in y], "
            f"{advice} (n, 1)."
        )
    for separator in SEPARATORS:
        rows = [{part.strip() for part in value.split(separator)} - {""} for value in values]
        joined = [parts for value, parts in zip(values, rows, strict=True) if separator in value]
        if 4 * len(joined) <= len(values):
            continue
        times = Counter(part for parts in rows for part in parts)
        own = set().union(*joined)
        if 2 * sum(times[part] > 1 for part in own) > len(own):
            example = next(value for value in values if separator in value)
            raise ValueError(
                f"y is a single class variable with values such as {example!r}, which look like "
                f"labels joined by {separator!r}: split them, y = [set(text.split({separator!r})) "
                f"for text in y], {advice} (n, 1)."
            )


def _infer_sets(
    given: inputs.LabelRows, names: Sequence[Any] | None, allow_empty: bool
) -> LabelSpace:
    labels: list[Any]
    if names is None:
        labels = ordered((label for row in given for label in row or ()), "Y")
    else:
        labels = list(names) if not isinstance(names, str) else [*inputs.unique_names(names)]
    if any(is_missing(label) for label in labels):
        raise ValueError(
            "A set of labels in Y holds a missing value (None or NaN): leave it out of the set, or "
            "give None for the whole row if its labels were not observed."
        )
    if not (labels or allow_empty):
        raise ValueError(
            f"Y is empty: none of its {len(given)} sets holds a label. Give at least one "
            "label, or all label names with `label_names=` (`names=` of LabelSpace.infer)."
        )
    members = () if all(isinstance(label, str) for label in labels) else tuple(labels)
    classes = (np.array([0, 1]),) * len(labels)
    return LabelSpace(inputs.unique_names(labels), classes, "sets", members)
