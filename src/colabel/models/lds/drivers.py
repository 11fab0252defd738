"""Which labels drive a feature: the answer of a fitted mixture, as numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from colabel.core.arrays import Array, Codes
from colabel.joint.lds.network import LDSNetwork

__all__ = ["FeatureDrivers", "feature_drivers", "information_table"]


class FeatureDrivers(NamedTuple):
    """How one feature depends on the label dependency sets.

    Attributes
    ----------
    feature : str
        Name of the feature.
    values : tuple of V str
        What its values mean.
    labels : tuple of d str
        Names of the labels; set k belongs to label k.
    sets : tuple of d tuples of str
        Names of the labels of each set: the parents, then the label itself.
    weights : (d,) array
        Probability that the feature's value comes from each set.
    information : (d,) array
        What the state of each set says about the feature where the value comes from it, in nats.
    states : tuple of d tuples of S_k tuples of str
        Values that the labels of each set have in each of its states.
    tables : tuple of d arrays (S_k, V)
        Probability of each value in each state of each set.
    state_prob : tuple of d arrays (S_k,)
        How probable the states are before the feature is seen.
    """

    feature: str
    values: tuple[str, ...]
    labels: tuple[str, ...]
    sets: tuple[tuple[str, ...], ...]
    weights: Array
    information: Array
    states: tuple[tuple[tuple[str, ...], ...], ...]
    tables: tuple[Array, ...]
    state_prob: tuple[Array, ...]

    @property
    def strength(self) -> Array:
        """Weight times information of each set, (d,)."""
        return self.weights * self.information

    def state_name(self, k: int, state: int) -> str:
        """Say which values the labels of set k have in a state."""
        pairs = zip(self.sets[k], self.states[k][state], strict=True)
        return ", ".join(f"{label}={value}" for label, value in pairs)

    def to_text(self, n_sets: int = 3) -> str:
        """Say it for people, the strongest sets first, in the states that occur."""
        lines = [f"{self.feature}:"]
        for k in np.argsort(-self.strength, kind="stable")[:n_sets]:
            lines.append(
                f"  {', '.join(self.sets[k])}: weight {self.weights[k]:.2f}, "
                f"{self.information[k]:.3f} nats"
            )
            for state in np.flatnonzero(self.state_prob[k] > 0):
                row, prob = self.tables[k][state], self.state_prob[k][state]
                best = int(row.argmax())
                lines.append(
                    f"    {self.state_name(k, int(state))} ({prob:.2f} of rows): "
                    f"{self.values[best]} ({row[best]:.2f})"
                )
        return "\n".join(lines)


def feature_drivers(
    network: LDSNetwork,
    j: int,
    *,
    feature: str,
    values: tuple[str, ...],
    labels: tuple[str, ...],
    label_values: tuple[tuple[str, ...], ...],
    vector: Codes | None = None,
) -> FeatureDrivers:
    """Read from the parameters what drives feature j.

    Parameters
    ----------
    network : LDSNetwork
    j : int
        The feature.
    feature, values, labels, label_values
        What the feature, its values, the labels and their values are called.
    vector : (d,) array of int, optional
        Weights given this label vector; by default averaged over the training rows.
    """
    sets = network.sets
    tables = [
        network.phi[k, :n_states, network.columns.of(j)] for k, n_states in enumerate(sets.n_states)
    ]
    prob = state_probabilities(network)
    return FeatureDrivers(
        feature=feature,
        values=values,
        labels=labels,
        sets=tuple(tuple(labels[i] for i in members) for members in sets.members),
        weights=mean_weights(network, vector)[:, j],
        information=np.array([_information(p, t) for p, t in zip(prob, tables, strict=True)]),
        states=tuple(
            tuple(
                tuple(label_values[i][v] for i, v in zip(members, state, strict=True))
                for state in sets.assignments(k)
            )
            for k, members in enumerate(sets.members)
        ),
        tables=tuple(tables),
        state_prob=tuple(prob),
    )


def information_table(network: LDSNetwork) -> Array:
    """Weight times information of each dependency set for each feature, (p, d) in nats."""
    weights, prob = mean_weights(network, None), state_probabilities(network)
    found = np.empty((network.columns.n_features, network.sets.n_labels))
    for j in range(network.columns.n_features):
        for k, n_states in enumerate(network.sets.n_states):
            table = network.phi[k, :n_states, network.columns.of(j)]
            found[j, k] = weights[k, j] * _information(prob[k], table)
    return found


def mean_weights(network: LDSNetwork, vector: Codes | None) -> Array:
    """Mixture weights (d, p) of a label vector, or averaged over the training rows."""
    if vector is None:
        share = network.vector_weights / network.vector_weights.sum()
        mean: Array = np.einsum("u,ukj->kj", share, network.theta)
        return mean
    position = int(network.seen_positions(vector[None])[0])
    return network.fallback if position < 0 else network.theta[position]


def state_probabilities(network: LDSNetwork) -> list[Array]:
    """How frequent each state of each set is in the training rows, d arrays (S_k,)."""
    states = network.sets.states(network.vectors)
    share = network.vector_weights / network.vector_weights.sum()
    return [
        np.bincount(states[:, k], share, minlength=n_states).astype(np.float64)
        for k, n_states in enumerate(network.sets.n_states)
    ]


def _information(prob: Array, table: Array) -> float:
    """Mutual information of a state with probabilities (S,) and a value, table (S, V)."""
    mean = prob @ table
    ratio = np.where(table > 0, table / np.where(mean > 0, mean, 1.0), 1.0)
    logs = np.log(np.where(ratio > 0, ratio, 1.0))
    return max(0.0, float(prob @ (table * logs).sum(axis=1)))
