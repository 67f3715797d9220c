"""Verify all claims of a model, with the reason if rounding or other rows explain failures."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from fairspan.certificates.certificate import Certificate
from fairspan.errors import IncompatibleParameters
from fairspan.formatting.messages import counted
from fairspan.linalg.rounding import LOOSE_TOL
from fairspan.model.subspace import FairSubspace
from fairspan.moments.compute import Moments
from fairspan.problem.family import check_means_agree
from fairspan.typing import ModelLike
from fairspan.verification.check_claims import CertificateClaims, claim_failures
from fairspan.verification.check_components import component_failures
from fairspan.verification.check_nested import check_nested_consistency, step_failures
from fairspan.verification.compare_recomputed import (
    Comparison,
    Comparisons,
    data_comparisons,
    estimator_comparisons,
    mismatches,
)
from fairspan.verification.evaluate_model import evaluate_model
from fairspan.verification.model_evaluation import Evaluation
from fairspan.verification.tolerances import (
    NOT_CONVERGED,
    STRICT,
    UNCAPPED,
    Allowances,
    objective_tolerances,
    rounding_cap,
)
from fairspan.verification.verification_failure import CANNOT_BE_VERIFIED, PASS_ROWS_HINT
from fairspan.verification.verification_result import Verification
from fairspan.verification.verified_data import VerifiedData, may_have_zero_errors

# A resolution that differs from the recomputed one by more than this factor is reported.
_SAME_RESOLUTION_FACTOR = 1.01
_OTHER_ROWS_MESSAGE = (
    "These are not the rows of the fit: the groups have different numbers of rows. A certificate "
    "is verified with the rows that the model was fitted on; use audit to evaluate a model on "
    "other rows."
)


def verify_data(model: ModelLike, subspace: FairSubspace, data: VerifiedData) -> Verification:
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
    evaluation = evaluate_model(model, subspace, data)
    # The first message is a common reason of all failures, such as rounding, if there is one.
    failures = _explained_failures(evaluation).messages
    recomputed = evaluation.recomputed
    summary = _summary_messages(recomputed, subspace, data.moments)
    return Verification(
        holds=not failures,
        objective=recomputed.objective,
        lower_bound=recomputed.lower_bound,
        gap=recomputed.gap,
        messages=(*failures, *summary),
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


class _Failures(NamedTuple):
    """Failed checks of a model.

    Attributes
    ----------
    messages : list of str
        A common reason of all failures, if there is one, and one message per failed check.
    are_unclear : bool
        Whether the reason is rounding, or where the EM algorithm ended: the data neither confirm
        nor contradict the model.
    """

    messages: list[str]
    are_unclear: bool = False


def _explained_failures(evaluation: Evaluation) -> _Failures:
    """Collect all failed checks, preceded by a common reason if there is one."""
    failures = [*_failures(evaluation, STRICT)]
    if not failures:
        return _Failures([])
    are_unclear = False
    certificate = evaluation.subspace.require_certificate()
    if not [*_failures(evaluation, UNCAPPED)]:
        # The figures agree as far as rounding allows, which is not enough.
        reason = (
            f"{CANNOT_BE_VERIFIED}: rounding is more than {rounding_cap(certificate):.0e} of "
            "what the model says."
        )
        if evaluation.moments.row_spread is None and may_have_zero_errors(evaluation.recomputed):
            reason += PASS_ROWS_HINT
        failures = [reason, *failures]
        are_unclear = True
    elif evaluation.em_distance and not [*_failures(evaluation, NOT_CONVERGED)]:
        # For another order of the rows, the EM algorithm ends elsewhere.
        failures = [_em_distance_message(evaluation.em_distance), *failures]
        are_unclear = True
    counts = Comparison(evaluation.moments.counts, certificate.counts)
    if count_failures := [*mismatches({"counts": counts})]:
        # With other rows nothing else can agree, and a page of numbers would hide the reason.
        failures = [_OTHER_ROWS_MESSAGE, *count_failures]
        are_unclear = False
    return _Failures(failures, are_unclear)


def _failures(evaluation: Evaluation, allowances: Allowances) -> Iterator[str]:
    """Yield a message for each failed check."""
    subspace = evaluation.subspace
    certificate = subspace.require_certificate()
    yield from component_failures(subspace.projector, is_soft=subspace.is_soft)
    yield from mismatches(_comparisons(evaluation, allowances))
    yield from claim_failures(_collect_claims(evaluation, allowances))
    try:
        # In units of each component, which may vary much less than the features.
        check_means_agree(evaluation.family, evaluation.projector)
    except IncompatibleParameters:
        yield (
            f"The components do not satisfy {certificate.restriction!r}: along one of them the "
            "groups differ by more than rounding, relative to its standard deviation within groups."
        )
    if certificate.steps or certificate.prefixes:
        yield from _nested_failures(evaluation, allowances)


def _comparisons(evaluation: Evaluation, allowances: Allowances) -> Comparisons:
    """Collect what the model says of its rows and of itself, with what was recomputed."""
    subspace = evaluation.subspace
    em_rounding = evaluation.em_rounding(allowances)
    component_rounding = evaluation.component_rounding + em_rounding[:, None]
    return data_comparisons(evaluation, component_rounding, allowances) | estimator_comparisons(
        evaluation.model,
        subspace,
        subspace.require_certificate(),
        evaluation.variances_kept,
        evaluation.unrestricted,
        component_rounding,
    )


def _collect_claims(evaluation: Evaluation, allowances: Allowances) -> CertificateClaims:
    """Collect the claims of the certificate, the recomputed values, and their tolerances."""
    certificate = evaluation.subspace.require_certificate()
    unrestricted = evaluation.unrestricted
    # Components lie slightly outside of the allowed directions, as if the subspace were rotated.
    rotation_effect = evaluation.rotation_effect + evaluation.em_rounding(allowances)
    resolution = evaluation.recomputed.resolution + unrestricted.criterion.rounding_bound(
        rotation_effect, evaluation.errors, unrestricted
    )
    tolerances = objective_tolerances(
        evaluation.reduction.problem,
        evaluation.recomputed,
        certificate,
        resolution,
        evaluation.method_tol,
        is_capped=allowances.is_capped,
    )
    return CertificateClaims(
        certificate=certificate,
        recomputed=evaluation.recomputed,
        tolerances=replace(
            tolerances,
            matrix_free_resolution=evaluation.matrix_free_resolution,
            is_converged=allowances.is_converged,
        ),
        reduction=evaluation.reduction,
        basis=evaluation.basis,
        eigensolvers=evaluation.eigensolvers,
        has_row_spread=evaluation.moments.row_spread is not None,
        matrix_free=evaluation.data.matrix_free,
    )


def _nested_failures(evaluation: Evaluation, allowances: Allowances) -> Iterator[str]:
    """Yield a message for each failed step of nested components, and one for each failed prefix.

    A prefix, the first components together, is verified like a model of its own.
    """
    subspace = evaluation.subspace
    certificate = subspace.require_certificate()
    check_nested_consistency(certificate)
    yield from step_failures(evaluation, allowances)
    for n_components in range(1, certificate.n_components):
        prefix = subspace.truncate(n_components)
        # Its steps and prefixes are part of the whole model's, which are verified themselves.
        prefix_certificate = replace(prefix.require_certificate(), steps=(), prefixes=())
        prefix = replace(prefix, certificate=prefix_certificate)
        # A prefix has no estimator, whose attributes could be compared: it is its own model.
        failures = _explained_failures(evaluate_model(prefix, prefix, evaluation.data))
        # Without caps, the caller only needs to know whether rounding explains all failures. It
        # explains those of a prefix that are unclear, so they are not reported then.
        is_explained = failures.are_unclear and not allowances.is_capped
        if failures.messages and not is_explained:
            yield f"The first {n_components} components: {failures.messages[0]}"


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
