"""Probabilistic classifier chains (Dembczynski, Cheng & Huellermeier, 2010)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sklearn.base import BaseEstimator

from colabel.core.schema import Real, Whole, stored
from colabel.decide import Decision
from colabel.joint.chain import (
    BeamSearch,
    ChainSearch,
    EpsilonSearch,
    MonteCarlo,
    as_search,
)
from colabel.models._learning import DEFAULT_GRID, DEFAULT_TOLERANCE
from colabel.models._stacks import check_inputs
from colabel.models.chain._model import ChainModel


@stored(
    "probabilistic-chain",
    check=check_inputs,
    beam_width=Whole(1, 10**5),
    epsilon=Real(0.0, 1.0),
)
class ProbabilisticClassifierChain(ChainModel):
    r"""A classifier chain with exact, ε-approximate, beam or Monte-Carlo search.

    .. math:: P(y \mid x) = \prod_k P(y_{o(k)} \mid x, y_{o(0)}, \dots, y_{o(k-1)})

    The links are those of `ClassifierChain`. `predict` searches for the most probable label
    vector: by default by branch and bound, which visits about d / P(mode) prefixes of a row rather
    than all label vectors, and exactly unless that takes more than 32768 of them.

    Labels that are constant or rare among the training rows get smoothed probabilities. Missing
    labels are refused, because a link needs all the labels before it.

    Parameters
    ----------
    C : float or sequence of float
        Inverse strength of the L2 penalty, as in scikit-learn's `LogisticRegression`. From a
        sequence the best value is chosen for each link by cross-validation.
    label_scale : None, float or sequence of float
        How large the columns of the labels are beside the features: 0 and `label_scale`. The
        penalty holds back a label's weight the less the larger it is; 1 treats labels like
        features, as classic chains do. From a sequence the best value is chosen for each link by
        cross-validation, together with C. None: 1 where C is a number, chosen from 1, 10 and 100
        where C is a sequence. Of the built-in regression only.
    estimator : classifier, optional
        Any scikit-learn classifier with `predict_proba`. It learns each label from x alone, and
        the links are built-in regressions on its held-out scores and the earlier labels (see
        `stack`).
    stack : bool
        Of `estimator`. False, as published: the links are the estimator itself, on x and then the
        columns of the earlier labels. Trees rarely draw these among many features.
    max_parents : int or None
        Most earlier labels a link may use: those that its label depends on most beyond x, by a
        score test on held-out residuals. None: all of them.
    order : None, "random", "correlation" or sequence
        See `ClassifierChain`.
    inference : {"auto", "exact", "exhaustive", "epsilon", "beam", "monte_carlo", "greedy"}
        How the most probable vectors are found. "exact": branch and bound, up to a million
        prefixes of a row. "auto": up to 32768, then the best of a beam 32 wide, the greedy vector
        and that of the marginals; ``joint(X).how`` tells in how many rows. "exhaustive": write
        out all label vectors, at most 65536. "epsilon": explore prefixes whose probability
        exceeds `epsilon`. "beam": keep the `beam_width` best prefixes of each length.
        "monte_carlo": the best of `n_samples` draws. "greedy": as `ClassifierChain`.
    epsilon : float
        Of inference "epsilon": the mode is found where its probability is larger. 0 is exact,
        0.5 greedy.
    beam_width : int
        Of inference "beam".
    n_samples : int
        Draws per row, of inference "monte_carlo" and of marginals where there are more than
        65536 label vectors.
    cv : int, float, splitter or iterable
        How rows are held out to choose C: a number of folds, a fraction, a scikit-learn
        splitter, or pairs of index arrays (train, test).
    decision : str or Decision
        Loss that `predict` minimises, see `decide`: "subset" gives the most probable label
        vector, "hamming" the most probable value of each label.
    calibrate : bool
        Whether to learn, on rows held out, how far the joint can be trusted, and to temper it:
        see `calibration_`. The model is fitted four times.
    tol : float
        How far, in its own standard errors, an estimate may be from the optimum.
    max_iter : int
        Bound on the iterations of the solver.
    n_jobs : int or None
        Threads of the built-in regression (None: all cores) or joblib workers for `estimator`.
    device : None, "cpu", "cuda", "cuda:N" or "auto"
        Where the built-in regressions are solved, see `BinaryRelevance`.
    random_state : int, RandomState or None
        Seed of the folds, of a random order, of an `estimator` without seed, and of the draws.
    verbose : int
        Whether to show progress.

    Attributes
    ----------
    order_, models_, C_, label_scale_, n_iter_, estimator_scores_
        See `ClassifierChain`.

    References
    ----------
    K. Dembczynski, W. Cheng, E. Huellermeier: Bayes optimal multilabel classification via
    probabilistic classifier chains. ICML 2010.
    K. Dembczynski, W. Waegeman, E. Huellermeier: An analysis of chaining in multi-label
    classification. ECAI 2012 (epsilon-approximate search).

    Examples
    --------
    >>> from colabel import ProbabilisticClassifierChain
    >>> from colabel.datasets import load_digit_traits
    >>> data = load_digit_traits()
    >>> model = ProbabilisticClassifierChain(C=0.01)
    >>> model = model.fit(data.X[:500], data.Y[:500], label_names=data.label_names)
    >>> joint = model.joint(data.X[-1:])
    >>> joint
    <Chain: 1 row, 7 labels, exact>
    >>> joint.mode()
    array([[1, 0, 0, 1, 1, 0, 0]])
    >>> joint.given({"even": 0}).mode()[0, 0]
    np.int64(0)
    """

    def __init__(
        self,
        C: float | Sequence[float] = DEFAULT_GRID,
        *,
        label_scale: float | Sequence[float] | None = None,
        estimator: BaseEstimator | None = None,
        stack: bool = True,
        max_parents: int | None = None,
        order: str | Sequence[str | int] | None = None,
        inference: str = "auto",
        epsilon: float = 0.01,
        beam_width: int = 10,
        n_samples: int = 1000,
        cv: Any = 5,
        decision: str | Decision = "subset",
        calibrate: bool = False,
        tol: float = DEFAULT_TOLERANCE,
        max_iter: int = 1000,
        n_jobs: int | None = None,
        device: str | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.label_scale = label_scale
        self.estimator = estimator
        self.stack = stack
        self.max_parents = max_parents
        self.order = order
        self.inference = inference
        self.epsilon = epsilon
        self.beam_width = beam_width
        self.n_samples = n_samples
        self.cv = cv
        self.decision = decision
        self.calibrate = calibrate
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def _search(self, seed: int) -> ChainSearch:
        match self.inference:
            case "epsilon":
                return EpsilonSearch(self.epsilon)
            case "beam":
                return BeamSearch(self.beam_width)
            case "monte_carlo":
                return MonteCarlo(self.n_samples, seed)
            case str(name):
                return as_search(name)
            case other:
                raise ValueError(
                    f"inference={other!r} must be a name, such as 'exact' or 'beam'; `epsilon`, "
                    "`beam_width` and `n_samples` say how far a search goes."
                )

    short_name = "pcc"
