"""Pose the problem that a certificate names for given data, and evaluate the model in it."""

from fairspan.certificates.certificate import Certificate
from fairspan.certificates.eigensolver import Eigensolver
from fairspan.certificates.status import Status
from fairspan.model.subspace import FairSubspace
from fairspan.moments.compute import Moments
from fairspan.moments.projector import Projector
from fairspan.moments.second_moments import error_reduction_by_component
from fairspan.problem.build_family import build_problem_family
from fairspan.problem.family import ProblemFamily
from fairspan.problem.reduction import Reduction
from fairspan.problem.restrictions.restriction import Restriction
from fairspan.typing import FloatArray, ModelLike
from fairspan.verification.check_components import (
    basis_in_coordinates,
    largest_outside_norm,
    restrict_basis,
)
from fairspan.verification.check_encoder import check_encoder, check_oblique, projector_errors
from fairspan.verification.model_evaluation import Evaluation, evaluate_reduction
from fairspan.verification.tolerances import (
    ORTHONORMALITY_TOL,
)
from fairspan.verification.verification_failure import PASS_ROWS_HINT, VerificationFailure
from fairspan.verification.verified_data import (
    VerifiedData,
    check_same_data,
)


def evaluate_model(model: ModelLike, subspace: FairSubspace, data: VerifiedData) -> Evaluation:
    """Pose the problem that the certificate names, and evaluate components and proof in it.

    Parameters
    ----------
    model : FairPCA or FairSubspace
    subspace : FairSubspace
        That of the model.
    data : VerifiedData

    Raises
    ------
    VerificationFailure
        The components or the encoder are not those of such a problem.
    """
    moments = data.moments
    certificate = subspace.require_certificate()
    check_same_data(subspace, certificate, moments)
    family = build_problem_family(
        moments,
        subspace.dimension,
        certificate.criterion,
        restriction=certificate.restriction,
        center=subspace.center,
        feature_scale=subspace.scale,
        allow_extra=subspace.is_soft,
    )
    reduction = family.reduction_at(subspace.dimension)
    # An oblique restriction shifts rows before they are projected, so that the group means agree:
    # its models have a decoder besides the encoder, and no other models do.
    check_oblique(subspace, reduction)
    # Few rows span few coordinates. A fit may use these instead of the features, and then its
    # figures round differently from those of matrices.
    rows_would_help = Eigensolver.THIN in data.eigensolvers and family.coordinates is None
    if rows_would_help:
        _check_oblique_rounding(reduction, certificate)
    projector, basis = _project_to_coordinates(subspace.projector, family)
    errors = projector_errors(reduction, projector, basis)
    check_encoder(subspace, family, reduction, moments)
    variances_kept = error_reduction_by_component(
        projector, reduction.problem.unrestricted.second_moments
    )
    # The basis within the allowed directions, and the norm of what lies outside of them.
    basis, outside_norm = restrict_basis(reduction, basis)
    _check_allowed_directions(
        outside_norm, moments, certificate.restriction, rows_would_help=rows_would_help
    )
    return Evaluation(
        model=model,
        subspace=subspace,
        data=data,
        family=family,
        reduction=reduction,
        projector=projector,
        basis=basis,
        outside_norm=outside_norm,
        errors=errors,
        variances_kept=variances_kept,
        recomputed=evaluate_reduction(reduction, basis, certificate.proof, certificate.tol),
    )


def _check_oblique_rounding(reduction: Reduction, certificate: Certificate) -> None:
    """Check that moments of few rows tell the cost of an oblique restriction precisely enough.

    Such a restriction shifts rows before they are projected, so that the group means agree. The
    cost is the variance lost by the shift, which moments tell only up to a rounding error.

    Raises
    ------
    VerificationFailure
        Rounding exceeds the tolerance; the rows themselves are more precise.
    """
    rounding = reduction.problem.rounding.oblique_shift
    claims_precision = certificate.status is not Status.UNRESOLVED
    if claims_precision and rounding > certificate.absolute_tol:
        raise VerificationFailure(
            f"From moments, the cost of the restriction is known only up to {rounding:.1e}, and "
            f"the tolerance is {certificate.absolute_tol:.1e}.{PASS_ROWS_HINT}"
        )


def _project_to_coordinates(
    projector: Projector, family: ProblemFamily
) -> tuple[Projector, FloatArray]:
    """Express a projector and the basis of its components in the coordinates of the problem.

    These are the features or, for fewer rows than features, coordinates in the span of the rows. Of
    the components, only the part within that span is kept; their basis is made orthogonal again,
    without directions outside the span. The projector has to map rows as the model does, so its
    columns, those of the encoder and of a decoder that is another matrix, are projected as they
    are.
    """
    coordinates = family.coordinates
    if coordinates is None:
        return projector, projector.basis
    basis = basis_in_coordinates(coordinates.project(projector.basis))
    columns = coordinates.project(projector.stacked_columns)
    return projector.with_stacked_columns(columns), basis


def _check_allowed_directions(
    outside_norm: float,
    moments: Moments,
    restriction: Restriction | None,
    *,
    rows_would_help: bool,
) -> None:
    """Check that components lie in the directions that the restriction allows, up to rounding.

    Parameters
    ----------
    outside_norm : float
        Norm of the part of the components outside the allowed directions.
    moments : GroupMoments, SparseMoments or WideMoments
    restriction : Restriction or None
    rows_would_help : bool
        Whether the rows themselves would be more precise than these moments.

    Raises
    ------
    VerificationFailure
    """
    # The limit for rounded means is computed only if needed: it costs a decomposition of the means.
    if outside_norm <= ORTHONORMALITY_TOL:
        return
    if outside_norm > largest_outside_norm(moments, restriction):
        raise VerificationFailure(
            f"The components leave the allowed directions of the restriction by {outside_norm:.1e}."
            + (PASS_ROWS_HINT if rows_would_help else "")
        )
