"""
The whole set, not label by label
=================================

The most probable *set* of labels is not the set of the labels that are probable one by one. The
difference shows where an image could be one of two digits.
"""

# %%
# Row 1557 is held out. It shows a 2.

import matplotlib.pyplot as plt
import numpy as np

from colabel import CTBN
from colabel.datasets import load_digit_traits
from colabel.report import JointProbabilityDisplay

data = load_digit_traits()
names = data.label_names
model = CTBN(C=0.01, random_state=0)
model.fit(data.X[:1500], data.Y[:1500], label_names=names)
joint = model.joint(data.X[[1557]])

figure, (left, right) = plt.subplots(1, 2, figsize=(8, 2.6), width_ratios=[1, 3])
left.imshow(data.X[1557].reshape(8, 8), cmap="gray_r")
left.set_axis_off()
JointProbabilityDisplay.from_joint(joint, k=4, ax=right)
figure.tight_layout()

# %%
# The best set is that of a 2, which is right. Asked label by label, the answer is a set that no
# digit has.


def as_set(labels):
    """Return the names of the labels that are on."""
    return ", ".join(name for name, on in zip(names, labels, strict=True) if on)


one_by_one = (joint.marginals()[0] > 0.5).astype(int)
print("together:  ", as_set(joint.mode()[0]))
print("one by one:", as_set(one_by_one))
print("rows of the data with that set:", (one_by_one == data.Y).all(axis=1).sum())

# %%
# How probable are both answers as sets?

for labels in (joint.mode()[0], one_by_one):
    print(f"{np.exp(joint.log_prob(labels))[0]:.4f}  {as_set(labels)}")
