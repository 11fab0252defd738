from colabel.metrics.scorers import SCORERS as SCORERS
from colabel.metrics.scorers import exact_match_scorer as exact_match_scorer
from colabel.metrics.scorers import hamming_accuracy_scorer as hamming_accuracy_scorer
from colabel.metrics.scorers import joint_log_loss_scorer as joint_log_loss_scorer
from colabel.metrics.scorers import macro_f1_scorer as macro_f1_scorer
from colabel.metrics.scorers import micro_f1_scorer as micro_f1_scorer
from colabel.metrics.scorers import multilabel_accuracy_scorer as multilabel_accuracy_scorer
from colabel.metrics.scores import exact_match as exact_match
from colabel.metrics.scores import f1_label as f1_label
from colabel.metrics.scores import f1_of_means as f1_of_means
from colabel.metrics.scores import f1_score as f1_score
from colabel.metrics.scores import hamming_accuracy as hamming_accuracy
from colabel.metrics.scores import joint_log_loss as joint_log_loss
from colabel.metrics.scores import multilabel_accuracy as multilabel_accuracy

__all__ = [
    "SCORERS",
    "exact_match",
    "exact_match_scorer",
    "f1_label",
    "f1_of_means",
    "f1_score",
    "hamming_accuracy",
    "hamming_accuracy_scorer",
    "joint_log_loss",
    "joint_log_loss_scorer",
    "macro_f1_scorer",
    "micro_f1_scorer",
    "multilabel_accuracy",
    "multilabel_accuracy_scorer",
]
