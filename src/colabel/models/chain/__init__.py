"""Chains of classifiers: greedy, probabilistic, and ensembles of them."""
