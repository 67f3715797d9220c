"""Verify a model: recompute the claims of its certificate without any solver.

Everything is recomputed from the components, the proof stored with the model, and the moments of
the rows: orthonormality of the components, errors, objective, lower bound and nested steps, with
LAPACK eigenvalues and conservative rounding allowances. Components and proof are evaluated by the
routine that ends every fit (:func:`fairspan.certificates.evaluate_solution.evaluate_solution`), and
its result is compared with the model's certificate field by field. Solver, number of eigenproblems
and trace are records of the run and are not verified.
"""

from fairspan.certificates.certificate_parts import ProblemStatement
from fairspan.errors import FairspanError
from fairspan.linalg.memory import explain_memory_errors
from fairspan.model.subspace import FairSubspace
from fairspan.typing import LabelsLike, ModelLike, TableLike, WeightsLike
from fairspan.verification.all_checks import verify_data
from fairspan.verification.verification_failure import VerificationFailure
from fairspan.verification.verification_result import Verification, failed_verification
from fairspan.verification.verified_data import moments_from, prepare_data


@explain_memory_errors()
def verify(
    model: ModelLike,
    X_or_moments: TableLike,
    sensitive_features: LabelsLike = None,
    *,
    sample_weight: WeightsLike = None,
    y: LabelsLike = None,
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
        return failed_verification(
            f"The model is a {kind} without a certificate: there is nothing to verify."
        )
    if not isinstance(subspace.certificate.statement, ProblemStatement):
        return failed_verification("The certificate does not state its problem.")
    moments = moments_from(X_or_moments, sensitive_features, sample_weight, y, subspace)
    try:
        return verify_data(model, subspace, prepare_data(moments, subspace))
    except VerificationFailure as failure:
        return failed_verification(str(failure))
    # Models may come from untrusted sources and hold any values.
    except (
        FairspanError,
        LookupError,
        ValueError,
        TypeError,
        ArithmeticError,
        AttributeError,
    ) as error:
        return failed_verification(f"The problem cannot be posed for these data: {error}")
