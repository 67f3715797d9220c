"""Solvers by name, and which of them can take a problem."""

from dataclasses import dataclass
from typing import Any, ClassVar, cast

from fairspan.certificates.solution import Solution
from fairspan.errors import Incompatible, InvalidParameter, InvalidType
from fairspan.problem.parameters import kind_of
from fairspan.problem.problem import Problem
from fairspan.solvers.many_groups.dual_newton import DualNewton
from fairspan.solvers.protocol import Solver
from fairspan.solvers.published.multiplicative import MultiplicativeWeights
from fairspan.solvers.published.riemannian import RiemannianSubgradient
from fairspan.solvers.published.semidefinite import Semidefinite
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


# The exact ones first.
SOLVERS: tuple[Any, ...] = (
    BoundarySearch,
    DualNewton,
    MultiplicativeWeights,
    Semidefinite,
    RiemannianSubgradient,
)


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
    by_name = {each.name: each for each in (Auto, *SOLVERS)}
    remedy = f"Choose one of {', '.join(map(repr, by_name))}"
    allowed = "Allowed is the name of a solver, or its object"
    if isinstance(solver, str):
        if solver not in by_name:
            raise InvalidParameter(f"solver is {solver!r}", allowed, remedy)
        made: Solver = by_name[solver]()
        return made
    if isinstance(solver, tuple(by_name.values())):
        return cast(Solver, solver)
    raise InvalidType(f"solver is {kind_of(solver)}", allowed, remedy)


def check_accepted(solver: Solver, problem: Problem) -> None:
    """Raise Incompatible, naming the solvers that work, if this one cannot take the problem.

    Raises
    ------
    Incompatible
    """
    objection = solver.objection(problem)
    if objection is None:
        return
    groups = "one group" if problem.n_groups == 1 else f"{problem.n_groups} groups"
    able = [each.name for each in SOLVERS if each().objection(problem) is None]
    raise Incompatible(
        f"The solver {solver.name!r} was asked for the criterion {problem.criterion.name!r} of "
        f"{groups}, but {objection}",
        f"Solvers that can: {', '.join(map(repr, able)) or 'none'}",
        "Use solver='auto'" if able else "Choose another criterion, or join groups",
    )
