"""The plans of the papers: sound as they are, and run in their quick form on the bundled data."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest
from msgspec.structs import replace

from studies.cells import expand
from studies.plan import load_plan
from studies.record import measured, read_record
from studies.runner import Runner, check
from studies.store import Store

FOLDER = Path(__file__).parents[2] / "studies" / "plans"
PLANS = sorted(FOLDER.glob("*.toml"))


def test_there_are_plans():
    assert {path.stem for path in PLANS} >= {
        "ctbn",
        "ctbn_authors",
        "mlcrf",
        "mlcrf_authors",
        "lds_mixture",
        "lds_parents",
        "protein",
        "cdn",
        "cdn_choices",
        "mlcrf_tuning",
        "mmoc",
        "rcv1_repaired",
        "synthetic",
        "demo",
    }


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_every_estimator_of_a_plan_can_be_made(path):
    plan = load_plan(path)
    check(plan)
    assert expand(plan)
    # A printed figure that nothing is measured for would be lost without a word.
    cells = {(cell.dataset, cell.method) for cell in expand(plan)}
    printed = {(f.dataset, f.method) for f in plan.figures if f.dataset not in plan.left_out}
    assert printed <= cells
    assert {figure.measure for figure in plan.figures} <= set(plan.measures)


def test_nothing_is_computed_twice():
    """The same model on the same rows is one cell, whatever studies ask for it."""
    keys = defaultdict(set)
    for path in FOLDER.glob("*.toml"):
        for cell in expand(load_plan(path)):
            assert cell.dataset != "rcv1_top10", "say rcv1subset5_top10, its other name"
            if cell.protocol.kind != "redrawn":
                said = json.dumps([cell.dataset, cell.model, cell.steps, cell.split])
                keys[said].add(cell.key)
    assert not [said for said, found in keys.items() if len(found) > 1]


def test_every_cause_names_cells_of_a_plan_that_tests_it():
    """A cause that no cell can show would stand for nothing."""
    for path in PLANS:
        for remark in load_plan(path).remarks.values():
            tests = load_plan(remark.study)
            assert not remark.dataset or remark.dataset in {d.name for d in tests.datasets}
            assert "{}" in remark.method or remark.method in {"", *(m.name for m in tests.methods)}


def test_the_record_speaks_of_the_plans():
    for study, figures in read_record().items():
        plan = load_plan(study)
        cells = {(cell.dataset, cell.method) for cell in expand(plan)}
        assert {place[1:] for place in figures} <= cells
        assert {place[0] for place in figures} <= set(plan.measures)


def test_every_study_of_a_paper_names_it_alike():
    names = {load_plan(path).paper for path in FOLDER.glob("*.toml")} - {""}
    assert names == {
        "MLCRF (SDM 2014)",
        "CTBN (CIKM 2013)",
        "LDS mixture (ECAI 2016)",
        "CDN (IJCAI 2011)",
    }


def on_few_rows(data):
    """One split of few rows: of so many as the protocol says, or of the first ones."""
    if data.protocol.kind == "random":
        return replace(data, first=1, protocol=replace(data.protocol, train=60, test=40))
    few = {"digit_traits": "digit_traits/300"}
    return replace(data, first=1, name=few.get(data.name, data.name))


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """One for all plans: what several of them ask for is worked out once."""
    with Store(tmp_path_factory.mktemp("studies") / "s.sqlite") as store:
        yield store


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_quick_form_runs(path, store):
    plan = load_plan(path, quick=True)
    # every method meets every measure on one small split; on others it would do the same again
    plan = replace(plan, datasets=tuple(map(on_few_rows, plan.datasets)))
    missing = Runner(store).missing(expand(plan))
    summary = Runner(store).run(plan)
    assert not store.failures(expand(plan))
    found = measured(store.rows(expand(plan)))
    assert summary.run == len(missing)
    assert summary.total == len(expand(plan))
    for cell in expand(plan):
        assert (plan.measures[0], cell.dataset, cell.method) in found
