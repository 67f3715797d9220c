"""Certificates, computed from the subspace and the dual weights alone.

A solver hands in what it found; value, bound and status are worked out here, so that no solver can
claim more than it reached.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fairspan.linalg import with_positive_signs
from fairspan.problem.problem import Problem
from fairspan.solvers.solution import Solution, Status, TracePoint

FloatArray = npt.NDArray[np.float64]

# Eigenvalue sums in float64 are uncertain by about this share of the trace.
_ROUNDING = 1e-14


def mixture_bound(references: FloatArray, weights: FloatArray, top_eigenvalue_sum: float) -> float:
    """Lower bound on max_g (a_g - c_g(V)) over all subspaces V.

    For weights w on the simplex, max_g (a_g - c_g) >= sum_g w_g a_g - tr(V' M V) with the mixture
    M = sum_g w_g S_g, and tr(V' M V) <= t_d(M), the sum of its d largest eigenvalues (Fan 1949).
    With a_g = t_d(S_g) these are excess losses, with a_g = tr S_g errors.

    Parameters
    ----------
    references : (k,) array
        a_g.
    weights : (k,) array
        Not negative, summing to one.
    top_eigenvalue_sum : float
        t_d of the mixture with these weights.

    Returns
    -------
    float
    """
    return float(weights @ references) - top_eigenvalue_sum


def resolution(problem: Problem) -> float:
    """The gap below which float64 cannot tell value and bound apart.

    A share of the largest group's variance, in squared units of the features.
    """
    return _ROUNDING * float(problem.second_moments.traces.max())


def certified(
    problem: Problem,
    basis: FloatArray,
    best_errors: FloatArray,
    lower_bound: float,
    weights: FloatArray,
    *,
    tolerance: float,
    n_eigenproblems: int,
    trace: Sequence[TracePoint],
    solver: str,
) -> Solution:
    """Order the basis, evaluate the criterion at it, and compare with the bound.

    Parameters
    ----------
    problem : Problem
    basis : (p, d) array
        Orthonormal columns.
    best_errors : (k,) array
        e*_g; only used by criteria of losses.
    lower_bound : float
    weights : (k,) array
    tolerance : float
        Absolute.

    Returns
    -------
    Solution
    """
    basis = by_pooled_variance(problem, basis)
    errors = problem.errors(basis)
    objective = problem.criterion.value(errors, best_errors, problem.proportions)
    # In exact arithmetic the bound never exceeds the value; rounding may swap their last digits.
    lower_bound = min(lower_bound, objective)
    tolerance = max(tolerance, resolution(problem))
    closed = objective - lower_bound <= tolerance
    return Solution(
        components=np.ascontiguousarray(basis.T),
        objective=objective,
        lower_bound=lower_bound,
        status=Status.OPTIMAL if closed else Status.OPEN_GAP,
        tolerance=tolerance,
        weights=weights,
        n_eigenproblems=n_eigenproblems,
        trace=tuple(trace),
        solver=solver,
    )


def by_pooled_variance(problem: Problem, basis: FloatArray) -> FloatArray:
    """Rotate a basis inside its subspace: principal axes of the pooled moment, largest first."""
    compressed = problem.second_moments.compressed(basis)
    pooled = np.tensordot(problem.proportions, compressed, axes=1)
    _, axes = np.linalg.eigh(pooled)
    return with_positive_signs(basis @ axes[:, ::-1])
