"""Instructions for verifying the certificate of a report."""

import math
from dataclasses import replace

from fairspan.certificates.proofs import Proof, SupportingLinesProof
from fairspan.linalg.rounding import AGREEMENT_TOL, EPS
from fairspan.problem.formulas import CriterionFormula
from fairspan.report.fitted_criterion import FittedCriterion
from fairspan.typing import Record

# Commands that verify a saved or fitted model.
_COMMANDS = ("fairspan verify MODEL DATA", "fairspan.verify(model, moments)")
_COMMANDS_NOTE = (
    "For a saved model, the command recomputes objective and bound from DATA and exits with status "
    "0 if the certificate holds. DATA are rows, read with the options of the fit, or a file of "
    "moments. The function does the same in Python and also accepts rows: "
    "fairspan.verify(model, X, sensitive_features). Neither uses a solver."
)
_LINES_PROOF_TEXT = (
    "S_g is the second moment matrix of group g. The proof consists of supporting lines, each with "
    "two coefficients w: no subspace of this dimension has errors with w_1 e_1 + w_2 e_2 below "
    "L(M), {rest} of M = w_1 S_1 + w_2 S_2 (Ky Fan 1949). The errors of all subspaces therefore "
    "lie in a polygon. The criterion increases in both errors, so its minimum over the polygon is "
    "on the edges, where it is the maximum of two concave functions, each bounded below by its "
    "chord."
)
_LIMIT_PROOF_TEXT = (
    "The bound also uses the limit of the restriction; it cannot be proven from a mixture of the "
    "groups' second moments alone."
)


def verification_instructions(fit: FittedCriterion) -> Record:
    """Return the commands that verify a certificate, and an explanation of its formulas.

    A reader may also evaluate these formulas, without the care that the certificate takes against
    rounding. `absolute_tol` is the largest difference from the certificate's objective and lower
    bound that is to be expected then.
    """
    certificate = fit.certificate
    problem = fit.problem
    # Rounding errors of the plain formulas, which are less accurate than the certificate: of each
    # group's error, then of the objective.
    roundings = EPS * 4 * problem.n_features * problem.second_moments.traces
    rounding = problem.criterion.rounding_bound(roundings, certificate.errors, problem)
    return {
        "commands": list(_COMMANDS),
        "commands_note": _COMMANDS_NOTE,
        "explanation": _explanation(fit),
        "objective": certificate.objective,
        "lower_bound": certificate.lower_bound,
        # Rounding errors of the certificate (its resolution) and of the plain formulas, plus a
        # tolerance relative to the magnitude of the objective (its scale).
        "absolute_tol": certificate.resolution + rounding + AGREEMENT_TOL * abs(certificate.scale),
    }


def _explanation(fit: FittedCriterion) -> list[str]:
    """Return two texts: on the objective and its bound, and on why the bound holds.

    `rest` is what the second text says about the eigenvalues of a mixture of second moments.
    """
    d = fit.problem.n_components
    certificate = fit.certificate
    formula = _formula(fit)
    largest = "largest" if d == 1 else f"{d} largest"
    rest = f"the sum of all eigenvalues but the {largest}"
    bound = "no bound is known"
    if math.isfinite(certificate.lower_bound):
        condition = fit.problem.criterion.constraint_text
        bound = (
            f"no subspace of this dimension{condition} has a value below "
            f"{certificate.lower_bound:.6g}"
        )
    return [
        f"The objective is {formula.objective_text} Here it is {certificate.objective:.6g}, "
        f"and {bound}.",
        formula.bound_text.format(rest=rest),
    ]


def _formula(fit: FittedCriterion) -> CriterionFormula:
    """Return the criterion's formula, with the explanation of the proof that was found."""
    formula = fit.problem.criterion.formula
    proof = fit.certificate.proof
    if proof is None or type(proof) is Proof:
        return formula
    if isinstance(proof, SupportingLinesProof):
        return replace(formula, bound_text=_LINES_PROOF_TEXT)
    return replace(formula, bound_text=_LIMIT_PROOF_TEXT)
