"""Verify a model: recompute the claims of its certificate without any solver.

Everything is recomputed from the components, the proof stored with the model, and the moments of
the rows: orthonormality of the components, errors, objective, lower bound and nested steps, with
LAPACK eigenvalues and conservative rounding allowances. Components and proof are evaluated by the
routine that ends every fit (:func:`fairspan.certificates.evaluate_solution.evaluate_solution`), and
its result is compared with the model's certificate field by field. Solver, number of eigenproblems
and trace are records of the run and are not verified.
"""

from dataclasses import replace

import numpy as np

from fairspan.certificates.certificate_parts import ProblemStatement
from fairspan.certificates.eigensolver import Eigensolver
from fairspan.errors import FairspanError
from fairspan.linalg.memory import explain_memory_errors
from fairspan.model.subspace import FairSubspace
from fairspan.model.two_tables import TWO_TABLES_REMEDY, is_of_two_tables
from fairspan.moments.compute import Moments
from fairspan.moments.group_moments import GroupMoments
from fairspan.typing import LabelsLike, ModelLike, TableLike, WeightsLike
from fairspan.verification.all_checks import verify_data
from fairspan.verification.verification_failure import PASS_ROWS_HINT, VerificationFailure
from fairspan.verification.verification_result import Verification, failed_verification
from fairspan.verification.verified_data import (
    VerifiedData,
    read_moments,
    representations,
    select_model_features,
)


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
    if is_of_two_tables(model):
        return failed_verification(f"The model is a {type(model).__name__}. {TWO_TABLES_REMEDY}.")
    if not isinstance(subspace, FairSubspace) or subspace.certificate is None:
        kind = type(model).__name__
        return failed_verification(
            f"The model is a {kind} without a certificate: there is nothing to verify."
        )
    statement: object = subspace.certificate.statement
    if not isinstance(statement, ProblemStatement):
        return failed_verification("The certificate does not state its problem.")
    moments = read_moments(X_or_moments, sensitive_features, sample_weight, y, subspace)
    try:
        selected = select_model_features(moments, subspace)
        first, *others = representations(selected, subspace)
        verification = _verify_representation(model, subspace, first)
        for data in others:
            if verification.holds:
                break
            # A fit that read the same rows otherwise resolves more, or less. The messages are those
            # of the first representation, which resolves most as a rule.
            other_verification = _verify_representation(model, subspace, data)
            if other_verification.holds:
                verification = other_verification
        if isinstance(X_or_moments, GroupMoments) and Eigensolver.THIN in first.eigensolvers:
            return _with_rows_hint(verification, subspace, selected)
        return verification
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


def _with_rows_hint(
    verification: Verification, subspace: FairSubspace, moments: Moments
) -> Verification:
    """Advise to pass the rows if moments of few rows do not verify a model.

    A fit in row coordinates may resolve what matrices do not. Other rows would not help a model
    that was fitted to other numbers of rows.
    """
    hints = [message for message in verification.messages if PASS_ROWS_HINT in message]
    counts = subspace.require_certificate().counts
    if verification.holds or hints or not np.array_equal(counts, moments.counts):
        return verification
    first, *others = verification.messages
    return replace(verification, messages=(first + PASS_ROWS_HINT, *others))


def _verify_representation(
    model: ModelLike, subspace: FairSubspace, data: VerifiedData
) -> Verification:
    """Verify a model with one representation of its rows."""
    try:
        return verify_data(model, subspace, data)
    except VerificationFailure as failure:
        return failed_verification(str(failure))
