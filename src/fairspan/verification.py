"""Verify a model: recompute the claims of its certificate without any solver.

Everything is recomputed from the components, the proof stored with the model, and the moments of
the rows: orthonormality of the components, errors, objective, lower bound and nested steps, with
LAPACK eigenvalues and conservative rounding allowances. Components and proof are evaluated by the
routine that ends every fit (:func:`fairspan.certificates.certificate.evaluate_solution`), and its
result is compared with the model's certificate field by field. Solver, number of eigenproblems and
trace are records of the run and are not verified.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from fairspan.certificates.certificate import (
    EM_CONVERGENCE_TOL,
    LOOSE_TOL,
    Certificate,
    Status,
    errors_and_rounding,
    evaluate_solution,
    resolution_scale,
    unresolved_reason,
)
from fairspan.certificates.proofs import POLYGON_TOL, Proof
from fairspan.errors import FairspanError, IncompatibleParameters
from fairspan.formatting.messages import counted
from fairspan.linalg.memory import explain_memory_errors
from fairspan.model.serialization import UnresolvedObject
from fairspan.model.subspace import FairSubspace
from fairspan.moments import compute
from fairspan.moments.base import Center
from fairspan.moments.compute import Moments, compute_moments
from fairspan.moments.group_moments import GroupMoments, compute_group_moments
from fairspan.moments.normal_model import NormalModel
from fairspan.moments.operators import (
    Projector,
    error_reduction_by_component,
    reconstruction_errors,
)
from fairspan.moments.rank import with_row_rank
from fairspan.moments.sparse import SparseSecondMoments
from fairspan.moments.wide import MAX_ORTHOGONALITY_DEFECT, WideMoments
from fairspan.problem.oblique import ObliqueShift
from fairspan.problem.problem import Problem, is_feasible, signed_disparity
from fairspan.problem.reduction import (
    ProblemFamily,
    Reduction,
    build_problem_family,
    check_means_agree,
    deflate_reduction,
)
from fairspan.problem.restrictions import Restriction
from fairspan.rows.label_matching import KnownLabels, check_types
from fairspan.rows.label_resolution import SingleGroup
from fairspan.rows.labels import Label, format_list, label_array, label_type
from fairspan.rows.opening import match_groups, open_rows
from fairspan.solvers import auto
from fairspan.solvers.growing_subspace import OPTIMA_TOL
from fairspan.typing import FloatArray

_EPSILON = float(np.finfo(np.float64).eps)
# Largest number of entries of the second moments for which matrices are formed: 2.4 GB.
_MAX_MATRIX_ENTRIES = 3e8
# Up to this many features, data with fewer rows than features are verified in the features
# themselves.
_MAX_WIDE_FEATURES = 2500
# Tolerance for products of components, also with forbidden directions.
_ORTHONORMALITY_TOL = 1e-10
# Tolerance for the integral dimension of a soft projection, whose squared lengths are rounded.
_INTEGRALITY_TOL = 1e-6
# Directions along which covariances agree are less accurate than those of means.
_COVARIANCE_DIRECTION_TOL = 1e-8
_PASS_ROWS_HINT = " Pass the rows, which are more precise than their moments."
# Rounding error of the loss of the best encoder for a decoder, relative to the variance.
_OBLIQUE_LOSS_ROUNDING = 1e-13
# Relative tolerance for figures that were computed twice, in addition to rounding.
_AGREEMENT_TOL = 1e-9
# Rounding error relative to the objective, which under a restriction may contain a large constant.
_OFFSET_ROUNDING = 1e-14
# Rounding errors, and with them a gap, may be a few times as large in other coordinates.
_ROUNDING_FACTOR = 4.0
# Rounding allowances of different methods agree up to this factor.
_ROUNDING_BOUND_FACTOR = 500.0
# A resolution that differs from the recomputed one by more than this factor is reported.
_SAME_RESOLUTION_FACTOR = 1.01
# Rounding errors of fits to rows differ from those of matrices, but by no more than this factor
# times that of the variance.
_ROW_ROUNDING_FACTOR = 10.0
# Allowances for rounding are capped at this fraction of the figure that is compared, unless the
# model was fitted with a larger tolerance.
_MIN_RELATIVE_TOL = 1e-6
# A figure of at most this many times its rounding error cannot be distinguished from zero.
_ZERO_ROUNDINGS = 2.0
# Rounding error of errors, relative to the variance, that a fit without matrices assumes.
_MATRIX_FREE_ROUNDING = 1e-14
# Best accuracy, relative to the variance, of the groups' optima found in a search subspace.
_SUBSPACE_OPTIMA_TOL = 1e-12
# Directions of the standardized features whose variance is below this fraction of the largest have
# no variance but rounding error.
_VARIANCE_TOL = 1e-12
# Tolerance of encoders, in units of eps times the condition number: encoders of the same rows in
# another order differed by up to 9 of these, at any conditioning.
_ENCODER_ROUNDING_UNITS = 32
# Means of rows read in different blocks differ by a few rounding errors.
_MEAN_ROUNDING_UNITS = 8
# Basis columns shorter than this lie outside the row coordinates.
_COORDINATE_TOL = 1e-6
_OTHER_ROWS_MESSAGE = (
    "These are not the rows of the fit: the groups have different numbers of rows. A certificate "
    "is verified with the rows that the model was fitted on; use audit to evaluate a model on "
    "other rows."
)
CANNOT_BE_VERIFIED = "The certificate cannot be verified from these data"
# Fields that a certificate shares with its steps and prefixes.
_SHARED_FIELDS = ("criterion", "tol", "center", "restriction", "groups", "counts")
# Fields that a step shares with the prefix that ends with it.
_PREFIX_FIELDS = ("errors", "losses", "total_variance")
# By name: recomputed value, claimed value, and tolerance (None if both must be equal).
_Comparisons = dict[str, tuple[Any, Any, Any]]


class _VerificationFailure(Exception):
    """A check failed, with a message; never raised to users."""


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
    moments = _moments_from(X_or_moments, sensitive_features, sample_weight, y, subspace)
    try:
        moments = _select_model_features(moments, subspace)
        return _verify_moments(
            model,
            subspace,
            _as_matrices_if_affordable(moments, subspace),
            matrix_free=moments.matrix_free,
            is_wide=isinstance(moments, WideMoments),
        )
    except _VerificationFailure as failure:
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


def _moments_from(
    X_or_moments: Any, groups: Any, weight: Any, y: Any, subspace: FairSubspace
) -> Moments:
    """Moments of all columns of the data, with the labels of the model."""
    certificate = subspace.require_certificate()
    if isinstance(X_or_moments, Moments):
        moments = X_or_moments
        if isinstance(moments, GroupMoments):
            has_classes = moments.by_class is not None
            if has_classes or not _are_same_labels(moments.labels, certificate.groups):
                known = KnownLabels.from_certificate(certificate, has_y=has_classes)
                moments = moments.matched_to(known)
        check_types(moments.labels, certificate.groups)
        return moments
    if groups is None and len(certificate.groups) == 1:
        groups = SingleGroup(str(certificate.groups[0]))
    rows = open_rows(X_or_moments, groups, {"y": y}, weight, subspace.on_missing)
    has_y = y is not None
    rows = match_groups(rows, KnownLabels.from_certificate(certificate, has_y=has_y))
    if getattr(certificate.restriction, "columns", ()):
        moments = compute_group_moments(rows, has_y=has_y)
    else:
        moments = compute_moments(rows, has_y=has_y)
    check_types(moments.labels, certificate.groups)
    if certificate.may_be_zero and subspace.dimension < subspace.n_features:
        moments = with_row_rank(moments, rows)
    return moments


def _are_same_labels(first: Sequence[Label], second: Sequence[Label]) -> bool:
    """Return whether labels are equal and of the same types, unlike 1, 1.0 and True."""
    if list(first) != list(second):
        return False
    return [*map(label_type, first)] == [*map(label_type, second)]


def _select_model_features(moments: Moments, subspace: FairSubspace) -> Moments:
    """Moments of the model's features, with the columns that its restriction needs.

    Raises
    ------
    InvalidInput
        The data lack these columns.
    """
    restriction = subspace.require_certificate().restriction
    if not isinstance(moments, GroupMoments):
        return moments
    if restriction is not None:
        moments = moments.with_attributes(restriction.columns)
    model_names = subspace.feature_names
    data_names = moments.feature_names
    # Columns in another order, or among others, are matched by name.
    if model_names and data_names and set(model_names) <= set(data_names):
        return moments.select_features([data_names.index(name) for name in model_names])
    return moments


def _as_matrices_if_affordable(moments: Moments, subspace: FairSubspace) -> Moments:
    """Convert to matrices if they are small enough; otherwise return the moments unchanged.

    Row coordinates lose precision if one column is very large. But if the components contain all
    rows of a group, its error is zero, which matrices of many features cannot distinguish from
    rounding error.
    """
    n_features = moments.n_features
    if moments.matrix_free:
        is_affordable = moments.n_groups * float(n_features) ** 2 <= _MAX_MATRIX_ENTRIES
        return moments.to_dense() if is_affordable else moments
    if isinstance(moments, WideMoments) and subspace.dimension + 1 >= moments.counts.min():
        return moments
    if subspace.require_certificate().restriction is not None or n_features > _MAX_WIDE_FEATURES:
        return moments
    return moments.to_dense()


def _verify_moments(
    model: Any,
    subspace: FairSubspace,
    moments: Moments,
    *,
    matrix_free: bool = False,
    is_wide: bool = False,
) -> Verification:
    """Verify everything; failures come first in the messages.

    Parameters
    ----------
    model : FairPCA or FairSubspace
    subspace : FairSubspace
        That of the model.
    moments : GroupMoments, SparseMoments or WideMoments
    matrix_free : bool
        Whether the model was fitted to sparse rows without matrices: rounding errors then differ,
        and prefixes of nested components have no bound.
    is_wide : bool
        Whether the data have fewer rows than features.

    Raises
    ------
    _VerificationFailure
        No further check is possible.
    """
    certificate = subspace.require_certificate()
    _check_same_data(subspace, certificate, moments)
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
    _check_oblique(subspace, reduction)
    may_use_row_space = is_wide or _has_few_rows(moments)
    rows_would_help = may_use_row_space and family.coordinates is None
    oblique_rounding = reduction.problem.oblique_rounding
    if rows_would_help and oblique_rounding > certificate.absolute_tol:
        raise _VerificationFailure(
            "From moments, the cost of the restriction is known only up to "
            f"{oblique_rounding:.1e}, and the tolerance is {certificate.absolute_tol:.1e}."
            f"{_PASS_ROWS_HINT}"
        )
    projector = subspace.projector
    basis = projector.basis
    if family.coordinates is not None:
        basis = _basis_in_coordinates(family.coordinates.project(basis))
        projector = projector.with_stacked_columns(
            family.coordinates.project(projector.stacked_columns)
        )
    errors = _projector_errors(reduction, projector, basis)
    _check_encoder(subspace, family, reduction, moments)
    variances_kept = error_reduction_by_component(
        projector, reduction.problem.unrestricted.second_moments
    )
    basis, outside_norm = _restrict_basis(reduction, basis)
    max_outside_norm = _ORTHONORMALITY_TOL
    if outside_norm > max_outside_norm:
        # Computed only if needed: it costs a decomposition of the means.
        max_outside_norm = _max_outside_norm(moments, certificate.restriction)
    if outside_norm > max_outside_norm:
        raise _VerificationFailure(
            f"The components leave the allowed directions of the restriction by {outside_norm:.1e}."
            + (_PASS_ROWS_HINT if rows_would_help else "")
        )
    recomputed = _evaluate(reduction, basis, certificate.proof, certificate.tol)
    evaluation = _Evaluation(
        model=model,
        subspace=subspace,
        moments=moments,
        family=family,
        reduction=reduction,
        projector=projector,
        basis=basis,
        outside_norm=outside_norm,
        errors=errors,
        variances_kept=variances_kept,
        recomputed=recomputed,
        matrix_free=matrix_free,
        is_wide=is_wide,
    )
    failures = _explained_failures(evaluation)
    summary = _summary_messages(recomputed, subspace, moments)
    return Verification(
        holds=not failures,
        objective=recomputed.objective,
        lower_bound=recomputed.lower_bound,
        gap=recomputed.gap,
        messages=(*failures, *summary),
    )


def _check_oblique(subspace: FairSubspace, reduction: Reduction) -> None:
    """Check that the model has a separate decoder if and only if the restriction is oblique."""
    has_oblique_shift = reduction.oblique_shift is not None
    if subspace.is_oblique and not has_oblique_shift:
        raise _VerificationFailure(
            "The model has a separate decoder, and its restriction is not oblique."
        )
    if has_oblique_shift and not subspace.is_oblique:
        raise _VerificationFailure(
            "The restriction is oblique, and the model has no separate decoder."
        )


@dataclass(frozen=True, eq=False)
class _Evaluation:
    """A model together with what was recomputed from the data.

    Attributes
    ----------
    model, subspace, moments, matrix_free, is_wide
        See :func:`_verify_moments`.
    family, reduction
        The problem that the certificate names, built from the data.
    projector : Projector
        Projection of the model, in the coordinates of the problem.
    basis : (m, r) array
        Basis of the components, in coordinates of the allowed directions.
    outside_norm : float
        Norm of the part of the components outside the allowed directions.
    errors : (k,) array
        Error of each group.
    variances_kept : (k, r) array
        Reduction of each group's error by each component.
    recomputed : Certificate
        Certificate of the components with the model's proof.
    """

    model: Any
    subspace: FairSubspace
    moments: Moments
    family: ProblemFamily
    reduction: Reduction
    projector: Projector
    basis: FloatArray
    outside_norm: float
    errors: FloatArray
    variances_kept: FloatArray
    recomputed: Certificate
    matrix_free: bool
    is_wide: bool

    @cached_property
    def may_use_row_space(self) -> bool:
        """Whether a fit of these rows may use row coordinates."""
        return self.is_wide or _has_few_rows(self.moments)

    @property
    def may_be_sparse(self) -> bool:
        """Whether a fit of these rows may avoid matrices."""
        return self.matrix_free or self.moments.n_features > compute.MAX_DENSE_FEATURES

    @property
    def unrestricted(self) -> Problem:
        """The problem without its restriction."""
        return self.reduction.problem.unrestricted

    @cached_property
    def mean_rounding(self) -> float:
        """Norm of the rounding error of the means about which parts of the rows were accumulated.

        They are rounded relative to their own size.
        """
        rounding = self.moments.offset_rounding(self.moments.mean)
        if self.subspace.scale is not None:
            rounding = rounding / self.subspace.scale
        return float(np.linalg.norm(rounding))

    @cached_property
    def rotation_effect(self) -> FloatArray:
        """Bound on the effect of a rotation of the subspace, and of rounded means, on errors, (k,).

        Allowed directions are rounded, and the components were chosen in differently rounded ones:
        the part outside of them acts like a rotation of the subspace.
        """
        mean_rounding = self.mean_rounding
        rotation = self._rotation_bound(self.unrestricted.second_moments.traces, self.errors)
        return np.asarray(rotation + 2 * mean_rounding * np.sqrt(self.errors) + mean_rounding**2)

    def _rotation_bound(self, traces: FloatArray, variances: FloatArray) -> FloatArray:
        """Bound on the effect of a rotation of the subspace on variances, given the traces."""
        norm = self.outside_norm
        return np.asarray(2 * norm * np.sqrt(traces * variances) + norm**2 * traces)

    @cached_property
    def component_rounding(self) -> FloatArray:
        """Rounding error bound of `variances_kept`, shape (k, r)."""
        deviations = _feature_deviations(self.moments, self.subspace.scale, self.subspace.center)
        entry_rounding = _component_rounding(deviations, self.subspace.projector)
        traces = self.unrestricted.second_moments.traces[:, None]
        variances = np.maximum(self.variances_kept, 0.0)
        rotation = self._rotation_bound(traces, variances)
        mean_rounding = self.mean_rounding
        return np.asarray(
            entry_rounding + rotation + 2 * mean_rounding * np.sqrt(variances) + mean_rounding**2
        )

    @cached_property
    def method_tol(self) -> float:
        """Difference of the objective between methods of solving that these data allow."""
        problem = self.unrestricted
        criterion = problem.criterion
        errors = self.errors
        tol = 0.0
        if self.may_use_row_space or self.may_be_sparse:
            row_rounding = _ROW_ROUNDING_FACTOR * problem.variance_rounding
            tol = criterion.rounding_bound(row_rounding, errors, problem)
            tol += POLYGON_TOL * abs(self.recomputed.objective)
        if self.may_use_row_space:
            # The fit may have used row coordinates.
            row_problem = replace(
                problem,
                orthogonality_defect=MAX_ORTHOGONALITY_DEFECT,
                parent=self.reduction.problem.parent,
            )
            coordinate_rounding = np.maximum(
                row_problem.coordinate_rounding(errors), problem.coordinate_rounding(errors)
            )
            tol += criterion.rounding_bound(
                _ROW_ROUNDING_FACTOR * coordinate_rounding, errors, row_problem
            )
        if criterion.uses_excess_loss:
            tol += criterion.rounding_bound(self.optima_tol, errors, problem)
        return float(tol)

    @cached_property
    def matrix_free_resolution(self) -> float:
        """Resolution of a fit without matrices; zero if no fit of these data avoids them."""
        if not self.may_be_sparse:
            return 0.0
        problem = self.unrestricted
        error_rounding = _MATRIX_FREE_ROUNDING * problem.second_moments.traces
        rounding = problem.criterion.rounding_bound(error_rounding, self.errors, problem)
        return 2 * _ROUNDING_FACTOR * rounding

    @cached_property
    def em_distance(self) -> float:
        """Distance, in standard deviations, between the limits of two runs of the EM algorithm.

        Zero without missing cells, or if all digits that are compared have converged.
        """
        distance = _em_distance(self.moments)
        if distance <= 2 * EM_CONVERGENCE_TOL:
            return 0.0
        # The run of the fit may have ended earlier, which increased its resolution. The claimed
        # resolution proves nothing, but this distance only explains failures.
        claimed = self.subspace.require_certificate().resolution
        if self.recomputed.resolution > 0 and math.isfinite(claimed):
            distance *= max(claimed / self.recomputed.resolution, 1.0)
        return min(distance, 1.0)

    @cached_property
    def optima_tol(self) -> FloatArray:
        """Error bound of the groups' optima, if they are found in a search subspace, shape (k,)."""
        traces = self.unrestricted.second_moments.traces
        if self.moments.n_features < auto.SMALL_SUBSPACES_FROM:
            return np.zeros(len(traces))
        relative_tol = _SUBSPACE_OPTIMA_TOL
        tol = self.subspace.require_certificate().tol
        if 0 <= tol < 1:
            relative_tol = max(relative_tol, OPTIMA_TOL * tol)
        return relative_tol * np.maximum(traces, self.unrestricted.total_variance)


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


def _has_few_rows(moments: Moments) -> bool:
    """Whether there are many features and no more rows, so that a fit may use row coordinates."""
    n_features = moments.n_features
    return n_features > compute.MIN_WIDE_FEATURES and int(moments.counts.sum()) <= n_features


def _max_relative_tol(certificate: Certificate) -> float:
    """Cap on allowances for rounding, relative to the figure that is compared."""
    if 0 <= certificate.tol < 1:
        return max(certificate.tol, _MIN_RELATIVE_TOL)
    return _MIN_RELATIVE_TOL


def _cap_tolerance(
    rounding: FloatArray | float,
    magnitude: FloatArray | float,
    zero_magnitude: float,
    max_relative_tol: float,
) -> FloatArray:
    """Cap the allowance for rounding of each figure at a fraction of the figure.

    Parameters
    ----------
    rounding : (n,) array or float
        Rounding error bound of each figure.
    magnitude : (n,) array or float
        Magnitude of each figure.
    zero_magnitude : float
        Magnitude relative to which a figure that may be rounding error counts as zero, as with as
        many dimensions as rows. Zeros are not capped.
    max_relative_tol : float
    """
    may_be_zero = magnitude <= _ZERO_ROUNDINGS * rounding
    is_zero = may_be_zero & (rounding <= max_relative_tol * zero_magnitude)
    capped = np.minimum(rounding, max_relative_tol * np.asarray(magnitude))
    return np.where(is_zero, rounding, capped)


def _error_magnitude(problem: Problem, errors: FloatArray, rounding: float) -> float:
    """Largest error or, if all are negligible, a variance relative to which they are zero."""
    max_error = float(errors.max())
    if max_error > rounding:
        return max_error
    if problem.n_components == problem.n_features or not problem.has_matrices:
        return float(problem.second_moments.traces.max())
    return problem.smallest_row_variance


def _explained_failures(evaluation: _Evaluation) -> list[str]:
    """List all failed checks, preceded by a common reason if there is one."""
    failures = [*_failures(evaluation)]
    if not failures:
        return []
    certificate = evaluation.subspace.require_certificate()
    if not [*_failures(evaluation, is_capped=False)]:
        # The figures agree as far as rounding allows, which is not enough.
        reason = (
            f"{CANNOT_BE_VERIFIED}: rounding is more than {_max_relative_tol(certificate):.0e} of "
            "what the model says."
        )
        if evaluation.recomputed.may_be_zero and evaluation.moments.row_rank is None:
            reason += _PASS_ROWS_HINT
        failures = [reason, *failures]
    elif evaluation.em_distance and not [*_failures(evaluation, is_converged=False)]:
        # For another order of the rows, the EM algorithm ends elsewhere.
        failures = [_em_distance_message(evaluation.em_distance), *failures]
    if not np.array_equal(evaluation.moments.counts, certificate.counts):
        # With other rows nothing else can agree, and a page of numbers would hide the reason.
        failures = [_OTHER_ROWS_MESSAGE, *[text for text in failures if "counts =" in text]]
    return failures


def _failures(
    evaluation: _Evaluation, *, is_capped: bool = True, is_converged: bool = True
) -> Iterator[str]:
    """Yield a message for each failed check.

    Parameters
    ----------
    evaluation : _Evaluation
    is_capped : bool
        Whether allowances for rounding are capped at a fraction of each figure.
    is_converged : bool
        Whether the moments are exact up to rounding. Otherwise figures may differ as much as those
        of two runs of the EM algorithm.
    """
    is_capped = is_capped and is_converged
    subspace = evaluation.subspace
    certificate = subspace.require_certificate()
    unrestricted = evaluation.unrestricted
    em_rounding = np.zeros(len(evaluation.errors))
    if not is_converged:
        em_distance = evaluation.em_distance
        em_rounding = _ROUNDING_FACTOR * em_distance * unrestricted.second_moments.traces
    component_rounding = evaluation.component_rounding + em_rounding[:, None]

    yield from _component_failures(subspace.projector, is_soft=subspace.is_soft)
    comparisons = _data_comparisons(
        evaluation, em_rounding, component_rounding, is_capped=is_capped, is_converged=is_converged
    )
    comparisons |= _estimator_comparisons(
        evaluation.model,
        subspace,
        certificate,
        evaluation.variances_kept,
        unrestricted,
        component_rounding,
    )
    yield from _mismatches(comparisons)

    rotation_effect = evaluation.rotation_effect + em_rounding
    resolution = evaluation.recomputed.resolution + unrestricted.criterion.rounding_bound(
        rotation_effect, evaluation.errors, unrestricted
    )
    tolerances = _objective_tolerances(
        evaluation.reduction.problem,
        evaluation.recomputed,
        certificate,
        resolution,
        evaluation.method_tol,
        is_capped=is_capped,
    )
    tolerances = replace(
        tolerances,
        matrix_free_resolution=evaluation.matrix_free_resolution,
        is_converged=is_converged,
    )
    yield from _certificate_failures(
        evaluation.recomputed,
        certificate,
        tolerances,
        matrix_free=evaluation.matrix_free,
        may_use_row_space=evaluation.may_use_row_space,
    )
    yield from _status_failures(
        evaluation.reduction,
        evaluation.basis,
        evaluation.recomputed,
        certificate,
        tolerances,
        may_be_sparse=evaluation.may_be_sparse,
        may_use_row_space=evaluation.may_use_row_space,
        has_row_rank=evaluation.moments.row_rank is not None,
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


def _data_comparisons(
    evaluation: _Evaluation,
    em_rounding: FloatArray,
    component_rounding: FloatArray,
    *,
    is_capped: bool,
    is_converged: bool,
) -> _Comparisons:
    """Compare what a model says of its rows, its errors and the reasons of unresolved gaps.

    Parameters
    ----------
    evaluation : _Evaluation
    em_rounding : (k,) array
        Error bound of each group's variance, if the EM algorithm has not converged; otherwise zero.
    component_rounding : (k, r) array
        Rounding error bound of the variances kept, including that.
    is_capped, is_converged : bool
        See :func:`_failures`.
    """
    subspace = evaluation.subspace
    moments = evaluation.moments
    certificate = subspace.require_certificate()
    unrestricted = evaluation.unrestricted
    proportions = unrestricted.proportions
    errors = evaluation.errors
    losses = np.maximum(errors - unrestricted.best_errors, 0.0)
    error_tol = (
        _ROUNDING_FACTOR * errors_and_rounding(evaluation.reduction.problem, evaluation.basis)[1]
        + evaluation.rotation_effect
        + em_rounding
    )
    # Both terms of an excess loss are rounded.
    loss_tol = 2 * error_tol + evaluation.optima_tol
    if is_capped:
        magnitude = _error_magnitude(unrestricted, errors, float(error_tol.max()))
        max_relative_tol = _max_relative_tol(certificate)
        error_tol = _cap_tolerance(error_tol, errors, magnitude, max_relative_tol)
        loss_tol = _cap_tolerance(loss_tol, losses, magnitude, max_relative_tol)
    total_variance_tol = _AGREEMENT_TOL * unrestricted.total_variance
    total_variance_tol += float(proportions @ em_rounding)
    comparisons = {
        **_row_comparisons(
            subspace,
            certificate,
            moments,
            proportions @ evaluation.variances_kept,
            proportions @ component_rounding,
            _em_distance(moments) if is_converged else evaluation.em_distance,
        ),
        "errors": (errors, certificate.errors, _AGREEMENT_TOL * errors + error_tol),
        "total_variance": (
            evaluation.recomputed.total_variance,
            certificate.total_variance,
            total_variance_tol,
        ),
        "losses": (losses, certificate.losses, _AGREEMENT_TOL * losses + loss_tol),
    }
    if is_converged:
        certificates = (certificate, *certificate.steps)
        reasons = [
            unresolved_reason(
                claimed,
                _with_n_components(unrestricted, claimed.n_components),
                moments,
                claimed.center,
                is_scaled=subspace.scale is not None,
            )
            for claimed in certificates
        ]
        claimed_reasons = [claimed.unresolved_reason for claimed in certificates]
        comparisons["unresolved_reason"] = (reasons, claimed_reasons, None)
    return comparisons


def _with_n_components(problem: Problem, n_components: int) -> Problem:
    """Return the problem for another number of components, with its caches if that is the same."""
    if n_components == problem.n_components:
        return problem
    return replace(problem, n_components=n_components)


@dataclass(frozen=True)
class _Tolerances:
    """Tolerances for the figures of a certificate.

    Attributes
    ----------
    objective : float
        Tolerance of the objective, of the bound, and of figures compared with them.
    method : float
        Part of it that is due to different methods of solving.
    gap : float
        Largest gap of a model that is called optimal, if the data leave it unresolved.
    matrix_free_resolution : float
        Resolution of a fit without matrices; zero if no fit of these data avoids them.
    is_converged : bool
        Whether the moments are exact up to rounding, rather than up to the end of the EM algorithm.
    """

    objective: float
    method: float
    gap: float
    matrix_free_resolution: float = 0.0
    is_converged: bool = True


def _objective_tolerances(
    problem: Problem,
    recomputed: Certificate,
    certificate: Certificate,
    resolution: float,
    method_tol: float,
    *,
    is_capped: bool,
) -> _Tolerances:
    """Tolerances of the objective and of figures in its units.

    The resolution claimed by the model proves nothing; only recomputed rounding counts.

    Parameters
    ----------
    problem : Problem
    recomputed, certificate : Certificate
    resolution : float
        Resolution of the objective, with the effects of rotations and means.
    method_tol : float
        Difference of the objective between methods of solving.
    is_capped : bool
        Whether allowances for rounding are capped at a fraction of the objective.
    """
    gap = _ROUNDING_FACTOR * _EPSILON * float(problem.unrestricted.second_moments.traces.max())
    rounding = _ROUNDING_FACTOR * resolution + method_tol
    if is_capped:
        max_relative_tol = _max_relative_tol(certificate)
        magnitude = max(abs(recomputed.objective), recomputed.scale)
        zero_magnitude = resolution_scale(
            problem, recomputed.errors - problem.common_error, recomputed.resolution
        )
        zero_bound = _ZERO_ROUNDINGS * recomputed.resolution
        max_zero_bound = _ZERO_ROUNDINGS * max_relative_tol * zero_magnitude
        cap = max_relative_tol * magnitude
        if recomputed.scale <= zero_bound <= max_zero_bound:
            # The objective may be zero, which has no relative tolerance.
            cap = max(cap, rounding)
        rounding = min(rounding, cap)
        method_tol = min(method_tol, cap)
        gap = min(gap, cap)
    agreement = _AGREEMENT_TOL * abs(recomputed.scale)
    agreement += _OFFSET_ROUNDING * abs(recomputed.objective)
    return _Tolerances(objective=rounding + agreement, method=method_tol, gap=gap)


def _check_same_data(subspace: FairSubspace, certificate: Certificate, moments: Moments) -> None:
    """Check that features and groups of the data match those of the model."""
    for part in (certificate.criterion, certificate.restriction):
        if isinstance(part, UnresolvedObject):
            raise part.error()
    model_names = subspace.feature_names
    data_names = moments.feature_names
    if subspace.n_features != moments.n_features:
        raise _VerificationFailure(
            f"The model has {counted(subspace.n_features, 'feature')}; the data have "
            f"{moments.n_features}."
        )
    if model_names is not None and data_names is not None and model_names != data_names:
        raise _VerificationFailure(
            "The features of the data differ from those of the model, at least in their order."
        )
    if tuple(moments.labels) != tuple(certificate.groups):
        raise _VerificationFailure(
            f"The model was fitted on the groups {format_list(list(certificate.groups))}; the data "
            f"have {format_list(moments.labels)}."
        )


def _basis_in_coordinates(basis: FloatArray) -> FloatArray:
    """Columns of a basis within the row coordinates, without the part outside of them."""
    vectors, lengths, _ = np.linalg.svd(basis, full_matrices=False)
    is_inside = lengths > _COORDINATE_TOL
    # If one column is very large, coordinates are orthonormal to fewer digits.
    lengths = np.where(lengths > 1 - _COORDINATE_TOL, 1.0, lengths)
    return np.asarray(vectors[:, is_inside] * lengths[is_inside])


def _projector_errors(reduction: Reduction, projector: Projector, basis: FloatArray) -> FloatArray:
    """Error of each group, shape (k,).

    Raises
    ------
    _VerificationFailure
        An oblique encoder is not the best for its decoder.
    """
    problem = reduction.problem
    unrestricted = problem.unrestricted
    shift = reduction.oblique_shift
    if shift is None:
        return unrestricted.second_moments.residual_variances(basis)
    abs_encoder = np.abs(projector.encoder)
    # The group means are rounded.
    mean_rounding = abs_encoder @ unrestricted.dense_moments.offset_rounding_error
    remaining_means = np.abs(projector.encoder @ shift.forbidden)
    tol = abs_encoder @ np.abs(shift.forbidden) * _ORTHONORMALITY_TOL
    if not (remaining_means <= tol + _MEAN_ROUNDING_UNITS * mean_rounding[:, None]).all():
        fraction = float((remaining_means / tol).max() * _ORTHONORMALITY_TOL)
        raise _VerificationFailure(
            "The encoder does not remove the differences of the means: "
            f"{fraction:.1e} of them remains."
        )
    errors = reconstruction_errors(projector, unrestricted.second_moments)
    best_total_error = problem.objective(projector.basis) + problem.objective_offset
    excess = float(unrestricted.proportions @ errors) - best_total_error
    rounding = unrestricted.total_variance * _OBLIQUE_LOSS_ROUNDING + shift.rounding
    if not excess <= _AGREEMENT_TOL * best_total_error + rounding:
        raise _VerificationFailure(
            f"The encoder loses {excess:.1e} more than the best one for its decoder."
        )
    return errors


def _forbidden_rotation(moments: Moments, restriction: Restriction | None) -> float:
    """Bound on the rotation of the forbidden directions due to rounded means."""
    mean_differences = moments.mean_differences(0)
    means = mean_differences
    if restriction is not None:
        means = restriction.constrained_means(moments)
    singular_values = np.linalg.svd(means[1:] - means[0], compute_uv=False)
    magnitude = float(np.linalg.norm(np.abs(mean_differences).max(axis=0)))
    all_columns = moments.all_columns if isinstance(moments, GroupMoments) else None
    if restriction is not None and restriction.columns and all_columns is not None:
        # Covariances with columns whose means are rounded, in units of their standard deviation.
        extra = slice(moments.n_features, None)
        column_means = np.abs(all_columns.mean_differences(0)).max(axis=0)[extra]
        ratios = column_means / all_columns.standard_deviations[extra]
        magnitude += float(ratios.max() * np.linalg.norm(moments.standard_deviations))
    rounding = _MEAN_ROUNDING_UNITS * _EPSILON * magnitude
    significant = singular_values[singular_values > rounding]
    return rounding / float(significant.min()) if significant.size else 0.0


def _max_outside_norm(moments: Moments, restriction: Restriction | None) -> float:
    """Largest acceptable norm of the part of the components outside the allowed directions."""
    if restriction is not None and not restriction.forbids_mean_differences_only:
        return _COVARIANCE_DIRECTION_TOL
    rotation = _forbidden_rotation(moments, restriction)
    return min(_ORTHONORMALITY_TOL + rotation, _COVARIANCE_DIRECTION_TOL)


def _restrict_basis(reduction: Reduction, basis: FloatArray) -> tuple[FloatArray, float]:
    """Return the basis in coordinates of the allowed directions, and the norm of the rest."""
    axes = reduction.axes
    if axes is not None:
        restricted = np.asarray(axes.T @ basis)
        return restricted, float(np.linalg.norm(basis - axes @ restricted))
    second_moments = reduction.problem.second_moments
    if isinstance(second_moments, SparseSecondMoments):
        return basis, float(np.linalg.norm(second_moments.forbidden.T @ basis))
    return basis, 0.0


def _evaluate(
    reduction: Reduction,
    basis: FloatArray,
    proof: Proof | None,
    tol: float,
    tolerance_factor: float = 1.0,
) -> Certificate:
    """Evaluate a basis and a proof in the coordinates of a reduction.

    Without a proof, or without matrices to compute its bound from, the bound is -inf.
    """
    problem = reduction.problem
    if proof is None or not problem.has_matrices:
        weights = problem.proportions if proof is None else proof.weights
        recomputed = evaluate_solution(
            problem, basis, weights, tol=tol, lower_bound=-np.inf, tolerance_factor=tolerance_factor
        )
        return replace(recomputed, proof=None).with_offset(problem.objective_offset)
    proof.check()
    if reduction.axes is not None:
        proof = proof.change_coordinates(reduction.axes.T)
    if not proof.applies_to(problem):
        raise _VerificationFailure(
            "The proof stored with the model belongs to another kind of problem."
        )
    recomputed = evaluate_solution(
        problem, basis, proof, tol=tol, tolerance_factor=tolerance_factor
    )
    return recomputed.with_offset(problem.objective_offset)


def _mismatches(comparisons: _Comparisons) -> Iterator[str]:
    """Yield a message for each claim that differs from the recomputed value."""
    for name, (recomputed_value, claimed_value, tol) in comparisons.items():
        recomputed = np.asarray(recomputed_value)
        claimed = np.asarray(claimed_value)
        if recomputed.shape != claimed.shape:
            agrees = False
        elif tol is None or recomputed.dtype == object:
            agrees = bool((recomputed == claimed).all())
        else:
            agrees = bool((np.abs(recomputed - claimed) <= tol).all())
        if not agrees:
            yield (
                f"{name} = {_format_array(recomputed)}, but the model says "
                f"{_format_array(claimed)}."
            )


def _format_array(value: Any) -> str:
    """Text of an array, with the middle of a long one left out."""
    return np.array2string(value, 1000, 9, threshold=4, edgeitems=2)


def _estimator_comparisons(
    model: Any,
    subspace: FairSubspace,
    certificate: Certificate,
    variances_kept: FloatArray,
    unrestricted: Problem,
    rounding: FloatArray,
) -> _Comparisons:
    """Compare attributes that a model stores twice, in case one was modified.

    Parameters
    ----------
    model : FairPCA or FairSubspace
    subspace : FairSubspace
    certificate : Certificate
        That of the model.
    variances_kept : (k, d) array
        Reduction of each group's error by each component.
    unrestricted : Problem
        The problem without its restriction.
    rounding : (k, d) array
        Rounding error bound of `variances_kept`.
    """
    comparisons: _Comparisons = {
        "center": (subspace.center, certificate.center, None),
        "components": (subspace.projector.decoder.T, certificate.components, 0.0),
    }
    if model is subspace:
        return comparisons
    exact: dict[str, Any] = {
        **{f"{name}_": getattr(subspace, name) for name in ("components", "mean", "scale")},
        "solution_": certificate,
        "group_errors_": certificate.errors,
        "group_losses_": certificate.losses,
        "disparity_": signed_disparity(certificate.errors),
        "groups_": label_array(list(certificate.groups)),
        "n_components_": subspace.n_components,
    }
    expected: dict[str, tuple[Any, Any]] = {name: (value, None) for name, value in exact.items()}
    traces = unrestricted.second_moments.traces
    total_variance = unrestricted.total_variance
    # Each variance is compared relative to its own size, plus its rounding error.
    pooled = unrestricted.proportions @ variances_kept
    tol = _AGREEMENT_TOL * np.abs(pooled) + unrestricted.proportions @ rounding
    expected["explained_variance_"] = (pooled, tol)
    if (traces > 0).all():
        ratios = variances_kept / traces[:, None]
        ratio_tol = _AGREEMENT_TOL * np.abs(ratios) + rounding / traces[:, None]
        expected["explained_variance_ratio_"] = (pooled / total_variance, tol / total_variance)
        expected["group_explained_variance_ratio_"] = (ratios, ratio_tol)
    for name, (value, value_tol) in expected.items():
        comparisons[name] = (value, getattr(model, name, value), value_tol)
    return comparisons


def _component_failures(projector: Projector, *, is_soft: bool) -> Iterator[str]:
    """Check that components are orthonormal or soft, and that an encoder inverts its decoder."""
    decoder = projector.decoder
    products = {"components are not orthonormal": (decoder.T, decoder)}
    if projector.oblique_decoder is not None:
        products["encoder is not a left inverse of the decoder"] = (projector.encoder, decoder)
    squared_lengths = np.einsum("ij,ij->j", decoder, decoder)
    expected = np.diag(squared_lengths) if is_soft else np.eye(len(squared_lengths))
    for description, (left, right) in products.items():
        deviation = float(np.abs(left @ right - expected).max())
        if not deviation <= _ORTHONORMALITY_TOL * (np.abs(left) @ np.abs(right)).max():
            yield f"The {description}: their products are off by {deviation:.1e}."
    if not is_soft:
        return
    # A soft projection with squared lengths lambda_j keeps the fractions 1 - (1 - lambda_j)^2.
    dimension = float((squared_lengths * (2 - squared_lengths)).sum())
    is_too_long = squared_lengths.max() > 1 + _ORTHONORMALITY_TOL
    if is_too_long or abs(dimension - round(dimension)) > _INTEGRALITY_TOL:
        yield "The components are not a soft projection of an integral dimension."


def _feature_deviations(moments: Moments, scale: FloatArray | None, center: str) -> FloatArray:
    """Root mean square of each scaled feature about the center of the errors, shape (p,)."""
    deviations = moments.standard_deviations
    if center == "none":
        deviations = np.hypot(deviations, moments.mean)
    return deviations if scale is None else deviations / scale


def _component_rounding(deviations: FloatArray, projector: Projector) -> FloatArray:
    """Bound the rounding error of the variance of each component, shape (d,).

    Entries of second moments are rounded relative to the product of two features' deviations.
    """
    loadings = np.maximum(np.abs(projector.encoder), np.abs(projector.decoder.T))
    return np.asarray(_MEAN_ROUNDING_UNITS * _EPSILON * (loadings @ deviations) ** 2)


def _check_encoder(
    subspace: FairSubspace, family: ProblemFamily, reduction: Reduction, moments: Moments
) -> None:
    """Check that an oblique encoder is that of its decoder, for any rows.

    Errors on the rows of the fit do not depend on directions along which these do not vary, and
    little on components with little variance.

    Raises
    ------
    _VerificationFailure
    """
    shift = reduction.oblique_shift
    if shift is None:
        return
    unrestricted = reduction.problem.unrestricted
    pooled = unrestricted.dense_moments.mixture(unrestricted.proportions)
    pooled_deviations = _nonzero(np.sqrt(np.maximum(np.diag(pooled), 0.0)))
    eigenvalues = np.linalg.eigvalsh(pooled / pooled_deviations / pooled_deviations[:, None])
    positive = eigenvalues[eigenvalues > _VARIANCE_TOL * eigenvalues[-1]]
    condition = float(eigenvalues[-1] / positive[0]) if positive.size else 1.0
    # The encoder follows from the inverse of the second moment and from differences of means.
    rotation = _forbidden_rotation(moments, subspace.require_certificate().restriction)
    tol = _AGREEMENT_TOL + _ENCODER_ROUNDING_UNITS * _EPSILON * condition
    tol += rotation * math.sqrt(condition)
    deviations = _nonzero(_feature_deviations(moments, subspace.scale, "global"))
    min_difference = math.inf
    for expected in _expected_encoders(subspace, family, shift, moments):
        lengths = np.linalg.norm(expected * deviations, axis=1, keepdims=True)
        differences = np.abs(subspace.components - expected) * deviations / _nonzero(lengths)
        min_difference = min(min_difference, float(differences.max()))
    if not min_difference <= tol:
        raise _VerificationFailure(
            f"The encoder differs from that of its decoder by {min_difference:.1e} of its length, "
            "perhaps along directions in which the rows of the fit do not vary."
        )


def _nonzero(divisors: FloatArray) -> FloatArray:
    """Divisors with one in place of zero."""
    return np.where(divisors > 0, divisors, 1.0)


def _expected_encoders(
    subspace: FairSubspace, family: ProblemFamily, shift: ObliqueShift, moments: Moments
) -> Iterator[FloatArray]:
    """Return the encoders of the decoder, (d, p), as fits to rows or to their moments return them.

    All have the same effect on the rows of the fit. They differ in directions along which these do
    not vary, which are orthogonal to the rows in the features or in the standardized features.
    """
    decoder = subspace.projector.decoder
    coordinates = family.coordinates
    if coordinates is not None:
        row_encoder = coordinates.project(decoder).T @ shift.matrix
        yield coordinates.lift(row_encoder.T).T
        if moments.n_features > _MAX_WIDE_FEATURES:
            return
        certificate = subspace.require_certificate()
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
        problem = family.template
        pooled = problem.dense_moments.mixture(problem.proportions)
        eigenvalues, vectors = np.linalg.eigh(pooled)
        span = vectors[:, eigenvalues > _VARIANCE_TOL * eigenvalues[-1]]
        yield decoder.T + (expected - decoder.T) @ span @ span.T


def _row_comparisons(
    subspace: FairSubspace,
    certificate: Certificate,
    moments: Moments,
    pooled: FloatArray,
    rounding: FloatArray,
    em_distance: float,
) -> _Comparisons:
    """Compare what a model says of the rows that it was fitted on.

    Parameters
    ----------
    subspace : FairSubspace
    certificate : Certificate
        That of the model.
    moments : GroupMoments, SparseMoments or WideMoments
    pooled : (d,) array
        Variance of each component over all rows.
    rounding : (d,) array
        Rounding error bound of `pooled`.
    em_distance : float
        Distance, in standard deviations, between the limits of two runs of the EM algorithm.
    """
    deviations = moments.standard_deviations
    relative_tol = _AGREEMENT_TOL + em_distance
    mean = np.zeros(len(deviations)) if certificate.center == "none" else moments.mean
    mean_tol = relative_tol * deviations + _OFFSET_ROUNDING * np.abs(mean)
    scale = None if subspace.scale is None else np.where(deviations == 0, 1.0, deviations)
    variances = None
    claimed_variances = None
    if subspace.whitening is not None:
        # A component that is zero in every row is not scaled; a fit rejects any other whose
        # variance is rounding error.
        variances = np.where(pooled > 0, pooled, 1.0)
        claimed_variances = subspace.whitening**2
    variance_tol = relative_tol * np.abs(pooled) + rounding
    return {
        "counts": (moments.counts, certificate.counts, None),
        "mean": (mean, subspace.mean, mean_tol),
        "scale of the features": (scale, subspace.scale, relative_tol * deviations),
        "squared whitening": (variances, claimed_variances, variance_tol),
        **_imputation_comparisons(moments, subspace.imputation_model, em_distance),
    }


def _em_distance(moments: Moments) -> float:
    """Distance, in standard deviations, between the limits of two runs of the EM algorithm."""
    em_summary = moments.em_summary if isinstance(moments, GroupMoments) else None
    return 0.0 if em_summary is None else 2 * em_summary.distance


def _imputation_comparisons(
    moments: Moments, claimed: NormalModel | None, em_distance: float
) -> _Comparisons:
    """Compare the models by which missing cells are imputed."""
    recomputed = moments.imputation_model
    if recomputed is None or claimed is None:
        return {
            "model of missing cells": (
                "none" if recomputed is None else "missing cells are imputed",
                "none" if claimed is None else "missing cells are imputed",
                None,
            )
        }
    scales = recomputed.scales
    relative_tol = _AGREEMENT_TOL + em_distance
    mean_tol = relative_tol * scales + _OFFSET_ROUNDING * np.abs(recomputed.mean)
    covariance_tol = relative_tol * np.outer(scales, scales)
    return {
        "mean of missing cells": (recomputed.mean, claimed.mean, mean_tol),
        "covariance of missing cells": (recomputed.covariance, claimed.covariance, covariance_tol),
    }


def _certificate_failures(
    recomputed: Certificate,
    certificate: Certificate,
    tolerances: _Tolerances,
    *,
    matrix_free: bool = False,
    may_use_row_space: bool = False,
) -> Iterator[str]:
    """Compare every figure that a solver provides."""
    if not 0 <= certificate.tol < 1:
        yield f"tol of the model is {certificate.tol!r}; allowed: a number from 0 to below 1."
    tols: dict[str, float | None] = {
        "n_components": None,
        "theorem_3_2_holds": None,
        "objective": tolerances.objective,
        "scale": tolerances.objective,
        "constraint_violation": tolerances.objective,
    }
    for name, tol in tols.items():
        yield from _mismatches({name: (getattr(recomputed, name), getattr(certificate, name), tol)})
    yield from _resolution_failures(
        recomputed, certificate, tolerances, may_use_row_space=may_use_row_space
    )
    # The absolute tolerance follows from other figures, which are compared themselves.
    relative_tol = certificate.tol * certificate.scale
    resolution_tol = max(relative_tol, certificate.resolution)
    if not any(
        math.isclose(certificate.absolute_tol, expected, rel_tol=_AGREEMENT_TOL)
        for expected in (relative_tol, resolution_tol)
    ):
        yield (
            f"tolerance = {relative_tol:.9g}, or {resolution_tol:.9g} with the resolution, but the "
            f"model says {certificate.absolute_tol:.9g}."
        )
    yield from _bound_failures(recomputed, certificate, tolerances, matrix_free=matrix_free)


def _resolution_failures(
    recomputed: Certificate,
    certificate: Certificate,
    tolerances: _Tolerances,
    *,
    may_use_row_space: bool,
) -> Iterator[str]:
    """Compare the resolution, which depends on the method of solving, by its order of magnitude."""
    # Allowances for rounding are similar in any coordinates, but may vanish if matrices are
    # compared with a fit to the rows themselves.
    may_be_sparse = tolerances.matrix_free_resolution > 0 and recomputed.proof is not None
    min_resolution = recomputed.resolution / _ROUNDING_BOUND_FACTOR
    if may_use_row_space or may_be_sparse:
        if recomputed.scale <= _ZERO_ROUNDINGS * recomputed.resolution:
            min_resolution = 0.0
        else:
            # A figure that is not zero has at least its own rounding error.
            last_digit = _EPSILON * recomputed.scale / _ROUNDING_FACTOR
            min_resolution = min(min_resolution, last_digit)
    max_resolution = (
        _ROUNDING_BOUND_FACTOR * recomputed.resolution
        + tolerances.method
        + tolerances.matrix_free_resolution
    )
    is_similar = min_resolution <= certificate.resolution <= max_resolution
    if tolerances.is_converged and not is_similar:
        yield from _mismatches({"resolution": (recomputed.resolution, certificate.resolution, 0.0)})


def _bound_failures(
    recomputed: Certificate,
    certificate: Certificate,
    tolerances: _Tolerances,
    *,
    matrix_free: bool,
) -> Iterator[str]:
    """Check that the claimed lower bound is proven and lies below the objective."""
    claimed = certificate.lower_bound
    tol = tolerances.objective
    is_unproven = certificate.proof is None and claimed > -math.inf
    if math.isnan(claimed) or claimed == math.inf or is_unproven:
        yield f"The model has no proof of its lower bound {claimed!r}."
    objective_tol = max(tol, min(certificate.resolution, _ROUNDING_BOUND_FACTOR * tol))
    if not claimed <= certificate.objective + objective_tol:
        yield f"The model says a lower bound of {claimed:.9g} and an objective below that."
    if recomputed.proof is None:
        return
    proven = recomputed.lower_bound
    is_unbounded = matrix_free and claimed == -math.inf
    gap_tol = min(certificate.absolute_tol, _ROUNDING_FACTOR * recomputed.absolute_tol + tol)
    is_too_low = not (proven - tol - gap_tol <= claimed or is_unbounded)
    if is_too_low or claimed > proven + tol:
        yield f"The proof gives the lower bound {proven:.9g}, but the model says {claimed:.9g}."
    if recomputed.gap < -recomputed.resolution:
        yield f"The lower bound exceeds the objective by {-recomputed.gap:.1e}."


def _status_failures(
    reduction: Reduction,
    basis: FloatArray,
    recomputed: Certificate,
    certificate: Certificate,
    tolerances: _Tolerances,
    *,
    may_be_sparse: bool,
    may_use_row_space: bool,
    has_row_rank: bool,
) -> Iterator[str]:
    """Check that limits are respected and that the claimed status is justified."""
    problem = reduction.problem
    claimed_status = Status(certificate.status)
    if problem.limit is not None and not is_feasible(problem.limit, basis):
        yield "The components exceed the limit of the restriction."
    violation = recomputed.constraint_violation
    if violation > _ROUNDING_FACTOR * max(recomputed.absolute_tol, recomputed.resolution):
        yield f"The groups' errors differ by {violation:.1e} more than the criterion allows."
    claimed_gap = max(abs(certificate.gap), certificate.constraint_violation)
    max_gap = _ROUNDING_FACTOR * max(certificate.absolute_tol, certificate.resolution)
    if claimed_status is not Status.OPEN_GAP and not claimed_gap <= max_gap:
        yield f"The model is called {claimed_status}, and its own gap is {claimed_gap:.1e}."
    is_closed = _ROUNDING_FACTOR * claimed_gap < certificate.absolute_tol
    closed_message = (
        f"The model is called {claimed_status}, but its own gap of {claimed_gap:.1e} is within the "
        "tolerance."
    )
    if recomputed.proof is None:
        unproven_status = Status.OPEN_GAP if problem.has_matrices else Status.ESTIMATED
        if claimed_status not in (Status.OPEN_GAP, unproven_status):
            yield f"The model is called {claimed_status}, but its lower bound cannot be verified."
        is_resolved = certificate.resolution <= certificate.absolute_tol
        if claimed_status is Status.OPEN_GAP and is_resolved and is_closed:
            yield closed_message
        return
    lenient_status = recomputed.status
    if lenient_status is not Status.OPTIMAL:
        # Accept a gap within a small factor of the tolerance or the resolution.
        lenient = _evaluate(reduction, basis, certificate.proof, certificate.tol, _ROUNDING_FACTOR)
        lenient_status = lenient.status
    if not _is_justified(
        claimed_status,
        lenient_status,
        recomputed,
        certificate,
        tolerances,
        may_be_sparse=may_be_sparse,
    ):
        message = (
            f"The model is called {certificate.status_text}, but the recomputed status is "
            f"{recomputed.status} with a gap of {recomputed.gap:.1e}."
        )
        rank_would_help = recomputed.may_be_zero and not has_row_rank
        if lenient_status is Status.UNRESOLVED and (may_use_row_space or rank_would_help):
            message += _PASS_ROWS_HINT
        yield message
    # Rows may resolve less than their matrices, or more.
    resolves_less = claimed_status is Status.UNRESOLVED and not (may_use_row_space or may_be_sparse)
    claims_open = claimed_status is Status.OPEN_GAP or resolves_less
    if claims_open and recomputed.status is Status.OPTIMAL and is_closed:
        yield closed_message


def _is_justified(
    claimed_status: Status,
    lenient_status: Status,
    recomputed: Certificate,
    certificate: Certificate,
    tolerances: _Tolerances,
    *,
    may_be_sparse: bool,
) -> bool:
    """Whether a claimed status is justified by the status with larger tolerances.

    Parameters
    ----------
    claimed_status, lenient_status : Status
        That of the certificate, and that of the same gap with tolerance and resolution multiplied
        by a small factor.
    recomputed, certificate : Certificate
    tolerances : _Tolerances
    may_be_sparse : bool
        Whether a fit may have avoided matrices.
    """
    is_optimal = lenient_status is Status.OPTIMAL
    is_within_method_tol = recomputed.gap <= tolerances.method
    if claimed_status is Status.OPEN_GAP:
        return True
    if claimed_status is Status.UNRESOLVED:
        return lenient_status is not Status.OPEN_GAP or is_within_method_tol
    if claimed_status is Status.ESTIMATED:
        # Only iterations without matrices produce this status.
        return may_be_sparse and (is_optimal or is_within_method_tol)
    claimed_gap = max(abs(certificate.gap), certificate.constraint_violation)
    is_within_tol = claimed_gap <= certificate.absolute_tol and not recomputed.may_be_zero
    if lenient_status is Status.UNRESOLVED and is_within_tol:
        # Moments of the same rows may differ in their last digits.
        return abs(recomputed.gap) <= tolerances.gap
    return is_optimal


def _nested_failures(
    evaluation: _Evaluation, *, is_capped: bool, is_converged: bool
) -> Iterator[str]:
    """Verify the steps of nested components, and each prefix by itself."""
    subspace = evaluation.subspace
    certificate = subspace.require_certificate()
    _check_nested_consistency(certificate)
    yield from _step_failures(evaluation, is_capped=is_capped, is_converged=is_converged)
    for n_components in range(1, certificate.n_components):
        prefix = subspace.truncate(n_components)
        prefix_certificate = replace(prefix.require_certificate(), steps=(), prefixes=())
        prefix = replace(prefix, certificate=prefix_certificate)
        verification = _verify_moments(
            prefix,
            prefix,
            evaluation.moments,
            matrix_free=evaluation.matrix_free,
            is_wide=evaluation.is_wide,
        )
        # If the model itself cannot be verified, neither can its first components.
        message = verification.messages[0]
        is_unclear = not is_capped and message.startswith(CANNOT_BE_VERIFIED)
        if not verification.holds and not is_unclear:
            yield f"The first {n_components} components: {message}"


def _check_nested_consistency(certificate: Certificate) -> None:
    """Check that steps and prefixes repeat components, errors and parameters of the certificate."""
    d = certificate.n_components
    components = certificate.components
    steps = certificate.steps
    prefixes = certificate.prefixes
    if len(steps) != d or len(prefixes) != d - 1:
        raise _VerificationFailure("The number of steps does not match the components.")
    # Each part with its components, and with the prefix that has the same errors.
    parts = [(steps[i], components[[i]], (*prefixes, certificate)[i]) for i in range(d)]
    parts += [(prefix, components[: i + 1], prefix) for i, prefix in enumerate(prefixes)]
    for part, part_components, prefix in parts:
        pairs = [(getattr(part, name), getattr(certificate, name)) for name in _SHARED_FIELDS]
        pairs += [(getattr(part, name), getattr(prefix, name)) for name in _PREFIX_FIELDS]
        pairs += [(part.components, part_components), (part.steps, ()), (part.prefixes, ())]
        if not all(np.array_equal(*pair) for pair in pairs):
            raise _VerificationFailure(
                "A step or prefix of the nested components has inconsistent components, errors or "
                "parameters."
            )


def _step_failures(
    evaluation: _Evaluation, *, is_capped: bool, is_converged: bool
) -> Iterator[str]:
    """Verify each nested component in the complement of the previous ones."""
    family = evaluation.family
    certificate = evaluation.subspace.require_certificate()
    basis = evaluation.subspace.components.T
    if family.coordinates is not None:
        basis = np.linalg.qr(family.coordinates.project(basis))[0]
    single = family.reduction_at(1)
    if not family.template.has_matrices:
        return
    for i, step in enumerate(certificate.steps):
        deflated = deflate_reduction(single, basis[:, :i])
        component = basis[:, [i]]
        if deflated.axes is not None:
            component = deflated.axes.T @ component
        deflated = replace(deflated, axes=None)
        recomputed = _evaluate(deflated, component, step.proof, certificate.tol)
        tolerances = _objective_tolerances(
            deflated.problem, recomputed, step, recomputed.resolution, 0.0, is_capped=is_capped
        )
        certificate_tolerances = replace(
            tolerances,
            matrix_free_resolution=evaluation.matrix_free_resolution,
            is_converged=is_converged,
        )
        messages = [
            *_certificate_failures(
                recomputed,
                step,
                certificate_tolerances,
                may_use_row_space=evaluation.may_use_row_space,
            ),
            *_status_failures(
                deflated,
                component,
                recomputed,
                step,
                tolerances,
                may_be_sparse=evaluation.may_be_sparse,
                may_use_row_space=evaluation.may_use_row_space,
                has_row_rank=evaluation.moments.row_rank is not None,
            ),
        ]
        for message in messages:
            yield f"Component {i + 1}, in the complement of the previous ones: {message}"


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
