"""
Which label depends on which
============================

`CTBN` learns a tree over the labels. Here the rows are images of digits, and the labels are seven
facts about the digit shown: whether it is even, prime, a square, and so on.
"""

# %%
# Learning takes rows, labels and, for the picture, the names of the labels.

from colabel import CTBN
from colabel.datasets import load_digit_traits
from colabel.report import LabelGraphDisplay, graph_text, label_graph

data = load_digit_traits()
model = CTBN(C=0.01, random_state=0)
model.fit(data.X, data.Y, label_names=data.label_names)

display = LabelGraphDisplay.from_estimator(model)

# %%
# An arrow means that the label at its head is predicted from the image *and* the label at its
# tail. The number says how much the tail helps: the gain in log-likelihood of a held-out row, in
# nats.
#
# The same tree as text:

print(graph_text(label_graph(model)))

# %%
# And as a data frame, strongest arrow first:

label_graph(model).to_frame()
