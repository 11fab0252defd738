"""The page to ask the joint: what it lists, and that clicking it answers as the joint does."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace

import numpy as np
import pytest

from colabel import CTBN, feature_evidence
from colabel.comparing import dependence_graph
from colabel.joint import Independent
from colabel.labels import LabelSpace
from colabel.report import Exploration, exploration_html, explored_rows, write_page
from colabel.rules import Rules
from tests.report.browser import Browser, find_browser
from tests.report.html_page import Page

BROWSER = find_browser()
needs_browser = pytest.mark.skipif(
    BROWSER is None, reason="no Chromium or Chrome on this machine (apt install chromium)"
)
HOSTILE = "</script><img src=x onerror='window.hacked = 1'>"
NAMES = ["calm", HOSTILE, "sad"]


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    a = X[:, 0] + rng.normal(size=200) > 0
    b = X[:, 1] + 2.0 * a - 1.0 + rng.normal(size=200) > 0
    c = X[:, 2] - 2.0 * b + 1.0 + rng.normal(size=200) > 0
    Y = np.stack([a, b, c], axis=1).astype(int)
    return CTBN(C=1.0, random_state=0).fit(X, Y, label_names=NAMES), X


def explored(model, X, n_rows=3, most=200, graph=True):
    joint = model.joint(X[:n_rows])
    names = [f"row {i + 1} {HOSTILE if i == 1 else ''}".strip() for i in range(n_rows)]
    cells = [(("colour", f"shade{i}"), (HOSTILE, HOSTILE)) for i in range(n_rows)]
    rows = explored_rows(joint, names, cells, most)
    found = dependence_graph(model, X) if graph else None
    return Exploration(joint.space, tuple(rows), joint.how, True, found)


# ------------------------------------------------------------------------------ what is listed


def test_lists_until_nearly_everything_is_covered(model):
    fitted, X = model
    joint = fitted.joint(X[:20])
    rows = explored_rows(joint, [str(i) for i in range(20)], [()] * 20)
    for i, row in enumerate(rows):
        assert row.prob.sum() > 0.9995 or len(row.prob) == 8
        assert row.prob[:-1].sum() < 0.9995
        assert (np.diff(row.prob) <= 0).all()
        np.testing.assert_allclose(
            np.log(row.prob), [joint[i].log_prob(codes)[0] for codes in row.codes], rtol=1e-9
        )


def test_the_number_of_sets_is_bounded(model):
    fitted, X = model
    found = explored(fitted, X, most=2)
    assert [len(row.prob) for row in found.rows] == [2, 2, 2]
    assert found.n_vectors == 6
    assert 0 < found.listed < 1


def test_nothing_in_it_can_end_a_script(model):
    text = exploration_html(explored(*model), HOSTILE)
    assert "<img" not in text
    page = Page(text)
    data = re.search(r'id="explore-data">(.*?)</script>', text, re.DOTALL)[1]
    assert json.loads(data)["labels"] == NAMES
    assert page.count("script", type="application/json") == 2
    assert page.open == []


@pytest.fixture(scope="module")
def colours():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(90, 2))
    colour = np.array(["blue", "green", "red"])[np.digitize(X[:, 1] + rng.normal(size=90), [0, 1])]
    big = np.where(X[:, 0] + (colour == "red") > 0, "yes", "no")
    Y = np.stack([colour, big], axis=1).astype(object)
    return CTBN(C=1.0, random_state=0).fit(X, Y, label_names=["colour", "big"]), X


def test_class_variables_have_all_their_values(colours):
    fitted, X = colours
    found = Exploration(
        fitted.label_space_, tuple(explored_rows(fitted.joint(X[:1]), ["1"], [()])), "", True
    )
    text = exploration_html(found, "t")
    data = json.loads(re.search(r'id="explore-data">(.*?)</script>', text)[1])
    assert data["values"] == [["blue", "green", "red"], ["no", "yes"]]
    assert len(data["rows"][0]["marginals"][0]) == 3
    assert sum(data["rows"][0]["p"]) == pytest.approx(1.0, abs=1e-3)


# ---------------------------------------------------------------------------------- in a browser


@pytest.fixture(scope="module")
def page(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("explore") / "explore.html"
    write_page(path, exploration_html(explored(*model), f"table.csv {HOSTILE}"))
    return path


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    try:
        started = Browser(BROWSER, tmp_path_factory.mktemp("profile"))
    except (RuntimeError, OSError) as error:
        pytest.skip(f"{BROWSER} does not start: {error}")
    with started:
        yield started


@pytest.fixture
def opened(browser, page):
    """The page, opened anew; afterwards no complaint, no request, and nobody has broken in."""
    browser.requests.clear()
    browser.complaints.clear()
    browser.show(390)
    browser.open(page)
    yield browser
    browser.evaluate("1")
    assert browser.complaints == []
    assert set(browser.requests) <= set(browser.opened)
    assert browser.evaluate("window.hacked") is None


def numbers(browser, which: int = 0) -> dict[int, str]:
    """What stands beside the bar of each label."""
    pairs = browser.evaluate(
        "[...document.querySelectorAll('.asking .line')].map(l => "
        f"[l.dataset.label, l.querySelectorAll('.number')[{which}].textContent])"
    )
    return {int(label): text for label, text in pairs}


def share(text: str) -> float:
    return float(text.strip("<> %")) / 100


def radio(label: int, value: str) -> str:
    return f".asking .line[data-label='{label}'] input[value='{value}']"


def choose(browser, select: str, value: str) -> None:
    browser.evaluate(
        f"(() => {{ const s = document.querySelector('{select}'); s.value = '{value}';"
        "s.dispatchEvent(new Event('change', { bubbles: true })); })()"
    )


@needs_browser
def test_clicking_a_label_answers_as_the_joint_does(opened, model):
    fitted, X = model
    joint = fitted.joint(X[:1])
    before = numbers(opened)
    np.testing.assert_allclose(
        [share(before[i]) for i in range(3)], joint.marginals()[0], atol=0.006
    )
    for known in ({0: 1}, {0: 0}, {0: 0, 2: 1}):
        for label, value in known.items():
            opened.click(radio(label, str(value)))
        given = joint.given({NAMES[i]: value for i, value in known.items()}).marginals()[0]
        after = numbers(opened)
        np.testing.assert_allclose([share(after[i]) for i in range(3)], given, atol=0.008)
    assert "Known: not calm, sad" in opened.evaluate("document.body.innerText")
    first = opened.evaluate("document.querySelector('#explore-sets .set').textContent")
    best = joint.given({"calm": 0, "sad": 1}).mode()[0]
    assert first == ", ".join(name for name, on in zip(NAMES, best, strict=True) if on)
    opened.click("#explore-reset")
    assert numbers(opened) == before


@needs_browser
def test_keys_set_labels_and_keep_the_focus(opened):
    opened.evaluate(f'document.querySelector("{radio(0, "")}").focus()')
    opened.press("ArrowRight")
    assert opened.evaluate("document.querySelector('.line.known').dataset.label") == "0"
    assert opened.evaluate("document.activeElement.name") == "label-0"


@needs_browser
def test_rows_are_found_picked_and_compared(opened, model):
    fitted, X = model
    joint = fitted.joint(X[:3])
    opened.click("#explore-next")
    assert opened.evaluate("document.querySelector('#explore-sets h4').textContent") == (
        f"row 2 {HOSTILE}"
    )
    opened.evaluate(
        "(() => { const s = document.querySelector('#explore-search'); s.value = 'shade2';"
        "s.dispatchEvent(new Event('input', { bubbles: true })); })()"
    )
    assert opened.evaluate("document.querySelector('#explore-row').options.length") == 1
    assert opened.evaluate("document.querySelector('#explore-found').textContent") == "1 of 3 rows"
    choose(opened, "#explore-other", "0")
    assert opened.evaluate("document.querySelectorAll('#explore-cells details[open]').length") == 2
    opened.click(radio(2, "1"))
    given = joint.given({"sad": 1}).marginals()
    for which, row in ((0, 2), (1, 0)):
        found = numbers(opened, which)
        np.testing.assert_allclose([share(found[i]) for i in range(3)], given[row], atol=0.008)
    assert opened.evaluate("document.querySelectorAll('.row-sets').length") == 2


@needs_browser
def test_the_next_row_begins_with_nothing_known_and_its_columns_stay_as_they_were(opened):
    opened.click(radio(2, "1"))
    opened.click("#explore-next")
    assert opened.evaluate("document.querySelectorAll('.line.known').length") == 0
    details = "document.querySelector('#explore-cells details').open"
    assert opened.evaluate(details) is True
    opened.click("#explore-cells summary")
    opened.click("#explore-next")
    assert opened.evaluate(details) is False


@needs_browser
def test_class_variables_are_chosen_from_their_values(browser, colours, tmp_path):
    fitted, X = colours
    path = tmp_path / "colours.html"
    joint = fitted.joint(X[:1])
    rows = tuple(explored_rows(joint, ["row 1"], [()]))
    write_page(path, exploration_html(Exploration(joint.space, rows, joint.how, True), "colours"))
    browser.complaints.clear()
    browser.open(path)
    choose(browser, ".asking select", "2")
    best = joint.given({"colour": "red"}).marginal_tables()[1][0].max()
    assert share(numbers(browser)[1]) == pytest.approx(best, abs=0.006)
    assert "Known: colour = red" in browser.evaluate("document.body.innerText")
    assert browser.complaints == []


def crossed_out(browser) -> set[tuple[int, int]]:
    """Labels and the codes of them that cannot be chosen."""
    found = browser.evaluate(
        "[...document.querySelectorAll('.asking .line')].flatMap(l => "
        "[...l.querySelectorAll('input:disabled, option:disabled')]"
        ".map(one => [Number(l.dataset.label), Number(one.value)]))"
    )
    return set(map(tuple, found))


def forbidden(rules, known) -> set[tuple[int, int]]:
    """Values of the other labels that no vector has which obeys and agrees: by enumeration."""
    sizes = rules.space.cardinalities
    vectors = np.array(list(itertools.product(*map(range, sizes))), dtype=np.int32)
    kept = vectors[rules.may_hold(vectors)]
    kept = kept[[all(row[i] == code for i, code in known.items()) for row in kept]]
    every = {(i, v) for i, k in enumerate(sizes) for v in range(k) if i not in known}
    return every - {(i, int(row[i])) for row in kept for i in range(len(sizes))}


@needs_browser
def test_what_rules_forbid_is_crossed_out_as_labels_are_set(browser, tmp_path):
    names = ["whale", "mammal", "animal", "fish", "stage"]
    space = LabelSpace(
        tuple(names), (np.arange(2),) * 4 + (np.array(["I", "II", "III"]),), "matrix"
    )
    text = """
        whale -> mammal
        mammal -> animal
        not (fish and mammal) and (fish -> animal)
        1..3 of whale, mammal, animal, fish
        stage=III -> not animal or whale
        allowed fish, stage = 0 I; 0 II; 0 III; 1 I
    """
    rules = Rules.parse(text).compiled(space)
    rng = np.random.default_rng(0)
    joint = Independent(space, [np.log(rng.dirichlet(np.ones(k), 1)) for k in space.cardinalities])
    joint = joint.subject_to(text)
    rows = tuple(explored_rows(joint, ["row 1"], [()]))
    path = tmp_path / "ruled.html"
    ruled = Exploration(space, rows, joint.how, True, None, rules)
    write_page(path, exploration_html(ruled, "ruled"))
    browser.complaints.clear()
    for known in ({}, {0: 1}, {3: 1}, {1: 0, 2: 1}, {4: 2}, {3: 0, 4: 1}):
        browser.open(path)
        for label, code in known.items():
            if label == 4:
                choose(browser, ".asking select", str(code))
            else:
                browser.click(radio(label, str(code)))
        assert crossed_out(browser) == forbidden(rules, known), known
    assert browser.complaints == []


@needs_browser
def test_evidence_stands_beside_each_label(browser, model, tmp_path):
    fitted, X = model
    found = explored(fitted, X, n_rows=2, graph=False)
    rows = [
        replace(row, evidence=feature_evidence(fitted, X, i, n_orders=10))
        for i, row in enumerate(found.rows)
    ]
    path = tmp_path / "why.html"
    write_page(path, exploration_html(replace(found, rows=tuple(rows)), "why"))
    browser.complaints.clear()
    browser.open(path)
    for _ in range(2):
        browser.click("#explore-next")
    said = browser.evaluate("document.querySelector('#explore-evidence').innerText")
    for name in NAMES:
        assert name in said
    for side in rows[0].evidence.speaking("calm", 1):
        for term in side:
            assert f"{abs(term.log_odds):.2f}" in said
            assert str(term) in said
    assert browser.complaints == []
    assert browser.evaluate("window.hacked") is None


@needs_browser
def test_what_is_not_listed_is_said_and_bounded(browser, model, tmp_path):
    fitted, X = model
    path = tmp_path / "few.html"
    found = explored(fitted, X, n_rows=1, most=3, graph=False)
    write_page(path, exploration_html(found, "few"))
    browser.complaints.clear()
    browser.open(path)
    listed = found.rows[0].codes
    said = browser.evaluate("document.querySelector('#explore-sets .legend').textContent")
    assert said.startswith("3 label sets are listed")
    label = int(np.flatnonzero((listed != listed[0]).any(axis=0))[0])
    value = int(listed[0, label])
    browser.click(radio(label, str(value)))
    agree = listed[:, label] == value
    rest = 1 - found.rows[0].prob.sum()
    mass = found.rows[0].prob[agree].sum()
    given = fitted.joint(X[:1]).given({NAMES[label]: value}).marginals()[0]
    for other in set(range(3)) - {label}:
        band = browser.evaluate(
            f"(() => {{ const l = document.querySelector(\".line[data-label='{other}']\");"
            "const b = l.querySelector('.band');"
            "return [parseFloat(b.style.left) / 100, parseFloat(b.style.width) / 100]; })()"
        )
        on = found.rows[0].prob[agree & (listed[:, other] == 1)].sum()
        low, high = on / (mass + rest), (on + rest) / (mass + rest)
        np.testing.assert_allclose([band[0], band[0] + band[1]], [low, high], atol=1e-4)
        assert low - 1e-9 <= given[other] <= high + 1e-9
    unlisted = next(i for i in range(3) if i != label and len(set(listed[agree, i].tolist())) == 1)
    browser.click(radio(unlisted, str(1 - int(listed[agree][0, unlisted]))))
    said = browser.evaluate("document.querySelector('#explore-sets').textContent")
    assert "the page cannot answer this, the model can" in said
    assert browser.complaints == []


@needs_browser
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_fits_phone_and_desktop(opened, page, width, scheme):
    opened.show(width, scheme=scheme)
    opened.open(page)
    assert opened.evaluate("document.documentElement.scrollWidth") <= width
    small = opened.evaluate(
        "[...document.querySelectorAll('button, select, input[type=search], .three label')]"
        ".filter(e => !e.closest('thead') && e.getBoundingClientRect().height < 30).length"
    )
    assert small == 0
