"""Check the steps and prefixes of nested components."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from fairspan.certificates.certificate import Certificate
from fairspan.problem.reduction import Reduction, deflate_reduction
from fairspan.typing import FloatArray
from fairspan.verification.check_claims import CertificateClaims, claim_failures
from fairspan.verification.model_evaluation import Evaluation, evaluate_reduction
from fairspan.verification.tolerances import Allowances, objective_tolerances
from fairspan.verification.verification_failure import VerificationFailure

# Fields that a certificate shares with its steps and prefixes.
_SHARED_FIELDS = ("criterion", "tol", "center", "restriction", "groups", "counts")
# Fields that a step shares with the prefix that ends with it.
_PREFIX_FIELDS = ("errors", "losses", "total_variance")


def check_nested_consistency(certificate: Certificate) -> None:
    """Check that steps and prefixes repeat components, errors and parameters of the certificate.

    Step i is the certificate of component i alone, prefix i that of the first i components. Their
    objectives and bounds are checked elsewhere.

    Raises
    ------
    VerificationFailure
    """
    d = certificate.n_components
    components = certificate.components
    steps = certificate.steps
    prefixes = certificate.prefixes
    if len(steps) != d or len(prefixes) != d - 1:
        raise VerificationFailure("The number of steps does not match the components.")
    are_consistent = True
    # Errors and losses of a step are those of the prefix that ends with it; the certificate is the
    # prefix of all d components.
    for i, prefix in enumerate((*prefixes, certificate)):
        are_consistent &= _is_consistent(steps[i], components[[i]], prefix, certificate)
    for i, prefix in enumerate(prefixes):
        are_consistent &= _is_consistent(prefix, components[: i + 1], prefix, certificate)
    if not are_consistent:
        raise VerificationFailure(
            "A step or prefix of the nested components has inconsistent components, errors or "
            "parameters."
        )


def _is_consistent(
    part: Certificate, components: FloatArray, prefix: Certificate, certificate: Certificate
) -> bool:
    """Whether a step or prefix repeats what it shares with other parts of a certificate.

    Parameters
    ----------
    part : Certificate
        The step or prefix.
    components : (r, p) array
        Components that it is about.
    prefix : Certificate
        The prefix with the same errors and losses.
    certificate : Certificate
        The certificate of all components, with the same settings, groups and counts.
    """
    # Parts have no parts of their own.
    if part.steps != () or part.prefixes != ():
        return False
    if not np.array_equal(part.components, components):
        return False
    shares_settings = all(
        np.array_equal(getattr(part, name), getattr(certificate, name)) for name in _SHARED_FIELDS
    )
    return shares_settings and all(
        np.array_equal(getattr(part, name), getattr(prefix, name)) for name in _PREFIX_FIELDS
    )


def step_failures(evaluation: Evaluation, allowances: Allowances) -> Iterator[str]:
    """Yield a message for each failed check of a step: one component given the previous ones.

    A step is a problem with d = 1 in the orthogonal complement of the previous components. Without
    matrices its bound cannot be computed, so nothing is yielded; the verification then says that
    bounds were not verified.
    """
    family = evaluation.family
    certificate = evaluation.subspace.require_certificate()
    # Few rows of many features are described by their coordinates in an orthonormal basis. There
    # the components are orthonormal only up to rounding, which QR removes.
    basis = evaluation.subspace.components.T
    if family.coordinates is not None:
        basis = np.linalg.qr(family.coordinates.project(basis))[0]
    one_component_problem = family.reduction_at(1)
    if not family.template.second_moments.has_matrices:
        return
    for i, step in enumerate(certificate.steps):
        # The problem of this step, in coordinates (`axes`) of the complement.
        deflated = deflate_reduction(one_component_problem, basis[:, :i])
        component = basis[:, [i]]
        if deflated.axes is not None:
            component = deflated.axes.T @ component
        # The component is now in the coordinates of the deflated problem, and the group weights
        # that prove a step need no change of coordinates, so the axes are dropped.
        deflated = replace(deflated, axes=None)
        for message in claim_failures(
            _claims_of_step(evaluation, allowances, step, deflated, component)
        ):
            yield f"Component {i + 1}, in the complement of the previous ones: {message}"


def _claims_of_step(
    evaluation: Evaluation,
    allowances: Allowances,
    step: Certificate,
    deflated: Reduction,
    component: FloatArray,
) -> CertificateClaims:
    """Return the claims of a step, with the values recomputed from the data and the tolerances.

    The resolution of a fit without matrices is taken from the entire model.

    Parameters
    ----------
    evaluation : Evaluation
        Of the entire model.
    allowances : Allowances
    step : Certificate
    deflated : Reduction
        The problem of the step.
    component : (m, 1) array
        In the coordinates of this problem.
    """
    tol = evaluation.subspace.require_certificate().tol
    recomputed = evaluate_reduction(deflated, component, step.proof, tol)
    tolerances = objective_tolerances(
        deflated.problem,
        recomputed,
        step,
        recomputed.resolution,
        method_tol=0.0,  # no allowance for another method of solving
        is_capped=allowances.is_capped,
    )
    return CertificateClaims(
        certificate=step,
        recomputed=recomputed,
        tolerances=replace(
            tolerances,
            matrix_free_resolution=evaluation.matrix_free_resolution,
            is_converged=allowances.is_converged,
        ),
        reduction=deflated,
        basis=component,
        eigensolvers=evaluation.eigensolvers,
        has_row_spread=evaluation.moments.row_spread is not None,
    )
