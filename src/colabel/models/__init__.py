"""The estimators, one file or one package per published method.

Each is imported when it is first asked for: who wants one need not wait for what all others need.
"""

from colabel.core.lazy import export_lazily

__all__ = export_lazily(__name__)
