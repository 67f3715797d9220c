"""Evaluate solutions: objective, bound and gap of a subspace, and its certificate.

A certificate is the only record of a solution. A solver returns a subspace and weights; objective,
bound, gap and status are computed here and in :mod:`fairspan.certificates.status`, so that no
solver can claim more than it proved.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fairspan.certificates.certificate import Certificate
from fairspan.certificates.certificate_parts import (
    ProblemStatement,
    RunRecord,
    SolutionFigures,
    TracePoint,
)
from fairspan.certificates.error_rounding import MeasuredErrors, measure_errors
from fairspan.certificates.proofs import Proof
from fairspan.certificates.status import MeasuredGap, Status, UnresolvedReason, assess_gap
from fairspan.linalg import graded_eigh, normalize_signs
from fairspan.linalg.rounding import LOOSE_TOL, SUM_ROUNDING
from fairspan.moments.base_moments import Center
from fairspan.moments.compute import Moments
from fairspan.moments.projector import encoder_columns
from fairspan.problem.feature_scale import describe_dominant_feature
from fairspan.problem.limits import is_feasible
from fairspan.problem.problem import Problem
from fairspan.typing import FloatArray

# Largest distance of the EM algorithm from its limit, in standard deviations, that is not reported
# as the reason of an unresolved gap: smaller distances are about as large as rounding.
EM_CONVERGENCE_TOL = 1e-11


def evaluate_solution(
    problem: Problem,
    basis: FloatArray,
    proof: Proof | FloatArray,
    *,
    tol: float,
    lower_bound: float | None = None,
    tolerance_factor: float = 1.0,
    known_errors: MeasuredErrors | None = None,
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
    known_errors : MeasuredErrors, optional
        Errors of the basis, if they are known already.

    Returns
    -------
    Certificate
        Without the record of the run (solver, trace, number of eigenproblems), which is unknown
        here.
    """
    proof = proof if isinstance(proof, Proof) else Proof(proof)
    criterion = problem.criterion
    measured_errors = known_errors or measure_errors(problem, basis)
    errors = measured_errors.values
    gap = _measure_gap(problem, basis, proof, measured_errors, lower_bound)
    violation = max(criterion.constraint_violation(errors), 0.0)
    is_within_limit = problem.limit is None or is_feasible(problem.limit, basis)
    return Certificate(
        components=np.ascontiguousarray(encoder_columns(basis).T),
        statement=ProblemStatement(
            criterion=criterion,
            n_components=problem.n_components,
            groups=tuple(problem.group_labels),
            theorem_3_2_holds=criterion.theorem_3_2_holds(problem),
        ),
        figures=SolutionFigures(
            objective=gap.objective,
            # With the error outside the allowed directions that all groups share.
            errors=errors + problem.embedding.common_error,
            total_variance=problem.unrestricted.total_variance,
            constraint_violation=violation,
        ),
        lower_bound=gap.objective - gap.value,
        proof=proof,
        assessment=assess_gap(
            problem,
            errors,
            gap,
            # Whatever its gap, a subspace outside the limit of the restriction is no solution.
            violation=violation if is_within_limit else np.inf,
            tol=tol,
            tolerance_factor=tolerance_factor,
        ),
    )


def _measure_gap(
    problem: Problem,
    basis: FloatArray,
    proof: Proof,
    measured_errors: MeasuredErrors,
    lower_bound: float | None,
) -> MeasuredGap:
    """Measure the gap between the objective at a basis and its lower bound.

    Parameters
    ----------
    problem : Problem
    basis : (p, r) array
    proof : Proof
        Proof of the bound.
    measured_errors : MeasuredErrors
        Errors of the basis within the allowed directions.
    lower_bound : float or None
        Bound that was established otherwise; None to compute it from the proof.
    """
    criterion = problem.criterion
    errors = measured_errors.values
    error_rounding = measured_errors.rounding
    objective = criterion.value(errors, problem)
    objective_rounding = criterion.rounding_bound(error_rounding, errors, problem)
    if lower_bound is not None:
        gap = objective - lower_bound
        max_gap = gap
        # The rounding error of this bound is not known; allow for as much as in the objective.
        bound_rounding = objective_rounding
    else:
        # Both gaps contain the rounding error of the bound already. `gap` takes the objective as
        # computed; `max_gap` adds its rounding error where zero, which is exact, is the bound.
        gap, bound_rounding = proof.gap(problem, basis, errors)
        max_gap = gap
        if problem.embedding.parent is None and criterion.is_nonnegative:
            # Zero is a lower bound too. Under a restriction (`parent` is the problem without it) it
            # is not, since the errors here lack the part that all groups share.
            max_gap = min(gap, objective + objective_rounding)
            gap = min(gap, objective)
    if problem.n_groups > 1:
        objective_rounding += criterion.constraint_rounding(error_rounding, proof.weights, problem)
    return MeasuredGap(
        objective=objective,
        objective_rounding=objective_rounding,
        value=gap,
        max_value=max_gap,
        bound_rounding=bound_rounding,
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
    run = RunRecord(solver=solver, n_eigenproblems=n_eigenproblems, trace=tuple(trace))
    return replace(certificate, run=run)


def unresolved_reason(
    certificate: Certificate, problem: Problem, moments: Moments, center: Center, *, is_scaled: bool
) -> UnresolvedReason | None:
    """Reason why double precision cannot resolve the gap; None if the gap is not unresolved.

    The first that applies: a feature of much larger numbers than the others, unless features are
    scaled (`is_scaled`); an EM algorithm that has not converged; an oblique restriction, which
    shifts rows before they are projected; a restriction that selects directions, where rounding
    decides which; or an objective that is small relative to the variance.
    `center` is the point about which the errors are measured.
    """
    if certificate.status is not Status.UNRESOLVED:
        return None
    if not is_scaled:
        feature = describe_dominant_feature(moments, center)
        if feature is not None:
            return UnresolvedReason(feature, scaling_helps=True)
    if moments.em_distance > EM_CONVERGENCE_TOL:
        return UnresolvedReason(
            "the EM algorithm ended while its models were still up to "
            f"{moments.em_distance:.0e} standard deviations from their limit"
        )
    if certificate.restriction is not None and certificate.restriction.oblique:
        return UnresolvedReason(
            "the oblique shift depends on directions along which the rows hardly vary"
        )
    if certificate.restriction is not None and certificate.restriction.selects_by_covariances:
        # Rounding errors of second moments are far smaller.
        max_variance = float((problem.second_moments.traces / problem.divisors).max())
        if certificate.resolution > LOOSE_TOL * max_variance:
            return UnresolvedReason("rounding decides which directions the restriction selects")
    # An objective below the resolution is only known to be no larger than that.
    scale = max(certificate.scale, certificate.resolution)
    return UnresolvedReason(problem.criterion.unresolved_reason(scale, problem))


def rotate_to_principal_axes(problem: Problem, basis: FloatArray) -> FloatArray:
    """Rotate a basis within its span to the principal axes of all rows, largest variance first.

    Only columns of unit length are rotated. The basis of a soft projection, which may have more
    than d dimensions, also has shorter columns; these follow unchanged. Signs are normalized.
    """
    has_unit_length = np.linalg.norm(basis, axis=0) >= 1 - SUM_ROUNDING
    compressed = problem.second_moments.compress(basis[:, has_unit_length])
    pooled = np.tensordot(problem.proportions, compressed, axes=1)
    axes = pooled  # empty if no column has unit length
    if len(pooled):
        # Axes of large variance are split off step by step, at most all but one, so that those of
        # small variance are accurate too.
        axes = graded_eigh(pooled, max_deflated=len(pooled) - 1).vectors
    largest_first = axes[:, ::-1]
    rotated = basis[:, has_unit_length] @ largest_first
    return normalize_signs(reorthonormalize(np.hstack([rotated, basis[:, ~has_unit_length]])))


def reorthonormalize(basis: FloatArray) -> FloatArray:
    """Correct columns of unit length, which products leave orthonormal to about ten roundings.

    This would show in errors where little variance is lost. One Newton step reduces it to a single
    rounding. Shorter columns, of the basis of a soft projection, are unchanged and come last.
    """
    has_unit_length = np.linalg.norm(basis, axis=0) >= 1 - SUM_ROUNDING
    unit = basis[:, has_unit_length]
    corrected = unit - unit @ (unit.T @ unit - np.eye(unit.shape[1])) / 2
    return np.hstack([corrected, basis[:, ~has_unit_length]])
