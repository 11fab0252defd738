"""What stored values must be, declared beside the type that holds them.

A type that can stand in a model file is declared by the decorator `stored`: a short tag, which is
what files call it, and for each of its fields a *kind*, which says what the field may hold. Sizes
have names: a name stands for the same size in all fields of an object, so that
``Numbers("d p")`` beside ``Numbers("d")`` says that the first has as many rows as the second has
entries. Nothing declared here is specific to a file format.

Examples
--------
>>> from dataclasses import dataclass
>>> import numpy as np
>>> @stored("example-line", slope=Numbers("p"), intercept=Real())
... @dataclass(frozen=True)
... class Line:
...     slope: np.ndarray
...     intercept: float
>>> checked(declared_by_tag("example-line"), {"slope": np.ones(3), "intercept": 0.5})
{'p': 3}
>>> checked(declared_by_tag("example-line"), {"slope": np.ones(3), "intercept": "0.5"})
Traceback (most recent call last):
    ...
colabel.core.schema._records.NotAsDeclaredError: intercept is '0.5', not a number
"""

from colabel.core.schema._declarations import (
    all_declared,
    checked,
    declare,
    declared_by_tag,
    declared_for,
    stored,
)
from colabel.core.schema._kinds import (
    LARGEST,
    Anything,
    Distributions,
    Estimator,
    LabelVectors,
    Many,
    Matrix,
    Maybe,
    Numbers,
    OneOf,
    OrNone,
    Part,
    Positions,
    Real,
    Record,
    Setting,
    Table,
    Text,
    Values,
    Whole,
    YesNo,
    bind,
    bind_alike,
    is_unicode,
    refuse_cycles,
)
from colabel.core.schema._records import (
    Declared,
    Dims,
    Fields,
    Kind,
    Node,
    NotAsDeclaredError,
    refuse_unless,
)

__all__ = [
    "LARGEST",
    "Anything",
    "Declared",
    "Dims",
    "Distributions",
    "Estimator",
    "Fields",
    "Kind",
    "LabelVectors",
    "Many",
    "Matrix",
    "Maybe",
    "Node",
    "NotAsDeclaredError",
    "Numbers",
    "OneOf",
    "OrNone",
    "Part",
    "Positions",
    "Real",
    "Record",
    "Setting",
    "Table",
    "Text",
    "Values",
    "Whole",
    "YesNo",
    "all_declared",
    "bind",
    "bind_alike",
    "checked",
    "declare",
    "declared_by_tag",
    "declared_for",
    "is_unicode",
    "refuse_cycles",
    "refuse_unless",
    "stored",
]
