"""Mixtures of conditional trees, or of chains, by EM."""
