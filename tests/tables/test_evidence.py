"""Feature evidence of a table: in the words of its columns, with sums that hold."""

from __future__ import annotations

import numpy as np
import pytest

from colabel import CDN, BinaryRelevance, JointForest, feature_evidence
from colabel.tables import Frame, TableError, TableModel, choose_columns, read_labels


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    n = 200
    rain = rng.random(n) < 0.5
    sport = rng.random(n) < 0.4
    fill = rng.choice(["the news of today", "people said more", "it was a new day"], n)
    return Frame.of(
        {
            "body": [
                f"{text}{' storm rain' * int(r)}{' goal in the match' * int(s)}"
                for text, r, s in zip(fill, rain, sport, strict=True)
            ],
            "region": rng.choice(["north", "south"], n).tolist(),
            "wind": [None if rng.random() < 0.1 else float(rng.normal() + r) for r in rain],
            "weather": rain.astype(int).tolist(),
            "sport": sport.astype(int).tolist(),
        }
    )


@pytest.fixture(
    scope="module",
    params=[
        BinaryRelevance(C=1.0),
        CDN(C=1.0, random_state=0),
        JointForest(n_estimators=20, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def model(request, frame):
    features = frame.without(["weather", "sport"])
    labels = read_labels(frame, ["weather", "sport"])
    return TableModel.fit(
        request.param, features, choose_columns(features, {"body": "text"}), labels
    )


def test_terms_are_columns_and_words(frame, model):
    row = next(i for i, text in enumerate(frame.column("body")) if "storm" in text)
    found = feature_evidence(model, frame, row)
    assert {"region", "wind", "body: words not in it", "body: “storm”"} <= set(found.names)
    assert "body: “goal”" not in found.names or "goal" in frame.column("body")[row]
    strongest = [term.name for term in found.terms("weather") if term.kind == "column"][:2]
    assert set(strongest) == {"body: “storm”", "body: “rain”"}
    shown = dict(zip(found.names, found.shown, strict=True))
    assert shown["region"] == frame.column("region")[row]


def test_sums_hold_in_the_table_too(frame, model):
    found = model.feature_evidence(frame, 3)
    if found.method == "shapley":
        odds = np.log(found.prob / (1 - found.prob))
        np.testing.assert_allclose(found.average + found.columns.sum(axis=1), odds, rtol=1e-6)
    else:
        x = model.preprocessor.transform(frame)
        mean, own = (np.asarray(rows) for rows in (x.mean(axis=0), x[3]))
        others = model.joint(frame).marginals()[:200].mean(axis=0)
        form = model.model.linear_log_odds(x[[3]], others)
        np.testing.assert_allclose(found.columns.sum(axis=1), form.coef @ (own - mean))


def test_a_missing_number_is_a_value(frame, model):
    wind = frame.column("wind")
    row = int(np.flatnonzero(np.isnan(wind))[0])
    found = feature_evidence(model, frame, row)
    assert dict(zip(found.names, found.shown, strict=True))["wind"] == "missing"


def test_a_row_that_is_not_there(frame, model):
    with pytest.raises(TableError, match="row=200 is not there: the table has 200 rows"):
        model.feature_evidence(frame, 200)
