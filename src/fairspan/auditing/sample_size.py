"""Sample sizes: rows at which a loss is detected, and the smallest loss that given rows detect."""

import math
from dataclasses import dataclass

from fairspan.auditing.distributions import student_isf

# Target power.
_POWER = 0.8
# The formula is for cross-fitted losses and exact to first order; at its n the simulated power was
# .6 to 1.
_SAFETY_FACTOR = 1.3
# Tails of the range of numbers of rows.
_RANGE_TAIL = 0.1


def required_sample_size(
    loss: float, standard_deviation: float, bias: float, quantile: float
) -> float:
    """Return the number of rows at which a loss is detected.

    The number is max{[(z s + sqrt(z^2 s^2 + 4 l B)) / 2 l]^2, 3 B / l}. A loss l is detected if the
    lower limit of the cross-fitted loss is positive and that loss is at least the optimism of the
    group's best subspace. With n rows, the cross-fitted loss has mean l - B / n and standard
    deviation s / sqrt(n), and the optimism is 2 B / n. For normal rows with
    second moment S, eigenvalues lambda, d leading eigenvectors U and a model with orthonormal
    components V, B = sum over i <= d < j of
    lambda_i lambda_j / (lambda_i - lambda_j) and s^2 = 2 tr[((UU' - VV') S)^2]. Audits estimate
    both from the rows without distributional assumptions: s from the spread of the rows' losses, B
    from the difference between held-out and in-sample errors.

    Parameters
    ----------
    loss, standard_deviation, bias, quantile : float
        l > 0, s, B and z, the sum of quantiles from :func:`power_quantile`.

    Examples
    --------
    >>> round(required_sample_size(1.0, 2.0, 3.0, 2.0), 2)
    21.58
    """
    scaled_deviation = quantile * standard_deviation
    root_n = (scaled_deviation + math.sqrt(scaled_deviation**2 + 4 * loss * bias)) / (2 * loss)
    return max(root_n**2, 3 * bias / loss)


def min_detectable_loss(n: float, standard_deviation: float, bias: float, quantile: float) -> float:
    """Smallest loss that n rows detect: :func:`required_sample_size` solved for l.

    Examples
    --------
    >>> round(min_detectable_loss(21.58, 2.0, 3.0, 2.0), 2)
    1.0
    """
    return max(quantile * standard_deviation / math.sqrt(n) + bias / n, 3 * bias / n)


def power_quantile(n_tests: int, level: float) -> float:
    """Sum of the normal quantiles of the simultaneous confidence limit and of the power."""
    tails = (1 - level) / (2 * n_tests), 1 - _POWER
    return sum(student_isf(tail, math.inf) for tail in tails)


@dataclass(frozen=True)
class LossSpread:
    """Variation of the cross-fitted losses of a group with its number of rows.

    Attributes
    ----------
    n : int
        Present number of independent rows or clusters.
    standard_deviation, bias : float
        s and B of :func:`required_sample_size`.
    weight_variation : float
        Squared coefficient of variation of the squared weights.
    """

    n: int
    standard_deviation: float
    bias: float
    weight_variation: float = 0.0

    def size_factor(self, loss: float, quantile: float) -> float:
        """Factor on n at which a loss is detected, including the safety factor."""
        # Other rows with such weights may count for less than these.
        weight_factor = math.sqrt(1 + self.weight_variation / self.n)
        standard_deviation = self.standard_deviation * weight_factor
        required = required_sample_size(loss, standard_deviation, self.bias, quantile)
        return _SAFETY_FACTOR * max(required / self.n, 1.0)


@dataclass(frozen=True)
class DetectionPlan:
    """Smallest loss that the present rows detect, and how many more detect the estimated one.

    All are NaN if unknown.

    Attributes
    ----------
    min_detectable_loss : float
    size_factor : float
        Factor on the number of rows.
    size_factor_low, size_factor_high : float
        The factor at the 90 % and 10 % quantiles of the loss, estimated with its standard error.
    """

    min_detectable_loss: float = math.nan
    size_factor: float = math.nan
    size_factor_low: float = math.nan
    size_factor_high: float = math.nan


UNKNOWN_PLAN = DetectionPlan()
"""Plan where nothing is known."""


def plan_detection(
    loss: float, min_material_loss: float, spread: LossSpread, quantile: float
) -> DetectionPlan:
    """Plan for an estimated loss, or the materiality threshold if larger; unknown if both are 0.

    Parameters
    ----------
    loss, min_material_loss : float
    spread : LossSpread
    quantile : float
        From :func:`power_quantile`.
    """
    target_loss = max(loss, min_material_loss)
    if not target_loss > 0:
        return UNKNOWN_PLAN
    n = spread.n
    detectable = min_detectable_loss(n, spread.standard_deviation, spread.bias, quantile)
    margin = student_isf(_RANGE_TAIL, math.inf) * spread.standard_deviation / math.sqrt(n)
    least_loss = max(loss - margin, min_material_loss)
    # Without a materiality threshold, a loss that may be zero takes any number of rows.
    high = math.inf
    if least_loss > 0:
        high = spread.size_factor(least_loss, quantile)
    return DetectionPlan(
        detectable,
        spread.size_factor(target_loss, quantile),
        spread.size_factor(max(loss + margin, min_material_loss), quantile),
        high,
    )


def round_up_two_digits(rows: float) -> int:
    """Round a number of rows up to two significant digits.

    Examples
    --------
    >>> round_up_two_digits(1234.5), round_up_two_digits(7.2)
    (1300, 8)
    """
    unit = 10 ** max(len(str(int(rows))) - 2, 0)
    return int(math.ceil(rows / unit) * unit)
