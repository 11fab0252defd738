"""
Why does this row have these labels?
====================================

`feature_evidence` takes the log-odds of each label apart: what holds for an average row, what each
column of this row adds, and what the other labels add. Here the columns are pixels, so that what
speaks for a label can be drawn.
"""

# %%
# An image that could be an 8 or a 1 (the one of the README). `PairwiseCRF` is linear in the
# columns and in the other labels, so that its terms are exact. A line for each label; *for* and
# *against* name the strongest terms.

import matplotlib.pyplot as plt
import numpy as np

from colabel import CTBN, PairwiseCRF, feature_evidence
from colabel.datasets import load_digit_traits

data = load_digit_traits()
names, X, row = data.label_names, data.X[1500:], 290
model = PairwiseCRF(C=0.01, random_state=0)
model.fit(data.X[:1500], data.Y[:1500], label_names=names)
evidence = feature_evidence(model, X, row)
print(evidence)

# %%
# The terms sum to the log-odds of the label, given that the others are as in the answer:

place = names.index("loop")
print("answer:", [name for name, on in zip(names, evidence.answer, strict=True) if on])
print(f"an average row     {evidence.average[place]:+.2f}")
print(f"its columns        {evidence.columns[place].sum():+.2f}")
print(f"its other labels   {evidence.labels[place].sum():+.2f}")
print(f"log-odds of loop   {evidence.log_odds[place]:+.2f}")

# %%
# The columns as a picture: purple pixels speak for the label, orange ones against it. Against
# *loop* speaks the ink where an 8 has its two holes.

figure, axes = plt.subplots(1, 4, figsize=(9, 2.6), layout="constrained")
axes[0].imshow(X[row].reshape(8, 8), cmap="gray_r")
axes[0].set_title("the image")
most = np.abs(evidence.columns).max()
for ax, name in zip(axes[1:], ["loop", "even", "prime"], strict=True):
    terms = evidence.columns[names.index(name)].reshape(8, 8)
    drawn = ax.imshow(terms, cmap="PuOr", vmin=-most, vmax=most)
    ax.set_title(name)
for ax in axes:
    ax.axis("off")
figure.colorbar(drawn, ax=axes, label="log-odds", shrink=0.8)

# %%
# The other labels: each row of the picture is a label, and its columns are what the others, as they
# are in the answer, add to its log-odds. The pixels add little to *loop*; it is there because the
# others are: an even number above four that is not prime is an 8 or a 6.

figure, ax = plt.subplots(figsize=(5, 3.6), layout="constrained")
most = np.abs(evidence.labels).max()
drawn = ax.imshow(evidence.labels[:, :-1], cmap="PuOr", vmin=-most, vmax=most)
ticks = [f"{name}{'' if on else ' (not)'}" for name, on in zip(names, evidence.answer, strict=True)]
ax.set_xticks(range(len(names)), ticks, rotation=40, ha="right")
ax.set_yticks(range(len(names)), names)
ax.set(xlabel="what this label of the answer adds …", ylabel="… to the log-odds of this one")
figure.colorbar(drawn, ax=ax, label="log-odds")

# %%
# Every other model gets Shapley values: the columns are replaced one after the other, in random
# order, by those of other rows, and a column adds what the log-odds gain on average. They have
# standard errors. With ``given``, labels that are known speak too.

tree = CTBN(C=0.01, random_state=0)
tree.fit(data.X[:1500], data.Y[:1500], label_names=names)
known = feature_evidence(tree, X, row, labels=["even"], given={"loop": 0}, n_orders=20)
print(known.table[["label", "kind", "name", "log_odds", "error"]].head(8).round(2))

# %%
# All of this describes the model, not the world: a term says what the model reads in a column, not
# what would happen if somebody changed it. On the command line, ``colabel explain model.colabel
# table.csv --row 17`` prints the same, and ``--html page.html`` draws it.
