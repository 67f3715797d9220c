"""Check that a solver supports a problem, and name those that do."""

from fairspan.errors import IncompatibleParameters
from fairspan.problem.problem import Problem
from fairspan.registry import builtin_names
from fairspan.solvers.solver import Solver
from fairspan.solvers.solver_catalog import get_solver


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
