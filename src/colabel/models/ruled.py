"""RuledClassifier: a model whose every answer obeys what is known about label sets."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from colabel.core.arrays import Codes
from colabel.core.estimators import attribute
from colabel.core.parameters import check_choice
from colabel.core.schema import Estimator, stored
from colabel.decide import F1, Decision, Jaccard, Subset
from colabel.joint import Joint
from colabel.labels import LabelSpace
from colabel.learn.conditional import TrainingData
from colabel.models.with_estimator import AroundModel
from colabel.models.wrapped import joint_of
from colabel.rules import CompiledRules, Rules

_CANDIDATES = 64  # label vectors that a decision chooses among where its own choice breaks a rule


@stored("ruled-classifier")
class RuledClassifier(AroundModel):
    r"""A model whose answers obey rules on label sets: implications, exclusions, counts.

    The joint of the model is conditioned on the rules, :math:`P(y \mid x, y \text{ obeys})`, so
    that probabilities, modes, samples and decisions are about allowed label sets alone.

    Parameters
    ----------
    rules : Rules or str
        What is known, see `colabel.rules.Rules`; a file keeps their text.
    violations : {"drop", "keep", "refuse"}
        What becomes of training rows that break a rule: they are left out with a warning that
        names them, learned from all the same, or an error.
    decision : str or Decision
        Loss that `predict` minimises, see `decide`. Where the label set of least expected loss
        breaks a rule, the best allowed one among the 64 most probable is taken.

    Attributes
    ----------
    estimator_ : fitted model
    rules_ : str
        The rules as text.
    n_violating_ : int
        Training rows that break a rule.

    Examples
    --------
    >>> from colabel import BinaryRelevance, RuledClassifier
    >>> from colabel.datasets import load_digit_traits
    >>> data = load_digit_traits()
    >>> rules = "square -> not prime\neven and prime -> not above_four"
    >>> model = RuledClassifier(BinaryRelevance(C=0.01), rules)
    >>> model = model.fit(data.X[:600], data.Y[:600], label_names=data.label_names)
    >>> predicted = model.predict(data.X[600:])
    >>> bool((predicted[:, 1] & predicted[:, 2]).any())  # prime and square at once
    False
    """

    rules: Any = field(default="", kw_only=False)
    violations: Literal["drop", "keep", "refuse"] = "drop"
    n_jobs: ClassVar[None] = None  # type: ignore[misc]
    verbose: ClassVar[int] = 0  # type: ignore[misc]
    estimator_: Annotated[Any, "sizes p", Estimator(does="joint")] = attribute()
    rules_: str = attribute()
    n_violating_: int = attribute()

    short_name = "ruled"

    def decision_rule(self) -> Decision:
        """Return how `predict` chooses the labels of a joint: among the sets that obey."""
        rule = super().decision_rule()
        text = getattr(self, "rules_", "")
        return _Obeying(rule, text) if text and not isinstance(rule, Subset) else rule

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("violations", self.violations, ("drop", "keep", "refuse"))
        if not isinstance(self.rules, Rules | str):
            raise ValueError(f"rules={self.rules!r} must be text or colabel.rules.Rules.")

    def _learn(self, data: TrainingData) -> None:
        rules = Rules.parse(self.rules) if isinstance(self.rules, str) else self.rules
        obeys = rules.compiled(self.label_space_).may_hold(data.codes)
        breaking = np.flatnonzero(~obeys)
        if len(breaking) and self.violations != "keep":
            said = f"{len(breaking)} of {len(obeys)} training rows break a rule"
            if self.violations == "refuse" or not obeys.any():
                raise ValueError(f"{said}: mend them, change the rules, or keep them.")
            which = "Rules.violations, or colabel rules --check, says which."
            warnings.warn(f"{said} and are left out: {which}", UserWarning, stacklevel=4)
            data = data.take(np.flatnonzero(obeys))
        self.estimator_ = self._fitted(data, self._seed())
        self.rules_, self.n_violating_ = str(rules), len(breaking)

    def _joint(self, X: Any) -> Joint:
        joint = joint_of(self.estimator_, X)
        return joint.subject_to(_compiled(self.rules_, joint.space)) if self.rules_ else joint


@lru_cache(maxsize=8)
def _compiled(text: str, space: LabelSpace) -> CompiledRules:
    """Rules of a model, read and bound to its labels once."""
    return Rules.parse(text, folder=None).compiled(space)


@dataclass(frozen=True)
class _Obeying(Decision):
    """A decision, or the best of a row's most probable vectors where it would break a rule."""

    rule: Decision
    text: str

    def codes(self, joint: Joint) -> Codes:
        """Return the codes (n, d) that are decided for; modes obey already."""
        codes = self.rule.codes(joint)
        obeys = _compiled(self.text, joint.space).may_hold(codes)
        for row in np.flatnonzero(~obeys):
            codes[row] = self._best_allowed(joint.rows(np.array([row])))
        return codes

    def _best_allowed(self, joint: Joint) -> Codes:
        """Return the vector (d,) of least expected loss among a row's most probable ones."""
        found, log_prob = joint.top_k_codes(_CANDIDATES)
        vectors, weights = found[0], np.exp(log_prob[0])
        if isinstance(self.rule, F1 | Jaccard):
            shared = ((vectors[:, None] == 1) & (vectors[None] == 1)).sum(axis=2)
            sizes = (vectors == 1).sum(axis=1)
            total = sizes[:, None] + sizes[None]
            f1, jaccard = 2 * shared, shared * total / np.maximum(total - shared, 1)
            gained = f1 if isinstance(self.rule, F1) else jaccard
            utility = np.where(total == 0, 1.0, gained / np.maximum(total, 1))
        else:
            utility = (vectors[:, None] == vectors[None]).mean(axis=2)
        best: Codes = vectors[int(np.argmax(utility @ weights))]
        return best
