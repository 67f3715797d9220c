"""What a solver is, and how it says which problems it can take."""

from abc import abstractmethod
from typing import Any, Protocol

from fairspan.certificates.solution import Solution
from fairspan.problem.problem import Problem


class Solver(Protocol):
    """A method that solves the problems it accepts, and certifies the solution."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name by which it can be requested."""

    @abstractmethod
    def objection(self, problem: Problem) -> str | None:
        """Why it cannot take this problem; None if it can."""

    @abstractmethod
    def solve(self, problem: Problem, tol: float, random_state: Any = None) -> Solution:
        """Find a subspace whose gap is at most `tol`, a share of the objective.

        `random_state` is a seed, a numpy Generator or RandomState, or None, for solvers with
        random starts.
        """

    def solve_dense(self, problem: Problem, tol: float, random_state: Any = None) -> Solution:
        """The same with matrices of all features, and no smaller subspace inside."""
        return self.solve(problem, tol, random_state)
