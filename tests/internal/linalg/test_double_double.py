"""Sums, products and quotients of twice the digits, against rational arithmetic."""

from fractions import Fraction

import numpy as np

from fairspan.linalg import power_of_two_unit
from fairspan.linalg.double_double import divide, exact_product, exact_sum


def test_sums_products_and_quotients_are_exact():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 50)) * 10.0 ** rng.integers(-20, 20, (2, 50))
    for operation, exactly in (
        (exact_sum, lambda x, y: x + y),
        (exact_product, lambda x, y: x * y),
    ):
        high, low = operation(a, b)
        for x, y, high_part, low_part in zip(a, b, high, low, strict=True):
            expected = exactly(Fraction(float(x)), Fraction(float(y)))
            assert Fraction(float(high_part)) + Fraction(float(low_part)) == expected
    high, low = divide(a, 0.0, b)
    for x, y, high_part, low_part in zip(a, b, high, low, strict=True):
        expected = Fraction(float(x)) / Fraction(float(y))
        quotient = Fraction(float(high_part)) + Fraction(float(low_part))
        assert abs(float((quotient - expected) / expected)) < 1e-31


def test_the_unit_of_weights_is_a_power_of_two():
    units = [power_of_two_unit(np.array(weights)) for weights in ([], [0.0], [1.0], [0.1, 0.75])]
    assert units == [
        1,
        1,
        1,
        0.5,
    ]
