"""Maximize tr(V'SV) subject to ||V'DV|| <= tau: two upper bounds, and a local ascent.

The scalar bound is the Lagrangian dual over V'V = I, whose multiplier can be reduced to a number by
symmetry: tr(V'SV) <= t_d(S - nu D) + |nu| d tau for every nu. The subspace is a local maximum,
found by an augmented Lagrangian method with a (d, d) multiplier and made feasible by Newton steps.

For few features a semidefinite program gives a tighter bound. D is the difference of two
covariances and indefinite, so the limit is not convex in P = VV'. Olfat and Aswani (2019) shift it:
with phi I + D = MM', a projector P satisfies ||P(phi I + D)P|| <= phi + tau, which is expressed in
P by a Schur complement. For a projector the limit is equivalent to M'PM <= (phi + tau) I, which is
linear in P, half as large and, over 0 <= P <= I, never weaker. That form is used here, for D and
-D, each with the smallest phi.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from fairspan.certificates.certificate import Certificate, Solver, TracePoint, certify
from fairspan.certificates.proofs import (
    CovarianceDifferenceProof,
    CovarianceTraceProof,
    Proof,
    positive_part,
)
from fairspan.errors import IncompatibleParameters
from fairspan.formatting.messages import counted
from fairspan.linalg import leading_subspace
from fairspan.problem.problem import (
    CovarianceDifferenceLimit,
    MeanDistanceLimit,
    Problem,
    is_feasible,
)
from fairspan.problem.restrictions import Restriction
from fairspan.solvers.convex_programs import smat, solve_conic, svec
from fairspan.solvers.two_groups.boundary_search import BoundarySearch
from fairspan.typing import FloatArray

# Feasibility tolerance relative to ||D||; larger before the Newton steps, which square the
# violation.
_FEASIBILITY_TOL = 1e-9
_NEWTON_START_TOL = 1e-6
# Relative change below which the objective counts as converged.
_VALUE_TOL = 1e-5
# Penalty at the start, for a second moment and a difference of norm one; a larger one than the
# second would swamp the digits of the objective.
_INITIAL_PENALTY = 10.0
_MAX_PENALTY = 1e6
# Updates of the multiplier; about ten are common.
_MAX_MULTIPLIER_UPDATES = 60
# Newton steps towards the limit, which converge quadratically.
_MAX_NEWTON_STEPS = 8
# L-BFGS steps per multiplier update; 100 give no better result in twice the time.
_ASCENT_STEPS = 40
# Several starts are used up to this many features: an ascent takes a second for 200 features, a
# minute for 2,000.
_MULTISTART_MAX_FEATURES = 200
# Up to this many features some random starts (with a fixed seed) are added, since ascents end in
# many local maxima.
_N_RANDOM_STARTS = 12
_RANDOM_START_MAX_FEATURES = 60
# Multiplier, in units of ||S|| / ||D||, beyond which the bound no longer decreases.
_MAX_MULTIPLIER = 1e8


def solver_for_limit(
    problem: Problem, restriction: Restriction | None, solver: Solver
) -> "BoundarySearch | CovarianceLimitSolver":
    """Solver for a restriction with a tolerance.

    Parameters
    ----------
    problem : Problem
        With the limit set by the restriction.
    restriction : Restriction or None
    solver : Solver
        Requested solver: "auto", or the one that the limit needs.

    Raises
    ------
    IncompatibleParameters
        Another solver was requested.
    """
    limits_means = isinstance(problem.limit, MeanDistanceLimit)
    solver_name = "boundary" if limits_means else "semidefinite"
    if solver.name not in ("auto", solver_name):
        raise IncompatibleParameters(
            f"The solver {solver.name!r} does not support {restriction!r}",
            f"Allowed with this tolerance: 'auto' and {solver_name!r}",
            "Use solver='auto', or a restriction without a tolerance",
        )
    if limits_means:
        return BoundarySearch()
    if solver.name == "auto":
        return CovarianceLimitSolver()
    return CovarianceLimitSolver(solver_name)


@dataclass(frozen=True, eq=False)
class CovarianceLimitSolver:
    """Solver of max tr(V'SV) subject to ||V'DV|| <= tau, with D = C_1 - C_2.

    The problem is that in the directions along which the group means are equal. If ordinary PCA is
    feasible, it is optimal. Otherwise a multiplier gives the bound and local ascents a feasible
    subspace. The bound comes from a relaxation, so the gap may stay open, which the certificate
    reports.

    Attributes
    ----------
    name : {"augmented_lagrangian", "semidefinite"}
        Bound with a scalar multiplier; or, for few features, with the multipliers of a semidefinite
        program (Olfat and Aswani 2019), whose bound is tighter.
    """

    name: str = "augmented_lagrangian"

    def solve(self, problem: Problem, tol: float, random_state: Any = None) -> Certificate:
        """Find a feasible subspace and a bound.

        The `weights` of the certificate are those of the total error.

        Raises
        ------
        IncompatibleParameters
            No subspace is feasible, or there are too many features for the semidefinite program.
        """
        limit = problem.limit
        q = problem.proportions
        pooled = problem.dense_moments.mixture(q)
        assert isinstance(limit, CovarianceDifferenceLimit)
        basis = problem.pooled_optimum.vectors
        is_semidefinite = self.name == "semidefinite"
        proof: Proof = CovarianceTraceProof(q, 0.0)
        if is_semidefinite:
            proof = CovarianceDifferenceProof(q, np.zeros((2, *pooled.shape)))
        if not is_feasible(limit, basis):
            d = problem.n_components
            difference = limit.difference
            tau = limit.tolerance
            _check_feasible(difference, d, tau)
            if is_semidefinite:
                multipliers, start = solve_semidefinite_relaxation(pooled, difference, d, tau)
                proof = CovarianceDifferenceProof(q, multipliers)
            else:
                nu = scalar_dual_multiplier(pooled, difference, d, tau)
                start = leading_subspace(pooled - nu * difference, d).vectors
                proof = CovarianceTraceProof(q, nu)
            basis = best_feasible_subspace(pooled, difference, tau, [basis, start])
        return certify(
            problem,
            basis,
            proof,
            tol=tol,
            n_eigenproblems=1,
            trace=[TracePoint(1, -np.inf, problem.objective(basis))],
            solver=self.name,
        )


def _check_feasible(difference: FloatArray, n_components: int, tolerance: float) -> None:
    """Check that some subspace respects the limit."""
    values = np.linalg.eigvalsh(difference)
    rounding = _EIGENVALUE_ROUNDING * float(np.abs(values).max())
    # The eigenvalues of V'DV interlace with those of D, and all interlacing values are attained
    # (Fan and Pall 1957): these are the smallest achievable norms for each dimension.
    min_norms = np.maximum(np.maximum(values, -values[::-1]), 0.0)
    if min_norms[n_components - 1] > tolerance + rounding:
        max_feasible = int(np.count_nonzero(min_norms <= tolerance + rounding))
        n_positive = int(np.count_nonzero(values > rounding))
        n_negative = int(np.count_nonzero(-values > rounding))
        raise IncompatibleParameters(
            f"CovarianceParity received tolerance={tolerance!r} with "
            f"n_components={n_components} of {counted(len(values), 'direction')} of equal means",
            f"Allowed: at least {min_norms[n_components - 1]:.6g}, or up to "
            f"{counted(max_feasible, 'component')}: the difference of the covariances has "
            f"{n_positive} positive and {n_negative} negative eigenvalues, which can only cancel "
            "in pairs",
            "Choose a larger tolerance, or fewer components",
        )


def scalar_dual_multiplier(
    second_moment: FloatArray, difference: FloatArray, n_components: int, tau: float
) -> float:
    """Minimizer nu of the convex function t_d(S - nu D) + |nu| d tau."""
    scale = float(np.linalg.norm(second_moment) / np.linalg.norm(difference))

    def bound(t: float) -> float:
        nu = scale * np.sinh(t)
        leading = leading_subspace(second_moment - nu * difference, n_components)
        return float(leading.eigenvalue_sum + abs(nu) * n_components * tau)

    # The substitution nu = sinh(t) covers many orders of magnitude and keeps the function unimodal.
    max_t = np.arcsinh(_MAX_MULTIPLIER)
    minimum = scipy.optimize.minimize_scalar(
        bound, bounds=(-max_t, max_t), method="bounded", options={"xatol": 1e-8}
    )
    return scale * float(np.sinh(minimum.x))


def best_feasible_subspace(
    second_moment: FloatArray, difference: FloatArray, tau: float, starts: Sequence[FloatArray]
) -> FloatArray:
    """Best feasible subspace found, by local ascents and a direct construction.

    Parameters
    ----------
    second_moment, difference : (p, p) arrays
        S and D.
    tau : float
        Limit, for which a feasible subspace exists.
    starts : sequence of (p, d) arrays
        Starting points of the ascents, best guess first. The others and the direct solution are
        used as starts for few features only, and random ones for even fewer.

    Returns
    -------
    (p, d) array
    """
    p = len(second_moment)
    d = starts[0].shape[1]
    feasible_basis = _feasible_directions(difference, tau)
    compressed = feasible_basis.T @ second_moment @ feasible_basis
    direct_solution = feasible_basis @ leading_subspace(compressed, d).vectors
    threshold = tau + _FEASIBILITY_TOL * _spectral_norm(difference)
    ascent_starts = list(starts[:1])
    if p <= _MULTISTART_MAX_FEATURES:
        ascent_starts = [*starts, direct_solution]
    if p <= _RANDOM_START_MAX_FEATURES:
        rng = np.random.default_rng(0)
        random_starts = rng.standard_normal((_N_RANDOM_STARTS, *direct_solution.shape))
        ascent_starts += list(np.linalg.qr(random_starts)[0])
    maxima = [local_ascent(second_moment, difference, tau, start) for start in ascent_starts]
    feasible = [V for V in maxima if _spectral_norm(V.T @ difference @ V) <= threshold]
    return max(
        [direct_solution, *feasible], key=lambda basis: float(np.vdot(basis, second_moment @ basis))
    )


def _spectral_norm(symmetric: FloatArray) -> float:
    return float(np.abs(np.linalg.eigvalsh(symmetric)).max())


def _feasible_directions(difference: FloatArray, tau: float) -> FloatArray:
    """Orthonormal W, such that every subspace of its span is feasible.

    W'DW is diagonal and within the limit. Eigenvectors of D within the limit are kept; those beyond
    it are combined in pairs of opposite sign, such that the value of each pair is zero.
    """
    values, vectors = np.linalg.eigh(difference)
    inside = np.abs(values) <= tau + _FEASIBILITY_TOL * np.abs(values).max()
    below = np.flatnonzero(~inside & (values < 0))
    above = np.flatnonzero(~inside & (values > 0))[::-1]
    n_pairs = min(len(below), len(above))
    low = below[:n_pairs]
    high = above[:n_pairs]
    low_fraction = values[high] / (values[high] - values[low])
    pairs = vectors[:, low] * np.sqrt(low_fraction) + vectors[:, high] * np.sqrt(1 - low_fraction)
    return np.hstack([vectors[:, inside], pairs])


def local_ascent(
    second_moment: FloatArray, difference: FloatArray, tau: float, start: FloatArray
) -> FloatArray:
    """Local maximum of tr(V'SV) subject to the limit, shape (p, d)."""
    moment_norm = _spectral_norm(second_moment) or 1.0
    difference_norm = _spectral_norm(difference)
    second_moment = second_moment / moment_norm
    difference = difference / difference_norm
    tau = tau / difference_norm
    basis = start
    penalty = _INITIAL_PENALTY
    previous_violation = np.inf
    variance = -np.inf
    multiplier = np.zeros((basis.shape[1],) * 2)
    for _ in range(_MAX_MULTIPLIER_UPDATES):
        outcome = scipy.optimize.minimize(
            _augmented_lagrangian,
            basis.ravel(),
            (basis, second_moment, difference, tau, multiplier, penalty),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": _ASCENT_STEPS, "ftol": 1e-13, "gtol": 1e-9},
        )
        candidate = np.linalg.qr(outcome.x.reshape(basis.shape))[0]
        rotation = candidate.T @ basis
        compressed = candidate.T @ difference @ candidate
        multiplier = _soft_threshold(
            rotation @ multiplier @ rotation.T + penalty * compressed, penalty * tau
        )
        basis = candidate
        violation = float(np.linalg.norm(_soft_threshold(compressed, tau), 2))
        previous_variance = variance
        variance = float(np.vdot(basis, second_moment @ basis))
        # A feasible subspace is not a maximum while its value still changes.
        is_converged = abs(variance - previous_variance) <= _VALUE_TOL * variance
        if violation < _NEWTON_START_TOL and is_converged:
            break
        if violation > previous_violation / 4:
            penalty = min(4 * penalty, _MAX_PENALTY)
        previous_violation = violation
    return _restore_feasibility(basis, difference, tau)


def _restore_feasibility(basis: FloatArray, difference: FloatArray, tau: float) -> FloatArray:
    """Take Newton steps V - N Z until V'DV respects the limit.

    Here N = (I - VV')DV, and N'N Z + Z N'N equals the excess of V'DV over the limit.
    """
    for _ in range(_MAX_NEWTON_STEPS):
        image = difference @ basis
        compressed = basis.T @ image
        excess = _soft_threshold(compressed, tau)
        if not excess.any():
            break
        normal = image - basis @ compressed
        values, axes = np.linalg.eigh(normal.T @ normal)
        sums = np.maximum(values[:, None] + values, np.finfo(np.float64).tiny)
        step = axes @ (axes.T @ excess @ axes / sums) @ axes.T
        basis = np.linalg.qr(basis - normal @ step)[0]
    return basis


def _soft_threshold(matrix: FloatArray, tau: float) -> FloatArray:
    """Soft-threshold the eigenvalues of a symmetric matrix."""
    values, axes = np.linalg.eigh((matrix + matrix.T) / 2)
    reduced_values = np.sign(values) * np.maximum(np.abs(values) - tau, 0.0)
    return np.asarray((axes * reduced_values) @ axes.T)


def _augmented_lagrangian(
    x: FloatArray,
    reference: FloatArray,
    second_moment: FloatArray,
    difference: FloatArray,
    tau: float,
    multiplier: FloatArray,
    penalty: float,
) -> tuple[float, FloatArray]:
    """Augmented Lagrangian -tr(V'SV) + ||excess||^2 / (2 penalty), and its gradient.

    V is the Q factor of x. The multiplier refers to the basis `reference`, so that its meaning does
    not depend on the basis.
    """
    basis, triangle = np.linalg.qr(x.reshape(reference.shape))
    moment_image = second_moment @ basis
    difference_image = difference @ basis
    rotation = reference.T @ basis
    excess = _soft_threshold(
        rotation.T @ multiplier @ rotation + penalty * (basis.T @ difference_image), penalty * tau
    )
    penalty_term = float(np.vdot(excess, excess)) / (2 * penalty)
    value = -float(np.vdot(basis, moment_image)) + penalty_term
    constraint_slope = reference @ (multiplier @ rotation) + penalty * difference_image
    gradient = -2 * moment_image + 2 / penalty * constraint_slope @ excess
    gradient -= basis @ (basis.T @ gradient)
    return value, np.linalg.solve(triangle, gradient.T).T.ravel()


# Largest number of features for the semidefinite program, whose run time grows with the sixth
# power: 0.2 s for 20 features, 5 s for 40, a minute for 60.
_SDP_MAX_FEATURES = 60
# Tolerance of gap and feasibility of the conic program.
_SDP_TOL = 1e-10
# Eigenvalues below this fraction of the largest are negligible.
_EIGENVALUE_ROUNDING = 1e-12


def solve_semidefinite_relaxation(
    second_moment: FloatArray, difference: FloatArray, n_components: int, tau: float
) -> tuple[FloatArray, FloatArray]:
    """Solve the semidefinite relaxation: dual multipliers, and a starting point.

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
        Limit.

    Returns
    -------
    multipliers : (2, p, p) array
        Z_1 and Z_2, positive semidefinite.
    start : (p, d) array
        Leading eigenvectors of the relaxed P; not necessarily feasible.

    Raises
    ------
    IncompatibleParameters
        There are too many features.
    """
    p = len(second_moment)
    if p > _SDP_MAX_FEATURES:
        raise IncompatibleParameters(
            f"The solver 'semidefinite' received {counted(p, 'direction')} of equal means",
            f"Allowed: up to {_SDP_MAX_FEATURES}, since the run time of the semidefinite program "
            "grows steeply",
            "Use solver='auto', which supports any number, or CovarianceParity(n_directions=...)",
        )
    moment_norm = float(np.linalg.norm(second_moment, 2)) or 1.0
    values, axes = np.linalg.eigh(difference)
    difference_norm = float(np.abs(values).max())
    values = values / difference_norm
    tau = tau / difference_norm
    # In the eigenvectors of D every M is diagonal, which makes the program sparse and accurate.
    scaled_moment = axes.T @ second_moment @ axes / moment_norm
    # The variable is svec(P); D and -D both become MM', each with its smallest phi.
    identity = svec(np.eye(p))
    entries = scipy.sparse.identity(len(identity))
    zeros = np.zeros(len(identity))
    rows = [identity[None, :], -entries, entries]
    rhs = [np.array([float(n_components)]), zeros, identity]
    for sign in (1, -1):
        phi = max(0.0, -float((sign * values).min()))
        roots = np.sqrt(np.maximum(sign * values + phi, 0.0))
        columns, row_index = np.tril_indices(p)
        rows.append(scipy.sparse.diags(roots[row_index] * roots[columns]))
        rhs.append((phi + tau) * identity)
    x, duals, _ = solve_conic(
        None,
        -svec(scaled_moment),
        scipy.sparse.vstack(rows),
        np.concatenate(rhs),
        (1, 0, (p, p, p, p)),
        _SDP_TOL,
    )
    start = leading_subspace(scaled_moment, n_components).vectors
    multipliers = np.zeros((2, p, p))
    # Inaccurate multipliers still prove a bound.
    if np.isfinite(x).all():
        start = leading_subspace(smat(x, p), n_components).vectors
        dual_pair = duals[1 + 2 * len(identity) :].reshape(2, -1)
        multipliers = np.array([positive_part(smat(dual, p)) for dual in dual_pair])
    # Undo the scaling by ||S|| and ||D||.
    return axes @ multipliers @ axes.T * (moment_norm / difference_norm), axes @ start
