"""Losses and errors of a report as shares of variances."""

import numpy as np

from fairspan.auditing.intervals import Estimate
from fairspan.auditing.results import GroupResult, ModelResult, relative_loss
from fairspan.typing import FloatArray


def observed_loss(group: GroupResult) -> float:
    """Observed loss as a share of the variance of the group; zero without variance."""
    return share_of(group.observed_loss, group.observed_total_variance)


def expected_loss_share(group: GroupResult) -> Estimate:
    """Return the expected loss as a share of the group's variance, zero within its rounding."""
    loss = group.expected_loss.without_rounding(group.observed_rounding)
    return loss.relative_to(group.observed_total_variance)


def expected_error_share(group: GroupResult) -> Estimate:
    """Return the expected error as a share of the group's variance, zero within its rounding."""
    error = group.expected_error.without_rounding(group.observed_rounding)
    return error.relative_to(group.observed_total_variance)


def largest_observed_loss(model: ModelResult) -> float:
    """Largest observed loss of any group as a share of its variance."""
    return max(observed_loss(group) for group in model.groups)


def group_with_largest_loss(model: ModelResult) -> GroupResult | None:
    """Return the group that is expected to lose the largest share of its variance.

    It may be inconclusive. None without estimates.
    """
    estimated = [group for group in model.groups if group.is_estimated]
    return max(estimated, key=relative_loss, default=None)


def shares_of_variances(values: FloatArray, model: ModelResult) -> FloatArray:
    """Return values by group, (..., k), as shares of their variances; zero without variance."""
    variances = np.array([group.observed_total_variance for group in model.groups])
    return np.asarray(np.divide(values, variances, out=np.zeros_like(values), where=variances > 0))


def total_variance(model: ModelResult) -> float:
    """Variance of all rows about the model's center."""
    return sum(group.proportion * group.observed_total_variance for group in model.groups)


def lost_share(model: ModelResult) -> float:
    """Observed error over all rows as a share of their variance."""
    return share_of(model.observed_total_error, total_variance(model))


def share_of(value: float, variance: float) -> float:
    """Return a value as a share of a variance; zero without variance."""
    if not variance > 0:
        return 0.0
    return value / variance
