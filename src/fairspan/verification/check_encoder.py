"""Checks of the encoders of oblique projections."""

import math
from collections.abc import Iterator

import numpy as np

from fairspan.linalg.rounding import (
    AGREEMENT_TOL,
    EIGENVALUE_ROUNDING,
    ENTRY_TERMS,
    EPS,
    RANK_TERMS,
    ZERO_EIGENVALUE,
)
from fairspan.model.subspace import FairSubspace
from fairspan.moments.compute import Moments
from fairspan.moments.projector import Projector
from fairspan.moments.second_moments import reconstruction_errors
from fairspan.moments.wide import MAX_WIDE_FEATURES
from fairspan.problem.build_family import build_problem_family
from fairspan.problem.family import ProblemFamily
from fairspan.problem.oblique import ObliqueShift
from fairspan.problem.reduction import Reduction
from fairspan.typing import FloatArray
from fairspan.verification.check_components import feature_deviations, forbidden_rotation
from fairspan.verification.tolerances import (
    ORTHONORMALITY_TOL,
)
from fairspan.verification.verification_failure import VerificationFailure


def check_oblique(subspace: FairSubspace, reduction: Reduction) -> None:
    """Check that the model has a separate decoder if and only if the restriction is oblique."""
    has_oblique_shift = reduction.oblique_shift is not None
    if subspace.is_oblique and not has_oblique_shift:
        raise VerificationFailure(
            "The model has a separate decoder, and its restriction is not oblique."
        )
    if has_oblique_shift and not subspace.is_oblique:
        raise VerificationFailure(
            "The restriction is oblique, and the model has no separate decoder."
        )


def projector_errors(reduction: Reduction, projector: Projector, basis: FloatArray) -> FloatArray:
    """Error of each group under the projection of a model, shape (k,).

    An oblique restriction shifts rows before it projects them, so that the group means agree; its
    encoder then differs from the transpose of the decoder, and is checked as well.

    Parameters
    ----------
    reduction : Reduction
        The problem that the certificate names, within the allowed directions, with the shift of the
        rows if the restriction is oblique. Errors are those of the rows before any shift.
    projector : Projector
        Encoder and decoder of the model, in the coordinates of the problem.
    basis : (p, r) array
        Basis of the components; used without an oblique restriction.

    Raises
    ------
    VerificationFailure
        An oblique encoder leaves differences of the means, or is not the best for its decoder.
    """
    problem = reduction.problem
    unrestricted = problem.unrestricted
    shift = reduction.oblique_shift
    if shift is None:
        return unrestricted.second_moments.residual_variances(basis)
    abs_encoder = np.abs(projector.encoder)
    # The forbidden directions, in which groups differ, come from rounded group means: the encoder
    # may leave what the rounding error of a mean, relative to the center, becomes when encoded.
    # Columns of `forbidden` are in units of the features, of the size of their spread.
    mean_rounding = abs_encoder @ unrestricted.dense_moments.offset_rounding_error
    remaining_means = np.abs(projector.encoder @ shift.forbidden)
    tol = abs_encoder @ np.abs(shift.forbidden) * ORTHONORMALITY_TOL
    if not (remaining_means <= tol + ENTRY_TERMS * mean_rounding[:, None]).all():
        # Relative to the means before encoding, which are the tolerance without its factor.
        fraction = float((remaining_means / tol).max() * ORTHONORMALITY_TOL)
        raise VerificationFailure(
            "The encoder does not remove the differences of the means: "
            f"{fraction:.1e} of them remains."
        )
    errors = reconstruction_errors(projector, unrestricted.second_moments)
    # The smallest total error of any encoder with this decoder: that of the decoder's subspace on
    # the shifted rows, plus the variance lost by shifting.
    best_total_error = problem.objective(projector.basis) + problem.objective_offset
    excess = float(unrestricted.proportions @ errors) - best_total_error
    rounding = unrestricted.total_variance * EIGENVALUE_ROUNDING + shift.rounding
    if not excess <= AGREEMENT_TOL * best_total_error + rounding:
        raise VerificationFailure(
            f"The encoder loses {excess:.1e} more than the best one for its decoder."
        )
    return errors


def check_encoder(
    subspace: FairSubspace, family: ProblemFamily, reduction: Reduction, moments: Moments
) -> None:
    """Check that an oblique encoder is the one that follows from its decoder.

    This compares the encoder itself. Its errors on the rows of the fit would not show a change
    along directions in which these rows do not vary, but other rows may vary along them.

    An oblique restriction shifts rows along its forbidden directions, the differences of the means.
    The encoder solves a linear system with the pooled second moment, so its rounding error grows
    with the condition number of that; an error of the forbidden directions, which rotates them,
    grows with its square root. Fits of the same rows by different methods return different
    encoders, of which one must match.

    Raises
    ------
    VerificationFailure
    """
    shift = reduction.oblique_shift
    if shift is None:
        return
    # Condition number of the pooled second moment, scaled to unit diagonal, on the span of the
    # rows: eigenvalues that are zero up to rounding are left out.
    unrestricted = reduction.problem.unrestricted
    pooled = unrestricted.dense_moments.mixture(unrestricted.proportions)
    pooled_deviations = _nonzero(np.sqrt(np.maximum(np.diag(pooled), 0.0)))
    eigenvalues = np.linalg.eigvalsh(pooled / pooled_deviations / pooled_deviations[:, None])
    positive = eigenvalues[eigenvalues > ZERO_EIGENVALUE * eigenvalues[-1]]
    condition = float(eigenvalues[-1] / positive[0]) if positive.size else 1.0
    # Angle by which rounded means rotate the forbidden directions.
    rotation = forbidden_rotation(moments, subspace.require_certificate().restriction)
    # Encoders of the same rows in another order differed by up to 9 EPS times the condition number.
    tol = AGREEMENT_TOL + EPS * RANK_TERMS * condition
    tol += rotation * math.sqrt(condition)
    # Standard deviations of the scaled features about the mean of all rows, so that differences do
    # not depend on units. Features without variance are left as they are.
    deviations = _nonzero(feature_deviations(moments, subspace.row_frame.scale, center="global"))
    min_difference = math.inf
    for expected in _expected_encoders(subspace, family, shift, moments):
        lengths = np.linalg.norm(expected * deviations, axis=1, keepdims=True)
        differences = np.abs(subspace.components - expected) * deviations / _nonzero(lengths)
        min_difference = min(min_difference, float(differences.max()))
    if not min_difference <= tol:
        raise VerificationFailure(
            f"The encoder differs from that of its decoder by {min_difference:.1e} of its length, "
            "perhaps along directions in which the rows of the fit do not vary."
        )


def _nonzero(divisors: FloatArray) -> FloatArray:
    """Divisors with one in place of zero."""
    return np.where(divisors > 0, divisors, 1.0)


def _expected_encoders(
    subspace: FairSubspace, family: ProblemFamily, shift: ObliqueShift, moments: Moments
) -> Iterator[FloatArray]:
    """Yield each (d, p) encoder that a fit with this decoder may have returned.

    An oblique restriction multiplies rows by a (p, p) matrix, `shift.matrix`, that removes the
    differences of the group means, and then by the decoder's transpose. Fits to rows, to row
    coordinates and to moments return different encoders. All have the same effect on the rows of
    the fit, and differ in directions along which these do not vary: the complement of the rows is
    taken in the features or in the standardized features.
    """
    decoder = subspace.projector.decoder
    coordinates = family.coordinates
    if coordinates is not None:
        # First the encoder of a fit in row coordinates, then that of a fit in the features.
        row_encoder = coordinates.project(decoder).T @ shift.matrix
        yield coordinates.lift(row_encoder.T).T
        if moments.n_features > MAX_WIDE_FEATURES:
            # Matrices of so many features would take too much time and memory here.
            return
        certificate = subspace.require_certificate()
        # About the mean of all rows, as every oblique restriction requires.
        feature_family = build_problem_family(
            moments.to_dense(),
            subspace.dimension,
            certificate.criterion,
            restriction=certificate.restriction,
            feature_scale=subspace.scale,
        )
        feature_shift = feature_family.reduction_at(subspace.dimension).oblique_shift
        assert feature_shift is not None
        yield decoder.T @ feature_shift.matrix
        return
    expected = decoder.T @ shift.matrix
    yield expected
    if moments.counts.sum() <= moments.n_features:
        # A fit in row coordinates shifts rows within their span only: the eigenvectors of the
        # pooled second moment whose eigenvalues are not zero.
        problem = family.template
        pooled = problem.dense_moments.mixture(problem.proportions)
        eigenvalues, vectors = np.linalg.eigh(pooled)
        span = vectors[:, eigenvalues > ZERO_EIGENVALUE * eigenvalues[-1]]
        yield decoder.T + (expected - decoder.T) @ span @ span.T
