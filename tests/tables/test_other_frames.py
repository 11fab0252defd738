"""Frames of other libraries: their index comes back, lazy ones are told, changes are noticed."""

from __future__ import annotations

import numpy as np
import pytest

from colabel import CTBN, BinaryRelevance, joint_of
from colabel.tables import TableModel, table_of

pd = pytest.importorskip("pandas")


@pytest.fixture
def frame(rng):
    X = pd.DataFrame(rng.normal(size=(40, 2)), columns=["u", "v"])
    X.index = [f"case {i}" for i in range(40)]
    return X


@pytest.fixture
def labels(frame):
    return (frame.to_numpy() @ [[1, -1], [1, 2]] > 0).astype(int)


def test_the_index_of_a_frame_comes_back(frame, labels):
    model = CTBN(C=1.0, random_state=0).fit(frame, labels, label_names=["a", "b"])
    joint = model.joint(frame)
    for found, rows in (
        (joint, slice(None)),
        (joint[3:5], slice(3, 5)),
        (joint[[7, 2]], [7, 2]),
        (joint.given({"a": 1}), slice(None)),
        (joint.subject_to("a or b"), slice(None)),
        (joint[1:4].given({"a": 1}), slice(1, 4)),
        (joint_of(model, frame), slice(None)),
    ):
        assert found.to_frame().index.tolist() == frame.index[rows].tolist()
        ranked = found.to_frame(k=2)
        assert ranked.index.get_level_values("row")[::2].tolist() == frame.index[rows].tolist()
        assert ranked.index.names == ["row", "rank"]
    assert model.joint(frame.to_numpy()).to_frame().index.tolist() == list(range(40))
    assert joint.to_frame(k=1).loc[("case 7", 1), "a"] == joint.mode()[7, 0]


def test_the_index_goes_through_a_table_model(frame, labels):
    data = table_of(frame.assign(a=labels[:, 0], b=labels[:, 1]), ["a", "b"])
    model = TableModel.fit(BinaryRelevance(C=1.0), data.features, data.choice, data.labels)
    assert model.joint(frame).to_frame().index.equals(frame.index)


def test_a_lazy_frame_is_told_or_collected(frame, labels):
    pl = pytest.importorskip("polars")
    lazy = pl.from_pandas(frame).lazy()
    model = BinaryRelevance(C=1.0)
    with pytest.raises(ValueError, match=r"X is a LazyFrame.*give X\.collect\(\)"):
        model.fit(lazy, labels)
    with pytest.raises(ValueError, match=r"Y is a LazyFrame.*give Y\.collect\(\)"):
        model.fit(frame, pl.DataFrame(labels).lazy())
    model.fit(frame, labels)
    with pytest.raises(ValueError, match="LazyFrame"):
        model.joint(lazy)
    # tables of a user's own are collected
    assert table_of(lazy.with_columns(a=pl.Series(labels[:, 0])), "a").features.n_rows == 40


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_transformers_answer_with_the_frames_asked_for(frame, labels, kind):
    library = pytest.importorskip(kind)
    from colabel.preprocess import KernelFeatures, SplineFeatures

    for transformer in (SplineFeatures(), KernelFeatures(random_state=0)):
        transformer.set_output(transform=kind)
        given = frame if kind == "pandas" else library.from_pandas(frame)
        found = transformer.fit(given, labels).transform(given)
        assert isinstance(found, library.DataFrame)
        assert list(found.columns) == list(transformer.get_feature_names_out())
        if kind == "pandas":
            assert found.index.equals(frame.index)


def test_rows_of_dask_that_change_between_passes_are_noticed(labels):
    da = pytest.importorskip("dask.array")
    from dask import delayed

    drawn = np.random.default_rng(0)

    def draw():
        return drawn.normal(size=(40, 2))

    Y = da.from_array(labels, chunks=(40, 2))
    X = da.from_delayed(delayed(draw, pure=False)(), (40, 2), dtype=float)
    with pytest.raises(RuntimeError, match="not what they were in the pass before"):
        BinaryRelevance(C=1.0).fit(X, Y)
    BinaryRelevance(C=1.0).fit(X.persist(), Y)
