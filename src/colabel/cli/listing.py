"""Commands that need nothing of one's own: demo, models, datasets."""

from __future__ import annotations

import csv
import os
import re
from dataclasses import replace
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.console import Console
from rich.table import Table

from colabel.cli._console import (
    WRONG_USE,
    Folds,
    Plain,
    PlainGroup,
    Seed,
    command,
    fail,
    opt,
    output,
    stderr_is_terminal,
)
from colabel.core.files import written_whole
from colabel.core.progress import columns, progress_bar

if TYPE_CHECKING:
    from colabel.datasets import Dataset
    from colabel.datasets.catalogue import CatalogueEntry
    from colabel.joint import Joint
    from colabel.models.label_graph import LabelGraph

_CLASS = re.compile(r'(?m)^class (\w+)\(([^)]*)\):\n    r?"""(.*)\n((?:[ \n].*\n?|\n)*)')
_SHORT_NAME = re.compile(r'\n    short_name.* = "(\w+)"')


class Known(NamedTuple):
    """The class of a model or of features, and the first line of its docstring."""

    kind: str
    description: str


@cache
def known_models() -> dict[str, Known]:
    """Return the probabilistic models but those around others, by their short names."""
    from colabel import models

    found = {}
    for name, bases, description, body in _classes("models"):
        learns = " def _joint(" in body or " short_name" in body
        if name in models.__all__ and learns and "Mixin" not in bases:
            short = _SHORT_NAME.search(body)
            found[short[1] if short else name.lower()] = Known(name, description)
    return dict(sorted(found.items()))


@cache
def known_features() -> dict[str, Known]:
    """Return what may stand before a model, joined to its name by a plus."""
    kinds = {name: Known(name, said) for name, _, said, _ in _classes("preprocess")}
    return {name: kinds[f"{name.capitalize()}Features"] for name in ("forest", "kernel")}


def _classes(room: str) -> list[tuple[str, str, str, str]]:
    """Return name, bases, first line of the docstring and body of every class of a room."""
    files = (Path(__file__).parents[1] / room).rglob("*.py")
    texts = (file.read_text("utf-8") for file in files if not file.stem.startswith("base"))
    return [found for text in texts for found in _CLASS.findall(text)]


@command
def models() -> None:
    """List the models by the names that fit and compare take.

    [bold]Example[/bold]

      [cyan]colabel models[/cyan]
    """
    table = columns("name", "class", "what it is")
    for name, known in known_models().items():
        table.add_row(name, *known)
    table.add_section()
    for name, known in known_features().items():
        table.add_row(f"{name}+…", *known)
    output().print(table)


BUNDLED = "digit-traits"
_MOST_CELLS = 50_000_000

datasets = typer.Typer(
    cls=PlainGroup,
    name="datasets",
    help="List the data sets the library knows by name, or write one as a CSV file.",
    invoke_without_command=True,
    rich_markup_mode="rich",
)


@datasets.command(cls=Plain)
@command
def export(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help=f"{BUNDLED}, or a name of colabel datasets.")
    ],
    output_file: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="The CSV file.", show_default="NAME.csv"
        ),
    ] = None,
) -> None:
    """Write a data set as a CSV file, features first, then labels.

    [bold]Example[/bold]

      [cyan]colabel datasets export digit-traits -o digits.csv[/cyan]
    """
    from colabel.datasets import DatasetError, list_datasets, load, load_digit_traits

    name = BUNDLED if name.replace("_", "-") == BUNDLED else name
    if name not in (BUNDLED, *(known := list_datasets())):
        close = get_close_matches(name.lower(), [BUNDLED, *known], n=3)
        hint = f"did you mean {' or '.join(close)}?" if close else "colabel datasets lists them."
        raise DatasetError(f"There is no data set {name!r}: {hint}")
    data = load_digit_traits() if name == BUNDLED else load(name)
    file = output_file or Path(f"{name}.csv")
    if data.n_rows * (data.n_features + data.n_labels) > _MOST_CELLS:
        raise DatasetError(f"{name!r} is too large for a CSV file: load it in Python.")
    _write(data, file)
    output().print(
        f"{data.n_rows:,} rows, {data.n_features:,} features and {data.n_labels:,} labels "
        f"({', '.join(data.label_names[:8])}{', …' if data.n_labels > 8 else ''}) written to "
        f"{file}.",
        markup=False,
        soft_wrap=True,
    )


def _write(data: Dataset, file: Path) -> None:
    rows = range(data.n_rows)
    with written_whole(file) as part, part.open("w", encoding="utf-8", newline="") as text:
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([*data.feature_names, *data.label_names])
        for i in rows:
            block: Any = data.X[[i]]
            features = (block.toarray() if data.is_sparse else block)[0]
            cells = [("" if v != v else f"{v:.15g}") for v in features.tolist()]
            writer.writerow([*cells, *("" if v is None else v for v in data.Y[i].tolist())])


@datasets.callback()
def listed(context: typer.Context) -> None:
    """List the data sets the library knows by name, or write one as a CSV file.

    [b]bundled[/b]: part of the library; [b]local[/b]: in the folder that COLABEL_DATA names;
    [b]cache[/b]: fetched before; [b]not here[/b]: none of these.
    """
    if context.invoked_subcommand is not None:
        return
    from colabel.datasets import load_digit_traits
    from colabel.datasets.catalogue import CATALOGUE
    from colabel.datasets.loading import default_cache

    home = os.environ.get("COLABEL_DATA")
    cache = Path(os.environ.get("COLABEL_CACHE") or default_cache())
    table = columns("name", ">rows", ">features", ">labels", "found")
    own = load_digit_traits()
    sizes = (own.n_rows, own.n_features, own.n_labels)
    table.add_row(BUNDLED, *(f"{size:,}" for size in sizes), "bundled")
    # cut or mended from another that is listed
    derived = [entry for entry in CATALOGUE.values() if entry.derived_from]
    for entry in CATALOGUE.values():
        if entry in derived:
            continue
        found = _where(entry, Path(home) if home else None, cache)
        style = "dim" if found == "not here" else None
        table.add_row(entry.name, *(f"{size:,}" for size in entry.shape), found, style=style)
    console = output()
    console.print(table)
    names = f"{derived[0].name}, {derived[1].name}, …" if len(derived) > 1 else ""
    console.print(
        f"\n{len(derived)} more are cut or mended from these ({names}): list_datasets() has all."
        " Load one with colabel.datasets.load(name): from the folder that COLABEL_DATA names, "
        "from the cache, or from OpenML; digit-traits with load_digit_traits()."
    )


def _where(entry: CatalogueEntry, home: Path | None, cache: Path) -> str:
    """Say where the files of an entry are, without reading them."""
    files = [file for file, _ in entry.files]
    if home is not None and files and all((home / entry.name / file).is_file() for file in files):
        return "local"
    if (cache / "openml" / entry.name / "description.json").is_file():
        return "cache"
    return "not here"


@command
def demo(
    output_dir: Annotated[Path, opt("DIR", "Folder for the picture.", "--output")] = Path(
        "demo-output"
    ),
    cv: Folds = 10,
    seed: Seed = 0,
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
    from colabel.models.evidence import explain_row
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
