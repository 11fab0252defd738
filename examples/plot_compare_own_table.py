"""
Which model suits my table?
===========================

A data frame whose label columns are named, models tried on the same folds, one recommended, and
what it leaves unsaid.
"""

# %%
# A table of measurements with three labels. One of them, *faulty*, is in a sixth of the rows, and
# the features say only a little about it.

import numpy as np
import pandas as pd

import colabel

rng = np.random.default_rng(0)
n = 600
size, heat = rng.normal(size=(2, n))
large = size + 0.5 * rng.normal(size=n) > 0
slow = rng.random(n) < np.where(large, 0.8, 0.1)
faulty = rng.random(n) < np.where(heat > 0, 0.3, 0.03)
table = pd.DataFrame(
    {
        "size": size,
        "heat": heat,
        "colour": rng.choice(["red", "blue"], n),
        "is_large": large.astype(int),
        "is_slow": slow.astype(int),
        "is_faulty": faulty.astype(int),
    }
)

found = colabel.compare(table, labels="is_*", models=["br", "ctbn", "pcc", "mlknn"], cv=5)
print(found.table[["exact match", "joint log-loss", "macro F1"]].round(3))
print(found.recommended, "-", found.reason)

# %%
# In a notebook, ``found`` alone shows the whole table. The figure of the measure that decides:

found.plot()

# %%
# The recommendation warns: the label *faulty* is hardly ever in the most probable label set.
# Nothing is wrong with the probabilities; what is predicted is a decision, and others can be taken.

for sentence in found.warnings:
    print(sentence)
print(found.decisions.loc[found.recommended].round(3))

# %%
# With thresholds of their own, tuned on rows held out, all labels are predicted. The model is
# fitted to all rows and takes the table as it is.

tuned = colabel.compare(
    table, labels="is_*", models=["br", "ctbn", "pcc", "mlknn"], thresholds=True
)
model = tuned.fit()
print(model)
print("predicted", model.predict(table).mean(axis=0).round(2))
print("true     ", table.filter(like="is_").to_numpy().mean(axis=0).round(2))
