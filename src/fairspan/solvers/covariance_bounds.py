"""Upper bounds on tr(V'SV) subject to ||V'DV|| <= tau: with one multiplier, and semidefinite.

S is the second moment of all rows, D the difference of two covariances, both (p, p); V has d
orthonormal columns, and t_d is the sum of the d largest eigenvalues of a symmetric matrix.

The scalar bound is the Lagrangian dual over V'V = I, whose multiplier can be reduced to a number by
symmetry: tr(V'SV) <= t_d(S - nu D) + |nu| d tau for every nu.

For few features a semidefinite program gives a tighter bound. D is the difference of two
covariances and indefinite, so the limit is not convex in P = VV'. Olfat and Aswani (2019) shift it:
with phi I + D = MM', a projector P satisfies ||P(phi I + D)P|| <= phi + tau, which is expressed in
P by a Schur complement. For a projector the limit is equivalent to M'PM <= (phi + tau) I, which is
linear in P, half as large and, over 0 <= P <= I, never weaker. That form is used here, for D and
-D, each with the smallest phi.
"""

from typing import NamedTuple

import numpy as np
import scipy

from fairspan.certificates.proofs import positive_part
from fairspan.errors import IncompatibleParameters
from fairspan.formatting.messages import counted
from fairspan.linalg import leading_subspace
from fairspan.solvers.convex_programs import ConeSizes, ConicSolution, smat, solve_conic, svec
from fairspan.typing import FloatArray

# Multiplier, in units of ||S|| / ||D||, beyond which the bound no longer decreases.
_MAX_MULTIPLIER = 1e8
# Tolerance of the search for the multiplier, in units of the substitution sinh(t): every multiplier
# gives a valid bound.
_MULTIPLIER_TOL = 1e-8
# Largest number of features for the semidefinite program, whose run time grows with the sixth
# power: 0.2 s for 20 features, 5 s for 40, a minute for 60.
_MAX_PROGRAM_FEATURES = 60
# Tolerance of gap and feasibility of the conic program.
_PROGRAM_TOL = 1e-10


def scalar_dual_multiplier(
    second_moment: FloatArray, difference: FloatArray, n_components: int, tau: float
) -> float:
    """Multiplier nu with the smallest bound t_d(S - nu D) + |nu| d tau, which is convex in nu.

    t_d is the sum of the d largest eigenvalues. Every nu gives a valid bound on tr(V'SV) subject to
    ||V'DV|| <= tau, so the minimizer need not be exact.

    Parameters
    ----------
    second_moment, difference : (p, p) arrays
        S, and D, which is not zero.
    n_components : int
        d.
    tau : float
        Limit on the spectral norm of V'DV.
    """
    scale = float(np.linalg.norm(second_moment) / np.linalg.norm(difference))

    # The substitution nu = scale * sinh(t) covers many orders of magnitude of either sign, and
    # leaves the function unimodal, since it is increasing.
    def bound_at(t: float) -> float:
        nu = scale * np.sinh(t)
        leading = leading_subspace(second_moment - nu * difference, n_components)
        return float(leading.eigenvalue_sum + abs(nu) * n_components * tau)

    max_t = np.arcsinh(_MAX_MULTIPLIER)
    minimum = scipy.optimize.minimize_scalar(
        bound_at, bounds=(-max_t, max_t), method="bounded", options={"xatol": _MULTIPLIER_TOL}
    )
    return scale * float(np.sinh(minimum.x))


class RelaxedLimit(NamedTuple):
    """Solution of the semidefinite relaxation of a limit on the difference of covariances.

    Attributes
    ----------
    multipliers : (2, p, p) array
        Dual multipliers of the limits for D and for -D, positive semidefinite; zero if the conic
        solver fails.
    start : (p, d) array
        Leading eigenvectors of the relaxed P; not necessarily feasible.
    """

    multipliers: FloatArray
    start: FloatArray


def solve_semidefinite_relaxation(
    second_moment: FloatArray, difference: FloatArray, n_components: int, tau: float
) -> RelaxedLimit:
    """Solve the semidefinite relaxation: dual multipliers, and a starting point.

    The problem is to maximize tr(V'SV) over (p, d) orthonormal V with ||V'DV|| <= tau. The
    relaxation replaces VV' by P and maximizes <S, P> over symmetric P with 0 <= P <= I, tr P = d
    and M'PM <= (phi + tau) I, where MM' = phi I + D, and likewise for -D. For P = VV' this says
    that V'(phi I + D)V <= (phi + tau) I, which is the limit.

    The bound is recomputed from the multipliers alone
    (:class:`fairspan.certificates.proofs.CovarianceDifferenceProof`), so it holds however
    inaccurate the conic solver is.

    Parameters
    ----------
    second_moment : (p, p) array
        S.
    difference : (p, p) array
        D.
    n_components : int
        d.
    tau : float
        Limit on the spectral norm of V'DV.

    Returns
    -------
    RelaxedLimit

    Raises
    ------
    IncompatibleParameters
        There are too many features.
    """
    p = len(second_moment)
    if p > _MAX_PROGRAM_FEATURES:
        raise IncompatibleParameters(
            f"The solver 'semidefinite' received {counted(p, 'direction')} of equal means",
            f"Allowed: up to {_MAX_PROGRAM_FEATURES}, since the run time of the semidefinite "
            "program grows steeply",
            "Use solver='auto', which supports any number, or CovarianceParity(n_directions=...)",
        )
    moment_norm = float(np.linalg.norm(second_moment, 2)) or 1.0
    values, axes = np.linalg.eigh(difference)
    difference_norm = float(np.abs(values).max())
    values = values / difference_norm
    tau = tau / difference_norm
    # In the eigenvectors of D every M is diagonal, which makes the program sparse and accurate.
    scaled_moment = axes.T @ second_moment @ axes / moment_norm
    solution = _solve_relaxed_program(scaled_moment, values, n_components, tau)
    start = leading_subspace(scaled_moment, n_components).vectors
    multipliers = np.zeros((2, p, p))
    # Inaccurate multipliers still prove a bound; if there are none, zeros prove that of PCA.
    if np.isfinite(solution.x).all():
        start = leading_subspace(smat(solution.x, p), n_components).vectors
        # Skip the duals of the trace and of 0 <= P <= I.
        dual_pair = solution.duals[1 + 2 * len(solution.x) :].reshape(2, -1)
        multipliers = np.array([positive_part(smat(dual, p)) for dual in dual_pair])
    # Undo the scaling by ||S|| and ||D||.
    return RelaxedLimit(
        multipliers=axes @ multipliers @ axes.T * (moment_norm / difference_norm),
        start=axes @ start,
    )


def _solve_relaxed_program(
    second_moment: FloatArray, difference_values: FloatArray, n_components: int, tau: float
) -> ConicSolution:
    """Solve the relaxation as a conic program, in the coordinates in which D is diagonal.

    The variable x is svec(P), the upper triangle as a vector, and the constraints say that rhs -
    rows @ x lies in a cone: tr P = d, then P >= 0, I - P >= 0, and (phi + tau) I - M'PM >= 0 for
    D and for -D, each with the smallest phi that makes phi I + D (or phi I - D) positive
    semidefinite.

    Parameters
    ----------
    second_moment : (p, p) array
        S.
    difference_values : (p,) array
        Diagonal of D.
    n_components : int
        d.
    tau : float
    """
    p = len(difference_values)
    identity = svec(np.eye(p))
    entries = scipy.sparse.identity(len(identity))
    zeros = np.zeros(len(identity))
    rows = [identity[None, :], -entries, entries]
    rhs = [np.array([float(n_components)]), zeros, identity]
    for sign in (1, -1):
        phi = max(0.0, -float((sign * difference_values).min()))
        roots = np.sqrt(np.maximum(sign * difference_values + phi, 0.0))
        columns, row_index = np.tril_indices(p)
        rows.append(scipy.sparse.diags(roots[row_index] * roots[columns]))
        rhs.append((phi + tau) * identity)
    return solve_conic(
        quadratic=None,
        linear=-svec(second_moment),
        constraints=scipy.sparse.vstack(rows),
        rhs=np.concatenate(rhs),
        # One equality (the trace), no inequalities, and four semidefinite matrices.
        cone_sizes=ConeSizes(1, 0, psd_orders=(p, p, p, p)),
        tol=_PROGRAM_TOL,
    )
