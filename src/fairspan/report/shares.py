"""Losses and errors of a report as shares of variances."""

import numpy as np

from fairspan.auditing.results import GroupResult, ModelResult
from fairspan.typing import FloatArray


def largest_observed_loss(model: ModelResult) -> float:
    """Largest observed loss of any group as a share of its variance."""
    return max(group.observed_loss_share for group in model.groups)


def group_with_largest_loss(model: ModelResult) -> GroupResult | None:
    """Return the group that is expected to lose the largest share of its variance.

    It may be inconclusive. None without estimates.
    """
    estimated = [group for group in model.groups if group.is_estimated]
    return max(estimated, key=lambda group: group.expected_loss_share.value, default=None)


def shares_of_variances(values: FloatArray, model: ModelResult) -> FloatArray:
    """Return values by group, (..., k), as shares of their variances; zero without variance."""
    variances = np.array([group.observed_total_variance for group in model.groups])
    return np.asarray(np.divide(values, variances, out=np.zeros_like(values), where=variances > 0))
