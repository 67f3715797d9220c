"""Verify a model: recompute the claims of its certificate without any solver.

Everything is recomputed from the components, the proof stored with the model, and the moments of
the rows: orthonormality of the components, errors, objective, lower bound and nested steps, with
LAPACK eigenvalues and conservative rounding allowances. Components and proof are evaluated by the
routine that ends every fit (:func:`fairspan.certificates.evaluation.evaluate_solution`), and its
result is compared with the model's certificate field by field. Solver, number of eigenproblems and
trace are records of the run and are not verified.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from fairspan.certificates.certificate import Certificate
from fairspan.certificates.eigensolver import Eigensolver
from fairspan.certificates.records import ProblemStatement
from fairspan.errors import FairspanError, IncompatibleParameters
from fairspan.formatting.messages import counted
from fairspan.linalg.memory import explain_memory_errors
from fairspan.linalg.rounding import LOOSE_TOL
from fairspan.model.subspace import FairSubspace
from fairspan.moments.base import Center
from fairspan.moments.compute import Moments
from fairspan.moments.projector import Projector
from fairspan.moments.second_moments import error_reduction_by_component
from fairspan.problem.family import ProblemFamily, build_problem_family, check_means_agree
from fairspan.problem.reduction import Reduction
from fairspan.problem.restrictions import Restriction
from fairspan.typing import FloatArray
from fairspan.verification.claims import JudgedClaims, claim_failures
from fairspan.verification.comparisons import (
    Comparisons,
    data_comparisons,
    estimator_comparisons,
    mismatches,
)
from fairspan.verification.components import (
    basis_in_coordinates,
    component_failures,
    largest_outside_norm,
    restrict_basis,
)
from fairspan.verification.data import (
    VerifiedData,
    check_same_data,
    may_have_zero_errors,
    moments_from,
    prepare_data,
)
from fairspan.verification.encoder import check_encoder, check_oblique, projector_errors
from fairspan.verification.evaluation import Evaluation, evaluate_reduction
from fairspan.verification.failure import CANNOT_BE_VERIFIED, PASS_ROWS_HINT, VerificationFailure
from fairspan.verification.nested import check_nested_consistency, step_failures
from fairspan.verification.tolerances import (
    ORTHONORMALITY_TOL,
    ROUNDING_FACTOR,
    objective_tolerances,
    rounding_cap,
)

# A resolution that differs from the recomputed one by more than this factor is reported.
_SAME_RESOLUTION_FACTOR = 1.01
_OTHER_ROWS_MESSAGE = (
    "These are not the rows of the fit: the groups have different numbers of rows. A certificate "
    "is verified with the rows that the model was fitted on; use audit to evaluate a model on "
    "other rows."
)


@dataclass(frozen=True)
class Verification:
    """Result of verifying a model's certificate with moments or rows.

    Attributes
    ----------
    holds : bool
        Whether everything that was checked agrees.
    objective : float
        Criterion at the model's components, recomputed; NaN if that was impossible.
    lower_bound : float
        Bound that the model's proof proves, recomputed; minus infinity if none.
    gap : float
        objective - lower_bound.
    messages : tuple of str
        One sentence per check, failed checks first.

    Examples
    --------
    >>> import numpy as np
    >>> import fairspan as fs
    >>> X = np.array([[3.0, 1, 0], [-3, -1, 0], [0, 2, 1], [0, -2, -1]])
    >>> fair = fs.FairPCA(1).fit(X, sensitive_features=["a", "a", "b", "b"])
    >>> checked = fs.verify(fair, X, ["a", "a", "b", "b"])
    >>> checked.holds, round(checked.objective, 3), checked.gap < 1e-9
    (True, 2.421, True)
    >>> fs.verify(fair, 2 * X, ["a", "a", "b", "b"]).holds
    False
    """

    holds: bool
    objective: float
    lower_bound: float
    gap: float
    messages: tuple[str, ...]

    def __bool__(self) -> bool:
        return self.holds

    def __str__(self) -> str:
        verdict = "The certificate holds." if self.holds else "The certificate does not hold."
        return "\n".join([verdict, *(f"- {message}" for message in self.messages)])


@explain_memory_errors()
def verify(
    model: Any,
    X_or_moments: Any,
    sensitive_features: Any = None,
    *,
    sample_weight: Any = None,
    y: Any = None,
) -> Verification:
    """Verify a model's certificate from moments or rows, without a solver.

    Parameters
    ----------
    model : FairPCA or FairSubspace
        Fitted or loaded.
    X_or_moments : GroupMoments, or (n, p) table
        The data that the model was fitted on; anything that `FairPCA.fit` accepts.
    sensitive_features : (n,) or (n, a) array-like, or column name(s), optional
        Not needed with moments.
    sample_weight : (n,) array-like, or column name, optional
    y : (n,) array-like, or column name, optional
        Class of each row, if the restriction is within classes.

    Returns
    -------
    Verification
        With other data, or a modified model, ``holds`` is False.

    Raises
    ------
    InvalidInput
        Rows without groups, or rows that are not a table of finite numbers; group labels of another
        type than those of the model that do not match them as text either.
    """
    subspace = model if isinstance(model, FairSubspace) else getattr(model, "subspace_", None)
    if not isinstance(subspace, FairSubspace) or subspace.certificate is None:
        kind = type(model).__name__
        return _failed_verification(
            f"The model is a {kind} without a certificate: there is nothing to verify."
        )
    if not isinstance(subspace.certificate.statement, ProblemStatement):
        return _failed_verification("The certificate does not state its problem.")
    moments = moments_from(X_or_moments, sensitive_features, sample_weight, y, subspace)
    try:
        return _verify_data(model, subspace, prepare_data(moments, subspace))
    except VerificationFailure as failure:
        return _failed_verification(str(failure))
    # Models may come from untrusted sources and hold any values.
    except (
        FairspanError,
        LookupError,
        ValueError,
        TypeError,
        ArithmeticError,
        AttributeError,
    ) as error:
        return _failed_verification(f"The problem cannot be posed for these data: {error}")


def _failed_verification(message: str) -> Verification:
    """Failed verification with a message."""
    return Verification(False, np.nan, -np.inf, np.nan, (message,))


def _verify_data(model: Any, subspace: FairSubspace, data: VerifiedData) -> Verification:
    """Verify everything; failures come first in the messages.

    Parameters
    ----------
    model : FairPCA or FairSubspace
    subspace : FairSubspace
        That of the model.
    data : VerifiedData

    Raises
    ------
    VerificationFailure
        No further check is possible.
    """
    evaluation = _evaluate_model(model, subspace, data)
    failures = _explained_failures(evaluation)
    recomputed = evaluation.recomputed
    summary = _summary_messages(recomputed, subspace, data.moments)
    return Verification(
        holds=not failures,
        objective=recomputed.objective,
        lower_bound=recomputed.lower_bound,
        gap=recomputed.gap,
        messages=(*failures, *summary),
    )


def _evaluate_model(model: Any, subspace: FairSubspace, data: VerifiedData) -> Evaluation:
    """Pose the problem that the certificate names, and evaluate components and proof in it.

    Parameters are those of :func:`_verify_data`.

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
        center=cast(Center, subspace.center),
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

    Raises
    ------
    VerificationFailure
        Rounding exceeds the tolerance; the rows themselves are more precise.
    """
    rounding = reduction.problem.rounding.oblique_shift
    if rounding > certificate.absolute_tol:
        raise VerificationFailure(
            f"From moments, the cost of the restriction is known only up to {rounding:.1e}, and "
            f"the tolerance is {certificate.absolute_tol:.1e}.{PASS_ROWS_HINT}"
        )


def _project_to_coordinates(
    projector: Projector, family: ProblemFamily
) -> tuple[Projector, FloatArray]:
    """Express a projector and the basis of its components in the coordinates of the problem.

    These are the features or, for fewer rows than features, coordinates in the span of the rows. Of
    the components, only the part within that span is kept.
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


def _em_distance_message(em_distance: float) -> str:
    """Explain why figures of an EM fit differ between two orders of the same rows."""
    n_digits = max(int(-math.log10(em_distance)), 0)
    if n_digits:
        comparable = f"only the first {counted(n_digits, 'digit')} of its figures"
    else:
        comparable = "no digit"
    return (
        f"{CANNOT_BE_VERIFIED}: the EM algorithm ended while its models were still up to "
        f"{em_distance:.0e} standard deviations from their limit, so that {comparable} can be "
        "compared. Pass the rows in the order of the fit."
    )


def _explained_failures(evaluation: Evaluation) -> list[str]:
    """List all failed checks, preceded by a common reason if there is one."""
    failures = [*_failures(evaluation)]
    if not failures:
        return []
    certificate = evaluation.subspace.require_certificate()
    if not [*_failures(evaluation, is_capped=False)]:
        # The figures agree as far as rounding allows, which is not enough.
        reason = (
            f"{CANNOT_BE_VERIFIED}: rounding is more than {rounding_cap(certificate):.0e} of "
            "what the model says."
        )
        if evaluation.moments.row_spread is None and may_have_zero_errors(evaluation.recomputed):
            reason += PASS_ROWS_HINT
        failures = [reason, *failures]
    elif evaluation.em_distance and not [*_failures(evaluation, is_converged=False)]:
        # For another order of the rows, the EM algorithm ends elsewhere.
        failures = [_em_distance_message(evaluation.em_distance), *failures]
    if not np.array_equal(evaluation.moments.counts, certificate.counts):
        # With other rows nothing else can agree, and a page of numbers would hide the reason.
        failures = [_OTHER_ROWS_MESSAGE, *[text for text in failures if "counts =" in text]]
    return failures


def _failures(
    evaluation: Evaluation, *, is_capped: bool = True, is_converged: bool = True
) -> Iterator[str]:
    """Yield a message for each failed check.

    Parameters
    ----------
    evaluation : Evaluation
    is_capped : bool
        Whether allowances for rounding are capped at a fraction of each figure.
    is_converged : bool
        Whether the moments are exact up to rounding. Otherwise figures may differ as much as those
        of two runs of the EM algorithm, and no allowance is capped.
    """
    # Runs of the EM algorithm may differ by more than the cap.
    is_capped = is_capped and is_converged
    em_rounding = np.zeros(len(evaluation.errors))
    if not is_converged:
        traces = evaluation.unrestricted.second_moments.traces
        em_rounding = ROUNDING_FACTOR * evaluation.em_distance * traces
    subspace = evaluation.subspace
    certificate = subspace.require_certificate()
    yield from component_failures(subspace.projector, is_soft=subspace.is_soft)
    yield from mismatches(
        _comparisons(evaluation, em_rounding, is_capped=is_capped, is_converged=is_converged)
    )
    yield from claim_failures(
        _judge_claims(evaluation, em_rounding, is_capped=is_capped, is_converged=is_converged)
    )
    try:
        # In units of each component, which may vary much less than the features.
        check_means_agree(evaluation.family, evaluation.projector)
    except IncompatibleParameters:
        yield (
            f"The components do not satisfy {certificate.restriction!r}: along one of them the "
            "groups differ by more than rounding, relative to its standard deviation within groups."
        )
    if certificate.steps or certificate.prefixes:
        yield from _nested_failures(evaluation, is_capped=is_capped, is_converged=is_converged)


def _comparisons(
    evaluation: Evaluation, em_rounding: FloatArray, *, is_capped: bool, is_converged: bool
) -> Comparisons:
    """Collect what the model says of its rows and of itself, with what was recomputed.

    Parameters
    ----------
    evaluation : Evaluation
    em_rounding : (k,) array
        Error bound of each group's variance, if the EM algorithm has not converged; otherwise zero.
    is_capped, is_converged : bool
        See :func:`_failures`.
    """
    subspace = evaluation.subspace
    component_rounding = evaluation.component_rounding + em_rounding[:, None]
    comparisons = data_comparisons(
        evaluation, em_rounding, component_rounding, is_capped=is_capped, is_converged=is_converged
    )
    return comparisons | estimator_comparisons(
        evaluation.model,
        subspace,
        subspace.require_certificate(),
        evaluation.variances_kept,
        evaluation.unrestricted,
        component_rounding,
    )


def _judge_claims(
    evaluation: Evaluation, em_rounding: FloatArray, *, is_capped: bool, is_converged: bool
) -> JudgedClaims:
    """Put the claims of the certificate beside what was recomputed, with their tolerances.

    Parameters are those of :func:`_comparisons`.
    """
    certificate = evaluation.subspace.require_certificate()
    unrestricted = evaluation.unrestricted
    # Components lie slightly outside of the allowed directions, as if the subspace were rotated.
    rotation_effect = evaluation.rotation_effect + em_rounding
    resolution = evaluation.recomputed.resolution + unrestricted.criterion.rounding_bound(
        rotation_effect, evaluation.errors, unrestricted
    )
    tolerances = objective_tolerances(
        evaluation.reduction.problem,
        evaluation.recomputed,
        certificate,
        resolution,
        evaluation.method_tol,
        is_capped=is_capped,
    )
    return JudgedClaims(
        certificate=certificate,
        recomputed=evaluation.recomputed,
        tolerances=replace(
            tolerances,
            matrix_free_resolution=evaluation.matrix_free_resolution,
            is_converged=is_converged,
        ),
        reduction=evaluation.reduction,
        basis=evaluation.basis,
        eigensolvers=evaluation.eigensolvers,
        has_row_spread=evaluation.moments.row_spread is not None,
        matrix_free=evaluation.data.matrix_free,
    )


def _nested_failures(
    evaluation: Evaluation, *, is_capped: bool, is_converged: bool
) -> Iterator[str]:
    """Yield a message for each failed step of nested components, and one for each failed prefix.

    A prefix, the first components together, is verified like a model of its own.
    """
    subspace = evaluation.subspace
    certificate = subspace.require_certificate()
    check_nested_consistency(certificate)
    yield from step_failures(evaluation, is_capped=is_capped, is_converged=is_converged)
    for n_components in range(1, certificate.n_components):
        prefix = subspace.truncate(n_components)
        # Its steps and prefixes are part of the whole model's, which are verified themselves.
        prefix_certificate = replace(prefix.require_certificate(), steps=(), prefixes=())
        prefix = replace(prefix, certificate=prefix_certificate)
        # A prefix has no estimator, whose attributes could be compared: it is its own model.
        verification = _verify_data(model=prefix, subspace=prefix, data=evaluation.data)
        # Failures come first among the messages. Without caps the question is only whether rounding
        # explains all failures, and it does for a prefix that cannot be verified.
        message = verification.messages[0]
        is_unclear = not is_capped and message.startswith(CANNOT_BE_VERIFIED)
        if not verification.holds and not is_unclear:
            yield f"The first {n_components} components: {message}"


def _summary_messages(
    recomputed: Certificate, subspace: FairSubspace, moments: Moments
) -> Iterator[str]:
    """Summarize what was recomputed and what was not verified."""
    certificate = subspace.require_certificate()
    # Adding zero turns -0 into 0.
    objective_text = (
        f"{certificate.criterion.name} is {recomputed.objective + 0.0:.9g} for these components "
        f"(the model says {certificate.objective + 0.0:.9g})"
    )
    if recomputed.proof is not None:
        yield (
            f"{objective_text}, and its proof gives the lower bound {recomputed.lower_bound:.9g} "
            f"(the model says {certificate.lower_bound:.9g}). Double precision resolves "
            f"{recomputed.resolution:.1e}."
        )
    else:
        yield f"{objective_text}."
        reason = "the model has no proof" if certificate.proof is None else "the rows are sparse"
        yield f"The lower bound was not verified: {reason}."
        yield "Neither were the status and the weights of the proof, which depend on the bound."
    min_resolution = recomputed.resolution / _SAME_RESOLUTION_FACTOR
    max_resolution = _SAME_RESOLUTION_FACTOR * recomputed.resolution
    if not min_resolution <= certificate.resolution <= max_resolution:
        yield (
            f"The model says a resolution of {certificate.resolution:.1e}, and "
            f"{recomputed.resolution:.1e} was recomputed. It depends on the method of solving: "
            "only its order of magnitude was verified."
        )
    if recomputed.proof is not None and certificate.status != recomputed.status:
        yield (
            f"The recomputed status is {recomputed.status} (the model says {certificate.status})."
        )
    if certificate.tol > LOOSE_TOL:
        yield f"Optimal means within {certificate.tol:.2g} of the objective."
    if subspace.feature_names is not None and moments.feature_names is None:
        yield (
            "Not verified, since the data have none: the names of the features. Pass a table with "
            "named columns to verify them."
        )
    yield (
        "Not verified, as records of the run: solver, number of eigenproblems, trace and version."
    )
