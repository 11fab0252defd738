"""Designs: coordinates keep scores, products are what they say, scales are those of the rows."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from colabel.learn.design import Axes, Design, RowSpace, linear_scores
from tests.learn.glm.shapes import (
    a_little_wide,
    badly_scaled,
    constant_columns,
    one_huge_column,
    only_constant_columns,
    rank_deficient,
    shifted,
    single,
    tall,
    weights,
    wide,
    wide_and_shifted,
)

SHAPES = [
    a_little_wide,
    badly_scaled,
    constant_columns,
    one_huge_column,
    only_constant_columns,
    rank_deficient,
    shifted,
    single,
    tall,
    wide,
    wide_and_shifted,
]


def dense(design):
    return design.rows.toarray() if sp.issparse(design.rows) else np.asarray(design.rows)


def spread_of(X):
    return np.abs(X).max() * X.shape[1]


# -------------------------------------------------------------------------- coordinates


@pytest.mark.parametrize("make", SHAPES)
@pytest.mark.parametrize("n_extra", [0, 2])
def test_coordinates_keep_scores(rng, store, weighted, make, n_extra):
    X = make(rng)
    n_rows = len(X)
    weight = rng.uniform(0.2, 3.0, size=n_rows) if weighted else None
    extra = rng.normal(size=(n_rows, n_extra)) if n_extra else None
    whole = Design.of(store(X), weight, extra)
    joined = X if extra is None else np.hstack([X, extra])
    for kind in ("whole", "block", "some rows", "few rows", "balanced"):
        rows = {"some rows": np.arange(1, n_rows, 2), "few rows": np.arange(7)}.get(kind)
        design = {"whole": lambda: whole, "balanced": whole.balanced}.get(
            kind, lambda rows=rows: whole.block(rows)
        )()
        coef = rng.normal(size=(2, 3, X.shape[1] + n_extra + 1))
        inner = design.to_basis(coef)
        assert inner.shape == (2, 3, design.n_coordinates), kind
        own = joined if rows is None else joined[rows]
        expected = linear_scores(own, coef)
        flat = design.scores(inner.reshape(6, -1)).reshape(2, 3, -1)
        rounding = 1e-9 * spread_of(own)
        np.testing.assert_allclose(flat, expected, atol=rounding, err_msg=kind)
        back = design.from_basis(inner)
        assert back.shape == coef.shape, kind
        np.testing.assert_allclose(linear_scores(own, back), expected, atol=rounding, err_msg=kind)
    # a penalty sees nothing but what the rows can see
    inner_cost, cost = ((each[..., :-1] ** 2).sum(axis=-1) for each in (inner, coef))
    assert (inner_cost <= cost * (1 + 1e-6)).all()


@pytest.mark.parametrize("make", [tall, wide, shifted, rank_deficient])
def test_leaving_coordinates_keeps_lengths(rng, store, make):
    """What a solution costs is the same in coordinates and in features."""
    design = Design.of(store(make(rng))).block()
    inner = rng.normal(size=(4, design.n_coordinates))
    left = design.from_basis(inner)
    np.testing.assert_allclose((left[:, :-1] ** 2).sum(1), (inner[:, :-1] ** 2).sum(1), rtol=1e-6)
    np.testing.assert_allclose(design.to_basis(left), inner, atol=1e-6)


def test_dense_rows_lie_along_their_principal_axes(rng, weighted):
    X = tall(rng)
    weight = weights(rng, len(X), weighted)
    design = Design.of(X, weight)
    w = np.ones(len(X)) if weight is None else weight
    gram = design.rows.T @ (w[:, None] * design.rows)
    np.testing.assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-7 * gram.max())
    np.testing.assert_allclose(np.diag(gram), design.sum_of_squares(), rtol=1e-9)


@pytest.mark.parametrize("make", [badly_scaled, one_huge_column])
def test_features_of_very_different_scales_are_not_rotated(rng, make):
    """Among axes of squares 1e24 apart the weakest features would be rounding noise."""
    X = make(rng)
    design = Design.of(X)
    assert isinstance(design.coordinates, Axes)
    assert design.coordinates.basis is None
    np.testing.assert_allclose(design.rows[:, :-1], X - X.mean(axis=0))
    assert Design.of(X / X.std(axis=0)).coordinates.basis is not None


def test_a_constant_column_does_not_count_as_a_scale(rng):
    X = np.column_stack([tall(rng), np.full(300, 0.1), np.full(300, 1e6 / 3)])
    design = Design.of(X)
    assert design.coordinates.basis is not None
    assert design.n_coordinates == 6  # five directions and the constant


def test_very_many_columns_of_very_many_rows_are_not_rotated(rng):
    X = rng.normal(size=(1501, 1502))
    design = Design.of(X)
    assert design.coordinates.basis is None
    np.testing.assert_allclose(design.rows[:3, :-1], X[:3] - X.mean(axis=0))


def test_blocks_of_few_rows_lie_in_the_span_of_their_rows(rng, store):
    design = Design.of(store(rng.normal(size=(200, 80)) + 3.0))
    assert design.block().n_coordinates == 81
    few = design.block(np.arange(12))
    assert isinstance(few.coordinates, RowSpace)
    assert few.n_coordinates == 13
    with_extra = Design.of(store(rng.normal(size=(200, 80))), None, rng.normal(size=(200, 2)))
    assert with_extra.block(np.arange(12)).n_coordinates == 83  # extra features stay themselves


def test_sparse_rows_leave_out_what_is_empty_among_them(rng):
    X = sp.random_array((900, 400), density=0.001, random_state=rng, format="csr")
    design = Design.of(X)
    rows = np.arange(500)
    used = len(np.unique(X[rows].indices))
    block = design.block(rows)
    assert block.n_coordinates == used + 1 < 401
    left = block.from_basis(rng.normal(size=(2, used + 1)))
    unused = np.setdiff1d(np.arange(400), X[rows].indices)
    assert not left[:, unused].any()


# ----------------------------------------------------------------------------- products


@pytest.mark.parametrize("make", [tall, wide])
def test_products_are_those_with_the_rows(rng, store, make):
    design = Design.of(store(make(rng))).block()
    rows = dense(design)
    coef = rng.normal(size=(3, design.n_coordinates))
    residual = rng.normal(size=(3, design.n_rows))
    np.testing.assert_allclose(design.scores(coef), coef @ rows.T, atol=1e-9)
    np.testing.assert_allclose(design.rmatvec(residual), residual @ rows, atol=1e-9)
    np.testing.assert_allclose(design.matmat(coef.T), rows @ coef.T, atol=1e-9)
    np.testing.assert_allclose(design.rmatmat(residual.T), rows.T @ residual.T, atol=1e-9)
    assert design.scores(coef).flags.c_contiguous
    assert design.rmatvec(residual).flags.c_contiguous


def test_products_in_single_precision_round_what_they_read_not_what_they_add(rng, store):
    few = Design.of(store(tall(rng))).block()
    assert few.in_single() is few  # so few numbers are read at once
    design = Design.of(store(rng.normal(size=(30_000, 5)))).block()
    rough = design.in_single()
    assert rough.single == sp.issparse(design.rows)
    coef = rng.normal(size=(3, design.n_coordinates))
    residual = rng.normal(size=(3, design.n_rows))
    arguments = {"scores": coef, "rmatvec": residual, "matmat": coef.T, "rmatmat": residual.T}
    for product, argument in arguments.items():
        read = argument.astype(np.float32).astype(np.float64) if rough.single else argument
        expected = getattr(design, product)(read)
        found = getattr(rough, product)(argument)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_taken_rows_stay_in_their_coordinates(rng, store, weighted):
    X = tall(rng)
    weight = weights(rng, len(X), weighted)
    design = Design.of(store(X), weight)
    rows = np.array([5, 3, 40])
    taken = design.take(rows)
    np.testing.assert_array_equal(dense(taken), dense(design)[rows])
    coef = rng.normal(size=(2, design.n_coordinates))
    np.testing.assert_allclose(taken.scores(coef), design.scores(coef)[:, rows], atol=1e-10)
    residual = rng.normal(size=(2, 3))
    np.testing.assert_allclose(taken.rmatvec(residual), residual @ dense(design)[rows], atol=1e-10)
    np.testing.assert_array_equal(design.from_basis(coef), taken.from_basis(coef))
    if weight is not None:
        np.testing.assert_array_equal(taken.weight, weight[rows])


def test_constants_are_rows_with_nothing_else(rng, weighted):
    weight = weights(rng, 300, weighted)
    rows = np.arange(0, 300, 7)
    design = Design.of(tall(rng), weight).constants(rows)
    assert (design.n_rows, design.n_coordinates) == (len(rows), 1)
    np.testing.assert_array_equal(design.scores(np.array([[2.0]])), np.full((1, len(rows)), 2.0))
    np.testing.assert_array_equal(design.from_basis(np.array([[2.0]])), [[2.0]])
    if weight is not None:
        np.testing.assert_array_equal(design.weight, weight[rows])


def test_a_shared_row_serves_all_rows(rng):
    weight = rng.uniform(size=30)
    design = Design.constant(4, weight)
    assert (design.shared, design.n_rows, design.n_coordinates) == (True, 1, 1)
    np.testing.assert_allclose(design.sum_of_squares(), [weight.sum()])
    np.testing.assert_array_equal(design.from_basis(np.array([3.0])), [0, 0, 0, 0, 3.0])
    np.testing.assert_array_equal(design.to_basis(np.array([1.0, 2.0, 0.0, 0.0, 3.0])), [3.0])
    taken = design.take(np.array([1, 2]))
    np.testing.assert_allclose(taken.sum_of_squares(), [weight[[1, 2]].sum()])
    assert design.balanced() is design


# ------------------------------------------------------------------------------- scales


def test_energy_is_the_weighted_sum_of_squares(rng, store, weighted):
    X = tall(rng)
    weight = weights(rng, len(X), weighted)
    design = Design.of(store(X), weight)
    w = np.ones(len(X)) if weight is None else weight
    np.testing.assert_allclose(design.sum_of_squares(), w @ dense(design) ** 2, rtol=1e-10)
    np.testing.assert_allclose(design.sum_of_squares()[-1], w.sum())
    if not sp.issparse(design.rows):
        np.testing.assert_array_equal(design.scale(), design.sum_of_squares())


def test_sparse_scales_lie_between_the_columns_own_and_a_common_one(rng, weighted):
    X = sp.random_array((300, 40), density=0.1, random_state=rng, format="csr")
    design = Design.of(X, weights(rng, 300, weighted))
    energy, scale = design.sum_of_squares()[:-1], design.scale()[:-1]
    order = np.argsort(energy)
    assert (np.diff(scale[order]) >= -1e-12).all()
    assert np.ptp(np.log(scale)) < np.ptp(np.log(energy))
    np.testing.assert_allclose(design.scale()[-1], design.sum_of_squares()[-1])


def test_a_scale_is_never_far_above_a_columns_own_energy(rng):
    """Else a huge column would have the solver believe that all others are flat."""
    X = sp.csr_array(badly_scaled(rng))
    design = Design.of(X)
    assert (design.scale() <= 1000.0 * design.sum_of_squares()).all()


def test_a_balanced_constant_is_as_long_as_a_row(rng, store, weighted):
    X = tall(rng)
    weight = weights(rng, len(X), weighted)
    design = Design.of(store(X), weight)
    balanced = design.balanced()
    w = np.ones(len(X)) if weight is None else weight
    length = np.sqrt(w @ (dense(design)[:, :-1] ** 2).sum(axis=1) / w.sum())
    np.testing.assert_allclose(balanced.level, length)
    np.testing.assert_allclose(dense(balanced)[:, -1], length)
    residual = rng.normal(size=(2, len(X)))
    np.testing.assert_allclose(balanced.rmatvec(residual), residual @ dense(balanced), atol=1e-8)
    assert design.level == 1.0  # the other is a copy


def test_rows_without_features_have_nothing_to_balance():
    design = Design.of(np.ones((5, 2)))
    assert design.balanced() is design


def test_rows_are_centred_in_parts(rng, request):
    X, extra = tall(rng), rng.normal(size=(300, 2))
    whole = Design.of(X, None, extra)
    request.getfixturevalue("few_rows_at_once")
    parts = Design.of(X, None, extra)
    coef = rng.normal(size=(2, 8))
    np.testing.assert_allclose(
        parts.scores(parts.to_basis(coef)), whole.scores(whole.to_basis(coef)), atol=1e-9
    )


@pytest.mark.parametrize("n_extra", [0, 2])
def test_linear_scores_are_products_with_the_users_features(rng, store, n_extra):
    X, coef = tall(rng), rng.normal(size=(2, 3, 6 + n_extra))
    extra = rng.normal(size=(300, n_extra)) if n_extra else None
    joined = X if extra is None else np.hstack([X, extra])
    expected = np.einsum("tkp,np->tkn", coef[..., :-1], joined) + coef[..., -1:]
    np.testing.assert_allclose(linear_scores(store(X), coef, extra), expected, atol=1e-10)
