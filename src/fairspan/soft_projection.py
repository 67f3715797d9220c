"""Rows that project: orthonormal, or soft (Samadi et al. 2018, step 5 of Algorithm 1).

The relaxed problem is solved by P = sum_j lb_j u_j u_j' with 0 <= lb_j <= 1 and sum_j lb_j = d. It
is no projection, but P* = sum_j lambda_j u_j u_j', lambda_j = 1 - sqrt(1 - lb_j), reconstructs rows
with exactly the errors that P promises: tr((I - P*) S (I - P*)) = tr S - <S, P>.
"""

import numpy as np

from fairspan.errors import InvalidInput
from fairspan.typing import FloatArray

# Of products of rows: lengths and angles that differ by less are equal.
_ORTHONORMAL = 1e-6
# The weights of a soft projection add up to a whole number within this.
_WHOLE = 1e-5


def softened(basis: FloatArray) -> FloatArray:
    """Columns sqrt(lambda_j) u_j of the embedding from columns sqrt(lb_j) u_j.

    Parameters
    ----------
    basis : (p, r) array
        Orthogonal columns no longer than one. Those of length one stay as they are.

    Returns
    -------
    (p, r) array

    Examples
    --------
    >>> softened(np.array([[1.0, 0.0], [0.0, np.sqrt(0.75)]])) ** 2
    array([[1. , 0. ],
           [0. , 0.5]])
    """
    kept = np.minimum(np.einsum("ij,ij->j", basis, basis), 1.0)
    soft = kept < 1 - 1e-12
    factors = np.ones_like(kept)
    factors[soft] = np.sqrt((1 - np.sqrt(1 - kept[soft])) / kept[soft])
    return np.asarray(basis * factors)


def retained(components: FloatArray) -> FloatArray:
    """Columns sqrt(lb_j) u_j from rows sqrt(lambda_j) u_j: the inverse of :func:`softened`.

    Parameters
    ----------
    components : (r, p) array
        Orthogonal rows no longer than one.

    Returns
    -------
    (p, r) array
        B, with captured variances tr(B'SB).

    Examples
    --------
    >>> retained(np.array([[1.0, 0.0], [0.0, np.sqrt(0.5)]])) ** 2
    array([[1.  , 0.  ],
           [0.  , 0.75]])
    """
    weights = np.minimum(np.einsum("ij,ij->i", components, components), 1.0)
    # lb = 1 - (1 - lambda)^2 = lambda (2 - lambda)
    return np.asarray((components * np.sqrt(2 - weights)[:, None]).T)


def is_soft(components: FloatArray) -> bool:
    """Whether (r, p) orthogonal rows are not all of length one."""
    return bool((np.einsum("ij,ij->i", components, components) < 1 - _ORTHONORMAL).any())


def soft_dimension(components: FloatArray) -> float:
    """d = sum_j lb_j of (r, p) rows sqrt(lambda_j) u_j, lb_j = lambda_j (2 - lambda_j)."""
    weights = np.einsum("ij,ij->i", components, components)
    return float((weights * (2 - weights)).sum())


def check_orthonormal(components: FloatArray) -> None:
    """Make sure that (d, p) components are orthonormal rows.

    Raises
    ------
    InvalidInput
    """
    if components.ndim != 2 or not 1 <= len(components) <= components.shape[1]:
        raise InvalidInput(
            f"The components have shape {components.shape}",
            "Allowed: (d, p) with 1 <= d <= p",
            "Pass one row for each component",
        )
    if not np.allclose(components @ components.T, np.eye(len(components)), atol=_ORTHONORMAL):
        raise InvalidInput(
            "The components are not orthonormal",
            "Allowed: rows of length one at right angles",
            "Orthonormalise them, for example with numpy.linalg.qr(components.T)[0].T",
        )


def check_orthonormal_or_soft(components: FloatArray) -> None:
    """Make sure that components are orthonormal rows, or those of a soft projection.

    Raises
    ------
    InvalidInput
    """
    if components.ndim != 2 or not _is_soft_projection(components):
        check_orthonormal(components)


def _is_soft_projection(components: FloatArray) -> bool:
    """Whether rows sqrt(lambda_j) u_j keep a whole number d >= 1 of dimensions, not all fully."""
    gram = components @ components.T
    weights = np.diag(gram)
    if not np.isfinite(gram).all() or not is_soft(components):
        return False
    if (weights > 1 + _ORTHONORMAL).any():
        return False
    at_right_angles = np.allclose(gram, np.diag(weights), atol=_ORTHONORMAL)
    dimension = soft_dimension(components)
    whole = round(dimension) >= 1 and abs(dimension - round(dimension)) <= _WHOLE
    at_most = len(components) <= components.shape[1]
    return at_right_angles and whole and at_most
