"""Equal errors for more than two groups: a penalty on the error gap, raised until the gap is gone.

From some penalty on, total error plus penalty times the largest gap has the same optimum as total
error subject to no gap, if there is a subspace without one; its bound holds for any penalty.
"""

from dataclasses import replace

import numpy as np

from fairspan.certificates.optimality import certified
from fairspan.certificates.solution import Solution
from fairspan.errors import Incompatible
from fairspan.problem.criteria import ErrorGap
from fairspan.problem.pieces import Pieces
from fairspan.problem.problem import Problem
from fairspan.solvers.piecewise_search import PiecewiseSearch

_PENALTIES = (1.0, 4.0, 16.0, 64.0, 256.0)
# To prove that no penalty will do, the bound on the gap need not be the best.
_STEPS = 30
_MANY_GROUPS = 20


def solve_equal_error(problem: Problem, tolerance: float, solver: str) -> Solution:
    """Total error subject to the same error for every group.

    Raises
    ------
    Incompatible
        No subspace with equal errors was found; tells the least gap found, and the bound on it.
    """
    n_eigenproblems, start, trace = 0, None, []
    gap = PiecewiseSearch(problem, Pieces.total_and_gap(np.zeros(problem.n_groups), 1.0), tolerance)
    if problem.n_groups > _MANY_GROUPS:
        # Then errors are hardly ever equal, and that is soon proven.
        gap.relaxation.climb(0.0, _STEPS)
        if gap.lower > tolerance * problem.total_variance:
            raise _no_equality(problem, gap)
    for penalty in _PENALTIES:
        penalised = replace(problem, criterion=ErrorGap(penalty), allow_extra=False)
        assert penalised.pieces is not None
        search = PiecewiseSearch(penalised, penalised.pieces, tolerance)
        search.run(start)
        n_eigenproblems += search.n_eigenproblems
        trace += search.trace
        assert search.best is not None
        assert search.relaxation.best is not None
        start = search.best.basis
        solution = certified(
            problem,
            start,
            search.dual.weights(search.relaxation.best.multipliers),
            tolerance=tolerance,
            n_eigenproblems=n_eigenproblems,
            trace=trace,
            solver=solver,
        )
        if solution.violation <= max(solution.tolerance, solution.resolution):
            return solution
        if gap.relaxation.best is None:
            gap.relaxation.climb(search.tolerance, _STEPS)
        if gap.lower > search.tolerance:
            break
    raise _no_equality(problem, gap)


def _no_equality(problem: Problem, gap: PiecewiseSearch) -> Incompatible:
    gap.run()
    return Incompatible(
        f"The criterion 'equal_error' was asked for, but no subspace of {problem.n_components} "
        f"dimensions with the same error for all {problem.n_groups} groups was found: the least "
        f"gap found is {gap.upper:.6g}, and none is below {max(gap.lower, 0.0):.6g}",
        "Allowed are tables where some subspace has equal errors",
        "Use 'error_gap' with a large penalty, another n_components, or another center",
    )
