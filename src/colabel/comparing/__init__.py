"""Which model suits a table: cross-validation, the record of held-out answers, comparisons.

The function of the same purpose is `colabel.compare`; this room is where it lives.
"""

from colabel.core.lazy import export_lazily

__all__ = export_lazily(__name__)
