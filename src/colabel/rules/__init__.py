"""What is known about label sets beforehand, written as text, checked, and compiled to codes."""

from colabel.core.lazy import export_lazily

__all__ = export_lazily(__name__)
