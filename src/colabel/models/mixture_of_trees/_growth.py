"""How many experts a mixture needs: they are added one at a time, while held-out rows gain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from colabel.core.arrays import Array
from colabel.core.numeric import log_sum_exp
from colabel.core.progress import Advance
from colabel.learn.conditional import TrainingData
from colabel.models.mixture_of_trees._em import EM, Experts, log_terms


class Grown(NamedTuple):
    """A mixture, and the held-out log-likelihood per row of one expert, two, and so on."""

    mixture: Experts
    scores: list[float]


@dataclass(frozen=True)
class Growth:
    """Adds experts to a mixture.

    Attributes
    ----------
    gates : sequence of float or None
        Values of C of the gate; the best for two experts is kept. None: it does not look at x.
    most : int
        Number of experts at which to stop.
    max_iter : int
        EM iterations after an expert is added.
    seed : int
    """

    gates: Sequence[float | None]
    most: int
    max_iter: int
    seed: int

    def judged(self, em: EM, out: TrainingData, advance: Advance) -> Grown:
        """Grow as long as the likelihood of rows held out grows.

        A mixture that does not gain more than a standard error over its first expert is noise.
        """
        first = mixture = em.first(self.seed)
        by_row = [_log_prob(em, mixture, out)]
        weight = out.row_weights / out.total_weight
        while len(mixture.experts) < self.most:
            gates = self.gates if len(by_row) == 1 else [mixture.gate.C]
            found = self._larger(em, mixture, gates)
            judged = [_log_prob(em, each, out) for each in found]
            best = int(np.argmax([weight @ own for own in judged]))
            advance()
            by_row.append(judged[best])
            larger = len(found[best].experts) > len(mixture.experts)
            if not larger or weight @ (by_row[-1] - by_row[-2]) <= 0:
                break
            mixture = found[best]
        gain = by_row[len(mixture.experts) - 1] - by_row[0]
        error = float(np.sqrt(weight**2 @ (gain - weight @ gain) ** 2))
        scores = [float(weight @ own) for own in by_row]
        return Grown(mixture if weight @ gain > error else first, scores)

    def unjudged(self, em: EM, advance: Advance) -> Experts:
        """Grow as far as told, unless an expert is left without rows."""
        mixture = em.first(self.seed)
        while len(mixture.experts) < self.most:
            (found,) = self._larger(em, mixture, self.gates[:1])
            advance()
            if len(found.experts) <= len(mixture.experts):
                break
            mixture = found
        return mixture

    def _larger(self, em: EM, mixture: Experts, gates: Sequence[float | None]) -> list[Experts]:
        """Return the mixture with one expert more, after EM, for every C of the gate."""
        grown = em.grown(mixture, self.seed + len(mixture.experts))
        starts = [replace(grown, gate=replace(grown.gate, C=C)) for C in gates]
        return [em.run(start, self.max_iter).mixture for start in starts]


def _log_prob(em: EM, mixture: Experts, out: TrainingData) -> Array:
    """Log-probabilities (n,) of the labels of rows that were held out."""
    return log_sum_exp(log_terms(em.space, mixture, out, em.n_jobs))
