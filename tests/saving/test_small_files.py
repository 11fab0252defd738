"""Small files that would take all memory, or for ever: refused before anything is built."""

from __future__ import annotations

import io
import json
import time
import tracemalloc
import zipfile
from contextlib import contextmanager

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier

import colabel
from colabel.saving import ModelFileError, types_to_trust
from tests.saving.files import (
    arrays_of,
    changed,
    labels,
    members,
    npy,
    objects_of,
    refused,
    rewritten,
    rows,
    written,
)


def test_a_compressed_member_is_refused(file):
    rewritten(file, members(file), compression=zipfile.ZIP_DEFLATED)
    refused(file, "is compressed")


def test_an_array_that_says_it_is_larger_than_it_is(file):
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }\n"
    lie = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    rewritten(file, {**members(file), "arrays/0.npy": lie})
    refused(file, "not as large as it says")


def test_members_that_share_their_bytes(file):
    """The same bytes named by many entries of the table of contents."""
    content = bytearray(file.read_bytes())
    start = content.rindex(b"PK\x01\x02", 0, content.rindex(b"model.json"))
    # an entry that claims to begin at another member and to be as large as the whole file
    content[start + 20 : start + 28] = len(content).to_bytes(4, "little") * 2
    file.write_bytes(content)
    refused(file, "larger than the file|cut short|damaged")


def test_objects_that_multiply_are_refused(file):
    """Each object names the one before it twice: 2^40 objects if written out."""

    def multiply(tree):
        first = len(tree["objects"])
        inner = {"object": tree["root"]["object"]}
        for i in range(40):
            fields = {"estimator": inner, "estimator_": inner, "classes_": {"array": 0}}
            tree["objects"].append({"type": "hard-decisions", "fields": fields})
            inner = {"object": first + i}
        tree["root"] = inner

    changed(file, "model.json", multiply)
    refused(file, "named too often")


def test_members_that_multiply_are_refused(tmp_path):
    """A stack of stacks, each with two members that are one: a prediction asks 2^12 models."""
    file = written(tmp_path, "stack")

    def multiply(tree):
        fields = objects_of(tree, "joint-stack")[0]
        inner = {"object": tree["root"]["object"]}
        for _ in range(12):
            tree["objects"].append(
                {"type": "joint-stack", "fields": {**fields, "members_": [inner] * 2}}
            )
            inner = {"object": len(tree["objects"]) - 1}
        tree["root"] = inner

    changed(file, "model.json", multiply)
    refused(file, "named too often")


def test_one_large_array_named_again_and_again_is_refused(tmp_path):
    """It was there once, but looked through each time: 2 MB, and hours."""
    file = written(tmp_path, "br-variables")
    n_arrays = len(arrays_of(file))

    def name_it(tree):
        tree["n_arrays"] += 1
        classes = {"tuple": [{"array": n_arrays}] * 30}
        objects_of(tree, "label-space")[0]["classes"] = classes

    changed(file, "model.json", name_it, {f"arrays/{n_arrays}.npy": npy(np.zeros(1 << 22))})
    refused(file, "its arrays are named too often")


def with_root(file, root):
    """Write a file whose root is another JSON text."""
    content = members(file)
    tree = json.loads(content["model.json"]) | {"root": "HERE"}
    content["model.json"] = json.dumps(tree).encode().replace(b'"HERE"', root)
    return rewritten(file, content)


def test_deep_nesting_is_refused(file):
    refused(with_root(file, b"[" * 200_000 + b"]" * 200_000), "damaged")


def test_one_array_named_often_is_there_once(tmp_path):
    file = written(tmp_path, "ecc")

    def repeat(tree):
        chains = objects_of(tree, "ensemble-of-chains")[0]
        chains["chains_"] = chains["chains_"][:1] * 3

    changed(file, "model.json", repeat)
    again = colabel.load(file)
    assert again.chains_[0] is again.chains_[1]


def test_an_object_cannot_name_itself_or_a_later_one(file):
    changed(file, "model.json", lambda t: t["objects"][0]["fields"].update(names={"object": 0}))
    refused(file, "which is not before it")


@contextmanager
def little(n_bytes=1e9, seconds=5.0):
    """Require that what is inside takes less memory and less time than this."""
    tracemalloc.start()
    start = time.process_time()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < n_bytes
    assert time.process_time() - start < seconds


@pytest.mark.parametrize(
    ("model", "tag", "field", "value", "match"),
    [
        ("forest-features", "label-forest", "cardinalities", [400_000_000, 2], "frequencies"),
        ("br", "linear-models", "n_models", 100_000_000, "a model is missing"),
        ("stack", "pool", "log_outside", 50.0, "log_outside is 50.0"),
        ("cdn", "cdn", "burn_in", 10_000, "files may ask for 10000 sweeps"),
        ("cdn-nb", "cdn", "burn_in", 3_000, "files may ask for 3000 sweeps"),
        ("pcc", "probabilistic-chain", "beam_width", 100_000, "beam_width"),
        ("ecc", "ensemble-of-chains", "n_samples", 1_000_000, "n_samples"),
        ("conformal", "conformal-sets", "max_listed", 10**9, "max_listed"),
        ("lds", "feature-columns", "n_values", [2**31, 2**31, 2**31], "phi|values"),
        ("cml", "field-layout", "cardinalities", [2**31, 2**31], "axis 1 of node"),
    ],
)
def test_numbers_that_ask_for_gigabytes_or_minutes(model, tag, field, value, match, tmp_path):
    file = written(tmp_path, model)
    value = {"tuple": value} if isinstance(value, list) else value
    changed(file, "model.json", lambda t: objects_of(t, tag)[0].update({field: value}))
    with little():
        refused(file, match)


def test_many_empty_lists_are_refused(file):
    with_root(file, b"[" + b"[]," * 10_000_000 + b"[]]")
    with little():
        refused(file, "too many lists")


def test_arrays_that_nothing_names_are_refused(file):
    n_arrays = len(arrays_of(file))
    more = {f"arrays/{n_arrays + i}.npy": npy(np.zeros(1)) for i in range(90_000)}
    changed(file, "model.json", lambda tree: tree.update(n_arrays=n_arrays + len(more)), more)
    start = time.process_time()
    refused(file, "nothing in it names")
    assert time.process_time() - start < 5.0


# ------------------------------------------------------------------------ estimators of others


@pytest.fixture
def boosted(tmp_path):
    model = colabel.BinaryRelevance(estimator=GradientBoostingClassifier(n_estimators=1))
    with pytest.warns(UserWarning, match="trusted"):
        colabel.save(model.fit(rows(), labels()), tmp_path / "boosted.colabel")
    return tmp_path / "boosted.colabel"


def with_schema(file, change, **more):
    """Change what skops has written of each estimator; `more` are members for it."""
    content = members(file)
    for name in [name for name in content if name.endswith(".skops")]:
        with zipfile.ZipFile(io.BytesIO(content[name])) as archive:
            inner = {n: archive.read(n) for n in archive.namelist()}
        before = json.loads(inner["schema.json"])
        schema = change(before)
        schema["protocol"] = before["protocol"]  # of skops
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for n, each in {**inner, **more, "schema.json": json.dumps(schema)}.items():
                archive.writestr(n, each)
        content[name] = buffer.getvalue()
    return rewritten(file, content)


def listed(number, content):
    """A list as skops writes one."""
    kind = {"__class__": "list", "__module__": "builtins", "__loader__": "ListNode"}
    return {**kind, "__id__": number, "content": content}


def test_objects_of_others_that_multiply_are_refused(boosted):
    """skops looks at an object again each time it is named: 2^26 times, before anything is made."""

    def multiply(schema):
        inner = schema
        for number in range(1, 27):
            inner = listed(number, [inner, listed(number - 1, [])] if number > 1 else [inner])
        return inner

    with_schema(boosted, multiply)
    refused(boosted, "names the same parts too often")
    with pytest.raises(ModelFileError, match="names the same parts too often"):
        types_to_trust(boosted)


def test_an_array_of_others_named_often_is_refused(boosted):
    """skops reads it each time: 3 MB were 6 GB."""
    array = {"__class__": "ndarray", "__module__": "numpy", "__loader__": "NdArrayNode"}
    array |= {"type": "numpy", "file": "large.npy"}
    with_schema(boosted, lambda s: listed(1, [s] + [array] * 2000), **{"large.npy": b" " * 3000000})
    refused(boosted, "names the same parts too often")


def test_an_object_of_others_in_itself_is_refused(boosted):
    with_schema(boosted, lambda s: listed(7, [s, listed(7, [])]))
    refused(boosted, "holds itself")
