"""Commands that need nothing of one's own: demo, models, datasets."""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.console import Console
from rich.table import Table

from colabel.cli import _console as ui
from colabel.core.files import written_whole
from colabel.core.progress import columns

if TYPE_CHECKING:
    from colabel.joint import Joint

_CLASS = re.compile(r'(?m)^class (\w+)\(([^)]*)\):\n    r?"""(.*)\n((?:[ \n].*\n?|\n)*)')
_ADVICE = re.compile(r"\n    (Take it [^.]*\.) Cost: (\w+)\.\n")
_FEATURES = ("boosted", "forest", "kernel", "spline")
_SHORT_NAME = re.compile(r'\n    short_name.* = "(\w+)"')


class Known(NamedTuple):
    """The class of a model or of features, and what its docstring says of it."""

    kind: str
    description: str
    when: str = ""
    cost: str = ""


@cache
def known_models() -> dict[str, Known]:
    """Return the probabilistic models but those around others, by their short names."""
    from colabel import models

    found = {}
    for name, bases, description, body in _classes("models"):
        learns = " def _joint(" in body or " short_name" in body
        if name in models.__all__ and learns and "AroundModel" not in bases:
            short = _SHORT_NAME.search(body)
            advice = _ADVICE.search(body)
            own = Known(name, description, *(advice.groups() if advice else ()))
            found[short[1] if short else name.lower()] = own
    return dict(sorted(found.items()))


@cache
def known_features() -> dict[str, Known]:
    """Return what may stand before a model, joined to its name by a plus."""
    kinds = {name: Known(name, said) for name, _, said, _ in _classes("preprocess")}
    return {name: kinds[f"{name.capitalize()}Features"] for name in _FEATURES}


def _classes(room: str) -> list[tuple[str, str, str, str]]:
    """Return name, bases, first line of the docstring and body of every class of a room."""
    files = (Path(__file__).parents[1] / room).rglob("*.py")
    texts = (file.read_text("utf-8") for file in files if not file.stem.startswith("base"))
    return [found for text in texts for found in _CLASS.findall(text)]


@ui.command
def models() -> None:
    """List the models by the names that fit and compare take.

    [bold]Example[/bold]

      [cyan]colabel models[/cyan]
    """
    table = columns("name and class", "what it is, and when to take it", "cost")
    features = {f"{name}+…": known for name, known in known_features().items()}
    for name, known in (known_models() | features).items():
        said = f"{known.description} {known.when}".strip()
        table.add_row(f"[bold]{name}[/bold]\n{known.kind}", said, known.cost)
    ui.output().print(table)
    ui.say(
        "Every model learns from rows with missing labels; the forest and the stack also take "
        "missing features, which commands fill in for the others. Cost of fitting 1,000 rows with "
        "20 labels by default: low is less than half a second, medium about a second, high several "
        "seconds, and the stack takes as long as about ten forests."
    )


BUNDLED = "digit-traits"
_SHOWN = ("br", "ctbn", "mlknn", "forest")  # models of the demo
_MOST_CELLS = 50_000_000

datasets = typer.Typer(
    cls=ui.PlainGroup,
    name="datasets",
    help="List the data sets the library knows by name, or write one as a CSV file.",
    invoke_without_command=True,
    rich_markup_mode="rich",
)


@datasets.command(cls=ui.Plain)
@ui.command
def export(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help=f"{BUNDLED}, or a name of colabel datasets.")
    ],
    output_file: Annotated[
        Path | None, ui.opt("FILE", "The CSV file.", "--output", "-o", default="NAME.csv")
    ] = None,
) -> None:
    """Write a data set as a CSV file, features first, then labels.

    [bold]Example[/bold]

      [cyan]colabel datasets export digit-traits -o digits.csv[/cyan]
    """
    from colabel.core.arrays import dense
    from colabel.datasets import load, load_digit_traits
    from colabel.tables import TableError

    name = BUNDLED if name.replace("_", "-") == BUNDLED else name
    data = load_digit_traits() if name == BUNDLED else load(name)
    file = output_file or Path(f"{name}.csv")
    if data.n_rows * (data.n_features + data.n_labels) > _MOST_CELLS:
        raise TableError(f"{name!r} is too large for a CSV file: load it in Python.")
    with written_whole(file) as part, part.open("w", encoding="utf-8", newline="") as text:
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([*data.feature_names, *data.label_names])
        for i in range(data.n_rows):
            cells = [("" if v != v else f"{v:.15g}") for v in dense(data.X[[i]])[0].tolist()]
            writer.writerow([*cells, *("" if v is None else v for v in data.Y[i].tolist())])
    ui.say(
        f"{data.n_rows:,} rows, {data.n_features:,} features and {data.n_labels:,} labels "
        f"({', '.join(data.label_names[:8])}{', …' if data.n_labels > 8 else ''}) written to "
        f"{file}."
    )


@datasets.callback()
def listed(context: typer.Context) -> None:
    """List the data sets the library knows by name, or write one as a CSV file."""
    if context.invoked_subcommand is not None:
        return
    from colabel.datasets import OPENML

    table = columns("name", "from")
    table.add_row(BUNDLED, "scikit-learn's digits, part of the library")
    for name, number in OPENML.items():
        table.add_row(name, f"OpenML {number}, fetched when it is asked for")
    ui.output().print(table)


@ui.command
def demo(
    output_dir: Annotated[Path, ui.opt("DIR", "Folder for the picture.", "--output")] = Path(
        "demo-output"
    ),
    cv: ui.Folds = 10,
    quick: Annotated[bool, ui.opt("", "Use a third of the rows.", "--quick")] = False,
    seed: ui.Seed = 0,
) -> None:
    """Compare models on bundled data and show what they have learned.

    The data are scikit-learn's 8x8 images of handwritten digits. The labels are
    traits of the digit: even, prime, square, above four, drawn with a loop,
    triangular, Fibonacci.
    """
    from sklearn.model_selection import KFold

    from colabel import comparing, datasets, report, tables
    from colabel.cli.choosing import watched
    from colabel.report.text import show_scores

    try:
        output_dir.mkdir(parents=True, exist_ok=True)  # before any work is done for it
    except (FileExistsError, NotADirectoryError):
        ui.fail(
            f"The folder {output_dir} is a file: choose another one with --output.", ui.WRONG_USE
        )
    data = datasets.load_digit_traits()
    if quick:
        data = replace(data, X=data.X[:600], Y=data.Y[:600])
    if not 2 <= cv <= data.n_rows:
        ui.fail(
            f"Cannot cut {data.n_rows} rows into {cv} folds: choose between 2 and {data.n_rows}.",
            ui.WRONG_USE,
        )
    folds = list(KFold(cv, shuffle=True, random_state=seed).split(data.X))
    console = ui.output()
    console.print(
        f"{data.n_rows} images of handwritten digits, {data.n_features} pixels each, "
        f"{data.n_labels} labels: {', '.join(data.label_names)}."
    )
    table = tables.table_of(data.X, data.Y, data.label_names)
    options: Any = {"cv": folds, "random_state": seed, "max_rows": None, "graph": False}
    with watched(quiet=not ui.stderr_is_terminal()) as watch:
        found = comparing.compare(table, models=_SHOWN, verbose=watch, **options)
    show_scores(console, found.results, found.n_folds, "exact_match")
    right = {n: f"{100 * own.mean('exact_match'):.0f}" for n, own in found.results.items()}
    console.print(
        f"\nOf 100 images they have not seen, br, which looks at every label by itself, gets all "
        f"{data.n_labels} labels right in {right['br']}. ctbn is as linear in the pixels and gets "
        f"{right['ctbn']}: it has learned which labels go together. forest is not linear, learns "
        f"whole label sets, and gets {right['forest']}; the nearest neighbours get "
        f"{right['mlknn']}."
    )
    graph = report.label_graph(found.fit("ctbn"))
    console.print("\n[bold]The label tree that ctbn learns from all rows[/bold]")
    console.print(f"{graph.meaning}\n", style="dim")
    console.print(report.graph_text(graph), markup=False)
    with written_whole(output_dir / "label_tree.svg") as part:
        part.write_text(report.graph_svg(graph, 356, alone=True), encoding="utf-8")
    ui.say(f"\nThe picture is in {output_dir / 'label_tree.svg'}.")
    train, test = folds[0]
    rest = tables.table_of(data.X[train], data.Y[train], data.label_names)
    own = found.estimators["ctbn"]
    model = tables.TableModel.fit(own, rest.features, rest.choice, rest.labels)
    _show_row(console, data.X[test], data.Y[test], test, model.joint(data.X[test]))


def _show_row(console: Console, X: Any, Y: Any, rows: Any, joint: Joint) -> None:
    """Show an image of 8x8 pixels, two characters a pixel, and what the joint says of it.

    Of these rows, the one where choosing labels one by one goes wrong most clearly, if there is
    one, and the labels together are right.
    """
    import numpy as np

    from colabel.decide import Hamming
    from colabel.models.evidence.record import explain_row
    from colabel.report import text

    single, best = Hamming().codes(joint), joint.mode_codes()
    unlike = (best != single).any(axis=1)
    right = (joint.space.values(best) == Y).all(axis=1)
    rank = np.where(unlike & right, 0, np.where(unlike, 1, 2))
    place = int(np.lexsort((joint.log_prob_codes(single), rank))[0])
    why = explain_row(joint[place])
    shades = [[" ░▒▓█"[round(v / 4)] for v in line] for line in X[place].reshape(8, 8)]
    picture = Table.grid(padding=(0, 3))
    pixels = "\n".join("".join(2 * shade for shade in line) for line in shades)
    picture.add_row(pixels, text.label_sets(why))
    console.print(f"\n[bold]One image that ctbn had not seen[/bold] (row {rows[place] + 1})\n")
    console.print(picture)
    console.print()
    console.print(text.in_words(why), markup=False)
    text.show_counterfactuals(console, why, most=1)
