"""Symmetric matrices: symmetrization, square roots, and a test for zero."""

import numpy as np

from fairspan.typing import FloatArray


def is_zero(matrix: FloatArray) -> bool:
    """Return whether all entries of a matrix are zero.

    Examples
    --------
    >>> is_zero(np.zeros((2, 2))), is_zero(np.eye(2))
    (True, False)
    """
    # Test the first entry before all others: nearly every other matrix differs there.
    return not (matrix.size and matrix[0, 0]) and not matrix.any()


def symmetrize(products: FloatArray) -> FloatArray:
    """Symmetrize (..., n, n) matrices that are symmetric up to rounding error."""
    return np.asarray((products + products.swapaxes(-1, -2)) / 2)


def outer_products(vectors: FloatArray) -> FloatArray:
    """Return the outer product of each of k vectors with itself, (k, p, p)."""
    return np.asarray(vectors[:, :, None] * vectors[:, None])


def symmetric_root(matrices: FloatArray) -> FloatArray:
    """Return the symmetric square root of (..., n, n) positive semidefinite matrices.

    Unlike the product of eigenvectors and roots of eigenvalues, it does not depend on the signs of
    the eigenvectors or on their rotation within ties, so that random draws made with it depend
    continuously on the matrices. Negative eigenvalues count as zero.

    Examples
    --------
    >>> import numpy as np
    >>> symmetric_root(np.diag([4.0, 9.0]))
    array([[2., 0.],
           [0., 3.]])
    """
    values, vectors = np.linalg.eigh(matrices)
    scaled = vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]
    return symmetrize(scaled @ np.swapaxes(vectors, -1, -2))
