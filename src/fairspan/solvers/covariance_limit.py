"""max tr(V'SV) subject to ||V'DV|| <= tau: two bounds, and local ascent.

The scalar bound is the Lagrangian dual over V'V = I, whose multiplier can be made a number by
symmetry: tr(V'SV) <= t_d(S - nu D) + |nu| d tau for every nu. The subspace is a local maximum,
found by the augmented Lagrangian method with a (d, d) multiplier and brought within the limit by
Newton steps.

The closer bound, for few features, is that of a semidefinite program. D is the difference of two
covariances, so neither D nor -D is positive semidefinite and the limit is not convex in P = VV'.
Olfat and Aswani (2019) shift it: with phi I + D = MM', a projector P has
||P(phi I + D)P|| <= phi + tau, which a Schur complement states in P. For a projector the same limit
also reads M'PM <= (phi + tau) I, linear in P, half as large and, over 0 <= P <= I, never weaker. We
take that, for D and -D, each with the least phi there is.
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
from fairspan.formatting.text import counted
from fairspan.linalg import leading_subspace
from fairspan.problem.problem import (
    CovarianceDifferenceLimit,
    MeanDistanceLimit,
    Problem,
    is_feasible,
)
from fairspan.problem.restrictions import Restriction
from fairspan.solvers.convex_programs import smat, solve_conic, svec
from fairspan.solvers.two_groups.boundary import BoundarySearch
from fairspan.typing import FloatArray

# The limit is met up to this share of ||D||; before the Newton steps, which square it, up to more.
_FEASIBILITY_TOL, _NEWTON_START_TOL = 1e-9, 1e-6
# A value that changes by less has settled.
_VALUE_TOL = 1e-5
# Beyond this the penalty drowns the objective's digits.
_MAX_PENALTY = 1e6
_MAX_NEWTON_STEPS = 8
# Of one ascent, before the multiplier moves: with 100 as much is kept, in twice the time.
_ASCENT_STEPS = 40
# An ascent takes a second for 200 features, and a minute for 2,000.
_MULTISTART_MAX_FEATURES = 200
# Of few features some starts are drawn, always the same: ascents end in many places.
_N_RANDOM_STARTS, _RANDOM_START_MAX_FEATURES = 12, 60
# A multiplier, in units of ||S|| / ||D||, beyond which the bound no longer falls.
_MAX_MULTIPLIER = 1e8


def solver_for_limit(
    problem: Problem, restriction: Restriction | None, solver: Solver
) -> "BoundarySearch | CovarianceLimitSolver":
    """What solves a restriction with a tolerance.

    Parameters
    ----------
    problem : Problem
        With the limit that the restriction sets.
    restriction : Restriction or None
    solver : Solver
        The requested one, which must be "auto" or the one that is needed.

    Raises
    ------
    Incompatible
        Another solver was requested.
    """
    of_means = isinstance(problem.limit, MeanDistanceLimit)
    by_name = "boundary" if of_means else "semidefinite"
    if solver.name not in ("auto", by_name):
        raise IncompatibleParameters(
            f"The solver {solver.name!r} does not support {restriction!r}",
            f"Allowed with this tolerance: 'auto' and {by_name!r}",
            "Use solver='auto', or a restriction without tolerance",
        )
    if of_means:
        return BoundarySearch()
    return CovarianceLimitSolver() if solver.name == "auto" else CovarianceLimitSolver(by_name)


@dataclass(frozen=True, eq=False)
class CovarianceLimitSolver:
    """max tr(V'SV) subject to ||V'DV|| <= tau, D = C_1 - C_2, in directions of equal means.

    Where ordinary PCA meets the limit, it is the optimum. Otherwise a multiplier gives the bound,
    and ascents a subspace that meets the limit. The bound is one of a relaxation, so the gap may
    stay open, and the solution then says so.

    Attributes
    ----------
    name : {"augmented_lagrangian", "semidefinite"}
        With a multiplier that is a number; or, of few features, with those of a semidefinite
        program (Olfat and Aswani 2019), whose bound is closer.
    """

    name: str = "augmented_lagrangian"

    def solve(self, problem: Problem, tol: float, random_state: Any = None) -> Certificate:
        """Find a subspace and a bound; `weights` of the solution are those of its objective.

        Raises
        ------
        Incompatible
            No subspace meets the limit, or there are too many features for the program.
        """
        limit, q = problem.limit, problem.proportions
        pooled = problem.dense_moments.mixture(q)
        assert isinstance(limit, CovarianceDifferenceLimit)
        basis, is_semidefinite = problem.pooled_optimum.vectors, self.name == "semidefinite"
        proof: Proof = CovarianceTraceProof(q, 0.0)
        if is_semidefinite:
            proof = CovarianceDifferenceProof(q, np.zeros((2, *pooled.shape)))
        if not is_feasible(limit, basis):
            d, difference, most = problem.n_components, limit.difference, limit.tolerance
            _check_feasible(difference, d, most)
            if is_semidefinite:
                multipliers, start = solve_semidefinite_relaxation(pooled, difference, d, most)
                proof = CovarianceDifferenceProof(q, multipliers)
            else:
                nu = scalar_dual_multiplier(pooled, difference, d, most)
                start = leading_subspace(pooled - nu * difference, d).vectors
                proof = CovarianceTraceProof(q, nu)
            basis = best_feasible_subspace(pooled, difference, most, [basis, start])
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
    """Make sure that some subspace meets the limit."""
    values = np.linalg.eigvalsh(difference)
    rounding = _EIGENVALUE_ROUNDING * float(np.abs(values).max())
    # The eigenvalues of V'DV interlace with those of D, and every such set is reached
    # (Fan and Pall 1957): these are the least norms within reach, of each dimension.
    min_norms = np.maximum(np.maximum(values, -values[::-1]), 0.0)
    if min_norms[n_components - 1] > tolerance + rounding:
        max_feasible = int(np.count_nonzero(min_norms <= tolerance + rounding))
        n_positive, n_negative = (
            int(np.count_nonzero(sign * values > rounding)) for sign in (1, -1)
        )
        raise IncompatibleParameters(
            f"CovarianceParity received tolerance={tolerance!r} with "
            f"n_components={n_components} of {counted(len(values), 'direction')} of equal means",
            f"Allowed: at least {min_norms[n_components - 1]:.6g}, or up to "
            f"{counted(max_feasible, 'component')}: the difference of the covariances has {n_positive} "
            f"positive and {n_negative} negative eigenvalues, and only one of each cancels another",
            "Choose a larger tolerance, or fewer components",
        )


def scalar_dual_multiplier(
    second_moment: FloatArray, difference: FloatArray, n_components: int, tau: float
) -> float:
    """The nu with the least t_d(S - nu D) + |nu| d tau, a convex function."""
    scale = float(np.linalg.norm(second_moment) / np.linalg.norm(difference))

    def bound(t: float) -> float:
        nu = scale * np.sinh(t)
        leading = leading_subspace(second_moment - nu * difference, n_components)
        return float(leading.eigenvalue_sum + abs(nu) * n_components * tau)

    # A convex function of nu has one valley in the powers too, which reach far.
    threshold = np.arcsinh(_MAX_MULTIPLIER)
    candidate = scipy.optimize.minimize_scalar(
        bound, bounds=(-threshold, threshold), method="bounded", options={"xatol": 1e-8}
    )
    return scale * float(np.sinh(candidate.x))


def best_feasible_subspace(
    second_moment: FloatArray, difference: FloatArray, tau: float, starts: Sequence[FloatArray]
) -> FloatArray:
    """The best subspace within the limit that was found: ascents, or a direct choice.

    Parameters
    ----------
    moment, difference : (p, p) arrays
        S and D.
    limit : float
        tau, such that some subspace meets it.
    starts : sequence of (p, d) arrays
        Where ascents begin, the likeliest first: the others, and the direct choice, are tried where
        there are few features, and of fewer some that are drawn.

    Returns
    -------
    (p, d) array
    """
    feasible_basis, d = _feasible_directions(difference, tau), starts[0].shape[1]
    direct_solution = (
        feasible_basis
        @ leading_subspace(feasible_basis.T @ second_moment @ feasible_basis, d).vectors
    )
    threshold = tau + _FEASIBILITY_TOL * _spectral_norm(difference)
    tried = (
        [*starts, direct_solution]
        if len(second_moment) <= _MULTISTART_MAX_FEATURES
        else list(starts[:1])
    )
    if len(second_moment) <= _RANDOM_START_MAX_FEATURES:
        random_starts = np.random.default_rng(0).standard_normal(
            (_N_RANDOM_STARTS, *direct_solution.shape)
        )
        tried += list(np.linalg.qr(random_starts)[0])
    candidate = [local_ascent(second_moment, difference, tau, each) for each in tried]
    feasible = [V for V in candidate if _spectral_norm(V.T @ difference @ V) <= threshold]
    return max(
        [direct_solution, *feasible], key=lambda basis: float(np.vdot(basis, second_moment @ basis))
    )


def _spectral_norm(symmetric: FloatArray) -> float:
    return float(np.abs(np.linalg.eigvalsh(symmetric)).max())


def _feasible_directions(difference: FloatArray, tau: float) -> FloatArray:
    """Orthonormal W with W'DW diagonal and within the limit, so that all of its subspaces are.

    The eigenvectors of D within the limit as they are; those beyond it in pairs, one of each sign,
    mixed so that the pair's value is zero.
    """
    values, vectors = np.linalg.eigh(difference)
    inside = np.abs(values) <= tau + _FEASIBILITY_TOL * np.abs(values).max()
    below = np.flatnonzero(~inside & (values < 0))
    above = np.flatnonzero(~inside & (values > 0))[::-1]
    n_pairs = min(len(below), len(above))
    low, high = below[:n_pairs], above[:n_pairs]
    share = values[high] / (values[high] - values[low])
    pairs = vectors[:, low] * np.sqrt(share) + vectors[:, high] * np.sqrt(1 - share)
    return np.hstack([vectors[:, inside], pairs])


def local_ascent(
    second_moment: FloatArray, difference: FloatArray, tau: float, start: FloatArray
) -> FloatArray:
    """A local maximum of tr(V'SV) within the limit, shape (p, d)."""
    size, spread = _spectral_norm(second_moment) or 1.0, _spectral_norm(difference)
    second_moment, difference, tau = second_moment / size, difference / spread, tau / spread
    basis, penalty, last, variance = start, 10.0, np.inf, -np.inf
    multiplier = np.zeros((basis.shape[1],) * 2)
    for _ in range(60):
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
        before, variance = variance, float(np.vdot(basis, second_moment @ basis))
        # A subspace within the limit is no maximum while its value still moves.
        if violation < _NEWTON_START_TOL and abs(variance - before) <= _VALUE_TOL * variance:
            break
        if violation > last / 4:
            penalty = min(4 * penalty, _MAX_PENALTY)
        last = violation
    return _restore_feasibility(basis, difference, tau)


def _restore_feasibility(basis: FloatArray, difference: FloatArray, tau: float) -> FloatArray:
    """Newton steps V - N Z along N = (I - VV')DV, with N'N Z + Z N'N what exceeds the limit."""
    for _ in range(_MAX_NEWTON_STEPS):
        image = difference @ basis
        compressed = basis.T @ image
        exceeding = _soft_threshold(compressed, tau)
        if not exceeding.any():
            break
        normal = image - basis @ compressed
        values, axes = np.linalg.eigh(normal.T @ normal)
        sums = np.maximum(values[:, None] + values, np.finfo(np.float64).tiny)
        step = axes @ (axes.T @ exceeding @ axes / sums) @ axes.T
        basis = np.linalg.qr(basis - normal @ step)[0]
    return basis


def _soft_threshold(matrix: FloatArray, tau: float) -> FloatArray:
    """A symmetric matrix with its eigenvalues moved towards zero by the limit."""
    values, axes = np.linalg.eigh((matrix + matrix.T) / 2)
    return np.asarray((axes * (np.sign(values) * np.maximum(np.abs(values) - tau, 0.0))) @ axes.T)


def _augmented_lagrangian(
    x: FloatArray,
    reference: FloatArray,
    second_moment: FloatArray,
    difference: FloatArray,
    tau: float,
    multiplier: FloatArray,
    rate: float,
) -> tuple[float, FloatArray]:
    """-tr(V'SV) + ||exceeding||^2 / (2 rate) at V = the Q factor, and its gradient.

    The multiplier is that of the basis `last`, so that it means the same in every basis.
    """
    basis, triangle = np.linalg.qr(x.reshape(reference.shape))
    variance, apart, rotation = second_moment @ basis, difference @ basis, reference.T @ basis
    excess = _soft_threshold(
        rotation.T @ multiplier @ rotation + rate * (basis.T @ apart), rate * tau
    )
    value = -float(np.vdot(basis, variance)) + float(np.vdot(excess, excess)) / (2 * rate)
    slope = -2 * variance + 2 / rate * (reference @ (multiplier @ rotation) + rate * apart) @ excess
    slope -= basis @ (basis.T @ slope)
    return value, np.linalg.solve(triangle, slope.T).T.ravel()


# The time grows with the sixth power: 0.2 s for 20 features, 5 s for 40, a minute for 60.
_SDP_MAX_FEATURES = 60
# Of the conic program, gap and feasibility.
_SDP_TOL = 1e-10
# Eigenvalues below this share of the largest are rounding.
_EIGENVALUE_ROUNDING = 1e-12


def solve_semidefinite_relaxation(
    second_moment: FloatArray, difference: FloatArray, n_components: int, tau: float
) -> tuple[FloatArray, FloatArray]:
    """Multipliers that bound tr(V'SV) of all subspaces within the limit, and where to start from.

    Their bound is computed from them alone (:class:`fairspan.certificates.proofs.
    CovarianceDifferenceProof`), so the bound holds however inaccurate the conic solver is.

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
    """
    p = len(second_moment)
    if p > _SDP_MAX_FEATURES:
        raise IncompatibleParameters(
            f"The solver 'semidefinite' received {counted(p, 'direction')} of equal means",
            f"Allowed: up to {_SDP_MAX_FEATURES}: the semidefinite program grows steeply",
            "Use solver='auto', which takes any number, or CovarianceParity(n_directions=...)",
        )
    size = float(np.linalg.norm(second_moment, 2)) or 1.0
    values, axes = np.linalg.eigh(difference)
    spread = float(np.abs(values).max())
    values, tau = values / spread, tau / spread
    # In the eigenvectors of D each M is diagonal, so that the program is sparse and accurate.
    scaled_moment = axes.T @ second_moment @ axes / size
    # The unknowns are the triangle of P; D and -D both become MM' by the least phi there is.
    identity = svec(np.eye(p))
    entries, zeros = scipy.sparse.identity(len(identity)), np.zeros(len(identity))
    rows = [identity[None, :], -entries, entries]
    right = [np.array([float(n_components)]), zeros, identity]
    for sign in (1, -1):
        phi = max(0.0, -float((sign * values).min()))
        roots = np.sqrt(np.maximum(sign * values + phi, 0.0))
        columns, row_index = np.tril_indices(p)
        rows.append(scipy.sparse.diags(roots[row_index] * roots[columns]))
        right.append((phi + tau) * identity)
    x, duals, _ = solve_conic(
        None,
        -svec(scaled_moment),
        scipy.sparse.vstack(rows),
        np.concatenate(right),
        (1, 0, (p, p, p, p)),
        _SDP_TOL,
    )
    start, multipliers = leading_subspace(scaled_moment, n_components).vectors, np.zeros((2, p, p))
    if np.isfinite(x).all():  # inaccurate multipliers prove a bound all the same
        start = leading_subspace(smat(x, p), n_components).vectors
        dual_pair = duals[1 + 2 * len(identity) :].reshape(2, -1)
        multipliers = np.array([positive_part(smat(each, p)) for each in dual_pair])
    # Of the program in units of ||S|| and ||D||.
    return axes @ multipliers @ axes.T * (size / spread), axes @ start
