"""Deciding on a joint: what to predict, sets with guaranteed coverage, what to ask next."""

from colabel.core.lazy import export_lazily

__all__ = export_lazily(__name__)
