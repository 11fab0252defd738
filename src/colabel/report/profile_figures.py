"""Profiles of structure learning as figures of a study's report."""

from __future__ import annotations

from collections.abc import Iterable

from colabel.experiments.profiles import EdgeProfile
from colabel.report.alpha_profile import alpha_profile_svg
from colabel.report.study_html import StudyFigure

__all__ = ["profile_figures"]


def profile_figures(profiles: Iterable[EdgeProfile]) -> list[StudyFigure]:
    """Draw how edges come and go.

    Parameters
    ----------
    profiles : iterable of EdgeProfile
        From `colabel.experiments.edge_profiles`.

    Returns
    -------
    figures : list of StudyFigure
        For `write_study_report`.

    Examples
    --------
    >>> from colabel.experiments import edge_profiles, load_plan
    >>> from colabel.report import profile_figures, write_study_report
    >>> figures = profile_figures(edge_profiles(load_plan("synthetic")))  # doctest: +SKIP
    >>> write_study_report(results, "study.html", figures=figures)        # doctest: +SKIP
    """
    return [
        StudyFigure(
            f"{own.dataset}: how edges come and go",
            alpha_profile_svg(own.values, own.edges, own.names),
            _caption(own),
            own.study,
        )
        for own in profiles
    ]


def _caption(own: EdgeProfile) -> str:
    edges = [f"{one}\u00a0–\u00a0{two}" for one, two in own.truth]
    truth = f"True edges: {', '.join(edges)}." if edges else "In truth there is no edge."
    return (
        f"α of every candidate edge while {own.method} learns one draw of {own.dataset} with the "
        f"group penalty γ = {own.group:.3g}, the smallest that held-out rows choose on any of "
        f"these problems. Grey: edges that end at zero and leave the graph. {truth}"
    )
