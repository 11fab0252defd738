"""Chains and dependency networks that use no more labels than they are allowed."""

from __future__ import annotations

import numpy as np
import pytest

from colabel import CDN, ClassifierChain, EnsembleOfChains, ProbabilisticClassifierChain

N_FEATURES = 3


@pytest.fixture
def copies(rng):
    """Labels 0, 1, 2 are coins; 3, 4, 5 follow them in this order; all depend on x."""
    X = rng.normal(size=(400, N_FEATURES))
    first = (X + 2 * rng.logistic(size=(400, 3)) > 0).astype(int)
    second = (X[:, ::-1] + 4 * first - 2 + rng.logistic(size=(400, 3)) > 0).astype(int)
    return X, np.hstack([first, second])


def used(models):
    """Labels that each conditional has weights of."""
    return [np.flatnonzero(coef[0, N_FEATURES:-1] != 0).tolist() for coef in models.coef]


def test_links_use_the_labels_that_matter(copies):
    model = ClassifierChain(1.0, max_parents=1, cv=3).fit(*copies)
    labels = used(model.models_)
    assert labels[3:] == [[0], [1], [2]]
    assert [len(own) for own in labels[:3]] == [0, 1, 1]  # of those before it, the best there is


def test_a_bound_that_does_not_bind_changes_nothing(copies):
    X, Y = copies
    free, bound = (
        ProbabilisticClassifierChain(1.0, max_parents=most, random_state=0).fit(X, Y)
        for most in (None, 5)
    )
    np.testing.assert_array_equal(free.joint(X).log_prob(Y), bound.joint(X).log_prob(Y))


def test_conditionals_of_networks_and_ensembles(copies):
    X, Y = copies
    network = CDN(1.0, max_parents=1, n_sweeps=10, burn_in=2, cv=3, random_state=0).fit(X, Y)
    assert used(network.models_) == [[3], [4], [5], [0], [1], [2]]
    ensemble = EnsembleOfChains(2, C=1.0, max_parents=1, cv=3, random_state=0).fit(X, Y)
    for chain in ensemble.chains_:
        assert max(len(own) for own in used(chain.models)) == 1
    with pytest.raises(ValueError, match="max_parents=0 must be an integer"):
        CDN(max_parents=0).fit(X, Y)
