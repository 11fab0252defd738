"""Profiles of structure learning on the synthetic problems of a plan, as figures of its report."""

from __future__ import annotations

import math
from typing import Any

from colabel.datasets import SYNTHETIC_GRAPHS
from colabel.experiments import Plan
from colabel.experiments.build import build
from colabel.experiments.evaluate import load_data
from colabel.experiments.plan import MethodPlan
from colabel.models import PairwiseCRF
from colabel.report.alpha_profile import alpha_profile_svg
from colabel.report.study_html import StudyFigure

__all__ = ["profile_figures"]


def profile_figures(plan: Plan) -> list[StudyFigure]:
    r"""Learn the graph of one draw of each synthetic problem, and draw how edges come and go.

    Of the methods, every `PairwiseCRF` is fitted. Where held-out rows choose to keep all edges or
    none, no structure is learned and there is no profile to draw; so all problems are fitted again
    with one group penalty :math:`\gamma`, the smallest positive one that was chosen on any of
    them, in the paper's form with slack variables.

    Parameters
    ----------
    plan : Plan
        Data sets other than SD1 to SD4 and other methods are passed over.

    Returns
    -------
    figures : list of StudyFigure
        For `write_study_report`; empty where the plan has nothing of the kind.

    Examples
    --------
    >>> from colabel.experiments import load_plan
    >>> from colabel.report import profile_figures, write_study_report
    >>> plan = load_plan("synthetic")                                # doctest: +SKIP
    >>> write_study_report(results, "study.html", figures=profile_figures(plan))  # doctest: +SKIP
    """
    problems = [data.name for data in plan.datasets if data.name in SYNTHETIC_GRAPHS]
    figures = []
    for method in plan.methods:
        if not isinstance(build(method.model), PairwiseCRF):
            continue
        chosen = [float(_fitted(method, name).group_) for name in problems]
        positive = [group for group in chosen if 0.0 < group < math.inf]
        if not positive:
            continue
        for name in problems:
            model = _fitted(method, name, group=min(positive), form="constrained")
            svg = alpha_profile_svg(model.alpha_profile_, model.candidates_, _names(name))
            title = f"{name}: how edges come and go"
            caption = _caption(name, method.name, min(positive))
            figures.append(StudyFigure(title, svg, caption, plan.name))
    return figures


def _fitted(method: MethodPlan, name: str, **options: Any) -> PairwiseCRF:
    model: PairwiseCRF = build({**method.model, **method.on.get(name, {}), **options})
    problem = load_data(name, None)
    return model.fit(problem.X, problem.Y, label_names=problem.label_names)


def _names(name: str) -> list[str]:
    return [str(label) for label in load_data(name, None).label_names]


def _caption(name: str, method: str, group: float) -> str:
    edges = [f"{one}\u00a0–\u00a0{two}" for one, two in SYNTHETIC_GRAPHS[name]]
    truth = f"True edges: {', '.join(edges)}." if edges else "In truth there is no edge."
    return (
        f"α of every candidate edge while {method} learns one draw of {name} with the group "
        f"penalty γ = {group:.3g}, the smallest that held-out rows choose on any of these "
        f"problems. Dashed: edges that end at zero and leave the graph. {truth}"
    )
