"""The peers' table: answers are distributions, measures right, stores resume, tables tell all."""

from __future__ import annotations

import itertools
import signal
import sys
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import BernoulliNB

from benchmarks.peers import measures, table
from benchmarks.peers.answers import ByMarginals, BySets, without_zeros
from benchmarks.peers.learners import (
    Chain,
    ManyOutputs,
    OnIndicators,
    Ours,
    PerLabel,
    Powerset,
    Scaled,
)
from benchmarks.peers.methods import METHODS, Method
from benchmarks.peers.store import N_FOLDS, Cell, FoldedData, Record, Store
from colabel import BinaryRelevance
from colabel.metrics import exact_match, f1_score, hamming_accuracy
from tests.joint.oracle import every_vector

ZERO_ONE, MANY_VALUED = (2, 2, 2, 2), (3, 2, 4)


def problem(rng, cardinalities, n_rows=120):
    """Features and codes (n, d) that depend on them and on each other."""
    X = rng.normal(size=(n_rows, len(cardinalities)))
    shared = rng.normal(size=n_rows)
    columns = [
        np.clip(X[:, j] + shared + k / 2 - 0.5, 0, k - 1).round()
        for j, k in enumerate(cardinalities)
    ]
    return X, np.stack(columns, axis=1).astype(np.int32)


LEARNERS = {
    "per label": lambda k: PerLabel(LogisticRegression(), k),
    "forest": lambda k: ManyOutputs(RandomForestClassifier(7, random_state=0), k),
    "chain": lambda k: Chain(LogisticRegression(), k),
    "chain of forests": lambda k: Chain(RandomForestClassifier(7, random_state=0), k),
    "powerset": lambda k: Powerset(RandomForestClassifier(7, random_state=0), k),
    "indicators": lambda k: OnIndicators(RandomForestOfIndicators(), k),
    "ours": lambda k: Ours(BinaryRelevance(C=1.0)),
    "scaled": lambda k: Scaled(PerLabel(LogisticRegression(), k)),
}


class RandomForestOfIndicators:
    """Gives P(1) of each 0/1 label as one matrix, as XGBoost, CatBoost and BOOMER do."""

    def fit(self, X, Y):
        assert set(np.unique(Y)) <= {0, 1}
        self.forest = RandomForestClassifier(7, random_state=0).fit(X, Y)

    def predict_proba(self, X):
        return np.stack([part[:, 1] for part in self.forest.predict_proba(X)], axis=1)


@pytest.mark.parametrize("cardinalities", [ZERO_ONE, MANY_VALUED])
@pytest.mark.parametrize("name", LEARNERS)
def test_probabilities_of_all_label_vectors_sum_to_one(name, cardinalities, rng):
    X, Y = problem(rng, cardinalities)
    learner = LEARNERS[name](cardinalities)
    learner.fit(X[:100], Y[:100])
    vectors = every_vector(cardinalities)
    for row in X[100:104]:
        answers = learner.answer(np.tile(row, (len(vectors), 1)))
        log_prob, zero = answers.log_prob(vectors)
        assert np.exp(log_prob).sum() == pytest.approx(1.0)
        assert zero.shape == (len(vectors),)
    answers = learner.answer(X[100:])
    for decided in (answers.subset(), answers.hamming(), answers.f1()):
        assert decided.shape == (20, len(cardinalities))
        assert (decided == Y[100:]).mean() > 1.2 / max(cardinalities)  # better than by chance


def test_powerset_decides_for_sets_and_for_labels(rng):
    X, Y = problem(rng, ZERO_ONE)
    learner = Powerset(BernoulliNB(), ZERO_ONE)
    learner.fit(X[:100], Y[:100])
    names = np.array(["".join(map(str, row)) for row in Y[:100]])
    plain = BernoulliNB().fit(X[:100], names)
    answers = learner.answer(X[100:])
    said = ["".join(map(str, row)) for row in answers.subset()]
    assert said == plain.predict(X[100:]).tolist()
    on = np.array([[int(c) for c in name] for name in plain.classes_])
    marginals = plain.predict_proba(X[100:]) @ on
    np.testing.assert_array_equal(answers.hamming(), marginals > 0.5)


def test_sets_never_seen_are_counted_and_have_good_turings_share():
    train = np.array([[0, 0]] * 5 + [[1, 1]] * 2 + [[0, 1]], dtype=np.int32)
    vectors = np.array([[0, 0], [0, 1], [1, 1]], dtype=np.int32)
    answers = BySets(np.array([[0.5, 0.0, 0.5]] * 2), vectors, train, (2, 2))
    log_prob, zero = answers.log_prob(np.array([[1, 0], [0, 1]], dtype=np.int32))
    share = (1 + 1) / (8 + 2)  # one set was seen once; the only unseen one has all of the share
    np.testing.assert_allclose(np.exp(log_prob), [share, (1 - share) / (8 + 3)])
    assert zero.tolist() == [True, True]


def test_a_vote_of_zero_gets_laplaces_share_and_is_counted():
    found = without_zeros(np.array([[1.0, 0.0], [0.5, 0.5]]), n_train=8)
    np.testing.assert_allclose(found, [[1 / 1.1, 0.1 / 1.1], [0.5, 0.5]])
    answers = ByMarginals([np.array([[1.0, 0.0]])] * 2, 8)
    assert answers.log_prob(np.array([[0, 1]], dtype=np.int32))[1].tolist() == [True]
    assert answers.log_prob(np.array([[0, 0]], dtype=np.int32))[1].tolist() == [False]


def test_labels_of_one_value_and_values_with_gaps_are_learned(rng):
    X, Y = problem(rng, (4, 2))
    Y[:, 1] = 1
    Y[Y[:, 0] == 1, 0] = 3
    learner = PerLabel(LogisticRegression(), (4, 2))
    learner.fit(X, Y)
    answers = learner.answer(X)
    assert set(answers.hamming()[:, 0]) <= {0, 2, 3}
    assert (answers.hamming()[:, 1] == 1).all()
    missed = np.array([[1, 1]] * len(X), dtype=np.int32)
    assert answers.log_prob(missed)[1].all()


def test_labels_that_never_vary_are_kept_from_those_who_refuse_them(rng):
    X, Y = problem(rng, ZERO_ONE)
    Y[:, 1], Y[:, 3] = 0, 1

    class Choosy(RandomForestOfIndicators):
        def fit(self, X, Y):
            assert Y.min(axis=0).max() == 0
            assert Y.max(axis=0).min() == 1
            super().fit(X, Y)

        def predict(self, X):
            return self.predict_proba(X) > 0.9

    learner = OnIndicators(Choosy(), ZERO_ONE, predicts=True)
    learner.fit(X, Y)
    subset = learner.answer(X).subset()
    assert (subset[:, [1, 3]] == [0, 1]).all()
    np.testing.assert_array_equal(subset[:, [0, 2]], learner.estimator.predict(X))
    missed = np.array([[0, 1, 0, 1]] * len(X), dtype=np.int32)
    assert learner.answer(X).log_prob(missed)[1].all()


def test_a_value_that_our_training_rows_lack_has_no_probability(rng):
    X, Y = problem(rng, MANY_VALUED)
    keep = Y[:, 2] != 1
    learner = Ours(BinaryRelevance(C=1.0))
    learner.fit(X[keep], Y[keep])
    log_prob, zero = learner.answer(X).log_prob(Y)
    np.testing.assert_array_equal(zero, ~keep)
    np.testing.assert_allclose(log_prob[keep], learner.model.joint(X[keep]).log_prob(Y[keep]))
    assert set(learner.answer(X).subset()[:, 2]) <= {0, 2, 3}


def folded(rng, cardinalities, n_rows=120):
    X, Y = problem(rng, cardinalities, n_rows)
    return FoldedData(X, Y, cardinalities, np.arange(n_rows) % N_FOLDS)


def record(data, method, fold, decided, log_prob=None, **told):
    rows = np.flatnonzero(data.fold == fold)
    logs = np.full(len(rows), -1.0) if log_prob is None else log_prob[rows]
    zero = np.zeros(len(rows), dtype=bool)
    about = {"cpu_seconds": 1.5, "peak_mb": 100.0, "limit": 60.0, **told}
    codes = decided[rows]
    said = (codes,) * 5
    return Record(Cell("toy", method, fold), "done", "", rows, *said, logs, zero, **about)


def held(data, decided, **more):
    return measures.held_out(
        data, [record(data, "RF", fold, decided, **more) for fold in reversed(range(N_FOLDS))]
    )


@pytest.mark.parametrize("cardinalities", [ZERO_ONE, MANY_VALUED])
def test_measures_agree_with_the_metrics(cardinalities, rng):
    data = folded(rng, cardinalities)
    decided = data.codes[rng.permutation(len(data.codes))]
    found = held(data, decided).measures
    # Values of class variables must not look like labels that are there or absent.
    shift = 0 if cardinalities == ZERO_ONE else 2
    true, said = data.codes + shift, decided + shift
    expected = {
        "exact match": exact_match(true, said),
        "Hamming accuracy": hamming_accuracy(true, said),
        "micro F1": f1_score(true, said, average="micro"),
        "macro F1": f1_score(true, said, average="macro"),
        "row F1": f1_score(true, said, average="samples", zero_division=1.0),
        "log-loss": 1.0,
    }
    assert {name: found[name].value for name in expected} == pytest.approx(expected)
    assert tuple(found) == measures.MEASURES


@pytest.mark.parametrize("measure", ["exact match", "micro F1", "macro F1", "row F1"])
def test_paired_errors_agree_with_the_jackknife(measure, rng):
    data = folded(rng, ZERO_ONE, 250)
    flips = [rng.random(data.codes.shape) < share for share in (0.1, 0.15)]
    one, other = (data.codes ^ flip for flip in flips)
    error = measures.paired_error(
        held(data, one).measures[measure], held(data, other).measures[measure]
    )

    def difference(rows):
        part = FoldedData(data.X[rows], data.codes[rows], ZERO_ONE, data.fold[rows])
        values = [held(part, codes[rows]).measures[measure].value for codes in (one, other)]
        return values[0] - values[1]

    n = len(data.codes)
    left_out = np.array([difference(np.delete(np.arange(n), i)) for i in range(n)])
    jackknife = np.sqrt((n - 1) / n * ((left_out - left_out.mean()) ** 2).sum())
    assert error == pytest.approx(jackknife, rel=0.04)


def test_stores_give_back_what_they_were_given(tmp_path, rng):
    store, data = Store(tmp_path), folded(rng, ZERO_ONE)
    thin = FoldedData(sparse.csr_array(data.X * (data.X > 0)), data.codes, ZERO_ONE, data.fold)
    thin.write(store.data_path("toy"))
    back = FoldedData.read(store.data_path("toy"))
    np.testing.assert_array_equal(back.X.toarray(), thin.X.toarray())
    np.testing.assert_array_equal(back.codes, data.codes)
    assert back.cardinalities == ZERO_ONE
    given = record(data, "LP of RF", 3, data.codes, versions={"numpy": "2"})
    store.write(given)
    assert store.read(Cell("toy", "RF", 3)) is None
    found = store.read(Cell("toy", "LP of RF", 3))
    assert found is not None
    for name, value in vars(given).items():
        np.testing.assert_array_equal(getattr(found, name), value)


@pytest.fixture
def running():
    if sys.platform == "win32":
        pytest.skip("CPU seconds of a process are limited by Unix.")
    from benchmarks.peers import running

    return running


def test_a_stopped_run_resumes_and_limits_are_kept(running, tmp_path, rng, capsys):
    store = Store(tmp_path)
    folded(rng, (2,) * 12, 300).write(store.data_path("toy"))
    slow = Cell("toy", "chain of RF", 0)

    def run(limit):
        limits = running.Limits(limit, 300.0)
        running.run(store, ["toy"], ["chain of LR", "chain of RF"], 2, limits, 2, again=False)
        return capsys.readouterr().out

    assert "chain of LR, fold 1: done" in run(0.5)
    assert store.read(Cell("toy", "chain of LR", 1)).status == "done"
    assert (store.read(slow).status, store.read(slow).limit) == ("limit", 0.5)
    assert store.read(Cell("toy", "chain of RF", 1)) is None  # not asked again
    assert run(0.5) == ""
    wider = running.cells_to_run(store, ("toy", "chain of RF"), 2, 60.0, again=False)
    assert wider == [slow, Cell("toy", "chain of RF", 1)]
    assert len(running.cells_to_run(store, ("toy", "chain of LR"), 2, 0.5, again=True)) == 2


def test_libraries_of_others_have_a_limit_of_their_own(running):
    limits = running.Limits(60.0, 300.0)
    assert [limits.of(("toy", name)) for name in ("RF", "JointStack")] == [60.0, 300.0]


def test_a_library_without_its_environment_is_said_to_be_absent(running, tmp_path):
    store, cells = Store(tmp_path), [Cell("toy", "BOOMER", fold) for fold in range(3)]
    python = tmp_path / ".venv-boomer" / "bin" / "python"
    left = running.run_in_process(store, cells, 1.0, lambda *_: None, boomer_python=python)
    assert left == []
    found = store.read(cells[0])
    assert (found.status, found.message) == ("absent", "there is no .venv-boomer")
    assert store.read(cells[1]) is None


@pytest.mark.parametrize(
    ("code", "statuses", "n_left"),
    [(-signal.SIGABRT, ["done", "failed"], 1), (-signal.SIGINT, ["done"], 0)],
)
def test_the_other_folds_are_tried_after_a_fall_but_not_after_a_stop(
    running, tmp_path, rng, code, statuses, n_left
):
    store, data = Store(tmp_path), folded(rng, ZERO_ONE)
    cells, told = [Cell("toy", "RF", fold) for fold in range(3)], []

    class Falling(running.Watch):
        def run(self, command, heard):
            store.write(record(data, "RF", 0, data.codes))
            heard(0.1)
            return code, "corrupted"

    def tell(found, seconds):
        told.append(found.status)

    left = running.run_in_process(store, cells, 1.0, tell, watched=Falling)
    assert left == cells[3 - n_left :]
    assert told == statuses
    second = store.read(cells[1])
    assert (second and second.message) == ("corrupted" if n_left else None)


def test_a_silent_process_is_ended(running):
    watch = running.Watch(0.2)
    code, last = watch.run(
        [sys.executable, "-c", "import time; print('asleep', flush=True); time.sleep(60)"],
        lambda seconds: None,
    )
    assert watch.impatient
    assert code == -signal.SIGKILL
    assert last in ("asleep", "")


def fake_methods(**ours):
    return {name: Method(name, LEARNERS["per label"], ours=own) for name, own in ours.items()}


def test_tables_show_the_best_the_near_and_the_missing(tmp_path, rng):
    fakes = fake_methods(good=False, near=False, poor=True, slow=False, later=True, idle=True)
    whole, part = tmp_path / "peers.md", tmp_path / "BENCHMARKS.md"
    part.write_text(f"# Measured\n\n{table.BEGIN}\nold\n{table.END}\n\n## Next\n")
    store, data = Store(tmp_path / "store"), folded(rng, ZERO_ONE)
    data.write(store.data_path("toy"))
    near, poor = data.codes.copy(), 1 - data.codes
    near[0] = 1 - near[0]
    for name, decided, log in (
        ("good", data.codes, -1),
        ("near", near, -1.1),
        ("poor", poor, -0.5),
    ):
        log_prob = log + rng.normal(scale=1e-3, size=len(near))
        for fold in range(N_FOLDS):
            store.write(record(data, name, fold, decided, log_prob, versions={"numpy": "2.0"}))
    store.write(Record(Cell("toy", "slow", 4), "limit", "> 60 s", limit=60.0))
    store.write(Record(Cell("toy", "later", 0), "absent", "no such class", limit=60.0))
    table.write_tables(store, table.LineUp(fakes, ("toy", "unknown"), "poor"), whole, part)
    page = whole.read_text()
    lines = {line.split(" | ")[0].strip("|* "): line for line in page.splitlines() if "|" in line}
    assert "| **1.000** |" in lines["good"]
    assert f"*{1 - 1 / 120:.3f} ± {1 / 120:.3f}*" in lines["near"]
    assert lines["poor"].startswith("| **poor** | 0.000 ± 0.000")
    assert "> 60 s of CPU in fold 4" in lines["slow"]
    assert "not run: no such class" in lines["later"]
    assert "\nNot run: idle.\n" in page
    assert "numpy 2.0" in page
    section = part.read_text()
    assert "old" not in section
    assert section.endswith(f"{table.END}\n\n## Next\n")
    assert "| toy | good 1.000 | .000 | good 1.000 | .000 | good 1.000 | .500 |" in section


def test_lines_of_methods_that_were_not_run_again_stay(tmp_path, rng):
    line_up = table.LineUp(fake_methods(peer=False, main=True), ("toy", "other"), "main")
    data, pages = folded(rng, ZERO_ONE), [""]
    for methods in (["peer", "main"], ["main"]):
        store = Store(tmp_path / methods[0])
        for dataset in ("toy", "other")[: len(methods)]:
            data.write(store.data_path(dataset))
            for name, fold in itertools.product(methods, range(N_FOLDS)):
                decided = data.codes if name == "peer" else 1 - data.codes
                own = record(data, name, fold, decided, versions={name: "1.0"})
                store.write(replace(own, cell=Cell(dataset, name, fold)))
        tables = [f for name in ("toy", "other") if (f := table.gather(store, name, line_up))]
        pages.append(table.page(store, tables, pages[-1], line_up))
    before, after = (table.printed_lines(page, line_up) for page in pages[1:])
    assert after["other"] == before["other"]
    assert after["toy"]["peer"] == before["toy"]["peer"]
    assert table.value_of(after["toy"]["main"], "exact match") == 0.0
    assert "**" not in after["toy"]["main"][1]  # the best of those that ran, not of all
    assert table.summary(before, line_up) == table.summary(after, line_up)
    assert "Versions: main 1.0, peer 1.0." in pages[2]


def test_a_page_without_markers_is_refused():
    with pytest.raises(ValueError, match="needs one line"):
        table.between_markers("# Measured\n", "new")


def test_every_method_says_what_its_log_loss_is_of():
    said = {method.joint for method in METHODS.values()}
    assert said == {"product", "chain rule", "seen sets", "joint"}
    assert set(table.SUMMED) <= set(measures.MEASURES)
    assert METHODS[table.ALL.main].ours


def test_while_the_main_model_is_not_done_only_its_folds_are_compared(tmp_path, rng):
    data = folded(rng, ZERO_ONE)
    store = Store(tmp_path)
    data.write(store.data_path("toy"))
    for fold in range(N_FOLDS):
        store.write(record(data, "RF", fold, data.codes))
    wrong = 1 - data.codes
    for fold in (0, 1):
        store.write(record(data, "JointStack", fold, wrong if fold else data.codes))
    found = table.gather(store, "toy")
    assert found.partly == "folds 0, 1 of 10"
    assert found.held["JointStack"].measures["exact match"].value == pytest.approx(0.5, abs=0.1)
    assert found.held["RF"].measures["exact match"].value == 1.0
