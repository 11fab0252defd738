"""Joints that write their label vectors out, with a weight each."""

from colabel.joint.vectors.vector_list import VectorList

__all__ = ["VectorList"]
