"""What the estimators of pairwise fields share: learning on the graph, and the joint."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, get_args

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from colabel.core.arrays import Array
from colabel.core.schema import (
    Dims,
    Fields,
    Kind,
    Numbers,
    OneOf,
    Part,
    Positions,
    Real,
    Table,
    refuse_unless,
)
from colabel.joint import Joint, PairwiseField
from colabel.joint.field import Engine
from colabel.learn.conditional import TrainingData
from colabel.learn.crf.learner import FieldLearner, LearnedField
from colabel.models._learning import (
    can_hold_out,
    choose,
    everything,
    linear_learner,
    make_folds,
)
from colabel.models._parameters import refuse_missing
from colabel.models.base import JointClassifier
from colabel.models.field._parameters import (
    interactions,
    linear_log_odds,
    node_scores,
    refuse_large_tables,
)
from colabel.models.label_graph import LabelGraph
from colabel.models.linear_log_odds import LinearLogOdds


def check_graph(fields: Fields, dims: Dims) -> None:
    """Refuse a graph that is not the one of the field."""
    edges = fields["field_"].fields["layout"].fields["edges"]
    refuse_unless(np.array_equal(fields["graph_"], edges), "graph_ is not the graph of the field")


class FieldModel(JointClassifier):
    """A model of one field; a subclass says what is maximised, and which edges there may be."""

    stored_fields: ClassVar[Mapping[str, Kind]] = {
        **JointClassifier.stored_fields,
        "engine": OneOf(*get_args(Engine)),
        "models_": Part("linear-models", sizes="sizes", q="p+1"),
        "field_": Part("fitted-field", d="d", e="edges", p="p", sizes="sizes"),
        "graph_": Positions("edges 2", below="d"),
        "ridge_": Real(0.0, np.inf),
        "ridge_scores_": Table(),
        "edge_strengths_": Numbers("edges", 0.0),
        "edge_signs_": Positions("edges", below=2, least=-1),
    }
    fits_chunks = True
    C: float | Sequence[float]
    cv: Any
    engine: Engine
    tol: float
    max_iter: int
    n_jobs: int | None
    verbose: int

    @abstractmethod
    def _field_learner(self, data: TrainingData) -> FieldLearner:
        """Return the learner that the parameters ask for, after checking them."""

    def _learn(self, data: TrainingData) -> None:
        refuse_missing(data, self.label_space_, "a field conditions a label on all others")
        refuse_large_tables(data, self.label_names_)
        learner = self._field_learner(data)
        folds = make_folds(data, self.cv, self._seed())
        linear = linear_learner(self.C, self.tol, self.max_iter, self.n_jobs, self.verbose).on(data)
        choice = choose(linear, folds)
        self.models_ = linear.fit([everything(data)], [choice])
        self.C_ = linear.learner.values(choice)
        held_out = folds if can_hold_out(folds) else None
        learned = learner.learn(linear, self.models_, choice, 0.5 / self.C_, held_out)
        self._keep(learned)
        self.edge_strengths_, self.edge_signs_ = interactions(data, learned.field)
        if not learned.converged:
            warnings.warn(
                f"The field did not reach the tolerance in {self.max_iter} iterations. Scale the"
                " features, raise max_iter, or give a stronger ridge.",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _keep(self, learned: LearnedField) -> None:
        """Set the fitted attributes."""
        self.field_, self.graph_ = learned.field, learned.field.layout.edges
        self.ridge_, self.ridge_scores_ = learned.choice.ridge, learned.choice.ridge_scores
        self.n_iter_ = max(learned.n_iter, self.models_.n_iter)

    def _joint(self, X: Any) -> Joint:
        alone = [table.argmax(axis=1) for table in self.models_.log_prob(X)]
        return PairwiseField(
            self.label_space_,
            node_scores(self.field_, self.models_, X),
            self.graph_,
            self.field_.edge_tables(X),
            start=np.stack(alone, axis=1),
            engine=self.engine,
            n_jobs=self.n_jobs,
        )

    def linear_log_odds(self, x: Any, others: Array) -> LinearLogOdds | None:
        """Return what nodes and edges say of each label."""
        return linear_log_odds(self.field_, self.models_, x, others)

    def label_graph(self) -> LabelGraph:
        """Return the edges of the field and how strong they are."""
        return LabelGraph.of_field(
            self.label_names_, self.graph_, self.edge_strengths_, self.edge_signs_
        )
