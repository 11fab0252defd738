"""Ensembles of Bayesian networks (EBN): one tree over the labels for each root."""

from colabel.models.bayes_nets.ensemble import BayesNetEnsemble

__all__ = ["BayesNetEnsemble"]
