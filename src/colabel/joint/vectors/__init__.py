"""Joints that write their label vectors out, with a weight each."""

from colabel.joint.vectors.vector_list import ListsByChunks, VectorList, WrittenOut

__all__ = ["ListsByChunks", "VectorList", "WrittenOut"]
