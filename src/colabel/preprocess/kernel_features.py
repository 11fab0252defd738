"""Features of a Gaussian kernel, so that linear models see more than straight lines."""

from __future__ import annotations

from dataclasses import field
from functools import partial
from numbers import Real
from typing import Annotated, Any, Literal, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from colabel.core import parameters
from colabel.core.arrays import Array, is_sparse, row_slices
from colabel.core.estimators import Parameters, attribute, fits_afresh
from colabel.core.progress import Advance, progress_bar
from colabel.core.schema import POSITIVE, Between, Dims, Fields, Is, Matrix, check_that, stored
from colabel.core.threads import map_threads
from colabel.preprocess import kernel as kernels
from colabel.preprocess._scales import SCALINGS, mean_and_spread

__all__ = ["KernelFeatures"]

# Landmarks are looked for, and variances measured, among so many rows, or so many per landmark.
_MOST_ROWS = 5000
_ROWS_PER_LANDMARK = 10
_ROWS_AT_ONCE = 1 << 12
# A row this many standard deviations away has no kernel left; its square must stay finite.
_FARTHEST = 1e100


@stored("kernel-features")
class KernelFeatures(Parameters, TransformerMixin, BaseEstimator):
    r"""Features of a Gaussian kernel beside the columns of X.

    A linear model of these features is a smooth curve in x, so every model of the library sees
    more than straight lines. Columns are standardised (`scaling`); then, for m landmarks,

    .. math:: k(x, z) = \exp\left(-\frac{|x - z|^2}{2 w^2}\right), \qquad
        \phi(x) = K_{mm}^{-1/2} \, k(x, \text{landmarks})

    (Nyström): inner products of :math:`\phi` are the kernel, exactly if all rows are landmarks.
    Directions in which the landmarks' own kernel matrix :math:`K_{mm}` is zero up to rounding
    are left out, and the rest are turned to its eigenvectors.

    With the defaults, width and number of landmarks are those with the highest likelihood of the
    labels on training rows held out, each label by a regression of its own; where no kernel is
    clearly better than the columns alone, none is used.

    Parameters
    ----------
    width : float or "auto", default="auto"
        Width w of the kernel, in standard deviations of a column (scikit-learn's `gamma` is
        :math:`1 / (2 w^2)` for standardised columns). "auto" chooses among multiples of the
        median distance of rows and landmarks, or no kernel at all if `linear`.
    n_landmarks : int or "auto", default="auto"
        Number of landmarks; as many as there are distinct rows if those are fewer. "auto" chooses
        from 100 to 800: more only if they are better by more than chance would have it.
    linear : bool, default=True
        Whether the standardised columns of X stand before those of the kernel.
    sampling : {"kmeans", "uniform"}, default="kmeans"
        What the landmarks are: means of clusters of rows, or rows drawn at random.
    scaling : {"auto", "columns", "common"}, default="auto"
        What columns are divided by: their own standard deviations, or one number for all, the
        root of their mean variance, so that rare words of a text do not outweigh the others.
        "auto" takes the latter if it predicts the labels clearly better, which is measured where
        something else is "auto" too.
    balance : float, default=4.0
        Sum of the variances of all kernel columns, as a multiple of that of the standardised
        columns. A penalty of a model shrinks what varies little: with a large balance the kernel
        explains first, with a small one the columns do.
    n_jobs : int or None
        Threads; None for all cores. Results do not depend on it.
    random_state : int, RandomState or None
        Seed of landmarks, of the rows compared on and of their folds.
    verbose : int, default=0
        Whether to show progress.

    Attributes
    ----------
    width_ : float or None
        Width of the kernel; None where none is used.
    n_landmarks_ : int
        Number m of landmarks; 0 where no kernel is used.
    landmarks_ : (m, p) array, or CSR for sparse X
        In standardised columns.
    components_ : (m, r) array
        :math:`K_{mm}^{-1/2}`, scaled: kernel columns are ``k(x, landmarks_) @ components_``.
    kernel_variance_ : float
        Inner products of kernel columns approximate this number times the kernel.
    gain_ : float or None
        Log-likelihood of the labels, in nats a held-out row, gained over the columns alone where
        that was measured.
    mean_ : (p,) array or None
        Means of the columns; None for sparse X, which is not centred.
    scale_ : (p,) array
        What columns are divided by. Sparse X is not centred, so that roots of mean squares take
        the place of standard deviations.
    n_features_in_ : int
    feature_names_in_ : array of str
        Only where X had string column names.

    Notes
    -----
    The features of sparse X are CSR if `linear`: its columns stay sparse, those of the kernel are
    full. Without, they are dense. Features are of the precision of X; all is computed in doubles.

    The choice is made on at most 2000 rows and the 32 labels that vary the most. It sees nothing
    but the rows given to `fit`: inside a `Pipeline`, that is the training rows alone.

    References
    ----------
    C. Williams and M. Seeger, Using the Nyström method to speed up kernel machines, NIPS 2000.

    K. Zhang, I. Tsang and J. Kwok, Improved Nyström low-rank approximation and error analysis,
    ICML 2008.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from colabel import BinaryRelevance, KernelFeatures
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 2))
    >>> Y = np.column_stack([(X**2).sum(axis=1) > 1.5, X[:, 0] > 0]).astype(int)  # in or out
    >>> BinaryRelevance(random_state=0).fit(X[:300], Y[:300]).score(X[300:], Y[300:]) < 0.7
    True
    >>> model = make_pipeline(KernelFeatures(random_state=0), BinaryRelevance(random_state=0))
    >>> model.fit(X[:300], Y[:300]).score(X[300:], Y[300:]) > 0.9
    True
    """

    width: float | Literal["auto"] = field(default="auto", kw_only=False)
    n_landmarks: Annotated[int | Literal["auto"], Between(1)] = field(default="auto", kw_only=False)
    linear: bool = True
    sampling: kernels.Sampling = "kmeans"
    scaling: Literal["auto", "columns", "common"] = "auto"
    balance: Annotated[float, POSITIVE] = 4.0
    n_jobs: Annotated[int | None, Between(-1024, 1024)] = None
    random_state: Any = None
    verbose: int = 0
    n_features_in_: Annotated[int, Between(1), Is("p")] = attribute()
    feature_names_in_: Annotated[NDArray[Any] | None, "p"] = attribute()
    mean_: Annotated[Array | None, "p"] = attribute()
    scale_: Annotated[Array, "p", Between(1e-300)] = attribute()
    n_landmarks_: Annotated[int, Is("m")] = attribute()
    landmarks_: Annotated[Any, Matrix("m p")] = attribute()
    components_: Annotated[Array, "m r"] = attribute()
    width_: Annotated[float | None, Between(1e-300)] = attribute()
    kernel_variance_: Annotated[float, Between(0.0)] = attribute()
    gain_: float | None = attribute()
    _sklearn_output_config: dict[str, str | None] = attribute()

    @staticmethod
    def _check_stored(fields: Fields, dims: Dims) -> None:
        none = dims["m"] == 0
        check_that((fields["width_"] is None) == none, "landmarks_ do not fit width_")
        check_that(not none or fields["linear"], "there are neither landmarks nor columns")
        check_that(dims["r"] <= dims["m"], "components_ has more columns than landmarks")
        dims["made"] = dims["r"] + (dims["p"] if fields["linear"] else 0)

    out_of_sample = True
    """Whether `fit_transform` describes a row without its labels (all but choose a width by)."""

    @fits_afresh
    def fit(self, X: Any, y: Any = None) -> Self:
        """Find landmarks, and choose what is left to "auto".

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, p)
        y : labels of n rows, in any form that `LabelSpace` reads, optional
            Needed where something is to be chosen. NaN and None mean "not observed".
        """
        width, number = self._checked_parameters()
        if y is None and (width is None or number is None):
            raise ValueError(
                "width and n_landmarks are chosen by how well labels are predicted: KernelFeatures"
                " requires y to be passed, but the target y is None. Give y, or numbers for both."
            )
        X = self._checked(X, reset=True)
        self.mean_, spread = mean_and_spread(X)
        self.scale_ = SCALINGS["columns" if self.scaling == "auto" else self.scaling](spread)
        random = check_random_state(self.random_state)
        seed = random.randint(np.iinfo(np.int32).max)

        def landmarks_of(sample: Any, number: int) -> Any:
            """So many landmarks; which ones does not depend on what else was tried."""
            random = np.random.RandomState(seed)
            return kernels.find_landmarks(sample, number, self.sampling, random, self.n_jobs)

        features: kernels.GaussianFeatures | None
        if width is None or number is None:
            judge = kernels.LabelsAlone.of(X, y, random, self.n_jobs)
            with progress_bar(
                "comparing kernels", kernels.MOST_CANDIDATES, shown=bool(self.verbose)
            ) as bar:
                without = self._choose_scale(X[judge.rows], judge, spread, bar)
                sample = self._standardised(_some_rows(X, number, random))
                landmarks = partial(landmarks_of, sample)
                total = self.balance * kernels.total_variance(sample)
                rows = self._standardised(X[judge.rows])
                features, self.gain_ = kernels.choose_kernel(
                    rows, judge, landmarks, total, self.linear, bar, width, number, without
                )
        else:
            sample = self._standardised(_some_rows(X, number, random))
            total = self.balance * kernels.total_variance(sample)
            found = kernels.Distances.of(sample, landmarks_of(sample, number))
            features, self.gain_ = kernels.GaussianFeatures.of(found, width, total), None
        self.landmarks_ = sample[:0] if features is None else features.landmarks
        self.n_landmarks_ = int(self.landmarks_.shape[0])
        self.components_ = np.zeros((0, 0)) if features is None else features.components
        self.width_ = None if features is None else features.width
        self.kernel_variance_ = 0.0 if features is None else features.variance
        return self

    def transform(self, X: Any) -> Any:
        """Compute the features of rows.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, p)

        Returns
        -------
        (n, p + r) array, or CSR for sparse X
            Standardised columns, then those of the kernel; (n, r) array without `linear`.
        """
        check_is_fitted(self)
        X = self._checked(X, reset=False)

        def features(part: slice) -> Any:
            rows = self._standardised(X[part])
            if self.width_ is None:
                return rows.astype(X.dtype, copy=False)
            distances = kernels.squared_distances(_clipped(rows), self.landmarks_)
            columns = kernels.gaussian(distances, self.width_) @ self.components_
            found = kernels.beside(rows, columns) if self.linear else columns
            return found.astype(X.dtype, copy=False)

        parts = map_threads(
            features, row_slices(X.shape[0], _ROWS_AT_ONCE), self.n_jobs, lambda: None
        )
        if is_sparse(parts[0]):
            return sp.csr_array(sp.vstack(parts, format="csr"))
        return np.concatenate(parts)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the features: those of the columns, then kernel0, kernel1, and so on.

        Parameters
        ----------
        input_features : sequence of str, optional
            Names of the columns, where X had none.

        Returns
        -------
        array of str
        """
        check_is_fitted(self)
        names = list(_check_feature_names_in(self, input_features)) if self.linear else []
        prefix = "kernel"
        while any(str(name).startswith(prefix) for name in names):
            prefix = f"kernel_{prefix}"  # such as those of another KernelFeatures
        columns = [f"{prefix}{i}" for i in range(self.components_.shape[1])]
        return np.array([*names, *columns], dtype=object)

    def _checked(self, X: Any, *, reset: bool) -> Any:
        X = validate_data(self, X, reset=reset, accept_sparse="csr", dtype=[np.float64, np.float32])
        parameters.check_magnitude(X, getattr(self, "feature_names_in_", None))
        return X

    def _checked_parameters(self) -> tuple[float | None, int | None]:
        """Width and number of landmarks, None where they are to be chosen."""
        parameters.check_annotated(self)
        width: Any = None if self.width == "auto" else self.width
        number: Any = None if self.n_landmarks == "auto" else self.n_landmarks
        real = isinstance(width, Real) and not isinstance(width, bool)
        if width is not None and not (real and 1e-100 < width < 1e100):
            raise ValueError(f"width={width!r} must be a positive number or 'auto'.")
        return None if width is None else float(width), None if number is None else int(number)

    def _standardised(self, rows: Any) -> Any:
        """Rows (n, p) in doubles, each column less its mean (if dense) and by its scale."""
        if is_sparse(rows) and self.mean_ is None:
            scaled = sp.csr_array(rows, dtype=np.float64, copy=True)
            scaled.data /= self.scale_[scaled.indices]
            return scaled
        dense = rows.toarray() if is_sparse(rows) else rows
        centred = dense - (0.0 if self.mean_ is None else self.mean_)
        return centred.astype(np.float64, copy=False) / self.scale_

    def _choose_scale(
        self, rows: Any, judge: kernels.LabelsAlone, spread: Array, advance: Advance
    ) -> Array | None:
        """Set the better scale; return the log-probability (m,) of rows compared on with it."""
        if not judge.informative:
            return None
        found = judge.log_prob(self._standardised(rows))
        advance()
        if self.scaling == "auto":
            by_column, self.scale_ = self.scale_, SCALINGS["common"](spread)
            common = judge.log_prob(self._standardised(rows))
            advance()
            if kernels.clearly_better(common, found):
                return common
            self.scale_ = by_column
        return found

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = "auto" in (self.width, self.n_landmarks)
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _some_rows(X: Any, number: int | None, random: np.random.RandomState) -> Any:
    """Rows among which landmarks are looked for: all, or a sample of many."""
    most = max(_MOST_ROWS, _ROWS_PER_LANDMARK * (kernels.NUMBERS[-1] if number is None else number))
    if X.shape[0] <= most:
        return X
    return X[np.sort(random.choice(X.shape[0], most, replace=False))]


def _clipped(rows: Any) -> Any:
    """Rows whose squares are finite; a row beyond is so far away that its kernel is zero."""
    if is_sparse(rows):
        rows = rows.copy()
        np.clip(rows.data, -_FARTHEST, _FARTHEST, out=rows.data)
        return rows
    return np.clip(rows, -_FARTHEST, _FARTHEST)
