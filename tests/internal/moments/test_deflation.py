"""Second moments without a direction: as exact as from the rows."""

import numpy as np
import pytest

from fairspan.moments.second_moments import DenseSecondMoments, deflate


@pytest.mark.parametrize(("p", "r"), [(30, 1), (30, 0), (40, 3), (7, 6), (200, 70)])
def test_second_moments_are_those_along_an_orthonormal_basis_of_the_complement(p, r):
    rng = np.random.default_rng(p)
    F = np.linalg.qr(rng.standard_normal((p, p)))[0][:, :r]
    rows = rng.standard_normal((2, p, p))
    full_moments = DenseSecondMoments(rows @ rows.transpose(0, 2, 1))
    original_matrices = full_moments.matrices.copy()
    deflated, rounding, complement = deflate(full_moments, F)
    Q = complement.basis
    np.testing.assert_allclose(Q.T @ Q, np.eye(p - r), atol=1e-13)
    np.testing.assert_allclose(F.T @ Q, np.zeros((r, p - r)), atol=1e-13)
    np.testing.assert_allclose(deflated.matrices, Q.T @ full_moments.matrices @ Q, atol=1e-12 * p)
    for order in "CF":  # neither order of memory is written to
        columns = np.array(rows[0], order=order)
        np.testing.assert_allclose(complement.coordinates(columns), Q.T @ rows[0], atol=1e-12)
        np.testing.assert_array_equal(columns, rows[0])
    np.testing.assert_array_equal(full_moments.matrices, original_matrices)
    assert (rounding <= 1e-10 * full_moments.traces).all()


@pytest.mark.parametrize("axis", [0, 3])
def test_a_column_of_large_numbers_that_a_direction_follows_leaves_the_others_their_digits(axis):
    rng = np.random.default_rng(axis)
    scales = np.where(np.arange(6) == axis, 1e12, 1.0)
    factor = rng.standard_normal((6, 6)) * scales[:, None]
    second = DenseSecondMoments((factor @ factor.T)[None])
    first = second.leading(np.ones(1), 1).vectors
    deflated, rounding, complement = deflate(second, first)
    # Along the features themselves, but for a share of 1e-12.
    assert np.linalg.norm(complement.basis[axis]) <= 1e-10
    other_rows = np.delete(factor, axis, axis=0)
    along = factor[axis] / np.linalg.norm(factor[axis])
    expected = other_rows @ (np.eye(6) - np.outer(along, along)) @ other_rows.T
    values = np.linalg.eigvalsh(expected)
    np.testing.assert_allclose(np.linalg.eigvalsh(deflated.matrices[0]), values, rtol=1e-2)
    assert rounding[0] <= 1e-2 * values.sum()


def test_an_axis_is_left_out_exactly():
    second = DenseSecondMoments(np.diag([4.0, 3, 2, 1])[None])
    complement = deflate(second, -np.eye(4)[:, [2]])[2]
    np.testing.assert_allclose(complement.basis[2], np.zeros(3), atol=1e-15)
