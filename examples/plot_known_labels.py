"""
When some labels are known
==========================

`Joint.given` takes labels that are already known, and returns a `Joint` of the rest.
Here somebody answers one question about each image.
"""

# %%
# The model is taught with few rows, so that there is something left to ask.

import matplotlib.pyplot as plt
import numpy as np

from colabel import CTBN
from colabel.datasets import load_digit_traits
from colabel.metrics import exact_match, joint_log_loss

data = load_digit_traits()
names = data.label_names
model = CTBN(C=0.01, random_state=0)
model.fit(data.X[:300], data.Y[:300], label_names=names)
X, Y = data.X[300:], data.Y[300:]
joint = model.joint(X)
print(f"nothing known: exact match {exact_match(Y, joint.mode()):.3f}")

# %%
# Tell the model the true value of one label, and see how many of the *other* labels it gets all
# right. To compare like with like, the gain is measured on the same labels without the hint.

gains = {}
for i, name in enumerate(names):
    others = [j for j in range(len(names)) if j != i]
    hinted = joint.given({name: Y[:, i]}).mode()
    gains[name] = exact_match(Y[:, others], hinted[:, others]) - exact_match(
        Y[:, others], joint.mode()[:, others]
    )

figure, ax = plt.subplots(figsize=(6, 3), layout="constrained")
order = sorted(gains, key=gains.get)
ax.barh(order, [gains[name] for name in order], color="#0072b2")
ax.set_xlabel("gain in exact match of the other labels")
ax.spines[["top", "right"]].set_visible(False)

# %%
# The same by probabilities: what the hint about the best label is worth in nats.

best = order[-1]
i = names.index(best)
known = np.where(np.arange(len(names)) == i, Y, np.nan)
before = joint_log_loss(joint.log_prob(Y))
after = joint_log_loss(joint.given(known).log_prob(Y))
print(f"log-loss a row: {before:.2f}, and {after:.2f} once {best} is known")
