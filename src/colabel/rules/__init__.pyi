from colabel.rules.compiled import CompiledRules as CompiledRules
from colabel.rules.rules import Rule as Rule
from colabel.rules.rules import Rules as Rules
from colabel.rules.rules import Suggestion as Suggestion
from colabel.rules.rules import Violations as Violations

__all__ = [
    "Rule",
    "Rules",
    "Suggestion",
    "Violations",
]
