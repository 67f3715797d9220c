"""Check what a certificate claims: objective, resolution, lower bound and status."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from fairspan.certificates.certificate import Certificate
from fairspan.certificates.eigensolver import Eigensolver
from fairspan.certificates.status import ZERO_RESOLUTIONS, Status
from fairspan.linalg.rounding import AGREEMENT_TOL, EPS
from fairspan.problem.limits import is_feasible
from fairspan.problem.reduction import Reduction
from fairspan.typing import FloatArray
from fairspan.verification.compare_recomputed import Comparison, mismatches
from fairspan.verification.model_evaluation import evaluate_reduction
from fairspan.verification.tolerances import (
    ROUNDING_BOUND_FACTOR,
    ROUNDING_FACTOR,
    Tolerances,
)
from fairspan.verification.verification_failure import PASS_ROWS_HINT


@dataclass(frozen=True, eq=False)
class CertificateClaims:
    """Claims of a certificate, with the recomputed values and the tolerances of their comparison.

    Attributes
    ----------
    certificate : Certificate
        The claims.
    recomputed : Certificate
        Recomputed from the components and the proof of `certificate`.
    tolerances : Tolerances
        Largest differences between the two.
    reduction : Reduction
        The problem within the allowed directions.
    basis : (m, r) array
        Basis of the components in the coordinates of that problem.
    eigensolvers : frozenset of Eigensolver
        Those that a fit of these data may have used. They round differently from the matrices used
        here, so the smallest gap that they resolve is another one.
    has_row_spread : bool
        Whether the size of a typical row is known, which rows tell but moments do not.
    matrix_free : bool
        Whether the data are sparse rows without matrices, which prove no bound, so that a bound of
        minus infinity is an honest claim.
    """

    certificate: Certificate
    recomputed: Certificate
    tolerances: Tolerances
    reduction: Reduction
    basis: FloatArray
    eigensolvers: frozenset[Eigensolver]
    has_row_spread: bool
    matrix_free: bool = False

    @cached_property
    def claimed_status(self) -> Status:
        """Status that the certificate claims."""
        return Status(self.certificate.status)

    @property
    def claimed_gap(self) -> float:
        """Gap that the certificate claims, or its violation of a constraint if that is larger."""
        return max(abs(self.certificate.gap), self.certificate.constraint_violation)

    @property
    def is_clearly_closed(self) -> bool:
        """Whether the claimed gap is within the tolerance by more than a factor."""
        return ROUNDING_FACTOR * self.claimed_gap < self.certificate.absolute_tol

    @cached_property
    def lenient_status(self) -> Status:
        """Recomputed status, with a gap within a small factor of tolerance or resolution closed."""
        if self.recomputed.status is Status.OPTIMAL:
            return Status.OPTIMAL
        lenient = evaluate_reduction(
            self.reduction,
            self.basis,
            self.certificate.proof,
            self.certificate.tol,
            tolerance_factor=ROUNDING_FACTOR,
        )
        return lenient.status


def claim_failures(claims: CertificateClaims) -> Iterator[str]:
    """Yield a message for each claim that is wrong: figures, bound, limits and status."""
    yield from _figure_failures(claims)
    yield from _bound_failures(claims)
    yield from _limit_failures(claims)
    yield from _status_failures(claims)


def _figure_failures(claims: CertificateClaims) -> Iterator[str]:
    """Yield a message for each claimed objective, tolerance or resolution that is wrong."""
    certificate = claims.certificate
    recomputed = claims.recomputed
    tolerances = claims.tolerances
    if not 0 <= certificate.tol < 1:
        yield f"tol of the model is {certificate.tol!r}; allowed: a number from 0 to below 1."
    # Tolerance of each figure; None if both must be equal. Those in units of the objective, such as
    # its magnitude (`scale`), have the tolerance of the objective.
    tols: dict[str, float | None] = {
        "n_components": None,
        "theorem_3_2_holds": None,
        "objective": tolerances.objective,
        "scale": tolerances.objective,
        "constraint_violation": tolerances.objective,
    }
    for name, tol in tols.items():
        comparison = Comparison(getattr(recomputed, name), getattr(certificate, name), tol)
        yield from mismatches({name: comparison})
    yield from _resolution_failures(claims)
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


def _resolution_failures(claims: CertificateClaims) -> Iterator[str]:
    """Yield a message unless the claimed resolution has the recomputed order of magnitude.

    The resolution is the largest gap that double precision cannot distinguish from zero. It depends
    on the method of solving, so it may differ by a large factor.
    """
    recomputed = claims.recomputed
    tolerances = claims.tolerances
    claimed = claims.certificate.resolution
    # Rounding error bounds are of similar size for matrices in any coordinates. But a fit to the
    # rows themselves, in row coordinates or by products with sparse rows, may resolve much smaller
    # figures, so the lower limit is then relaxed.
    # Sparse rows were fitted without matrices if there is an allowance for that; the recomputed
    # resolution is one of matrices only if there is a proof to compute it from.
    may_be_sparse = tolerances.matrix_free_resolution > 0 and recomputed.proof is not None
    min_resolution = recomputed.resolution / ROUNDING_BOUND_FACTOR
    # THIN is the eigensolver of row coordinates.
    if Eigensolver.THIN in claims.eigensolvers or may_be_sparse:
        # An objective that may be zero can be exact in rows, with any small resolution.
        if recomputed.scale <= ZERO_RESOLUTIONS * recomputed.resolution:
            min_resolution = 0.0
        else:
            # A figure that is not zero has at least its own rounding error.
            last_digit = EPS * recomputed.scale / ROUNDING_FACTOR
            min_resolution = min(min_resolution, last_digit)
    # Methods that stop early, and products with sparse rows, have a resolution of their own.
    max_resolution = (
        ROUNDING_BOUND_FACTOR * recomputed.resolution
        + tolerances.method
        + tolerances.matrix_free_resolution
    )
    # Otherwise the resolution depends on where the EM algorithm ended, and nothing is compared.
    if tolerances.is_converged and not min_resolution <= claimed <= max_resolution:
        # A tolerance of zero, since the two are already known to differ by too much.
        yield from mismatches({"resolution": Comparison(recomputed.resolution, claimed, tol=0.0)})


def _bound_failures(claims: CertificateClaims) -> Iterator[str]:
    """Yield a message unless the claimed lower bound is proven and below the objective.

    Without matrices (`recomputed.proof` is None) the proof cannot be evaluated, so the claim is
    only compared with the objective. A fit to sparse rows proved no bound and may honestly claim
    minus infinity.
    """
    certificate = claims.certificate
    recomputed = claims.recomputed
    claimed = certificate.lower_bound
    tol = claims.tolerances.objective
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
    is_unbounded = claims.matrix_free and claimed == -math.inf
    # A bound may be claimed up to the tolerance of the gap below the proven one, which overstates
    # nothing; above the proven one only by rounding.
    gap_tol = min(certificate.absolute_tol, ROUNDING_FACTOR * recomputed.absolute_tol + tol)
    is_too_low = not (proven - tol - gap_tol <= claimed or is_unbounded)
    if is_too_low or claimed > proven + tol:
        yield f"The proof gives the lower bound {proven:.9g}, but the model says {claimed:.9g}."
    if recomputed.gap < -recomputed.resolution:
        yield f"The lower bound exceeds the objective by {-recomputed.gap:.1e}."


def _limit_failures(claims: CertificateClaims) -> Iterator[str]:
    """Yield a message for each limit of the restriction or the criterion that is exceeded."""
    recomputed = claims.recomputed
    limit = claims.reduction.problem.limit
    if limit is not None and not is_feasible(limit, claims.basis):
        yield "The components exceed the limit of the restriction."
    violation = recomputed.constraint_violation
    if violation > ROUNDING_FACTOR * max(recomputed.absolute_tol, recomputed.resolution):
        yield f"The groups' errors differ by {violation:.1e} more than the criterion allows."


def _status_failures(claims: CertificateClaims) -> Iterator[str]:
    """Yield a message for a status that is not justified."""
    certificate = claims.certificate
    claimed_status = claims.claimed_status
    max_gap = ROUNDING_FACTOR * max(certificate.absolute_tol, certificate.resolution)
    if claimed_status is not Status.OPEN_GAP and not claims.claimed_gap <= max_gap:
        yield f"The model is called {claimed_status}, and its own gap is {claims.claimed_gap:.1e}."
    if claims.recomputed.proof is None:
        yield from _unproven_status_failures(claims)
    else:
        yield from _proven_status_failures(claims)


def _unproven_status_failures(claims: CertificateClaims) -> Iterator[str]:
    """Yield a message for a status that is not justified, if no bound can be recomputed.

    Nor can the gap: only statuses that need no proven bound are accepted, and the claimed gap must
    agree with them.
    """
    certificate = claims.certificate
    claimed_status = claims.claimed_status
    # A fit with matrices stores a proof, without which it may claim no more than an open gap. The
    # bound of a fit without matrices relies on iterations, so it may be called "estimated".
    has_matrices = claims.reduction.problem.second_moments.has_matrices
    unproven_status = Status.OPEN_GAP if has_matrices else Status.ESTIMATED
    if claimed_status not in (Status.OPEN_GAP, unproven_status):
        yield f"The model is called {claimed_status}, but its lower bound cannot be verified."
    # A gap that is within the tolerance must not be called open, if double precision can tell.
    is_resolved = certificate.resolution <= certificate.absolute_tol
    if claimed_status is Status.OPEN_GAP and is_resolved and claims.is_clearly_closed:
        yield _closed_gap_message(claims)


def _proven_status_failures(claims: CertificateClaims) -> Iterator[str]:
    """Yield a message for a status that the recomputed gap does not justify."""
    recomputed = claims.recomputed
    may_use_row_coordinates = Eigensolver.THIN in claims.eigensolvers
    if not _is_justified(claims):
        message = (
            f"The model is called {claims.certificate.status_text}, but the recomputed status is "
            f"{recomputed.status} with a gap of {recomputed.gap:.1e}."
        )
        # Moments cannot tell an objective near zero from zero; the rank of the rows and the size of
        # a typical one (their spread) can.
        rows_would_help = recomputed.may_be_zero and not claims.has_row_spread
        is_unresolved = claims.lenient_status is Status.UNRESOLVED
        if is_unresolved and (may_use_row_coordinates or rows_would_help):
            message += PASS_ROWS_HINT
        yield message
    # A gap that is closed must not be called open, nor unresolved. A fit in row coordinates or
    # without matrices may resolve less than the matrices here: it may call the gap unresolved. The
    # claimed gap must be within the tolerance by more than a factor, since gaps are rounded.
    may_resolve_less = may_use_row_coordinates or Eigensolver.MATRIX_FREE in claims.eigensolvers
    claims_open = claims.claimed_status is Status.OPEN_GAP or (
        claims.claimed_status is Status.UNRESOLVED and not may_resolve_less
    )
    if claims_open and recomputed.status is Status.OPTIMAL and claims.is_clearly_closed:
        yield _closed_gap_message(claims)


def _closed_gap_message(claims: CertificateClaims) -> str:
    """Message for a gap that is called open although it is clearly within the tolerance."""
    return (
        f"The model is called {claims.claimed_status}, but its own gap of "
        f"{claims.claimed_gap:.1e} is within the tolerance."
    )


def _is_justified(claims: CertificateClaims) -> bool:
    """Whether the claimed status is justified by the status with larger tolerances."""
    certificate = claims.certificate
    recomputed = claims.recomputed
    tolerances = claims.tolerances
    is_optimal = claims.lenient_status is Status.OPTIMAL
    # Another method of solving, such as one without matrices, may have found such a gap closed.
    is_within_method_tol = recomputed.gap <= tolerances.method
    # The weakest claim needs no justification; the caller rejects it if the gap is closed.
    if claims.claimed_status is Status.OPEN_GAP:
        return True
    if claims.claimed_status is Status.UNRESOLVED:
        return claims.lenient_status is not Status.OPEN_GAP or is_within_method_tol
    if claims.claimed_status is Status.ESTIMATED:
        # Only iterations without matrices produce this status.
        may_be_sparse = Eigensolver.MATRIX_FREE in claims.eigensolvers
        return may_be_sparse and (is_optimal or is_within_method_tol)
    # The claim is "optimal". Moments of the same rows may differ in their last digits, and leave
    # unresolved what the fit could resolve: then a gap of a few rounding errors of the variance is
    # accepted. But beside an objective that may be zero, even such a gap is large.
    is_within_tol = claims.claimed_gap <= certificate.absolute_tol and not recomputed.may_be_zero
    if claims.lenient_status is Status.UNRESOLVED and is_within_tol:
        return abs(recomputed.gap) <= tolerances.gap
    return is_optimal
