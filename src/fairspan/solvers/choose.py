"""Solvers by name, and which of them can take a problem."""

from dataclasses import dataclass
from typing import ClassVar, cast

from fairspan.certificates.solution import Solution
from fairspan.errors import Incompatible
from fairspan.problem.problem import Problem
from fairspan.registry import names_of, object_of
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

    def solve(self, problem: Problem, tol: float, random_state: object = None) -> Solution:
        """Solve by the boundary search if it can, else by Newton's method on the dual."""
        exact = BoundarySearch()
        able: Solver = exact if exact.objection(problem) is None else DualNewton()
        return able.solve(problem, tol, random_state)


def solver_of(solver: object) -> Solver:
    """A solver from its name, or the object itself.

    Raises
    ------
    InvalidParameter
        An unknown name.
    InvalidType
        Neither a name nor a solver.

    Examples
    --------
    >>> solver_of("boundary")
    BoundarySearch(eigen='auto')
    """
    return cast(Solver, object_of("solver", solver, Solver))


def check_accepted(solver: Solver, problem: Problem) -> None:
    """Raise Incompatible, naming the solvers that work, if this one cannot take the problem.

    Raises
    ------
    Incompatible
    """
    criterion = problem.criterion
    if not hasattr(criterion, "proving_weights") and problem.pieces is None:
        raise Incompatible(
            f"The criterion {criterion.name!r} has neither pieces nor a formula of its own that "
            "proves a lower bound",
            "Allowed are criteria of which a bound can be proven, such as sums of maxima of "
            "affine functions of the errors",
            "Return Pieces from its method pieces",
        )
    objection = solver.objection(problem)
    if objection is None:
        return
    groups = "one group" if problem.n_groups == 1 else f"{problem.n_groups} groups"
    # The exact ones come first.
    others = [solver_of(name) for name in names_of("solver") if name != "auto"]
    able = [each.name for each in others if each.objection(problem) is None]
    raise Incompatible(
        f"The solver {solver.name!r} was asked for the criterion {problem.criterion.name!r} of "
        f"{groups}, but {objection}",
        f"Solvers that can: {', '.join(map(repr, able)) or 'none'}",
        "Use solver='auto'" if able else "Choose another criterion, or join groups",
    )
