"""Group metrics of projections, and of labels and representations computed from reduced data.

Errors, losses, variance kept and disparity evaluate a projection on the rows of each group, the
worst-case error also on distributions near them; label bias and statistical parity evaluate labels
or predictions; leakage and the maximum mean discrepancy measure how well groups can be separated in
a representation.
"""

from fairspan.metrics.group_separation import MMDEstimate, leakage, mmd
from fairspan.metrics.parity import (
    LabelBias,
    StatisticalParity,
    label_bias,
    prediction_bias,
    statistical_parity,
)
from fairspan.metrics.rank_bound import RankBound, rank_bound
from fairspan.metrics.reconstruction import (
    GroupErrors,
    disparity,
    excess_loss,
    group_errors,
    neg_error_plus_gap,
    reconstruction_error,
    variance_kept_ratio,
    worst_case_error,
)
from fairspan.metrics.wasserstein import gaussian_wasserstein

__all__ = [
    "GroupErrors",
    "LabelBias",
    "MMDEstimate",
    "RankBound",
    "StatisticalParity",
    "disparity",
    "excess_loss",
    "gaussian_wasserstein",
    "group_errors",
    "label_bias",
    "leakage",
    "mmd",
    "neg_error_plus_gap",
    "prediction_bias",
    "rank_bound",
    "reconstruction_error",
    "statistical_parity",
    "variance_kept_ratio",
    "worst_case_error",
]
