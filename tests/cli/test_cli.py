"""The command line as a whole, and `colabel datasets`."""

from __future__ import annotations

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from colabel import __version__
from colabel.cli import app
from colabel.cli.listing import known_features, known_models
from colabel.comparing import DEFAULT_MODELS, MOST_ROWS
from colabel.datasets import OPENML
from colabel.tables import MODEL_NAMES
from colabel.tables.model_names import FEATURE_NAMES

runner = CliRunner()


def first_line(kind):
    return kind.__doc__.strip().partition("\n")[0]


def run_process(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    code = "from colabel.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=environment or None,
        check=False,
    )


def test_version():
    result = runner.invoke(app, ["--version"])
    assert result.exit_code == 0
    assert result.stdout == f"colabel {__version__}\n"


def test_help_lists_commands_and_examples():
    result = runner.invoke(app, ["--help"])
    assert result.exit_code == 0
    for text in ("demo", "datasets", "Examples", "colabel demo --quick"):
        assert text in result.stdout


def test_without_a_command_the_help_is_shown():
    assert "Commands" in runner.invoke(app, []).output


def test_unknown_command():
    result = runner.invoke(app, ["dmeo"])
    assert result.exit_code == 2
    assert "No such command" in result.output


def test_datasets_lists_what_can_be_loaded():
    result = runner.invoke(app, ["datasets"])
    assert result.exit_code == 0
    assert "digit-traits" in result.stdout
    assert all(name in result.stdout for name in OPENML)


def test_characters_that_the_terminal_lacks_are_replaced(tmp_path):
    finished = run_process("datasets", PYTHONIOENCODING="ascii")
    assert finished.returncode == 0
    assert "Traceback" not in finished.stderr
    assert "yeast" in finished.stdout


def test_errors_go_to_standard_error(tmp_path):
    finished = run_process("demo", "--cv", "1", "--output", str(tmp_path))
    assert finished.returncode == 2
    assert finished.stdout == ""
    assert finished.stderr == (
        "Error: Cannot cut 1797 rows into 1 folds: choose between 2 and 1797.\n"
    )


NUMERIC = ("numpy", "scipy", "sklearn", "numba", "pandas")


@pytest.mark.parametrize(
    "start",
    [
        ["import colabel"],
        ["import colabel.cli"],
        ["from colabel.cli import main; main()", "--help"],
        ["from colabel.cli import main; main()", "compare", "--fodls", "3"],
        ["from colabel.cli import main; main()", "fit", "data.csv"],
        ["from colabel.cli import main; main()", "compare", "--help"],
        ["from colabel.cli import main; main()", "models"],
    ],
)
def test_nothing_numeric_is_imported_before_it_is_needed(start):
    code, *arguments = start
    code = f"import atexit, sys; atexit.register(lambda: print('!', *sys.modules)); {code}"
    finished = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
    )
    imported = finished.stdout.rpartition("!")[2].split()
    assert "colabel" in imported
    assert not set(NUMERIC) & set(imported)


def test_help_names_every_model_and_every_default():
    """The names are read from the sources, and must be those that are accepted."""
    assert list(known_models()) == list(MODEL_NAMES)
    for name, known in known_models().items():
        assert known[:2] == (MODEL_NAMES[name].__name__, first_line(MODEL_NAMES[name]))
        assert known.when.startswith("Take it ")
        assert known.cost in ("low", "medium", "high", "highest")
    assert list(known_features()) == list(FEATURE_NAMES)
    for name, known in known_features().items():
        assert known[:2] == (FEATURE_NAMES[name].__name__, first_line(FEATURE_NAMES[name]))
    listed = runner.invoke(app, ["models"], env={"COLUMNS": "200"}).output
    assert all(f"{known.kind} " in listed for known in known_models().values())
    for command in ("fit", "compare"):
        text = runner.invoke(app, [command, "--help"], env={"COLUMNS": "300"}).output
        words = set(text.replace(",", " ").replace(".", " ").split())
        assert {*MODEL_NAMES, *(f"{name}+" for name in FEATURE_NAMES)} <= words
    assert ",".join(DEFAULT_MODELS) in text
    assert f"[default: ({MOST_ROWS})]" in text


def test_the_package_runs_as_a_module():
    command = [sys.executable, "-m", "colabel", "--version"]
    assert "colabel" in subprocess.run(command, capture_output=True, check=True, text=True).stdout


def test_the_public_names_and_rooms_are_there_without_an_import():
    code = (
        "import colabel\n"
        "import colabel.models\n"  # binds the module colabel.decide, which is also a function
        "assert callable(colabel.decide)\n"
        "assert colabel.datasets.load and colabel.metrics.exact_match\n"
        "assert all(getattr(colabel, name) for name in colabel.__all__)\n"
        "assert set(colabel.__all__) <= set(dir(colabel))\n"
        "assert not hasattr(colabel, 'no_such_name')\n"
    )
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert finished.returncode == 0, finished.stderr
