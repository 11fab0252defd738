"""A user's own table: reading it, choosing its labels, preparing its columns, predicting it."""

from colabel.core.lazy import export_lazily

__all__ = export_lazily(__name__)
