"""What is known about label sets beforehand, written as text, checked, and compiled to codes."""

from colabel.rules.compiled import CompiledRules
from colabel.rules.rules import Rule, Rules, Suggestion, Violations

__all__ = ["CompiledRules", "Rule", "Rules", "Suggestion", "Violations"]
