"""How often label vectors occur, whatever the features: what is left when nothing is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from colabel.core.arrays import Array, Codes, Flags
from colabel.core.numeric import as_bytes, bin_sums
from colabel.core.schema import Between, CodesOf, Distribution, stored
from colabel.joint import Independent, Joint, Mixture, VectorList
from colabel.joint.repeated import Repeated
from colabel.labels import MISSING, LabelSpace
from colabel.learn.conditional import TrainingData
from colabel.learn.mixing import mixture_weights


def _complete(data: TrainingData) -> Flags:
    """Rows (n,) of positive weight whose labels are all known."""
    return np.asarray((data.codes != MISSING).all(axis=1) & (data.row_weights > 0))


def seen_vectors(data: TrainingData) -> Codes:
    """The complete label vectors (V, d) of the rows, in ascending order."""
    return np.unique(data.codes[_complete(data)], axis=0)


def joined_vectors(one: Codes, other: Codes) -> Codes:
    """Join two results of `seen_vectors`."""
    return np.unique(np.concatenate([one, other]), axis=0)


@stored("label-prior")
@dataclass(frozen=True, eq=False)
class LabelPrior:
    """The label vectors of the training rows by their frequency, mixed with independent labels.

    The weights of the two maximise the likelihood of each row under the counts of the others, so
    that what has not been seen has the probability that new vectors really have. Of a row of weight
    w, which stands for w rows, one is left out, or all of it where w is below one.

    Attributes
    ----------
    vectors : (V, d)
        The complete label vectors of the training rows, in ascending order.
    counts : (V,)
        Total weight of the rows that have each.
    frequencies : d arrays (K_i,)
        Smoothed frequencies of each label's values.
    weights : (2,)
        Of the vectors and of the independent labels.
    """

    vectors: Annotated[Codes, "v d", CodesOf()]
    counts: Annotated[Array, "v", Between(1e-300)]
    frequencies: Annotated[tuple[Array, ...], "d [sizes]", Distribution()]
    weights: Annotated[Array, "2", Distribution()]

    @classmethod
    def of(cls, data: TrainingData) -> LabelPrior:
        """Count the label vectors."""
        whole = _complete(data)
        weight = data.row_weights[whole]
        vectors, inverse = np.unique(data.codes[whole], axis=0, return_inverse=True)
        inverse = inverse.ravel()
        counts = bin_sums(inverse, weight, len(vectors))
        frequencies = tuple(data.class_frequencies(i) for i in range(data.n_labels))
        own = np.minimum(weight, 1.0)
        left, others = counts[inverse] - own, float(weight.sum()) - own
        with np.errstate(divide="ignore"):
            among_others = np.log(np.divide(left, others, out=np.zeros(len(left)), where=left > 0))
        alone = sum(
            (np.log(table)[data.codes[whole, i]] for i, table in enumerate(frequencies)),
            start=np.zeros(len(weight)),
        )
        weights = mixture_weights(np.stack([among_others, alone], axis=1), weight)
        # never all the weight on what was seen: the next row may be new
        weights = np.maximum(weights, 1.0 / (float(weight.sum()) + 2.0))
        if not len(vectors):
            weights = np.array([0.0, 1.0])
        return cls(vectors, counts, frequencies, weights / weights.sum())

    def joint(self, space: LabelSpace, n_rows: int) -> Joint:
        """The same distribution for each of some rows."""
        one: Joint = Independent(space, [np.log(table)[None] for table in self.frequencies])
        if len(self.vectors):
            listed = VectorList(space, self.vectors, np.log(self.counts)[None])
            one = Mixture([listed, one], self.weights)
        return Repeated(one, np.zeros(n_rows, dtype=np.intp))

    def is_new(self, codes: Codes) -> Flags:
        """Whether each vector (m, d) is none of those that were seen."""
        return np.isin(as_bytes(codes), as_bytes(self.vectors), invert=True)

    def counts_of(self, codes: Codes) -> Array:
        """Total weight (m,) of the training rows that have each vector (m, d)."""
        if not len(self.vectors):
            return np.zeros(len(codes))
        seen, asked = as_bytes(self.vectors), as_bytes(codes)
        order = np.argsort(seen)
        place = order[np.minimum(np.searchsorted(seen, asked, sorter=order), len(seen) - 1)]
        counts: Array = np.where(seen[place] == asked, self.counts[place], 0.0)
        return counts
