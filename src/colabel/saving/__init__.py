"""Fitted models as files that are safe to load."""

from colabel.core.lazy import export_lazily

__all__ = export_lazily(__name__)
