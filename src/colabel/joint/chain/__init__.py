"""Chains: each label given all the labels before it, and the searches for their modes."""

from colabel.core.lazy import export_lazily

__all__ = export_lazily(__name__)
