"""Rounding errors of group errors, and what follows from them for gaps."""

from dataclasses import dataclass

import numpy as np

from fairspan.certificates.eigensolver import Eigensolver
from fairspan.linalg import basis_rounding_bound, error_rounding_bound
from fairspan.linalg.rounding import EPS, LOOSE_TOL, VALUE_ROUNDING
from fairspan.problem.problem import Problem
from fairspan.typing import FloatArray

# Solvers aim for this fraction of the requested gap, so that evaluating again cannot fail the test.
_TARGET_SAFETY = 0.75


@dataclass(frozen=True, eq=False)
class MeasuredErrors:
    """Errors of the groups, with bounds on their rounding errors.

    Attributes
    ----------
    values : (k,) array
        Error of each group.
    rounding : (k,) array
        Bound on the rounding error of each.
    """

    values: FloatArray
    rounding: FloatArray


def target_gap(problem: Problem, errors: FloatArray, tol: float) -> float:
    """Gap between objective and lower bound at which a search stops, in units of the objective.

    It is a fraction of `tol` times the size of the objective, but no less than rounding error.

    Parameters
    ----------
    problem : Problem
    errors : (k,) array
        Errors of the best subspace so far.
    tol : float
        Relative tolerance.
    """
    wanted_gap = _TARGET_SAFETY * tol * problem.criterion.scale(errors, problem)
    error_rounding = _unavoidable_rounding(problem, errors)
    rounding = problem.criterion.rounding_bound(error_rounding, errors, problem)
    # The gap of the certificate will include the rounding errors of both objective and bound, so
    # the search aims lower by these; but no search can get below one rounding error.
    return max(wanted_gap - 2 * rounding, rounding)


def measure_errors(problem: Problem, basis: FloatArray) -> MeasuredErrors:
    """Return the error of each group, with a bound on its rounding error.

    An error is the inner error, that of the basis within the directions of the problem, plus the
    excluded variance in directions that a restriction or previous components removed. Without
    matrices (sparse rows), the rounding bound is a fixed fraction of the variance.
    """
    if not problem.second_moments.has_matrices:
        traces = problem.second_moments.traces
        return MeasuredErrors(
            problem.errors(basis), np.asarray(Eigensolver.MATRIX_FREE.error_rounding * traces)
        )
    second_moments = problem.dense_moments
    inner_errors = second_moments.inner_errors(basis)
    # Norms of the residual projector I - VV': of its rows, which scale the rounding errors of the
    # second moments, and of the rounding error of the group means after projection.
    residual_row_norms, offset_rounding = second_moments.residual_projector_norms(basis)
    inner_rounding = error_rounding_bound(
        second_moments.column_rms, inner_errors, residual_row_norms
    )
    # Rows displaced by m change an error e by at most 2 sqrt(e) m + m^2.
    offset_rounding_bound = 2 * np.sqrt(inner_errors) * offset_rounding + offset_rounding**2
    # Variance along previous nested components, which is excluded besides the errors that a
    # restriction fixes.
    deflated_errors = second_moments.excluded_variances - problem.embedding.fixed_errors
    fixed_rounding = problem.rounding.fixed_errors + EPS * deflated_errors
    errors = inner_errors + second_moments.excluded_variances
    # Excess losses under a restriction also contain the rounding errors of the groups' best errors,
    # which were computed without it; zero for other criteria.
    rounding = (
        inner_rounding + offset_rounding_bound + fixed_rounding + _best_error_rounding(problem)
    )
    # Row coordinates may be inexact, which affects the whole error, with the part that all groups
    # share.
    all_errors = errors + problem.embedding.common_error
    rounding += problem.rounding.coordinate_rounding(second_moments, all_errors)
    return MeasuredErrors(errors, rounding)


def _best_error_rounding(problem: Problem) -> FloatArray:
    """Bound the rounding error of the best errors a restricted problem subtracts, shape (k,)."""
    parent = problem.embedding.parent
    if parent is None or not problem.criterion.uses_excess_loss:
        return np.zeros(problem.n_groups)
    return np.array(
        [
            measure_errors(parent, optimum.vectors).rounding[g]
            for g, optimum in enumerate(parent.group_optima)
        ]
    )


def _unavoidable_rounding(problem: Problem, errors: FloatArray) -> FloatArray:
    """Return the rounding error that no evaluation of errors avoids, shape (k,).

    It is smaller than the bound of :func:`measure_errors`, which allows for the worst case.
    """
    inner_errors = np.maximum(errors - problem.embedding.fixed_errors, 0.0)
    rounding = VALUE_ROUNDING * inner_errors
    if not problem.second_moments.has_matrices:
        return rounding
    return rounding + basis_rounding_bound(problem.dense_moments.root_traces, inner_errors)


def resolution_scale(problem: Problem, errors: FloatArray, resolution: float) -> float:
    """Variance to which the resolution is compared: the largest error, unless all are negligible.

    `resolution` is the largest gap that double precision cannot distinguish from zero. A scale of
    zero means that no resolution is small enough. Both are in the units of the objective, so
    variances are divided by what the criterion divides errors by (`problem.divisors`, often ones).

    Errors that cannot be distinguished from zero are exact zeros if d dimensions contain all rows.
    The scale is then the smallest variance of the rows along a direction in which they vary, which
    shows that no such direction was missed. Otherwise small errors may be hidden by rounding, as
    beside a single row of 1e8 times the size of the others, and the scale is zero. If d = p, there
    are no other directions, and the scale is the largest variance of a group. Otherwise
    `smallest_row_variance` tells these cases apart: it is zero if d dimensions may not contain all
    rows.
    """
    max_error = problem.criterion.largest_scaled_error(errors, problem)
    if max_error > resolution:
        return max_error
    traces = problem.second_moments.traces
    max_variance = float((traces / problem.divisors).max())
    if problem.n_components == problem.n_features:
        return max_variance
    if not problem.second_moments.has_matrices:
        # The resolution of sparse rows is relative to the variance, but small errors are sums of
        # squared residuals, whose rounding error is much smaller: residuals displaced by m in root
        # mean square change an error e by at most 2 sqrt(e) m + m^2.
        error_rounding = Eigensolver.MATRIX_FREE.error_rounding
        displacement = error_rounding * np.sqrt(np.maximum(traces, 0.0))
        inner_errors = np.maximum(errors - problem.embedding.fixed_errors, 0.0)
        rounding = (2 * np.sqrt(inner_errors) * displacement + displacement**2) / problem.divisors
        min_variance = problem.smallest_row_variance / float(problem.divisors.max())
        return max_variance if rounding.max() <= LOOSE_TOL * min_variance else 0.0
    return problem.smallest_row_variance / float(problem.divisors.max())
