"""The conic route where the conic solver stops early or fails."""

from dataclasses import replace

import numpy as np
import pytest

from fairspan import (
    MinimaxLoss,
    Semidefinite,
)
from fairspan.errors import IncompatibleParameters
from fairspan.solvers.convex_programs import ConicSolution
from fairspan.solvers.published import semidefinite
from problems import build_problem, random_moments, search_boundary

pytestmark = pytest.mark.sweep


def random_problem(seed, k, criterion, allow_extra):
    rng = np.random.default_rng(seed)
    p = int(rng.integers(3, 9))
    matrices = random_moments(rng, k, p)
    shares = list(rng.dirichlet(np.full(k, 4.0)))
    problem = build_problem(matrices, int(rng.integers(1, p)), criterion, shares)
    return replace(problem, allow_extra=allow_extra)


def test_bounds_hold_even_if_the_conic_solver_is_cut_short(monkeypatch):
    problem = random_problem(0, 2, MinimaxLoss(), allow_extra=True)
    optimum = search_boundary(problem).objective
    monkeypatch.setattr(semidefinite, "CONIC_TOL", 0.5)
    solution = Semidefinite().solve(problem, 1e-6)
    assert solution.lower_bound < optimum < solution.objective
    assert solution.status == "open gap"


def test_a_failing_conic_solver_is_reported(monkeypatch):
    def return_nan(quadratic, linear, constraints, rhs, cone_sizes, tol):
        return ConicSolution(
            np.full(len(linear), np.nan), np.full(len(rhs), np.nan), "NumericalError"
        )

    monkeypatch.setattr(semidefinite, "solve_conic", return_nan)
    with pytest.raises(IncompatibleParameters, match="Clarabel ended with status NumericalError"):
        Semidefinite().solve(random_problem(0, 2, MinimaxLoss(), allow_extra=False), 1e-6)
