"""Errors and losses by dimension: ordinary PCA, the main criterion, and the best possible."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairspan.auditing.audit_result import Audit
from fairspan.auditing.by_dimension import chosen_dimensions, estimated_of, pca_by_dimension
from fairspan.auditing.expected_losses import USUAL, ExpectedFigures
from fairspan.auditing.judging import expected_in_folds
from fairspan.certificates.solution import Solution
from fairspan.errors import Incompatible
from fairspan.moments.folds import FoldMoments, SummedFolds
from fairspan.problem.problem import Problem
from fairspan.progress import track
from fairspan.report.facts.answers import Answers
from fairspan.solvers.choose import Auto
from fairspan.typing import FloatArray

MOST = 40
# Of many features, or of more than two groups, each dimension takes its time.
_MANY_FEATURES, _MOST_OF_MANY = 300, 16
# As a share of the objective, as fits have it by default.
_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class AtDimension:
    """What is reached with d components.

    Attributes
    ----------
    n_components : int
    best : (k,) array
        The least error that any subspace has on each group alone.
    plain : (k,) array
        Errors of ordinary PCA.
    fair : (k,) array or None
        Errors at the main criterion's answer; None if it has none.
    solution : Solution or None
        That answer.
    """

    n_components: int
    best: FloatArray
    plain: FloatArray
    fair: FloatArray | None
    solution: Solution | None


def along_dimensions(answers: Answers) -> list[AtDimension]:
    """Solve for 40 dimensions at most, 16 of three groups or more, the requested one among them."""
    main, pca = answers.main.fit, answers.plain.fit
    judged = main.problem
    is_quick = len(judged.labels) <= 2 and judged.n_features <= _MANY_FEATURES
    most = MOST if is_quick else _MOST_OF_MANY
    dimensions = chosen_dimensions(judged.n_features, main.subspace.dimension, most)
    found = []
    for d in track("comparing numbers of dimensions", dimensions, "dimensions"):
        problem = replace(judged, n_components=d)
        plain = replace(pca.problem, n_components=d).pooled_optimum.vectors
        solution = main.solution if d == main.subspace.dimension else _solved(problem)
        fair = None if solution is None else problem.errors(solution.components.T)
        found.append(AtDimension(d, problem.best_errors, problem.errors(plain), fair, solution))
    return found


def dimensions_facts(
    found: Sequence[AtDimension], criterion: str, rounding: float
) -> dict[str, Any]:
    """By dimension, one number for each group; None where the criterion has no answer."""
    fair = [(each.fair, each.best) for each in found]
    return {
        "dimensions": [each.n_components for each in found],
        "best": [without_rounding(each.best, rounding) for each in found],
        "plain": {
            "errors": [without_rounding(each.plain, rounding) for each in found],
            "losses": [without_rounding(each.plain - each.best, rounding) for each in found],
        },
        "fair": {
            "criterion": criterion,
            "errors": [
                None if errors is None else without_rounding(errors, rounding) for errors, _ in fair
            ],
            "losses": [
                None if errors is None else without_rounding(errors - best, rounding)
                for errors, best in fair
            ],
            "status": [
                None if each.solution is None else str(each.solution.status) for each in found
            ],
        },
    }


def expected_by_dimension(
    found: Sequence[AtDimension], audit: Audit, folds: FoldMoments | None
) -> dict[str, Any] | None:
    """The expected loss of each group under PCA for some numbers of dimensions; None if unknown.

    Estimates come from moments by fold, and intervals from how folds differ. At the dimension that
    was requested the figures are those of the audit of the rows, whose intervals are narrower.
    """
    pca = audit.models[0]
    if not isinstance(folds, SummedFolds) or not pca.has_estimates:
        return None
    asked = pca.n_components
    dimensions = estimated_of([each.n_components for each in found], asked)
    models = pca_by_dimension(folds.whole, dimensions, pca.center, scale=pca.scaled)
    options = replace(USUAL, level=audit.level, material=audit.material)
    estimates = dict(zip(dimensions, expected_in_folds(models, folds, options), strict=True))
    estimates[asked] = [group.expected for group in pca.groups]
    return {
        "dimensions": dimensions,
        "plain": {
            "losses": _each(estimates, lambda figures: figures.loss.value),
            "losses_low": _each(estimates, lambda figures: figures.loss.low),
            "losses_high": _each(estimates, lambda figures: figures.loss.high),
            "errors": _each(estimates, lambda figures: figures.error.value),
            "states": [
                ["cannot tell" if each is None else each.state for each in groups]
                for groups in estimates.values()
            ],
        },
    }


def _each(
    estimates: Mapping[int, Sequence[ExpectedFigures | None]],
    figure: Callable[[ExpectedFigures], float | None],
) -> list[list[float | None]]:
    """One figure of every group, by dimension."""
    return [
        [None if each is None else figure(each) for each in groups] for groups in estimates.values()
    ]


def without_rounding(values: FloatArray, rounding: float) -> list[float]:
    """Figures of which none is negative; zero for what is only rounding."""
    return np.where(values <= rounding, 0.0, values).tolist()  # type: ignore[no-any-return]


def _solved(problem: Problem) -> Solution | None:
    """The answer; None if there is none, such as equal errors that are out of reach."""
    try:
        return Auto().solve(problem, _TOLERANCE)
    except Incompatible:
        return None
