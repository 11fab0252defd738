"""Before learning: features in bins, a choice among features, features of kernels and forests."""

from colabel.core.lazy import export_lazily

__all__ = export_lazily(__name__)
