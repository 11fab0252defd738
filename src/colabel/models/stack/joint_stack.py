"""JointStack: several joint models as one, weighted by held-out likelihood."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import field
from functools import partial
from numbers import Integral
from typing import Annotated, Any, ClassVar

import numpy as np
from joblib import Parallel, delayed

from colabel.core.arrays import Indices, is_sparse, n_label_columns
from colabel.core.estimators import attribute
from colabel.core.progress import deadline, progress_bar
from colabel.core.schema import POSITIVE, Between, Estimator, bind, stored
from colabel.core.warning import warn
from colabel.joint import Joint
from colabel.labels import EncodedLabels, LabelSpace
from colabel.learn.conditional import Folds, TrainingData, random_folds
from colabel.learn.pool import HeldOutExperts, LabelPrior, Pool, learn_pool, pool_of
from colabel.learn.row_hashing import row_digests
from colabel.models.base import JointClassifier
from colabel.models.cross_fitting import (
    EXPECTED,
    Member,
    Prepared,
    counted,
    held_out_experts,
    held_out_folds,
    part_joints,
    require_joint,
    why,
    with_frequencies,
)
from colabel.models.label_graph import LabelGraph
from colabel.models.learning import can_hold_out, make_folds, seeded
from colabel.models.stack.members import checked_members, default_members, takes_nan
from colabel.models.wrapped import joint_of

_PILOT_ROWS = 200  # at least, by which costs are measured
_MANY_NUMBERS = 2e6  # of features and labels, beyond which costs are measured in any case
_SHARE_OF_PILOTS = 0.3  # of the time limit, in which costs are measured at most
# Of a component in the first fold, below which a member is not fitted again.
_LEAST_WEIGHT, _LEAST_EXPONENT = 0.01, 0.1
_LONG_SECONDS = 120.0
_SHARE_OF_LIMIT = 0.8  # of the time limit that members are chosen for: estimates err
_FEWEST_ROWS, _MANY_ROWS = 50, 20_000  # before there are fewer, members are given up
# Labels of held-out rows that members are asked about, and the fewest rows.
_MOST_ASKED, _FEWEST_ASKED = 2e5, 500
_PARTS_OF_ONE = 3  # in which the rows of a single split are cut to judge the pool


@stored("joint-stack")
class JointStack(JointClassifier):
    r"""Several models as one joint, pooled by weights learned from held-out answers.

    Take it if in doubt: it is the most accurate here, and takes longest. Cost: highest.

    Members are asked about rows that they have not seen: trees out of bag, and others fitted to all
    folds but one. From their answers are learned

    - the weights of their mixture, ``P_0 = sum_m w_m P_m``: a concave problem, solved by EM;
    - the exponents of a product of experts over the vectors that some member finds probable,
      ``Q(y | x) ∝ exp(b [y is new]) prod_m P_m(y | x)^{a_m}``: a concave problem too, unless
      labels are missing. A row that lacks some speaks for the listed vectors that agree with it.

    The joint gives the listed vectors the mixture's mass of the list, shared by the pool, and all
    others what the mixture says. Exponents temper members that are too sure of themselves, and b is
    the price of a label vector that no training row has. Where the pool is no better than the
    mixture on rows held out once more, the mixture stays. At last the members are fitted to all
    rows. Trees are grown, and chains choose C and label scales, only once, on all rows. A member
    that has neither weight nor exponent in the first fold is not fitted again.

    One more member costs nothing and is always there: how often label vectors occur. Of a
    `JointForest` the leaves are a component too: what they hold is the sharpest view of the
    rows nearby, which the smooth parts of its joint blur.

    Parameters
    ----------
    members : "auto", or list of models or of pairs (name, model)
        Models of colabel with a joint, or pipelines that end with one. By default, what suits the
        data: a `JointForest` of random and one of extra trees; a chain on x; for dense x random
        fields on `SplineFeatures` and on `KernelFeatures`, and one on `BoostedFeatures`. Of more
        than eight labels, or of class variables, chains instead of fields; with missing features
        (NaN), only what sees x through trees. Of more than
        400 labels independent regressions instead of chains; of large data no boosting.
    cv : int, float, splitter or iterable
        How rows are held out: a number of folds, a fraction, a scikit-learn splitter, or pairs
        of index arrays (train, test). The rows of a single split are cut into three parts, to
        judge the pool.
    n_listed : int
        How many of its most probable vectors each member names, a row.
    time_limit : float or None
        Seconds that `fit` may take. Members are fitted to some rows first, to see what they cost.
        Of more than 20,000 rows some are left out if there is no time for all members on all rows;
        then the dearest members are; both with a warning. A member that takes longer than it should
        is stopped. What is fitted depends on the machine then.
    n_jobs : int or None
        Joblib workers over the folds after the first (None: one after the other; joblib's backends
        reach Dask clusters too).
    random_state : int, RandomState or None
        Seed of the folds, and of members without a seed of their own.

    Attributes
    ----------
    members_ : list of fitted models
    member_names_ : list of str
    component_names_ : list of str
        What is pooled: the members, parts of them ("forest, leaves"), and the "frequencies" of
        label vectors.
    prior_ : LabelPrior
        How often label vectors occur.
    pool_ : Pool
        Weights and exponents as arrays, and how a joint follows from them.
    weights_ : dict of str to float
        Weight of each component in the mixture.
    exponents_ : dict of str to float, or None
        Exponent of each component in the pool, and "new" for b; None where the mixture stayed.
    held_out_log_loss_ : dict of str to float
        Nats per row held out, of each component and of the "stack" itself (which has seen them
        only to learn these few numbers).

    Notes
    -----
    A member that cannot learn from some folds, or cannot answer for the rows held out, is left out
    with a warning, and what the others have computed is kept.

    References
    ----------
    D. H. Wolpert: Stacked generalization. Neural Networks 5, 1992.
    G. E. Hinton: Training products of experts by minimizing contrastive divergence. Neural
    Computation 14, 2002.

    Examples
    --------
    >>> from colabel import BinaryRelevance, CTBN, JointStack
    >>> from colabel.datasets import load_digit_traits
    >>> data = load_digit_traits()
    >>> members = [("alone", BinaryRelevance(C=0.01)), ("tree", CTBN(C=0.01))]
    >>> model = JointStack(members, cv=3, random_state=0).fit(data.X[:300], data.Y[:300])
    >>> sorted(model.weights_)
    ['alone', 'frequencies', 'tree']
    >>> model.predict(data.X[-1:]).shape
    (1, 7)
    """

    members: Any = field(default="auto", kw_only=False)
    cv: Any = 3
    n_listed: Annotated[int, Between(1)] = 12
    time_limit: Annotated[float | None, POSITIVE] = None
    calibrate: ClassVar[bool] = False  # type: ignore[misc]
    members_: Annotated[list[Any], "m sizes p", Estimator(does="joint")] = attribute()
    member_names_: Annotated[list[str], "m"] = attribute()
    component_names_: Annotated[list[str], "v"] = attribute()
    prior_: Annotated[LabelPrior, "d sizes"] = attribute()
    pool_: Annotated[Pool, "m=v"] = attribute()
    held_out_log_loss_: Any | None = attribute()

    @staticmethod
    def _check_stored(fields: dict[str, Any], dims: dict[str, Any]) -> None:
        n_components = 1  # of the prior
        for member in fields["members_"]:
            if member.last.declared is None:  # of a foreign type, whose parts nobody knows yet
                return
            n_components += 1 + len(getattr(member.last.declared.type, "part_names", ()))
        bind(dims, "v", n_components, "what the members say")

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not (isinstance(self.members, str) and self.members == "auto"):
            for _, model in checked_members(self.members):
                require_joint(model)

    def _learn(self, data: TrainingData) -> None:
        started = time.monotonic()
        seed = self._seed()
        data, folds = counted(data, make_folds(data, self.cv, seed))
        if isinstance(self.cv, Integral):
            folds = _enough_asked(data, _copies_apart(data, folds, seed), seed)
        auto = isinstance(self.members, str)
        given = default_members(data) if auto else checked_members(self.members)
        members = [Member(name, seeded(model, seed)) for name, model in given]
        space, shown, limit = self.label_space_, bool(self.verbose), self.time_limit
        end = np.inf if limit is None else started + limit
        numbers = data.X.nnz if is_sparse(data.X) else data.X.size
        numbers += data.n_rows * (n_label_columns(data.cardinalities) + data.n_features**0.5)
        many = _MANY_NUMBERS
        if shown:  # of few rows, to measure the default's cost would cost as much again
            many = _MANY_NUMBERS / 10 if auto else 0
        if limit is not None or numbers > many:
            measure_costs(members, data, folds, space, self.n_listed, limit, seed)
        if limit is not None:
            members.sort(key=lambda member: member.seconds(data.n_rows))
            left = started + _SHARE_OF_LIMIT * limit - time.monotonic()
            n_kept = rows_within(left, members, data.n_rows)
            if n_kept < data.n_rows:
                message = f"To keep to time_limit={limit} s the stack learns from {n_kept:,} of"
                warn(f"{message} {data.n_rows:,} rows.")
                rows = np.sort(np.random.default_rng(seed).permutation(data.n_rows)[:n_kept])
                data, folds = counted(data.take(rows), Folds(folds.of_row[rows], folds.n_folds))
        held_out = held_out_folds(folds) if can_hold_out(folds) else []
        self._say_cost(members, data.n_rows, len(held_out))
        labels = EncodedLabels(space, data.codes)
        self.prior_ = LabelPrior.of(data)
        failures: dict[str, str] = {}
        useless: set[str] = set()
        seconds = {member.name: member.cost @ [1.0, data.n_rows] for member in members}

        def alive() -> list[Member]:
            return [m for m in members if m.name not in failures and m.name not in useless]

        def tried(stage: Callable[..., None], some: list[Member]) -> None:
            """Begin or finish members, as far as there is time, and the first in any case."""
            prepared: Prepared = {}
            before = time.monotonic()
            for position, member in enumerate(some):
                known = [m for m in some[:position] if m.name not in failures]
                now = time.monotonic()
                # estimates err: those to come as much as those until now
                expected = sum(seconds[m.name][0] for m in known) if stage is Member.begin else 0
                error = np.clip((now - before) / expected, 0.25, 4.0) if expected > 0 else 1.0
                later = error * sum(seconds[m.name][1] for m in known)
                over = position and now + later + error * seconds[member.name].sum() > end
                if stage is Member.begin and over:
                    failures[member.name] = f"time_limit={limit} s leaves it no time."
                    continue
                try:
                    with deadline(end - later if position else np.inf):
                        stage(member, data, labels, prepared)
                except (*EXPECTED, TimeoutError) as exception:
                    failures[member.name] = why(exception)
                done()

        answers: list[tuple[list[str], HeldOutExperts]] = []

        def ask(some: list[int], parallel: Parallel) -> None:
            asked = alive()
            calls = (
                delayed(held_out_experts)(asked, data, space, *sides, self.n_listed, self.prior_)
                for own in (folds.of_row == f for f in some)
                for sides in [(np.flatnonzero(~own), np.flatnonzero(own))]
            )
            with deadline(end), suppress(TimeoutError):  # folds asked until then are enough
                for held, failed, chosen in parallel(calls):
                    failures.update({asked[m].name: reason for m, reason in failed.items()})
                    for member, model in zip(asked, chosen, strict=True):
                        member.chosen = model
                    answers.append(([n for m in asked for n in m.component_names], held))
                    done()

        with progress_bar("stacking", 2 * len(members) + len(held_out), shown=shown) as done:
            tried(Member.begin, members)
            if held_out and alive():
                # what the first fold shows to be useless is not fitted again
                ask(held_out[:1], Parallel())
            if answers:
                useless |= without_weight(alive(), *answers[0])
            if len(held_out) > 1 and answers and alive():
                ask(held_out[1:], Parallel(n_jobs=self.n_jobs, return_as="generator"))
            tried(Member.finish, alive())
        self._keep(alive(), failures)
        tested = [np.flatnonzero(folds.of_row == f) for f in held_out[: len(answers)]]
        if len(tested) == 1:
            # the pool is judged by rows that its exponents have not seen: parts of the only fold
            fold = random_folds(data.take(tested[0]), _PARTS_OF_ONE, seed).of_row
        else:
            fold = np.repeat(np.arange(len(tested)), [len(rows) for rows in tested])
        self._learn_pool(answers, fold)

    def _say_cost(self, members: list[Member], n_rows: int, n_folds: int) -> None:
        """Say what is fitted and how long it will take, if asked or if it is long."""
        total = sum(member.seconds(n_rows) for member in members)
        expected = f"{total:.0f} s" if total < 100 else f"{total / 60:.0f} min"
        expected = f"about {expected}" if total > 0 else "some seconds"
        if self.verbose:
            names = ", ".join(member.name for member in members)
            sys.stderr.write(
                f"JointStack: {len(members)} members ({names}), {n_folds} folds, {expected};"
                f" predict will minimise the {self.decision_rule()!r} loss\n"
            )
        elif self.time_limit is None and total > _LONG_SECONDS:
            warn(
                f"JointStack expects to take {expected} on these {n_rows:,} rows. Give"
                " time_limit=seconds for an earlier end, or verbose=1 to see how far it is.",
            )

    def _allows_nan(self) -> bool:
        if hasattr(self, "members_"):  # by default, those fitted to rows without gaps take none
            return all(takes_nan(model) for model in self.members_)
        if isinstance(self.members, str):
            return True
        try:
            return all(takes_nan(model) for _, model in checked_members(self.members))
        except ValueError:  # raised again by fit
            return False

    def _keep(self, kept: list[Member], failures: dict[str, str]) -> None:
        """Keep the members that could be fitted, and say which could not."""
        if not kept:
            raise ValueError(
                "No member of the stack could be fitted: "
                + "; ".join(f"{name}: {reason}" for name, reason in failures.items())
            )
        for name, reason in failures.items():
            message = f"The member {name!r} is left out of the stack: {reason}"
            warn(message)
        self.members_ = [member.fitted for member in kept]
        self.member_names_ = [member.name for member in kept]
        self.component_names_ = [*(n for m in kept for n in m.component_names), "frequencies"]

    def _learn_pool(self, answers: list[tuple[list[str], HeldOutExperts]], fold: Indices) -> None:
        """Learn how to pool the components, the last being the prior."""
        if not answers:
            # too few rows to hold any out: all alike
            n_components = len(self.component_names_) - 1
            weights = np.append(np.full(n_components, 1.0 / n_components), 0.0)
            self.pool_ = Pool(weights, None, 0.0, self.n_listed)
            return
        wanted = self.component_names_[:-1]
        parts = [
            held.of_joints(np.array([*(names.index(name) for name in wanted), -1]))
            for names, held in answers
        ]
        held = parts[0].joined(*parts[1:])
        self.pool_ = learn_pool(held, fold, self.n_listed)
        share = held.weight / held.weight.sum()
        losses = [*(share @ -held.truth), share @ -self.pool_.log_prob(held)]
        names = [*self.component_names_, "stack"]
        self.held_out_log_loss_ = dict(zip(names, map(float, losses), strict=True))

    @property
    def weights_(self) -> dict[str, float]:
        """Weight of each component in the mixture."""
        return dict(zip(self.component_names_, self.pool_.weights.tolist(), strict=True))

    @property
    def exponents_(self) -> dict[str, float] | None:
        """Exponent of each component in the pool, if there is one."""
        if self.pool_.coef is None:
            return None
        return dict(zip([*self.component_names_, "new"], self.pool_.coef.tolist(), strict=True))

    def _joint(self, X: Any) -> Joint:
        frequencies = self.prior_.joint(self.label_space_, X.shape[0])
        experts: list[Joint] = []
        prepared: dict[tuple[int, ...], Any] = {(): X}  # pipelines may begin alike
        for name, model in zip(self.member_names_, self.members_, strict=True):
            *steps, last = [step for _, step in getattr(model, "steps", [("", model)])]
            key = tuple(id(step) for step in steps)
            try:
                if key not in prepared:
                    prepared[key] = model[:-1].transform(X)
                joint = joint_of(last, prepared[key])
            except EXPECTED as error:
                raise ValueError(f"The member {name!r} has no answer: {why(error)}") from error
            parts = part_joints(last, joint, partial(prepared.get, key))
            experts += with_frequencies([joint, *parts], frequencies)
        return self.pool_.joint([*experts, frequencies], self.prior_)

    short_name: ClassVar[str] = "stack"

    def label_graph(self) -> LabelGraph:
        """Return no edges: every member has a graph of its own, if any."""
        meaning = f"A stack of {len(self.members_)} models: it has no one graph of the labels."
        return LabelGraph.without_edges(self.label_names_, meaning)


def measure_costs(
    members: list[Member],
    data: TrainingData,
    folds: Folds,
    space: LabelSpace,
    n_listed: int,
    limit: float | None,
    seed: int,
) -> None:
    """Set the members' costs: lines through what they take on some rows and on twice as many.

    With a limit the samples are doubled until that has taken a few hundredths of it.
    """
    started, n_rows = time.monotonic(), data.n_rows
    order = np.random.default_rng(seed).permutation(n_rows)
    size = _PILOT_ROWS if limit is not None else max(_PILOT_ROWS, n_rows // 80)
    size = max(_FEWEST_ROWS, min(size, n_rows // 4, 200_000 // data.n_labels))
    before = None
    most = np.inf if limit is None else _SHARE_OF_PILOTS * limit

    def pilot(member: Member, end: float) -> list[float]:
        """Seconds of these rows to begin, and for what follows."""
        trial, labels, prior = Member("", member.model), EncodedLabels(space, some.codes), None
        clock, numbers = [time.monotonic()], held_out_folds(parts)
        with warnings.catch_warnings(), suppress(*EXPECTED):
            warnings.simplefilter("ignore")
            try:
                with deadline(end):
                    trial.begin(some, labels, {})
                    clock.append(time.monotonic())
                    for f in numbers[:1]:
                        test, train = (np.flatnonzero((parts.of_row == f) == own) for own in (1, 0))
                        prior = LabelPrior.of(some)
                        held_out_experts([trial], some, space, train, test, n_listed, prior)
                    clock.append(time.monotonic())
                    trial.finish(some, labels, {})
            except TimeoutError:
                # at least so long: a deadline will say if it is longer
                return [2 * max(end - clock[0], most / len(members))] * 2
        clock += [time.monotonic()] * (4 - len(clock))
        begun, asked, finished = np.diff(clock).tolist()
        return [begun, len(numbers) * asked + finished]

    while True:
        rows = np.sort(order[:size])
        some, parts = counted(data.take(rows), Folds(folds.of_row[rows], folds.n_folds))
        # what one member does not need of its time is the next one's
        ends = started + most * np.linspace(0.5, 1.0, len(members))
        taken = np.array([pilot(*each) for each in zip(members, ends, strict=True)]) + 1e-9
        growing = np.full_like(taken, 0.5)  # the part that grows with the rows
        if before is not None:  # the first fit may have paid for what is done once
            growing = np.clip(2.0 * (taken - before) / taken, 0.3, 1.2)
        for member, own, part in zip(members, taken, growing, strict=True):
            member.cost = np.stack([(1.0 - part) * own, part * own / size], axis=1)
        spent = time.monotonic() - started
        if 2 * size >= n_rows or (before is not None and (limit is None or 4 * spent > most)):
            return
        size, before = 2 * size, taken


def rows_within(seconds: float, members: list[Member], n_rows: int) -> int:
    """How many rows to learn from in so many seconds.

    All members, from the cheapest to the dearest, learn from the rows for which there is time;
    but before these are fewer than 20,000 the dearest members are given up.
    """
    for n_members in range(len(members), 0, -1):
        constant, slope = np.sum([member.cost for member in members[:n_members]], axis=(0, 1))
        n_kept = max(seconds - constant, 0.0) / max(slope, 1e-12)
        if n_kept >= min(n_rows, _MANY_ROWS):
            break
    return n_rows if n_kept >= n_rows else max(min(_FEWEST_ROWS, n_rows), int(n_kept))


def without_weight(members: list[Member], names: list[str], held: HeldOutExperts) -> set[str]:
    """Names of members that a pool of some rows does not need.

    None of their components, of those with these names, has a weight in the mixture or an exponent.
    """
    pool = pool_of(held)
    exponents = np.zeros(len(pool.weights)) if pool.coef is None else pool.coef[:-1]
    needed = (pool.weights >= _LEAST_WEIGHT) | (exponents >= _LEAST_EXPONENT)
    useful = {name for name, own in zip(names, needed, strict=False) if own}
    kept = {member.name for member in members if useful & set(member.component_names)}
    return {member.name for member in members} - kept if kept else set()


def _enough_asked(data: TrainingData, folds: Folds, seed: int) -> Folds:
    """Hold out fewer rows where labels are many: some hundred say what the members are worth."""
    most = max(_FEWEST_ASKED, int(_MOST_ASKED / data.n_labels))
    of_row = folds.of_row.copy()
    of_row[np.random.default_rng(seed).permutation(data.n_rows)[most:]] = -1
    return Folds(of_row, folds.n_folds)


def _copies_apart(data: TrainingData, folds: Folds, seed: int) -> Folds:
    """Deal copies of a row to different folds: new rows, too, will be copies of some so often."""
    _, group, count = np.unique(row_digests(data, seed), return_inverse=True, return_counts=True)
    if count.max(initial=1) == 1:
        return folds
    order = np.argsort(group, kind="stable")
    rank = np.empty(data.n_rows, dtype=np.intp)
    rank[order] = np.arange(data.n_rows) - np.repeat(np.cumsum(count) - count, count)
    return Folds((folds.of_row + rank) % folds.n_folds, folds.n_folds)
