"""Soft projections: Samadi et al. (2018), step 5 of Algorithm 1.

The relaxed problem is solved by P = sum_j lb_j u_j u_j' with 0 <= lb_j <= 1 and sum_j lb_j = d. It
is no projection, but P* = sum_j lambda_j u_j u_j', lambda_j = 1 - sqrt(1 - lb_j), reconstructs rows
with exactly the errors that P promises: tr((I - P*) S (I - P*)) = tr S - <S, P>.
"""

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


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
    return bool((np.einsum("ij,ij->i", components, components) < 1 - 1e-6).any())
