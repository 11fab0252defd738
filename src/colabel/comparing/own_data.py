"""`colabel.compare`: which model suits a data frame or arrays."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from colabel.comparing.comparison import TableComparison
from colabel.comparing.request import MOST_ROWS, ComparisonRequest, Models
from colabel.comparing.running import Progress, run_comparison
from colabel.tables import TableRequest, load_table, table_of


def compare(
    data: Any,
    labels: Any,
    *,
    models: Models = "default",
    cv: Any = 5,
    measure: str = "",
    decision: str = "subset",
    thresholds: bool = False,
    calibrate: bool = False,
    coverage: float | None = None,
    max_rows: int | None = MOST_ROWS,
    groups: Any = None,
    times: Any = None,
    label_names: Sequence[str] | None = None,
    random_state: int = 0,
    n_jobs: int = 1,
    store: str | Path | None = None,
    verbose: bool = False,
) -> TableComparison:
    """Cross-validate models on the same folds, and recommend one.

    What `colabel compare` does on the command line. Numbers are scaled, categories encoded, texts
    counted and missing features filled in; all of that is learned from the training folds only.

    Parameters
    ----------
    data : data frame, mapping of names to columns, array of shape (n, p), or path of a file
        The features; in a data frame or a file also the labels.
    labels : str, sequence of str, or labels of n rows
        Names, globs ("tag_*") or @lists of the label columns of `data`; or the labels themselves,
        as models take them. Where some are missing (NaN, None), models that cannot learn from such
        rows are left out, and Hamming accuracy, F1 and log-loss are of the labels that are known.
    models : str, estimator, sequence or mapping of them
        Names as on the command line ("ctbn", "br,kernel+pcc", "default", "all"), or estimators,
        which get the prepared features; a mapping names them.
    cv : int, splitter or iterable
        Number of folds, in which every label is about equally common; or a splitter of
        scikit-learn, or pairs of training and test rows.
    measure : str
        What decides: "exact match", "joint log-loss", "Hamming accuracy", "micro F1" or "macro F1";
        by default the first, and the last with `thresholds`.
    decision : str
        Loss that predictions minimise, see `decide`; of models given as estimators, their own.
    thresholds : bool
        Whether labels are announced by thresholds of their own instead, see
        `ThresholdedClassifier`.
    calibrate : bool
        Whether the recommended model is cross-validated with ``calibrate=True`` too.
    coverage : float, optional
        Probability with which lists of label sets shall hold the true one: how many sets the
        recommended model lists for it is measured too, see `ConformalSets`.
    max_rows : int or None
        A larger table is compared on a sample of so many rows; None takes all.
    groups : (n,), optional
        Rows of equal value, such as one patient's, are never in training and test at once.
    times : (n,), optional
        When each row was taken: training rows are older than all test rows.
    label_names : sequence of str, optional
        Names of the labels, where they have none.
    random_state : int
        Seed of folds, sample and models.
    n_jobs : int
        Processes, -1 for all cores. Each model uses all cores by itself where it can.
    store : path, optional
        File in which answers are kept until all are there: a call that was stopped goes on.
    verbose : bool
        Whether to print a line for each model that is done.

    Returns
    -------
    TableComparison
        With `table`, `decisions`, `recommended`, `reason`, `warnings`, `plot()` and `fit()`.

    Examples
    --------
    >>> import colabel
    >>> from colabel.datasets import load_digit_traits
    >>> data = load_digit_traits()
    >>> found = colabel.compare(data.X[:300], data.Y[:300], models=["br", "mlknn"], cv=3)
    >>> found.recommended
    'mlknn'
    >>> model = found.fit()
    >>> model.predict(data.X[300:302]).shape
    (2, 7)
    """
    request = ComparisonRequest(
        models,
        cv,
        random_state,
        measure,
        decision,
        thresholds,
        calibrate,
        coverage,
        max_rows,
        n_jobs,
        groups=groups,
        times=times,
    )
    if isinstance(data, str | Path):
        patterns = [labels] if isinstance(labels, str) else list(labels)
        table = load_table(TableRequest(Path(data), patterns))
    else:
        table = table_of(data, labels, label_names)
    watch = _printed() if verbose else (lambda progress: None)
    return run_comparison(table, request, watch, None if store is None else Path(store))


def _printed() -> Any:
    """Return what prints a line for each model that is done."""
    told: set[str] = set()

    def watch(progress: Progress) -> None:
        for name in progress.finished:
            if name not in told:
                told.add(name)
                sys.stdout.write(f"{progress.line(name)}\n")

    return watch
