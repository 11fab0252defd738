"""Papers first: how each stands, in a sentence and a row."""

from __future__ import annotations

from collections.abc import Sequence

from colabel.experiments import Results
from colabel.experiments.record import papers
from colabel.report._html.markup import Html, join, paragraph, tag
from colabel.report._html.page import section
from colabel.report._html.tables import Column, Field, table
from colabel.report.study_papers import (
    AGREE,
    HEADS,
    how_judged,
    paper_numbers,
    paper_sentence,
)


def overview_section(studies: Sequence[Results]) -> Html:
    """Write the sentences, the table, and what its counts mean."""
    found = papers(studies)
    sentences = [
        tag("li", f"{name}{how_judged(paper.judge)}: {paper_sentence(paper)}.")
        for name, paper in found.items()
    ]
    rows = [
        [Field(name), *(Field(str(n), float(n)) for n in paper_numbers(paper.counts))]
        for name, paper in found.items()
    ]
    columns = [Column("paper", is_text=True), *(Column(head) for head in HEADS)]
    caption = "The papers: their figures against ours, and the comparisons that their claims make"
    content = join(
        tag("ul", sentences), table(caption, columns, rows), paragraph(AGREE, class_="legend")
    )
    return section("The papers", "papers", content)
