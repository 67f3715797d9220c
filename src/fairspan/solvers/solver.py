"""Protocol of solvers."""

from abc import abstractmethod
from typing import Protocol

from fairspan.certificates.certificate import Certificate
from fairspan.problem.problem import Problem
from fairspan.typing import RandomSource


class Solver(Protocol):
    """Method that solves the problems it supports and certifies the solution."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Name by which the solver is selected."""

    @abstractmethod
    def unsupported_reason(self, problem: Problem) -> str | None:
        """Reason why the solver does not support a problem; None if it does."""

    @abstractmethod
    def solve(self, problem: Problem, tol: float, random_state: RandomSource = None) -> Certificate:
        """Find a subspace whose gap is at most `tol`, relative to the objective, and certify it.

        If the gap stays larger, the status of the certificate says so. `random_state` is a seed, a
        numpy Generator or RandomState, or None; used by solvers with random starts.
        """
