"""What is fuzzed, and what may come of it: an answer that makes sense, or a sentence."""

from __future__ import annotations

import functools
import itertools
import json
import re
import tempfile
import tomllib
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import colabel
from colabel.saving import ModelFileError
from colabel.tables import TableError, TableModel, read_frame
from studies.cells import expand
from studies.plan import PlanError, load_plan
from tests.fuzz.mutations import change_archive, change_text, change_tree
from tests.fuzz.other_cases import checkpoint_case, own_table_case, page_case, parts_case
from tests.saving import files


@functools.cache
def model_files() -> dict[str, bytes]:
    """One small model file of every kind."""
    with tempfile.TemporaryDirectory() as folder:
        return {name: files.written(Path(folder), name).read_bytes() for name in files.models()}


def model_case(rng: np.random.Generator, folder: Path) -> str:
    """Load a changed model file, and ask what was loaded."""
    names = sorted(model_files())
    name = names[rng.integers(len(names))]
    file = folder / "case.colabel"
    file.write_bytes(change_archive(rng, model_files()[name]))
    try:
        model = colabel.load(file)
    except ModelFileError:
        return "refused"
    return asked(model)


def asked(model: Any) -> str:
    """Have a model answer rows that it should know."""
    rows = files.frame().without(["tags"]) if isinstance(model, TableModel) else files.rows()
    if getattr(model, "n_features_in_", files.N_FEATURES) != files.N_FEATURES:
        rows = np.zeros((2, model.n_features_in_))  # the model inside a model of a table
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            model.predict(rows)
            if hasattr(getattr(model, "model", model), "predict_proba"):
                require_probabilities(model.predict_proba(rows))
            require_agreement(model, rows)
    except TableError:  # such as a column that the table does not have
        return "refused"
    except ValueError as error:  # a scale of 1e-300 makes numbers that are refused by their column
        if not re.search("cannot be summed|to say which is meant", str(error)):  # a rule's label
            raise
        return "refused"
    return "answered"


def require_agreement(model: Any, rows: Any) -> None:
    """Raise unless all answers of a joint are those of its probabilities, added up one by one."""
    if not hasattr(getattr(model, "model", model), "joint"):
        return
    joint = colabel.joint_of(model, rows)
    sizes = joint.space.cardinalities
    if np.prod(sizes, dtype=float) > 300 or not {"sums", "log_prob"} <= set(joint.exact):
        return
    vectors = np.array(list(itertools.product(*map(range, sizes))), dtype=np.int32)
    tiled = [np.tile(one, (len(joint), 1)) for one in vectors]
    prob = np.exp(np.stack([joint.log_prob_codes(codes) for codes in tiled], axis=1))
    close = functools.partial(np.testing.assert_allclose, rtol=0, atol=1e-6)
    close(prob.sum(axis=1), 1.0, err_msg="probabilities do not sum to one")
    for i, table in enumerate(joint.marginal_tables()):
        sums = [prob[:, vectors[:, i] == code].sum(axis=1) for code in range(sizes[i])]
        close(table, np.stack(sums, axis=1), err_msg="marginals are no sums")
    if "mode" in joint.exact:
        close(np.exp(joint.log_prob_codes(joint.mode_codes())), prob.max(axis=1), err_msg="mode")
    best = joint.top_k(3)
    close(np.exp(best.log_prob[:, 0]), prob.max(axis=1), err_msg="top_k")
    likely = prob[:, vectors[:, 0] == 0].sum(axis=1) > 1e-3
    if likely.any():
        known = joint.rows(np.flatnonzero(likely)).given({0: joint.space.classes[0][0]})
        close(known.marginal_tables()[0][:, 0], 1.0, err_msg="given")
    if joint.sample(2, 0).shape != (2, len(joint), len(sizes)):
        raise AssertionError("samples of another shape")


def require_probabilities(found: Any) -> None:
    """Raise unless every number is a probability."""
    for table in found if isinstance(found, list) else [found]:
        if not (np.isfinite(table).all() and (table >= 0).all() and (table <= 1 + 1e-9).all()):
            raise AssertionError("probabilities outside [0, 1]")


CSV = b"size,colour,note,tag_a,tag_b\n" + b"".join(
    b"%d,%s,some words %d,%d,%d\n" % (i, [b"red", b"blue", b""][i % 3], i, i % 2, i % 3 > 0)
    for i in range(12)
)
ARFF = (
    b"@relation 'x: -C 2'\n@attribute a {0,1}\n@attribute b {0,1}\n@attribute c numeric\n"
    b"@attribute d {red,'light blue'}\n@data\n" + b"0,1,3.5,red\n1,1,?,'light blue'\n" * 5
)
SPARSE_ARFF = (
    b"@relation x\n@attribute a {0,1}\n@attribute b {0,1}\n@attribute c numeric\n@data\n"
    b"{0 1,2 3.5}\n{1 1}\n{}\n" * 1
)
TABLES = {"t.csv": CSV, "t.tsv": CSV.replace(b",", b"\t"), "t.arff": ARFF, "s.arff": SPARSE_ARFF}


@functools.cache
def parquet() -> bytes:
    """A small Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with tempfile.TemporaryDirectory() as folder:
        table = pa.table({"size": [1.0, 2.0], "colour": ["red", "blüe"], "tag": [0, 1]})
        pq.write_table(table, Path(folder) / "t.parquet")
        return (Path(folder) / "t.parquet").read_bytes()


def table_case(rng: np.random.Generator, folder: Path) -> str:
    """Read a changed table."""
    tables = {**TABLES, "t.parquet": parquet()}
    names = sorted(tables)
    name = names[rng.integers(len(names))]
    file = folder / name
    file.write_bytes(change_text(rng, tables[name]))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            read_frame(file)
    except TableError:
        return "refused"
    return "answered"


PLAN = """
title = "Small"
description = "words"
reference = "CTBN"
measures = ["exact_match", "micro_f1"]
steps = ["StandardScaler"]
[protocol]
kind = "random"
splits = 3
seed = 1
train = 60
test = 0.5
[[datasets]]
name = "digit_traits"
splits = 2
[methods.BR]
model = "BinaryRelevance"
C = [0.1, 1.0]
[methods.CTBN]
model = "CTBN"
on = { digit_traits = { C = 0.1 } }
without = { SD1 = "too long" }
[[claims]]
text = "t"
method = "CTBN"
over = ["BR"]
measures = ["exact_match"]
[remarks]
"digit_traits/BR" = { cause = "because" }
[quick]
title = "Quick"
"""
FIGURES = b"table,measure,dataset,method,value\n2,exact_match,digit_traits,BR,0.5\n"


def plan_case(rng: np.random.Generator, folder: Path) -> str:
    """Read a changed plan, and list its cells."""
    file, figures = folder / "plan.toml", folder / "plan.csv"
    figures.unlink(missing_ok=True)
    if rng.random() < 0.5:
        content = to_toml(change_tree(rng, tomllib.loads(PLAN))).encode()
    else:
        content = change_text(rng, PLAN.encode())
    file.write_bytes(content)
    if rng.random() < 0.3:
        figures.write_bytes(change_text(rng, FIGURES))
    try:
        for cell in expand(load_plan(file, quick=bool(rng.random() < 0.2))):
            assert cell.key
    except PlanError:
        return "refused"
    return "answered"


def to_toml(value: Any) -> str:
    """A table as TOML, its tables inline; None, which TOML has not, as a text."""
    return "\n".join(f"{json.dumps(str(key))} = {_inline(each)}" for key, each in value.items())


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        inner = ", ".join(f"{json.dumps(str(k))} = {_inline(v)}" for k, v in value.items())
        return "{ " + inner + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return json.dumps("" if value is None else value)


CASES: dict[str, Callable[[np.random.Generator, Path], str]] = {
    "models": model_case,
    "tables": table_case,
    "plans": plan_case,
    "own-tables": own_table_case,
    "parts": parts_case,
    "checkpoints": checkpoint_case,
    "pages": page_case,
}
