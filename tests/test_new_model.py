"""A new model is one file and an import: nothing else of the library has to name it."""

from __future__ import annotations

import subprocess
import sys
import textwrap

FILE = '''
import numpy as np

from colabel.joint import Tree
from colabel.models import JointClassifier
from colabel.models.label_graph import LabelGraph


class FirstLabelTree(JointClassifier):
    """Every label hangs below the first one; X is not looked at."""

    short_name = "star"

    def __init__(self, smoothing=1.0, *, decision="subset"):
        self.smoothing = smoothing
        self.decision = decision

    def _learn(self, data):
        first, self.log_tables_ = data.codes[:, 0], []
        for i, size in enumerate(data.cardinalities):
            counts = np.full((data.cardinalities[0], size), self.smoothing)
            np.add.at(counts, (first, data.codes[:, i]), 1.0)
            counts = counts.sum(axis=0, keepdims=True) if i == 0 else counts
            self.log_tables_.append(np.log(counts / counts.sum(axis=1, keepdims=True)))

    def _joint(self, X):
        tables = [np.tile(table, (X.shape[0], 1, 1)) for table in self.log_tables_]
        return Tree(self.label_space_, [-1] + [0] * (len(tables) - 1), tables)

    def label_graph(self):
        d = len(self.label_names_)
        return LabelGraph.of_tree(self.label_names_, [-1] + [0] * (d - 1), np.ones((d, d)))
'''

USE = """
import pathlib, sys
import colabel.models
from first_label_tree import FirstLabelTree
colabel.models.FirstLabelTree = FirstLabelTree  # what a line in models/__init__.py does
colabel.models.__all__.append("FirstLabelTree")

from colabel import compare
from colabel.report import comparison_html, graph_text
from colabel.tables import TableRequest, load_table, make_model

assert make_model("star").get_params()["smoothing"] == 1.0
file = pathlib.Path("t.csv")
rows = [f"{i % 5},{i % 2},{(i + i // 3) % 2},{i % 2}" for i in range(60)]
file.write_text("\\n".join(["size,a,b,c", *rows]) + "\\n")
data = load_table(TableRequest(file, ["a", "b", "c"]))
found = compare(data, models=["star"], cv=3)
assert found.recommended == "star" and not found.failed
print(graph_text(found.fit().label_graph()))
page = comparison_html(found)
assert "FirstLabelTree" in page and "--model star" in page and page.count('class="edge ') > 0
"""


def test_one_file_is_enough(tmp_path):
    (tmp_path / "first_label_tree.py").write_text(textwrap.dedent(FILE), encoding="utf-8")
    finished = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(USE)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=tmp_path,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.splitlines() == ["a", "├── b  1.000", "└── c  1.000"]
