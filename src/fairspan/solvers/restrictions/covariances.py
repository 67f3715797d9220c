"""max tr(V'SV) subject to ||V'DV|| <= tau: bound by a semidefinite program, subspace by ascent.

D is the difference of two covariances, so neither D nor -D is positive semidefinite and the limit
is not convex in P = VV'. Olfat and Aswani (2019) shift it: with phi I + D = MM', a projector P has
||P(phi I + D)P|| <= phi + tau, which a Schur complement states in P. For a projector the same limit
also reads M'PM <= (phi + tau) I, linear in P, half as large and, over 0 <= P <= I, never weaker. We
take that, for D and -D, each with the least phi there is.
"""

import warnings

import numpy as np
import numpy.typing as npt
import scipy.optimize

from fairspan.certificates.proof import positive_part
from fairspan.errors import Incompatible, imported
from fairspan.linalg import eigh, eigvalsh, leading_subspace
from fairspan.typing import FloatArray

# The time grows with the sixth power: 0.2 s for 20 features, 5 s for 40, a minute for 60.
MOST_FEATURES = 60
# Eigenvalues of MM' below this share of ||D|| are rounding.
_ROUNDING = 1e-13
# The limit is met up to this share of ||D||.
_MET = 1e-9
# Beyond this the penalty drowns the objective's digits.
_LARGEST_RATE = 1e6


def program(
    moment: FloatArray, difference: FloatArray, n_components: int, limit: float
) -> tuple[FloatArray, FloatArray]:
    """Multipliers that bound tr(V'SV) of all subspaces within the limit, and where to start from.

    What they prove is worked out from them alone (:class:`fairspan.certificates.proof.
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
    if p > MOST_FEATURES:
        raise Incompatible(
            f"CovarianceParity was asked for a tolerance among {p} directions of equal means",
            f"Allowed are up to {MOST_FEATURES}: the semidefinite program grows steeply",
            "Use CovarianceParity(n_directions=...), which takes one eigenproblem",
        )
    cvxpy = imported("cvxpy", "sdp", "CovarianceParity(tolerance=...)")
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


def best_within(
    moment: FloatArray, difference: FloatArray, limit: float, start: FloatArray
) -> FloatArray:
    """A subspace within the limit: an ascent from `start`, or a direct choice if that fails.

    Parameters
    ----------
    moment, difference : (p, p) arrays
        S and D.
    limit : float
        tau, such that some subspace meets it.
    start : (p, d) array

    Returns
    -------
    (p, d) array
    """
    d = start.shape[1]
    safe = _directions_within(difference, limit)
    direct = safe @ leading_subspace(safe.T @ moment @ safe, d).vectors
    size = float(np.linalg.norm(moment, 2)) or 1.0
    spread = float(np.linalg.norm(difference, 2))
    found = _ascended(moment / size, difference / spread, limit / spread, start)
    meets = _violation(found, difference / spread, limit / spread) <= _MET
    better = np.vdot(found, moment @ found) > np.vdot(direct, moment @ direct)
    return found if meets and better else direct


def _shifted(values: FloatArray) -> tuple[float, npt.NDArray[np.int64], FloatArray]:
    """phi, and where and what the diagonal of M is, MM' = phi I + D for a diagonal D.

    phi is the least for which that is positive semidefinite.
    """
    phi = max(0.0, -float(values.min()))
    squares = values + phi
    kept = np.flatnonzero(squares > _ROUNDING)
    return phi, kept, np.sqrt(squares[kept])


def _directions_within(difference: FloatArray, limit: float) -> FloatArray:
    """Orthonormal W with W'DW diagonal and within the limit, so that all of its subspaces are.

    The eigenvectors of D within the limit as they are; those beyond it in pairs, one of each sign,
    mixed so that the pair's value is zero.
    """
    values, vectors = eigh(difference)
    inside = np.abs(values) <= limit + _MET * np.abs(values).max()
    below = np.flatnonzero(~inside & (values < 0))
    above = np.flatnonzero(~inside & (values > 0))[::-1]
    n_pairs = min(len(below), len(above))
    low, high = below[:n_pairs], above[:n_pairs]
    share = values[high] / (values[high] - values[low])
    pairs = vectors[:, low] * np.sqrt(share) + vectors[:, high] * np.sqrt(1 - share)
    return np.hstack([vectors[:, inside], pairs])


def _violation(basis: FloatArray, difference: FloatArray, limit: float) -> float:
    return float(np.abs(eigvalsh(basis.T @ difference @ basis)).max()) - limit


def _ascended(
    moment: FloatArray, difference: FloatArray, limit: float, basis: FloatArray
) -> FloatArray:
    """A local maximum of tr(V'SV) within the limit, by the augmented Lagrangian method.

    Multipliers of V'DV <= tau and -V'DV <= tau are kept as (p, p) matrices, so that they mean the
    same in every basis of the subspace.
    """
    rate, last = 10.0, np.inf
    multipliers = [np.zeros_like(difference) for _ in (1, -1)]
    for _ in range(60):
        outcome = scipy.optimize.minimize(
            _augmented,
            basis.ravel(),
            (basis.shape, moment, difference, limit, multipliers, rate),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": 100, "ftol": 1e-13, "gtol": 1e-9},
        )
        basis = np.linalg.qr(outcome.x.reshape(basis.shape))[0]
        parts = _exceeding(basis, difference, limit, multipliers, rate)
        multipliers = [basis @ part @ basis.T for part in parts]
        violation = _violation(basis, difference, limit)
        if abs(violation) < _MET / 10 or (violation <= 0 and not any(map(np.any, parts))):
            break
        if abs(violation) > last / 4:
            rate = min(4 * rate, _LARGEST_RATE)
        last = abs(violation)
    return basis


def _exceeding(
    basis: FloatArray,
    difference: FloatArray,
    limit: float,
    multipliers: list[FloatArray],
    rate: float,
) -> list[FloatArray]:
    """[V'LV + rate (+-V'DV - tau I)]_+ for both signs."""
    compressed, one = basis.T @ difference @ basis, np.eye(basis.shape[1])
    return [
        positive_part(basis.T @ multiplier @ basis + rate * (sign * compressed - limit * one))
        for sign, multiplier in zip((1, -1), multipliers, strict=True)
    ]


def _augmented(
    flat: FloatArray,
    shape: tuple[int, int],
    moment: FloatArray,
    difference: FloatArray,
    limit: float,
    multipliers: list[FloatArray],
    rate: float,
) -> tuple[float, FloatArray]:
    """-tr(V'SV) + sum of ||exceeding||^2 / (2 rate) at V = the Q factor, and its gradient."""
    basis, triangle = np.linalg.qr(flat.reshape(shape))
    value, slope = -float(np.vdot(basis, moment @ basis)), -2 * moment @ basis
    parts = _exceeding(basis, difference, limit, multipliers, rate)
    for sign, multiplier, part in zip((1, -1), multipliers, parts, strict=True):
        value += float(np.vdot(part, part)) / (2 * rate)
        slope += 2 / rate * (multiplier @ basis + rate * sign * difference @ basis) @ part
    slope -= basis @ (basis.T @ slope)
    return value, np.linalg.solve(triangle, slope.T).T.ravel()
