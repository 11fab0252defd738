"""`colabel demo`: two models on bundled data, side by side."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from colabel.cli._console import WRONG_USE, fail, output, stderr_is_terminal
from colabel.core.files import written_whole
from colabel.core.progress import progress_bar

if TYPE_CHECKING:
    from colabel.comparing import ModelResult
    from colabel.comparing.held_out import Method
    from colabel.models.label_graph import LabelGraph

_QUICK_ROWS = 600
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
    import numpy as np

    from colabel.cli._one_row import show_one_row
    from colabel.comparing import ModelResult
    from colabel.comparing.cross_validation import cross_validate
    from colabel.comparing.held_out import Ask, Task, learn
    from colabel.datasets import DatasetError, kfold, load_digit_traits

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
    task = Task.of(data.X, data.Y, data.label_names)
    methods = _methods(seed)
    n_steps = len(methods) * folds
    with progress_bar("cross-validation", n_steps, shown=stderr_is_terminal()) as advance:
        answers = {}
        for name, found in cross_validate(
            methods, task, splits, Ask(joint=True), lambda _: advance()
        ).items():
            if isinstance(found, Exception):
                raise found
            answers[name] = found
    results = {name: ModelResult.of(name, found) for name, found in answers.items()}
    _show_table(console, results, folds, data.n_labels)
    graph = learn(methods["CTBN"], task, np.arange(data.n_rows)).label_graph
    assert graph is not None
    _show_tree(console, graph, output_dir / _PICTURE)
    show_one_row(console, data, answers["CTBN"])


def _methods(seed: int) -> dict[str, Method]:
    from sklearn.preprocessing import StandardScaler

    from colabel.comparing.held_out import Method
    from colabel.models import CTBN, BinaryRelevance

    models = (BinaryRelevance(random_state=seed), CTBN(random_state=seed))
    return {type(model).__name__: Method(model, (StandardScaler(),)) for model in models}


def _make_folder(folder: Path) -> None:
    """Make the folder for the picture before any work is done for it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = "it is a file" if isinstance(error, FileExistsError) else error.strerror
        fail(f"The folder {folder} cannot be made ({reason}): choose another one with --output.")
    if not os.access(folder, os.W_OK | os.X_OK):
        fail(f"The folder {folder} cannot be written to: choose another one with --output.")


def _show_table(
    console: Console, results: dict[str, ModelResult], n_folds: int, n_labels: int
) -> None:
    from colabel.comparing.measures import COMPARED

    console.print(
        f"\n[bold]Cross-validation[/bold] on {n_folds} folds: mean ± standard error over folds\n"
    )
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("measure", no_wrap=True)
    for name in results:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", style="dim")
    for key, measure in COMPARED.items():
        best = measure.best([result.mean(key) for result in results.values()])
        cells = []
        for result in results.values():
            mean, error = result.mean(key), result.standard_error(key)
            written = f"{measure.written(mean)} ± {measure.written(error)}"
            cells.append(f"[bold]{written}[/bold]" if mean == best else written)
        table.add_row(measure.title, *cells, measure.meaning)
    console.print(table)
    console.print()
    console.print(_in_words(results, n_labels))


def _in_words(results: dict[str, ModelResult], n_labels: int) -> str:
    alone, tree = results["BinaryRelevance"], results["CTBN"]
    exact = [100 * result.mean("exact_match") for result in (tree, alone)]
    single = [100 * result.mean("hamming_accuracy") for result in (tree, alone)]
    counts = (
        f"Of 100 images it has not seen, CTBN gets all {n_labels} labels right in {exact[0]:.0f}, "
        f"BinaryRelevance in {exact[1]:.0f}, while single labels are right in {single[0]:.0f} % "
        f"and {single[1]:.0f} % of the cases"
    )
    if exact[0] > exact[1]:
        return f"{counts}: CTBN has learned which labels go together."
    return f"{counts}: on so few rows, knowing which labels go together does not pay."


def _show_tree(console: Console, graph: LabelGraph, picture: Path) -> None:
    from colabel.report import graph_text

    console.print("\n[bold]The label tree learned from all rows[/bold]")
    console.print(f"{graph.meaning}\n", style="dim")
    console.print(graph_text(graph), markup=False)
    try:
        _save_picture(graph, picture)
    except ImportError:
        console.print(
            "\nNo picture: matplotlib is not installed: run pip install matplotlib.",
            markup=False,
        )
    except OSError as error:
        fail(f"The picture {picture} cannot be written ({error.strerror}).")
    else:
        console.print(f"\nThe picture is in {picture}.", markup=False, soft_wrap=True)


def _save_picture(graph: LabelGraph, picture: Path) -> None:
    import matplotlib

    matplotlib.use("agg")  # a file is wanted, not a window
    from matplotlib import pyplot as plt

    from colabel.report import LabelGraphDisplay

    title = "Traits of handwritten digits: which label helps to predict which"
    display = LabelGraphDisplay(graph).plot(title=title)
    with written_whole(picture) as part:
        display.figure_.savefig(part, format="png", dpi=150)
    plt.close(display.figure_)
