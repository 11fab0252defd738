"""What the project says of itself: one version, true badges, workflows, marked blanks."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import colabel

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
GITHUB = ROOT / ".github"
# a source distribution is without
in_a_clone = pytest.mark.skipif(not GITHUB.is_dir(), reason="needs the workflows")


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_one_version():
    assert PROJECT["project"]["dynamic"] == ["version"]
    cited = re.search(r"^version: (.*)$", text("CITATION.cff"), re.MULTILINE)
    assert cited is not None
    assert cited[1] == colabel.__version__
    assert f"version = {{{colabel.__version__}}}" in text("docs/citing.md")


def test_what_the_first_lines_of_the_readme_say():
    badges = " ".join(text("README.md").split("\n\n")[1].split())
    assert badges.startswith("Python 3.11 or newer · BSD-3-Clause · typed")
    assert PROJECT["project"]["requires-python"] == ">=3.11"
    assert PROJECT["project"]["license"] == "BSD-3-Clause"
    assert (Path(colabel.__file__).parent / "py.typed").is_file()
    for link in re.findall(r"\]\(([^)]*)\)", badges):
        assert (ROOT / link).is_file(), link


def test_what_is_not_known_yet_is_a_marked_blank():
    """None of them is filled with an address that leads nowhere."""
    assert "urls" not in PROJECT["project"]
    for name in ("pyproject.toml", "CITATION.cff", "SECURITY.md", "docs/citing.md"):
        assert "BLANK" in text(name), name


@in_a_clone
def test_workflows_cover_the_systems_and_versions():
    yaml = pytest.importorskip("yaml")
    test = yaml.safe_load((GITHUB / "workflows" / "test.yml").read_text(encoding="utf-8"))
    matrix = test["jobs"]["test"]["strategy"]["matrix"]
    assert {name.partition("-")[0] for name in matrix["os"]} == {"ubuntu", "macos", "windows"}
    assert matrix["python"] == ["3.11", "3.12", "3.13", "3.14"]
    named = [c.rpartition(" ")[2] for c in PROJECT["project"]["classifiers"] if ":: 3." in c]
    assert set(named) <= set(matrix["python"])
    steps = {
        name: [
            step.get("run", "")
            for job in yaml.safe_load((GITHUB / "workflows" / name).read_text("utf-8"))[
                "jobs"
            ].values()
            for step in job["steps"]
        ]
        for name in ("docs.yml", "wheels.yml")
    }
    assert "make docs" in steps["docs.yml"]
    assert "python -m build" in steps["wheels.yml"]
    assert any("make -C unpacked docs" in step for step in steps["wheels.yml"])
    for name in ("ISSUE_TEMPLATE/bug.yml", "ISSUE_TEMPLATE/idea.yml", "PULL_REQUEST_TEMPLATE.md"):
        assert (GITHUB / name).is_file()
    assert "make docs" in text(".ci/run")


def test_the_source_distribution_has_what_the_site_is_made_of():
    included = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    pages = [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs").glob("guide/*.md")]
    wanted = {
        (page.parent / name).resolve().relative_to(ROOT).parts[0]
        for page in pages
        for name in re.findall(r"\{include\} (\S+)", page.read_text(encoding="utf-8"))
    }
    assert wanted == {"BENCHMARKS.md", "CHANGELOG.md", "RESULTS.md"}
    assert "*.md" in included  # those
    assert {"src", "docs", "examples", "Makefile", "constraints.txt"} <= set(included)


def test_every_page_that_was_promised():
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    guide = ("cost", "large", "large_rows", "imbalance", "calibration", "nonlinear", "saving")
    top = ("faq", "glossary", "citing", "benchmarks", "results", "changelog")
    assert {f"guide/{name}.md" for name in guide} | {f"{name}.md" for name in top} <= pages
    listed = text("docs/index.md") + text("docs/guide/index.md")
    for name in (*guide, *top):
        assert re.search(rf"^{name}$", listed, re.MULTILINE), name


def test_a_hint_names_a_package_that_there_is():
    """`pip install 'colabel[plot]'` would fetch a stranger's package: ours is on no index."""
    ours = re.compile(r"pip install\s+[\"']?colabel|[\"']colabel\[\w")
    for file in Path(colabel.__file__).parent.rglob("*.py"):
        found = ours.findall(file.read_text(encoding="utf-8"))
        assert not found, f"{file}: {found}"


def test_every_attack_has_its_test():
    page, file, n_found = text("tests/attacks.md"), "", 0
    for named, name in re.findall(r"`([\w/]*(?:\.py)?)::(test_\w+)`", page):
        file = named or file
        assert f"def {name}(" in text(f"tests/{file}"), f"{file}::{name}"
        n_found += 1
    lines = [
        line for line in page.splitlines() if line.startswith("| ") and "what became" not in line
    ]
    assert n_found >= len(lines) >= 30
    assert all("::test_" in line for line in lines)
