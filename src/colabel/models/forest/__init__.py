"""A forest whose leaves hold label vectors."""
