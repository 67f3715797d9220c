"""Results of a report by number of dimensions."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fairspan.auditing.audit_result import Audit
from fairspan.auditing.dimensions_to_audit import (
    pca_by_dimension,
    select_dimensions,
    select_estimated,
)
from fairspan.auditing.estimates import GroupEstimates
from fairspan.auditing.estimation_options import EstimationOptions
from fairspan.auditing.evaluation import estimate_from_folds
from fairspan.auditing.models import CURVE_TOL
from fairspan.auditing.results import ModelResult
from fairspan.certificates.certificate import Certificate
from fairspan.errors import IncompatibleParameters
from fairspan.linalg.rounding import zero_negligible
from fairspan.moments.fold_moments import DenseFoldMoments, FoldMoments
from fairspan.moments.second_moments import figure_roundings
from fairspan.problem.problem import Problem
from fairspan.problem.warm_start import WarmStart
from fairspan.progress import track
from fairspan.report.fitted_criterion import FittedCriterion
from fairspan.solvers.auto import solve_exactly
from fairspan.typing import FloatArray

# Number of dimensions that are fitted; as many points as a figure can show apart.
MAX_DIMENSIONS = 40
# With more features, or with more than two groups, each dimension is slow, so fewer are fitted.
_MAX_FEATURES_FAST = 300
_MAX_DIMENSIONS_SLOW = 16
# With this many features a fit takes seconds: few dimensions are fitted, and no others than the
# requested one get estimates for new rows.
_MAX_FEATURES_ESTIMATED = 1000
_MAX_DIMENSIONS_OF_MANY_FEATURES = 4


@dataclass(frozen=True, eq=False)
class DimensionResult:
    """Results with d components.

    Attributes
    ----------
    n_components : int
    best_errors : (k,) array
        Best error of each group.
    pca_errors : (k,) array
        Errors of ordinary PCA.
    fair_errors : (k,) array
        Errors of the main criterion's solution; NaN if infeasible.
    certificate : Certificate or None
        Certificate of this solution.
    roundings : (k,) array
        Rounding error bounds: smaller losses are set to zero.
    pca_estimates : sequence of k GroupEstimates
        Estimates for new rows under PCA; empty if not estimated.
    fair_estimates : sequence of k GroupEstimates
        Estimates for new rows under the main criterion's solution; empty if not estimated.
    """

    n_components: int
    best_errors: FloatArray
    pca_errors: FloatArray
    fair_errors: FloatArray
    certificate: Certificate | None
    roundings: FloatArray
    pca_estimates: Sequence[GroupEstimates] = ()
    fair_estimates: Sequence[GroupEstimates] = ()

    @property
    def pca_losses(self) -> FloatArray:
        """Losses under PCA."""
        return clip_negligible(self.pca_errors - self.best_errors, self.roundings)

    @property
    def fair_losses(self) -> FloatArray:
        """Losses of the main criterion's solution; NaN if infeasible."""
        return clip_negligible(self.fair_errors - self.best_errors, self.roundings)


def pca_estimates_by_dimension(
    pca: ModelResult, audit: Audit, folds: FoldMoments | None
) -> dict[int, Sequence[GroupEstimates]]:
    """Return estimates for new rows under PCA by number of dimensions; empty if unavailable.

    Estimates come from moments by fold, and intervals from the variation between folds. At the
    requested dimension, those of the audit are used: their intervals come from single rows and are
    narrower.

    Parameters
    ----------
    pca : ModelResult
        Audit of PCA at the requested dimension.
    audit : Audit
        Whole audit, which gives level and materiality.
    folds : FoldMoments or None
        Moments by fold; only dense ones, covariance matrices by group, are used.

    Returns
    -------
    dict of int to sequence of k GroupEstimates
        One entry for each of at most 16 of the fitted dimensions.
    """
    if not isinstance(folds, DenseFoldMoments) or not pca.has_estimates:
        return {}
    if folds.total.n_features > _MAX_FEATURES_ESTIMATED:
        return {pca.n_components: pca.groups}
    # The figure shows these dimensions, of which only some get estimates, to save time.
    audited_dimensions = _select_dimensions(
        folds.total.n_features, folds.total.n_groups, pca.n_components
    )
    dimensions = select_estimated(audited_dimensions, pca.n_components)
    # The total of the folds is the moments of all rows.
    models = pca_by_dimension(folds.total, dimensions, pca.center, scale=pca.is_scaled)
    options = EstimationOptions(level=audit.level, materiality=audit.materiality, is_pointwise=True)
    estimates = [result.groups for result in estimate_from_folds(models, folds, options)]
    return {**dict(zip(dimensions, estimates, strict=True)), pca.n_components: pca.groups}


def _select_dimensions(n_features: int, n_groups: int, requested: int) -> list[int]:
    """Select at most 40 dimensions, or 16 or 4 if they are slow, including the requested one."""
    if n_features > _MAX_FEATURES_ESTIMATED:
        return select_dimensions(n_features, requested, _MAX_DIMENSIONS_OF_MANY_FEATURES)
    is_fast = n_groups <= 2 and n_features <= _MAX_FEATURES_FAST
    max_dimensions = MAX_DIMENSIONS if is_fast else _MAX_DIMENSIONS_SLOW
    return select_dimensions(n_features, requested, max_dimensions)


def solve_by_dimension(
    pca_problem: Problem,
    main: FittedCriterion,
    estimates: dict[int, Sequence[GroupEstimates]],
) -> list[DimensionResult]:
    """Solve PCA and the main criterion for each number of dimensions, in increasing order.

    Where the main criterion is infeasible, its errors are NaN and its certificate is None.

    Parameters
    ----------
    pca_problem : Problem
        Problem that ordinary PCA solves.
    main : FittedCriterion
        Fit of the main criterion, used at its own dimension.
    estimates : dict of int to sequence of k GroupEstimates
        Estimates under PCA by dimension; other dimensions have none.
    """
    requested = main.certificate.n_components
    dimensions = _select_dimensions(pca_problem.n_features, pca_problem.n_groups, requested)
    results = []
    previous = None
    for d in track("comparing numbers of dimensions", dimensions, "dimensions"):
        problem = replace(main.problem, n_components=d)
        # Start from the weights of the last dimension that was solved, which are similar.
        if previous is not None:
            problem = replace(problem, warm_start=WarmStart(previous.weights))
        solution = main.certificate if d == requested else _solve_or_none(problem)
        fair_errors = np.full(len(problem.group_labels), np.nan)
        if solution is not None:
            fair_errors = problem.errors(solution.components.T)
            previous = solution
        pca_basis = replace(pca_problem, n_components=d).pooled_optimum.vectors
        # Errors of PCA are measured as those of the main model: in the main problem, whose center
        # may differ.
        pca_errors = problem.errors(pca_basis)
        roundings = figure_roundings(problem.second_moments, pca_errors)
        results.append(
            DimensionResult(
                n_components=d,
                best_errors=clip_negligible(problem.best_errors, roundings),
                pca_errors=clip_negligible(pca_errors, roundings),
                fair_errors=clip_negligible(fair_errors, roundings),
                certificate=solution,
                roundings=roundings,
                pca_estimates=estimates.get(d, ()),
            )
        )
    return results


def _solve_or_none(problem: Problem) -> Certificate | None:
    """Solve the problem; None if it is infeasible, as when equal errors cannot be achieved."""
    try:
        return solve_exactly(problem, CURVE_TOL)
    except IncompatibleParameters:
        return None


def clip_negligible(values: FloatArray, roundings: FloatArray) -> FloatArray:
    """Set values that are negative or within their rounding error bound to zero."""
    return np.maximum(zero_negligible(values, roundings), 0.0)
