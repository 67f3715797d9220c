"""How a reader verifies the certificate: in words, and as a program of a few lines.

The program needs numpy and GroupMoments alone: no solver of ours is trusted.
"""

import math
from typing import Any

from fairspan.fitting import Fit
from fairspan.problem.criteria import EqualError
from fairspan.report.facts.answers import Answer
from fairspan.report.facts.made import Origin
from fairspan.report.facts.programs import FORMULAS, Formula, program

# Numbers that a program may hold: the components of moderate tables.
_MOST_NUMBERS = 2500


def verification_facts(answer: Answer, origin: Origin) -> dict[str, Any]:
    """The formula in words, and a program that sets `objective` and `lower_bound`.

    Parameters
    ----------
    answer : Answer
        Whose certificate is verified.
    origin : Origin

    Returns
    -------
    dict
        `snippet` does not set what is told to be out of its reach: the bound of the robust error
        gap, and the objective where the components are too many numbers to be written down.
    """
    fit = answer.fit
    formula = FORMULAS[fit.problem.criterion.name]
    from_mixture = _mixture_tells(fit)
    n_numbers = fit.subspace.components.size
    has_objective = from_mixture or n_numbers <= _MOST_NUMBERS
    return {
        "model": answer.name,
        "words": _words(fit, formula, has_objective=has_objective),
        "snippet": program(
            fit,
            formula,
            origin.moments,
            components=None if from_mixture or not has_objective else fit.subspace.components,
            has_objective=has_objective,
        ),
        "objective": fit.solution.objective,
        "lower_bound": fit.solution.lower_bound,
        "tolerance": fit.solution.tolerance,
    }


def _mixture_tells(fit: Fit) -> bool:
    """Whether the leading eigenvectors of the mixture have the objective: then they are enough."""
    solution, problem = fit.solution, fit.problem
    leading = problem.second_moments.leading(solution.weights, problem.n_components).vectors
    value = problem.criterion.value(problem.errors(leading), problem)
    close = abs(value - solution.objective) <= max(solution.tolerance, 1e-9 * problem.unit)
    return bool(close) and solution.violation <= solution.tolerance


def _words(fit: Fit, formula: Formula, *, has_objective: bool) -> list[str]:
    d, solution = fit.problem.n_components, fit.solution
    top = "its largest eigenvalue" if d == 1 else f"the sum of its {d} largest eigenvalues"
    bound = "no bound is known"
    if math.isfinite(solution.lower_bound):
        among = " with equal errors" if fit.problem.criterion.name == EqualError.name else ""
        bound = f"no subspace of as many dimensions{among} is below {solution.lower_bound:.6g}"
    words = [
        f"The objective is {formula.objective_in_words} Here it is {solution.objective:.6g}, and "
        f"{bound}.",
        formula.bound_in_words.format(top=top),
    ]
    if not formula.has_bound:
        words.append("The program below recomputes the objective; fitting again renews the bound.")
    if not has_objective:
        words.append(
            "The components are too many numbers to be written down here, so the program below "
            "recomputes the bound; a saved model has the components."
        )
    return words
