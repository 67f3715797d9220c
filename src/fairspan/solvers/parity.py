"""Restrictions with a tolerance: total error, with a limit on what tells two groups apart.

Restrictions without a tolerance are a choice of directions and leave the solvers as they are; see
:mod:`fairspan.problem.restrictions`. These two change what is solved.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from fairspan.errors import Incompatible
from fairspan.moments.operators import DenseSecondMoments
from fairspan.problem.problem import Problem
from fairspan.problem.restrictions import MeanParity, Restriction
from fairspan.solvers.certificate import certified, resolution
from fairspan.solvers.covariance_program import best_within, upper_bound
from fairspan.solvers.protocol import Solver
from fairspan.solvers.questions import Reach
from fairspan.solvers.segment import SegmentSearch
from fairspan.solvers.solution import Solution, TracePoint

FloatArray = npt.NDArray[np.float64]


def tolerant_solver(
    restriction: Restriction, solver: Solver, means: FloatArray, covariances: FloatArray
) -> "LimitedMeans | LimitedCovariances | None":
    """What solves a restriction with a tolerance; None for one without.

    Parameters
    ----------
    restriction : Restriction
    solver : Solver
        The one asked for, which must be "auto" or the very one that is needed.
    means : (k, p) array
        In the coordinates of the problem.
    covariances : (k, p, p) array

    Raises
    ------
    Incompatible
        Another solver was asked for.
    """
    if restriction.is_exact:
        return None
    assert restriction.tolerance is not None, "a restriction without tolerance is exact"
    # Of a single group, both differences are zero and nothing is hidden.
    able: LimitedMeans | LimitedCovariances = (
        LimitedMeans(means[0] - means[-1], restriction.tolerance)
        if isinstance(restriction, MeanParity)
        else LimitedCovariances(covariances[0] - covariances[-1], restriction.tolerance)
    )
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

    Attributes
    ----------
    difference : (p,) array
        f.
    limit : float
        delta.
    """

    difference: FloatArray
    limit: float
    name: ClassVar[str] = "boundary"

    def solve(self, problem: Problem, tolerance: float, random_state: Any = None) -> Solution:
        """Find the optimum; `weights` of the solution are those of its objective.

        Raises
        ------
        Incompatible
            The projected means differ by more in every subspace.
        """
        length = float(self.difference @ self.difference)
        total = problem.total_variance
        # In units of the total variance both coordinates are of one size, whatever the means.
        unit = total / length if length > 0 else 1.0
        pooled = np.tensordot(problem.proportions, _dense(problem), axes=1)
        pair = DenseSecondMoments(
            np.array([pooled, unit * np.outer(self.difference, self.difference)])
        )
        question = Reach(
            np.array([1.0, 0.0]),
            float(pair.traces[0]),
            np.array([0.0, -1.0]),
            -unit * self.limit**2,
            exactly=False,
        )
        search = SegmentSearch(
            pair,
            problem.n_components,
            question,
            tolerance,
            share=tolerance / total if total > 0 else 0.0,
            resolution=resolution(problem),
        )
        search.close_on_target()
        if search.best.violation > search.resolution:
            least = np.sqrt(self.limit**2 + search.best.violation / unit)
            raise Incompatible(
                f"MeanParity was asked for tolerance={self.limit!r} with n_components="
                f"{problem.n_components} of {problem.n_features} features",
                f"Allowed is at least {least:.6g}: no subspace of this dimension brings the means "
                "closer",
                "Choose a larger tolerance, or fewer components",
            )
        return certified(
            problem,
            search.basis,
            search.lower,
            problem.proportions,
            tolerance=tolerance,
            n_eigenproblems=search.n_eigenproblems,
            trace=search.trace,
            solver=self.name,
        )


@dataclass(frozen=True, eq=False)
class LimitedCovariances:
    """max tr(V'SV) subject to ||V'DV|| <= tau, D = C_1 - C_2, in directions of equal means.

    Where ordinary PCA meets the limit, it is the optimum. Otherwise a semidefinite program gives
    the bound and a start, and an ascent from it a subspace that meets the limit. The program is a
    relaxation, so the gap may stay open, and the solution then says so.

    Attributes
    ----------
    difference : (p, p) array
        D, in the coordinates of the problem.
    limit : float
        tau.
    """

    difference: FloatArray
    limit: float
    name: ClassVar[str] = "semidefinite"

    def solve(self, problem: Problem, tolerance: float, random_state: Any = None) -> Solution:
        """Find a subspace and a bound; `weights` of the solution are those of its objective.

        Raises
        ------
        Incompatible
            No subspace meets the limit, or there are too many features.
        MissingDependency
            cvxpy is not installed.
        """
        d = problem.n_components
        values = np.linalg.eigvalsh(self.difference)
        # The eigenvalues of V'DV interlace with those of D, and every such set is reached
        # (Fan and Pall 1957): this is the least norm within reach.
        least = max(float(values[d - 1]), -float(values[len(values) - d]), 0.0)
        rounding = 1e-12 * float(np.abs(values).max())
        if least > self.limit + rounding:
            raise Incompatible(
                f"CovarianceParity was asked for tolerance={self.limit!r} with n_components={d} "
                f"of {len(values)} directions of equal means",
                f"Allowed is at least {least:.6g}: in every subspace of this dimension the groups' "
                "variances differ by that along some direction",
                "Choose a larger tolerance, or fewer components",
            )
        pooled = np.tensordot(problem.proportions, _dense(problem), axes=1)
        pca = problem.pooled_optimum.vectors
        lower, basis = problem.total_variance - problem.pooled_optimum.top_eigenvalue_sum, pca
        if np.abs(np.linalg.eigvalsh(pca.T @ self.difference @ pca)).max() > self.limit + rounding:
            most, start = upper_bound(pooled, self.difference, d, self.limit)
            lower = max(lower, problem.total_variance - most)
            basis = best_within(pooled, self.difference, self.limit, start)
        return certified(
            problem,
            basis,
            lower,
            problem.proportions,
            tolerance=tolerance,
            n_eigenproblems=1,
            trace=[TracePoint(1, lower, problem.value(basis))],
            solver=self.name,
        )


def _dense(problem: Problem) -> FloatArray:
    """S_1 .. S_k as one (k, p, p) array."""
    return problem.second_moments.compressed(np.eye(problem.n_features))
