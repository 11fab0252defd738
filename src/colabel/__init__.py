"""colabel learns P(y | x) for many labels at once, and answers any question about it."""

from colabel.core.lazy import export_lazily

# scikit-learn and numba take a second to import: nobody waits for them before asking for a model.
__all__ = export_lazily(__name__)
