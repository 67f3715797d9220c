"""How a reader verifies the certificate: by a command, in words, and as a program of a few lines.

The program needs numpy and GroupMoments alone: no solver of ours is trusted.
"""

import math
from typing import Any

import numpy as np

from fairspan.estimator.fitting import Fit
from fairspan.problem.verification_formulas import Formula
from fairspan.report.facts.answers import Answer
from fairspan.report.facts.origin import Origin
from fairspan.report.facts.programs import (
    formula_of,
    has_bound,
    program,
    proving_weights,
)

# Numbers that a program may hold: the components of moderate tables.
_MOST_NUMBERS = 2500
# What works everything out anew from a saved model, or from a fitted one.
_CALLS = ("fairspan verify MODEL DATA", "fairspan.verify(model, moments)")
_OF_CALLS = (
    "For a model that was saved, the command works out objective and bound anew from the rows, "
    "with its exit status 0 if the certificate holds; DATA are rows, read with the options that "
    "they were fitted with, or a file of moments. The call does the same in Python, and takes rows "
    "as well: fairspan.verify(model, X, sensitive_features). Neither uses a solver. The program "
    "below trusts nothing but numpy with the formulas."
)
# Plain formulas resolve less than what the certificate leaves room for.
_ROUNDING, _SHARE = 4 * float(np.finfo(np.float64).eps), 1e-9


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
        gap of three groups and more, and the objective where the components are too many numbers to
        be written down. `tolerance` is how close both are to the certificate's.
    """
    fit = answer.fit
    formula = formula_of(fit)
    from_mixture = _mixture_tells(fit)
    n_numbers = fit.subspace.components.size
    has_objective = from_mixture or n_numbers <= _MOST_NUMBERS
    return {
        "model": answer.name,
        "calls": list(_CALLS),
        "of_calls": _OF_CALLS,
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
        "tolerance": _tolerance(fit),
    }


def _tolerance(fit: Fit) -> float:
    """What rounding does to the certificate and to plain formulas, and a share of the objective."""
    solution, problem = fit.solution, fit.problem
    traces, p = problem.second_moments.traces, problem.second_moments.n_features
    if getattr(problem.criterion, "is_logarithmic", False):
        plain = _ROUNDING * p * float(1 + np.mean(traces / (traces - fit.errors)))
    else:
        weights = np.abs(proving_weights(fit))
        total = float(weights.sum())
        plain = _ROUNDING * p * float(weights @ traces) / min(total, 1.0)
    return solution.resolution + plain + _SHARE * abs(solution.scale)


def _mixture_tells(fit: Fit) -> bool:
    """Whether the leading eigenvectors of the mixture have the objective: then they are enough."""
    solution, problem = fit.solution, fit.problem
    leading = problem.second_moments.leading(proving_weights(fit), problem.n_components).vectors
    value = problem.criterion.value(problem.errors(leading), problem)
    close = abs(value - solution.objective) <= max(
        solution.tolerance, solution.resolution, 1e-9 * abs(solution.scale)
    )
    return bool(close) and solution.violation <= solution.tolerance


def _words(fit: Fit, formula: Formula, *, has_objective: bool) -> list[str]:
    d, solution = fit.problem.n_components, fit.solution
    largest = "largest" if d == 1 else f"{d} largest"
    rest = f"the sum of all eigenvalues but the {largest}"
    bound = "no bound is known"
    if math.isfinite(solution.lower_bound):
        among = (
            " with equal errors"
            if getattr(fit.problem.criterion, "wants_equal_errors", False)
            else ""
        )
        bound = f"no subspace of as many dimensions{among} is below {solution.lower_bound:.6g}"
    words = [
        f"The objective is {formula.objective_in_words} Here it is {solution.objective:.6g}, and "
        f"{bound}.",
        formula.bound_in_words.format(rest=rest),
    ]
    if not has_bound(fit):
        words.append("The program below recomputes the objective; the command checks the bound.")
    if not has_objective:
        words.append(
            "The components are too many numbers to be written down here, so the program below "
            "recomputes the bound; a saved model has the components."
        )
    return words
