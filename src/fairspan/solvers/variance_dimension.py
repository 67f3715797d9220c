"""Smallest number of components that keeps a given fraction of every group's variance."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from fairspan.certificates.certificate import Certificate
from fairspan.errors import IncompatibleParameters
from fairspan.linalg.rounding import RANK_TOL, SUM_ROUNDING
from fairspan.problem.criteria.minimax import MinimaxError
from fairspan.problem.family import ProblemFamily
from fairspan.problem.problem import Problem
from fairspan.problem.reduction import Reduction
from fairspan.solvers.auto import Auto, solve_exactly
from fairspan.solvers.solve import solve_for_dimension
from fairspan.solvers.solver import Solver
from fairspan.typing import FloatArray, RandomSource

# A group whose variance is below this fraction of another's counts as constant: its rows differ by
# rounding only.
_VARIANCE_ROUNDING = RANK_TOL**2
# Relative gap up to which the weights of a lower limit on the dimension are optimized: others are
# valid too, and give the same integer unless the fraction is reached within the gap.
_WEIGHTS_TOL = 1e-6


def solve_for_variance_kept(
    family: ProblemFamily,
    solver: Solver | Auto,
    min_variance_kept: float,
    tol: float,
    random_state: RandomSource = None,
) -> tuple[Reduction, Certificate]:
    """Solve for the smallest dimension that keeps a fraction of every group's variance.

    The fraction that a criterion keeps for a group need not increase with the dimension, so every
    dimension is tried, starting with the first in which any subspace could suffice.

    Returns
    -------
    Reduction, Certificate
        The reduced problem of that dimension, and its certificate.

    Raises
    ------
    IncompatibleParameters
        No dimension suffices, or the solver does not support the problem.
    """
    max_components = family.max_components
    rejected: list[Certificate] = []
    infeasibility: IncompatibleParameters | None = None
    min_components = min(_min_components(family.template, min_variance_kept), max_components)
    for d in range(min_components, max_components + 1):
        try:
            reduction, certificate = solve_for_dimension(family, solver, d, tol, random_state)
        except IncompatibleParameters as error:
            # For example, equal errors may be infeasible for this dimension.
            infeasibility = error
            continue
        if keeps_variance(family, certificate, min_variance_kept):
            return reduction, certificate
        rejected.append(certificate)
    if infeasibility is not None and not rejected:
        # The error names the fraction that the largest feasible dimension keeps.
        feasible = _largest_feasible(family, solver, min_components - 1, tol, random_state)
        if feasible is None:
            raise infeasibility
        rejected.append(feasible)
    raise variance_not_kept(family, min_variance_kept, rejected)


def _largest_feasible(
    family: ProblemFamily,
    solver: Solver | Auto,
    max_components: int,
    tol: float,
    random_state: RandomSource,
) -> Certificate | None:
    """Certificate of the largest feasible dimension up to a maximum; None if there is none."""
    for d in range(max_components, 0, -1):
        try:
            _, certificate = solve_for_dimension(family, solver, d, tol, random_state)
        except IncompatibleParameters:
            continue
        return certificate
    return None


def keeps_variance(
    family: ProblemFamily, certificate: Certificate, min_variance_kept: float
) -> bool:
    """Whether every group keeps at least this fraction of its variance."""
    return _smallest_variance_kept(family, certificate) >= min_variance_kept - SUM_ROUNDING


def variance_not_kept(
    family: ProblemFamily, min_variance_kept: float, rejected: Sequence[Certificate]
) -> IncompatibleParameters:
    """Error for the case that no dimension keeps the requested variance.

    `rejected` are the certificates of the dimensions tried, at least one.
    """
    best = max(_smallest_variance_kept(family, certificate) for certificate in rejected)
    # Rounded down, so that the value in the message is accepted.
    max_fraction = np.floor(best * 1e6) / 1e6
    return IncompatibleParameters(
        f"n_components is {min_variance_kept!r}, a fraction of every group's variance, with the "
        f"criterion {family.template.criterion.name!r} and restriction {family.restriction!r}",
        f"Allowed: at most {max_fraction:g}, the smallest fraction kept by a group with up to "
        f"{family.max_components} components",
        "Choose a smaller fraction, another criterion, or a looser restriction",
    )


def _min_components(problem: Problem, min_variance_kept: float) -> int:
    """Lower limit on the dimension in which every group keeps the fraction of its variance.

    It holds for every criterion and restriction, see :func:`_sufficient_components`. The weights of
    the groups are those of each group alone, all alike, and those that prove which fraction the
    best subspace for the group that keeps least can reach.
    """
    traces = problem.second_moments.traces
    has_variance = _has_variance(traces)
    n_components = 1
    for group in np.flatnonzero(has_variance):
        # The solvers of each dimension reuse the cached decomposition of each group.
        indicator = np.eye(len(traces))[group]
        min_components = _sufficient_components(problem, indicator, min_variance_kept)
        n_components = max(n_components, min_components)
    equal_weights = np.zeros(len(traces))
    equal_weights[has_variance] = 1 / traces[has_variance]
    min_components = _sufficient_components(problem, equal_weights, min_variance_kept)
    n_components = max(n_components, min_components)
    # The criterion divides by the variance of every group. With as many components as features,
    # nothing is left to find.
    if not has_variance.all() or n_components == problem.n_features:
        return n_components
    least_kept = replace(
        problem, n_components=n_components, criterion=MinimaxError(relative=True), limit=None
    )
    certificate = solve_exactly(least_kept, _WEIGHTS_TOL)
    min_components = _sufficient_components(problem, certificate.weights, min_variance_kept)
    return max(n_components, min_components)


def _sufficient_components(problem: Problem, weights: FloatArray, min_variance_kept: float) -> int:
    """Smallest dimension in which the groups could keep the fraction in the weighted mean.

    For nonnegative weights w, any subspace V of d dimensions satisfies
    sum_g w_g tr(V'S_gV) <= t_d(sum_g w_g S_g), where t_d is the sum of the d largest eigenvalues
    (Ky Fan). If that is less than the fraction of sum_g w_g tr S_g, some group keeps less.

    Parameters
    ----------
    problem : Problem
    weights : (k,) array
        w, not all zero.
    min_variance_kept : float
    """
    eigenvalues = problem.dense_moments.eigen_cache.decomposition(weights).values
    captured = np.cumsum(eigenvalues)
    variance = float(weights @ problem.second_moments.traces)
    threshold = (min_variance_kept - SUM_ROUNDING) * variance
    sufficient = np.flatnonzero(captured >= threshold)
    # Rounding may leave even all eigenvalues below the threshold.
    if not len(sufficient):
        return problem.n_features
    return int(sufficient[0]) + 1


def _smallest_variance_kept(family: ProblemFamily, certificate: Certificate) -> float:
    """Smallest fraction of its variance that a group keeps; 1 if no group has variance."""
    traces = family.template.second_moments.traces
    has_variance = _has_variance(traces)
    error_fractions = certificate.errors[has_variance] / traces[has_variance]
    return 1.0 - float(error_fractions.max(initial=0.0))


def _has_variance(traces: FloatArray) -> npt.NDArray[np.bool_]:
    """Return a mask of the groups that have variance, shape (k,)."""
    return np.asarray(traces > _VARIANCE_ROUNDING * traces.max())
