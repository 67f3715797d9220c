"""Coordinates beside a few directions, against a complete basis."""

import numpy as np
import pytest

from fairspan.linalg import Reflection


@pytest.mark.parametrize(("p", "r"), [(30, 1), (30, 0), (40, 3), (5, 5), (7, 6)])
def test_a_reflection_is_an_orthonormal_basis_of_what_is_beside(p, r):
    rng = np.random.default_rng(p)
    whole = np.linalg.qr(rng.standard_normal((p, p)))[0]
    F = whole[:, :r]
    reflection = Reflection.onto_axes(F)
    Q = reflection.beside
    np.testing.assert_allclose(Q.T @ Q, np.eye(p - r), atol=1e-13)
    np.testing.assert_allclose(F.T @ Q, np.zeros((r, p - r)), atol=1e-13)
    matrix = whole * np.arange(1, p + 1) @ whole.T
    matrix += matrix.T
    compressed = Q.T @ matrix @ Q
    np.testing.assert_allclose(
        reflection.compressed(2 * matrix[None], np.full(1, 0.5))[0], compressed, atol=1e-11
    )
    np.testing.assert_allclose(reflection.of_beside(matrix), matrix @ Q, atol=1e-11)
    assert reflection.terms(matrix) >= np.trace(compressed) - 1e-11


@pytest.mark.parametrize("axis", [0, 3])
def test_an_axis_is_left_out_exactly(axis):
    F = -np.eye(6)[:, [axis]]
    Q = Reflection.onto_axes(F).beside
    np.testing.assert_allclose(np.linalg.norm(Q[axis]), 0, atol=1e-15)
