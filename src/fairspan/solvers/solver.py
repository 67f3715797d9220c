"""Look up solvers, and check that they support a problem."""

from typing import Any, cast

from fairspan.certificates.certificate import Solver
from fairspan.errors import IncompatibleParameters
from fairspan.problem.problem import Problem
from fairspan.problem.reduction import ProblemFamily, Reduction
from fairspan.registry import builtin_names, resolve_object


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
    return cast(Solver, resolve_object("solver", solver, Solver, parameters))


def check_supported(solver: Solver, problem: Problem) -> None:
    """Raise IncompatibleParameters if a solver does not support a problem, naming those that do.

    Raises
    ------
    IncompatibleParameters
    """
    problem.criterion.check_problem(problem)
    reason = solver.unsupported_reason(problem)
    if reason is None:
        return
    groups = "one group" if problem.n_groups == 1 else f"{problem.n_groups} groups"
    # The exact solvers come first.
    others = [get_solver(name) for name in builtin_names("solver") if name != "auto"]
    supported = [other.name for other in others if other.unsupported_reason(problem) is None]
    raise IncompatibleParameters(
        f"The solver {solver.name!r} does not support the criterion {problem.criterion.name!r} "
        f"with {groups}: {reason}",
        f"Solvers that support it: {', '.join(map(repr, supported)) or 'none'}",
        "Use solver='auto'" if supported else "Choose another criterion, or merge groups",
    )


def select_solver(family: ProblemFamily, reduction: Reduction, solver: Solver) -> Any:
    """Solver for a reduced problem: the requested one, or the one that its limit needs.

    Raises
    ------
    IncompatibleParameters
        The requested solver does not support the problem.
    """
    if reduction.problem.limit is not None:
        # Imported lazily: this loads half of the solvers.
        from fairspan.solvers.covariance_limit import solver_for_limit

        return solver_for_limit(reduction.problem, family.restriction, solver)
    check_supported(solver, reduction.problem)
    return solver
