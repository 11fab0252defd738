"""`colabel audit` and `colabel evaluate`: from a table to files, pages and sentences."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from colabel.datasets import load_digit_traits
from tests.cli.typed import run, said
from tests.report.browser import Browser, find_browser
from tests.report.html_page import Page


@pytest.fixture(scope="module")
def spoiled(tmp_path_factory):
    """Digits as a CSV with planted errors and a row without labels; where the errors are."""
    data = load_digit_traits()
    Y = np.asarray(data.Y[:300])
    wrong = np.random.default_rng(1).random(Y.shape) < 0.03
    given = np.where(wrong, 1 - Y, Y)
    folder = tmp_path_factory.mktemp("audit")
    with (folder / "digits.csv").open("w", newline="") as file:
        write = csv.writer(file).writerow
        write([f"p{i}" for i in range(64)] + list(data.label_names))
        write([0] * 64 + [""] * 7)  # nothing is known of the first row
        for x, y in zip(data.X, given, strict=False):
            write([*x, *y])
    return folder / "digits.csv", wrong, data.label_names


def test_audit_names_rows_as_the_table_has_them(spoiled, tmp_path):
    table, wrong, names = spoiled
    found, page, fixed = tmp_path / "audit.csv", tmp_path / "audit.html", tmp_path / "fixed.csv"
    options = ["--cv", 3, "-o", found, "--html", page, "--fix", fixed, "--explain", 5]
    text = run("audit", table, "-l", ",".join(names), *options).output
    assert "labels look wrong (between" in text
    assert "1 row without any label left out." in said(text)
    rows = list(csv.DictReader(found.open()))
    planted = {(row + 2, names[i]) for row, i in np.argwhere(wrong)}
    worst = {(int(row["row"]), row["label"]) for row in rows[: len(planted)]}
    assert len(worst & planted) > 0.8 * len(planted)
    before, after = (list(csv.DictReader(file.open())) for file in (table, fixed))
    changed = {
        (number, name)
        for number, (old, new) in enumerate(zip(before, after, strict=True), 1)
        for name in names
        if old[name] != new[name]
    }
    assert changed
    assert len(changed & planted) > 0.8 * len(changed)
    number, name = next(iter(changed))
    assert name in after[number - 1]["corrected"].split("; ")
    html = page.read_text("utf-8")
    assert not Page(html).open
    assert f"Row {rows[0]['row']}" in html
    evidence = rows[0]["against"].split("; ")
    assert evidence[0]
    assert all(term.rsplit(" ", 1)[0] in html for term in evidence)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_tags_are_corrected_in_their_own_form(tmp_path, encoding):
    data = load_digit_traits()
    tags = [[n for n, on in zip(data.label_names, row, strict=True) if on] for row in data.Y[:200]]
    tags[5] = [tag for tag in tags[5] if tag != tags[5][0]]
    lines = [f"{';'.join(t)},{','.join(map(str, x))},é" for x, t in zip(data.X, tags, strict=False)]
    lines[3] += "é" * 200_000
    table, fixed = tmp_path / "tags.csv", tmp_path / "fixed.csv"
    header = ",".join(["tags", *(f"p{i}" for i in range(64)), "note"])
    table.write_text("\n".join([header, *lines]), encoding)
    options = ["--drop", "note", "--cv", 2, "-o", tmp_path / "a.csv", "--fix", fixed]
    run("audit", table, "-l", "tags", *options, "-m", "mlknn", "--explain", 0)
    after = list(csv.DictReader(fixed.open(encoding="utf-8")))
    assert [len(row["note"]) for row in after] == [1, 1, 1, 200_001, *[1] * 196]
    for number, row in enumerate(after):
        if not row["corrected"]:
            assert row["tags"] == ";".join(tags[number])
        else:
            before, now = set(tags[number]), set(filter(None, row["tags"].split(";")))
            assert before ^ now == set(row["corrected"].split("; "))


def test_class_variables_with_holes_are_audited_by_groups_and_corrected(tmp_path):
    """Sizes follow a number; one is wrong, one is missing; visits of a patient stay together."""
    rng = np.random.default_rng(0)
    value = rng.normal(size=240)
    size = np.array(["S", "M", "L"])[np.digitize(value, [-0.5, 0.5])]
    wide = np.where(size == "S", "no", "yes")
    wrong, empty = int(np.flatnonzero(size == "L")[3]), int(np.flatnonzero(size == "S")[3])
    size[wrong], wide[wrong], size[empty] = "S", "yes", ""
    table, found, fixed = (tmp_path / name for name in ("t.csv", "audit.csv", "fixed.csv"))
    lines = [
        f"{i // 3},{v:.4f},{s},{w}"
        for i, (v, s, w) in enumerate(zip(value, size, wide, strict=True))
    ]
    table.write_text("\n".join(["patient,value,size,wide", *lines]))
    labels = ["-l", "size,wide", "--groups", "patient", "--cv", 3, "-m", "pcc", "--explain", 10]
    text = run("audit", table, *labels, "-o", found, "--fix", fixed, "--at-least", 0.8).output
    assert "against it" in text
    first = next(csv.DictReader(found.open()))
    assert (int(first["row"]), first["label"], first["given"]) == (wrong + 1, "size", "S")
    assert first["suggestion"] in {"M", "L"}
    against = first["against"].split("; ")
    assert any(term.startswith("wide=yes +") for term in against)
    assert any(term.startswith("value = ") for term in against)
    assert float(first["surprise"]) > 1
    after = list(csv.DictReader(fixed.open()))
    assert after[wrong]["corrected"] == "size"
    assert (after[empty]["size"], after[empty]["corrected"]) == ("S", "size")
    kept = [row for row in after if not row["corrected"]]
    assert len(kept) > 200
    assert all(row["value"] == lines[i].split(",")[1] for i, row in enumerate(after))


@pytest.mark.skipif(find_browser() is None, reason="no Chromium or Chrome on this machine")
def test_rows_that_break_rules_come_first_and_keys_go_through_the_page(spoiled, tmp_path):
    table, _, names = spoiled
    page, rules = tmp_path / "audit.html", tmp_path / "rules.txt"
    rules.write_text("prime -> not square")
    options = ["-m", "br", "--cv", 2, "-o", tmp_path / "a.csv", "--html", page, "--rules", rules]
    text = run("audit", table, "-l", ",".join(names), *options).output
    assert "Rows that break a rule: " in said(text)
    with Browser(find_browser(), tmp_path / "profile") as browser:
        browser.open(page)
        headings = browser.evaluate("[...document.querySelectorAll('h2')].map(h => h.textContent)")
        breaks = ["breaks a rule" in heading for heading in headings]
        assert breaks[0]
        assert breaks == sorted(breaks, reverse=True)
        focused = "document.activeElement.id"
        for key, row in (("j", 1), ("j", 2), ("k", 1)):
            browser.press(key)
            assert browser.evaluate(focused) == f"row-{row}"
        assert browser.complaints == []


def test_evaluate_gives_a_table_a_page_and_json(spoiled, tmp_path):
    table, _, names = spoiled
    model, page = tmp_path / "model.colabel", tmp_path / "test.html"
    run("fit", table, "-l", ",".join(names), "-m", "br", "--set", "C=0.1", "-o", model)
    text = run("evaluate", model, table, "--html", page).output
    assert "exact match" in text
    assert "The weakest labels" in text
    assert not Page(page.read_text("utf-8")).open
    scores = json.loads(run("evaluate", model, table, "--json").output)
    assert scores["n_rows"] == 301
    assert 0.3 < scores["measures"]["exact_match"]["value"] < 1
    lacking = tmp_path / "new.csv"
    lacking.write_text(",".join(f"p{i}" for i in range(64)) + "\n" + ",".join("1" * 64) + "\n")
    done = run("evaluate", model, lacking, code=2)
    assert "lacks the label columns even" in said(done.output)
    lines = table.read_text().splitlines()
    lines[8] = lines[8].rpartition(",")[0] + ",2"
    lacking.write_text("\n".join(lines))
    done = run("evaluate", model, lacking, code=2)
    assert "new.csv, row 8: The label column" in said(done.output)


def test_rules_are_suggested_checked_and_obeyed(spoiled, tmp_path):
    table, _, names = spoiled
    clean = tmp_path / "clean.csv"
    data = load_digit_traits()
    with clean.open("w", newline="") as file:
        write = csv.writer(file).writerow
        write([f"p{i}" for i in range(64)] + list(names))
        for x, y in zip(data.X[:300], data.Y[:300], strict=True):
            write([*x, *y])
    rules, labels = tmp_path / "rules.txt", ["-l", ",".join(names)]
    assert "rules written to" in run("rules", clean, *labels, "-o", rules).output
    written = [line.split("  #")[0] for line in rules.read_text().splitlines()[1:]]
    assert "at most one of prime, square" in written
    assert "No row breaks a rule" in run("rules", clean, *labels, "--check", rules).output
    done = run("rules", table, *labels, "--check", rules, code=2)
    assert "rows break rules" in done.output
    compared = ["-m", "br", "--cv", 2, "--rules", rules, "--measure", "joint log-loss"]
    text = run("compare", clean, *labels, *compared, "--report", tmp_path / "compare.html").output
    assert "Take br, ruled." in text  # what it obeys, all rows obey
    assert f"--model br --rules {rules}" in said(text)
    model, answers = tmp_path / "model.colabel", tmp_path / "out.csv"
    run("fit", clean, *labels, "-m", "br", "--set", "C=0.001", "--rules", rules, "-o", model)
    run("predict", model, table, "-o", answers)
    rows = list(csv.DictReader(answers.open()))
    assert not any(row["prime"] == row["square"] == "1" for row in rows)
    page = tmp_path / "explore.html"
    run("explore", model, table, "--rows", 2, "-o", page)
    assert f"The model obeys {len(written)} rules." in page.read_text()
    lines = clean.read_text().splitlines()
    lines[3] = ",".join([*lines[3].split(",")[:64], "1", "1", "1", "0", "1", "1", "1"])
    (tmp_path / "odd.csv").write_text("\n".join(lines))
    known = ["predict", str(model), str(tmp_path / "odd.csv"), "--given", "prime,square"]
    done = run(*known, code=2)
    assert "odd.csv, row 3: what is given" in said(done.output)


def test_explain_over_all_rows_and_rows_that_are_not_there(spoiled, tmp_path):
    table, _, names = spoiled
    model = tmp_path / "m.colabel"
    run("fit", table, "-l", ",".join(names), "-m", "br", "--set", "C=0.01", "-o", model, "-q")
    text = run("explain", model, table, "--overall").output
    assert "Columns that matter" in text
    assert "None do." in text  # labels are independent in this model
    found = json.loads(run("explain", model, table, "--overall", "--json").output)
    assert len(found["importance"]) == len(found["columns"])
    assert found["labels"] == list(names)
    done = run("explain", model, table, "--row", 0, code=2)
    assert "rows are counted from 1" in said(done.output)
