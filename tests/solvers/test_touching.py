"""How leading subspaces turn with the weights, against differences and against the next solve."""

import numpy as np
import pytest

from fairspan.moments.operators import DenseSecondMoments
from fairspan.problem.spectrum import Spectra
from fairspan.solvers.touching import SMALL_TURN, Segment
from problems import random_moments

ENDS = (np.array([0.3, 0.7]), np.array([1.0, -1.0]))


def segment_of(seed, p=14, d=4):
    matrices = random_moments(np.random.default_rng(seed), 2, p)
    return matrices, Segment(Spectra(DenseSecondMoments(matrices)), d, ENDS)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("t", [0.0, 0.35, 1.0])
def test_what_is_captured_is_that_of_the_basis(seed, t):
    matrices, segment = segment_of(seed)
    touch = segment.touch(t, 0.0)
    captured = [np.vdot(touch.basis, S @ touch.basis) for S in matrices]
    expected = [weights @ captured for weights in ENDS]
    np.testing.assert_allclose(touch.captured, expected, rtol=1e-12)
    np.testing.assert_allclose(segment.captured(touch.basis), expected, rtol=1e-12)
    mixture = np.tensordot(segment.weights(t), matrices, axes=1)
    assert touch.top_sum == pytest.approx(np.linalg.eigvalsh(mixture)[-4:].sum())


@pytest.mark.parametrize("seed", range(4))
def test_the_curvature_is_that_of_the_eigenvalue_sum(seed):
    _, segment = segment_of(seed)
    step = 1e-3
    below, here, above = (segment.touch(t, 0.0) for t in (0.4 - step, 0.4, 0.4 + step))
    by_differences = (below.top_sum - 2 * here.top_sum + above.top_sum) / step**2
    assert here.curvature == pytest.approx(by_differences, rel=1e-3)


@pytest.mark.parametrize("seed", range(4))
def test_a_turned_basis_is_orthonormal_and_short_by_fourth_order(seed):
    matrices, segment = segment_of(seed)
    touch = segment.touch(0.4, 0.0)
    turning = touch.turning()
    short = []
    largest = SMALL_TURN / turning.size
    for step in (largest, largest / 2):
        basis = turning.basis_at(touch.basis, step)
        np.testing.assert_allclose(basis.T @ basis, np.eye(4), atol=1e-14)
        mixture = np.tensordot(segment.weights(0.4 + step), matrices, axes=1)
        moved = segment.touch(0.4 + step, 0.0)
        assert segment.top_sum(0.4 + step) == pytest.approx(moved.top_sum, rel=1e-14)
        short.append(moved.top_sum - float(np.vdot(basis, mixture @ basis)))
        unmoved = moved.top_sum - float(np.vdot(touch.basis, mixture @ touch.basis))
        assert short[-1] < 1e-4 * unmoved
    assert short[1] <= short[0] / 8 + 1e-13


def test_many_features_for_each_component_are_decomposed_in_part():
    matrices, segment = segment_of(0, p=130, d=2)
    touch = segment.touch(0.4, 0.0)
    assert touch.curvature is None
    assert touch.turning() is None
    expected = [ENDS[i] @ [np.vdot(touch.basis, S @ touch.basis) for S in matrices] for i in (0, 1)]
    np.testing.assert_allclose(touch.captured, expected, rtol=1e-12)
