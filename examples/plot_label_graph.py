"""
A label graph and how it was found
==================================

`PairwiseCRF` learns an undirected graph: two labels are joined where they depend on each other even
when the features and all other labels are known. On a synthetic problem the true graph is known.
"""

# %%
# Here the labels y1 and y2 exclude each other, and y3 stands alone.

import matplotlib.pyplot as plt
import numpy as np

from colabel import PairwiseCRF
from colabel.datasets import load_digit_traits
from colabel.report import LabelGraphDisplay

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, size=(500, 6))
p3, p12 = (1 / (1 + np.exp(-slope * X[:, j : j + 2].sum(axis=1))) for slope, j in ((1, 0), (3, 2)))
either = (rng.random(500) < p12) * (1 + rng.integers(2, size=500))  # 0: none, 1: y1, 2: y2
Y = np.column_stack([either == 1, either == 2, rng.random(500) < p3]).astype(int)
names = ("y1", "y2", "y3")
model = PairwiseCRF(C=1.0, cv=3, random_state=0).fit(X, Y, label_names=names)
print("found:", [(names[i], names[j]) for i, j in model.graph_])

# %%
# How learning kept one edge and dropped the others: the group penalty sets whole edges to zero.

figure, ax = plt.subplots(figsize=(6, 3.5))
for (i, j), alpha in zip(model.candidates_, model.alpha_profile_.T, strict=True):
    ax.plot(alpha, label=f"{names[i]} - {names[j]}")
ax.set(xlabel="iteration", ylabel="norm of the edge")
ax.legend(frameon=False)

# %%
# On the traits of digits every pair of labels keeps an edge, as each digit has a label set of its
# own. The widest edges say most.

digits = load_digit_traits()
model = PairwiseCRF(C=0.01, ridge=10.0, group=0.0, edge_features="none", random_state=0)
model.fit(digits.X[:500], digits.Y[:500], label_names=digits.label_names)
# sphinx_gallery_thumbnail_number = 2
LabelGraphDisplay.from_estimator(model)
