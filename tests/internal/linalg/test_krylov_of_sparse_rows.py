"""Block Krylov iterations, held against LAPACK on matrices, ties and missing rank."""

import numpy as np
import pytest

from case_selection import parametrize_diagonal
from fairspan.linalg import leading_subspace, leading_subspace_krylov
from numpy_reference import projector_distance, relative_error


@parametrize_diagonal(n_components=[1, 3, 12], p=[12, 400])
def test_iterations_find_what_lapack_finds(p, n_components):
    rng = np.random.default_rng(p)
    matrix = rng.standard_normal((p, p)) * np.linspace(0.1, 1, p)
    matrix = matrix + matrix.T
    size = float(np.linalg.norm(matrix, 2))
    result = leading_subspace_krylov(lambda block: matrix @ block, p, n_components, size)
    expected = leading_subspace(matrix, n_components)
    assert relative_error(result.leading.eigenvalues, expected.eigenvalues) <= 1e-12
    assert projector_distance(result.leading.vectors.T, expected.vectors.T) <= 1e-7
    assert result.sum_error <= 1e-10 * size


def test_iterations_find_ties():
    diagonal = np.concatenate([[5.0], [3.0] * 4, np.linspace(0, 1, 200)])
    result = leading_subspace_krylov(lambda block: diagonal[:, None] * block, 205, 3, 5.0)
    assert result.leading.n_untied == 1
    assert result.leading.tied_vectors.shape == (205, 4)
    np.testing.assert_allclose(result.leading.eigenvalues, [5, 3, 3], atol=1e-12)


def test_iterations_end_at_once_if_the_rank_is_below_the_dimension():
    """Eigenvalues beyond the rank are rounding, so no goal for their sum can be reached."""
    start = np.random.default_rng(0).standard_normal((300, 12))
    rows = start[:, :2].T
    n_products = 0
    matrix = rows.T @ rows

    def product(block):
        nonlocal n_products
        n_products += 1
        return matrix @ block

    size = np.trace(matrix)
    result = leading_subspace_krylov(product, 300, 5, size, start=start, sum_tol=1e-30 * size)
    assert result.leading.eigenvalues.sum() == pytest.approx(size, rel=1e-14)
    assert n_products <= 3
