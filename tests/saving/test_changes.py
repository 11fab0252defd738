"""Every field of every stored type, changed in every way: refused, or the answers are answers."""

from __future__ import annotations

import copy
import io
import json

import numpy as np
import pytest

import colabel
from colabel.saving import ModelFileError
from tests.saving.files import frame, members, models, npy, rewritten, rows, written

# among them values that cannot be hashed: scikit-learn looks for some settings in sets
PLAIN = [None, -1, 2**40, 0.5, "text", []]
VALUES = [*PLAIN, {"float": "nan"}, {"tuple": [3]}, {"tuple": [[]]}, {"dict": []}, {"array": 0}]
ARRAYS = {
    "shorter": lambda a: a[:-1],
    "deeper": lambda a: a[None],
    "unsigned": lambda a: a.astype(np.uint64),
    "single": lambda a: a.astype(np.float32),
    "negative": lambda a: -a - 1,
    "zero": np.zeros_like,
    "large": lambda a: np.full_like(a, 2**31 - 1),
    "not a number": lambda a: np.where(np.arange(a.size).reshape(a.shape) == 0, np.nan, a),
}
MAY_RAISE = (ValueError, NotImplementedError, MemoryError)  # with a sentence


def changes(tree, seen):
    """Which field of which object becomes what: each type and field once."""
    for i, entry in enumerate(tree["objects"]):
        for field, value in entry["fields"].items():
            if (entry["type"], field) in seen:
                continue
            seen.add((entry["type"], field))
            is_array = isinstance(value, dict) and "array" in value
            for other in (*VALUES, *(ARRAYS if is_array else ())):
                if other != value:
                    yield entry["type"], i, field, other


def changed_file(file, content, tree, i, field, other):
    tree = copy.deepcopy(tree)
    fields, content = tree["objects"][i]["fields"], dict(content)
    if isinstance(other, str) and other in ARRAYS:
        name = f"arrays/{fields[field]['array']}.npy"
        with np.errstate(all="ignore"):
            content[name] = npy(ARRAYS[other](np.load(io.BytesIO(content[name]))))
    else:
        fields[field] = other
    content["model.json"] = json.dumps(tree).encode()
    return rewritten(file, content)


def check_answers(model, X):
    """Probabilities are probabilities, and sum to one for each variable."""
    predicted = model.predict(X)
    assert len(predicted) == (len(X) if not hasattr(X, "n_rows") else X.n_rows)
    if hasattr(getattr(model, "model", model), "predict_proba"):
        tables = model.predict_proba(X)
        for table in tables if isinstance(tables, list) else [tables]:
            assert np.isfinite(table).all()
            assert table.min() >= 0
            assert table.max() <= 1 + 1e-9
            if isinstance(tables, list):
                np.testing.assert_allclose(table.sum(axis=1), 1.0, atol=1e-6)


@pytest.mark.filterwarnings("ignore")
def test_every_field_of_every_type_changed(tmp_path):
    seen, n_loaded, n_refused, wrong = set(), 0, 0, []
    for name in models():
        file = written(tmp_path, name)
        content = members(file)
        tree = json.loads(content["model.json"])
        X = frame().without(["tags"]) if name.startswith("table") else rows()[:5]
        for tag, i, field, other in changes(tree, seen):
            where = f"{name}: {tag}.{field} = {other!r}"
            try:
                changed_file(file, content, tree, i, field, other)
            except (TypeError, ValueError, IndexError):  # no such change of texts, or of a number
                continue
            try:
                model = colabel.load(file)
            except ModelFileError:
                n_refused += 1
                continue
            except Exception as error:
                wrong.append(f"{where}: {error!r:.150} while loading")
                continue
            n_loaded += 1
            try:
                check_answers(model, X)
            except MAY_RAISE:
                pass
            except Exception as error:
                wrong.append(f"{where}: {error!r:.150}")
    assert not wrong, "\n".join(wrong)
    assert len(seen) > 300
    assert n_refused > 1000
    assert n_loaded > 100
