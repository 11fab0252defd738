"""Conditional dependency networks: a classifier for every label given all the others."""

from colabel.models.cdn.cdn import CDN

__all__ = ["CDN"]
