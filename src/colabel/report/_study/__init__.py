"""The parts of the report on studies; `colabel.report.study_html` puts them together."""
