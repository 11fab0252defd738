"""The label-dependency-set mixture on data from a known model, and its time per added label.

Simha and Shatkay's protein data (Table 3) are not to be had. In their place a data set of the same
shape (8503 rows, 30 features, 9 labels) is drawn from a known mixture, and five folds show how
near the learned model comes to the one that drew the rows: F1-label and multi-label accuracy, as
the paper defines them, and the log-loss. Rounds of learning go by the F1-label score, as there.

The second table grows the number of labels, the most common first, up to all 53 of enron; features
are binned and chosen (CFS) for all labels. The paper needed "~20 hours" for yeast and says that
its time grows quadratically with the number of labels.

Usage: python -m benchmarks.lds [--data DIR] [--only recovery labels] [--seed 0]
"""

from __future__ import annotations

import itertools
import time
from typing import Any

import numpy as np
from numpy.random import Generator
from sklearn.pipeline import make_pipeline

from benchmarks._common import machine, parser, print_table
from colabel import LDSMixture, LDSPosterior
from colabel.decide import decide
from colabel.joint.lds.network import DependencySets, FeatureColumns, LDSNetwork
from colabel.metrics import exact_match, f1_label, joint_log_loss, multilabel_accuracy
from colabel.preprocess import FeatureBins
from studies.datasets import iterative_stratification, load
from studies.methods import CorrelationSelector

N_ROWS, N_FEATURES, N_LABELS = 8503, 30, 9
N_VALUES = 4


def known_network(rng: Generator) -> LDSNetwork:
    """A mixture over nine labels, a label in about one row of six, two parents at most."""
    parents = [
        tuple(rng.choice(i, size=min(i, 2), replace=False).tolist()) for i in range(N_LABELS)
    ]
    sets = DependencySets.of(parents, (2,) * N_LABELS)
    columns = FeatureColumns((N_VALUES,) * N_FEATURES)
    most = int(sets.n_states.max())
    alpha = np.zeros((N_LABELS, most))
    phi = np.zeros((N_LABELS, most, columns.n_columns))
    for k, n_states in enumerate(sets.n_states):
        one = rng.beta(0.5, 2.0, size=n_states // 2)
        alpha[k, :n_states] = np.stack([1 - one, one], axis=1).ravel()
        for j in range(N_FEATURES):
            phi[k, :n_states, columns.of(j)] = rng.dirichlet(np.full(N_VALUES, 0.5), n_states)
    every = np.array(list(itertools.product((0, 1), repeat=N_LABELS)), dtype=np.int32)
    theta = rng.dirichlet(np.full(N_LABELS, 0.1), size=(len(every), N_FEATURES))
    weights = np.full(len(every), 1.0 / len(every))
    return LDSNetwork(sets, columns, alpha, every, weights, theta.transpose(0, 2, 1).copy(), phi)


def sample_rows(network: LDSNetwork, n_rows: int, rng: Generator) -> tuple[Any, Any]:
    """Draw labels, parents before children, then every feature given the label vector."""
    sets, columns = network.sets, network.columns

    def draw(table: Any) -> Any:
        return (rng.random((len(table), 1)) >= table.cumsum(axis=1)[:, :-1]).sum(axis=1)

    labels = np.zeros((n_rows, sets.n_labels), dtype=np.int32)
    for i in range(sets.n_labels):  # parents have lower numbers here
        # label i is still 0, so the state is that of its first value, and the others follow
        first = sets.states(labels)[:, i]
        labels[:, i] = draw(network.alpha[i][first[:, None] + np.arange(sets.cardinalities[i])])
    vectors, position = np.unique(labels, axis=0, return_inverse=True)
    conditional = np.exp(network.log_conditional(vectors))[position.reshape(-1)]
    features = [draw(conditional[:, columns.of(j)]) for j in range(columns.n_features)]
    return labels, np.stack(features, axis=1).astype(np.int32)


def skeleton(parents: Any) -> set[tuple[int, int]]:
    """Arcs without their direction."""
    return {(min(i, j), max(i, j)) for i, above in enumerate(parents) for j in above}


def recovery(seed: int) -> None:
    """Print the learned model beside the one that drew the rows, on rows not seen."""
    rng = np.random.default_rng(seed)
    network = known_network(rng)
    Y, X = sample_rows(network, N_ROWS, rng)
    seen = len(np.unique(Y, axis=0))
    print(f"{N_ROWS} rows, {Y.mean() * N_LABELS:.2f} labels a row, {seen} label vectors\n")
    figures: dict[str, list[list[float]]] = {"known model": [], "LDS": [], "LDS, one round": []}
    arcs = []
    for train, test in iterative_stratification(Y, 5, seed):
        for name, rounds in (("LDS", 10), ("LDS, one round", 0)):
            model = LDSMixture(None, criterion="f1", max_rounds=rounds, random_state=0)
            start = time.perf_counter()
            joint = model.fit(X[train], Y[train]).joint(X[test])
            labels = decide(joint)
            figures[name].append(measures(joint, labels, Y[test], time.perf_counter() - start))
            if not rounds:
                found, truth = skeleton(model.network_), skeleton(network.sets.parents)
                arcs.append((len(found & truth), len(found - truth), len(truth)))
        best = LDSPosterior(joint.space, network, X[test])
        figures["known model"].append(measures(best, decide(best), Y[test], 0.0))
    header = ["model", "F1-label", "multi-label accuracy", "exact match", "log-loss", "s a fold"]
    rows = [[name, *(f"{m:.4f}" for m in np.mean(f, axis=0))] for name, f in figures.items()]
    print_table(header, rows)
    right, wrong, true = np.mean(arcs, axis=0)
    print(f"arcs of the first network: {right:.1f} of {true:.0f} found, {wrong:.1f} others\n")


def measures(joint: Any, labels: Any, truth: Any, seconds: float) -> list[float]:
    """F1-label, overlap, exact match, log-loss, and the time."""
    return [
        f1_label(truth, labels),
        multilabel_accuracy(truth, labels),
        exact_match(truth, labels),
        joint_log_loss(joint.log_prob(truth)),
        seconds,
    ]


def time_per_label(data_home: Any) -> None:
    """Print the time of learning and of predicting for more and more labels of enron."""
    data = load("enron", data_home=data_home)
    Y = np.asarray(data.Y.toarray() if hasattr(data.Y, "toarray") else data.Y)
    train, test = iterative_stratification(Y, 10, 0)[0]
    choose = make_pipeline(FeatureBins(4), CorrelationSelector())
    X_train = choose.fit_transform(data.X[train], Y[train])
    X_test = choose.transform(data.X[test])
    common = np.argsort(-Y.sum(axis=0), kind="stable")
    rows, before = [], None
    LDSMixture(None, random_state=0).fit(X_train[:50, :5], Y[train][:50, :3])  # compiles
    for n_labels in (4, 8, 16, 32, 53):
        own = np.sort(common[:n_labels])
        start, start_cpu = time.perf_counter(), time.process_time()
        model = LDSMixture(None, random_state=0).fit(X_train, Y[train][:, own])
        learned, learned_cpu = time.perf_counter() - start, time.process_time() - start_cpu
        start = time.perf_counter()
        joint: Any = model.joint(X_test)
        match = exact_match(Y[test][:, own], decide(joint))
        predicted = time.perf_counter() - start
        added = "–" if before is None else (learned_cpu - before[1]) / (n_labels - before[0])
        before = n_labels, learned_cpu
        rows.append(
            [
                n_labels,
                len(model.label_vectors_),
                f"{learned:.2f}",
                f"{learned_cpu:.2f}",
                added if isinstance(added, str) else f"{added:.3f}",
                f"{predicted:.2f}",
                joint.inference,
                len(model.rounds_),
                f"{match:.3f}",
            ]
        )
    print(
        f"enron: {len(train)} rows to learn from, {len(test)} to predict, "
        f"{X_train.shape[1]} of {data.X.shape[1]} features\n"
    )
    header = ["labels", "label vectors", "s to learn", "CPU s", "CPU s per added label"]
    print_table([*header, "s to predict", "inference", "rounds", "exact match"], rows)


def main() -> None:
    """Run what was asked for."""
    options = parser(__doc__)
    options.add_argument("--only", nargs="+", default=["recovery", "labels"])
    options.add_argument("--seed", type=int, default=0)
    arguments = options.parse_args()
    print(machine() + "\n")
    if "recovery" in arguments.only:
        recovery(arguments.seed)
    if "labels" in arguments.only:
        time_per_label(arguments.data)


if __name__ == "__main__":
    main()
