"""Automatic choice of the solver, and of a search subspace for problems of many features."""

from dataclasses import dataclass
from functools import cache
from typing import ClassVar, cast

import numpy as np

from fairspan.certificates import eigensolver
from fairspan.certificates.certificate import Certificate
from fairspan.problem.criteria.criterion import ConcaveScoresCriterion
from fairspan.problem.problem import Problem
from fairspan.registry import resolve_object
from fairspan.solvers.solver import Solver
from fairspan.solvers.solver_catalog import get_solver, solver_class
from fairspan.solvers.support import check_supported, not_supported, run_solver
from fairspan.typing import RandomSource

# Exact solvers, which work within a search subspace where that is faster.
_EXACT_SOLVERS = ("boundary", "dual_newton")
# Run time within a search subspace relative to LAPACK, single-threaded: 0.45 to 0.95 at p = 500,
# d = 5 to 20; 0.4 to 1 at d = p / 14, 0.65 to 1.3 at p / 10 and 0.8 to 1.7 at p / 8 (p = 500 and
# 1000); for face images with p = 1764, 0.45 at d = 100 and 0.85 at d = 200.
_MAX_COMPONENT_RATIO = 1 / 8
# (tr M)^2 / |M|_F^2 is the effective rank. For noise it is p / 3 or more, and the search takes 1.2
# to 3.9 times as long as LAPACK; for spectra like 1 / i or exp(-40 i / p) it is at most p / 18.
_MAX_EFFECTIVE_RANK_RATIO = 1 / 8
# The search subspace starts with the leading eigenvectors of every group. Run time relative to
# LAPACK, by their share of the features (p = 768): 0.55 to 1 at 0.07 to 0.19, 0.85 at 0.28, 1.3 at
# 0.38 and 0.54, 3 at 0.75.
_MAX_INITIAL_RATIO = 1 / 3
# Below this relative tolerance no search subspace is used: its bounds would not be tight enough.
_MIN_SUBSPACE_TOL = 1e-12


@dataclass(frozen=True)
class Auto:
    """Choice of a solver by the problem: the first exact one that supports it.

    The boundary search for one and two groups and for linear criteria; otherwise Newton's method on
    the dual.
    """

    name: ClassVar[str] = "auto"

    def choose(self, problem: Problem) -> Solver:
        """Choose the solver of a problem.

        Raises
        ------
        IncompatibleParameters
            No exact solver supports the problem.
        """
        reasons = []
        for solver in _exact_solvers():
            reason = solver.unsupported_reason(problem)
            if reason is None:
                return solver
            reasons.append(reason)
        # The last solver is the most general one, so its reason says most.
        raise not_supported(self.name, problem, reasons[-1])


AUTO = Auto()
"""The choice that "auto" stands for."""


def resolve_solver(solver: object, **parameters: object) -> Solver | Auto:
    """Return the choice "auto", a solver by name, with parameters, or the given solver.

    `parameters` are those of a solver that is given by name; "auto" has none.

    Raises
    ------
    InvalidParameter, InvalidType
        As for :func:`~fairspan.solvers.solver_catalog.get_solver`.

    Examples
    --------
    >>> resolve_solver("auto"), resolve_solver("boundary")
    (Auto(), BoundarySearch())
    """
    if isinstance(solver, Auto):
        return solver
    return cast(Solver | Auto, resolve_object("solver", solver, Solver, solver_class, parameters))


def choose_solver(requested: Solver | Auto, problem: Problem) -> Solver:
    """Return the requested solver, or the choice of "auto", after checks that it is supported.

    Raises
    ------
    IncompatibleParameters
        The solver does not support the problem, or no bound can be proven for its criterion.
    """
    if not isinstance(requested, Auto):
        check_supported(requested, problem)
        return requested
    problem.criterion.check_problem(problem)
    return requested.choose(problem)


def solve_exactly(problem: Problem, tol: float) -> Certificate:
    """Solve with the exact solver that "auto" chooses."""
    return solve_problem(problem, AUTO.choose(problem), tol)


def solve_problem(
    problem: Problem, solver: Solver, tol: float, random_state: RandomSource = None
) -> Certificate:
    """Solve with a given solver, within a growing search subspace where that is faster.

    The search subspace is spanned by few directions, within which second moment matrices are small.
    It is expanded until it contains the eigenvectors that the lower bound rests on. For sparse rows
    of many features it is the only way: they have no second moment matrices, only products with
    vectors.
    """
    if problem.second_moments.has_matrices:
        # The bounds of exact solvers rest on few eigenvectors. A limit (the constraint of a
        # restriction with a tolerance) is stated in all features and would not be projected.
        supports_subspace = problem.limit is None and solver.name in _EXACT_SOLVERS
        if not (supports_subspace and _subspace_is_faster(problem, tol)):
            return run_solver(solver, problem, tol, random_state)
    # Imported lazily: most problems have few features.
    from fairspan.solvers.growing_subspace import solve_growing

    return solve_growing(problem, solver, tol, random_state)


def _subspace_is_faster(problem: Problem, tol: float) -> bool:
    """Whether a search subspace is faster and can prove the requested tolerance.

    It is for many features, few components of few groups, and a spectrum that decays: the effective
    rank of the pooled second moment M, tr(M)^2 / |M|_F^2, is a small part of the number of
    features.
    """
    p = problem.n_features
    q = problem.proportions
    if p < eigensolver.SMALL_SUBSPACES_FROM or problem.n_components > _MAX_COMPONENT_RATIO * p:
        return False
    if tol < _MIN_SUBSPACE_TOL:
        return False
    # Concave scores are those of the robust error gap. With more than two groups, its solution is
    # not spanned by leading eigenvectors.
    if isinstance(problem.criterion, ConcaveScoresCriterion) and problem.n_groups > 2:
        return False
    second_moments = problem.dense_moments
    n_initial = problem.n_groups * second_moments.n_ritz(problem.n_components)
    if n_initial > _MAX_INITIAL_RATIO * p:
        return False
    # tr M. The traces include variance outside the allowed directions, which M does not.
    variance = float(q @ (second_moments.traces - second_moments.excluded_variances))
    frobenius_norm = float(np.linalg.norm(second_moments.mixture(q)))
    return variance**2 <= _MAX_EFFECTIVE_RANK_RATIO * p * frobenius_norm**2


@cache
def _exact_solvers() -> tuple[Solver, ...]:
    """Instances of the exact solvers: boundary search, Newton's method on the dual."""
    return tuple(map(get_solver, _EXACT_SOLVERS))
