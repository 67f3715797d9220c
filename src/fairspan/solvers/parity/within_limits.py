"""Restrictions with a tolerance: total error, with a limit on the difference of two groups.

Restrictions without a tolerance are a choice of directions and leave the solvers as they are; see
:mod:`fairspan.problem.restrictions`. These two change what is solved.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fairspan.certificates.certificate import Certificate, Solver, TracePoint
from fairspan.certificates.optimality import certify, goal
from fairspan.certificates.proofs import CovariancesProof, CovarianceTraceProof, MeansProof, Proof
from fairspan.errors import Incompatible
from fairspan.linalg import eigvalsh, leading_subspace
from fairspan.moments.operators import DenseSecondMoments
from fairspan.problem.problem import CovariancesWithin, MeansWithin, Problem, is_within
from fairspan.problem.restrictions import Restriction
from fairspan.solvers.parity.covariances import best_within, program, scalar_multiplier
from fairspan.solvers.two_groups.root import RootSearch
from fairspan.typing import FloatArray

# A limit of zero is met up to this share of the means' squared distance.
_MET = 1e-15
# A limit that is above zero is met up to this share.
_CLOSE = 1e-10
# Eigenvalues below this share of the largest are rounding.
_ROUNDING = 1e-12


def tolerant_solver(
    problem: Problem, restriction: Restriction | None, solver: Solver
) -> "LimitedMeans | LimitedCovariances":
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
    of_means = not isinstance(problem.limit, CovariancesWithin)
    by_name = LimitedMeans.name if of_means else "semidefinite"
    if solver.name not in ("auto", by_name):
        raise Incompatible(
            f"The solver {solver.name!r} does not support {restriction!r}",
            f"Allowed with this tolerance: 'auto' and {by_name!r}",
            "Use solver='auto', or a restriction without tolerance",
        )
    if of_means:
        return LimitedMeans()
    return LimitedCovariances(by_name) if solver.name == by_name else LimitedCovariances()


@dataclass(frozen=True, eq=False)
class LimitedMeans:
    """max tr(V'SV) subject to f'VV'f <= delta^2, f = m_1 - m_2.

    The pair (S, ff') is a two-matrix problem like that of two groups: its optimum lies on the
    boundary of {(tr V'SV, f'VV'f)}, which bases of rank exactly d reach. It is found as the root in
    the multiplier mu of the leading eigenvectors of S - mu ff', so nothing is relaxed; Olfat and
    Aswani (2019) solve a semidefinite program instead.
    """

    name: ClassVar[str] = "boundary"

    def solve(self, problem: Problem, tol: float, random_state: Any = None) -> Certificate:
        """Find the optimum; `weights` of the solution are those of its objective.

        Raises
        ------
        Incompatible
            The projected means differ by more in every subspace.
        """
        limit = problem.limit
        assert isinstance(limit, MeansWithin)
        length = float(limit.difference @ limit.difference)
        total = problem.total_variance
        # In units of the total variance both functions are of one size, whatever the means.
        unit = total / length if length > 0 and total > 0 else 1.0
        outer = np.outer(limit.difference, limit.difference)
        pair = DenseSecondMoments(np.array([problem.pooled_matrix, unit * outer]))

        def values_at(basis: FloatArray) -> tuple[float, float]:
            apart = float(np.sum((limit.difference @ basis) ** 2))
            error = float(problem.proportions @ problem.errors(basis))
            return error, unit * (apart - limit.tolerance**2)

        def goal_at(basis: FloatArray) -> float:
            return goal(problem, problem.errors(basis), tol)

        search = RootSearch(
            pair,
            problem.n_components,
            np.array([[1.0, 0.0], [0.0, -1.0]]),
            values_at,
            goal_at,
            constrained=True,
            met=_CLOSE * unit * limit.tolerance**2,
        )
        left = search.contact(0.0)
        if left.last <= 0:
            search.take(left.basis, left.first)
        else:
            right = search.contact(1.0)
            if right.last > _MET * unit * length:
                least = np.linalg.norm(limit.difference @ right.basis)
                raise Incompatible(
                    f"MeanParity received tolerance={limit.tolerance!r} with n_components="
                    f"{problem.n_components} of {problem.n_features} features",
                    f"Allowed: at least {least:.6g}: no subspace of this dimension brings the "
                    "means closer",
                    "Choose a larger tolerance, or fewer components",
                )
            search.close(left, right)
        t = search.weight
        assert search.basis is not None
        multiplier = t / (1 - t) * unit if t < 1 else 0.0
        return certify(
            problem,
            search.basis,
            MeansProof(problem.proportions, multiplier),
            tol=tol,
            n_eigenproblems=search.n_eigenproblems,
            trace=search.trace,
            solver=self.name,
        )


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
        limit, pooled, q = _reachable_limit(problem), problem.pooled_matrix, problem.proportions
        basis, by_program = problem.pooled_optimum.vectors, self.name == "semidefinite"
        proof: Proof = CovarianceTraceProof(q, 0.0)
        if by_program:
            proof = CovariancesProof(q, np.zeros((2, *pooled.shape)))
        if not is_within(limit, basis):
            d, apart, most = problem.n_components, limit.difference, limit.tolerance
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


def _reachable_limit(problem: Problem) -> CovariancesWithin:
    """The limit, which some subspace meets."""
    limit, d = problem.limit, problem.n_components
    assert isinstance(limit, CovariancesWithin)
    values = eigvalsh(limit.difference)
    rounding = _ROUNDING * float(np.abs(values).max())
    # The eigenvalues of V'DV interlace with those of D, and every such set is reached
    # (Fan and Pall 1957): these are the least norms within reach, of each dimension.
    least = np.maximum(np.maximum(values, -values[::-1]), 0.0)
    if least[d - 1] > limit.tolerance + rounding:
        n_most = int(np.count_nonzero(least <= limit.tolerance + rounding))
        n_above, n_below = (int(np.count_nonzero(sign * values > rounding)) for sign in (1, -1))
        raise Incompatible(
            f"CovarianceParity received tolerance={limit.tolerance!r} with "
            f"n_components={d} of {len(values)} directions of equal means",
            f"Allowed: at least {least[d - 1]:.6g}, or up to {n_most} components: the difference "
            f"of the covariances has {n_above} positive and {n_below} negative eigenvalues, and "
            "only one of each cancels another",
            "Choose a larger tolerance, or fewer components",
        )
    return limit
