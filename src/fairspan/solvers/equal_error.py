"""Equal errors for more than two groups: a penalty on the error gap, raised until the gap is gone.

From some penalty on, total error plus penalty times the largest gap has the same optimum as total
error subject to no gap, if there is a subspace without one; its bound holds for any penalty.
"""

from dataclasses import replace

import numpy as np

from fairspan.errors import Incompatible
from fairspan.problem.criteria import ErrorGap
from fairspan.problem.pieces import Pieces, pairwise_weights
from fairspan.problem.problem import Problem
from fairspan.solvers.certificate import certified
from fairspan.solvers.piecewise_search import PiecewiseSearch
from fairspan.solvers.solution import Solution

_PENALTIES = (1.0, 4.0, 16.0, 64.0, 256.0)


def solve_equal_error(problem: Problem, tolerance: float, solver: str) -> Solution:
    """Total error subject to the same error for every group.

    Raises
    ------
    Incompatible
        No subspace with equal errors was found; tells the least gap found, and the bound on it.
    """
    n_eigenproblems, start, trace = 0, None, []
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
        if float(np.ptp(problem.errors(start))) <= search.tolerance:
            return certified(
                problem,
                start,
                search.lower,
                search.dual.weights(search.relaxation.best.multipliers),
                tolerance=tolerance,
                n_eigenproblems=n_eigenproblems,
                trace=trace,
                solver=solver,
            )
    raise _no_equality(problem, tolerance)


def _no_equality(problem: Problem, tolerance: float) -> Incompatible:
    rows = pairwise_weights(np.zeros(problem.n_groups), 1.0)
    gap = PiecewiseSearch(problem, Pieces(rows, np.zeros(len(rows))), tolerance)
    gap.run()
    return Incompatible(
        f"The criterion 'equal_error' was asked for, but no subspace of {problem.n_components} "
        f"dimensions with the same error for all {problem.n_groups} groups was found: the least "
        f"gap found is {gap.upper:.6g}, and none is below {max(gap.lower, 0.0):.6g}",
        "Allowed are tables where some subspace has equal errors",
        "Use 'error_gap' with a large penalty, another n_components, or another center",
    )
