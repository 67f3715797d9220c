"""Sums of the smallest eigenvalues against 60 digits: accurate, and never above the truth."""

import numpy as np
import pytest

from exact_sums import KINDS, case_of
from fairspan.linalg import rounding_of_errors, smallest_sum
from fairspan.moments.operators import DenseSecondMoments
from problems import random_basis, random_moments

SEEDS = range(204)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_accurate_and_never_above_the_truth(kind):
    for case in (each for each in map(case_of, SEEDS) if each.kind == kind):
        found = smallest_sum(case.matrices, case.weights, case.n_leading)
        truth, size = case.sums()
        assert found.value - found.rounding <= truth
        # What is zero in exact arithmetic is known up to the rounding that is told.
        assert abs(found.value - truth) <= max(1e-13 * size, found.rounding)
        if "low rank" not in kind:
            assert abs(found.value - truth) <= 1e-13 * size
            assert found.rounding <= 1e-11 * size


def test_the_trace_less_the_largest_eigenvalues_would_not_do():
    case = next(
        case for case in map(case_of, SEEDS) if case.kind == "large column" and case.n_leading == 1
    )
    mixture = np.tensordot(case.weights, case.matrices, axes=1)
    by_trace = np.trace(mixture) - np.linalg.eigvalsh(mixture)[-1]
    truth, _ = case.sums()
    assert abs(by_trace - truth) > 0.01 * truth
    found = smallest_sum(case.matrices, case.weights, 1)
    assert abs(found.value - truth) <= 1e-13 * truth


@pytest.mark.parametrize("seed", range(20))
def test_all_dimensions_leave_nothing(seed):
    matrices = random_moments(np.random.default_rng(seed), 2, 4)
    assert smallest_sum(matrices, np.array([0.3, -0.7]), 4) == (0.0, 0.0)


def test_groups_without_weight_do_not_matter():
    matrices = random_moments(np.random.default_rng(0), 3, 5)
    alone = smallest_sum(matrices[:1], np.ones(1), 2)
    matrices[1:] *= 1e30
    assert smallest_sum(matrices, np.array([1.0, 0.0, 0.0]), 2) == alone
    assert smallest_sum(matrices, np.zeros(3), 2) == (0.0, 0.0)


@pytest.mark.parametrize("factor", [2.0**-200, 2.0**200])
def test_units_change_nothing_but_the_scale(factor):
    for case in map(case_of, range(24)):
        here = smallest_sum(case.matrices, case.weights, case.n_leading)
        there = smallest_sum(factor * case.matrices, case.weights, case.n_leading)
        size = max(abs(here.value), here.rounding)
        assert abs(there.value / factor - here.value) <= 1e-13 * size + here.rounding
        assert there.rounding == pytest.approx(factor * here.rounding, rel=1e-6)


@pytest.mark.parametrize("size", [1.0, 1e8])
@pytest.mark.parametrize("seed", range(10))
def test_rounding_of_errors_covers_another_order_of_the_rows(seed, size):
    rng = np.random.default_rng(seed)
    p, d = int(rng.integers(2, 7)), 1
    X = rng.standard_normal((200, p)) @ rng.standard_normal((p, p))
    X[:, 0] *= size
    second = DenseSecondMoments(np.array([X.T @ X / 200]))
    basis = second.leading(np.ones(1), d).vectors
    errors = second.inner_errors(basis)
    rounding = rounding_of_errors(second.spreads, errors, second.roundings_left(basis)[0])
    # A basis of float64 numbers turns by an epsilon, and a large column with it.
    assert rounding[0] <= 2e-14 * size * errors[0] + 1e-11 * errors[0]
    for _ in range(10):
        mixed = X[rng.permutation(200)]
        other = DenseSecondMoments(np.array([mixed.T @ mixed / 200])).inner_errors(basis)
        assert abs(other[0] - errors[0]) <= rounding[0]
    # A random subspace has no error that is small beside the variance.
    basis = random_basis(rng, p, d)
    errors = second.inner_errors(basis)
    rounding = rounding_of_errors(second.spreads, errors, second.roundings_left(basis)[0])
    assert rounding[0] <= 1e-11 * second.traces[0]
