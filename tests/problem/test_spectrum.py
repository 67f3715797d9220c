"""Decompositions that are shared, against those of a single matrix."""

from dataclasses import replace

import numpy as np
import pytest

from fairspan.errors import InvalidInput
from fairspan.linalg import leading_subspace
from fairspan.moments.operators import DenseSecondMoments
from fairspan.problem.criteria import MinimaxError, MinimaxLoss
from fairspan.problem.problem import Problem
from fairspan.problem.spectrum import Spectra, Spectrum


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
    assert other.spectra is problem.spectra
    alone = np.array([1.0, 0.0])
    assert problem.spectra.known(alone) is other.spectra.known(alone)


def test_other_second_moments_share_nothing():
    problem = problem_of([np.diag([3.0, 2, 1]), np.diag([1.0, 2, 4])], 1)
    second = DenseSecondMoments(problem.second_moments.matrices[:, :2, :2])
    inside = replace(problem, second_moments=second)
    assert inside.spectra.second_moments is second
    np.testing.assert_allclose(inside.best_errors, [2, 1])


def test_numbers_that_overflowed_are_refused():
    second = DenseSecondMoments(np.array([np.full((2, 2), np.inf), np.eye(2)]))
    with pytest.raises(InvalidInput, match="NaN or infinity"):
        Spectra(second).known(np.array([1.0, 0.0]))


@pytest.mark.parametrize("d", [1, 2, 3])
def test_best_errors_are_accurate_however_little_is_lost(d):
    scales = np.array([1e8, 1.0, 1e-4])
    problem = problem_of([np.diag(scales), np.diag(scales[::-1])], d)
    np.testing.assert_allclose(problem.best_errors, scales[d:].sum(), rtol=1e-9)
