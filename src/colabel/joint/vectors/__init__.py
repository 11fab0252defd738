"""Joints that write their label vectors out, with a weight each."""

from colabel.joint.vectors.vector_list import Answer, ChunkedLists, Scores, VectorList, WrittenOut

__all__ = ["Answer", "ChunkedLists", "Scores", "VectorList", "WrittenOut"]
