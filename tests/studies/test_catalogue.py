"""The catalogue against the real files; skipped where they are absent."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from scipy import sparse

from colabel.tables import TableError
from studies.datasets import CATALOGUE, describe, load

REPAIRED = {  # label cardinality and distinct label sets after the repair
    "rcv1subset1": (2.895, 811),
    "rcv1subset2": (2.890, 817),
    "rcv1subset3": (2.905, 801),
    "rcv1subset4": (2.908, 785),
    "rcv1subset5": (2.905, 814),
}


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch):
    monkeypatch.delenv("COLABEL_DATA", raising=False)


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_set_is_as_the_catalogue_says(name, data_home):
    data, entry = load(name, data_home=data_home), describe(name)
    assert data.name == name
    assert data.description
    assert (data.n_rows, data.n_features, data.n_labels) == entry.shape
    assert len(set(map(tuple, data.Y.tolist()))) == entry.distinct_label_sets
    is_binary = data.Y.dtype.kind in "iub" and np.isin(data.Y, (0, 1)).all()
    assert is_binary == (entry.label_cardinality is not None)
    if entry.label_cardinality is not None:
        cardinality = data.Y.sum(axis=1).mean()
        assert cardinality == pytest.approx(entry.label_cardinality, abs=5.1e-4)
    assert data.X.dtype == np.float64
    values = data.X.data if sparse.issparse(data.X) else data.X
    assert np.isfinite(values).all()
    assert len(set(data.feature_names)) == data.n_features
    assert len(set(data.label_names)) == data.n_labels


@pytest.mark.parametrize("name", REPAIRED)
def test_repaired_rcv1(name, data_home):
    raw = load(name, data_home=data_home)
    data = load(name, data_home=data_home, repaired=True)
    cardinality, label_sets = REPAIRED[name]
    assert data.Y.sum(axis=1).mean() == pytest.approx(cardinality, abs=5.1e-4)
    assert len(set(map(tuple, data.Y.tolist()))) == label_sets
    # Nothing is lost or made up: the ones that left X arrived in Y, less those pushed out.
    assert raw.X.shape == data.X.shape
    assert raw.X.nnz > data.X.nnz
    named = load(f"{name}_repaired", data_home=data_home)
    np.testing.assert_array_equal(named.Y, data.Y)
    top = load(f"{name}_top10_repaired", data_home=data_home)
    by_hand = load(f"{name}_top10", data_home=data_home, repaired=True)
    np.testing.assert_array_equal(top.Y, by_hand.Y)
    assert top.X.shape == by_hand.X.shape


def test_proteins_keep_their_copies_and_their_empty_rows(data_home):
    data = load("eukaryote_go", data_home=data_home)
    assert data.label_names[:2] == ("Label1", "Label2")  # names are lost
    assert set(np.unique(data.X.data)) == {1.0}
    assert (np.diff(data.X.indptr) == 0).sum() == 14
    ends = list(zip(data.X.indptr[:-1], data.X.indptr[1:], strict=True))
    assert len({data.X.indices[a:b].tobytes() for a, b in ends}) == 6916
    assert (data.Y.sum(axis=1) > 0).all()


def test_yeast_columns_beat_the_order_of_the_xml(data_home):
    data = load("yeast", data_home=data_home)
    text = (data_home / "yeast" / "yeast.arff").read_text()
    columns = [line.split()[1] for line in text.splitlines() if line.startswith("@attribute Class")]
    assert list(data.label_names) == columns
    last = text.strip().splitlines()[-1].split(",")[-14:]
    assert data.Y[-1].tolist() == [int(value) for value in last]


def test_multi_dimensional_values(data_home):
    water = load("water_quality", data_home=data_home)
    assert set(np.unique(water.Y)) == {0, 1, 3, 5}
    flare = load("solar_flare", data_home=data_home)
    assert [len(np.unique(column)) for column in flare.Y.T] == [3, 4, 2]
    assert "mod_zurich_class=A" in flare.feature_names
    assert "activity" in flare.feature_names


def test_environment_names_the_folder(data_home, monkeypatch):
    monkeypatch.setenv("COLABEL_DATA", str(data_home))
    assert load("emotions").n_rows == 593


def test_changed_file_is_refused(data_home, tmp_path):
    shutil.copytree(data_home / "emotions", tmp_path / "emotions", copy_function=shutil.copyfile)
    file = tmp_path / "emotions" / "emotions.arff"
    (tmp_path / "emotions").chmod(0o755)
    file.write_text(file.read_text() + "\n")
    with pytest.raises(TableError, match=r"not the file the catalogue knows.*SHA-256"):
        load("emotions", data_home=tmp_path)


def test_refusals(tmp_path):
    with pytest.raises(TableError, match=r"no data set 'iris'.*emotions, yeast"):
        load("iris")
    with pytest.raises(TableError, match=r"no data set 'emotion'.*: did you mean 'emotions'\?"):
        load("emotion")
    with pytest.raises(TableError, match="nothing to repair"):
        load("yeast", repaired=True)
    with pytest.raises(TableError, match=r"not found in .*Put the files yeast.arff"):
        load("yeast", data_home=tmp_path)
    with pytest.raises(TableError, match="COLABEL_DATA is not set"):
        load("yeast")
