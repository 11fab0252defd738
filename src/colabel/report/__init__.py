"""Results and fitted models as text, figures and pages."""

from colabel.core.lazy import export_lazily

__all__ = export_lazily(__name__)
