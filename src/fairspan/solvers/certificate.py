"""Certificates, computed from the subspace and the bound alone.

A solver hands in what it found; value, gap and status are worked out here, so that no solver can
claim more than it reached.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fairspan.linalg import with_positive_signs
from fairspan.problem.criteria import EqualError, NashWelfare
from fairspan.problem.problem import Problem
from fairspan.problem.robust_error_gap import RobustErrorGap
from fairspan.soft_projection import softened
from fairspan.solvers.solution import Solution, Status, TracePoint

FloatArray = npt.NDArray[np.float64]

# Eigenvalue sums in float64 are uncertain by about this share of the trace.
_ROUNDING = 1e-14
# A bound this share of the unit above a value is not off by rounding.
_NO_ROUNDING = 1e-6
# What counts as the same length, of the columns of a soft projection's basis.
_SAME_LENGTH = 1e-12


def mixture_bound(references: FloatArray, multipliers: FloatArray, top_sum: float) -> float:
    """Lower bound on max_i (R_i - A_i.c(V)) over all subspaces V.

    For multipliers m on the simplex, the largest piece is at least sum_i m_i R_i - tr(V'MV) with
    the mixture M = sum_g w_g S_g, w = A'm, and tr(V'MV) <= t_d(M), the sum of its d largest
    eigenvalues (Fan 1949). With A = I and R_g = t_d(S_g) these are excess losses, with R_g = tr S_g
    errors.

    Parameters
    ----------
    references : (m,) array
        R.
    multipliers : (m,) array
        Not negative, summing to one.
    top_sum : float
        t_d of the mixture.

    Returns
    -------
    float
    """
    return float(multipliers @ references) - top_sum


def resolution(problem: Problem, errors: FloatArray | None = None) -> float:
    """The gap below which float64 cannot tell value and bound apart.

    A share of the largest group's variance, in squared units of the features, more where the
    criterion weighs a group by more than one; a plain number for the logarithms of Nash welfare.
    The robust error gap holds the roots of errors, so its own digits depend on these.
    """
    pieces, criterion = problem.pieces, problem.criterion
    if isinstance(criterion, NashWelfare):
        if errors is None:
            return _ROUNDING * problem.n_groups
        # What is kept is a difference, and its logarithm is steep where little is kept.
        traces = problem.second_moments.traces
        kept = np.maximum(traces - errors, _ROUNDING * traces)
        shares = np.divide(traces, kept, out=np.ones_like(traces), where=kept > 0)
        return float(_ROUNDING * max(problem.n_groups, shares.mean()))
    if isinstance(criterion, RobustErrorGap) and errors is not None:
        radii, unsure = criterion.radii(problem), _ROUNDING * problem.second_moments.traces
        roots = np.sqrt(errors + unsure) - np.sqrt(errors)
        each = unsure + _ROUNDING * radii + 2 * np.sqrt(radii) * roots
        return float((np.abs(criterion.pair_weights(problem)) @ each).max())
    weight = 1.0 if pieces is None else max(1.0, float(np.abs(pieces.coefficients).max()))
    return _ROUNDING * weight * float(problem.second_moments.traces.max())


def certified(
    problem: Problem,
    basis: FloatArray,
    lower_bound: float,
    weights: FloatArray,
    *,
    tolerance: float,
    n_eigenproblems: int,
    trace: Sequence[TracePoint],
    solver: str,
    supporting_weights: FloatArray | None = None,
) -> Solution:
    """Order the basis, evaluate the criterion at it, and compare with the bound.

    Parameters
    ----------
    problem : Problem
    basis : (p, r) array
        Orthonormal columns; or, for a soft projection, orthogonal ones of length sqrt(lb_j) <= 1
        with sum_j lb_j = d.
    lower_bound : float
        In the criterion's units; -infinity if there is none.
    weights : (k,) array
    tolerance : float
        Absolute.

    Returns
    -------
    Solution
    """
    basis = by_pooled_variance(problem, basis)
    errors = problem.errors(basis)
    objective = problem.criterion.value(errors, problem)
    tolerance = max(tolerance, resolution(problem, errors))
    if lower_bound > objective + max(_NO_ROUNDING * problem.unit, 10 * tolerance):
        # No bound at all: a value below it has been found. Better none than a false proof.
        lower_bound = -np.inf
    # In exact arithmetic the bound never exceeds the value; rounding may swap their last digits.
    lower_bound = min(lower_bound, objective)
    wants_equal = isinstance(problem.criterion, EqualError) and problem.n_groups > 1
    violation = float(errors.max() - errors.min()) if wants_equal else 0.0
    closed = objective - lower_bound <= tolerance and violation <= tolerance
    robust = isinstance(problem.criterion, RobustErrorGap)
    return Solution(
        components=np.ascontiguousarray(softened(basis).T),
        objective=objective,
        lower_bound=lower_bound,
        status=Status.OPTIMAL if closed else Status.OPEN_GAP,
        tolerance=tolerance,
        weights=weights,
        n_eigenproblems=n_eigenproblems,
        trace=tuple(trace),
        solver=solver,
        violation=violation,
        theorem_3_2=problem.criterion.theorem_3_2_holds(problem) if robust else None,  # type: ignore[attr-defined]
        supporting_weights=supporting_weights,
    )


def by_pooled_variance(problem: Problem, basis: FloatArray) -> FloatArray:
    """Rotate a basis inside its subspace: principal axes of the pooled moment, largest first.

    Of a soft projection, only columns of full length are rotated; the others are left to follow.
    """
    lengths = np.linalg.norm(basis, axis=0)
    full = lengths >= 1 - _SAME_LENGTH
    compressed = problem.second_moments.compressed(basis[:, full])
    _, axes = np.linalg.eigh(np.tensordot(problem.proportions, compressed, axes=1))
    rotated = basis[:, full] @ axes[:, ::-1]
    return with_positive_signs(np.hstack([rotated, basis[:, ~full]]))
