"""`colabel demo`: two models on bundled data, a tree of labels, and what a joint knows of a row."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.console import Console
from rich.table import Table

from colabel.cli import _options as given
from colabel.cli._console import WRONG_USE, fail, guarded, output, stderr_is_terminal
from colabel.cli._options import opt
from colabel.core.files import written_whole
from colabel.core.progress import progress_bar

if TYPE_CHECKING:
    from colabel.joint import Joint
    from colabel.models.label_graph import LabelGraph


@guarded
def demo(
    output_dir: Annotated[Path, opt("DIR", "Folder for the picture.", "--output")] = Path(
        "demo-output"
    ),
    cv: given.Folds = 10,
    seed: given.Seed = 0,
    quick: Annotated[bool, opt("", "Use a third of the rows.", "--quick")] = False,
) -> None:
    """Compare two models on bundled data and show what the better one has learned.

    The data are scikit-learn's 8x8 images of handwritten digits. The labels are
    traits of the digit: even, prime, square, above four, drawn with a loop,
    triangular, Fibonacci.
    """
    import numpy as np
    from sklearn.preprocessing import StandardScaler

    from colabel.comparing import ModelResult
    from colabel.comparing.cross_validation import cross_validate
    from colabel.comparing.held_out import Ask, Method, Task, learn
    from colabel.datasets import kfold, load_digit_traits
    from colabel.models import CTBN, BinaryRelevance
    from colabel.report.text import show_scores

    data = load_digit_traits()
    if quick:
        data = replace(data, X=data.X[:600], Y=data.Y[:600])
    splits = kfold(data.n_rows, cv, seed)
    try:
        output_dir.mkdir(parents=True, exist_ok=True)  # before any work is done for it
    except (FileExistsError, NotADirectoryError):
        fail(f"The folder {output_dir} is a file: choose another one with --output.", WRONG_USE)
    console = output()
    console.print(
        f"{data.n_rows} images of handwritten digits, {data.n_features} pixels each, "
        f"{data.n_labels} labels: {', '.join(data.label_names)}."
    )
    task = Task.of(data.X, data.Y, data.label_names)
    models = (BinaryRelevance(random_state=seed), CTBN(random_state=seed))
    methods = {type(model).__name__: Method(model, (StandardScaler(),)) for model in models}
    n_steps = len(methods) * cv
    with progress_bar("cross-validation", n_steps, shown=stderr_is_terminal()) as advance:
        found = cross_validate(methods, task, splits, Ask(joint=True), lambda _: advance())
    answers: dict[str, Any] = {}
    for name, own in found.items():
        if isinstance(own, Exception):
            raise own
        answers[name] = own
    results = {name: ModelResult.of(name, own) for name, own in answers.items()}
    show_scores(console, results, cv, "exact_match")
    alone, tree = (results[name].mean("exact_match") for name in ("BinaryRelevance", "CTBN"))
    console.print(
        f"\nOf 100 images it has not seen, CTBN gets all {data.n_labels} labels right in"
        f" {100 * tree:.0f}, BinaryRelevance in {100 * alone:.0f}: "
        + ("it has learned which labels go together." if tree > alone else "on so few rows,")
        + (" knowing which labels go together does not pay." if tree <= alone else "")
    )
    graph = learn(methods["CTBN"], task, np.arange(data.n_rows)).label_graph
    assert graph is not None
    _show_tree(console, graph, output_dir / "label_tree.png")
    row, joint = _row_of_interest(answers["CTBN"])
    _show_row(console, data.X[row], row, joint)


def _show_tree(console: Console, graph: LabelGraph, picture: Path) -> None:
    from colabel.core.optional import require
    from colabel.report import LabelGraphDisplay, graph_text

    console.print("\n[bold]The label tree learned from all rows[/bold]")
    console.print(f"{graph.meaning}\n", style="dim")
    console.print(graph_text(graph), markup=False)
    try:
        require("matplotlib", "The picture")
        import matplotlib

        matplotlib.use("agg")  # a file is wanted, not a window
        from matplotlib import pyplot as plt
    except ImportError as error:
        console.print(f"\nNo picture. {error}", markup=False)
        return
    display = LabelGraphDisplay(graph).plot(title="Traits of handwritten digits")
    with written_whole(picture) as part:
        display.figure_.savefig(part, format="png", dpi=150)
    plt.close(display.figure_)
    console.print(f"\nThe picture is in {picture}.", markup=False, soft_wrap=True)


def _row_of_interest(held_out: Any) -> tuple[int, Joint]:
    """Pick the row where choosing labels one by one goes wrong most clearly, if there is one."""
    import numpy as np

    from colabel.decide import Hamming

    found: list[tuple[int, float, int, Joint]] = []
    for part in held_out:
        single = Hamming().codes(part.joint)
        unlike = (part.codes != single).any(axis=1)
        right = (part.codes == part.true).all(axis=1)
        log_prob = part.joint.log_prob_codes(single)
        rank = np.where(unlike & right, 0, np.where(unlike, 1, 2))
        place = int(np.lexsort((log_prob, rank))[0])
        found.append(
            (int(rank[place]), float(log_prob[place]), int(part.rows[place]), part.joint[place])
        )
    return min(found, key=lambda one: one[:2])[2:]


def _show_row(console: Console, pixels: Any, row: int, joint: Joint) -> None:
    """Show an image of 8x8 pixels, two characters a pixel, and what the joint says of it."""
    from colabel.models.evidence.rows import explain_row
    from colabel.report.text import in_words, label_sets, show_counterfactuals

    why = explain_row(joint)
    shades = [[" ░▒▓█"[round(4 * value / 16)] for value in line] for line in pixels.reshape(8, 8)]
    picture = Table.grid(padding=(0, 3))
    picture.add_row("\n".join("".join(2 * s for s in line) for line in shades), label_sets(why))
    console.print(f"\n[bold]One image that CTBN had not seen[/bold] (row {row + 1})\n")
    console.print(picture)
    console.print()
    console.print(in_words(why), markup=False)
    show_counterfactuals(console, why, most=1)
