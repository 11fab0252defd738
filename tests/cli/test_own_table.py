"""compare, fit, predict, explain, explore on one's own table, as typed."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
import stat
import subprocess
import sys

import numpy as np
import pytest

import colabel
from colabel.datasets import load_digit_traits
from colabel.tables import TableModel
from tests.cli.typed import read, run, said

LABELS = "even,prime,square,above_four,loop,triangular,fibonacci"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The first 240 images of the digit traits as a CSV file, and a model of them."""
    folder = tmp_path_factory.mktemp("digits")
    run("datasets", "export", "digit-traits", "-o", folder / "digits.csv")
    with (folder / "digits.csv").open() as text:
        lines = text.readlines()
    (folder / "some.csv").write_text("".join(lines[:241]))
    settings = ("--set", "C=0.01", "-o", folder / "m.colabel")
    run("fit", folder / "some.csv", "--labels", LABELS, *settings)
    return folder


def test_export_writes_the_data_set(folder):
    data = load_digit_traits()
    rows = read(folder / "digits.csv")
    assert len(rows) == data.n_rows
    assert list(rows[0]) == [*data.feature_names, *data.label_names]
    found = np.array([[row[n] for n in data.label_names] for row in rows], dtype=int)
    np.testing.assert_array_equal(found, data.Y)


def test_compare(folder):
    report = folder / "compare.html"
    options = ("--models", "br,mlknn", "--cv", 3, "--checkpoint", folder / "compare.part")
    result = run("compare", folder / "some.csv", "--labels", LABELS, *options, "--report", report)
    text = said(result.stdout)
    assert "240 rows" in text
    assert "label even: in" in text
    assert len(re.findall(r"\d\.\d{3}±0\.\d{3}", result.stdout)) == 6  # two measures, three models
    taken = re.search(r"Take (br|mlknn)\.", text)
    assert f"--labels {LABELS} --model {taken[1]} -o model.colabel" in result.stdout
    assert "<h2>All measures</h2>" in report.read_text(encoding="utf-8")
    done = [line.split(":")[0] for line in result.stderr.splitlines()]
    assert done == ["br", "mlknn", "baseline"]  # as they come
    assert re.search(r"subset \(now\) +0\.\d{3}", result.stdout)
    assert not (folder / "compare.part").exists()


def test_a_sample_thresholds_and_calibration(folder):
    report = folder / "tuned.html"
    options = ("--models", "br", "--cv", 2, "--thresholds", "--calibrate", "--max-rows", 150)
    result = run("compare", folder / "some.csv", "-l", LABELS, *options, "--report", report)
    text = said(result.stdout)
    assert "! Compared on 150 of these rows, drawn at random" in text
    assert "thresholds (now)" in text
    assert "best macro F1" in text
    assert re.search(r"Calibrated, its joint log-loss \d\.\d+ becomes \d\.\d+", text)
    assert "--model br --thresholds" in text
    page = report.read_text(encoding="utf-8")
    assert "Compared on 150 of the 240 rows, drawn at random." in page
    for when in ("before", "calibrated"):
        assert f"Whole label sets, {when}: off by" in page
    options = ("-m", "br", "--cv", 2, "--max-rows", 0, "--no-report")
    every = run("compare", folder / "some.csv", "-l", LABELS, *options)
    assert "drawn at random" not in every.stdout


def test_what_is_done_is_shown_when_stopped_and_kept(folder, monkeypatch):
    from colabel.comparing import held_out

    kept = folder / "stopped.part"
    arguments = ("compare", folder / "some.csv", "-l", LABELS, "-m", "br,mlknn", "--cv", 3)
    arguments += ("--no-report", "--checkpoint", kept)
    answers = held_out.cross_validate

    def stopped(*given, **options):
        for n, answered in enumerate(answers(*given, **options)):
            yield answered
            if n == 4:
                raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(held_out, "cross_validate", stopped)
        result = run(*arguments, code=130)
    assert re.search(r"^br +0\.\d{3}±", result.stdout, re.MULTILINE)
    assert "Folds done of 3: br 3, mlknn 1, baseline 1." in result.stdout
    assert f"kept in {kept}: the same command goes on" in said(result.stderr)
    asked = []

    def counted(methods, task, folds, ask, n_jobs, parts):
        asked.extend(parts)
        return answers(methods, task, folds, ask, n_jobs, iter(asked))

    monkeypatch.setattr(held_out, "cross_validate", counted)
    assert "Take " in run(*arguments).stdout
    assert {name for name, _ in asked} == {"mlknn", "baseline"}
    assert not kept.exists()


def test_fit_with_thresholds_and_calibration(folder):
    target = folder / "t.colabel"
    options = ("-m", "mlknn", "--thresholds", "--calibrate", "-o", target)
    result = run("fit", folder / "some.csv", "-l", LABELS, *options)
    text = said(result.stdout)
    assert "ThresholdedClassifier(MLkNN) fitted in" in text
    assert re.search(r"above thresholds: even 0\.\d\d, prime", text)
    assert "Calibrated on rows held out: temperature" in text
    model = colabel.load(target)
    rows = list(csv.DictReader(run("predict", target, folder / "some.csv").stdout.splitlines()))
    for name, cut in zip(model.label_names_, model.model.thresholds_, strict=True):
        for row in rows:
            p = float(row[f"p_{name}"])
            if abs(p - cut) > 1e-5:  # six digits are written
                assert row[name] == str(int(p > cut))


def test_compare_as_json(folder):
    options = ("--models", "br,mlknn", "--cv", 3, "--report", folder / "c.html", "--json")
    found = json.loads(run("compare", folder / "some.csv", "--labels", LABELS, *options).stdout)
    assert set(found["models"]) == {"br", "mlknn", "baseline"}
    assert found["recommended"] in ("br", "mlknn")
    assert found["table"]["n_rows"] == 240


def test_fit_says_what_it_did(folder):
    target = folder / "n.colabel"
    fit = ("fit", folder / "some.csv", "-l", LABELS, "-m", "mlknn", "-o", target)
    assert "MLkNN fitted in" in run(*fit).stdout
    assert isinstance(colabel.load(target), TableModel)
    assert run(*fit, "-q").stdout == ""
    assert json.loads(run(*fit, "--json").stdout)["model"] == "MLkNN"


def test_a_model_behind_features(folder):
    target, table = folder / "k.colabel", folder / "some.csv"
    settings = ["--set", "C=0.1", "--set", "kernel.width=3", "--set", "kernel.n_landmarks=30"]
    result = run("fit", table, "-l", LABELS, "-m", "kernel+ctbn", *settings, "-o", target)
    assert "KernelFeatures + CTBN fitted in" in result.stdout
    features, model = colabel.load(target).model
    assert (features.width_, features.n_landmarks_, model.C) == (3, 30, 0.1)
    assert not features.verbose
    text = said(run("explain", target).stdout)
    assert "KernelFeatures + CTBN, fitted to 240 rows: 7 labels" in text
    assert json.loads(run("explain", target, "--json").stdout)["model"] == "KernelFeatures + CTBN"
    assert "most probable label sets" in run("explain", target, table, "--row", 3).stdout
    rows = run("predict", target, table, "--top-k", 1).stdout.splitlines()
    first = next(csv.DictReader(rows))
    assert first["set_1"] == "even;square;loop;triangular;fibonacci"  # a nought
    wrong = run("fit", table, "-l", LABELS, "-m", "kernel+ctbn", "--set", "kernel.C=1", code=2)
    assert "KernelFeatures has no parameter 'C'" in said(wrong.stderr)


def test_class_weights_by_word_and_by_label(folder):
    target, table = folder / "weighted.colabel", folder / "some.csv"
    fit = ["fit", table, "-l", LABELS, "-m", "br", "--set", "C=0.01", "-o", target, "--set"]
    run(*fit, "class_weight=balanced")
    assert colabel.load(target).model.class_weight == "balanced"
    weights = {"square": {1: 4, 0: 1.5}, "loop": "balanced"}
    run(*fit, f"class_weight={weights}")
    assert colabel.load(target).model.class_weight == weights
    wrong = said(run(*fit, "class_weight={'squre': {1: 4}}", code=2).stderr)
    assert "class_weight: There is no label 'squre': did you mean 'square'?" in wrong


def test_predict_to_a_file(folder):
    out = folder / "out.csv"
    result = run("predict", folder / "m.colabel", folder / "some.csv", "-o", out, "--top-k", 2)
    assert "240 rows predicted" in result.stdout
    rows = read(out)
    assert list(rows[0])[:3] == ["row", "even", "prime"]
    assert rows[0]["set_1"] == "even;square;loop;triangular;fibonacci"  # a nought
    assert 0.2 < float(rows[0]["p_set_1"]) <= 1
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(out.stat().st_mode) == 0o666 & ~mask
    assert not list(folder.glob(".*"))
    run("predict", folder / "m.colabel", folder / "some.csv", "-o", f"{out}.gz", "-q", "--top-k", 2)
    assert gzip.decompress((folder / "out.csv.gz").read_bytes()) == out.read_bytes()


def test_predict_to_the_screen(folder):
    result = run("predict", folder / "m.colabel", folder / "some.csv", "--no-probabilities")
    rows = list(csv.DictReader(result.stdout.splitlines()))
    assert len(rows) == 240
    assert "240 rows predicted" in result.stderr


def test_predict_given_labels_and_by_another_loss(folder):
    base = ["predict", folder / "m.colabel", folder / "some.csv", "-o", folder / "g.csv"]
    run(*base, "--given", "loop", "--decision", "f1")
    known = [row["loop"] for row in read(folder / "some.csv")]
    found = read(folder / "g.csv")
    assert [float(row["p_loop"]) for row in found] == [float(v) for v in known]


def test_predict_with_a_coverage(folder):
    table, model = folder / "some.csv", folder / "sets.colabel"
    options = ["-l", LABELS, "--set", "C=0.01", "--conformal", "--set", "conformal.cv=0.5"]
    result = run("fit", table, *options, "-o", model)
    text = said(result.stdout)
    assert "ConformalSets(CTBN) fitted" in text
    assert "120 rows held out for predict --coverage." in text
    run("predict", model, table, "--coverage", "0.9", "--no-probabilities", "-o", folder / "c.csv")
    rows = read(folder / "c.csv")
    assert list(rows[0])[8:11] == ["n_sets", "sets", "sets_listed"]
    names = LABELS.split(",")
    truth = [";".join(n for n in names if row[n] == "1") for row in read(table)]
    covered = [y in row["sets"].split(" | ") for y, row in zip(truth, rows, strict=True)]
    assert np.mean(covered) > 0.8
    assert {row["sure_even"] for row in rows} <= {"yes", "no", "unsure"}
    wrong = run("predict", folder / "m.colabel", table, "--coverage", "0.9", code=2)
    assert "colabel fit --conformal" in said(wrong.stderr)


def test_ask(folder):
    rows = read(folder / "some.csv")
    with (folder / "new.csv").open("w", newline="") as text:
        writer = csv.DictWriter(text, list(rows[0]))
        writer.writeheader()
        names = LABELS.split(",")
        for i, row in enumerate(rows):
            writer.writerow({**row, **dict.fromkeys(names[i % 8 :], "")})  # the first few are known
    out = folder / "ask.csv"
    result = run("ask", folder / "m.colabel", folder / "new.csv", "--top", 2, "-o", out)
    assert "Questions about 240 rows" in result.stdout
    found = read(out)
    assert list(found[0]) == ["row", "expected_loss", "ask_1", "gain_1", "ask_2", "gain_2"]
    for i, row in enumerate(found):
        assert row["ask_1"] in {"", *names[i % 8 :]}
        assert (row["ask_1"] == "") == (row["gain_1"] == "") == (i % 8 == 7)
        if i % 8 < 6:
            assert 0 <= float(row["gain_2"]) <= float(row["gain_1"])
    screen = run("ask", folder / "m.colabel", folder / "new.csv", "--loss", "log", "--top", 2)
    assert len(screen.stdout.splitlines()) == 241
    wrong = run("ask", folder / "m.colabel", folder / "new.csv", "--loss", "square", code=2)
    assert "choose from subset, hamming, f1, jaccard, log" in said(wrong.stderr)
    wrong = run("ask", folder / "m.colabel", folder / "new.csv", "-o", folder / "x.txt", code=2)
    assert "is neither .csv nor .csv.gz nor .parquet" in said(wrong.stderr)
    assert "nothing to ask" not in result.stderr
    known = run("ask", folder / "m.colabel", folder / "some.csv", "-o", "-")
    assert len(known.stdout.splitlines()) == 241  # "-" is the screen
    assert "knows every label of every row" in said(known.stderr)


def test_an_output_is_kept_when_the_next_fails(folder):
    out = folder / "kept.csv"
    run("predict", folder / "m.colabel", folder / "some.csv", "-o", out, "-q")
    before = out.read_bytes()
    broken = folder / "broken.csv"
    broken.write_text((folder / "some.csv").read_text() + "1,2\n")
    result = run("predict", folder / "m.colabel", broken, "-o", out, code=2)
    assert "line 242" in result.stderr
    assert out.read_bytes() == before


def test_explain_a_model(folder):
    result = run("explain", folder / "m.colabel")
    assert "CTBN, fitted to 240 rows: 7 labels" in said(result.stdout)
    for name in LABELS.split(","):
        assert name in result.stdout
    found = json.loads(run("explain", folder / "m.colabel", "--json").stdout)
    assert found["directed"]
    assert found["edges"][0]["from"] in LABELS


def test_explain_a_row(folder):
    result = run("explain", folder / "m.colabel", folder / "some.csv", "--row", 3)
    assert "If one label were known" in result.stdout
    found = json.loads(
        run("explain", folder / "m.colabel", folder / "some.csv", "--row", 3, "--json").stdout
    )
    rows = run("predict", folder / "m.colabel", folder / "some.csv", "--top-k", 1).stdout
    third = list(csv.DictReader(rows.splitlines()))[2]
    assert ";".join(found["answer"]["labels"]) == third["set_1"]
    assert found["answer"]["probability"] == pytest.approx(float(third["p_set_1"]), rel=1e-4)


def test_explain_says_what_speaks_for_and_against(folder):
    model, table = folder / "m.colabel", folder / "some.csv"
    result = run("explain", model, table, "--row", 3, "--label", "even", "--label", "loop")
    text = said(result.stdout)
    assert "What speaks for and against each label" in text
    assert re.search(r"even P 0\.\d+: average [+-]", text)
    assert "prime P" not in text
    answer = json.loads(run("explain", model, table, "--row", 3, "--json").stdout)
    found = answer["evidence"]
    # labels of the answer, and those in doubt
    worth = {
        name
        for name, own in answer["alone"].items()
        if own["value"] == "1" or own["probability"] <= 0.95
    }
    assert {one["label"] for one in found["labels"]} == worth
    assert all(one["probability"] >= 0.01 for one in answer["if_known"])
    for one in found["labels"]:
        total = one["average"] + sum(term["log_odds"] for term in one["terms"])
        assert total == pytest.approx(one["log_odds_given_others"])
        names = {term["name"] for term in one["terms"] if term["kind"] == "column"}
        assert all(name.startswith("pixel_") for name in names)


def test_explain_writes_a_page_and_takes_known_labels(folder, tmp_path):
    page = tmp_path / "why.html"
    table = folder / "some.csv"
    result = run(
        "explain", folder / "m.colabel", table, "--row", 3, "--given", "even", "--html", page
    )
    assert str(page) in result.stdout.replace("\n", "")
    text = page.read_text()
    assert "What speaks for and against each label" in text
    assert "some.csv, row 3" in text
    assert "even: P" not in text  # it is known


def test_explain_a_table_of_one_row(folder, tmp_path):
    lines = (folder / "some.csv").read_text().splitlines()[:2]
    one = tmp_path / "one.csv"
    one.write_text("\n".join(lines) + "\n")
    text = said(run("explain", folder / "m.colabel", one).stdout)
    assert "such as the training table, by --against" in text
    assert "What speaks for and against" not in text
    against = run("explain", folder / "m.colabel", one, "--against", folder / "some.csv").stdout
    assert "What speaks for and against" in against


def test_explore_writes_a_page(folder, tmp_path):
    page = tmp_path / "explore.html"
    arguments = ("explore", folder / "m.colabel", folder / "some.csv", "-o", page)
    text = run(*arguments, "--rows", 5, "--start", 3, "--keep", "pixel_0_2", "--evidence").stdout
    assert text.startswith(f"{page} shows 5 rows with ")
    assert "--start 8 goes on" in text
    data = json.loads(re.search(r'id="explore-data">(.*?)</script>', page.read_text())[1])
    assert [row["name"].split(" · ")[0] for row in data["rows"]] == [
        f"row {i}" for i in range(3, 8)
    ]
    assert [line[0] for line in data["rows"][0]["evidence"]] == LABELS.split(",")
    rows = run("predict", folder / "m.colabel", folder / "some.csv", "--top-k", 1).stdout
    third = list(csv.DictReader(rows.splitlines()))[2]
    best = [data["labels"][i] for i in data["rows"][0]["sets"][0]]
    assert ";".join(best) == third["set_1"]
    assert data["rows"][0]["p"][0] == pytest.approx(float(third["p_set_1"]), rel=1e-4)
    every = run(*arguments).stdout
    assert "shows 200 rows with " in every


def test_a_table_of_every_kind(tmp_path, rng):
    lines = ["id;price;colour;text;tags"]
    for i in range(60):
        tags = [t for t in ("new", "sale") if rng.random() < 0.5]
        words = " ".join(
            ["fresh arrival"] * ("new" in tags) + ["half price now"] * ("sale" in tags)
        )
        price = "" if i % 9 == 0 else f"{rng.normal(10 - 4 * ('sale' in tags)):.2f}"
        lines.append(f"{i};{price};{'red' if i % 2 else 'blue'};{words} item {i};{'|'.join(tags)}")
    file = tmp_path / "shop.csv"
    file.write_text("\n".join(lines) + "\n")
    result = run("fit", file, "--labels", "tags", "-o", tmp_path / "m", "--set", "C=1.0")
    text = said(result.stdout)
    for part in (
        "1 of kind number: price",
        "1 of kind category: colour",
        "1 of kind text: text",
        "id (numbers the rows)",
        "label new",
        "label sale",
    ):
        assert part in text
    out = tmp_path / "out.csv"
    run("predict", tmp_path / "m", file, "-o", out, "--top-k", 1, "--keep", "id")
    right = [
        row["set_1"] == (line.split(";")[-1] or "no label")
        for row, line in zip(read(out), lines[1:], strict=True)
    ]
    assert np.mean(right) > 0.9


def test_sparse_arff(tmp_path, rng):
    names = [f"w{j}" for j in range(30)]
    header = "".join(f"@attribute {n} numeric\n" for n in names)
    header += "@attribute a {0,1}\n@attribute b {0,1}\n"
    rows = []
    for _ in range(50):
        chosen = sorted(rng.choice(30, 4, replace=False).tolist())
        labels = [30] * (chosen[0] < 3) + [31] * (chosen[-1] > 26)
        rows.append("{" + ", ".join(f"{j} 1" for j in [*chosen, *labels]) + "}")
    file = tmp_path / "t.arff"
    file.write_text("@relation r\n" + header + "@data\n" + "\n".join(rows) + "\n")
    assert "30 sparse features" in run("fit", file, "-l", "a,b", "-o", tmp_path / "m").stdout
    run("predict", tmp_path / "m", file, "-o", tmp_path / "o.csv", "-q")
    assert len(read(tmp_path / "o.csv")) == 50


def test_help_has_examples():
    for command in ("compare", "fit", "predict", "explain", "explore"):
        text = run(command, "--help").stdout
        assert "Examples" in text
        assert f"colabel {command} " in text
    assert "Exit codes" in run("--help").stdout


def test_internal_faults_are_sentences_too(folder, monkeypatch):
    def broken(*_, **__):
        raise TypeError("not as it should be")

    monkeypatch.setattr("colabel.report.label_graph", broken)
    result = run("explain", folder / "m.colabel", code=1)
    assert result.stderr.startswith(
        "Error: colabel failed by a fault of its own (TypeError: not as"
    )
    assert "Traceback" not in result.output


def test_a_reader_that_stops_early(folder):
    code = "from colabel.cli import main; main()"
    command = [sys.executable, "-c", code, "predict", str(folder / "m.colabel")]
    with subprocess.Popen(
        [*command, str(folder / "digits.csv")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        process.stdout.readline()
        process.stdout.close()
        errors = process.stderr.read()
    assert "Traceback" not in errors
    assert process.returncode == 0


def test_a_reader_of_both_streams_that_stops_early(folder):
    code = "from colabel.cli import main; main()"
    command = [sys.executable, "-c", code, "predict", str(folder / "m.colabel")]
    read, write = os.pipe()
    os.close(read)  # nobody reads what is printed, nor what is said beside it
    done = subprocess.run([*command, str(folder / "some.csv")], stdout=write, stderr=write)
    os.close(write)
    assert done.returncode == 0


def test_predict_prints_nothing_of_a_table_it_cannot_read(folder, tmp_path):
    lines = (folder / "some.csv").read_text().splitlines()
    broken = tmp_path / "broken.csv"
    broken.write_text("\n".join([lines[0], lines[1] + ",1,2,3"]) + "\n")
    result = run("predict", folder / "m.colabel", broken, code=2)
    assert result.stdout == ""
    assert "Error: " in result.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("predict {0}/some.csv {0}/m.colabel", "is a table by its name: the model comes first"),
        ("predict {0}/m.colabel {0}/m.colabel", "m.colabel is a model by its name"),
        ("fit {0}/SOME.csv --labels even", "there is some.csv"),
        ("fit {0}/some.csv --labels EVAN", "did you mean 'even'"),
        ("fit {0}/some.csv --labels EVAN", r"These look like labels.*'fibonacci'"),
        ("fit {0}/some.csv --labels nothing_like_it", r"\(wanted as label\). The columns are"),
        ("fit {0}/empty.csv --labels even", "is empty: give a table"),
        ("datasets export emotion", "no data set 'emotion': did you mean 'emotions'\\?"),
        ("predict {0}/m.colabel {0}/some.csv -o out.xlsx", "neither .csv nor .csv.gz"),
        ("predict {0}/m.colabel {0}/some.csv --keep even", "'even' cannot be kept beside the"),
    ],
)
def test_what_is_mixed_up_is_named(folder, words, sentence):
    (folder / "empty.csv").touch()
    code = 3 if words.endswith("m.colabel") and "some.csv" in words else 2
    result = run(*words.format(folder).split(), code=code)
    assert re.search(sentence, said(result.output))


def test_control_characters_and_formulas_do_no_harm(tmp_path):
    """A name that sets the title of a terminal, and one that a spreadsheet would run."""
    title, formula = "\x1b]0;title\x07a", "=b"
    lines = [f"{i % 7},{i % 2},{(i + 1) % 2}" for i in range(40)]
    (tmp_path / "t.csv").write_text("\n".join([f"x,{title},{formula}", *lines]))
    fit = ["fit", tmp_path / "t.csv", "--labels", title, "--labels", formula, "--set", "C=1.0"]
    assert "\x1b" not in run(*fit, "-m", "br", "-o", tmp_path / "m.colabel").output
    predict = ["predict", tmp_path / "m.colabel", tmp_path / "t.csv", "-o", tmp_path / "out.csv"]
    run(*predict)
    assert list(read(tmp_path / "out.csv")[0])[1:3] == [title, "'=b"]
    run(*predict, "--formulas")
    assert list(read(tmp_path / "out.csv")[0])[1:3] == [title, "=b"]


def test_a_terminal_shows_a_table_and_a_pipe_gets_csv(folder):
    """On a screen the labels of a row are a set, at most twenty rows, and no other output."""
    model, table = folder / "words.colabel", folder / "words.csv"
    with table.open("w", newline="") as text:
        writer = csv.writer(text)
        for row in csv.reader((folder / "some.csv").open()):
            writer.writerow([*row[:-7], {"0": "no", "1": "yes"}.get(row[-7], row[-7]), *row[-6:]])
    run("fit", table, "--labels", LABELS, "--set", "C=0.01", "-m", "br", "-o", model)
    piped = run("predict", model, table).stdout
    assert len(list(csv.reader(io.StringIO(piped)))) == 241
    code = "import sys; sys.stdout.isatty = lambda: True; from colabel.cli import main; main()"
    shown = subprocess.run(
        [sys.executable, "-c", code, "predict", str(model), str(table)],
        env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    plain = re.sub(r"\x1b\[\d*m", "", shown.stdout)  # bold
    head, _, *rows = plain.rstrip().splitlines()
    assert head.split()[:2] == ["row", "labels"]
    assert len(rows) == 20
    first = next(csv.DictReader(io.StringIO(piped)))
    names = [name for name in load_digit_traits().label_names if first[name] in ("1", "yes")]
    assert first["even"] == "yes"
    assert rows[0].split()[: 1 + len(names)] == ["1", *[f"{n}," for n in names[:-1]], names[-1]]
    assert "more columns and more rows: -o out.csv writes everything." in shown.stderr


def test_blanks_may_be_unlabelled(tmp_path):
    """Two of five rows with a tag are marked; the share that has it is estimated and named."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 2))
    truth = rng.random(900) < 1.0 / (1.0 + np.exp(1.0 - X @ [4.0, -3.0]))
    marked = truth & (rng.random(900) < 0.4)
    rows = zip(X, marked, truth ^ (rng.random(900) < 0.1), strict=True)
    lines = [f"{a:.4f},{b:.4f},{'1' * int(tag)},{int(other)}" for (a, b), tag, other in rows]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,tag,other", *lines]))
    fit = ("fit", tmp_path / "t.csv", "-l", "tag,other", "-m", "br", "-o", tmp_path / "m.colabel")
    assert "1 label is 1 or missing, never 0 ('tag')" in run(*fit).stderr
    told = run(*fit, "--set", "blank=unlabelled").output
    share = re.search(r"Estimated share of rows with a label: tag (\d+)%", told)
    assert share is not None
    assert abs(int(share[1]) / 100 - truth.mean()) < 0.07
    assert "never 0" not in told
