"""Audits of given labels: conditionals against enumeration, noise rates against planted noise."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.special import logit

from colabel.decide.corrections import corrections, evidence_of_labels, log_conditionals, pooled
from colabel.joint import Independent, VectorList
from colabel.labels import MISSING, LabelSpace
from tests.joint.oracle import every_vector

SIZES = (2, 3, 2)
NAMES = "abc"


@pytest.fixture
def space():
    return LabelSpace(tuple(NAMES), tuple(map(np.arange, SIZES)), "matrix")


@pytest.fixture
def listed(space, rng):
    """A joint of five rows over all vectors, and its probabilities (n, 2, 3, 2)."""
    vectors = every_vector(SIZES)
    weights = rng.dirichlet(np.full(len(vectors), 0.4), size=5)
    return VectorList(space, vectors, np.log(weights)), weights.reshape(5, *SIZES)


@pytest.fixture
def given(rng):
    """Complete labels (5, 3)."""
    return np.stack([rng.integers(0, k, 5) for k in SIZES], axis=1).astype(np.int32)


def free_table(table, row, codes, i, hidden=None):
    """P(y_i, the labels given in a row), summed over what is missing or hidden, (K_i,)."""
    kept = [
        slice(None) if c == MISSING or j in (i, hidden) else c for j, c in enumerate(codes[row])
    ]
    axes = [j for j in range(3) if isinstance(kept[j], slice)]
    left = table[row][tuple(kept)]
    return left.sum(axis=tuple(a for a, j in enumerate(axes) if j != i))


def audit_of(joint, codes):
    surprise = -joint.log_prob_codes(codes)
    return corrections(log_conditionals(joint, codes), joint.space, codes, surprise)


def test_conditionals_of_complete_rows_and_of_rows_with_holes(listed, given):
    joint, table = listed
    given[3, 1] = MISSING
    found = log_conditionals(joint, given)
    for row, i in itertools.product(range(5), range(3)):
        kept = free_table(table, row, given, i)
        np.testing.assert_allclose(np.exp(found[i][row]), kept / kept.sum(), atol=1e-9)


def test_the_suggestion_is_the_best_other_value(listed, given):
    joint, codes = listed[0], given
    audit = audit_of(joint, codes)
    for row, i in itertools.product(range(5), range(3)):
        others = [v for v in range(SIZES[i]) if v != codes[row, i]]
        changed = np.repeat(codes[[row]], len(others), axis=0)
        changed[:, i] = others
        gains = joint.log_prob_at(np.full(len(others), row), changed)
        gains -= joint.log_prob_codes(codes)[row]
        assert audit.suggestion[row, i] == others[int(np.argmax(gains))]
        assert audit.log_odds[row, i] == pytest.approx(gains.max(), abs=1e-6)


def test_missing_labels_are_filled_and_never_called_wrong(listed):
    joint, table = listed
    codes = np.zeros((5, 3), dtype=np.int32)
    codes[:, 1] = MISSING
    audit = audit_of(joint, codes)
    assert (audit.log_odds[:, 1] == -np.inf).all()
    best = table[:, 0, :, 0]
    np.testing.assert_array_equal(audit.suggestion[:, 1], best.argmax(axis=1))
    np.testing.assert_allclose(audit.probability[:, 1], best.max(1) / best.sum(1), atol=1e-9)
    assert not (audit.worst_labels[:, 1] == 1).any()
    filled, changed = audit.corrected(at_least=0.5)
    assert changed[:, 1].sum() == (audit.probability[:, 1] >= 0.5).sum()
    given = np.where(codes == MISSING, None, codes)
    assert filled.tolist() == np.where(changed, audit.suggestion, given).tolist()


def _said(log_odds):
    """Tables (n, 2) of log-probabilities, one for each column of log-odds (n, d) of a one."""
    return [np.stack([-np.logaddexp(0, z), -np.logaddexp(0, -z)], axis=1) for z in log_odds.T]


def test_experts_are_weighed_by_how_well_they_predict(rng):
    """Data of w = (.5, 0) and b = .7: an expert twice too sure, and one who knows nothing."""
    log_odds, noise = rng.normal(scale=3, size=(2, 4000, 3))
    codes = (rng.random((4000, 3)) < 1 / (1 + np.exp(-0.5 * log_odds - 0.7))).astype(np.int32)
    codes[rng.random(codes.shape) < 0.3] = MISSING
    found = pooled([_said(log_odds), _said(noise)], codes)
    for i, table in enumerate(found):
        np.testing.assert_allclose(np.exp(table).sum(axis=1), 1.0)
        close = np.abs(log_odds[:, i]) < 5  # beyond, an expert is not heard to be surer
        expected = 0.5 * log_odds[close, i] + 0.7
        np.testing.assert_allclose((table[:, 1] - table[:, 0])[close], expected, atol=0.35)


def test_of_few_labels_experts_count_alike(space, listed, rng):
    joint, _ = listed
    other = Independent(space, [np.log(rng.dirichlet(np.ones(k), size=5)) for k in SIZES])
    codes = np.full((5, 3), MISSING, dtype=np.int32)
    both = [log_conditionals(one, codes) for one in (joint, other)]
    for table, *parts in zip(pooled(both, codes), *both, strict=True):
        mean = np.mean(np.maximum(parts, -10.0), axis=0)
        expected = mean - np.log(np.exp(mean).sum(axis=1, keepdims=True))
        np.testing.assert_allclose(table, expected, atol=1e-9)


@pytest.mark.parametrize(("forgotten", "added"), [(0.0, 0.0), (0.2, 0.0), (0.0, 0.05), (0.1, 0.1)])
def test_planted_noise_is_estimated(rng, forgotten, added):
    n, d = 3000, 4
    space = LabelSpace(tuple("abcd"), (np.arange(2),) * d, "matrix")
    true_odds = rng.choice([-6.0, -1.0, 1.0, 6.0], size=(n, d))
    truth = (rng.random((n, d)) < 1 / (1 + np.exp(-true_odds))).astype(np.int32)
    flip = rng.random((n, d)) < np.where(truth == 1, forgotten, added)
    given = np.where(flip, 1 - truth, truth).astype(np.int32)
    log_one = -np.log1p(np.exp(-true_odds))
    tables = [np.stack([-np.log1p(np.exp(true_odds[:, i])), log_one[:, i]], 1) for i in range(d)]
    audit = audit_of(Independent(space, tables), given)
    rates = audit.noise()
    assert rates["forgotten"].rate == pytest.approx(forgotten, abs=0.03)
    assert rates["added"].rate == pytest.approx(added, abs=0.03)
    if forgotten != added:  # by Bayes' theorem, with the true probabilities and rates
        q = 1 / (1 + np.exp(-true_odds))
        noisy = _said(logit((1 - forgotten) * q + added * (1 - q)))
        audit = audit_of(Independent(space, noisy), given)
        arrives = np.where(given == 1, added * (1 - q), forgotten * q)
        stays = np.where(given == 1, (1 - forgotten) * q, (1 - added) * (1 - q))
        expected = arrives / (arrives + stays)
        assert np.abs(audit.wrong - expected).mean() < 0.02
        assert audit.wrong.sum() == pytest.approx(flip.sum(), rel=0.3)
    estimate, true_count = audit.n_wrong(), int(flip.sum())
    assert estimate.low - 0.01 * n * d <= true_count <= estimate.high + 0.01 * n * d


def test_broken_rules_come_first(listed):
    joint, _ = listed
    codes = np.zeros((5, 3), dtype=np.int32)
    broken = np.zeros((5, 3), dtype=bool)
    broken[2, [0, 2]] = True
    table = log_conditionals(joint, codes)
    audit = corrections(table, joint.space, codes, np.zeros(5), broken)
    assert audit.order[0] == 2
    assert {tuple(cell) for cell in audit.worst_labels[:2]} == {(2, 0), (2, 2)}


def test_what_speaks_against_a_label_by_enumeration(listed, given):
    joint, table = listed
    given[4, 0] = MISSING

    def odds(row, i, value, hidden=None):
        """Log-odds of a value of label i against the given one, the others as given."""
        left = free_table(table, row, given, i, hidden)
        return np.log(left[value] / left[given[row, i]])

    for row, i in np.argwhere(given != MISSING):
        value = (given[row, i] + 1) % SIZES[i]
        nats = evidence_of_labels(joint[row : row + 1], given[row], i, value)
        for j in range(3):
            known = j != i and given[row, j] != MISSING
            drop = odds(row, i, value) - odds(row, i, value, j) if known else 0.0
            assert nats[j] == pytest.approx(np.clip(drop, -30, 30), abs=1e-6)


def test_a_model_that_knows_nothing_of_a_row_says_so(space):
    vectors = np.array([[0, 0, 0], [1, 1, 1]], dtype=np.int32)
    joint = VectorList(space, vectors, np.log(np.full((1, 2), 0.5)))
    table = log_conditionals(joint, np.array([[0, 2, 0]], dtype=np.int32))
    np.testing.assert_allclose(np.exp(table[0]), 0.5)  # both have probability zero
    np.testing.assert_allclose(np.exp(table[1]), [[1, 0, 0]], atol=1e-9)


def test_a_level_must_be_a_probability(listed):
    joint, _ = listed
    audit = audit_of(joint, np.zeros((5, 3), dtype=np.int32))
    with pytest.raises(ValueError, match=r"at_least is 0\.2"):
        audit.corrected(0.2)
    likelier = (audit.wrong > 0.5).sum()
    assert repr(audit) == f"Audit(5 rows, 3 labels: {likelier} likelier to be wrong)"


def test_few_known_labels_condemn_none(rng):
    """Of a dozen labels, given by chance, most disagree with what is more probable."""
    space = LabelSpace(("a", "b"), (np.arange(2),) * 2, "matrix")
    codes = np.full((60, 2), MISSING, dtype=np.int32)
    codes[:6] = rng.integers(2, size=(6, 2))
    unlikely = np.where(codes == 1, 0.35, 0.65)
    joint = Independent(space, [np.log(np.stack([1 - p, p], axis=1)) for p in unlikely.T])
    audit = audit_of(joint, codes)
    assert audit.n_wrong().high >= audit.n_wrong().rate
    known = codes != MISSING
    assert (audit.wrong[known] < 0.9).all()
    assert not audit.corrected()[1][known].any()
