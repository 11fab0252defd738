"""Reports draw records, models speak for themselves, and joints are asked, not told apart.

As in `test_layers`, files are parsed, not imported. Each rule is a function from the text of a file
to the sentences it deserves; the tests at the end show each the code that it was made for.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "src" / "colabel"
FILES = sorted(PACKAGE.rglob("*.py"))

# A sentence may propose a model or two instead of another; from three on it is a list.
MOST_NAMED = 2
LITERALS = ast.Constant, ast.JoinedStr, ast.Tuple, ast.List, ast.Set, ast.Dict
# What Joint has besides questions: a record or a table may well have it too.
NO_QUESTION = frozenset({"rows", "to_frame"})


def exported(room: str) -> frozenset[str]:
    """The class names that a room's own file lists, for the type checker or to import."""
    stub = PACKAGE / room / "__init__.pyi"
    file = stub if stub.exists() else stub.with_suffix(".py")
    tree = ast.parse(file.read_text(encoding="utf-8"))
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    names = {alias.name for node in imports for alias in node.names}
    return frozenset(name for name in names if name[0].isupper())


def questions() -> frozenset[str]:
    """What a joint can be asked, and what a model does."""
    tree = ast.parse((PACKAGE / "joint" / "base.py").read_text(encoding="utf-8"))
    joint = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "Joint")
    methods = {node.name for node in joint.body if isinstance(node, ast.FunctionDef)}
    public = {name for name in methods if not name.startswith("_")}
    return frozenset(public - NO_QUESTION | {"joint", "fit", "predict", "predict_proba"})


MODELS = exported("models")
FAMILIES = exported("joint") - {"Joint"}
QUESTIONS = questions()


def asking(code: str) -> Iterator[str]:
    """Calls of what only a joint or a model answers."""
    for node in ast.walk(ast.parse(code)):
        method = node.func if isinstance(node, ast.Call) else None
        if isinstance(method, ast.Attribute) and method.attr in QUESTIONS:
            yield f"line {node.lineno} asks .{method.attr}(): put the answer into the record"


def listing(code: str) -> Iterator[str]:
    """Literals, of text or of several texts, that name many models; docstrings may."""
    tree = ast.parse(code)
    documentation = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)
    }  # a string that stands alone says something to the reader only
    for node in ast.walk(tree):
        if not isinstance(node, LITERALS) or id(node) in documentation:
            continue
        parts = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant)]
        words = re.findall(r"\w+", " ".join(part for part in parts if isinstance(part, str)))
        named = MODELS & set(words)
        if len(named) > MOST_NAMED:
            yield f"line {node.lineno} lists {sorted(named)}: let each declare it in its own file"


def telling_apart(code: str) -> Iterator[str]:
    """Tests for several families of joints; one may be looked for, for what it alone has."""
    found: dict[str, int] = {}
    for node in ast.walk(ast.parse(code)):
        is_test = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance"
        for name in ast.walk(node.args[1]) if is_test else ():
            if isinstance(name, ast.Name) and name.id in FAMILIES:
                found.setdefault(name.id, node.lineno)
    if len(found) > 1:
        yield f"tells {sorted(found)} apart (line {min(found.values())}): ask what all joints say"


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0]


def sentences(path: Path) -> list[str]:
    code = path.read_text(encoding="utf-8")
    found: list[str] = []
    # displays are made of joints and models, as scikit-learn's are
    if room_of(path) == "report" and path.name != "displays.py":
        found += asking(code)
    if path.name != "__init__.py":
        found += listing(code)
    if room_of(path) != "joint":
        found += telling_apart(code)
    return [f"{path.relative_to(PACKAGE)}: {sentence}" for sentence in found]


@pytest.mark.parametrize("room", sorted({room_of(path) for path in FILES}))
def test_a_room_keeps_the_rules(room):
    found = [sentence for path in FILES if room_of(path) == room for sentence in sentences(path)]
    assert not found, "\n" + "\n".join(found)


# ------------------------------------------------------------------------- the rules themselves


def test_the_rules_know_what_there_is():
    assert {"mode_codes", "top_k_codes", "pair_table", "joint", "given"} <= QUESTIONS
    assert {"CTBN", "MLkNN", "ClassifierChain"} <= MODELS
    assert {"Tree", "Chain", "DependencyNetwork"} <= FAMILIES


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        (asking, "codes, log_prob = joint.top_k_codes(3)"),
        (asking, "def page(model, X):\n    return draw(model.joint(X))"),
        (asking, "table = unwrapped(model)[0].fit(X, Y)"),
        (listing, '_FITTING = (\n    "BinaryRelevance, ClassifierChain,"\n    " CTBN and CDN"\n)'),
        (listing, 'if name in ("CTBN", "CDN", "IBLR"):\n    pass'),
        (listing, 'raise TypeError(f"{name} is not one of CTBN, CDN and IBLR.")'),
        (telling_apart, "isinstance(joint, Chain | DependencyNetwork | DiscreteDependencyNetwork)"),
        (telling_apart, "a = isinstance(joint, Tree)\nb = isinstance(joint, Chain)"),
    ],
)
def test_rules_catch(rule, code):
    assert list(rule(code))


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        (asking, "rows = exploration.rows\nframe = results.to_frame()\nmode = record.mode"),
        (listing, '"""CTBN, CDN and IBLR learn that."""'),
        (listing, 'raise ValueError("There is no joint: use BinaryRelevance or CTBN.")'),
        (telling_apart, "greedy = isinstance(joint, Chain) and joint.inference == BeamSearch(1)"),
        (telling_apart, "isinstance(value, np.ndarray | list)"),
    ],
)
def test_rules_allow(rule, code):
    assert not list(rule(code))
