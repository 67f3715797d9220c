"""Values with confidence limits: Student, Welch and jackknife intervals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairspan.auditing.distributions import student_isf
from fairspan.linalg.rounding import zero_negligible
from fairspan.problem.disparity import signed_disparity
from fairspan.typing import FloatArray

DEFAULT_LEVEL = 0.95
# The kurtosis of n numbers is n if a single one dominates, and bounded in n if the fourth moment is
# finite. Above this share of n, intervals are unreliable.
_MAX_KURTOSIS_SHARE = 0.1
# Squares of normal variables have a kurtosis of 15, and few samples of them exceed 30 by chance.
MIN_HEAVY_KURTOSIS = 30.0


@dataclass(frozen=True)
class Estimate:
    """A value (NaN if unknown) with its confidence limits (None if there is no interval)."""

    value: float
    low: float | None = None
    high: float | None = None

    def to_record(self, name: str) -> dict[str, float | None]:
        """Return value and limits as entries `name`, `name_low`, `name_high`."""
        return {name: none_if_nan(self.value), f"{name}_low": self.low, f"{name}_high": self.high}

    @property
    def has_interval(self) -> bool:
        """Whether both confidence limits are known."""
        return self.low is not None and self.high is not None

    @property
    def contains_zero(self) -> bool:
        """Whether the interval contains zero; False without an interval."""
        return self.low is not None and self.high is not None and self.low <= 0 <= self.high

    def without_rounding(self, rounding: float) -> "Estimate":
        """Return the estimate with zero in place of a value or limit of at most `rounding`."""
        low = None if self.low is None else float(zero_negligible(self.low, rounding))
        high = None if self.high is None else float(zero_negligible(self.high, rounding))
        return Estimate(float(zero_negligible(self.value, rounding)), low, high)

    def __neg__(self) -> "Estimate":
        low = None if self.low is None else -self.low
        high = None if self.high is None else -self.high
        return Estimate(-self.value, high, low)

    def relative_to(self, variance: float) -> "Estimate":
        """Return the estimate as a share of a variance; zero without variance."""
        low = None if self.low is None else share_of(self.low, variance)
        high = None if self.high is None else share_of(self.high, variance)
        return Estimate(share_of(self.value, variance), low, high)

    def clipped(self, start: float, end: float) -> "Estimate":
        """Return the estimate with value and limits clipped to a range of possible values."""
        low = None if self.low is None else float(np.clip(self.low, start, end))
        high = None if self.high is None else float(np.clip(self.high, start, end))
        return Estimate(float(np.clip(self.value, start, end)), low, high)

    def clipped_at_zero(self) -> "Estimate":
        """Return the estimate with its lower limit clipped at zero, and zero if it is unknown."""
        return Estimate(self.value, max(self.low or 0.0, 0.0), self.high)

    @classmethod
    def from_standard_error(
        cls,
        value: float,
        standard_error: float,
        df: float,
        n_tests: int = 1,
        level: float = DEFAULT_LEVEL,
    ) -> "Estimate":
        """Two-sided Student interval, Bonferroni-adjusted for `n_tests` simultaneous intervals."""
        margin = half_width(standard_error, df, n_tests, level)
        return cls(value, value - margin, value + margin)


UNKNOWN = Estimate(math.nan)
"""Estimate of an unknown value."""


def share_of(value: float, variance: float) -> float:
    """Return a value in units of error as a share of a variance; zero without variance.

    Examples
    --------
    >>> share_of(0.5, 2.0), share_of(0.0, 0.0), share_of(math.nan, 0.0)
    (0.25, 0.0, nan)
    """
    if variance > 0:
        return value / variance
    # What is unknown remains so.
    return math.nan if math.isnan(value) else 0.0


def none_if_nan(value: float) -> float | None:
    """Return the value, or None if it is NaN."""
    return None if math.isnan(value) else value


def half_width(standard_error: float, df: float, n_tests: int, level: float) -> float:
    """Half width of a two-sided Student interval, Bonferroni-adjusted for `n_tests`."""
    # The quantile handles infinite degrees of freedom.
    return student_isf((1 - level) / (2 * n_tests), float(df)) * standard_error


def level_of_look(level: float, look: int) -> float:
    """Confidence level of look number t = 1, 2, ... at data that are watched without an end date.

    Look t spends alpha / (t (t + 1)) of alpha = 1 - level. The shares sum to alpha, so that the
    probability of any false alarm, ever, is at most alpha.

    Examples
    --------
    >>> [round(level_of_look(0.95, look), 4) for look in (1, 2, 12)]
    [0.975, 0.9917, 0.9997]
    """
    return 1 - (1 - level) / (look * (look + 1))


def error_estimates(
    errors: FloatArray,
    standard_errors: FloatArray,
    counts: FloatArray,
    level: float = DEFAULT_LEVEL,
) -> list[Estimate]:
    """Student intervals of each group's mean error, clipped at zero.

    `counts` are the degrees of freedom plus one and need not be integers. There is no interval for
    a group of one row.
    """
    estimates = []
    values = zip(errors.tolist(), standard_errors.tolist(), counts.tolist(), strict=True)
    for error, standard_error, count in values:
        estimate = Estimate(error)
        if count > 1:
            estimate = Estimate.from_standard_error(error, standard_error, count - 1, level=level)
            estimate = estimate.clipped_at_zero()
        estimates.append(estimate)
    return estimates


def widest_pair(errors: FloatArray) -> tuple[int, int]:
    """Return the indices (a, b) of the groups that define the disparity error_b - error_a.

    The two groups, or those with the smallest and largest error.
    """
    if len(errors) == 2:
        return 0, 1
    return int(np.argmin(errors)), int(np.argmax(errors))


def disparity_estimate(
    errors: FloatArray,
    standard_errors: FloatArray,
    counts: FloatArray,
    level: float = DEFAULT_LEVEL,
    refit_errors: FloatArray | None = None,
) -> Estimate:
    """Disparity with Welch's interval for two independent samples.

    The disparity is the error of the second group minus that of the first, or the largest minus the
    smallest of more than two errors. With more than two groups, this pair is selected from the
    data, so the interval is simultaneous over all pairs (Bonferroni). No interval if a group of the
    pair has one row.

    Parameters
    ----------
    errors, standard_errors : (k,) arrays
    counts : (k,) array
        Degrees of freedom plus one; need not be integers.
    level : float
    refit_errors : (K, k) array, optional
        Errors under the refits without each fold: the jackknife variance of their difference
        between the two groups is added to that of the rows.
    """
    value = signed_disparity(errors)
    pair = list(widest_pair(errors))
    if len(errors) < 2 or (counts[pair] < 2).any():
        return Estimate(value)
    row_standard_error = float(np.hypot(*standard_errors[pair]))
    refit_standard_error = 0.0
    if refit_errors is not None:
        differences = refit_errors[:, pair[1]] - refit_errors[:, pair[0]]
        refit_standard_error = float(jackknife_standard_error(differences))
    standard_error = float(np.hypot(row_standard_error, refit_standard_error))
    if standard_error == 0:
        return Estimate(value, value, value)
    if row_standard_error > 0:
        # Degrees of freedom by Welch and Satterthwaite; normalize first to avoid overflow.
        shares = (standard_errors[pair] / row_standard_error) ** 2
        df = 1.0 / float((shares**2 / (counts[pair] - 1)).sum())
    else:
        # Only the refits vary, of which there are at least two.
        assert refit_errors is not None
        df = len(refit_errors) - 1.0
    return Estimate.from_standard_error(value, standard_error, df, math.comb(len(errors), 2), level)


def jackknife_estimate(
    value: float, leave_one_out: Sequence[float], n_tests: int = 1, level: float = DEFAULT_LEVEL
) -> Estimate:
    """Delete-a-block jackknife interval.

    Parameters
    ----------
    value : float
        Value from all blocks.
    leave_one_out : sequence of B >= 2 floats
        Value without each of the B blocks.
    n_tests : int
        Number of simultaneous intervals.
    """
    values = np.asarray(leave_one_out, dtype=np.float64)
    return Estimate.from_standard_error(
        value, float(jackknife_standard_error(values)), len(values) - 1, n_tests, level
    )


def jackknife_standard_error(leave_one_out: FloatArray) -> FloatArray:
    """Jackknife standard error sqrt((B - 1) / B sum_f (theta_f - mean)^2) along the first axis."""
    n_blocks = len(leave_one_out)
    deviations = leave_one_out - leave_one_out.mean(axis=0)
    # hypot avoids overflow of the squares.
    return np.asarray(math.sqrt((n_blocks - 1) / n_blocks) * np.hypot.reduce(deviations, axis=0))


def is_heavy_tailed(kurtosis: float, n: int) -> bool:
    """Whether a few of n numbers dominate their mean, so that intervals are unreliable.

    Examples
    --------
    >>> is_heavy_tailed(15.0, 100), is_heavy_tailed(40.0, 100), is_heavy_tailed(40.0, 1000)
    (False, True, False)
    """
    return kurtosis > max(_MAX_KURTOSIS_SHARE * n, MIN_HEAVY_KURTOSIS)
