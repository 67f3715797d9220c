"""Check the steps and prefixes of nested components."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from fairspan.certificates.certificate import Certificate
from fairspan.problem.reduction import deflate_reduction
from fairspan.verification.check_claims import JudgedClaims, claim_failures
from fairspan.verification.model_evaluation import Evaluation, evaluate_reduction
from fairspan.verification.tolerances import objective_tolerances
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
    # Each part with its components, and with the prefix that has the same errors; the certificate
    # is the prefix of all d components.
    parts = [(steps[i], components[[i]], (*prefixes, certificate)[i]) for i in range(d)]
    parts += [(prefix, components[: i + 1], prefix) for i, prefix in enumerate(prefixes)]
    for part, part_components, prefix in parts:
        # Settings, groups and counts repeat those of the certificate; errors and losses of a step
        # are those of the prefix that ends with it.
        pairs = [(getattr(part, name), getattr(certificate, name)) for name in _SHARED_FIELDS]
        pairs += [(getattr(part, name), getattr(prefix, name)) for name in _PREFIX_FIELDS]
        # Parts have no parts of their own.
        pairs += [(part.components, part_components), (part.steps, ()), (part.prefixes, ())]
        if not all(np.array_equal(*pair) for pair in pairs):
            raise VerificationFailure(
                "A step or prefix of the nested components has inconsistent components, errors or "
                "parameters."
            )


def step_failures(evaluation: Evaluation, *, is_capped: bool, is_converged: bool) -> Iterator[str]:
    """Yield a message for each failed check of a step: one component given the previous ones.

    A step is a problem with d = 1 in the orthogonal complement of the previous components. Without
    matrices its bound cannot be computed, so nothing is yielded; the verification then says that
    bounds were not verified. The resolution of a fit without matrices is taken from the entire
    model.

    Parameters
    ----------
    evaluation : Evaluation
    is_capped : bool
        Whether allowances for rounding are capped at a fraction of each figure.
    is_converged : bool
        Whether the moments are exact up to rounding, rather than up to the end of the EM algorithm.
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
        recomputed = evaluate_reduction(deflated, component, step.proof, certificate.tol)
        tolerances = objective_tolerances(
            deflated.problem,
            recomputed,
            step,
            recomputed.resolution,
            method_tol=0.0,  # no allowance for another method of solving
            is_capped=is_capped,
        )
        claims = JudgedClaims(
            certificate=step,
            recomputed=recomputed,
            tolerances=replace(
                tolerances,
                matrix_free_resolution=evaluation.matrix_free_resolution,
                is_converged=is_converged,
            ),
            reduction=deflated,
            basis=component,
            eigensolvers=evaluation.eigensolvers,
            has_row_spread=evaluation.moments.row_spread is not None,
        )
        for message in claim_failures(claims):
            yield f"Component {i + 1}, in the complement of the previous ones: {message}"
