"""Restrictions with a tolerance: total error, with a limit on what tells two groups apart.

Restrictions without a tolerance are a choice of directions and leave the solvers as they are; see
:mod:`fairspan.problem.restrictions`. These two change what is solved.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fairspan.certificates.optimality import certified, goal
from fairspan.certificates.proof import CovariancesProof, CovarianceTraceProof, MeansProof, Proof
from fairspan.certificates.solution import Solution, TracePoint
from fairspan.errors import Incompatible
from fairspan.linalg import eigvalsh, leading_subspace
from fairspan.moments.operators import DenseSecondMoments
from fairspan.problem.problem import CovariancesWithin, MeansWithin, Problem
from fairspan.problem.restrictions import Restriction
from fairspan.solvers.protocol import Solver
from fairspan.solvers.restrictions.covariance_ascent import ascended, scalar_multiplier
from fairspan.solvers.restrictions.covariances import MOST_FEATURES, best_within, program
from fairspan.solvers.two_groups.root_search import Reached, RootSearch
from fairspan.typing import FloatArray

# A limit of zero is met up to this share of the means' squared distance.
_MET = 1e-15
# A limit that is above zero is met up to this share.
_CLOSE = 1e-10


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
        The one asked for, which must be "auto" or the very one that is needed.

    Raises
    ------
    Incompatible
        Another solver was asked for.
    """
    able = LimitedMeans() if isinstance(problem.limit, MeansWithin) else LimitedCovariances()
    if solver.name not in ("auto", able.name):
        raise Incompatible(
            f"The solver {solver.name!r} was asked for {restriction!r}",
            f"Allowed with this tolerance are 'auto' and {able.name!r}",
            "Use solver='auto', or a restriction without tolerance",
        )
    return able


@dataclass(frozen=True, eq=False)
class LimitedMeans:
    """max tr(V'SV) subject to f'VV'f <= delta^2, f = m_1 - m_2.

    The pair (S, ff') is a two-matrix problem like that of two groups: its optimum lies on the
    boundary of {(tr V'SV, f'VV'f)}, which bases of rank exactly d reach. It is found as the root in
    the multiplier mu of the leading eigenvectors of S - mu ff', so nothing is relaxed; Olfat and
    Aswani (2019) solve a semidefinite program instead.
    """

    name: ClassVar[str] = "boundary"

    def solve(self, problem: Problem, tol: float, random_state: Any = None) -> Solution:
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

        def reached_at(basis: FloatArray) -> Reached:
            errors = problem.errors(basis)
            apart = float(np.sum((limit.difference @ basis) ** 2))
            values = float(problem.proportions @ errors), unit * (apart - limit.tolerance**2)
            return Reached(values, goal(problem, errors, tol))

        search = RootSearch(
            pair,
            problem.n_components,
            np.array([[1.0, 0.0], [0.0, -1.0]]),
            reached_at,
            constrained=True,
            met=_CLOSE * unit * limit.tolerance**2,
        )
        left = search.contact(0.0)
        if left.values[1] <= 0:
            search.basis = left.basis
        else:
            right = search.contact(1.0)
            if right.values[1] > _MET * unit * length:
                least = np.linalg.norm(limit.difference @ right.basis)
                raise Incompatible(
                    f"MeanParity was asked for tolerance={limit.tolerance!r} with n_components="
                    f"{problem.n_components} of {problem.n_features} features",
                    f"Allowed is at least {least:.6g}: no subspace of this dimension brings the "
                    "means closer",
                    "Choose a larger tolerance, or fewer components",
                )
            search.close(left, right)
        t = search.weight
        multiplier = t / (1 - t) * unit if t < 1 else 0.0
        return certified(
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

    Where ordinary PCA meets the limit, it is the optimum. Otherwise a semidefinite program gives
    the bound and a start, and an ascent from it a subspace that meets the limit; of more directions
    than the program takes, a multiplier that is a number does the same. Both are relaxations, so
    the gap may stay open, and the solution then says so.
    """

    name: ClassVar[str] = "semidefinite"

    def solve(self, problem: Problem, tol: float, random_state: Any = None) -> Solution:
        """Find a subspace and a bound; `weights` of the solution are those of its objective.

        Raises
        ------
        Incompatible
            No subspace meets the limit, or there are too many features.
        MissingDependency
            cvxpy is not installed.
        """
        limit, d = problem.limit, problem.n_components
        assert isinstance(limit, CovariancesWithin)
        values = eigvalsh(limit.difference)
        # The eigenvalues of V'DV interlace with those of D, and every such set is reached
        # (Fan and Pall 1957): this is the least norm within reach.
        least = max(float(values[d - 1]), -float(values[len(values) - d]), 0.0)
        rounding = 1e-12 * float(np.abs(values).max())
        if least > limit.tolerance + rounding:
            raise Incompatible(
                f"CovarianceParity was asked for tolerance={limit.tolerance!r} with "
                f"n_components={d} of {len(values)} directions of equal means",
                f"Allowed is at least {least:.6g}: in every subspace of this dimension the groups' "
                "variances differ by that along some direction",
                "Choose a larger tolerance, or fewer components",
            )
        basis, name = problem.pooled_optimum.vectors, self.name
        nothing = np.zeros((2, *limit.difference.shape))
        proof: Proof = CovariancesProof(problem.proportions, nothing)
        within = basis.T @ limit.difference @ basis
        if np.abs(eigvalsh(within)).max() > limit.tolerance + rounding:
            pooled = problem.pooled_matrix
            if len(pooled) > MOST_FEATURES:
                nu = scalar_multiplier(pooled, limit.difference, d, limit.tolerance)
                start = leading_subspace(pooled - nu * limit.difference, d).vectors
                basis = ascended(pooled, limit.difference, limit.tolerance, start)
                proof, name = CovarianceTraceProof(problem.proportions, nu), "augmented_lagrangian"
            else:
                multipliers, start = program(pooled, limit.difference, d, limit.tolerance)
                basis = best_within(pooled, limit.difference, limit.tolerance, start)
                proof = CovariancesProof(problem.proportions, multipliers)
        return certified(
            problem,
            basis,
            proof,
            tol=tol,
            n_eigenproblems=1,
            trace=[TracePoint(1, -np.inf, problem.value(basis))],
            solver=name,
        )
