"""Joints that write their label vectors out, with a weight each."""

from colabel.joint.vectors.chunked_lists import Answer, ChunkedLists
from colabel.joint.vectors.vector_list import VectorList
from colabel.joint.vectors.written_out import Scores, WrittenOut

__all__ = ["Answer", "ChunkedLists", "Scores", "VectorList", "WrittenOut"]
