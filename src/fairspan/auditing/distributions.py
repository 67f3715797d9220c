"""Student's and Fisher's distributions; importing scipy.special takes longer than a small audit.

Sections are those of Abramowitz and Stegun, Handbook of Mathematical Functions (1964).
"""

import math
from collections.abc import Callable
from functools import lru_cache

# From so many degrees of freedom the expansion about the normal quantile has all digits.
_EXPANSION_MIN_DF = 1e4
# From such arguments the expansion of a quotient of gamma functions has all digits.
_GAMMA_RATIO_MIN = 150.0
_MAX_ITER, _MAX_TERMS = 60, 2000


@lru_cache(maxsize=4096)
def student_isf(tail: float, df: float) -> float:
    """The t that Student's variable exceeds with a probability below one half.

    Parameters
    ----------
    tail : float
        The probability, above 0 and below 1/2.
    freedom : float
        Degrees of freedom; infinity for the normal distribution.

    Returns
    -------
    float
        NaN without a positive number of degrees of freedom.

    Examples
    --------
    >>> round(student_isf(0.025, 10), 4), round(student_isf(0.025, math.inf), 4)
    (2.2281, 1.96)
    """
    if not df > 0:
        return math.nan
    # The tail of the normal distribution is below exp(-t^2 / 2) / 2.
    z = _invert_tail(tail, math.sqrt(-2 * math.log(2 * tail)), _normal_tail_and_density)
    if df <= _EXPANSION_MIN_DF:
        return _invert_tail(tail, z, lambda t: _student_tail_and_density(t, df))
    first = (z**3 + z) / 4  # 26.7.5
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + (first + (second + third / df) / df) / df


def f_cdf(ratio: float, df1: float, df2: float) -> float:
    """The probability that Fisher's F is below a small value, by 26.6.2 and 26.5.8.

    Parameters
    ----------
    ratio : float
        The value, at most about one, where the continued fraction converges.
    first, second : float
        Degrees of freedom, positive.

    Examples
    --------
    >>> round(f_cdf(0.5, 10, 40), 4)
    0.1203
    """
    if ratio <= 0:
        return 0.0
    a, b = df1 / 2, df2 / 2
    x = df1 * ratio / (df1 * ratio + df2)
    factor = math.lgamma(a + b) - math.lgamma(a + 1) - math.lgamma(b)
    return math.exp(factor + a * math.log(x) + b * math.log1p(-x)) * _incomplete_beta_fraction(
        x, a, b
    )


def _invert_tail(
    tail: float, t: float, tail_and_density: Callable[[float], tuple[float, float]]
) -> float:
    """Newton's method for log(tail) of log(t), which is concave: from the second step it falls."""
    for _ in range(_MAX_ITER):
        current_tail, density = tail_and_density(t)
        step = current_tail / (t * density) * math.log(current_tail / tail)
        t *= math.exp(step)
        if abs(step) < 1e-9:  # the next one would be its square
            break
    return t


def _normal_tail_and_density(t: float) -> tuple[float, float]:
    """P(Z > t), and the density at t."""
    return math.erfc(t / math.sqrt(2)) / 2, math.exp(-t * t / 2) / math.sqrt(2 * math.pi)


def _student_tail_and_density(t: float, freedom: float) -> tuple[float, float]:
    """P(T > t), which is half an incomplete beta function (26.5.27), and the density at t > 0."""
    a, x = freedom / 2, freedom / (freedom + t * t)
    if a < _GAMMA_RATIO_MIN:
        quotient = math.gamma(a + 0.5) / math.gamma(a)
    else:
        terms = 1, -1 / 8, 1 / 128, 5 / 1024, -21 / 32768
        quotient = math.sqrt(a) * sum(term / a**i for i, term in enumerate(terms))
    power = math.exp(-a * math.log1p(t * t / freedom))
    density = quotient * power / math.sqrt(math.pi * (freedom + t * t))
    if x < (a + 1) / (a + 2.5):
        return t * density / (2 * a) * _incomplete_beta_fraction(x, a, 0.5), density
    return 0.5 - t * density * _incomplete_beta_fraction(1 - x, 0.5, a), density


def _incomplete_beta_fraction(x: float, a: float, b: float) -> float:
    """The continued fraction 26.5.8 of an incomplete beta function, by Lentz's method."""
    numerator, denominator = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    value = denominator
    for m in range(1, _MAX_TERMS):
        even, odd = a + 2 * m - 1, a + 2 * m + 1
        for coefficient in (
            m * (b - m) / (even * (a + 2 * m)),
            -(a + m) * (a + b + m) / ((a + 2 * m) * odd),
        ):
            denominator, numerator = (
                1 / (1 + coefficient * x * denominator),
                1 + coefficient * x / numerator,
            )
            value *= numerator * denominator
        if abs(numerator * denominator - 1) < 1e-16:
            break
    return value
