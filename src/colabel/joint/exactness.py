"""Which questions a joint answers exactly."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NoReturn, Self, get_args

Question = Literal["mode", "sums", "log_prob"]
QUESTIONS: tuple[Question, ...] = get_args(Question)


class Exactness(frozenset[str]):
    """The questions that a joint answers exactly, out of "mode", "sums" and "log_prob".

    - ``"mode"``: the most probable label vectors, `mode` and `top_k`;
    - ``"sums"``: what adds up label vectors: `marginals`, `pair_marginals`, `entropy`,
      `size_marginals`, and the probability of some of the labels;
    - ``"log_prob"``: the probability of a complete label vector.

    A set of names, but neither true nor false: ask about a question, or for `all` of them.

    Examples
    --------
    >>> greedy = Exactness(["sums", "log_prob"])
    >>> "mode" in greedy, "sums" in greedy, greedy.all
    (False, True, False)
    >>> greedy
    Exactness('sums', 'log_prob')
    """

    def __new__(cls, questions: Iterable[str] = ()) -> Self:
        """Check the names."""
        names = super().__new__(cls, questions)
        if not names.issubset(QUESTIONS):
            unknown = sorted(names - set(QUESTIONS))
            raise ValueError(f"There is no question {unknown[0]!r}: choose from {QUESTIONS}.")
        return names

    @property
    def all(self) -> bool:
        """Whether every question is answered exactly."""
        return len(self) == len(QUESTIONS)

    def without(self, *questions: Question) -> Exactness:
        """Return the exactness without some of the questions."""
        return Exactness(self.difference(questions))

    def __bool__(self) -> NoReturn:
        raise TypeError(
            "Whether a joint is exact depends on the question: ask for one, as in "
            '`"mode" in joint.exact` (or "sums", "log_prob"), or for all, by `joint.exact.all`.'
        )

    def __str__(self) -> str:
        if self.all:
            return "exact"
        if not len(self):
            return "approximate"
        return f"exact {' and '.join(name for name in QUESTIONS if name in self)}"

    def __repr__(self) -> str:
        return f"Exactness({', '.join(repr(name) for name in QUESTIONS if name in self)})"


EXACT = Exactness(QUESTIONS)
APPROXIMATE = Exactness()


def common(parts: Iterable[Exactness]) -> Exactness:
    """Return what is exact in all the parts."""
    return Exactness(frozenset(QUESTIONS).intersection(*parts))
