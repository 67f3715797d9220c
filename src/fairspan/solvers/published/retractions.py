"""Retractions on the Stiefel manifold {V : V'V = I_d}: back to orthonormal columns after a step.

A retraction R maps a point V and a tangent step X to the manifold such that R(V, 0) = V and
R(V, tX) = V + tX + O(t^2); see Absil, Mahony & Sepulchre (2008), section 4.1. The tangent space at
V is {X : V'X + X'V = 0}. Steps along the Grassmannian have V'X = 0, and there both retractions
below span the same subspace, that of V + X: they differ in the basis only.

Everything takes stacks: any leading axes hold independent points.
"""

from collections.abc import Callable

import numpy as np

from fairspan.typing import FloatArray

Retraction = Callable[[FloatArray, FloatArray], FloatArray]


def horizontal(basis: FloatArray, directions: FloatArray) -> FloatArray:
    """(I - VV')X: the part of a direction that turns the subspace, not its basis.

    Parameters
    ----------
    basis : (..., p, d) array
        Orthonormal columns V.
    directions : (..., p, d) array
        X.

    Returns
    -------
    (..., p, d) array
        Tangent at V, and orthogonal to it.
    """
    return np.asarray(directions - basis @ (np.swapaxes(basis, -1, -2) @ directions))


def qr_retraction(basis: FloatArray, step: FloatArray) -> FloatArray:
    """The orthonormal factor of V + X, whose triangular factor has a positive diagonal.

    Parameters
    ----------
    basis : (..., p, d) array
        Orthonormal columns V.
    step : (..., p, d) array
        Tangent X.

    Returns
    -------
    (..., p, d) array

    Examples
    --------
    >>> qr_retraction(np.array([[1.0], [0.0]]), np.array([[0.0], [1.0]])).round(4)
    array([[0.7071],
           [0.7071]])
    """
    factor, triangle = np.linalg.qr(basis + step)
    # LAPACK's diagonal may be negative, which would turn V into -V at a step of zero.
    diagonal = np.diagonal(triangle, axis1=-2, axis2=-1)
    return np.asarray(factor * np.where(diagonal < 0, -1.0, 1.0)[..., None, :])


def polar_retraction(basis: FloatArray, step: FloatArray) -> FloatArray:
    """(V + X)(I + X'X)^(-1/2): the orthonormal matrix closest to V + X.

    Parameters
    ----------
    basis : (..., p, d) array
        Orthonormal columns V.
    step : (..., p, d) array
        Tangent X.

    Returns
    -------
    (..., p, d) array

    Notes
    -----
    Through the singular value decomposition of V + X: squaring X first would cost half of the
    digits after a long step.

    Examples
    --------
    >>> polar_retraction(np.array([[1.0], [0.0]]), np.array([[0.0], [1.0]])).round(4)
    array([[0.7071],
           [0.7071]])
    """
    left, _, right = np.linalg.svd(basis + step, full_matrices=False)
    return np.asarray(left @ right)


RETRACTIONS: dict[str, Retraction] = {"qr": qr_retraction, "polar": polar_retraction}
