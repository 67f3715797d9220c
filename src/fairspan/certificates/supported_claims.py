"""Check that the proof in a certificate supports what the certificate claims."""

import math

import numpy as np

from fairspan.certificates.certificate import Certificate
from fairspan.certificates.evaluate_solution import evaluate_solution
from fairspan.certificates.proofs import PROOF_KINDS
from fairspan.certificates.status import Status
from fairspan.errors import InvalidInput
from fairspan.linalg.rounding import AGREEMENT_TOL
from fairspan.moments.projector import Projector, check_components
from fairspan.problem.problem import Problem

# A proof evaluated again gives the same gap up to rounding. A gap that was just within the
# tolerance, or the resolution, is therefore accepted up to this multiple of it.
_TOLERANCE_FACTOR = 2.0
# Statuses by which each claim is supported. A bound is "estimated" only where there are no
# matrices, and then no proof either.
_SUPPORTING_STATUSES = {
    Status.OPTIMAL: (Status.OPTIMAL,),
    Status.UNRESOLVED: (Status.OPTIMAL, Status.UNRESOLVED),
    Status.ESTIMATED: (),
    Status.OPEN_GAP: tuple(Status),
}


def check_claims_supported(certificate: Certificate, problem: Problem, tol: float) -> None:
    """Check that components and proof support objective, errors, lower bound and status.

    Claims may be weaker than the proof. Without a proof, the only supported claim is an open gap
    with a lower bound of minus infinity.

    Parameters
    ----------
    certificate : Certificate
        As a solver returned it, in the coordinates of the problem.
    problem : Problem
        With second moments that are matrices.
    tol : float
        Largest gap that counts as optimal, relative to the objective.

    Raises
    ------
    InvalidInput
    """
    proof = certificate.proof
    if proof is None:
        _check_claims_without_proof(certificate)
        return
    if type(proof) not in PROOF_KINDS.values() or not proof.applies_to(problem):
        raise _unsupported(f"the proof, a {type(proof).__name__}, is not one of this problem")
    components = certificate.components
    check_components(components)
    if components.shape[1] != problem.n_features:
        raise _unsupported(
            f"the components have {components.shape[1]} columns, and the problem has "
            f"{problem.n_features} features"
        )
    recomputed = evaluate_solution(
        problem,
        Projector(components).basis,
        proof,
        tol=tol,
        tolerance_factor=_TOLERANCE_FACTOR,
    )
    _compare_with_recomputed(certificate, recomputed, tol)


def _check_claims_without_proof(certificate: Certificate) -> None:
    """Check that a certificate without a proof has an open gap, and no lower bound."""
    if certificate.status != Status.OPEN_GAP or certificate.lower_bound > -math.inf:
        raise _unsupported(
            f"the status is {str(certificate.status)!r} and the lower bound "
            f"{certificate.lower_bound:.9g}, without a proof"
        )


def _compare_with_recomputed(certificate: Certificate, recomputed: Certificate, tol: float) -> None:
    """Check that the claims of a certificate are no better than recomputed from its proof."""
    rounding = recomputed.resolution + AGREEMENT_TOL * recomputed.scale
    # Written so that NaN is not accepted.
    if not abs(certificate.objective - recomputed.objective) <= rounding:
        raise _unsupported(
            f"the objective is {certificate.objective:.9g}, and the components have one of "
            f"{recomputed.objective:.9g}"
        )
    if not np.allclose(certificate.errors, recomputed.errors, rtol=AGREEMENT_TOL, atol=rounding):
        raise _unsupported(
            f"the group errors are {certificate.errors}, and the components have "
            f"{recomputed.errors}"
        )
    if not certificate.lower_bound <= recomputed.lower_bound + rounding:
        raise _unsupported(
            f"the lower bound is {certificate.lower_bound:.9g}, and the proof gives "
            f"{recomputed.lower_bound:.9g}"
        )
    if recomputed.status not in _SUPPORTING_STATUSES.get(certificate.status, ()):
        raise _unsupported(
            f"the status is {str(certificate.status)!r}, and the proof gives "
            f"{str(recomputed.status)!r} with a gap of {recomputed.gap:.1e} for tol={tol:.1e}"
        )


def _unsupported(received: str) -> InvalidInput:
    """Error for a certificate that claims more than it proves; addressed to a solver's author."""
    return InvalidInput(
        received,
        "Allowed: what components and proof support; without a proof, status 'open gap' and a "
        "lower bound of -inf",
        "In `solve`, return what fairspan.extending.certify makes of the subspace and the group "
        "weights, with the given problem and tol",
    )
