"""A solution that was found in another unit of the features, in their own."""

from dataclasses import replace
from math import log

from fairspan.certificates.solution import Solution
from fairspan.problem.problem import Problem


def in_unit(solution: Solution, problem: Problem, unit: float) -> Solution:
    """Values in squared units of the features that were divided by `unit`.

    Parameters
    ----------
    solution : Solution
    problem : Problem
        The one that was solved.
    unit : float
        A power of two.
    """
    logarithmic = bool(getattr(problem.criterion, "is_logarithmic", False))

    def value(found: float) -> float:
        return found - 2 * log(unit) if logarithmic else found * unit * unit

    def difference(found: float) -> float:
        return found if logarithmic else found * unit * unit

    return replace(
        solution,
        objective=value(solution.objective),
        lower_bound=value(solution.lower_bound),
        tolerance=difference(solution.tolerance),
        violation=difference(solution.violation),
        resolution=difference(solution.resolution),
        scale=difference(solution.scale),
        trace=tuple(
            replace(step, lower_bound=value(step.lower_bound), upper_bound=value(step.upper_bound))
            for step in solution.trace
        ),
    )
