"""Data sets as arrays: a reader of the field's files, sets of OpenML, and a bundled one."""

from colabel.core.lazy import export_lazily

__all__ = export_lazily(__name__)
