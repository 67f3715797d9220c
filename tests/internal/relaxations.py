"""Solve relaxed problems alone, without a search for a subspace of exactly d dimensions."""

from fairspan.extending import Problem
from fairspan.solvers.many_groups.relaxation import Relaxation


def solve_relaxation(problem: Problem, share: float = 1e-9) -> Relaxation:
    """Solve the relaxed problem to a gap of a share of the variance."""
    relaxation = Relaxation(problem, problem.pieces)
    relaxation.solve(share * problem.total_variance)
    assert relaxation.gap <= share * problem.total_variance
    return relaxation
