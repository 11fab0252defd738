"""Joints that write out their label vectors, each with a weight."""

from colabel.joint.vectors.vector_list import ListsByChunks, VectorList, WrittenOut

__all__ = ["ListsByChunks", "VectorList", "WrittenOut"]
