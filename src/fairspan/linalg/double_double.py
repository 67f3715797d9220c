"""Double-double arithmetic: sums, products and quotients with their rounding errors.

A number is held as an unevaluated sum of two float64 numbers; the second is at most half a unit in
the last place of the first (Dekker 1971; Knuth, TAOCP 2, section 4.2.2). Fused multiply-add is not
used, so the results are the same on every machine.
"""

import numpy as np

from fairspan.typing import FloatArray

# Veltkamp's constant: splits the 53 bits of a float64 number into two halves whose products with
# other halves are exact.
_SPLITTER = 2.0**27 + 1


def exact_sum(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return a + b rounded to float64, and the rounding error (Knuth, TAOCP 2, 4.2.2).

    Examples
    --------
    >>> total, error = exact_sum(np.array([1e16]), np.array([1.0]))
    >>> float(total[0]), float(error[0])
    (1e+16, 1.0)
    """
    total = np.asarray(a + b)
    b_rounded = total - a
    error = np.asarray((a - (total - b_rounded)) + (b - b_rounded))
    return total, error


def exact_product(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return a b rounded to float64, and the rounding error, for numbers below 1e290.

    Examples
    --------
    >>> product, error = exact_product(np.array([1 + 2.0**-30]), np.array([1 + 2.0**-30]))
    >>> float(error[0]) == 2.0**-60
    True
    """
    product = np.asarray(a * b)
    # Products of halves are exact: each has half of the digits (Dekker 1971).
    a_high, a_low = _halves(a)
    b_high, b_low = _halves(b)
    error = a_high * b_high - product
    error = (error + a_high * b_low) + a_low * b_high
    return product, np.asarray(error + a_low * b_low)


def divide(
    high: FloatArray, low: FloatArray | float, divisor: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return (high + low) / divisor rounded to float64, and the rounding error.

    The numerator is a double-double number: `low` is the rounding error of `high`.
    """
    quotient = high / divisor
    product, error = exact_product(quotient, divisor)
    correction = ((high - product) - error + low) / divisor
    return exact_sum(quotient, correction)


def _halves(number: FloatArray) -> tuple[FloatArray, FloatArray]:
    scaled = _SPLITTER * number
    high = scaled - (scaled - number)
    return high, number - high
