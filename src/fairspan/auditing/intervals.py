"""Intervals: for an error, for a disparity, from rows or from blocks of moments."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.special import stdtrit

from fairspan.problem.problem import signed_disparity
from fairspan.typing import FloatArray, IntegerArray

LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """A figure with the ends of its interval, None where there is none."""

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def has_interval(self) -> bool:
        """Whether there is an interval."""
        return self.low is not None and self.high is not None

    @property
    def contains_zero(self) -> bool:
        """Whether the interval contains zero; False without an interval."""
        return self.low is not None and self.high is not None and self.low <= 0 <= self.high

    def cut_at_zero(self) -> "Estimate":
        """With a low end that is not below zero, as of an error."""
        return Estimate(self.value, max(self.low or 0.0, 0.0), self.high)

    @classmethod
    def around(
        cls,
        value: float,
        standard_error: float,
        freedom: float,
        tests: int = 1,
        level: float = LEVEL,
    ) -> "Estimate":
        """A two-sided Student interval; with several tests a simultaneous one (Bonferroni)."""
        # Huge degrees of freedom are the normal limit, which stdtrit reaches by itself.
        half = -float(stdtrit(freedom, (1 - level) / (2 * tests))) * standard_error
        return cls(value, value - half, value + half)


def error_estimates(
    errors: FloatArray, standard_errors: FloatArray, counts: IntegerArray, level: float = LEVEL
) -> list[Estimate]:
    """Student intervals of each group's mean error; none for a group of one row.

    The lower end is cut at zero, below which no error lies.
    """
    return [
        Estimate.around(error, standard_error, n - 1, level=level).cut_at_zero()
        if n > 1
        else Estimate(error)
        for error, standard_error, n in zip(
            errors.tolist(), standard_errors.tolist(), counts.tolist(), strict=True
        )
    ]


def widest_pair(errors: FloatArray) -> tuple[int, int]:
    """Positions (a, b) of the two groups whose errors make the disparity, error_b - error_a."""
    return (0, 1) if len(errors) == 2 else (int(np.argmin(errors)), int(np.argmax(errors)))


def disparity_estimate(
    errors: FloatArray, standard_errors: FloatArray, counts: IntegerArray, level: float = LEVEL
) -> Estimate:
    """The disparity with Welch's interval for two independent samples.

    Of more than two groups the widest pair is shown, which was picked by looking: the interval is
    then simultaneous over all pairs (Bonferroni). No interval if a group of the pair has one row.
    """
    value = signed_disparity(errors)
    pair = list(widest_pair(errors))
    if len(errors) < 2 or (counts[pair] < 2).any():
        return Estimate(value)
    total = float(np.hypot(*standard_errors[pair]))
    if total == 0:
        return Estimate(value, value, value)
    # As shares, so that no power of an error overflows.
    shares = (standard_errors[pair] / total) ** 2
    freedom = 1.0 / float((shares**2 / (counts[pair] - 1)).sum())
    return Estimate.around(
        value, total, freedom, len(list(combinations(range(len(errors)), 2))), level
    )


def jackknife(
    value: float, without_each: Sequence[float], tests: int = 1, level: float = LEVEL
) -> Estimate:
    """Delete-a-block jackknife: the interval from the values with each block left out.

    Parameters
    ----------
    value : float
        With all blocks.
    without_each : sequence of B >= 2 floats
    tests : int
        For a simultaneous interval over so many figures.
    """
    values = np.asarray(without_each, dtype=np.float64)
    n_blocks = len(values)
    variance = (n_blocks - 1) / n_blocks * float(((values - values.mean()) ** 2).sum())
    return Estimate.around(value, float(np.sqrt(variance)), n_blocks - 1, tests, level)
