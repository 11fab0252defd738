"""
Are the probabilities true?
===========================

What a model says with probability 0.8 should come true in 80 of 100 cases, for single labels and
for whole label sets.
"""

# %%
# Two models, the same held-out rows. Single labels first, then the most probable set of each row.

import matplotlib.pyplot as plt

from colabel import CTBN, BinaryRelevance
from colabel.datasets import load_digit_traits
from colabel.report import CalibrationDisplay

data = load_digit_traits()
train, test = slice(0, 900), slice(900, None)
figure, axes = plt.subplots(1, 2, figsize=(9, 4.6), layout="constrained")
errors = {}
for model in (BinaryRelevance(C=0.01), CTBN(C=0.01, random_state=0)):
    model.fit(data.X[train], data.Y[train])
    joint = model.joint(data.X[test])
    for ax, of in zip(axes, ("marginals", "joint"), strict=True):
        name = type(model).__name__
        display = CalibrationDisplay.from_joint(joint, data.Y[test], of=of, ax=ax, name=name)
        errors[name, of] = display.reliability.error
axes[0].set_title("single labels")
axes[1].set_title("whole label sets")

# %%
# "Off by" is the mean distance from the diagonal, weighted by the number of rows. Single labels are
# said well. Of whole sets, both models are too cautious: those said with more than one half come
# true more often than that.

for (name, of), error in errors.items():
    print(f"{name:<16} {of:<10} off by {error:.3f}")
