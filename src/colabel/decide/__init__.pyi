from colabel.decide.conformal import NONCONFORMITIES as NONCONFORMITIES
from colabel.decide.conformal import RISKS as RISKS
from colabel.decide.conformal import CalibrationScores as CalibrationScores
from colabel.decide.conformal import CoverageCheck as CoverageCheck
from colabel.decide.conformal import HeldOutErrors as HeldOutErrors
from colabel.decide.conformal import LabelSets as LabelSets
from colabel.decide.conformal import Nonconformity as Nonconformity
from colabel.decide.conformal import NonconformityName as NonconformityName
from colabel.decide.conformal import RiskName as RiskName
from colabel.decide.conformal import confident_codes as confident_codes
from colabel.decide.conformal import conformal_sets as conformal_sets
from colabel.decide.conformal import measured_coverage as measured_coverage
from colabel.decide.conformal import p_value as p_value
from colabel.decide.conformal import stated_words as stated_words
from colabel.decide.corrections import Audit as Audit
from colabel.decide.corrections import NoiseRate as NoiseRate
from colabel.decide.decisions import DECISIONS as DECISIONS
from colabel.decide.decisions import F1 as F1
from colabel.decide.decisions import Decision as Decision
from colabel.decide.decisions import F1OverRows as F1OverRows
from colabel.decide.decisions import Hamming as Hamming
from colabel.decide.decisions import Jaccard as Jaccard
from colabel.decide.decisions import RiskMinimiser as RiskMinimiser
from colabel.decide.decisions import Seen as Seen
from colabel.decide.decisions import Subset as Subset
from colabel.decide.decisions import Votes as Votes
from colabel.decide.decisions import decide as decide
from colabel.decide.decisions import resolve_decision as resolve_decision
from colabel.decide.questions import Questions as Questions
from colabel.decide.questions import next_question as next_question

__all__ = [
    "F1",
    "Audit",
    "CoverageCheck",
    "Decision",
    "F1OverRows",
    "Hamming",
    "Jaccard",
    "LabelSets",
    "Questions",
    "RiskMinimiser",
    "Seen",
    "Subset",
    "Votes",
    "decide",
    "measured_coverage",
    "next_question",
]
