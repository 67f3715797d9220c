"""When an answer is called optimal: the only place that decides it.

A solver returns a subspace and weights. Objective, bound, gap and status are computed here, so
that no solver can claim more than it proved. The gap is compared with the objective, never with
the variance of the data: a column of large numbers makes a gap that is small beside the total
variance larger than every loss.

- **optimal**: the gap is at most the tolerance times the size of the objective. Or it is at most
  the resolution of float64, and the resolution is at most the tolerance times the largest error.
  The resolution must then also be at most the square root of the tolerance times the objective, or
  so large that the objective cannot be distinguished from zero, as with identical groups or with d
  = p.
- **unresolved**: the gap is at most what float64 can resolve, but that is too much to call it
  optimal: the data, not the solver, leave open how good the answer is.
- otherwise **open gap**.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fairspan.certificates.certificate import Certificate, Status, TracePoint
from fairspan.certificates.proofs import Proof
from fairspan.linalg import graded_eigh, rounding_of_basis, rounding_of_errors, with_positive_signs
from fairspan.moments.of_rows import Moments
from fairspan.moments.operators import softened
from fairspan.problem.problem import Problem, is_within
from fairspan.problem.reduction import largest_column
from fairspan.typing import FloatArray

_EPSILON = float(np.finfo(np.float64).eps)
# Without matrices, errors are taken to be uncertain by this share of the variance.
_UNSURE = 1e-14
# A search goes a little further than what will be asked, and no further than a few roundings.
_STRICTER, _LEAST = 0.9, 4 * _EPSILON
# An objective of no more than so many resolutions cannot be told from zero.
_ZERO = 2.0
# What counts as the same length, of the columns of a soft projection's basis.
_SAME_LENGTH = 1e-12


def evaluate(
    problem: Problem,
    basis: FloatArray,
    proof: Proof | FloatArray,
    *,
    tol: float,
    lower_bound: float | None = None,
    room: float = 1.0,
) -> Certificate:
    """Value, bound and status of a subspace: one routine for fits and for verification.

    Parameters
    ----------
    problem : Problem
    basis : (p, r) array
        Orthonormal columns; or, for a soft projection, orthogonal ones of length sqrt(lb_j) <= 1
        with sum_j lb_j = d.
    proof : Proof or (k,) array
        The data of the bound; the weights of the groups alone, if these are enough.
    tol : float
        Relative: the gap that is called optimal, as a share of the objective.
    lower_bound : float, optional
        A bound that was proven in another way, if there are no matrices to compute it from.
    room : float
        How many times tolerance and resolution a gap may be to be called closed.

    Returns
    -------
    Certificate
    """
    proof = proof if isinstance(proof, Proof) else Proof(proof)
    criterion, (errors, roundings) = problem.criterion, errors_with_roundings(problem, basis)
    objective = criterion.value(errors, problem)
    own = criterion.rounding(roundings, errors, problem)
    if lower_bound is None:
        gap, lowered = proof.gap(problem, basis, errors)
        unsure = gap
        if problem.unrestricted is None and criterion.is_never_negative:
            gap, unsure = min(gap, objective), min(gap, objective + own)
    else:
        gap, lowered = objective - lower_bound, own
        unsure = gap
    violation = 0.0
    if problem.n_groups > 1 and criterion.wants_equal_errors:
        violation = float(np.ptp(errors))
        # Errors are equal up to rounding, which weights that nearly cancel make much of.
        weights = criterion.dual_weights(proof.weights, problem)
        own += float(np.abs(problem.proportions - weights / weights.sum()) @ roundings)
    resolution = own + lowered
    scale = criterion.scale(errors, problem)
    # Both are to hold: the bound is met, and so is the constraint.
    # Beside a bound that is known to be zero, the value itself is uncertain.
    worst = max(gap, unsure, violation)
    if problem.limit is not None and not is_within(problem.limit, basis):
        worst = np.inf
    tolerance = tol * scale
    # Within a restriction, what no choice changes is a part of the objective, and is not zero.
    least = scale if problem.unrestricted is None else criterion.largest(errors, problem)
    known = resolution <= room * np.sqrt(tol) * scale or least <= room * _ZERO * resolution
    if known and resolution <= room * tol * _size(problem, errors, resolution):
        tolerance = max(tolerance, resolution)
    status = Status.OPEN_GAP
    if worst <= room * tolerance:
        status = Status.OPTIMAL
    elif worst <= room * resolution:
        status = Status.UNRESOLVED
    return Certificate(
        components=np.ascontiguousarray(softened(basis).T),
        criterion=criterion,
        n_components=problem.n_components,
        tol=tol,
        objective=objective,
        lower_bound=objective - gap,
        status=status,
        proof=proof,
        scale=scale,
        tolerance=tolerance,
        resolution=resolution,
        violation=violation,
        theorem_3_2=criterion.theorem_3_2_holds(problem),
        groups=tuple(problem.labels),
        errors=errors + problem.left_out,
        total_variance=problem.whole.total_variance,
    )


def certify(
    problem: Problem,
    basis: FloatArray,
    proof: Proof | FloatArray,
    *,
    tol: float,
    n_eigenproblems: int,
    trace: Sequence[TracePoint],
    solver: str,
    lower_bound: float | None = None,
) -> Certificate:
    """Order the basis, evaluate the criterion at it, and compare with the bound.

    Parameters
    ----------
    problem, basis, proof, tol, lower_bound
        As of :func:`evaluate`.
    n_eigenproblems, trace, solver
        Records of the run.

    Returns
    -------
    Certificate
    """
    found = evaluate(
        problem, by_pooled_variance(problem, basis), proof, tol=tol, lower_bound=lower_bound
    )
    return replace(found, n_eigenproblems=n_eigenproblems, trace=tuple(trace), solver=solver)


def reason_of(
    found: Certificate, problem: Problem, moments: Moments, center: Any, *, is_scaled: bool
) -> str | None:
    """Why double precision cannot resolve a gap: a column of large numbers, or a tiny objective."""
    if found.status is not Status.UNRESOLVED:
        return None
    column = None if is_scaled else largest_column(moments, center)
    if column is not None:
        return column
    return problem.criterion.why_unresolved(max(found.scale, found.resolution), problem)


def goal(problem: Problem, errors: FloatArray, tol: float) -> float:
    """The gap for a search to reach, absolute: a share of the objective, or what can be resolved.

    Parameters
    ----------
    problem : Problem
    errors : (k,) array
        Of the best subspace so far.
    tol : float
        Relative.
    """
    sought = _STRICTER * tol * problem.criterion.scale(errors, problem)
    least = problem.criterion.rounding(_least_roundings(problem, errors), errors, problem)
    # In the end the room for rounding is a part of the gap.
    return max(sought - 2 * least, least)


def by_pooled_variance(problem: Problem, basis: FloatArray) -> FloatArray:
    """Rotate a basis inside its subspace: principal axes of the pooled moment, largest first.

    Of a soft projection, only columns of full length are rotated; the others are left to follow.
    """
    full = np.linalg.norm(basis, axis=0) >= 1 - _SAME_LENGTH
    compressed = problem.second_moments.compressed(basis[:, full])
    pooled = np.tensordot(problem.proportions, compressed, axes=1)
    axes = graded_eigh(pooled, len(pooled) - 1)[1] if len(pooled) else pooled
    rotated = basis[:, full] @ axes[:, ::-1]
    # Products leave columns orthonormal to some ten roundings, which the variance kept would show
    # where hardly any is lost. A step of Newton's method leaves one.
    rotated -= rotated @ (rotated.T @ rotated - np.eye(rotated.shape[1])) / 2
    return with_positive_signs(np.hstack([rotated, basis[:, ~full]]))


def errors_with_roundings(problem: Problem, basis: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Each group's error, and by how much rounding may have moved it, shapes (k,)."""
    second = problem.dense
    if not problem.has_matrices:
        return problem.errors(basis), np.asarray(_UNSURE * second.traces)
    inner, (lengths, moved) = second.inner_errors(basis), second.roundings_left(basis)
    from_inside = rounding_of_errors(second.spreads, inner, lengths)
    of_offsets = 2 * np.sqrt(inner) * moved + moved**2
    outside = problem.fixed_rounding + _EPSILON * (second.outside - problem.fixed)
    of_all = from_inside + of_offsets + outside + _best_roundings(problem)
    return inner + second.outside, of_all


def _best_roundings(problem: Problem) -> FloatArray:
    """By how much the errors may be off that a restricted problem subtracts, shape (k,)."""
    whole = problem.unrestricted
    if whole is None or not problem.criterion.measures_losses:
        return np.zeros(problem.n_groups)
    optima = enumerate(whole.group_optima)
    return np.array([errors_with_roundings(whole, best.vectors)[1][g] for g, best in optima])


def _least_roundings(problem: Problem, errors: FloatArray) -> FloatArray:
    """Of errors, by any way to work them out; less than is left room for in the end."""
    inner = np.maximum(errors - problem.fixed, 0.0)
    if not problem.has_matrices:
        return _LEAST * inner
    return _LEAST * inner + rounding_of_basis(problem.dense.deviations, inner)


def _size(problem: Problem, errors: FloatArray, resolution: float) -> float:
    """The largest error; where all errors are rounding, the least variance of a column that varies.

    So what is zero by structure, as where d dimensions hold all rows, is optimal, but not where a
    column of large numbers makes the variance of all others rounding.
    """
    largest = problem.criterion.largest(errors, problem)
    if largest > resolution:
        return largest
    if problem.n_components == problem.n_features or not problem.has_matrices:
        return float((problem.second_moments.traces / problem.divisors).max())
    return problem.least_column_variance / float(problem.divisors.max())
