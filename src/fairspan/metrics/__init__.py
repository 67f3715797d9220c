"""What a projection does to each group, and what its reduced data do downstream.

Errors, losses, variance kept and disparity judge a projection by the groups' rows, and the worst
case by all rows within a distance of them; label bias and
statistical parity judge labels or predictions; leakage and the maximum mean discrepancy judge how
well the groups can be told apart in a representation.
"""

from fairspan.metrics.labels import (
    LabelBias,
    StatisticalParity,
    label_bias,
    signed_bias,
    statistical_parity,
)
from fairspan.metrics.reconstruction import (
    GroupFigures,
    captured_variance_ratio,
    disparity,
    error_plus_gap,
    excess_loss,
    group_figures,
    reconstruction_error,
    worst_case_error,
)
from fairspan.metrics.separation import Discrepancy, leakage, mmd
from fairspan.metrics.wasserstein import gaussian_wasserstein

__all__ = [
    "Discrepancy",
    "GroupFigures",
    "LabelBias",
    "StatisticalParity",
    "captured_variance_ratio",
    "disparity",
    "error_plus_gap",
    "excess_loss",
    "gaussian_wasserstein",
    "group_figures",
    "label_bias",
    "leakage",
    "mmd",
    "reconstruction_error",
    "signed_bias",
    "statistical_parity",
    "worst_case_error",
]
