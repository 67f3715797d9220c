"""Student's t and Fisher's F distributions, without the slow import of scipy.special.

Besides, quantiles of scipy.special.stdtrit in SciPy 1.11 have relative errors up to 2e-9.

Numbers refer to Abramowitz and Stegun, Handbook of Mathematical Functions (1964).
"""

import math
from collections.abc import Callable
from functools import lru_cache

# Degrees of freedom above which the expansion about the normal quantile is exact to double
# precision.
_EXPANSION_MIN_DF = 1e4
# Argument above which the expansion of the gamma ratio is exact to double precision.
_GAMMA_RATIO_MIN = 150.0
# Coefficients of the powers of 1 / a in the expansion of Gamma(a + 1/2) / (Gamma(a) sqrt(a)).
_GAMMA_RATIO_SERIES = (1, -1 / 8, 1 / 128, 5 / 1024, -21 / 32768)
# Relative step at which Newton's method ends: convergence is quadratic, so the next is rounding.
_NEWTON_TOL = 1e-9
# Relative change at which the continued fraction ends, below the rounding of a double.
_FRACTION_TOL = 1e-16


# Iterations of Newton's method, which takes fewer than ten.
_MAX_ITER = 60
# Terms of the continued fraction; it takes O(sqrt(max(a, b))).
_MAX_TERMS = 2000


@lru_cache(maxsize=4096)
def student_isf(tail: float, df: float) -> float:
    """Inverse survival function of Student's t: the value exceeded with probability `tail` < 1/2.

    Parameters
    ----------
    tail : float
        Tail probability in (0, 1/2).
    df : float
        Degrees of freedom; infinity for the normal distribution.

    Returns
    -------
    float
        NaN unless `df` is positive.

    Examples
    --------
    >>> round(student_isf(0.025, 10), 4), round(student_isf(0.025, math.inf), 4)
    (2.2281, 1.96)
    """
    if not df > 0:
        return math.nan
    # The normal quantile. The tail is below exp(-t^2 / 2) / 2, which equals `tail` at the start.
    z = _invert_tail(tail, math.sqrt(-2 * math.log(2 * tail)), _normal_tail_and_density)
    if df <= _EXPANSION_MIN_DF:
        return _invert_tail(tail, z, lambda t: _student_tail_and_density(t, df))
    # Expansion about the normal quantile in 1 / df (Abramowitz and Stegun 1964, 26.7.5).
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + (first + (second + third / df) / df) / df


def f_cdf(x: float, df1: float, df2: float) -> float:
    """Cumulative distribution function of Fisher's F for small arguments.

    Abramowitz and Stegun (1964), 26.6.2 and 26.5.8: an incomplete beta function with parameters
    a = df1 / 2 and b = df2 / 2, computed from its continued fraction.

    Parameters
    ----------
    x : float
        Argument, at most about 1, where the continued fraction converges.
    df1, df2 : float
        Degrees of freedom, positive.

    Examples
    --------
    >>> round(f_cdf(0.5, 10, 40), 4)
    0.1203
    """
    if x <= 0:
        return 0.0
    a = df1 / 2
    b = df2 / 2
    beta_argument = df1 * x / (df1 * x + df2)
    # Logarithm of x^a (1 - x)^b / (a B(a, b)) at the argument, by which the fraction is multiplied.
    log_gamma_ratio = math.lgamma(a + b) - math.lgamma(a + 1) - math.lgamma(b)
    log_factor = log_gamma_ratio + a * math.log(beta_argument) + b * math.log1p(-beta_argument)
    return math.exp(log_factor) * _incomplete_beta_fraction(beta_argument, a, b)


def _invert_tail(
    tail: float, t: float, tail_and_density: Callable[[float], tuple[float, float]]
) -> float:
    """Return the t > 0 that is exceeded with probability `tail`.

    Newton's method for log(tail) as a function of log(t), which is concave, so the iterates
    decrease from the second step on. It starts at `t`; `tail_and_density` returns the upper tail
    probability and the density of the distribution.
    """
    for _ in range(_MAX_ITER):
        current_tail, density = tail_and_density(t)
        step = current_tail / (t * density) * math.log(current_tail / tail)
        t *= math.exp(step)
        if abs(step) < _NEWTON_TOL:
            break
    return t


def _normal_tail_and_density(t: float) -> tuple[float, float]:
    """Upper tail probability and density of the standard normal distribution at t."""
    return math.erfc(t / math.sqrt(2)) / 2, math.exp(-t * t / 2) / math.sqrt(2 * math.pi)


def _student_tail_and_density(t: float, df: float) -> tuple[float, float]:
    """Upper tail probability and density of Student's t at t > 0.

    The probability is half an incomplete beta function (Abramowitz and Stegun 1964, 26.5.27).
    """
    a = df / 2
    x = df / (df + t * t)
    power = math.exp(-a * math.log1p(t * t / df))
    density = _half_step_gamma_ratio(a) * power / math.sqrt(math.pi * (df + t * t))
    # The fraction converges fast for small arguments; for others use I_x(a, b) = 1 - I_(1-x)(b, a).
    if x < (a + 1) / (a + 2.5):
        tail = t * density / (2 * a) * _incomplete_beta_fraction(x, a, 0.5)
    else:
        tail = 0.5 - t * density * _incomplete_beta_fraction(1 - x, 0.5, a)
    return tail, density


def _half_step_gamma_ratio(a: float) -> float:
    """Return Gamma(a + 1/2) / Gamma(a); for large a, where Gamma overflows, from its series."""
    if a < _GAMMA_RATIO_MIN:
        return math.gamma(a + 0.5) / math.gamma(a)
    series = sum(coefficient / a**i for i, coefficient in enumerate(_GAMMA_RATIO_SERIES))
    return math.sqrt(a) * series


def _incomplete_beta_fraction(x: float, a: float, b: float) -> float:
    """Continued fraction of the incomplete beta function, by Lentz's method.

    The function I_x(a, b) is x^a (1 - x)^b / (a B(a, b)) times this fraction (Abramowitz and Stegun
    1964, 26.5.8).
    """
    # Start with the first coefficient; in the loop, each m gives the next two.
    numerator = 1.0
    denominator = 1 / (1 - (a + b) * x / (a + 1))
    value = denominator
    for m in range(1, _MAX_TERMS):
        even = a + 2 * m - 1
        odd = a + 2 * m + 1
        for coefficient in (
            m * (b - m) / (even * (a + 2 * m)),
            -(a + m) * (a + b + m) / ((a + 2 * m) * odd),
        ):
            denominator = 1 / (1 + coefficient * x * denominator)
            numerator = 1 + coefficient * x / numerator
            value *= numerator * denominator
        if abs(numerator * denominator - 1) < _FRACTION_TOL:
            break
    return value
