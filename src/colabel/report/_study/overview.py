"""Papers first: how each stands, in a sentence and a row."""

from __future__ import annotations

from collections.abc import Sequence

from colabel.experiments import Results
from colabel.experiments.record import counts, judging
from colabel.report._html.markup import Html, join, paragraph, tag
from colabel.report._html.page import section
from colabel.report._html.tables import Column, Field, table
from colabel.report.study_markdown import (
    AGREE,
    HEADS,
    how_judged,
    paper_numbers,
    paper_sentence,
)


def overview_section(studies: Sequence[Results]) -> Html:
    """Write the sentences, the table, and what its counts mean."""
    judges = {name: counts(study) for name, study in judging(studies).items()}
    sentences = [
        tag("li", f"{name}{how_judged(study)}: {paper_sentence(judges[name])}.")
        for name, study in judging(studies).items()
    ]
    rows = [
        [Field(name), *(Field(str(n), float(n)) for n in paper_numbers(found))]
        for name, found in judges.items()
    ]
    columns = [Column("paper", is_text=True), *(Column(head) for head in HEADS)]
    caption = "The papers: their figures against ours, and the comparisons that their claims make"
    content = join(
        tag("ul", sentences), table(caption, columns, rows), paragraph(AGREE, class_="legend")
    )
    return section("The papers", "papers", content)
