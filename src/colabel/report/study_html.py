"""Studies as one HTML file: tables, ranks, speed, claims, label graphs. It fetches nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from colabel.experiments import Results
from colabel.experiments.record import judging, table_title
from colabel.report._html.graphs import graph_figure
from colabel.report._html.markup import Html, counted, join, paragraph, tag
from colabel.report._html.page import page, section, write_page
from colabel.report._study.claims import claims_section
from colabel.report._study.differences import characteristics_table, differences_section
from colabel.report._study.measures import measure_table, measures_legend
from colabel.report._study.overview import overview_section
from colabel.report._study.protocol import protocol_section, state_section
from colabel.report._study.ranks import TOO_FEW, ranks_section
from colabel.report._study.speed import speed_section
from colabel.report.study_text import QUICK_FORM

__all__ = ["StudyFigure", "study_report_html", "write_study_report"]


class StudyFigure(NamedTuple):
    """A drawing that joins a report.

    Attributes
    ----------
    title : str
    svg : str
        SVG such as `alpha_profile_svg` and matplotlib write; it must not fetch anything.
    caption : str
    study : str
        Name of the plan whose part of the report it joins; by default it stands at the end.
    """

    title: str
    svg: str
    caption: str
    study: str = ""


def write_study_report(
    results: Sequence[Results],
    path: str | Path,
    *,
    figures: Iterable[tuple[str, str, str] | StudyFigure] = (),
    title: str | None = None,
) -> None:
    """Write a report on one or several studies; it appears under its name when it is complete.

    Parameters
    ----------
    results : sequence of Results
        In the order of the report.
    path : str or path
        The HTML file, in an existing folder.
    figures : iterable of StudyFigure, or of tuples (title, svg, caption)
        Drawings that the results do not hold.
    title : str, optional
        Of the page; by default that of the only study, or "Studies".

    Raises
    ------
    ValueError
        If a figure is no SVG, or one that runs or fetches something.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> from colabel.experiments import Results, Store, load_plan
    >>> from colabel.report import write_study_report
    >>> plan = load_plan("studies/demo.toml")                       # doctest: +SKIP
    >>> with Store("results.sqlite") as store:                      # doctest: +SKIP
    ...     write_study_report([Results.read(plan, store)], "study.html")
    """
    write_page(path, study_report_html(results, figures=figures, title=title))


def study_report_html(
    results: Sequence[Results],
    *,
    figures: Iterable[tuple[str, str, str] | StudyFigure] = (),
    title: str | None = None,
) -> str:
    """Return the report of `write_study_report` as text."""
    if not results:
        raise ValueError("There are no results to report: give at least one study.")
    drawn = [StudyFigure(*figure) for figure in figures]
    alone = len(results) == 1
    shown = title or (results[0].plan.title if alone else "Studies")
    # The title of an only study is that of the page, and all its headings stand one level higher.
    parts = [_study(study, f"s{i}", drawn, 1 if alone else 2) for i, study in enumerate(results)]
    names = {study.plan.name for study in results}
    rest = [figure for figure in drawn if figure.study not in names]
    extra = [section("Figures", "figures", _figures(rest, 3), 2)] if rest else []
    # One study is its own overview.
    papers = None if alone or not judging(results) else overview_section(results)
    return page(shown, "", _contents(results, drawn), join(papers, parts, extra))


def _contents(results: Sequence[Results], figures: Sequence[StudyFigure]) -> Html:
    shown = len(results) > 1 and bool(judging(results))
    items = [tag("li", tag("a", "The papers", href="#papers"))] if shown else []
    for i, study in enumerate(results):
        parts = [tag("a", name, href=f"#s{i}-{key}") for key, name in _parts(study, figures)]
        links = join(*[join(" · " if place else "", link) for place, link in enumerate(parts)])
        if len(results) > 1:
            links = join(
                tag("a", study.plan.title, href=f"#s{i}", class_="study"), tag("br"), links
            )
        items.append(tag("li", links))
    names = {study.plan.name for study in results}
    if any(figure.study not in names for figure in figures):
        items.append(tag("li", tag("a", "Figures", href="#figures")))
    return tag("nav", tag("ul", items), aria_label="Contents")


# ------------------------------------------------------------------------------------ one study


def _parts(results: Results, figures: Sequence[StudyFigure]) -> list[tuple[str, str]]:
    """Keys and titles of the parts of a study that has something to say."""
    plan = results.plan
    known = [
        ("measures", "Measures", True),
        ("claims", "Claims", bool(plan.claims)),
        ("print", "Against print", bool(plan.figures or plan.remarks)),
        ("speed", "Speed", True),
        ("graphs", "Label graphs", bool(results.graphs)),
        ("figures", "Figures", any(figure.study == plan.name for figure in figures)),
        ("state", "Completeness", True),
    ]
    return [(key, title) for key, title, said in known if said]


def _study(results: Results, key: str, figures: Sequence[StudyFigure], level: int) -> Html:
    plan = results.plan
    own = [figure for figure in figures if figure.study == plan.name]
    below = level + 2
    write = {
        "measures": lambda: _measures(results, key, below),
        "claims": lambda: claims_section(results, f"h{below}"),
        "print": lambda: differences_section(results),
        "speed": lambda: speed_section(results),
        "graphs": lambda: _graphs(results, key, below),
        "figures": lambda: _figures(own, below),
        "state": lambda: state_section(results),
    }
    sections = [
        section(title, f"{key}-{part}", write[part](), level + 1)
        for part, title in _parts(results, figures)
    ]
    about = paragraph(plan.description, class_="about") if plan.description else None
    banner = tag("div", tag("b", QUICK_FORM), class_="verdict") if plan.is_quick else None
    content = join(
        banner, about, protocol_section(results), characteristics_table(results), sections
    )
    return tag("section", content, id=key) if level == 1 else section(plan.title, key, content, 2)


def _measures(results: Results, key: str, level: int) -> Html:
    ranked = any(results.ranking(measure) is not None for measure in results.plan.measures)
    parts = []
    if not ranked and len(results.methods) > 1:
        parts.append(paragraph(TOO_FEW, class_="legend"))
    for measure in results.plan.measures:
        ranks = ranks_section(results, measure) if ranked else None
        content = join(measure_table(results, measure), ranks)
        parts.append(section(table_title(results, measure), f"{key}-{measure}", content, level))
    return join(measures_legend(results), parts)


def _graphs(results: Results, key: str, level: int) -> Html:
    said = (
        "Each graph was learned from all rows of a data set. Probabilities are the model’s own, "
        "averaged over up to 500 rows."
    )
    parts = [paragraph(said, class_="legend")]
    for place, (cell, graph) in enumerate(results.graphs):
        name = f"{cell.dataset}, {cell.method}"
        about = f"{counted(len(graph['labels']), 'label')}, {counted(len(graph['edges']), 'edge')}."
        content = join(paragraph(about), graph_figure(graph, name, f"{key}-graph{place}"))
        parts.append(section(name, f"{key}-graph{place}-part", content, level))
    return join(parts)


# --------------------------------------------------------------------------------- more figures


def _figures(figures: Sequence[StudyFigure], level: int) -> Html:
    parts = []
    for figure in figures:
        drawing = _checked_svg(figure)
        # What is drawn for white paper keeps it in the dark.
        kind = None if 'class="chart' in drawing else "plate"
        view = tag(
            "div", drawing, class_="scroll", tabindex="0", role="group", aria_label=figure.title
        )
        caption = tag("figcaption", figure.caption) if figure.caption else None
        parts.append(tag(f"h{level}", figure.title))
        parts.append(tag("figure", view, caption, class_=kind))
    return join(parts)


def _checked_svg(figure: StudyFigure) -> Html:
    """Return a drawing without its XML header, if it is well-formed and keeps to itself."""
    start = figure.svg.find("<svg")
    text = figure.svg[max(start, 0) :].strip()
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise ValueError(f"The figure {figure.title!r} is no SVG: {error}.") from error
    if start < 0:
        raise ValueError(f"The figure {figure.title!r} is no SVG: it starts with <{root.tag}>.")
    for element in root.iter():
        if element.tag.rpartition("}")[2] in {"script", "foreignObject", "iframe"}:
            raise ValueError(f"The figure {figure.title!r} has a <script> or foreign content.")
        for name, value in element.attrib.items():
            own = value.startswith(("#", "data:image/"))
            if name.rpartition("}")[2] == "href" and not own:
                raise ValueError(f"The figure {figure.title!r} refers to {value!r} outside of it.")
            if name.lower().startswith("on"):
                raise ValueError(f"The figure {figure.title!r} runs a script on {name[2:]}.")
    # Drop what names sources: matplotlib's metadata.
    return Html(re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL))
