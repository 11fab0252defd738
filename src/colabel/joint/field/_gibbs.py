"""Gibbs sampling of a pairwise field, and its partition function by annealing."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from colabel.core.arrays import Array, Codes, Targets
from colabel.core.numeric import log_sum_exp
from colabel.joint.field._approximate import Approximate
from colabel.joint.field._engine import Convergence, FieldSums
from colabel.joint.field._flat import FlatField, by_blocks, joined
from colabel.joint.field._gibbs_kernels import anneal_rows, sample_rows
from colabel.joint.field._search import walled
from colabel.joint.gibbs.diagnostics import split_r_hat

Answer = Callable[[Array, Codes, Targets], tuple[Any, ...]]

_SUSPICIOUS = 1.05  # R-hat above which chains are commonly not trusted


class GibbsField(Approximate):
    r"""Marginals by Gibbs sampling, log Z by annealed importance sampling (Neal, 2001).

    Marginals are means of the conditional probabilities that the labels are drawn from
    (Rao-Blackwell); pairs are counted in the samples. With :math:`E(y)` the score of the edges
    and T steps that each multiply the edges' scores by :math:`t / T` and sweep once,

    .. math:: \log Z \approx \log Z_0 + \log \frac1C \sum_c \exp\Big(\frac1T
              \sum_{t=1}^T E(y^{(t-1)}_c)\Big)

    where :math:`Z_0` belongs to the unary scores alone and c runs over the chains.
    """

    name: ClassVar[str] = "gibbs"

    def sums(self) -> FieldSums:
        """Return estimates of the partition function and of the marginals, computed once."""
        return self._sums

    def edge_tables(self) -> list[Array]:
        """Return the shares of the pairs of values of every edge as arrays (n, K_i, K_j)."""
        return self._pair_shares

    def pair_table(self, i: int, j: int) -> Array:
        """Return the shares of the pairs of values of two labels, (n, K_i, K_j)."""
        return self._shares([(i, j)])[0]

    def convergence(self) -> Convergence | None:
        """Return whether the chains agree: the residual is the largest split R-hat minus one."""
        excess = self._r_hat - 1.0
        sweeps = self._options.burn_in + self._options.n_sweeps
        return Convergence(
            self._r_hat <= _SUSPICIOUS, np.full(len(excess), sweeps, dtype=np.intp), excess
        )

    def note(self) -> str:
        """Say what was sampled."""
        options = self._options
        return (
            f"{options.n_chains} chains a row, the residual is R-hat - 1, log Z by annealed "
            f"importance sampling, {self._mode_note()}"
        )

    def _first_guess(self) -> Codes:
        return self._sampled[1]

    # Sampling

    @cached_property
    def _sums(self) -> FieldSums:
        return FieldSums(self._annealed() + self._offset, self._by_label(self._sampled[0]))

    @cached_property
    def _sampled(self) -> tuple[Array, Codes]:
        """Marginals (n, C) and the best vectors visited (n, d)."""
        single, best = joined(self._run(lambda single, best, _: (single, best), keep=False))
        return single, best

    @cached_property
    def _pair_shares(self) -> list[Array]:
        return self._shares(list(self._field.edges))

    def _shares(self, pairs: list[tuple[int, int]]) -> list[Array]:
        """Count pairs of values in the samples: arrays (n, K_i, K_j)."""
        sizes = self._field.cardinalities

        def count(_: Array, __: Codes, samples: Targets) -> tuple[Array, ...]:
            flat = samples.reshape(len(samples), samples.shape[1] * samples.shape[2], -1)
            return tuple(
                _pair_share(flat[..., i], flat[..., j], sizes[i], sizes[j]) for i, j in pairs
            )

        found: list[Array] = joined(self._run(count, keep=True))
        return found

    @cached_property
    def _r_hat(self) -> Array:
        """Largest split R-hat of a value, (n,)."""

        def largest(_: Array, __: Codes, samples: Targets) -> tuple[Array]:
            worst = np.ones(len(samples))
            for i, size in enumerate(self._field.cardinalities):
                traces = np.moveaxis(samples[..., i], 0, -1)  # (chains, sweeps, m)
                for value in range(1, size):
                    worst = np.maximum(worst, split_r_hat((traces == value).astype(np.float64)))
            return (worst,)

        found: Array = joined(self._run(largest, keep=True))[0]
        return found

    def _run(self, answer: Answer, keep: bool) -> list[tuple[Any, ...]]:
        """Sample blocks of rows, and let `answer` make arrays of the results of each."""
        options = self._options
        keys = self._chain_keys()
        n_labels = self._field.n_labels

        def work(flat: FlatField, block: slice) -> tuple[Any, ...]:
            m = len(flat.unary)
            shape = (m if keep else 0, options.n_chains, options.n_sweeps, n_labels)
            samples = np.empty(shape, dtype=np.int16)
            single, best = np.empty(flat.unary.shape), np.zeros((m, n_labels), dtype=np.int32)
            own = np.ascontiguousarray(keys[block])
            sample_rows(walled(flat), own, options.burn_in, options.n_sweeps, single, best, samples)
            return answer(single, best, samples)

        extra = options.n_chains * options.n_sweeps * n_labels if keep else 0
        return by_blocks(self._field, self._wires, work, options.n_jobs, extra)

    def _annealed(self) -> Array:
        """Estimate log Z (n,)."""
        options = self._options
        keys = self._chain_keys()
        n_steps = options.burn_in + options.n_sweeps

        def work(flat: FlatField, block: slice) -> tuple[Array]:
            log_weights = np.empty((len(flat.unary), options.n_chains))
            anneal_rows(walled(flat), np.ascontiguousarray(keys[block]), n_steps, log_weights)
            return (log_sum_exp(log_weights) - np.log(options.n_chains),)

        found: Array = joined(by_blocks(self._field, self._wires, work, options.n_jobs))[0]
        for unary in self._field.unary:
            found += log_sum_exp(unary)
        return found


def _pair_share(one: Targets, two: Targets, n_one: int, n_two: int) -> Array:
    """Share (m, K, L) of each pair of values in samples (m, N) of two labels."""
    m, n_samples = one.shape
    cells = (np.arange(m)[:, None] * n_one + one) * n_two + two
    counts = np.bincount(cells.ravel(), minlength=m * n_one * n_two)
    shares: Array = counts.reshape(m, n_one, n_two) / n_samples
    return shares
