"""Solver for a limit on the difference of two covariances: a bound, and a feasible subspace.

Maximize tr(V'SV) over V with d orthonormal columns subject to ||V'DV|| <= tau, in the spectral
norm. S is the second moment of all rows, and D = C_1 - C_2 the difference of the covariances of two
groups. The bound is that of
:mod:`fairspan.solvers.covariance_bounds`, the subspace that of
:mod:`fairspan.solvers.covariance_ascent`.
"""

from dataclasses import dataclass

import numpy as np

from fairspan.certificates.certificate import Certificate
from fairspan.certificates.certificate_parts import TracePoint
from fairspan.certificates.evaluate_solution import certify
from fairspan.certificates.proofs import CovarianceDifferenceProof, CovarianceTraceProof, Proof
from fairspan.errors import IncompatibleParameters
from fairspan.formatting.messages import counted
from fairspan.linalg import leading_subspace
from fairspan.linalg.rounding import ZERO_EIGENVALUE
from fairspan.problem.limits import CovarianceDifferenceLimit, MeanDistanceLimit, is_feasible
from fairspan.problem.problem import Problem
from fairspan.problem.restrictions.restriction import Restriction
from fairspan.solvers.auto import Auto
from fairspan.solvers.covariance_ascent import best_feasible_subspace
from fairspan.solvers.covariance_bounds import scalar_dual_multiplier, solve_semidefinite_relaxation
from fairspan.solvers.solver import Solver
from fairspan.solvers.two_groups.boundary_search import BoundarySearch
from fairspan.typing import FloatArray, RandomSource


def solver_for_limit(
    problem: Problem, restriction: Restriction | None, solver: Solver | Auto
) -> Solver:
    """Solver for a restriction with a tolerance, which is not linear in the components.

    A limit on the distance of the projected means needs the boundary search, a limit on the
    difference of the projected covariances the solver of this module.

    Parameters
    ----------
    problem : Problem
        With the limit set by the restriction.
    restriction : Restriction or None
    solver : Solver or Auto
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
        # Its default bound has a scalar multiplier, so it works for any number of features. The
        # bound of a semidefinite program, selected by its name below, is tighter, but takes too
        # long for many features.
        return CovarianceLimitSolver()
    return CovarianceLimitSolver(solver_name)


@dataclass(frozen=True, eq=False)
class CovarianceLimitSolver(Solver):
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

    def unsupported_reason(self, problem: Problem) -> str | None:
        """Reason why the solver does not support a problem; None if it does."""
        if isinstance(problem.limit, CovarianceDifferenceLimit):
            return None
        return "it requires a limit on the difference of two covariances"

    def solve(self, problem: Problem, tol: float, random_state: RandomSource = None) -> Certificate:
        """Find a feasible subspace and a bound, and return their certificate.

        The limit is ||V'DV|| <= tau for a basis V, in the spectral norm, with D the difference of
        the covariances of two groups and tau the tolerance of the restriction. If ordinary PCA
        respects it, it is optimal. The group weights in the certificate are
        those of the total error. `tol` only decides which gap counts as optimal; `random_state` is
        ignored, since random starts use a fixed seed.

        Raises
        ------
        IncompatibleParameters
            No subspace is feasible, or there are too many features for the semidefinite program.
        """
        limit = problem.limit
        assert isinstance(limit, CovarianceDifferenceLimit)
        basis = problem.pooled_optimum.vectors
        if is_feasible(limit, basis):
            proof = self._proof_of_pca(problem)
        else:
            _check_feasible(limit.difference, problem.n_components, limit.tolerance)
            # The proof of a lower bound on the total error, and a basis from which to ascend.
            proof, start = self._solve_bound(problem, limit)
            pooled = problem.dense_moments.mixture(problem.proportions)
            basis = best_feasible_subspace(
                pooled, limit.difference, limit.tolerance, [basis, start]
            )
        # The trace has no lower bound: it is computed from the proof by `certify`.
        return certify(
            problem,
            basis,
            proof,
            tol=tol,
            n_eigenproblems=1,
            trace=[TracePoint(1, -np.inf, problem.objective(basis))],
            solver=self.name,
        )

    def _proof_of_pca(self, problem: Problem) -> Proof:
        """Return the proof if ordinary PCA respects the limit: all multipliers are zero."""
        q = problem.proportions
        if self.name == "semidefinite":
            p = problem.n_features
            return CovarianceDifferenceProof(q, np.zeros((2, p, p)))
        return CovarianceTraceProof(q, 0.0)

    def _solve_bound(
        self, problem: Problem, limit: CovarianceDifferenceLimit
    ) -> tuple[Proof, FloatArray]:
        """Return the proof of an upper bound, and a (p, d) start for the local ascent.

        The bound is on tr(V'SV) subject to ||V'DV|| <= tau, with S the pooled second moment; D and
        tau are the difference and the tolerance of the limit, d the number of components. Both
        proofs consist of the groups' proportions and dual multipliers of the limit: matrices from a
        semidefinite program, or the number nu in t_d(S - nu D) + |nu| d tau, which is cheaper, with
        t_d the sum of the d largest eigenvalues. The start spans leading eigenvectors of the
        relaxed solution or of S - nu D.
        """
        d = problem.n_components
        q = problem.proportions
        pooled = problem.dense_moments.mixture(q)
        if self.name == "semidefinite":
            multipliers, start = solve_semidefinite_relaxation(
                pooled, limit.difference, d, limit.tolerance
            )
            return CovarianceDifferenceProof(q, multipliers), start
        nu = scalar_dual_multiplier(pooled, limit.difference, d, limit.tolerance)
        start = leading_subspace(pooled - nu * limit.difference, d).vectors
        return CovarianceTraceProof(q, nu), start


def _check_feasible(difference: FloatArray, n_components: int, tolerance: float) -> None:
    """Check that some subspace of d dimensions respects the limit ||V'DV|| <= tolerance.

    Raises
    ------
    IncompatibleParameters
        None does; the message names the smallest tolerance and the largest d that are feasible.
    """
    values = np.linalg.eigvalsh(difference)
    rounding = ZERO_EIGENVALUE * float(np.abs(values).max())
    # The eigenvalues of V'DV interlace with those of D, and all interlacing values are attained
    # (Fan and Pall 1957). So entry d - 1 is the smallest norm that a V of d columns can achieve:
    # eigenvalue d from below may be too large, or eigenvalue d from above too small.
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
