"""Solvers: their protocol, how they are looked up, and a check that they support a problem."""

from abc import abstractmethod
from typing import Any, Protocol, cast

from fairspan.certificates.certificate import Certificate
from fairspan.errors import IncompatibleParameters
from fairspan.problem.problem import Problem
from fairspan.registry import SOLVERS, builtin_names, resolve_object
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


def get_solver(solver: object, **parameters: Any) -> Solver:
    """Get a solver by name, with parameters, or return the given object.

    Raises
    ------
    InvalidParameter
        An unknown name or parameter, or a parameter out of range.
    InvalidType
        Neither a name nor a solver.

    Examples
    --------
    >>> get_solver("boundary")
    BoundarySearch()
    """
    return cast(Solver, resolve_object("solver", solver, Solver, SOLVERS, parameters))


def check_supported(solver: Solver, problem: Problem) -> None:
    """Raise IncompatibleParameters if a solver does not support a problem, naming those that do.

    Raises
    ------
    IncompatibleParameters
    """
    # Raises if no solver can support the criterion for this problem.
    problem.criterion.check_problem(problem)
    reason = solver.unsupported_reason(problem)
    if reason is not None:
        raise not_supported(solver.name, problem, reason)


def not_supported(name: str, problem: Problem, reason: str) -> IncompatibleParameters:
    """Error for a solver, of this name, that does not support a problem for a reason."""
    groups = "one group" if problem.n_groups == 1 else f"{problem.n_groups} groups"
    # The exact solvers come first.
    others = [get_solver(other) for other in builtin_names("solver") if other != "auto"]
    supported = [other.name for other in others if other.unsupported_reason(problem) is None]
    return IncompatibleParameters(
        f"The solver {name!r} does not support the criterion {problem.criterion.name!r} "
        f"with {groups}: {reason}",
        f"Solvers that support it: {', '.join(map(repr, supported)) or 'none'}",
        "Use solver='auto'" if supported else "Choose another criterion, or merge groups",
    )
