"""What a solver is, and how it says which problems it can take."""

from typing import Protocol

from fairspan.problem.problem import Problem
from fairspan.solvers.solution import Solution


class Solver(Protocol):
    """Solves the problems it accepts and certifies what it found."""

    @property
    def name(self) -> str:
        """The name by which it can be asked for."""

    def check(self, problem: Problem) -> None:
        """Raise Incompatible, naming what works, if the problem is not for this solver."""

    def solve(self, problem: Problem, tolerance: float) -> Solution:
        """Find a subspace whose gap is at most `tolerance`, in squared units of the features."""
