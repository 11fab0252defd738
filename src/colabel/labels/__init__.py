"""Any Y a user has, as integer codes, and back."""

from colabel.core.lazy import export_lazily

__all__ = export_lazily(__name__)
