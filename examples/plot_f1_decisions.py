"""
Deciding for F1
===============

`predict` returns the label set with the smallest expected loss. Which set that is depends on the
loss: on rows where the model is in doubt, the best set for F1 is larger than the most probable one.
"""

# %%
# One fitted model, four decisions. `decide` needs only the `Joint`, so nothing is fitted twice.

import matplotlib.pyplot as plt

from colabel import CTBN, decide
from colabel.datasets import load_digit_traits
from colabel.metrics import exact_match, f1_score, hamming_accuracy, multilabel_accuracy

data = load_digit_traits()
model = CTBN(C=0.01, random_state=0)
model.fit(data.X[:150], data.Y[:150], label_names=data.label_names)
Y = data.Y[150:]
joint = model.joint(data.X[150:])
decisions = {loss: decide(joint, loss) for loss in ("subset", "hamming", "f1", "jaccard")}

# %%
# Every decision is made for one measure.

print(f"{'decision':>9} {'exact':>7} {'Hamming':>8} {'F1':>7} {'Jaccard':>8} {'labels a row':>13}")
for loss, labels in decisions.items():
    print(
        f"{loss:>9} {exact_match(Y, labels):7.3f} {hamming_accuracy(Y, labels):8.3f} "
        f"{f1_score(Y, labels, average='samples'):7.3f} {multilabel_accuracy(Y, labels):8.3f} "
        f"{labels.sum(axis=1).mean():13.2f}"
    )

# %%
# The more uncertain the row, the more labels the decision for F1 predicts beyond the mode.

extra = decisions["f1"].sum(axis=1) - decisions["subset"].sum(axis=1)
figure, ax = plt.subplots(figsize=(6, 3), layout="constrained")
entropy = joint.entropy()
ax.boxplot([entropy[extra == n] for n in range(3)], orientation="horizontal", widths=0.6)
ax.set_yticks([1, 2, 3], ["none", "one", "two"])
ax.set_ylabel("extra labels for F1")
ax.set_xlabel("entropy of the row, in nats")
ax.spines[["top", "right"]].set_visible(False)
