"""Equal errors for more than two groups: a penalty on the error gap, raised until the gap is gone.

From some penalty on, total error plus penalty times the largest gap has the same optimum as total
error subject to no gap, if there is a subspace without one; its bound holds for any penalty.
"""

from dataclasses import replace

import numpy as np

from fairspan.certificates.optimality import certified, rounding_at
from fairspan.certificates.solution import Solution
from fairspan.errors import Incompatible
from fairspan.problem.criteria import ErrorGap
from fairspan.problem.pieces import Pieces
from fairspan.problem.problem import Problem
from fairspan.solvers.many_groups.piecewise import PiecewiseSearch
from fairspan.solvers.two_groups.equal_errors import proven_gap
from fairspan.typing import FloatArray

_PENALTIES = (1.0, 4.0, 16.0, 64.0, 256.0)
# Nearly identical groups take a penalty of one over what they differ by.
_LARGE_PENALTIES = tuple(256.0 * 16.0**power for power in range(1, 7))
# A gap that shrinks to more than this share under a larger penalty stays open.
_LESS = 0.99
# To prove that no penalty will do, the bound on the gap need not be the best.
_STEPS = 30


def solve_equal_error(problem: Problem, tol: float, solver: str) -> Solution:
    """Total error subject to the same error for every group.

    Raises
    ------
    Incompatible
        No subspace with equal errors was found; tells the least gap found, and the bound on it.
    """
    # Errors are seldom equal in any subspace, and then that is soon proven.
    gap = PiecewiseSearch(problem, Pieces.total_and_gap(np.zeros(problem.n_groups), 1.0), tol)
    gap.relaxation.run(0.0, 0.0, _STEPS)
    proven = proven_gap(problem, gap.dual.weights(gap.relaxation.multipliers))
    equal = tol * float(problem.proportions @ gap.relaxation.nearest.errors)
    n_eigenproblems, trace = gap.n_eigenproblems, list(gap.trace)
    start: FloatArray | None = None
    weights, apart = problem.proportions, np.inf

    def judged_at(basis: FloatArray) -> Solution:
        return certified(
            problem,
            basis,
            weights,
            tol=tol,
            n_eigenproblems=n_eigenproblems,
            trace=trace,
            solver=solver,
        )

    for penalty in _PENALTIES + _LARGE_PENALTIES:
        if penalty == _LARGE_PENALTIES[0]:
            start = _least_apart(gap)
            if not _is_equal(problem, start, tol):
                break
        if proven > equal:
            break
        penalised = replace(problem, criterion=ErrorGap(penalty), allow_extra=False)
        assert penalised.pieces is not None
        search = PiecewiseSearch(penalised, penalised.pieces, tol)
        # With a large penalty only the search from before is refined: other starts take long.
        search.run(start, thoroughly=penalty < _LARGE_PENALTIES[0])
        n_eigenproblems += search.n_eigenproblems
        trace += search.trace
        assert search.best is not None
        start = search.best.basis
        weights = search.dual.weights(search.relaxation.multipliers)
        if _is_equal(problem, start, tol):
            return judged_at(start)
        before, apart = apart, float(np.ptp(problem.errors(start)))
        if apart > _LESS * before and not _is_equal(problem, _least_apart(gap), tol):
            break  # a larger penalty finds no smaller gap
        # What the penalty multiplies has weights of its own.
        alone = (weights - problem.proportions) / penalty
        proven = max(proven, proven_gap(problem, alone))
    start = _least_apart(gap)
    if proven <= equal and _is_equal(problem, start, tol):
        return judged_at(start)
    raise _no_equality(problem, gap.upper, proven)


def _least_apart(gap: PiecewiseSearch) -> FloatArray:
    """The subspace of least gap between errors, found once."""
    if gap.best is None:
        for start in (gap.relaxation.nearest.basis, gap.problem.pooled_optimum.vectors):
            gap.descend_from(start)
    assert gap.best is not None
    return gap.best.basis


def _is_equal(problem: Problem, basis: FloatArray, tol: float) -> bool:
    """Whether errors differ by no more than the tolerance, or than rounding can tell."""
    errors = problem.errors(basis)
    allowed = tol * float(problem.proportions @ errors)
    return bool(np.ptp(errors) <= max(allowed, 2 * rounding_at(problem, basis)))


def _no_equality(problem: Problem, found: float, proven: float) -> Incompatible:
    return Incompatible(
        f"The criterion 'equal_error' was asked for, but no subspace of {problem.n_components} "
        f"dimensions with the same error for all {problem.n_groups} groups was found: the least "
        f"gap found is {found:.6g}, and none is below {max(proven, 0.0):.6g}",
        "Allowed are tables where some subspace has equal errors",
        "Use 'error_gap' with a large penalty, another n_components, or another center",
    )
