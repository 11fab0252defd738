"""Running, storing, failing, being killed."""

from __future__ import annotations

import math
import multiprocessing
import os
import random
import signal
import sqlite3
import time
from contextlib import closing, suppress

import numpy as np
import pytest
from sklearn.model_selection import KFold
from sklearn.preprocessing import StandardScaler

from colabel import CTBN, BinaryRelevance
from colabel.metrics import exact_match, f1_score
from studies.build import build, build_steps
from studies.cells import expand
from studies.datasets import load_digit_traits, random_splits
from studies.evaluate import Outcome, evaluate, load_data
from studies.plan import PlanError, load_plan
from studies.record import measured
from studies.runner import Runner
from studies.store import Store
from tests.platforms import with_signals
from tests.studies.conftest import PLAN


def run(plan, path, **options):
    with Store(path) as store:
        return Runner(store, **options).run(plan)


def timeless(path):
    """Everything in a store but times, sorted."""
    with closing(sqlite3.connect(path)) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master").fetchall():
            return []  # killed before the table was made
        return connection.execute(
            "SELECT key, dataset, model, protocol, split, status, error, warnings, n_train, n_test,"
            " versions, measures FROM cells ORDER BY key"
        ).fetchall()


def test_a_cell_is_what_one_would_write_by_hand(plan):
    data = load_digit_traits()
    train, test = random_splits(data.n_rows, 60, 40, 3, 0)[1]
    scaler = StandardScaler().fit(data.X[train])
    model = CTBN(C=1.0, random_state=0, cv=3).fit(scaler.transform(data.X[train]), data.Y[train])
    X_test, truth = scaler.transform(data.X[test]), data.Y[test]
    cell = next(c for c in expand(plan) if c.method == "CTBN" and c.split == 1)
    outcome = evaluate(cell)
    assert outcome.status == "done", outcome.error
    assert outcome.values["exact_match"] == exact_match(truth, model.predict(X_test))
    loss = -model.joint(X_test).log_prob(truth).sum()
    assert outcome.values["log_loss_sum_per_fold"] == pytest.approx(loss)
    assert (outcome.n_train, outcome.n_test) == (60, 40)
    assert outcome.learn_seconds > 0.0
    assert outcome.predict_seconds > 0.0


def test_finished_cells_are_not_repeated(plan, tmp_path):
    first = run(plan.only(methods=["BR"]), tmp_path / "s.sqlite")
    assert (first.total, first.before, first.run, first.failed) == (3, 0, 3, 0)
    asked = []

    def watched(cell, data_home=None):
        asked.append(cell.method)
        return Outcome("done")

    second = run(plan, tmp_path / "s.sqlite", work=watched)
    assert (second.total, second.before, second.run) == (6, 3, 3)
    assert asked == ["CTBN"] * 3


def test_processes_give_the_same_store(plan, tmp_path):
    plan = plan.only(methods=["CTBN"])
    run(plan, tmp_path / "one.sqlite", n_jobs=1)
    run(plan, tmp_path / "two.sqlite", n_jobs=2)
    assert timeless(tmp_path / "one.sqlite") == timeless(tmp_path / "two.sqlite")


def test_a_failing_cell_is_a_row_with_its_error(write_plan, tmp_path):
    text = PLAN.replace("C = 1.0\n\n", 'C = 1.0\n\n[methods.Bad]\nmodel = "MLkNN"\nk = -7\n\n', 1)
    plan = load_plan(write_plan(text))
    summary = run(plan, tmp_path / "s.sqlite")
    assert summary.failed == 3
    with Store(tmp_path / "s.sqlite") as store:
        failures, rows = store.failures(expand(plan)), list(store.rows(expand(plan)))
        assert Runner(store).missing(expand(plan)) == []
        assert len(Runner(store, retry=True).missing(expand(plan))) == 3
    assert len(failures) == 3
    assert all(cell.method == "Bad" and "-7" in error for cell, error in failures)
    bad = [row for row in rows if row.method == "Bad"]
    assert len(bad) == 6
    assert all(math.isnan(row.value) and row.status == "failed" for row in bad)
    assert measured(rows)["exact_match", "digit_traits", "CTBN"].splits == 3


def kill_worker(cell, data_home=None):
    if cell.method == "BR" and cell.split == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return Outcome("done", values=dict.fromkeys(cell.measures, 1.0))


@with_signals
def test_a_cell_that_kills_its_process_fails_alone(plan, tmp_path):
    plan = plan.only(methods=["BR"])
    summary = run(plan, tmp_path / "s.sqlite", n_jobs=2, work=kill_worker)
    assert (summary.run, summary.failed) == (3, 1)
    with Store(tmp_path / "s.sqlite") as store:
        ((cell, error),) = store.failures(expand(plan))
    assert (cell.method, cell.split) == ("BR", 0)
    assert "out of memory" in error


def test_mistakes_show_before_work_begins(write_plan, tmp_path):
    for change, message in (
        (('"BinaryRelevance"', '"BinaryRelevence"'), "There is no model 'BinaryRelevence'"),
        (("cv = 3", "cvv = 3"), "no parameter 'cvv'"),
        (('["StandardScaler"]', '["Scaler"]'), "There is no model 'Scaler'"),
        (("cv = 3", "search = { D = [1] }"), "no parameter 'D' to search over"),
        (("cv = 3", 'search = { cv = [3] }\nscoring = "f2"'), "scoring is 'f2'; leave it out"),
    ):
        own = load_plan(write_plan(PLAN.replace(*change, 1)))
        with pytest.raises(PlanError, match=message):
            run(own, tmp_path / "s.sqlite", work=None)


def test_a_search_chooses_on_training_rows(write_plan):
    text = PLAN.replace("C = 1.0\n\n", "search = { C = [1e-6, 1.0] }\n\n", 1).replace(
        '"exact_match", "log_loss_sum_per_fold"', '"exact_match"'
    )
    outcome = evaluate(expand(load_plan(write_plan(text)))[0])
    assert outcome.status == "done", outcome.error


@pytest.mark.parametrize(("scoring", "average"), [("micro_f1", "micro"), ("macro_f1", "macro")])
def test_a_search_by_f1(scoring, average):
    data = load_digit_traits()
    X, Y = data.X[:200], data.Y[:200]
    grid = {"C": [1e-5, 1e-3, 10.0]}
    found = build({"model": "BinaryRelevance", "search": grid, "scoring": scoring}).fit(X, Y)
    folds = KFold(3, shuffle=True, random_state=0)
    for C, score in zip(grid["C"], found.cv_results_["mean_test_score"], strict=True):
        own = []
        for train, test in folds.split(X):
            predicted = BinaryRelevance(C=C).fit(X[train], Y[train]).predict(X[test])
            own.append(f1_score(Y[test], predicted, average=average))
        assert score == pytest.approx(np.mean(own))


def test_pairs_are_lists_in_a_plan():
    (step,) = build_steps([{"model": "MinMaxScaler", "feature_range": [-1, 1]}])
    assert step.fit_transform(np.array([[0.0], [2.0], [4.0]])).ravel().tolist() == [-1, 0, 1]


def test_synthetic_problems_are_drawn_anew(write_plan):
    text = """
    measures = ["true_graph"]
    protocol = { kind = "draws", splits = 2 }
    datasets = [{ name = "SD4" }]
    [methods.CRF]
    model = "PairwiseCRF"
    random_state = 0
    """
    cells = expand(load_plan(write_plan(text)))
    outcomes = [evaluate(cell) for cell in cells]
    assert [outcome.error for outcome in outcomes] == ["", ""]
    assert {outcome.values["true_graph"] for outcome in outcomes} <= {0.0, 1.0}


def at_once(cell, data_home=None):
    values = {name: float(int(cell.key[:6], 16) + cell.split) for name in cell.measures}
    return Outcome("done", values=values, n_train=cell.split)


def slowly(cell, data_home=None):
    time.sleep(0.03)
    return at_once(cell)


def run_slowly(plan_path, store_path):
    run(load_plan(plan_path), store_path, work=slowly)


@with_signals
def test_killed_ten_times_the_store_is_that_of_an_undisturbed_run(write_plan, tmp_path):
    path = write_plan(PLAN.replace("splits = 3", "splits = 40"))
    calm, killed = tmp_path / "calm.sqlite", tmp_path / "killed.sqlite"
    # Processes forked from one that has imported everything: kills come early, middle and late.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])

    def start(store):
        process = context.Process(target=run_slowly, args=(path, store))
        process.start()
        return process

    def n_saved():
        return len(timeless(killed)) if killed.exists() else 0

    run(load_plan(path), calm, work=at_once)
    rng, reached = random.Random(0), [0]
    for _ in range(10):
        process = start(killed)
        # Moments are drawn by what is saved, not by the clock: a loaded machine changes nothing.
        wanted, patience = reached[-1] + rng.randint(0, 5), time.monotonic() + 60.0
        while time.monotonic() < patience:
            with suppress(sqlite3.OperationalError):  # the table is just being made
                if n_saved() >= wanted:
                    break
            time.sleep(0.01)
        process.join(rng.uniform(0.0, 0.06))
        assert process.exitcode is None, "it finished before it could be killed ten times"
        process.kill()
        process.join(120)
        reached.append(n_saved())
    assert reached == sorted(reached)
    assert 0 < reached[-1] < 80
    run(load_plan(path), killed, work=at_once)
    assert timeless(killed) == timeless(calm)
    assert len(timeless(killed)) == 80


def test_some_labels_and_some_rows_of_a_data_set():
    whole = load_digit_traits()
    labels, rows = load_data("digit_traits:3", None), load_data("digit_traits/50", None)
    np.testing.assert_array_equal(labels.Y, whole.Y[:, :3])
    assert labels.label_names == whole.label_names[:3]
    np.testing.assert_array_equal(rows.X, whole.X[:50])
    np.testing.assert_array_equal(rows.Y, whole.Y[:50])
