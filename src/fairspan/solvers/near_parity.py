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
    CovariancesProof,
    CovarianceTraceProof,
    Proof,
    positive_part,
)
from fairspan.errors import Incompatible
from fairspan.formatting.text import counted
from fairspan.linalg import leading_subspace
from fairspan.problem.problem import CovariancesWithin, MeansWithin, Problem, is_within
from fairspan.problem.restrictions import Restriction
from fairspan.solvers.programs import from_triangle, solve_conic, to_triangle
from fairspan.solvers.two_groups.boundary import BoundarySearch
from fairspan.typing import FloatArray

# The limit is met up to this share of ||D||; before the Newton steps, which square it, up to more.
_NEAR, _BEFORE_NEWTON = 1e-9, 1e-6
# A value that changes by less has settled.
_SETTLED = 1e-5
# Beyond this the penalty drowns the objective's digits.
_LARGEST_RATE = 1e6
_NEWTON_STEPS = 8
# Of one ascent, before the multiplier moves: with 100 as much is kept, in twice the time.
_STEPS = 40
# An ascent takes a second for 200 features, and a minute for 2,000.
_SEVERAL_STARTS = 200
# Of few features some starts are drawn, always the same: ascents end in many places.
_DRAWN, _DRAWN_UP_TO = 12, 60
# A multiplier, in units of ||S|| / ||D||, beyond which the bound no longer falls.
_LARGEST_MULTIPLIER = 1e8


def tolerant_solver(
    problem: Problem, restriction: Restriction | None, solver: Solver
) -> "BoundarySearch | LimitedCovariances":
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
    of_means = isinstance(problem.limit, MeansWithin)
    by_name = "boundary" if of_means else "semidefinite"
    if solver.name not in ("auto", by_name):
        raise Incompatible(
            f"The solver {solver.name!r} does not support {restriction!r}",
            f"Allowed with this tolerance: 'auto' and {by_name!r}",
            "Use solver='auto', or a restriction without tolerance",
        )
    if of_means:
        return BoundarySearch()
    return LimitedCovariances() if solver.name == "auto" else LimitedCovariances(by_name)


@dataclass(frozen=True, eq=False)
class LimitedCovariances:
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
        pooled = problem.dense.mixture(q)
        assert isinstance(limit, CovariancesWithin)
        basis, by_program = problem.pooled_optimum.vectors, self.name == "semidefinite"
        proof: Proof = CovarianceTraceProof(q, 0.0)
        if by_program:
            proof = CovariancesProof(q, np.zeros((2, *pooled.shape)))
        if not is_within(limit, basis):
            d, apart, most = problem.n_components, limit.difference, limit.tolerance
            _check_reachable(apart, d, most)
            if by_program:
                multipliers, start = program(pooled, apart, d, most)
                proof = CovariancesProof(q, multipliers)
            else:
                nu = scalar_multiplier(pooled, apart, d, most)
                start = leading_subspace(pooled - nu * apart, d).vectors
                proof = CovarianceTraceProof(q, nu)
            basis = best_within(pooled, apart, most, [basis, start])
        return certify(
            problem,
            basis,
            proof,
            tol=tol,
            n_eigenproblems=1,
            trace=[TracePoint(1, -np.inf, problem.value(basis))],
            solver=self.name,
        )


def _check_reachable(difference: FloatArray, n_components: int, tolerance: float) -> None:
    """Make sure that some subspace meets the limit."""
    values = np.linalg.eigvalsh(difference)
    rounding = _ROUNDING * float(np.abs(values).max())
    # The eigenvalues of V'DV interlace with those of D, and every such set is reached
    # (Fan and Pall 1957): these are the least norms within reach, of each dimension.
    least = np.maximum(np.maximum(values, -values[::-1]), 0.0)
    if least[n_components - 1] > tolerance + rounding:
        n_most = int(np.count_nonzero(least <= tolerance + rounding))
        n_above, n_below = (int(np.count_nonzero(sign * values > rounding)) for sign in (1, -1))
        raise Incompatible(
            f"CovarianceParity received tolerance={tolerance!r} with "
            f"n_components={n_components} of {counted(len(values), 'direction')} of equal means",
            f"Allowed: at least {least[n_components - 1]:.6g}, or up to "
            f"{counted(n_most, 'component')}: the difference of the covariances has {n_above} "
            f"positive and {n_below} negative eigenvalues, and only one of each cancels another",
            "Choose a larger tolerance, or fewer components",
        )


def scalar_multiplier(
    moment: FloatArray, difference: FloatArray, n_components: int, limit: float
) -> float:
    """The nu with the least t_d(S - nu D) + |nu| d tau, a convex function."""
    unit = float(np.linalg.norm(moment) / np.linalg.norm(difference))

    def bound(power: float) -> float:
        nu = unit * np.sinh(power)
        leading = leading_subspace(moment - nu * difference, n_components)
        return float(leading.top_eigenvalue_sum + abs(nu) * n_components * limit)

    # A convex function of nu has one valley in the powers too, which reach far.
    most = np.arcsinh(_LARGEST_MULTIPLIER)
    found = scipy.optimize.minimize_scalar(
        bound, bounds=(-most, most), method="bounded", options={"xatol": 1e-8}
    )
    return unit * float(np.sinh(found.x))


def best_within(
    moment: FloatArray, difference: FloatArray, limit: float, starts: Sequence[FloatArray]
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
    safe, d = _directions_within(difference, limit), starts[0].shape[1]
    direct = safe @ leading_subspace(safe.T @ moment @ safe, d).vectors
    most = limit + _NEAR * _spectral_norm(difference)
    tried = [*starts, direct] if len(moment) <= _SEVERAL_STARTS else list(starts[:1])
    if len(moment) <= _DRAWN_UP_TO:
        drawn = np.random.default_rng(0).standard_normal((_DRAWN, *direct.shape))
        tried += list(np.linalg.qr(drawn)[0])
    found = [ascended(moment, difference, limit, each) for each in tried]
    meeting = [V for V in found if _spectral_norm(V.T @ difference @ V) <= most]
    return max([direct, *meeting], key=lambda basis: float(np.vdot(basis, moment @ basis)))


def _spectral_norm(symmetric: FloatArray) -> float:
    return float(np.abs(np.linalg.eigvalsh(symmetric)).max())


def _directions_within(difference: FloatArray, limit: float) -> FloatArray:
    """Orthonormal W with W'DW diagonal and within the limit, so that all of its subspaces are.

    The eigenvectors of D within the limit as they are; those beyond it in pairs, one of each sign,
    mixed so that the pair's value is zero.
    """
    values, vectors = np.linalg.eigh(difference)
    inside = np.abs(values) <= limit + _NEAR * np.abs(values).max()
    below = np.flatnonzero(~inside & (values < 0))
    above = np.flatnonzero(~inside & (values > 0))[::-1]
    n_pairs = min(len(below), len(above))
    low, high = below[:n_pairs], above[:n_pairs]
    share = values[high] / (values[high] - values[low])
    pairs = vectors[:, low] * np.sqrt(share) + vectors[:, high] * np.sqrt(1 - share)
    return np.hstack([vectors[:, inside], pairs])


def ascended(
    moment: FloatArray, difference: FloatArray, limit: float, start: FloatArray
) -> FloatArray:
    """A local maximum of tr(V'SV) within the limit, shape (p, d)."""
    size, spread = _spectral_norm(moment) or 1.0, _spectral_norm(difference)
    moment, difference, limit = moment / size, difference / spread, limit / spread
    basis, rate, last, kept = start, 10.0, np.inf, -np.inf
    multiplier = np.zeros((basis.shape[1],) * 2)
    for _ in range(60):
        outcome = scipy.optimize.minimize(
            _augmented,
            basis.ravel(),
            (basis, moment, difference, limit, multiplier, rate),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": _STEPS, "ftol": 1e-13, "gtol": 1e-9},
        )
        found = np.linalg.qr(outcome.x.reshape(basis.shape))[0]
        turned = found.T @ basis
        within = found.T @ difference @ found
        multiplier = _exceeding(turned @ multiplier @ turned.T + rate * within, rate * limit)
        basis = found
        violation = float(np.linalg.norm(_exceeding(within, limit), 2))
        before, kept = kept, float(np.vdot(basis, moment @ basis))
        # A subspace within the limit is no maximum while its value still moves.
        if violation < _BEFORE_NEWTON and abs(kept - before) <= _SETTLED * kept:
            break
        if violation > last / 4:
            rate = min(4 * rate, _LARGEST_RATE)
        last = violation
    return _within(basis, difference, limit)


def _within(basis: FloatArray, difference: FloatArray, limit: float) -> FloatArray:
    """Newton steps V - N Z along N = (I - VV')DV, with N'N Z + Z N'N what exceeds the limit."""
    for _ in range(_NEWTON_STEPS):
        image = difference @ basis
        within = basis.T @ image
        exceeding = _exceeding(within, limit)
        if not exceeding.any():
            break
        normal = image - basis @ within
        values, axes = np.linalg.eigh(normal.T @ normal)
        sums = np.maximum(values[:, None] + values, np.finfo(np.float64).tiny)
        step = axes @ (axes.T @ exceeding @ axes / sums) @ axes.T
        basis = np.linalg.qr(basis - normal @ step)[0]
    return basis


def _exceeding(matrix: FloatArray, limit: float) -> FloatArray:
    """A symmetric matrix with its eigenvalues moved towards zero by the limit."""
    values, axes = np.linalg.eigh((matrix + matrix.T) / 2)
    return np.asarray((axes * (np.sign(values) * np.maximum(np.abs(values) - limit, 0.0))) @ axes.T)


def _augmented(
    flat: FloatArray,
    last: FloatArray,
    moment: FloatArray,
    difference: FloatArray,
    limit: float,
    multiplier: FloatArray,
    rate: float,
) -> tuple[float, FloatArray]:
    """-tr(V'SV) + ||exceeding||^2 / (2 rate) at V = the Q factor, and its gradient.

    The multiplier is that of the basis `last`, so that it means the same in every basis.
    """
    basis, triangle = np.linalg.qr(flat.reshape(last.shape))
    kept, apart, turned = moment @ basis, difference @ basis, last.T @ basis
    part = _exceeding(turned.T @ multiplier @ turned + rate * (basis.T @ apart), rate * limit)
    value = -float(np.vdot(basis, kept)) + float(np.vdot(part, part)) / (2 * rate)
    slope = -2 * kept + 2 / rate * (last @ (multiplier @ turned) + rate * apart) @ part
    slope -= basis @ (basis.T @ slope)
    return value, np.linalg.solve(triangle, slope.T).T.ravel()


# The time grows with the sixth power: 0.2 s for 20 features, 5 s for 40, a minute for 60.
_MOST_FEATURES = 60
# Of the conic program, gap and feasibility.
_ACCURACY = 1e-10
# Eigenvalues below this share of the largest are rounding.
_ROUNDING = 1e-12


def program(
    moment: FloatArray, difference: FloatArray, n_components: int, limit: float
) -> tuple[FloatArray, FloatArray]:
    """Multipliers that bound tr(V'SV) of all subspaces within the limit, and where to start from.

    Their bound is computed from them alone (:class:`fairspan.certificates.proofs.
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
    """
    p = len(moment)
    if p > _MOST_FEATURES:
        raise Incompatible(
            f"The solver 'semidefinite' received {counted(p, 'direction')} of equal means",
            f"Allowed: up to {_MOST_FEATURES}: the semidefinite program grows steeply",
            "Use solver='auto', which takes any number, or CovarianceParity(n_directions=...)",
        )
    size = float(np.linalg.norm(moment, 2)) or 1.0
    values, axes = np.linalg.eigh(difference)
    spread = float(np.abs(values).max())
    values, limit = values / spread, limit / spread
    # In the eigenvectors of D each M is diagonal, so that the program is sparse and accurate.
    scaled = axes.T @ moment @ axes / size
    # The unknowns are the triangle of P; D and -D both become MM' by the least phi there is.
    identity = to_triangle(np.eye(p))
    entries, nothing = scipy.sparse.identity(len(identity)), np.zeros(len(identity))
    rows = [identity[None, :], -entries, entries]
    right = [np.array([float(n_components)]), nothing, identity]
    for sign in (1, -1):
        phi = max(0.0, -float((sign * values).min()))
        roots = np.sqrt(np.maximum(sign * values + phi, 0.0))
        columns, lines = np.tril_indices(p)
        rows.append(scipy.sparse.diags(roots[lines] * roots[columns]))
        right.append((phi + limit) * identity)
    x, duals, _ = solve_conic(
        None,
        -to_triangle(scaled),
        scipy.sparse.vstack(rows),
        np.concatenate(right),
        (1, 0, (p, p, p, p)),
        _ACCURACY,
    )
    start, multipliers = leading_subspace(scaled, n_components).vectors, np.zeros((2, p, p))
    if np.isfinite(x).all():  # inaccurate multipliers prove a bound all the same
        start = leading_subspace(from_triangle(x, p), n_components).vectors
        pair = duals[1 + 2 * len(identity) :].reshape(2, -1)
        multipliers = np.array([positive_part(from_triangle(each, p)) for each in pair])
    # Of the program in units of ||S|| and ||D||.
    return axes @ multipliers @ axes.T * (size / spread), axes @ start
