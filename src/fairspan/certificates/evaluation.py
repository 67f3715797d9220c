"""Evaluate solutions: objective, bound and gap, and the rule that decides the status.

A certificate is the only record of a solution and the only place where its status is decided. A
solver returns a subspace and weights; objective, bound, gap and status are computed here, so that
no solver can claim more than it proved. The gap is compared with the objective, never with the
variance of the data: with a column of large numbers, a gap that is small relative to the total
variance can exceed every loss.

- **optimal**: the gap is at most the tolerance times the magnitude of the objective. Alternatively,
  the gap is at most the resolution of float64, and the resolution is at most the tolerance times
  the largest error. In either case the objective must be known: the resolution, relative to the
  magnitude of the objective, is at most the larger of the tolerance and 1e-6. An objective that
  cannot be distinguished from zero, as with identical groups or d = p, has no relative resolution.
  It is known if the resolution is at most the tolerance times the largest error or, if all errors
  are zero, times the variance.
- **unresolved**: the gap is at most the resolution of float64, which exceeds the tolerance: the
  data, not the solver, limit what can be proven.
- **open gap**: otherwise.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fairspan.certificates.certificate import Certificate, TracePoint
from fairspan.certificates.proofs import Proof
from fairspan.certificates.rounding import errors_and_rounding, resolution_scale
from fairspan.certificates.status import LOOSE_TOL, ZERO_RESOLUTIONS, Status
from fairspan.linalg import graded_eigh, normalize_signs
from fairspan.moments.compute import Moments
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.projector import encoder_columns
from fairspan.problem.feature_scale import describe_dominant_feature
from fairspan.problem.limits import is_feasible
from fairspan.problem.problem import Problem
from fairspan.typing import FloatArray

_EPSILON = float(np.finfo(np.float64).eps)
# Largest distance of the EM algorithm from its limit, in standard deviations, that is not reported
# as the reason of an unresolved gap: smaller distances are about as large as rounding.
EM_CONVERGENCE_TOL = 1e-11
# Tolerance for unit length among the columns of a soft basis.
_UNIT_LENGTH_TOL = 1e-12


def evaluate_solution(
    problem: Problem,
    basis: FloatArray,
    proof: Proof | FloatArray,
    *,
    tol: float,
    lower_bound: float | None = None,
    tolerance_factor: float = 1.0,
) -> Certificate:
    """Evaluate objective, bound and status of a subspace, for fits and for verification alike.

    The status is "optimal" if the gap is within the tolerance, "unresolved" if it is only within
    what double precision can resolve, and "open gap" otherwise. Under a restriction, objective and
    bound lack the constant of the error that all groups share, which callers add.

    Parameters
    ----------
    problem : Problem
    basis : (p, r) array
        Orthonormal columns; or, for a soft projection of r > d dimensions, orthogonal columns of
        lengths up to 1 whose squares sum to d.
    proof : Proof or (k,) array
        Proof of the bound; group weights alone, if these suffice.
    tol : float
        Largest gap that counts as optimal, relative to the objective.
    lower_bound : float, optional
        Bound that was established otherwise, if there are no matrices to compute it from.
    tolerance_factor : float
        Factor on tolerance and resolution up to which a gap counts as closed; above 1 in a
        verification, whose rounding errors differ from those of the fit.

    Returns
    -------
    Certificate
        Without the record of the run (solver, trace, number of eigenproblems), which is unknown
        here.
    """
    proof = proof if isinstance(proof, Proof) else Proof(proof)
    criterion = problem.criterion
    errors, error_rounding = errors_and_rounding(problem, basis)
    objective = criterion.value(errors, problem)
    objective_rounding = criterion.rounding_bound(error_rounding, errors, problem)
    if lower_bound is None:
        gap, bound_rounding = proof.gap(problem, basis, errors)
        # The gap, with the rounding error of the objective where zero serves as the bound.
        gap_upper = gap
        if problem.parent is None and criterion.is_nonnegative:
            # Zero is a lower bound too. Under a restriction (`parent` is the problem without it) it
            # is not, since the errors here lack the part that all groups share.
            gap_upper = min(gap, objective + objective_rounding)
            gap = min(gap, objective)
    else:
        gap = objective - lower_bound
        # The rounding error of this bound is not known; allow for as much as in the objective.
        bound_rounding = objective_rounding
        gap_upper = gap
    violation = max(criterion.constraint_violation(errors), 0.0)
    if problem.n_groups > 1 and criterion.requires_equal_errors:
        # The bound compares errors that are equal up to rounding only. Weights of opposite sign
        # amplify that rounding error by their distance from the proportions.
        weights = criterion.dual_feasible_weights(proof.weights, problem)
        weight_differences = np.abs(problem.proportions - weights / weights.sum())
        objective_rounding += float(weight_differences @ error_rounding)
    # The largest gap that cannot be distinguished from zero, and the magnitude of the objective,
    # with which gaps are compared.
    resolution = objective_rounding + bound_rounding
    scale = criterion.scale(errors, problem)
    # Both the gap and the constraint violation must be small. If zero is used as the bound, the
    # uncertainty is that of the objective; a bound above the objective shows how uncertain both
    # are.
    shortfall = max(abs(gap), gap_upper, violation)
    if problem.limit is not None and not is_feasible(problem.limit, basis):
        # Whatever its gap, a subspace outside the limit of the restriction is no solution.
        shortfall = np.inf
    tolerance = tol * scale
    # Under a restriction the objective includes errors that no choice changes. What may be zero
    # then is the largest error within the allowed directions.
    if problem.parent is None:
        free_magnitude = scale
    else:
        free_magnitude = criterion.largest_scaled_error(errors, problem)
    # The resolution may be small relative to the largest error (`is_small`), and the objective
    # known although it cannot be distinguished from zero (`is_zero`). The gap can be judged
    # (`is_resolvable`) in that case, or if the resolution is small relative to the objective.
    is_small = resolution <= tolerance_factor * tol * resolution_scale(problem, errors, resolution)
    is_zero = is_small and free_magnitude <= tolerance_factor * ZERO_RESOLUTIONS * resolution
    is_resolvable = is_zero or resolution <= tolerance_factor * max(tol, LOOSE_TOL) * scale
    if is_resolvable and is_small:
        tolerance = max(tolerance, resolution)
    # Scores with square roots are steep near zero: reaching the bound does not make the objective
    # certain.
    objective_uncertainty = objective_rounding if criterion.has_concave_scores else 0.0
    # Next to a large constant, the last digit of the objective may exceed the tolerance.
    last_digit = _EPSILON * abs(objective + problem.objective_offset)
    objective_uncertainty = max(objective_uncertainty, last_digit)
    if is_resolvable and max(shortfall, objective_uncertainty) <= tolerance_factor * tolerance:
        status = Status.OPTIMAL
    elif shortfall <= tolerance_factor * resolution:
        status = Status.UNRESOLVED
    else:
        status = Status.OPEN_GAP
    return Certificate(
        components=np.ascontiguousarray(encoder_columns(basis).T),
        criterion=criterion,
        n_components=problem.n_components,
        tol=tol,
        objective=objective,
        lower_bound=objective - gap,
        status=status,
        proof=proof,
        scale=scale,
        absolute_tol=tolerance,
        resolution=resolution,
        constraint_violation=violation,
        theorem_3_2_holds=criterion.theorem_3_2_holds(problem),
        groups=tuple(problem.group_labels),
        errors=errors + problem.common_error,
        total_variance=problem.unrestricted.total_variance,
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
    """Rotate the basis to principal axes, evaluate it, and return its certificate.

    Parameters
    ----------
    problem, basis, proof, tol, lower_bound
        See :func:`evaluate_solution`.
    n_eigenproblems, trace, solver
        Record of the run.

    Returns
    -------
    Certificate
    """
    certificate = evaluate_solution(
        problem, rotate_to_principal_axes(problem, basis), proof, tol=tol, lower_bound=lower_bound
    )
    return replace(certificate, n_eigenproblems=n_eigenproblems, trace=tuple(trace), solver=solver)


def unresolved_reason(
    certificate: Certificate, problem: Problem, moments: Moments, center: Any, *, is_scaled: bool
) -> str | None:
    """Reason why double precision cannot resolve the gap; None if the gap is not unresolved.

    The first that applies: a feature of much larger numbers than the others, unless features are
    scaled (`is_scaled`); an EM algorithm that has not converged; an oblique restriction, which
    shifts rows before they are projected; or an objective that is small relative to the variance.
    `center` is the point about which the errors are measured.
    """
    if certificate.status is not Status.UNRESOLVED:
        return None
    if not is_scaled:
        feature = describe_dominant_feature(moments, center)
        if feature is not None:
            return feature
    em_summary = moments.em_summary if isinstance(moments, GroupMoments) else None
    if em_summary is not None and em_summary.distance > EM_CONVERGENCE_TOL:
        return (
            "the EM algorithm ended while its models were still up to "
            f"{em_summary.distance:.0e} standard deviations from their limit"
        )
    if certificate.restriction is not None and certificate.restriction.oblique:
        return "the oblique shift depends on directions along which the rows hardly vary"
    # An objective below the resolution is only known to be no larger than that.
    scale = max(certificate.scale, certificate.resolution)
    return problem.criterion.unresolved_reason(scale, problem)


def rotate_to_principal_axes(problem: Problem, basis: FloatArray) -> FloatArray:
    """Rotate a basis within its span to the principal axes of all rows, largest variance first.

    Only columns of unit length are rotated. The basis of a soft projection, which may have more
    than d dimensions, also has shorter columns; these follow unchanged. Signs are normalized.
    """
    has_unit_length = np.linalg.norm(basis, axis=0) >= 1 - _UNIT_LENGTH_TOL
    compressed = problem.second_moments.compress(basis[:, has_unit_length])
    pooled = np.tensordot(problem.proportions, compressed, axes=1)
    axes = pooled  # empty if no column has unit length
    if len(pooled):
        _, axes, _ = graded_eigh(pooled, max_deflated=len(pooled) - 1)
    largest_first = axes[:, ::-1]
    rotated = basis[:, has_unit_length] @ largest_first
    # Products leave the columns orthonormal to about ten rounding errors, which shows in the errors
    # where little variance is lost. One Newton step reduces this to a single one.
    rotated -= rotated @ (rotated.T @ rotated - np.eye(rotated.shape[1])) / 2
    return normalize_signs(np.hstack([rotated, basis[:, ~has_unit_length]]))
