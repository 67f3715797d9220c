"""The solver that is taken unless another is asked for."""

from dataclasses import dataclass
from typing import ClassVar

from fairspan.certificates.solution import Solution
from fairspan.problem.problem import Problem
from fairspan.solvers.many_groups.dual_newton import DualNewton
from fairspan.solvers.protocol import Solver
from fairspan.solvers.two_groups.boundary_search import BoundarySearch


@dataclass(frozen=True)
class Auto:
    """The first solver that is exact for the problem.

    For one and two groups the boundary search, and so for linear criteria of any number; otherwise
    Newton's method on the dual.
    """

    name: ClassVar[str] = "auto"

    def objection(self, problem: Problem) -> str | None:
        """None: Newton's method on the dual takes every problem."""
        return None

    def solve(self, problem: Problem, tolerance: float, random_state: object = None) -> Solution:
        """Solve by the boundary search if it can, else by Newton's method on the dual."""
        exact = BoundarySearch()
        able: Solver = exact if exact.objection(problem) is None else DualNewton()
        return able.solve(problem, tolerance, random_state)
