"""Observed rounding errors lie within the model of rounding and its limits."""

import math

import numpy as np
import pytest
from scipy.linalg import qr

from fairspan.linalg import error_rounding_bound, graded_eigh
from fairspan.linalg import rounding as limits
from fairspan.linalg.rounding import EPS


def _numbers(n, seed=0):
    generator = np.random.default_rng(seed)
    return generator.standard_normal(n) * 10.0 ** generator.uniform(-8, 8, n)


@pytest.mark.parametrize("order", ["as they come", "smallest first", "largest first"])
def test_a_sum_in_any_order_is_within_its_bound(order):
    numbers = _numbers(2000)
    if order != "as they come":
        numbers = numbers[np.argsort(np.abs(numbers))]
    if order == "largest first":
        numbers = numbers[::-1]
    off = abs(sum(numbers.tolist()) - math.fsum(numbers))
    assert 0 < off <= EPS * len(numbers) * math.fsum(np.abs(numbers))


@pytest.mark.parametrize("n", [10, 1000, 100_000])
def test_an_entry_of_a_second_moment_is_within_few_terms(n):
    generator = np.random.default_rng(n)
    for offset in (0.0, 3.0):
        x, y = generator.standard_normal((2, n)) + offset
        off = abs(float(x @ y) - math.fsum(x.astype(np.longdouble) * y.astype(np.longdouble)))
        norm = math.sqrt(math.fsum(x * x) * math.fsum(y * y))
        assert off <= EPS * limits.ENTRY_TERMS * norm


def test_eigenvalues_are_within_their_limit():
    generator = np.random.default_rng(1)
    p = 300
    # A reflection, formed without rounding beyond its entries, and its eigenvalues -1 and 1.
    v = generator.standard_normal(p)
    reflection = np.eye(p) - 2 * np.outer(v, v) / (v @ v)
    values = graded_eigh(reflection, max_deflated=0)[0]
    expected = np.append(-1.0, np.ones(p - 1))
    assert np.abs(values - expected).max() <= limits.EIGENVALUE_ROUNDING
    # Of a matrix of rank 5, other eigenvalues are zero.
    columns = generator.standard_normal((p, 5))
    values = np.linalg.eigvalsh(columns @ columns.T)
    assert np.count_nonzero(values > limits.ZERO_EIGENVALUE * values[-1]) == 5


def test_a_dependent_direction_is_shorter_than_the_limit_of_the_rank():
    generator = np.random.default_rng(2)
    basis = qr(generator.standard_normal((60, 10)), mode="economic")[0]
    column = basis @ generator.standard_normal(10)
    column /= np.linalg.norm(column)
    assert np.linalg.norm(column - basis @ (basis.T @ column)) <= limits.RANK_TOL
    factor = np.linalg.qr(np.column_stack([basis, column]))[1]
    values = np.linalg.svd(factor, compute_uv=False)
    assert values[-1] <= EPS * limits.RANK_TERMS * len(factor) * values[0]


def test_variances_change_by_the_square_of_a_small_angle():
    angle = limits.ANGLE_TOL
    direction = np.array([math.cos(angle), math.sin(angle)])
    variance = float(direction @ np.diag([1.0, 0.0]) @ direction)
    assert abs(variance - 1.0) <= EPS


def test_an_error_that_is_not_a_difference_has_the_tighter_bound():
    column_rms = np.ones((1, 4))
    row_norms = np.full(4, 1e-3)
    variance = 4.0
    small, large = (
        error_rounding_bound(column_rms, np.array([share * variance]), row_norms)[0]
        for share in (0.9 * limits.CANCELLATION_RATIO, 1.1 * limits.CANCELLATION_RATIO)
    )
    assert small < EPS * variance < large


def test_limits_are_in_order_and_cover_the_terms_that_they_name():
    stricter_first = [
        limits.VALUE_ROUNDING,
        limits.FIGURE_ROUNDING,
        limits.EIGENVALUE_ROUNDING,
        limits.SUM_ROUNDING,
        limits.RANK_TOL,
        limits.AGREEMENT_TOL,
        limits.LOOSE_TOL,
    ]
    assert stricter_first == sorted(stricter_first)
    n_terms = [limit / EPS for limit in stricter_first[:4]]
    assert n_terms == pytest.approx([4.5, 45, 450, 4500], rel=0.01)
    single = float(np.finfo(np.float32).eps)
    assert 8 * single == pytest.approx(limits.SINGLE_PRECISION_TOL, rel=0.05)
    assert limits.ANGLE_TOL**2 < EPS
    assert float(limits.MAX_EXACT_INTEGER) + 1 == limits.MAX_EXACT_INTEGER
