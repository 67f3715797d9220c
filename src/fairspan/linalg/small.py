"""Whole eigendecompositions of small symmetric matrices, or of stacks of them.

The signs of the eigenvectors and the order of LAPACK, smallest eigenvalue first, are left as they
are; :func:`fairspan.linalg.leading_subspace` settles signs and ties.
"""

import numpy as np

from fairspan.typing import FloatArray


def eigh(matrices: FloatArray) -> tuple[FloatArray, FloatArray]:
    """All eigenvalues, smallest first, and orthonormal eigenvectors.

    Parameters
    ----------
    matrices : (..., m, m) array
        Symmetric.

    Returns
    -------
    values : (..., m) array
    vectors : (..., m, m) array

    Examples
    --------
    >>> import numpy as np
    >>> eigh(np.diag([2.0, 1.0]))[0]
    array([1., 2.])
    """
    values, vectors = np.linalg.eigh(matrices)
    return values, vectors


def eigvalsh(matrices: FloatArray) -> FloatArray:
    """All eigenvalues, smallest first.

    Parameters
    ----------
    matrices : (..., m, m) array
        Symmetric.

    Returns
    -------
    (..., m) array
    """
    return np.asarray(np.linalg.eigvalsh(matrices))
