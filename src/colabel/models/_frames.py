"""Predictions as data frames, where `set_output` asks for them."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from colabel.core.arrays import Codes
from colabel.core.optional import require
from colabel.labels import LabelSpace

_CONTAINERS = ("default", "pandas")


class PredictionFrames:
    """Mixin of estimators with a `label_space_`: `predict` may answer with data frames.

    scikit-learn's own `set_output` is about `transform`; here it is about predictions. Clones keep
    what was set, as theirs do.
    """

    label_space_: LabelSpace
    _sklearn_output_config: dict[str, str]

    def set_output(self, *, predict: str | None = None) -> Self:
        """Choose the container of what is predicted.

        Parameters
        ----------
        predict : {"default", "pandas"} or None
            With "pandas", `predict`, `predict_proba` and `predict_log_proba` return data frames
            whose columns have the labels' names, and whose index is that of X where it has one.
            None leaves it as it is.

        Returns
        -------
        self
        """
        if predict is None:
            return self
        if predict not in _CONTAINERS:
            raise ValueError(f'predict={predict!r} is unknown: choose "default" or "pandas".')
        if predict == "pandas":
            require("pandas", "A data frame")
        self._sklearn_output_config = {"predict": predict}
        return self

    def _wants_frames(self) -> bool:
        return getattr(self, "_sklearn_output_config", {}).get("predict") == "pandas"

    def _labels_out(self, codes: Codes, X: Any) -> Any:
        """Return codes (n, d) of rows X as the labels that `predict` answers with."""
        space = self.label_space_
        if not self._wants_frames():
            return space.decode(codes)
        import pandas as pd

        named = zip(space.names, space.classes, codes.T, strict=True)
        columns = {name: classes[own] for name, classes, own in named}
        return pd.DataFrame(columns, _index(X))

    def _probabilities_out(self, prob: Any, X: Any) -> Any:
        """Return probabilities, (n, d), (n, K) or a list of tables, as `predict_proba` does."""
        if not self._wants_frames():
            return prob
        import pandas as pd

        space, columns = self.label_space_, []
        for name, classes in zip(space.names, space.classes, strict=True):
            columns += [(name, value) for value in classes.tolist()]
        index = _index(X)
        if isinstance(prob, list):
            names = pd.MultiIndex.from_tuples(columns, names=["label", "value"])
            return pd.DataFrame(np.concatenate(prob, axis=1), index, names)
        of_values = space.kind == "vector"
        return pd.DataFrame(prob, index, [v for _, v in columns] if of_values else space.names)


def _index(X: Any) -> Any:
    return X.index if hasattr(X, "iloc") else None
