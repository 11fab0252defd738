"""`colabel demo`: two models on bundled data, side by side."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray
from rich import box
from rich.console import Console
from rich.table import Table

from colabel.cli._console import WRONG_USE, fail, output, stderr_is_terminal
from colabel.cli._cross_validation import Folds, Result, cross_validate, fit, scaled
from colabel.cli._one_row import show_one_row
from colabel.core.progress import progress_bar
from colabel.datasets import Dataset, DatasetError, kfold, load_digit_traits
from colabel.models import CTBN, BinaryRelevance
from colabel.models.base import JointClassifier
from colabel.report import plot_label_tree, tree_text
from colabel.tables.measures import MEASURES

_QUICK_ROWS = 600
_WARM_UP_ROWS = 100
_PICTURE = "label_tree.png"


def demo(
    output_dir: Annotated[
        Path, typer.Option("--output", metavar="DIR", help="Folder for the picture.")
    ] = Path("demo-output"),
    folds: Annotated[int, typer.Option(metavar="N", help="Folds of the cross-validation.")] = 10,
    seed: Annotated[
        int, typer.Option(min=0, max=2**32 - 1, metavar="N", help="Seed of the folds.")
    ] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="Use a third of the rows.")] = False,
) -> None:
    """Compare two models on bundled data and show what the better one has learned.

    The data are scikit-learn's 8x8 images of handwritten digits. The labels are
    traits of the digit: even, prime, square, above four, drawn with a loop,
    triangular, Fibonacci.
    """
    data = load_digit_traits()
    if quick:
        data = replace(data, X=data.X[:_QUICK_ROWS], Y=data.Y[:_QUICK_ROWS])
    try:
        splits = kfold(data.n_rows, folds, seed)
    except DatasetError as error:
        fail(str(error), WRONG_USE)
    _make_folder(output_dir)

    console = output()
    console.print(
        f"{data.n_rows} images of handwritten digits, {data.n_features} pixels each, "
        f"{data.n_labels} labels: {', '.join(data.label_names)}."
    )
    results = _compare(data, splits, seed)
    _show_table(console, results, folds, data.n_labels)
    _show_tree(console, data, seed, output_dir / _PICTURE)
    show_one_row(console, data, results["CTBN"].held_out)


def _models(seed: int) -> dict[str, JointClassifier]:
    return {
        "BinaryRelevance": BinaryRelevance(random_state=seed),
        "CTBN": CTBN(random_state=seed),
    }


def _make_folder(folder: Path) -> None:
    """Make the folder for the picture before any work is done for it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = "it is a file" if isinstance(error, FileExistsError) else error.strerror
        fail(f"The folder {folder} cannot be made ({reason}): choose another one with --output.")
    if not os.access(folder, os.W_OK | os.X_OK):
        fail(f"The folder {folder} cannot be written to: choose another one with --output.")


def _compare(data: Dataset, splits: Folds, seed: int) -> dict[str, Result]:
    models = _models(seed)
    n_steps = len(models) * (len(splits) + 1)
    with progress_bar("cross-validation", n_steps, shown=stderr_is_terminal()) as advance:
        # Numba compiles at first use; that is not what the column of seconds is about.
        for model in models.values():
            fit(scaled(model), data.X[:_WARM_UP_ROWS], data.Y[:_WARM_UP_ROWS], data)
            advance()
        return cross_validate(models, data, splits, advance)


def _show_table(console: Console, results: dict[str, Result], n_folds: int, n_labels: int) -> None:
    console.print(
        f"\n[bold]Cross-validation[/bold] on {n_folds} folds: mean ± standard error over folds\n"
    )
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("measure", no_wrap=True)
    for name in results:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", style="dim")
    for measure in MEASURES:
        best = measure.best([result.mean(measure.name) for result in results.values()])
        cells = [
            f"[bold]{text}[/bold]" if result.mean(measure.name) == best else text
            for result in results.values()
            for text in [_mean_and_error(result, measure.name, measure.digits)]
        ]
        table.add_row(measure.name, *cells, measure.meaning)
    console.print(table)
    console.print()
    console.print(_in_words(results, n_labels))


def _mean_and_error(result: Result, measure: str, digits: int) -> str:
    return f"{result.mean(measure):.{digits}f} ± {result.standard_error(measure):.{digits}f}"


def _in_words(results: dict[str, Result], n_labels: int) -> str:
    alone, tree = results["BinaryRelevance"], results["CTBN"]
    exact = [100 * result.mean("exact match") for result in (tree, alone)]
    single = [100 * result.mean("Hamming accuracy") for result in (tree, alone)]
    counts = (
        f"Of 100 images it has not seen, CTBN gets all {n_labels} labels right in {exact[0]:.0f}, "
        f"BinaryRelevance in {exact[1]:.0f}, while single labels are right in {single[0]:.0f} % "
        f"and {single[1]:.0f} % of the cases"
    )
    if exact[0] > exact[1]:
        return f"{counts}: CTBN has learned which labels go together."
    return f"{counts}: on so few rows, knowing which labels go together does not pay."


def _show_tree(console: Console, data: Dataset, seed: int, picture: Path) -> None:
    model: CTBN = fit(scaled(_models(seed)["CTBN"]), data.X, data.Y, data)[-1]
    gains = _arc_gains(model)
    console.print("\n[bold]The label tree learned from all rows[/bold]")
    console.print(
        "The number beside a label says what knowing the label above it adds: nats of "
        "log-likelihood per row, on rows held out.\n",
        style="dim",
    )
    console.print(tree_text(model.tree_, model.label_names_, gains), markup=False)
    try:
        _save_picture(model, gains, picture)
    except ImportError:
        console.print(
            "\nNo picture: matplotlib is not installed: run pip install matplotlib.",
            markup=False,
        )
    except OSError as error:
        fail(f"The picture {picture} cannot be written ({error.strerror}).")
    else:
        console.print(f"\nThe picture is in {picture}.", markup=False, soft_wrap=True)


def _arc_gains(model: CTBN) -> NDArray[np.float64]:
    """What the arc into each label adds, in nats per row; NaN for roots."""
    parents = model.tree_
    gains = model.edge_gains_[parents, np.arange(len(parents))]
    return np.where(parents >= 0, gains, np.nan)


def _save_picture(model: CTBN, gains: NDArray[np.float64], picture: Path) -> None:
    import matplotlib

    matplotlib.use("agg")  # a file is wanted, not a window
    from matplotlib import pyplot as plt

    plot_label_tree(  # in a new figure, which becomes the current one
        model.tree_,
        model.label_names_,
        strengths=gains,
        title="Traits of handwritten digits: which label helps to predict which",
    )
    part = picture.with_name(f"{picture.name}.part")
    plt.savefig(part, format="png", dpi=150)
    plt.close()
    part.replace(picture)
