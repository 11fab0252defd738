"""
Labels in a hierarchy
=====================

A whale is a mammal, and a mammal is an animal. A model that learns each label by itself does not
know that, and its answers contradict themselves. `Rules` say what is known, and a `RuledClassifier`
conditions the joint on it: probabilities stay probabilities, and no answer breaks a rule.
"""

# %%
# Pictures show one living thing or two, and the features are noisy measurements of what they show.
# Each label needs the one above it.

import matplotlib.pyplot as plt
import numpy as np

from colabel import BinaryRelevance, RuledClassifier
from colabel.rules import Rules

parents = {
    "mammal": "animal", "bird": "animal", "tree": "plant", "herb": "plant",
    "whale": "mammal", "bat": "mammal", "eagle": "bird", "penguin": "bird",
    "oak": "tree", "fir": "tree", "mint": "herb", "basil": "herb",
}  # fmt: skip
names = ["animal", "plant", *parents]
kinds = [name for name in names if name not in parents.values()]  # whale, bat, ...

rng = np.random.default_rng(0)
shown = np.zeros((600, len(kinds)), dtype=int)
shown[np.arange(600), rng.integers(len(kinds), size=600)] = 1
shown[np.arange(600), rng.integers(len(kinds), size=600)] = 1
Y = np.zeros((600, len(names)), dtype=int)
for column, name in zip(shown.T, kinds, strict=True):
    while name:
        Y[:, names.index(name)] |= column
        name = parents.get(name, "")
X = Y @ rng.normal(size=(len(names), 12)) + rng.normal(scale=1.3, size=(600, 12))

# %%
# With and without the hierarchy, on rows that neither model has seen:

rules = Rules.hierarchy(parents)
train, test = slice(300), slice(300, None)
plain = BinaryRelevance(C=0.1).fit(X[train], Y[train], label_names=names)
ruled = RuledClassifier(BinaryRelevance(C=0.1), rules).fit(X[train], Y[train], label_names=names)
for title, model in (("without rules", plain), ("with rules", ruled)):
    answers = model.predict(X[test])
    broken = len(np.unique(rules.violations(answers, names).rows))
    right = (answers == Y[test]).all(axis=1).mean()
    loss = -model.joint(X[test]).log_prob(Y[test]).mean()
    print(f"{title}: {broken} of 300 answers break a rule, {right:.0%} right, log-loss {loss:.2f}")

# %%
# The row whose answer breaks most rules. The darker a label, the more probable; those of the answer
# have a thick rim, and a red line joins a label to a parent that the answer lacks.

counts = np.bincount(rules.violations(plain.predict(X[test]), names).rows, minlength=300)
row = X[test][[np.argmax(counts)]]


def place(name):
    """Kinds stand side by side, and every other label above the middle of its children."""
    below = [child for child, parent in parents.items() if parent == name]
    if not below:
        return float(kinds.index(name)), 0
    spots = [place(child) for child in below]
    return float(np.mean([x for x, _ in spots])), spots[0][1] + 1


fig, axes = plt.subplots(2, 1, figsize=(8, 6.4), layout="constrained")
for ax, title, model in zip(axes, ("without rules", "with rules"), (plain, ruled), strict=True):
    prob, answer = (
        dict(zip(names, values[0], strict=True))
        for values in (model.predict_proba(row), model.predict(row))
    )
    for child, parent in parents.items():
        broken = answer[child] and not answer[parent]
        (x, y), (above_x, above_y) = place(child), place(parent)
        style = {"color": "crimson", "lw": 3} if broken else {"color": "0.6", "lw": 1}
        ax.plot([x, above_x], [y, above_y], zorder=1, **style)
    for name in names:
        x, y = place(name)
        ax.scatter(
            x, y, s=1700, c=[prob[name]], cmap="Blues", vmin=0, vmax=2, zorder=2,
            edgecolors="black", linewidths=3 if answer[name] else 0.5,
        )  # fmt: skip
        ax.text(x, y, f"{name}\n{prob[name]:.2f}", ha="center", va="center", fontsize=8, zorder=3)
    ax.set(title=title, ylim=(-0.5, 2.5), xlim=(-0.6, len(kinds) - 0.4))
    ax.axis("off")
