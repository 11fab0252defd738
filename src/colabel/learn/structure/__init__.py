"""Structures over the labels: which label depends on which."""
