"""What classifier chains and probabilistic classifier chains share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from colabel.core.arrays import Array
from colabel.core.parameters import check_integer
from colabel.core.schema import Kind, Maybe, Numbers, Part, Positions, Whole
from colabel.joint import Chain
from colabel.joint.chain import ChainSearch
from colabel.learn.conditional import ConditionalLearner, TrainingData
from colabel.models._learning import make_folds, make_learner, seeded
from colabel.models._parameters import refuse_missing
from colabel.models._stacks import StacksEstimator
from colabel.models.chain._learning import (
    NEEDS_EARLIER,
    LearnedChain,
    learn_chain,
    learn_chain_on_predictions,
)
from colabel.models.chain._order import resolve_order
from colabel.models.chain._scales import resolve_scales
from colabel.models.label_graph import LabelGraph

_TEACHERS: Mapping[str, Callable[..., LearnedChain]] = MappingProxyType(
    {"true": learn_chain, "predicted": learn_chain_on_predictions}
)


class ChainModel(StacksEstimator):
    """A model of one chain; a subclass says how its modes are searched for."""

    stored_fields: ClassVar[Mapping[str, Kind]] = {
        **StacksEstimator.stored_fields,
        "n_samples": Whole(1, 10**6),
        "order_": Positions("d", below="d"),
        "_sampling_seed": Whole(),
        "_chain": Part("chain", d="d", sizes="sizes", p="s"),
        "models_": Part("linear-models", "estimator-models", sizes="sizes"),
        "label_scale_": Maybe(Numbers("d")),
    }
    C: float | Sequence[float]
    max_parents: int | None
    order: str | Sequence[str | int] | None
    train_on: str = "true"
    label_scale: float | Sequence[float] | None
    cv: Any
    n_samples: int
    tol: float
    max_iter: int
    fits_chunks = True
    _chain: LearnedChain
    _chosen: LearnedChain
    _sampling_seed: int

    @abstractmethod
    def _search(self, seed: int) -> ChainSearch:
        """Return the search that the parameters ask for."""

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.train_on not in _TEACHERS:
            raise ValueError(
                f'train_on={self.train_on!r} is unknown: choose "true" (labels) or "predicted".'
            )
        check_integer("n_samples", self.n_samples, 1)
        if self.max_parents is not None:
            check_integer("max_parents", self.max_parents, 1)
        resolve_scales(self.label_scale, self.C, self._conditional_estimator())
        self._search(0)

    def label_notes(self) -> dict[int, str]:
        """Return the place of each label."""
        order = self.order_.tolist()
        return {label: f" (place {place} in the chain)" for place, label in enumerate(order, 1)}

    def _learn(self, data: TrainingData) -> None:
        refuse_missing(data, self.label_space_, NEEDS_EARLIER)
        seed = self._seed()
        self._sampling_seed = seed
        self.order_ = resolve_order(self.order, self.label_space_, data, seed)
        folds = make_folds(data, self.cv, seed)
        scales = resolve_scales(self.label_scale, self.C, self._conditional_estimator())
        teach = _TEACHERS[self.train_on]
        learner = self._learner(seed)
        inputs = self._stacked(data, folds, seed)
        chosen = self.__dict__.pop("_chosen", None)
        taken = {} if chosen is None or self.train_on != "true" else {"chosen": chosen}
        chain = teach(learner, inputs, self.order_, folds, scales, self.max_parents, **taken)
        self._chain = chain
        self.models_ = chain.models
        self._record(chain.models.n_iter, learner.values(chain.choice))
        if self._conditional_estimator() is None:
            self.label_scale_ = chain.scale

    def reusing(self, fitted: Self) -> Self:
        """Return an unfitted copy that takes over what C and scales a fitted one has chosen."""
        model = clone(self)
        model._chosen = fitted._chain
        return model

    def _learner(self, seed: int) -> ConditionalLearner:
        estimator = seeded(self._conditional_estimator(), seed)
        return make_learner(
            estimator, self.C, self.tol, self.max_iter, self.n_jobs, self.verbose, self.device
        )

    def _joint(self, X: Any) -> Chain:
        seed = self._sampling_seed
        inputs = self._inputs(X)
        return self._chain.joint(
            self.label_space_, inputs, self._search(seed), self.n_samples, seed
        )

    def predict_path_proba(self, X: Any) -> Any:
        """Return P(y_i | x, predicted labels before it), the classic numbers of a chain.

        Returns
        -------
        (n, d) array of P(y = 1) for labels of two values, otherwise a list of (n, K_i) arrays.
        """
        check_is_fitted(self)
        chunks: list[list[Array]] = self._by_chunks(X, _path_tables)
        tables = [np.concatenate(parts) for parts in zip(*chunks, strict=True)]
        if self.label_space_.is_binary:
            return np.stack([table[:, 1] for table in tables], axis=1)
        return tables

    def label_graph(self) -> LabelGraph:
        """Return the chain: an arrow from each label to the next."""
        names, order = self.label_names_, np.asarray(self.order_, dtype=np.intp)
        meaning = (
            "A chain: each label is predicted from the features and all labels before it, in this "
            "order: " + ", ".join(names[i] for i in order) + "."
        )
        return LabelGraph(names, np.stack([order[:-1], order[1:]], axis=1), meaning, directed=True)


def _path_tables(joint: Any) -> list[Array]:
    tables: list[Array] = joint.path_tables()
    return tables
