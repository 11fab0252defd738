r"""How structure learning keeps and drops edges on the synthetic problems of a plan."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from colabel.core.arrays import Array, Indices
from colabel.datasets import SYNTHETIC_GRAPHS
from colabel.experiments.build import build
from colabel.experiments.evaluate import load_data
from colabel.experiments.plan import MethodPlan, Plan
from colabel.models import PairwiseCRF


class EdgeProfile(NamedTuple):
    r"""How one method learned the graph of one problem.

    Attributes
    ----------
    study, dataset, method : str
        As named in the plan.
    group : float
        Group penalty :math:`\gamma`.
    values : (iterations + 1, E)
        Slack :math:`\alpha_e` of every candidate edge after each iteration.
    edges : (E, 2)
    names : tuple of d str
        Of the labels.
    truth : tuple of (str, str)
        The edges in truth.
    """

    study: str
    dataset: str
    method: str
    group: float
    values: Array
    edges: Indices
    names: tuple[str, ...]
    truth: tuple[tuple[str, str], ...]


def edge_profiles(plan: Plan) -> list[EdgeProfile]:
    r"""Learn the graph of one draw of each synthetic problem with every `PairwiseCRF` of a plan.

    Where held-out rows choose to keep all edges or none, no structure is learned and there is no
    profile; so all problems are fitted again with one group penalty :math:`\gamma`, the smallest
    positive one that was chosen on any of them, in the paper's form with slack variables.

    Parameters
    ----------
    plan : Plan
        Data sets other than SD1 to SD4 and other methods are passed over.
    """
    problems = [data.name for data in plan.datasets if data.name in SYNTHETIC_GRAPHS]
    profiles = []
    for method in plan.methods:
        if not isinstance(build(method.model), PairwiseCRF):
            continue
        chosen = [float(_fitted(method, name).group_) for name in problems]
        group = min((g for g in chosen if 0.0 < g < math.inf), default=None)
        if group is None:
            continue
        for name in problems:
            model = _fitted(method, name, group=group, form="constrained")
            profiles.append(
                EdgeProfile(
                    plan.name,
                    name,
                    method.name,
                    group,
                    model.alpha_profile_,
                    model.candidates_,
                    model.label_names_,
                    tuple(SYNTHETIC_GRAPHS[name]),
                )
            )
    return profiles


def _fitted(method: MethodPlan, name: str, **options: Any) -> PairwiseCRF:
    model: PairwiseCRF = build({**method.model, **method.on.get(name, {}), **options})
    problem = load_data(name, None)
    return model.fit(problem.X, problem.Y, label_names=problem.label_names)
