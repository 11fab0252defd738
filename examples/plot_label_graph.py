"""
A label graph and how it was found
==================================

`PairwiseCRF` learns an undirected graph: two labels are joined where they depend on each other even
when the features and all other labels are known. On a synthetic problem the true graph is known.
"""

# %%
# In the problem SD2 the labels y1 and y2 exclude each other, and y3 stands alone.

from colabel import PairwiseCRF
from colabel.datasets import SYNTHETIC_GRAPHS, load_digit_traits, make_synthetic
from colabel.report import LabelGraphDisplay, plot_alpha_profile

data = make_synthetic("SD2", n_rows=500, random_state=0)
model = PairwiseCRF(C=1.0, cv=3, random_state=0).fit(data.X, data.Y, label_names=data.label_names)
found = [(data.label_names[i], data.label_names[j]) for i, j in model.graph_]
print("true: ", SYNTHETIC_GRAPHS["SD2"])
print("found:", found)

# %%
# How learning kept one edge and dropped the others: the group penalty sets whole edges to zero.

plot_alpha_profile(model.alpha_profile_, model.candidates_, data.label_names)

# %%
# On the traits of digits every pair of labels keeps an edge, as each digit has a label set of its
# own. The widest edges say most.

digits = load_digit_traits()
model = PairwiseCRF(C=0.01, ridge=10.0, group=0.0, edge_features="none", random_state=0)
model.fit(digits.X[:500], digits.Y[:500], label_names=digits.label_names)
# sphinx_gallery_thumbnail_number = 2
LabelGraphDisplay.from_estimator(model)
