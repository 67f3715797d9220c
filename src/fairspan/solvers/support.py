"""Run a solver, after a check that it supports the problem; name the solvers that do."""

from fairspan.certificates.certificate import Certificate
from fairspan.certificates.supported_claims import check_claims_supported
from fairspan.errors import IncompatibleParameters, InvalidInput, InvalidType, describe_type
from fairspan.problem.problem import Problem
from fairspan.registry import builtin_names
from fairspan.solvers.solver import Solver
from fairspan.solvers.solver_catalog import get_solver
from fairspan.typing import RandomSource


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


def run_solver(
    solver: Solver, problem: Problem, tol: float, random_state: RandomSource = None
) -> Certificate:
    """Solve a problem that has matrices, and check what a solver of another package claims.

    Built-in solvers return what :func:`~fairspan.certificates.evaluate_solution.certify` computes,
    which needs no check. Other solvers need not do so, and could claim what nothing proves.

    Raises
    ------
    InvalidType, InvalidInput
        A solver of another package returned no certificate, or one that it does not prove.
    """
    certificate = solver.solve(problem, tol, random_state)
    if type(solver).__module__.partition(".")[0] == "fairspan":
        return certificate
    if not isinstance(certificate, Certificate):
        raise InvalidType(
            f"The solver {solver.name!r} returned {describe_type(certificate)}",
            "Allowed: a fairspan.Certificate",
            "In `solve`, return the result of fairspan.extending.certify",
        )
    try:
        check_claims_supported(certificate, problem, tol)
    except InvalidInput as error:
        raise error.located(
            f"The solver {solver.name!r} returned a certificate that its proof does not support"
        ) from error
    return certificate


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
