"""Eigenproblems that are solved once, against those of a single matrix."""

from dataclasses import replace

import numpy as np
import pytest

from fairspan import MinimaxError, MinimaxLoss
from fairspan.errors import InvalidInput
from fairspan.extending import Problem
from fairspan.linalg import SolvedMixtures, Spectrum, leading_subspace
from fairspan.moments.operators import DenseSecondMoments


@pytest.mark.parametrize("values", [[5.0, 4, 3, 2, 1], [3.0, 2, 2, 2, 1], [1.0, 1, 1, 1, 1]])
@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_the_leading_part_is_that_of_the_matrix(values, d):
    matrix = np.diag(np.random.default_rng(d).permutation(values))
    found, expected = Spectrum.of(matrix).leading(d), leading_subspace(matrix, d)
    np.testing.assert_array_equal(found.eigenvalues, expected.eigenvalues)
    assert found.n_fixed == expected.n_fixed
    assert found.is_tied == expected.is_tied
    np.testing.assert_allclose(found.vectors, expected.vectors, atol=1e-12)
    np.testing.assert_allclose(found.tied @ found.tied.T, expected.tied @ expected.tied.T)


def problem_of(matrices, d):
    second = DenseSecondMoments(np.array(matrices))
    return Problem(second, ["a", "b"], np.array([2.0, 3.0]), d, MinimaxLoss())


def test_other_dimensions_and_criteria_share_what_is_known():
    problem = problem_of([np.diag([3.0, 2, 1]), np.diag([1.0, 2, 4])], 1)
    other = replace(problem, n_components=2, criterion=MinimaxError())
    alone = np.array([1.0, 0.0])
    assert problem.dense.solved.spectrum(alone) is other.dense.solved.spectrum(alone)


def test_other_second_moments_share_nothing():
    problem = problem_of([np.diag([3.0, 2, 1]), np.diag([1.0, 2, 4])], 1)
    assert problem.best_errors.tolist() == [3, 3]
    second = DenseSecondMoments(problem.second_moments.matrices[:, :2, :2])
    inside = replace(problem, second_moments=second)
    np.testing.assert_allclose(inside.best_errors, [2, 1])


def test_numbers_that_overflowed_are_refused():
    second = DenseSecondMoments(np.array([np.full((2, 2), np.inf), np.eye(2)]))
    with pytest.raises(InvalidInput, match="NaN or infinity"):
        second.solved.spectrum(np.array([1.0, 0.0]))


def test_the_oldest_is_forgotten_before_there_are_too_many_numbers():
    solved = SolvedMixtures(np.array([np.eye(500), np.diag(np.arange(500.0))]))
    weights = [np.array([1.0, float(each)]) for each in range(20)]
    found = [solved.spectrum(each) for each in weights]
    assert solved.spectrum(weights[-1]) is found[-1]
    assert sum(each.vectors.size for each in solved._known.values()) <= 2**22
    assert solved.spectrum(weights[0]) is not found[0]


def test_a_tie_at_the_cut_is_not_kept_as_it_depends_on_who_asks():
    solved = SolvedMixtures(np.array([np.diag([3.0, 1.0, 0.5] + [0.0] * 97)]))
    alone = np.ones(1)
    assert not solved.leading(alone, 1, 0.0).is_tied
    assert solved.leading(alone, 1, 2.0).is_tied
    assert not solved.leading(alone, 1, 0.0).is_tied


@pytest.mark.parametrize("d", [1, 2, 3])
def test_best_errors_are_accurate_however_little_is_lost(d):
    scales = np.array([1e8, 1.0, 1e-4])
    problem = problem_of([np.diag(scales), np.diag(scales[::-1])], d)
    np.testing.assert_allclose(problem.best_errors, scales[d:].sum(), rtol=1e-9)
