"""Losses and errors of a report as shares of variances."""

from collections.abc import Sequence

import numpy as np

from fairspan.auditing.results import GroupResult, ModelResult
from fairspan.formatting.numbers import format_share
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


def proportion_texts(model: ModelResult) -> list[str]:
    """Format the groups' shares of the weight in per cent so that they add up as printed."""
    return format_parts([group.proportion for group in model.groups])


def format_parts(proportions: Sequence[float]) -> list[str]:
    """Format proportions that add up to one in per cent, with one decimal, so that they do.

    Those with the largest remainders are rounded up (method of largest remainders). Positive ones
    that round to zero are "< 0.1 %".

    Examples
    --------
    >>> [text.split()[0] for text in format_parts([0.8205, 0.1795])]
    ['82.1', '17.9']
    """
    tenths = 1000 * np.array(proportions)
    # Without the last digits, which are rounding errors and would decide between equal remainders.
    rounded_down = np.floor(tenths.round(9))
    remainders = (tenths - rounded_down).round(6)
    n_rounded_up = max(round(tenths.sum() - rounded_down.sum()), 0)
    rounded_up = np.argsort(-remainders, kind="stable")[:n_rounded_up]
    rounded_down[rounded_up] += 1
    return [
        format_share(proportion if tenth == 0 else tenth / 1000)
        for proportion, tenth in zip(proportions, rounded_down.tolist(), strict=True)
    ]


def shares_of_variances(values: FloatArray, model: ModelResult) -> FloatArray:
    """Return values by group, (..., k), as shares of their variances; zero without variance."""
    variances = np.array([group.observed_total_variance for group in model.groups])
    return np.asarray(np.divide(values, variances, out=np.zeros_like(values), where=variances > 0))
