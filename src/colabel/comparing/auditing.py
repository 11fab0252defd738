"""Which given labels look wrong: models that have not seen a row say what its labels should be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import joblib
import numpy as np
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from colabel.comparing.held_out import folds_of, rows_of
from colabel.core.arrays import Array, Indices
from colabel.decide import Audit
from colabel.decide.corrections import corrections, log_conditionals, pooled, speaking_against
from colabel.labels import EncodedLabels, LabelSpace
from colabel.models import JointForest, ProbabilisticClassifierChain
from colabel.models.wrapped import joint_of
from colabel.preprocess import ForestFeatures
from colabel.rules import Rules
from colabel.tables import Preprocessor, TableData, make_model


def auditors(random_state: int | None = 0) -> list[Any]:
    """Return the models that ``audit("auto", ...)`` asks.

    A forest of label vectors and a chain on forest features: they are nonlinear, cheap, and err
    differently, so that both together are better than either.
    """
    chain = ProbabilisticClassifierChain(random_state=random_state)
    return [
        JointForest(random_state=random_state),
        make_pipeline(ForestFeatures(random_state=random_state), chain),
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
        ``"auto"`` takes a `JointForest` and a chain on `ForestFeatures`.
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
    given = model if isinstance(model, list | tuple) else [model]
    models = [
        each
        for one in given
        for each in (auditors(random_state) if isinstance(one, str) and one == "auto" else [one])
    ]
    models = [make_model(one, random_state) if isinstance(one, str) else one for one in models]
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
        joblib.delayed(_asked)(one, X, EncodedLabels(space, codes), train, test)
        for one, train, test in jobs
    )
    in_order = np.argsort(np.concatenate([test for _, test in folds]))
    experts, against, surprise = [], None, np.zeros(len(codes))
    for k in range(len(models)):
        own = answers[k * len(folds) : (k + 1) * len(folds)]
        for opinion in zip(*(answer[0] for answer in own), strict=False):  # that all folds have
            experts.append([np.concatenate(each)[in_order] for each in zip(*opinion, strict=True)])
        surprise -= np.concatenate([answer[1] for answer in own])[in_order] / len(models)
        if against is None and all(answer[2] is not None for answer in own):
            labels, nats = zip(*(answer[2] for answer in own), strict=True)
            against = np.concatenate(labels)[in_order], np.concatenate(nats)[in_order]
    broken = np.zeros(codes.shape, dtype=bool)
    if rules is not None:
        scopes = [list(node.scope) for node in rules.compiled(space).nodes]
        violations = rules.violations(EncodedLabels(space, codes))
        for row, place in zip(violations.rows, violations.broken, strict=True):
            broken[row, scopes[place]] = True
    return corrections(pooled(experts, codes), space, codes, surprise, broken, against)


def audit_table(
    data: TableData,
    model: str = "auto",
    cv: int = 5,
    seed: int = 0,
    rules: Rules | None = None,
    groups: Any = None,
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
        random_state=seed,
    )


def _asked(
    model: Any, X: Any, labels: EncodedLabels, train: Indices, test: Indices
) -> tuple[list[list[Array]], Array, tuple[Indices, Array] | None]:
    """Fit a model without the test rows; return its opinions of them, and log-probabilities.

    Of a joint that sums exactly there is a second opinion, about each label from the features
    alone, and what speaks against each label.
    """
    fitted = clone(model).fit(rows_of(X, train), labels[train])
    joint = joint_of(fitted, rows_of(X, test))
    codes = labels.codes[test]
    opinions, against = [log_conditionals(joint, codes)], None
    if "sums" in joint.exact:
        against = speaking_against(joint, codes, opinions[0])
        with np.errstate(divide="ignore"):
            opinions.append([np.log(table) for table in joint.marginal_tables()])
    return opinions, joint.log_prob_codes(codes), against
