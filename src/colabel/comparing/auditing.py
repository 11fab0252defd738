"""Which given labels look wrong: models that have not seen a row say what its labels should be."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import joblib
import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline, make_pipeline

from colabel.comparing.held_out import folds_of, rows_of
from colabel.core.arrays import Array, Indices
from colabel.decide import Audit
from colabel.decide.corrections import (
    corrections,
    evidence_of_labels,
    log_conditionals,
    pooled,
)
from colabel.labels import MISSING, EncodedLabels, LabelSpace
from colabel.models import JointForest, ProbabilisticClassifierChain
from colabel.models.evidence.evidence import evidence_of_row, feature_evidence
from colabel.models.wrapped import joint_of
from colabel.preprocess import ForestFeatures
from colabel.rules import Rules
from colabel.tables import Preprocessor, TableData, make_model
from colabel.tables.model import terms_of_row

# Of what speaks against a label: labels and columns named, the fewest nats, rows compared with and
# orders of replacing columns.
_TERMS, _LEAST, _BACKGROUND, _ORDERS = 3, 0.2, 100, 20


def auditors(random_state: int | None = 0) -> list[Any]:
    """Return the models that ``audit("auto", ...)`` asks.

    A forest of label vectors and a chain on forest features: they are nonlinear, cheap, and err
    differently, so that both together are better than either. And a few extra trees with leaves of
    one row, which still see labels so rare that errors outnumber them.
    """
    chain = ProbabilisticClassifierChain(random_state=random_state)
    return [
        JointForest(random_state=random_state),
        make_pipeline(ForestFeatures(random_state=random_state), chain),
        JointForest(100, kind="extra", min_samples_leaf=1, random_state=random_state),
    ]


def audit(
    model: Any,
    X: Any,
    Y: Any,
    cv: Any = 5,
    *,
    label_names: Sequence[str] | None = None,
    rules: Rules | None = None,
    groups: Any = None,
    n_explained: int = 20,
    n_jobs: int | None = None,
    random_state: int = 0,
) -> Audit:
    r"""Rank the given labels by how wrong they look, from models that have not seen their row.

    For each label of each row it asks :math:`P(y_i \mid x, y_{-i})`, the probability of the given
    value given the features *and the row's other labels*, by models fitted without the row's fold.
    Methods that look at one label at a time cannot see the second part, which finds most.

    Parameters
    ----------
    model : "auto", name, estimator, or list of them
        Models with a joint, or pipelines that end with one; names as on the command line ("ctbn",
        "forest+pcc"). Several are weighed by how well they predict the given labels of rows that
        they have not seen; so is what each says of a label from the features alone, where its
        joint can say so exactly.
        ``"auto"`` takes two `JointForest` and a chain on `ForestFeatures`.
    X : (n, p)
        Anything the model takes.
    Y : (n, d)
        Labels in any form; NaN or None for unknown ones, which are suggested.
    cv : int, splitter or iterable of (train, test), default=5
        With a number, folds in which every label is about equally common.
    label_names : sequence of d str, optional
    rules : Rules, optional
        What is known of label sets. Rows that break a rule come first.
    groups : (n,), optional
        Rows of equal value, such as one patient's, are judged by models that have seen none of
        them.
    n_explained : int, default=20
        Of how many of the most suspicious labels to name what speaks against them, see
        `Audit.evidence`: by the first model, which takes some hundredths of a second each.
    n_jobs : int, optional
        Processes.
    random_state : int, default=0

    Returns
    -------
    Audit
        `order` ranks the rows, `worst_labels` the labels, `to_frame()` lists them; `n_wrong()`
        estimates how many labels are wrong and `noise()` how often they are forgotten or added;
        `surprise` ranks rows that are unusual given their features; `corrected()` mends them.

    Examples
    --------
    >>> import numpy as np
    >>> from colabel import JointForest, audit
    >>> from colabel.datasets import load_digit_traits
    >>> data = load_digit_traits()
    >>> Y = data.Y[:400].copy()
    >>> Y[7, 2] = 1 - Y[7, 2]  # somebody slipped
    >>> forest = JointForest(n_estimators=50, random_state=0)
    >>> checked = audit(forest, data.X[:400], Y, cv=3, label_names=data.label_names)
    >>> int(checked.order[0]), data.label_names[checked.worst_labels[0, 1]]
    (7, 'square')
    """
    models: list[Any] = []
    for one in model if isinstance(model, list | tuple) else [model]:
        if isinstance(one, str):
            models += auditors(random_state) if one == "auto" else [make_model(one, random_state)]
        else:
            models.append(one)
    if not models:
        raise ValueError("No model was given to audit with.")
    space, codes = LabelSpace.infer(Y, label_names)
    folds = folds_of(cv, codes, random_state, X, groups)
    asked = np.bincount(np.concatenate([test for _, test in folds]), minlength=len(codes))
    if (asked != 1).any():
        row = int(np.flatnonzero(asked != 1)[0])
        raise ValueError(
            f"cv puts row {row} into {asked[row]} test folds: an audit asks about every row once."
        )
    jobs = [(one, train, test) for one in models for train, test in folds]
    answers = joblib.Parallel(n_jobs=n_jobs)(
        joblib.delayed(_held_out)(one, X, EncodedLabels(space, codes), train, test)
        for one, train, test in jobs
    )
    in_order = np.argsort(np.concatenate([test for _, test in folds]))
    experts, surprise = [], np.zeros(len(codes))
    for k in range(len(models)):
        own = answers[k * len(folds) : (k + 1) * len(folds)]
        for expert in zip(*(answer[0] for answer in own), strict=False):  # that all folds have
            experts.append([np.concatenate(each)[in_order] for each in zip(*expert, strict=True)])
        surprise -= np.concatenate([answer[1] for answer in own])[in_order] / len(models)
    broken = np.zeros(codes.shape, dtype=bool)
    if rules is not None:
        scopes = [list(node.scope) for node in rules.compiled(space).nodes]
        violations = rules.violations(EncodedLabels(space, codes))
        for row, place in zip(violations.rows, violations.broken, strict=True):
            broken[row, scopes[place]] = True
    checked = corrections(pooled(experts, codes), space, codes, surprise, broken)
    explained = {}
    background = np.random.default_rng(random_state).permutation(len(codes))[:_BACKGROUND]
    for row, label in checked.worst_labels[:n_explained].tolist():
        fold = next(k for k, (_, test) in enumerate(folds) if row in test)
        explained[row, label] = _evidence(answers[fold][2], X, checked, row, label, background)
    return replace(checked, evidence=explained)


def audit_table(
    data: TableData,
    model: str = "auto",
    cv: int = 5,
    seed: int = 0,
    rules: Rules | None = None,
    groups: Any = None,
    n_explained: int = 20,
) -> Audit:
    """Audit the labels of a table; preprocessing is learned anew without each fold."""
    models = auditors(seed) if model == "auto" else [make_model(model, seed)]
    return audit(
        [make_pipeline(Preprocessor(data.choice.used), one) for one in models],
        data.features,
        data.labels.Y,
        cv,
        label_names=data.labels.names,
        rules=rules,
        groups=None if groups is None else np.asarray(groups)[data.row_numbers],
        n_explained=n_explained,
        random_state=seed,
    )


def _held_out(
    model: Any, X: Any, labels: EncodedLabels, train: Indices, test: Indices
) -> tuple[list[list[Array]], Array, Any]:
    """Fit a model without the test rows; return experts on their labels, log-probabilities, itself.

    A joint whose sums are exact gives a second expert: each label from the features only.
    """
    fitted = clone(model).fit(rows_of(X, train), labels[train])
    joint = joint_of(fitted, rows_of(X, test))
    codes = labels.codes[test]
    experts = [log_conditionals(joint, codes)]
    if "sums" in joint.exact:
        with np.errstate(divide="ignore"):
            experts.append([np.log(table) for table in joint.marginal_tables()])
    return experts, joint.log_prob_codes(codes), fitted


def _evidence(
    fitted: Any, X: Any, checked: Audit, row: int, label: int, background: Indices
) -> list[tuple[str, float]]:
    """Return what speaks most against a given label: other labels, and columns of the row.

    A column adds its Shapley value, given the row's other labels, see `feature_evidence`.
    """
    own, codes = rows_of(X, np.array([row])), checked.codes[row]
    terms = []
    joint = joint_of(fitted, own)
    if "sums" in joint.exact:
        nats = evidence_of_labels(joint, codes, label, int(checked.suggestion[row, label]))
        strongest = [j for j in np.argsort(-nats, kind="stable")[:_TERMS] if nats[j] >= _LEAST]
        terms += [(checked.value_name(row, int(j)), float(nats[j])) for j in strongest]
    known = [j for j in np.flatnonzero(codes != MISSING).tolist() if j != label]
    given = {j: checked.space.classes[j][codes[j]] for j in known}
    options: dict[str, Any] = {"labels": [label], "given": given, "n_orders": _ORDERS}
    other = rows_of(X, background)
    # columns that are not numbers, in a pipeline of the user's own, are not taken apart
    with contextlib.suppress(ValueError, TypeError, NotImplementedError):
        if isinstance(fitted, Pipeline) and isinstance(fitted[0], Preprocessor):
            x, around = (fitted[0].transform(rows) for rows in (own, other))
            columns = terms_of_row(fitted[0], own, x)
            evidence = evidence_of_row(fitted[1:], x, around, columns, **options)
        else:
            evidence = feature_evidence(fitted, own, background=other, **options)
        sign = -1.0 if evidence.values[0] == codes[label] else 1.0
        of_columns = [term for term in evidence.terms(0) if term.kind == "column"]
        strong = [term for term in of_columns if sign * term.log_odds >= _LEAST]
        terms += [(str(term), sign * term.log_odds) for term in strong[:_TERMS]]
    return sorted(terms, key=lambda term: -term[1])
