"""How many experts a mixture needs: they are added one at a time, while held-out rows gain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

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
        """Grow as long as the likelihood of rows held out grows."""
        mixture = em.first(self.seed)
        scores = [_score(em, mixture, out)]
        while len(mixture.experts) < self.most:
            gates = self.gates if len(scores) == 1 else [mixture.gate.C]
            found = self._larger(em, mixture, gates)
            scored = [_score(em, each, out) for each in found]
            best = int(np.argmax(scored))
            advance()
            scores.append(scored[best])
            larger = len(found[best].experts) > len(mixture.experts)
            if not larger or scores[-1] <= scores[-2]:
                break
            mixture = found[best]
        return Grown(mixture, scores)

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


def _score(em: EM, mixture: Experts, out: TrainingData) -> float:
    """Log-likelihood per row of rows that were held out."""
    total = log_sum_exp(log_terms(em.space, mixture, out, em.n_jobs))
    return float(out.row_weights @ total / out.total_weight)
