"""The families of Joint: distributions over label vectors, one per row of a batch."""

from colabel.core.lazy import export_lazily

__all__ = export_lazily(__name__)
