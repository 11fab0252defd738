"""Rows in chunks: sums, folds and objectives are those of the same rows in memory."""

from __future__ import annotations

import weakref
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

pytest.importorskip("dask")

from colabel.labels import LabelSpace
from colabel.labels.space import SeenLabels
from colabel.learn.chunks.chunked_data import chunked_data, counting_passes, drawn_rows, seen_labels
from colabel.learn.conditional import RowGroup, TrainingData, random_folds
from colabel.learn.glm.lbfgs import LBFGS
from colabel.learn.linear import Asked, LinearLearner
from tests.asserts import assert_each_close
from tests.learn.chunks.problems import in_chunks, labels_that_depend

LENGTHS = (30, 1, 49)


def both(X, Y, weight=None, lengths=LENGTHS):
    """The same rows in memory and in chunks."""
    space, codes = LabelSpace.infer(Y)
    chunks = chunked_data(
        in_chunks(X, lengths),
        in_chunks(Y, lengths),
        space,
        None if weight is None else in_chunks(weight, lengths),
        names=None,
        allow_nan=False,
    )
    return TrainingData(X, codes, space.cardinalities, weight), chunks


def stored(X, kind):
    return sp.csr_array(np.where(np.abs(X) > 0.7, X, 0.0)) if kind == "sparse" else X


@pytest.fixture(params=["dense", "sparse"])
def rows(request, rng):
    X = stored(rng.normal(size=(80, 5)), request.param)
    weight = rng.integers(0, 3, 80).astype(float)
    return both(X, labels_that_depend(X, rng, 3), weight)


def in_order(folds):
    return np.concatenate([chunk.compute() for chunk in folds.chunks])


def too_many_to_sort(rng):
    X = rng.normal(size=(72_000, 5))
    Y = labels_that_depend(X, rng, 3)
    return both(X, Y, rng.integers(0, 3, len(X)).astype(float), (30_000, 1, 41_999))


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("cv", [2, 5, 0.3])
def test_folds_are_those_of_the_rows_in_memory(rows, rng, cv, many):
    here, there = too_many_to_sort(rng) if many else rows
    expected, found = random_folds(here, cv, 3), random_folds(there, cv, 3)
    np.testing.assert_array_equal(in_order(found), expected.of_row)
    assert (found.n_folds, found.covers) == (expected.n_folds, expected.covers)


def test_folds_without_sorting_have_nearly_equal_sizes(rng):
    n = 70_000
    data = TrainingData(rng.normal(size=(n, 2)), np.zeros((n, 1), dtype=np.int32), (1,))
    counts = np.bincount(random_folds(data, 5, 0).of_row)
    assert len(counts) == 5
    assert np.ptp(counts) > 1  # they are not sorted
    assert np.abs(counts - n / 5).max() < 4 * np.sqrt(n * 0.2 * 0.8)
    share = (random_folds(data, 0.3, 0).of_row == 0).mean()
    assert abs(share - 0.3) < 4 * np.sqrt(0.21 / n)


def test_folds_without_sorting_are_never_empty():
    """Of three rows that differ, five folds have at most three."""
    X = np.repeat(np.arange(3.0), 24_000)[:, None]
    here, there = both(X, np.zeros((len(X), 1), dtype=int) + (X > 1), None, (30_000, 1, 41_999))
    expected, found = random_folds(here, 5, 0), random_folds(there, 5, 0)
    assert set(expected.of_row) == set(range(expected.n_folds))
    np.testing.assert_array_equal(in_order(found), expected.of_row)
    assert found.n_folds == expected.n_folds <= 3


def test_counts_and_ranges(rows):
    here, there = rows
    for name in ("value_counts", "row_counts", "column_range"):
        assert_each_close(getattr(there, name), getattr(here, name))
    assert there.total_weight == here.total_weight
    assert there.missing_labels[0] == here.missing_labels[0] == 0


def test_a_total_is_one_pass(rows):
    _, there = rows
    passes = []
    with counting_passes(passes.append):
        assert there.sum(lambda part: part.n_rows) == 80
    assert passes == [80]


def test_rows_that_are_brought_keep_their_order(rows):
    here, there = rows
    every, some = there.gathered(None, there.rows_with(0, 1))
    np.testing.assert_array_equal(every.codes, here.codes)
    assert (abs(every.X - here.X)).max() == 0
    np.testing.assert_array_equal(some.weight, here.weight[here.rows_with(0, 1)])


@pytest.mark.parametrize("value", [None, (0, 1)])
def test_an_objective_is_that_of_the_rows_in_memory(rows, value, rng):
    """Value, gradient, Hessian and line at any point; tasks that skip a fold each."""
    features, ahead = rng.normal(size=(2, 4, 1, 6))  # coefficients of features

    def asked(data):
        learning = LinearLearner(np.ones(1), 1e-2, 9, 1, False).on(data)
        group = RowGroup(None if value is None else data.rows_with(*value), np.array([1, 2]))
        (batch,), _ = learning.batches(Asked([group], random_folds(data, 2, 0)), 2)
        block, counts = learning.block([group], batch, 2)
        enter = block.design.to_basis
        objective = block.rows.objective(block, LBFGS(), enter(features))
        first = [counts, objective.value(), leave_gradient(block.design, objective.gradient())]
        line = objective.along(enter(ahead))
        objective.move(np.full(4, 0.3))
        objective.keep(np.array([True, False, True, True]))
        held_out = block.rows.held_out(block, enter(features))
        last = [objective.value(), leave_gradient(block.design, objective.gradient())]
        return [*first, *line, *last, held_out, block.support.smoothed]

    assert_each_close(*map(asked, rows), atol=1e-10)


def leave_gradient(design, gradient):
    """Gradients by coefficients of features: the transposed map of `to_basis`."""
    enter = design.to_basis(np.eye(6))  # (p + 1, q): coordinates of each feature's coefficient
    return gradient @ enter.T


@pytest.mark.parametrize(
    "Y",
    [
        np.array([[0, 1], [0, 0], [1, 0], [0, 1]]),
        np.array([[0, 1.0], [0, np.nan], [np.nan, 0], [0, 1]]),
        np.array([[0, 1], [0, 1], [0, 2], [0, 1]]),
        np.array([[0, 0], [0, 0], [0, 0], [0, 0]]),
        np.array([["b", "x"], ["a", "x"], ["a", "y"], ["a", "y"]], dtype=object),
        np.array([3, 1, 3, 2]),
        sp.csr_array([[0, 1], [0, 0], [1, 0], [0, 1]]),
    ],
    ids=["0/1", "missing", "three values", "constant", "words", "vector", "sparse"],
)
@pytest.mark.parametrize("lengths", [(4,), (1, 3), (2, 0, 2), (1, 1, 1, 1)])
def test_labels_seen_in_parts_are_those_of_all_rows(Y, lengths):
    expected, _ = LabelSpace.infer(Y)
    cuts = np.cumsum([0, *lengths]).tolist()
    parts = [SeenLabels.of(Y[a:b]) for a, b in pairwise(cuts) if b > a]
    seen = parts[0]
    for part in parts[1:]:
        seen = seen.joined(part)
    for found in (seen, seen_labels(in_chunks(Y, lengths))):
        space = LabelSpace.of_seen(found)
        assert (space.names, space.kind) == (expected.names, expected.kind)
        assert [c.tolist() for c in space.classes] == [c.tolist() for c in expected.classes]


def test_a_sample_draws_every_row_alike():
    """By number, so that of equal rows some are drawn; each seed draws others."""
    n_rows = 40_000
    equal = TrainingData(np.zeros((n_rows, 1)), np.zeros((n_rows, 1), dtype=np.int32), (2,), None)
    drawn = np.stack([drawn_rows(0.3, seed, equal) for seed in range(20)])
    spread = np.sqrt(0.3 * 0.7)
    np.testing.assert_allclose(drawn.mean(axis=1), 0.3, atol=5 * spread / np.sqrt(n_rows))
    counts = drawn.sum(axis=0)  # binomial, of 20 draws
    assert abs(counts.var() / (20 * 0.3 * 0.7) - 1.0) < 0.05
    assert abs(np.corrcoef(drawn[0, 1:], drawn[0, :-1])[0, 1]) < 5 / np.sqrt(n_rows)


def test_few_parts_are_in_memory_at_once(rng):
    dask, da = pytest.importorskip("dask"), pytest.importorskip("dask.array")
    space, _ = LabelSpace.infer(np.eye(3, dtype=int))
    alive, most = set(), []

    def read(number):
        rows = np.random.default_rng(number).normal(size=(30, 4))
        alive.add(number)
        most.append(len(alive))
        weakref.finalize(rows, alive.discard, number)
        return rows

    n_parts = 24
    parts = [da.from_delayed(dask.delayed(read)(k), (30, 4), float) for k in range(n_parts)]
    X = da.concatenate(parts)
    Y = da.from_array(rng.integers(0, 2, size=(30 * n_parts, 3)), chunks=(30, 3))
    with dask.config.set(scheduler="synchronous"):
        data = chunked_data(X, Y, space, None, names=None, allow_nan=False)
        assert len(most) == n_parts
        data.sum(lambda part: part.n_rows)
    assert max(most) <= 4
