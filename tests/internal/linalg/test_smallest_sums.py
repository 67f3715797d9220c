"""Sums of eigenvalues against 60 digits, and what is remembered of them."""

from dataclasses import replace

import numpy as np
import pytest

from extended_precision import KINDS, draw_problem
from fairspan import MinimaxError, MinimaxLoss
from fairspan.errors import InvalidInput
from fairspan.extending import Problem
from fairspan.linalg import (
    EigenCache,
    Eigendecomposition,
    error_rounding_bound,
    leading_subspace,
    smallest_eigenvalue_sum,
)
from fairspan.moments.second_moments import DenseSecondMoments
from problems import random_basis, random_moments

SEEDS = range(204)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_sums_are_accurate_and_never_above_the_truth(kind):
    for case in (case for case in map(draw_problem, SEEDS) if case.kind == kind):
        result = smallest_eigenvalue_sum(case.matrices, case.weights, case.n_leading)
        truth, size = case.sums()
        assert result.value - result.rounding_error <= truth
        # Sums that are zero in exact arithmetic are known up to the rounding error returned.
        assert abs(result.value - truth) <= max(1e-13 * size, result.rounding_error)
        if "low rank" not in kind:
            assert abs(result.value - truth) <= 1e-13 * size
            assert result.rounding_error <= 1e-11 * size


def test_the_trace_less_the_largest_eigenvalues_would_not_do():
    case = next(
        case
        for case in map(draw_problem, SEEDS)
        if case.kind == "large column" and case.n_leading == 1
    )
    mixture = np.tensordot(case.weights, case.matrices, axes=1)
    by_trace = np.trace(mixture) - np.linalg.eigvalsh(mixture)[-1]
    truth, _ = case.sums()
    assert abs(by_trace - truth) > 0.01 * truth
    result = smallest_eigenvalue_sum(case.matrices, case.weights, 1)
    assert abs(result.value - truth) <= 1e-13 * truth


@pytest.mark.parametrize("seed", range(20))
def test_all_dimensions_leave_nothing_and_groups_without_weight_do_not_matter(seed):
    matrices = random_moments(np.random.default_rng(seed), 3, 5)
    sum_of_first = smallest_eigenvalue_sum(matrices[:1], np.ones(1), 2)
    matrices[1:] *= 1e30
    for weights, d, expected in (
        ([0.3, -0.7, 0.1], 5, (0.0, 0.0)),
        ([0.0, 0.0, 0.0], 2, (0.0, 0.0)),
        ([1.0, 0.0, 0.0], 2, sum_of_first),
    ):
        assert smallest_eigenvalue_sum(matrices, np.array(weights), d) == expected


@pytest.mark.parametrize("factor", [2.0**-200, 2.0**200])
def test_units_change_nothing_but_the_scale(factor):
    for case in map(draw_problem, range(24)):
        unscaled = smallest_eigenvalue_sum(case.matrices, case.weights, case.n_leading)
        scaled = smallest_eigenvalue_sum(factor * case.matrices, case.weights, case.n_leading)
        size = max(abs(unscaled.value), unscaled.rounding_error)
        assert abs(scaled.value / factor - unscaled.value) <= 1e-13 * size + unscaled.rounding_error
        assert scaled.rounding_error == pytest.approx(factor * unscaled.rounding_error, rel=1e-6)


@pytest.mark.parametrize("size", [1.0, 1e8])
@pytest.mark.parametrize("seed", range(10))
def test_rounding_of_errors_covers_another_order_of_the_rows(seed, size):
    rng = np.random.default_rng(seed)
    p = int(rng.integers(2, 7))
    d = 1
    X = rng.standard_normal((200, p)) @ rng.standard_normal((p, p))
    X[:, 0] *= size
    second = DenseSecondMoments(np.array([X.T @ X / 200]))
    basis = second.leading(np.ones(1), d).vectors
    errors = second.inner_errors(basis)
    rounding = error_rounding_bound(
        second.column_rms, errors, second.residual_projector_norms(basis)[0]
    )
    # A basis of float64 numbers turns by an epsilon, and a large column with it.
    assert rounding[0] <= 2e-14 * size * errors[0] + 1e-11 * errors[0]
    for _ in range(10):
        mixed = X[rng.permutation(200)]
        other = DenseSecondMoments(np.array([mixed.T @ mixed / 200])).inner_errors(basis)
        assert abs(other[0] - errors[0]) <= rounding[0]
    # No error of a random subspace is small compared with the variance.
    basis = random_basis(rng, p, d)
    errors = second.inner_errors(basis)
    rounding = error_rounding_bound(
        second.column_rms, errors, second.residual_projector_norms(basis)[0]
    )
    assert rounding[0] <= 1e-11 * second.traces[0]


@pytest.mark.parametrize("values", [[5.0, 4, 3, 2, 1], [3.0, 2, 2, 2, 1], [1.0, 1, 1, 1, 1]])
@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_the_leading_part_is_that_of_the_matrix(values, d):
    matrix = np.diag(np.random.default_rng(d).permutation(values))
    leading = Eigendecomposition.from_matrix(matrix).leading(d)
    expected = leading_subspace(matrix, d)
    np.testing.assert_array_equal(leading.eigenvalues, expected.eigenvalues)
    assert leading.n_untied == expected.n_untied
    assert leading.is_tied == expected.is_tied
    np.testing.assert_allclose(leading.vectors, expected.vectors, atol=1e-12)
    np.testing.assert_allclose(
        leading.tied_vectors @ leading.tied_vectors.T,
        expected.tied_vectors @ expected.tied_vectors.T,
    )


def problem_of(matrices, d):
    second = DenseSecondMoments(np.array(matrices))
    return Problem(second, ["a", "b"], np.array([2.0, 3.0]), d, MinimaxLoss())


def test_other_dimensions_and_criteria_share_decompositions():
    problem = problem_of([np.diag([3.0, 2, 1]), np.diag([1.0, 2, 4])], 1)
    other = replace(problem, n_components=2, criterion=MinimaxError())
    first_group_weights = np.array([1.0, 0.0])
    assert problem.dense_moments.eigen_cache.decomposition(
        first_group_weights
    ) is other.dense_moments.eigen_cache.decomposition(first_group_weights)


def test_other_second_moments_share_nothing():
    problem = problem_of([np.diag([3.0, 2, 1]), np.diag([1.0, 2, 4])], 1)
    assert problem.best_errors.tolist() == [3, 3]
    second = DenseSecondMoments(problem.second_moments.matrices[:, :2, :2])
    inside = replace(problem, second_moments=second)
    np.testing.assert_allclose(inside.best_errors, [2, 1])


def test_numbers_that_overflowed_are_refused():
    second = DenseSecondMoments(np.array([np.full((2, 2), np.inf), np.eye(2)]))
    with pytest.raises(InvalidInput, match="NaN or infinity"):
        second.eigen_cache.decomposition(np.array([1.0, 0.0]))


@pytest.mark.parametrize(
    ("p", "max_entries"), [(32, 2**14), pytest.param(500, 2**22, marks=pytest.mark.slow)]
)
def test_the_cache_drops_its_oldest_entry_at_its_size_limit(monkeypatch, p, max_entries):
    if max_entries < 2**22:  # which is the limit of the library
        monkeypatch.setattr("fairspan.linalg.eigen_cache._MAX_CACHED_ENTRIES", max_entries)
    cache = EigenCache(np.array([np.eye(p), np.diag(np.arange(float(p)))]))
    weights = [np.array([1.0, float(number)]) for number in range(20)]
    decompositions = [cache.decomposition(mixture) for mixture in weights]
    assert cache.decomposition(weights[-1]) is decompositions[-1]
    assert sum(entry.vectors.size for entry in cache._cache.values()) <= max_entries
    assert cache.decomposition(weights[0]) is not decompositions[0]


def test_ties_at_the_cut_are_not_cached():
    cache = EigenCache(np.array([np.diag([3.0, 1.0, 0.5] + [0.0] * 97)]))
    weights = np.ones(1)
    assert not cache.leading(weights, 1, 0.0).is_tied
    assert cache.leading(weights, 1, 2.0).is_tied
    assert not cache.leading(weights, 1, 0.0).is_tied


@pytest.mark.parametrize("d", [1, 2, 3])
def test_best_errors_are_accurate_however_little_is_lost(d):
    scales = np.array([1e8, 1.0, 1e-4])
    problem = problem_of([np.diag(scales), np.diag(scales[::-1])], d)
    np.testing.assert_allclose(problem.best_errors, scales[d:].sum(), rtol=1e-9)


@pytest.mark.parametrize("size", [1.0, 1e8], ids=["like the others", "large column"])
def test_errors_from_known_images_are_those_from_the_basis(size):
    rng = np.random.default_rng(58)
    matrices = random_moments(rng, 3, 6)
    matrices[:, 0] *= size
    matrices[:, :, 0] *= size
    moments = DenseSecondMoments(matrices)
    # The first axis, so that nearly all variance is captured if its column is large.
    basis = np.linalg.qr(np.column_stack([np.eye(6)[:, 0], random_basis(rng, 6, 1)]))[0]
    images = matrices @ basis
    np.testing.assert_allclose(
        moments.residual_variances(basis, images), moments.residual_variances(basis), rtol=1e-12
    )
