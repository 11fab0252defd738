"""A small plan on the bundled data."""

from __future__ import annotations

import textwrap

import pytest

from studies.plan import load_plan

PLAN = """
title = "Small"
reference = "CTBN"
measures = ["exact_match", "log_loss_sum_per_fold"]
steps = ["StandardScaler"]

[protocol]
kind = "random"
splits = 3
train = 60
test = 40

[[datasets]]
name = "digit_traits"

[methods.BR]
model = "BinaryRelevance"
C = 1.0

[methods.CTBN]
model = "CTBN"
C = 1.0
random_state = 0
cv = 3

[quick]
protocol = { kind = "random", splits = 2, train = 30, test = 30 }
"""


@pytest.fixture
def write_plan(tmp_path):
    def write(text=PLAN, name="small.toml"):
        path = tmp_path / name
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    return write


@pytest.fixture
def plan(write_plan):
    return load_plan(write_plan())
