"""Check what a certificate claims: objective, resolution, lower bound and status."""

import math
from collections.abc import Iterator

import numpy as np

from fairspan.certificates.certificate import Certificate
from fairspan.certificates.status import Status
from fairspan.problem.limits import is_feasible
from fairspan.problem.reduction import Reduction
from fairspan.typing import FloatArray
from fairspan.verification.comparisons import mismatches
from fairspan.verification.evaluation import evaluate_reduction
from fairspan.verification.failure import PASS_ROWS_HINT
from fairspan.verification.tolerances import (
    AGREEMENT_TOL,
    ROUNDING_BOUND_FACTOR,
    ROUNDING_FACTOR,
    ZERO_ROUNDINGS,
    Tolerances,
)

_EPSILON = float(np.finfo(np.float64).eps)


def certificate_failures(
    recomputed: Certificate,
    certificate: Certificate,
    tolerances: Tolerances,
    *,
    matrix_free: bool = False,
    may_use_row_space: bool = False,
) -> Iterator[str]:
    """Yield a message for each claimed objective, tolerance, resolution or bound that is wrong.

    Parameters
    ----------
    recomputed, certificate : Certificate
        Recomputed from the components and the proof; and the claims.
    tolerances : Tolerances
    matrix_free : bool
        Whether the fit used sparse rows, which prove no bound, so that a bound of minus infinity is
        an honest claim.
    may_use_row_space : bool
        Whether the fit may have used row coordinates, which round differently.
    """
    if not 0 <= certificate.tol < 1:
        yield f"tol of the model is {certificate.tol!r}; allowed: a number from 0 to below 1."
    # Tolerance of each figure; None if both must be equal.
    tols: dict[str, float | None] = {
        "n_components": None,
        "theorem_3_2_holds": None,
        "objective": tolerances.objective,
        "scale": tolerances.objective,
        "constraint_violation": tolerances.objective,
    }
    for name, tol in tols.items():
        yield from mismatches({name: (getattr(recomputed, name), getattr(certificate, name), tol)})
    yield from _resolution_failures(
        recomputed, certificate, tolerances, may_use_row_space=may_use_row_space
    )
    # A fit sets the absolute tolerance to one of these two figures, which are compared themselves.
    relative_tol = certificate.tol * certificate.scale
    resolution_tol = max(relative_tol, certificate.resolution)
    if not any(
        math.isclose(certificate.absolute_tol, expected, rel_tol=AGREEMENT_TOL)
        for expected in (relative_tol, resolution_tol)
    ):
        yield (
            f"tolerance = {relative_tol:.9g}, or {resolution_tol:.9g} with the resolution, but the "
            f"model says {certificate.absolute_tol:.9g}."
        )
    yield from _bound_failures(recomputed, certificate, tolerances, matrix_free=matrix_free)


def _resolution_failures(
    recomputed: Certificate,
    certificate: Certificate,
    tolerances: Tolerances,
    *,
    may_use_row_space: bool,
) -> Iterator[str]:
    """Yield a message unless the claimed resolution has the recomputed order of magnitude.

    It depends on the method of solving, so it may differ by a large factor.
    """
    # Rounding error bounds are of similar size for matrices in any coordinates. But a fit to the
    # rows themselves may resolve much smaller figures, so the lower limit is then relaxed.
    may_be_sparse = tolerances.matrix_free_resolution > 0 and recomputed.proof is not None
    min_resolution = recomputed.resolution / ROUNDING_BOUND_FACTOR
    if may_use_row_space or may_be_sparse:
        # An objective that may be zero can be exact in rows, with any small resolution.
        if recomputed.scale <= ZERO_ROUNDINGS * recomputed.resolution:
            min_resolution = 0.0
        else:
            # A figure that is not zero has at least its own rounding error.
            last_digit = _EPSILON * recomputed.scale / ROUNDING_FACTOR
            min_resolution = min(min_resolution, last_digit)
    max_resolution = (
        ROUNDING_BOUND_FACTOR * recomputed.resolution
        + tolerances.method
        + tolerances.matrix_free_resolution
    )
    is_similar = min_resolution <= certificate.resolution <= max_resolution
    if tolerances.is_converged and not is_similar:
        # A tolerance of zero, since the two are already known to differ by too much.
        yield from mismatches({"resolution": (recomputed.resolution, certificate.resolution, 0.0)})


def _bound_failures(
    recomputed: Certificate,
    certificate: Certificate,
    tolerances: Tolerances,
    *,
    matrix_free: bool,
) -> Iterator[str]:
    """Yield a message unless the claimed lower bound is proven and below the objective.

    Without matrices (`recomputed.proof` is None) the proof cannot be evaluated, so the claim is
    only compared with the objective. If the fit used sparse rows (`matrix_free`), it proved no
    bound and may honestly claim minus infinity.
    """
    claimed = certificate.lower_bound
    tol = tolerances.objective
    is_unproven = certificate.proof is None and claimed > -math.inf
    if math.isnan(claimed) or claimed == math.inf or is_unproven:
        yield f"The model has no proof of its lower bound {claimed!r}."
    # Rounding may put a bound above the objective by the resolution of the fit. The model only
    # claims this resolution, so it counts up to a multiple of the tolerance.
    objective_tol = max(tol, min(certificate.resolution, ROUNDING_BOUND_FACTOR * tol))
    if not claimed <= certificate.objective + objective_tol:
        yield f"The model says a lower bound of {claimed:.9g} and an objective below that."
    if recomputed.proof is None:
        return
    proven = recomputed.lower_bound
    is_unbounded = matrix_free and claimed == -math.inf
    # A bound may be claimed up to the tolerance of the gap below the proven one, which overstates
    # nothing; above the proven one only by rounding.
    gap_tol = min(certificate.absolute_tol, ROUNDING_FACTOR * recomputed.absolute_tol + tol)
    is_too_low = not (proven - tol - gap_tol <= claimed or is_unbounded)
    if is_too_low or claimed > proven + tol:
        yield f"The proof gives the lower bound {proven:.9g}, but the model says {claimed:.9g}."
    if recomputed.gap < -recomputed.resolution:
        yield f"The lower bound exceeds the objective by {-recomputed.gap:.1e}."


def status_failures(
    reduction: Reduction,
    basis: FloatArray,
    recomputed: Certificate,
    certificate: Certificate,
    tolerances: Tolerances,
    *,
    may_be_sparse: bool,
    may_use_row_space: bool,
    has_row_spread: bool,
) -> Iterator[str]:
    """Yield a message for each exceeded limit, and for a status that is not justified.

    Parameters
    ----------
    reduction : Reduction
        The problem within the allowed directions.
    basis : (m, r) array
        Basis of the components in the coordinates of that problem.
    recomputed, certificate : Certificate
        Recomputed from the components and the proof; and the claims.
    tolerances : Tolerances
    may_be_sparse, may_use_row_space : bool
        Whether a fit of these data may avoid matrices, or use row coordinates. Both round
        differently from matrices, so the smallest gap that they resolve is another one.
    has_row_spread : bool
        Whether the size of a typical row is known, which rows tell but moments do not.
    """
    problem = reduction.problem
    claimed_status = Status(certificate.status)
    if problem.limit is not None and not is_feasible(problem.limit, basis):
        yield "The components exceed the limit of the restriction."
    violation = recomputed.constraint_violation
    if violation > ROUNDING_FACTOR * max(recomputed.absolute_tol, recomputed.resolution):
        yield f"The groups' errors differ by {violation:.1e} more than the criterion allows."
    claimed_gap = max(abs(certificate.gap), certificate.constraint_violation)
    max_gap = ROUNDING_FACTOR * max(certificate.absolute_tol, certificate.resolution)
    if claimed_status is not Status.OPEN_GAP and not claimed_gap <= max_gap:
        yield f"The model is called {claimed_status}, and its own gap is {claimed_gap:.1e}."
    # A gap that is clearly within the tolerance must not be called open.
    is_closed = ROUNDING_FACTOR * claimed_gap < certificate.absolute_tol
    closed_message = (
        f"The model is called {claimed_status}, but its own gap of {claimed_gap:.1e} is within the "
        "tolerance."
    )
    if recomputed.proof is None:
        # The bound, and hence the gap, cannot be recomputed: only statuses that need no proven
        # bound are accepted, and the claimed gap must agree with them.
        unproven_status = Status.OPEN_GAP if problem.has_matrices else Status.ESTIMATED
        if claimed_status not in (Status.OPEN_GAP, unproven_status):
            yield f"The model is called {claimed_status}, but its lower bound cannot be verified."
        is_resolved = certificate.resolution <= certificate.absolute_tol
        if claimed_status is Status.OPEN_GAP and is_resolved and is_closed:
            yield closed_message
        return
    lenient_status = recomputed.status
    if lenient_status is not Status.OPTIMAL:
        # Accept a gap within a small factor of the tolerance or the resolution.
        lenient = evaluate_reduction(
            reduction, basis, certificate.proof, certificate.tol, ROUNDING_FACTOR
        )
        lenient_status = lenient.status
    if not _is_justified(
        claimed_status,
        lenient_status,
        recomputed,
        certificate,
        tolerances,
        may_be_sparse=may_be_sparse,
    ):
        message = (
            f"The model is called {certificate.status_text}, but the recomputed status is "
            f"{recomputed.status} with a gap of {recomputed.gap:.1e}."
        )
        rows_would_help = recomputed.may_be_zero and not has_row_spread
        if lenient_status is Status.UNRESOLVED and (may_use_row_space or rows_would_help):
            message += PASS_ROWS_HINT
        yield message
    # A gap that is closed must not be called open, nor unresolved. A fit in row coordinates or
    # without matrices may resolve less than the matrices here: it may call the gap unresolved.
    may_resolve_less = may_use_row_space or may_be_sparse
    claims_open = claimed_status is Status.OPEN_GAP or (
        claimed_status is Status.UNRESOLVED and not may_resolve_less
    )
    if claims_open and recomputed.status is Status.OPTIMAL and is_closed:
        yield closed_message


def _is_justified(
    claimed_status: Status,
    lenient_status: Status,
    recomputed: Certificate,
    certificate: Certificate,
    tolerances: Tolerances,
    *,
    may_be_sparse: bool,
) -> bool:
    """Whether a claimed status is justified by the status with larger tolerances.

    Parameters
    ----------
    claimed_status, lenient_status : Status
        That of the certificate, and that of the same gap with tolerance and resolution multiplied
        by a small factor.
    recomputed, certificate : Certificate
        Recomputed from the components and the proof; and the claims.
    tolerances : Tolerances
    may_be_sparse : bool
        Whether a fit may have avoided matrices.
    """
    is_optimal = lenient_status is Status.OPTIMAL
    # Another method of solving, such as one without matrices, may have found such a gap closed.
    is_within_method_tol = recomputed.gap <= tolerances.method
    # The weakest claim needs no justification; the caller rejects it if the gap is closed.
    if claimed_status is Status.OPEN_GAP:
        return True
    if claimed_status is Status.UNRESOLVED:
        return lenient_status is not Status.OPEN_GAP or is_within_method_tol
    if claimed_status is Status.ESTIMATED:
        # Only iterations without matrices produce this status.
        return may_be_sparse and (is_optimal or is_within_method_tol)
    claimed_gap = max(abs(certificate.gap), certificate.constraint_violation)
    is_within_tol = claimed_gap <= certificate.absolute_tol and not recomputed.may_be_zero
    if lenient_status is Status.UNRESOLVED and is_within_tol:
        # Moments of the same rows may differ in their last digits.
        return abs(recomputed.gap) <= tolerances.gap
    return is_optimal
