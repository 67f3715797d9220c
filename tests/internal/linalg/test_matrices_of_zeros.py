"""Eigenvectors and eigenvalue sums of matrices of zeros."""

import numpy as np
import pytest

from fairspan.linalg import leading_subspace, smallest_eigenvalue_sum


def test_eigenvectors_of_a_zero_matrix_are_orthonormal() -> None:
    subspace = leading_subspace(np.zeros((50, 50)), 3)
    assert subspace.vectors.T @ subspace.vectors == pytest.approx(np.eye(3))
    assert subspace.tied_vectors.shape[1] == 50
    one = np.array([np.zeros((3, 3)), np.diag([3.0, 2.0, 1.0])])
    assert smallest_eigenvalue_sum(one, np.array([1.0, 1.0]), 1).value == pytest.approx(3.0)
    assert smallest_eigenvalue_sum(one, np.array([1.0, 0.0]), 1).value == 0.0
