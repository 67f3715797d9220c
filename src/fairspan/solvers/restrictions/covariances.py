"""max tr(V'SV) subject to ||V'DV|| <= tau: the bound of a semidefinite program.

D is the difference of two covariances, so neither D nor -D is positive semidefinite and the limit
is not convex in P = VV'. Olfat and Aswani (2019) shift it: with phi I + D = MM', a projector P has
||P(phi I + D)P|| <= phi + tau, which a Schur complement states in P. For a projector the same limit
also reads M'PM <= (phi + tau) I, linear in P, half as large and, over 0 <= P <= I, never weaker. We
take that, for D and -D, each with the least phi there is.
"""

import warnings

import numpy as np
import numpy.typing as npt

from fairspan.certificates.proof import positive_part
from fairspan.errors import Incompatible, imported
from fairspan.linalg import eigh, leading_subspace
from fairspan.typing import FloatArray

# The time grows with the sixth power: 0.2 s for 20 features, 5 s for 40, a minute for 60.
_MOST_FEATURES = 60
# Eigenvalues of MM' below this share of ||D|| are rounding.
_ROUNDING = 1e-13


def program(
    moment: FloatArray, difference: FloatArray, n_components: int, limit: float
) -> tuple[FloatArray, FloatArray]:
    """Multipliers that bound tr(V'SV) of all subspaces within the limit, and where to start from.

    Their bound is computed from them alone (:class:`fairspan.certificates.proof.
    CovariancesProof`), so the bound holds however inaccurate the conic solver is.

    Parameters
    ----------
    moment : (p, p) array
        S.
    difference : (p, p) array
        D.
    n_components : int
        d.
    limit : float
        tau.

    Returns
    -------
    multipliers : (2, p, p) array
        Z_1 and Z_2, positive semidefinite.
    start : (p, d) array
        Leading eigenvectors of the relaxed P; it need not meet the limit.

    Raises
    ------
    Incompatible
        Too many features.
    MissingDependency
        cvxpy is not installed.
    """
    p = len(moment)
    if p > _MOST_FEATURES:
        raise Incompatible(
            f"The solver 'semidefinite' received {p} directions of equal means",
            f"Allowed: up to {_MOST_FEATURES}: the semidefinite program grows steeply",
            "Use solver='auto', which takes any number, or CovarianceParity(n_directions=...)",
        )
    cvxpy = imported("cvxpy", "sdp", "CovarianceParity(tolerance=...) with solver='semidefinite'")
    size = float(np.linalg.norm(moment, 2)) or 1.0
    values, axes = eigh(difference)
    spread = float(np.abs(values).max())
    values, limit = values / spread, limit / spread
    # In the eigenvectors of D each M is diagonal, so that the program is sparse and accurate.
    scaled = axes.T @ moment @ axes / size
    sides = [_shifted(sign * values) for sign in (1, -1)]
    P = cvxpy.Variable((p, p), PSD=True)
    limits = [
        (phi + limit) * np.eye(len(kept))
        - cvxpy.multiply(np.outer(roots, roots), P[np.ix_(kept, kept)])
        >> 0
        for phi, kept, roots in sides
    ]
    conic = cvxpy.Problem(
        cvxpy.Maximize(cvxpy.sum(cvxpy.multiply(scaled, P))),
        [np.eye(p) - P >> 0, cvxpy.trace(P) == n_components, *limits],
    )
    start, multipliers = leading_subspace(scaled, n_components).vectors, np.zeros((2, p, p))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # inaccurate multipliers prove a bound all the same
            conic.solve(cvxpy.CLARABEL)
    except cvxpy.error.SolverError:
        return multipliers, axes @ start
    if P.value is not None:
        start = leading_subspace((P.value + P.value.T) / 2, n_components).vectors
        for found, (_, kept, _), each in zip(multipliers, sides, limits, strict=True):
            found[np.ix_(kept, kept)] = positive_part(each.dual_value)
    # Of the program in units of ||S|| and ||D||.
    multipliers = axes @ multipliers @ axes.T * (size / spread)
    return multipliers, axes @ start


def _shifted(values: FloatArray) -> tuple[float, npt.NDArray[np.int64], FloatArray]:
    """phi, and where and what the diagonal of M is, MM' = phi I + D for a diagonal D.

    phi is the least for which that is positive semidefinite.
    """
    phi = max(0.0, -float(values.min()))
    squares = values + phi
    kept = np.flatnonzero(squares > _ROUNDING)
    return phi, kept, np.sqrt(squares[kept])
