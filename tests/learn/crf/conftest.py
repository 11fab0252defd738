"""Small fields with every kind of feature."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from colabel.learn.crf.pseudo_likelihood import FieldData, FieldLayout, Parameters
from colabel.learn.design import Design

SIZES = {"labels": (2, 2, 2, 2), "class variables": (3, 2, 4)}


def make_data(rng, sizes, storage="dense", edge_kind="all", n_rows=40):
    X = rng.normal(size=(n_rows, 3)) * [1.0, 3.0, 0.3]
    if storage == "sparse":
        X = sp.csr_array(X * (rng.random(X.shape) < 0.6))
    weight = rng.integers(1, 4, size=n_rows).astype(float)
    nodes = Design.of(X, weight)
    edges = {
        "all": lambda: nodes.balanced(),
        "some": lambda: Design.of(X[:, [0, 2]], weight).balanced(),
        "none": lambda: Design.constant(3, weight),
    }[edge_kind]()
    codes = np.stack([rng.integers(0, size, n_rows) for size in sizes], axis=1).astype(np.int32)
    return FieldData(nodes, edges, codes, weight)


def make_parameters(rng, data, layout, scale=0.4):
    node = scale * rng.normal(size=(data.nodes.n_coordinates, layout.n_node_columns))
    edge = scale * rng.normal(size=(data.edges.n_coordinates, layout.n_edge_columns))
    return Parameters(node, edge)


def flat(theta):
    return np.concatenate([theta.node.ravel(), theta.edge.ravel()])


def like(theta, vector):
    """The parameters in a flat vector."""
    cut = theta.node.size
    return Parameters(
        vector[:cut].reshape(theta.node.shape), vector[cut:].reshape(theta.edge.shape)
    )


def zeros(objective):
    """Parameters that are all zero."""
    data, layout = objective.data, objective.layout
    return Parameters(
        np.zeros((data.nodes.n_coordinates, layout.n_node_columns)),
        np.zeros((data.edges.n_coordinates, layout.n_edge_columns)),
    )


def whole_penalty(penalty, theta, layout):
    """Equation 2.6 from its two parts."""
    return penalty.smooth(theta, layout)[0] + penalty.group * layout.edge_norms(theta.edge).sum()


def dense_rows(design, n_rows):
    matrix = design.rows.toarray() if sp.issparse(design.rows) else design.rows
    return np.broadcast_to(matrix, (n_rows, matrix.shape[1]))


@pytest.fixture(params=SIZES)
def sizes(request):
    return SIZES[request.param]


@pytest.fixture(params=["dense", "sparse"])
def storage(request):
    return request.param


@pytest.fixture(params=["all", "some", "none"])
def edge_kind(request):
    return request.param


@pytest.fixture
def data(rng, sizes, storage, edge_kind):
    return make_data(rng, sizes, storage, edge_kind)


@pytest.fixture
def layout(sizes):
    """All pairs but one: every variable keeps an edge."""
    pairs = np.stack(np.triu_indices(len(sizes), 1), axis=1).astype(np.intp)
    return FieldLayout(sizes, pairs[:-1])


@pytest.fixture
def theta(rng, data, layout):
    return make_parameters(rng, data, layout)
