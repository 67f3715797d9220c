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
from fairspan.formatting.text import counted
from fairspan.linalg.resources import explain_memory_errors
from fairspan.model.serialization import UnresolvedObject
from fairspan.model.subspace import FairSubspace
from fairspan.moments import of_rows
from fairspan.moments.base import Center
from fairspan.moments.group_moments import GroupMoments, compute_group_moments
from fairspan.moments.normal_model import NormalModel
from fairspan.moments.of_rows import Moments, compute_moments
from fairspan.moments.operators import (
    Projector,
    error_reduction_by_component,
    reconstruction_errors,
)
from fairspan.moments.sparse import SparseSecondMoments
from fairspan.moments.wide import MAX_ORTHOGONALITY_DEFECT, WideMoments
from fairspan.problem.problem import Problem, is_feasible, signed_disparity
from fairspan.problem.reduction import (
    ProblemFamily,
    Reduction,
    build_problem_family,
    check_means_agree,
    deflate_reduction,
)
from fairspan.problem.restrictions import ObliqueShift, Restriction
from fairspan.rows.arrays import SingleGroup
from fairspan.rows.groups import Label, format_list, label_array, label_type
from fairspan.rows.label_matching import KnownLabels, check_types
from fairspan.rows.opening import match_groups, open_rows
from fairspan.solvers import solve
from fairspan.solvers.growing_subspace import OPTIMA_TOL
from fairspan.typing import FloatArray

_EPSILON = float(np.finfo(np.float64).eps)
# Maximum number of entries of the second moments for which matrices are formed.
_MAX_MATRIX_ENTRIES = 3e8
# Up to this many features, data with fewer rows than features are verified in the features
# themselves.
_MAX_THIN_FEATURES = 2500
# Tolerances for products of components (also with forbidden directions), and for an integral
# dimension.
_ORTHONORMALITY_TOL, _INTEGRALITY_TOL = 1e-10, 1e-6
# Directions along which covariances agree are less accurate than those of means.
_COVARIANCE_DIRECTION_TOL = 1e-8
_PASS_ROWS_HINT = " Pass the rows, which tell more than their moments."
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
# A resolution that differs from the computed one by more than this factor is named in a message.
_ALIKE = 1.01
# Rounding errors of fits to rows differ from those of matrices, but by no more than this factor
# times that of the variance.
_ROW_ROUNDING_FACTOR = 10.0
# Room for rounding is never more than this share of the figure that is compared, unless the model
# was fitted with a larger tolerance.
_LEAST_SHARE = 1e-6
# A figure of no more than so many times its rounding cannot be distinguished from zero.
_ZERO = 2.0
# Without matrices, errors are taken to be uncertain by this share of the variance.
_WITHOUT_MATRICES = 1e-14
# Groups' own optima are never found to less than this share of the variance inside a subspace that
# grows.
_SUBSPACE_OPTIMA_TOL = 1e-12
# A direction with less than this share of the variance of standardized features has none.
_NO_SHARE = 1e-12
# Encoders of the same rows in another order differed by up to 9 roundings, at any conditioning.
_ENCODER_ROUNDINGS = 32
# Means of rows read in different blocks differ by a few rounding errors.
_MEAN_ROUNDING_UNITS = 8
# Basis columns shorter than this lie outside the row coordinates.
_COORDINATE_TOL = 1e-6
_OTHER_ROWS_MESSAGE = (
    "These are not the rows of the fit: groups have other numbers of rows. A certificate is "
    "checked with the rows that the model was fitted on; audit judges a model on other rows."
)
CANNOT_BE_VERIFIED = "The certificate cannot be verified from these data"
# Fields that a certificate shares with its steps and prefixes.
_SHARED_FIELDS = ("criterion", "tol", "center", "restriction", "groups", "counts")
# Fields that a step shares with the prefix that ends with it.
_PREFIX_FIELDS = ("errors", "losses", "total_variance")
# By name: recomputed value, claimed value, and tolerance.
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
    labels : (n,) array-like, or column name, optional
        Class of each row, if the restriction is within classes.

    Returns
    -------
    Verification
        With other data, or a modified model, ``holds`` is False.

    Raises
    ------
    InvalidInput
        Rows without groups, or rows that are no table of finite numbers; groups whose labels are of
        another type than those of the model, and not each equal as text to one of them.
    """
    subspace = model if isinstance(model, FairSubspace) else getattr(model, "subspace_", None)
    if not isinstance(subspace, FairSubspace) or subspace.certificate is None:
        kind = type(model).__name__
        return _failed_verification(
            f"The model is a {kind} without a certificate: nothing can be verified."
        )
    moments = _moments_from(X_or_moments, sensitive_features, sample_weight, y, subspace)
    try:
        moments = _select_model_features(moments, subspace)
        verification_moments = _as_matrices_if_affordable(moments, subspace)
        by_rows, is_thin = moments.matrix_free, isinstance(moments, WideMoments)
        return _verify_moments(
            model, subspace, verification_moments, matrix_free=by_rows, is_thin=is_thin
        )
    except _VerificationFailure as failure:
        return _failed_verification(str(failure))
    # A model may come from anybody, and hold anything in memory.
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


def _moments_from(given: Any, groups: Any, weight: Any, y: Any, subspace: FairSubspace) -> Moments:
    """Moments of all columns of the data."""
    certificate = subspace.require_certificate()
    if isinstance(given, Moments):
        moments = given
        if isinstance(moments, GroupMoments):
            has_classes = moments.by_class is not None
            if has_classes or not _are_same_labels(moments.labels, certificate.groups):
                known = KnownLabels.from_certificate(certificate, has_y=has_classes)
                moments = moments.matched_to(known)
        check_types(moments.labels, certificate.groups)
        return moments
    if groups is None and len(certificate.groups) == 1:
        groups = SingleGroup(str(certificate.groups[0]))
    rows = open_rows(given, groups, {"y": y}, weight, subspace.on_missing)
    has_y = y is not None
    rows = match_groups(rows, KnownLabels.from_certificate(certificate, has_y=has_y))
    needs_all = bool(getattr(certificate.restriction, "columns", ()))
    moments = (compute_group_moments if needs_all else compute_moments)(rows, has_y=has_y)
    check_types(moments.labels, certificate.groups)
    return moments


def _are_same_labels(first: Sequence[Label], second: Sequence[Label]) -> bool:
    """Return whether labels are equal and of the same types: 1, 1.0 and True are equal."""
    return list(first) == list(second) and [*map(label_type, first)] == [*map(label_type, second)]


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
    names, known = subspace.feature_names, moments.feature_names
    # Columns in another order, or among others, are matched by name.
    if names and known and set(names) <= set(known):
        return moments.select_features([known.index(name) for name in names])
    return moments


def _as_matrices_if_affordable(moments: Moments, subspace: FairSubspace) -> Moments:
    """Return matrices where they are no too many numbers, or otherwise the moments as they are.

    Coordinates of few rows lose digits beside a column of large numbers. But where the components
    hold all rows of a group, its error is zero, which matrices of many features do not show.
    """
    n_features = moments.n_features
    if moments.matrix_free:
        formed = moments.n_groups * float(n_features) ** 2 <= _MAX_MATRIX_ENTRIES
        return moments.to_dense() if formed else moments
    holds_all = isinstance(moments, WideMoments) and subspace.dimension + 1 >= moments.counts.min()
    is_restricted = subspace.require_certificate().restriction is not None
    formed = not (holds_all or is_restricted) and n_features <= _MAX_THIN_FEATURES
    return moments.to_dense() if formed else moments


def _verify_moments(
    model: Any,
    subspace: FairSubspace,
    moments: Moments,
    *,
    matrix_free: bool = False,
    is_thin: bool = False,
) -> Verification:
    """Verify everything; failures come first in the messages.

    Parameters
    ----------
    model, subspace : as they were given
    moments : GroupMoments, SparseMoments or WideMoments
    by_rows : bool
        Whether the model was fitted to sparse rows without matrices: rounding errors then differ,
        and prefixes of nested components have no bound.
    is_thin : bool
        Whether the data are rows that are fewer than their features.

    Raises
    ------
    _Fails
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
    if subspace.is_oblique != (reduction.oblique_shift is not None):
        raise _VerificationFailure(
            "The model has a decoder of its own, and its restriction is not oblique."
            if subspace.is_oblique
            else "The restriction is oblique, and the model has no decoder of its own."
        )
    may_be_thin = is_thin or _has_few_rows(moments)
    rows_would_help = may_be_thin and family.coordinates is None
    if (
        rows_would_help
        and (unknown := reduction.problem.oblique_rounding) > certificate.absolute_tol
    ):
        raise _VerificationFailure(
            f"What the restriction costs is known up to {unknown:.1e} from moments, and the "
            f"tolerance is {certificate.absolute_tol:.1e}.{_PASS_ROWS_HINT}"
        )
    unrestricted, projector = reduction.problem.unrestricted, subspace.projector
    basis = projector.basis
    if family.coordinates is not None:
        basis = _basis_in_coordinates(family.coordinates.project(basis))
        projector = projector.with_stacked_columns(
            family.coordinates.project(projector.stacked_columns)
        )
    errors = _projector_errors(reduction, projector, basis)
    _check_encoder(subspace, family, reduction, moments)
    kept = error_reduction_by_component(projector, unrestricted.second_moments)
    basis, outside_norm = _restrict_basis(reduction, basis)
    if outside_norm > _ORTHONORMALITY_TOL and outside_norm > _most_outside(
        moments, certificate.restriction
    ):
        raise _VerificationFailure(
            f"The components leave the directions that the restriction allows by {outside_norm:.1e}."
            f"{_PASS_ROWS_HINT if rows_would_help else ''}"
        )
    recomputed = _evaluate(reduction, basis, certificate.proof, certificate.tol)
    judged = _Judged(
        model,
        subspace,
        moments,
        family,
        reduction,
        projector,
        basis,
        outside_norm,
        errors,
        kept,
        recomputed,
        by_rows=matrix_free,
        is_thin=is_thin,
    )
    failures = [*_failures(judged)]
    if failures and not [*_failures(judged, is_bounded=False)]:
        # The figures agree as far as rounding lets them, which is not far enough.
        failures = [
            f"{CANNOT_BE_VERIFIED}: rounding is more than {_share(certificate):.0e} of what the model "
            "says.",
            *failures,
        ]
    elif failures and judged.unsettled and not [*_failures(judged, is_settled=False)]:
        # Another order of the rows ends the EM algorithm elsewhere.
        failures = [_unsettled_message(judged.unsettled), *failures]
    if not np.array_equal(moments.counts, certificate.counts):
        # With other rows nothing else can agree, and a page of numbers would hide the reason.
        failures = [_OTHER_ROWS_MESSAGE, *[each for each in failures if "counts =" in each]]
    messages = (*failures, *_summary_messages(recomputed, subspace, moments))
    return Verification(
        not failures, recomputed.objective, recomputed.lower_bound, recomputed.gap, messages
    )


@dataclass(frozen=True, eq=False)
class _Judged:
    """A model beside what was computed from the data.

    Attributes
    ----------
    model, subspace, moments, by_rows, is_thin
        As of :func:`_verified`.
    family, reduction
        The problem that the certificate names, posed for the data.
    projector : Projector
        In the coordinates of the problem.
    basis : (m, r) array
        Of the components, in the directions that a restriction allows.
    outside : float
        Length of what lies beside these directions.
    errors : (k,) array
        Of the components.
    kept : (k, r) array
        Reduction of each group's error by each component.
    found : Certificate
        Of the components and the model's proof.
    """

    model: Any
    subspace: FairSubspace
    moments: Moments
    family: ProblemFamily
    reduction: Reduction
    projector: Projector
    basis: FloatArray
    outside: float
    errors: FloatArray
    kept: FloatArray
    found: Certificate
    by_rows: bool
    is_thin: bool

    @cached_property
    def may_be_thin(self) -> bool:
        """Whether a fit of these rows may use coordinates of the rows."""
        return self.is_thin or _has_few_rows(self.moments)

    @property
    def may_be_sparse(self) -> bool:
        """Whether a fit of these rows may form no matrices."""
        return self.by_rows or self.moments.n_features > of_rows.MAX_DENSE_FEATURES

    @property
    def whole(self) -> Problem:
        """The problem without the restriction."""
        return self.reduction.problem.unrestricted

    @cached_property
    def offset(self) -> float:
        """How far means, about which parts of the rows were added up, are rounded together."""
        moments, scale = self.moments, self.subspace.scale
        rounding = moments.offset_rounding(moments.mean)
        return float(np.linalg.norm(rounding if scale is None else rounding / scale))

    @cached_property
    def turned(self) -> FloatArray:
        """What a turn of the subspace, and of the means, may do to the errors, shape (k,).

        Directions that a restriction leaves are rounded, and the components were chosen in others.
        """
        traces = self.whole.second_moments.traces
        by_turn = 2 * self.outside * np.sqrt(traces * self.errors) + self.outside**2 * traces
        return np.asarray(by_turn + 2 * self.offset * np.sqrt(self.errors) + self.offset**2)

    @cached_property
    def rounding_of_components(self) -> FloatArray:
        """How far rounding may have moved what each component takes off an error, shape (k, r)."""
        spreads = _spreads(self.moments, self.subspace.scale, self.subspace.center)
        of_entries = _rounding_of_components(spreads, self.subspace.projector)
        traces = self.whole.second_moments.traces[:, None]
        variances = np.maximum(self.kept, 0.0)
        by_turn = 2 * self.outside * np.sqrt(traces * variances) + self.outside**2 * traces
        return np.asarray(
            of_entries + by_turn + 2 * self.offset * np.sqrt(variances) + self.offset**2
        )

    @cached_property
    def of_other_way(self) -> float:
        """How far the objective may differ between ways of solving that these data allow."""
        whole, errors = self.whole, self.errors
        criterion, room = whole.criterion, 0.0
        if self.may_be_thin or self.may_be_sparse:
            room = criterion.rounding_bound(
                _ROW_ROUNDING_FACTOR * whole.variance_rounding, errors, whole
            )
            room += POLYGON_TOL * abs(self.found.objective)
        if self.may_be_thin:
            unrestricted = self.reduction.problem.parent
            in_rows = replace(
                whole, orthogonality_defect=MAX_ORTHOGONALITY_DEFECT, parent=unrestricted
            )
            off = np.maximum(in_rows.coordinate_rounding(errors), whole.coordinate_rounding(errors))
            room += criterion.rounding_bound(_ROW_ROUNDING_FACTOR * off, errors, in_rows)
        if criterion.uses_excess_loss:
            room += criterion.rounding_bound(self.found_to, errors, whole)
        return float(room)

    @cached_property
    def resolution_of_rows(self) -> float:
        """The resolution of a fit that forms no matrices; zero where none does."""
        if not self.may_be_sparse:
            return 0.0
        unrestricted = self.whole
        roundings = _WITHOUT_MATRICES * unrestricted.second_moments.traces
        return (
            2
            * _ROUNDING_FACTOR
            * unrestricted.criterion.rounding_bound(roundings, self.errors, unrestricted)
        )

    @cached_property
    def unsettled(self) -> float:
        """Distance, in standard deviations, of the ends of two runs of the EM algorithm.

        Zero without missing cells, and where passes settle all digits that are compared.
        """
        deflated = _left(self.moments)
        if deflated <= 2 * EM_CONVERGENCE_TOL:
            return 0.0
        # The run of the fit may have left more. Its resolution, which this may only explain and
        # not prove, grows with that.
        certificate, recomputed = (
            self.subspace.require_certificate().resolution,
            self.found.resolution,
        )
        ratio = certificate / recomputed if recomputed > 0 and math.isfinite(certificate) else 1.0
        return min(deflated * max(ratio, 1.0), 1.0)

    @cached_property
    def found_to(self) -> FloatArray:
        """How far groups' own optima may be off, which may be found in small subspaces, (k,)."""
        traces = self.whole.second_moments.traces
        if self.moments.n_features < solve.SMALL_SUBSPACES_FROM:
            return np.zeros(len(traces))
        tol = self.subspace.require_certificate().tol
        share = (
            max(_SUBSPACE_OPTIMA_TOL, OPTIMA_TOL * tol) if 0 <= tol < 1 else _SUBSPACE_OPTIMA_TOL
        )
        return share * np.maximum(traces, self.whole.total_variance)


def _unsettled_message(unsettled: float) -> str:
    """Return why figures of an EM fit differ between two orders of the same rows."""
    digits = max(int(-math.log10(unsettled)), 0)
    known = f"only the first {counted(digits, 'digit')} of its figures" if digits else "no digit"
    return (
        f"{CANNOT_BE_VERIFIED}: the EM algorithm ended while its models were still up to "
        f"{unsettled:.0e} standard deviations from their limit, so that {known} can be compared. "
        "Pass the rows in the order of the fit."
    )


def _has_few_rows(moments: Moments) -> bool:
    """Whether rows are fewer than many features, so that a fit may use coordinates of the rows."""
    n_features = moments.n_features
    return n_features > of_rows.MIN_WIDE_FEATURES and int(moments.counts.sum()) <= n_features


def _share(certificate: Certificate) -> float:
    """The largest room for rounding, as a share of the figure that is compared."""
    return max(certificate.tol, _LEAST_SHARE) if 0 <= certificate.tol < 1 else _LEAST_SHARE


def _bounded(
    rounding: FloatArray | float, size: FloatArray | float, whole_size: float, share: float
) -> FloatArray:
    """Room for rounding, bounded by a share of each figure.

    Parameters
    ----------
    rounding : (n,) array or float
        By how much rounding may have moved each figure.
    size : (n,) array or float
        Of each figure.
    whole_size : float
        Beside which a figure counts as zero that rounding may have made, as with as many
        dimensions as rows.
    share : float
    """
    is_zero = (size <= _ZERO * rounding) & (rounding <= share * whole_size)
    return np.where(is_zero, rounding, np.minimum(rounding, share * np.asarray(size)))


def _largest_error(problem: Problem, errors: FloatArray, rounding: float) -> float:
    """The largest error; where all are rounding, a variance beside which they are zero."""
    if (largest := float(errors.max())) > rounding:
        return largest
    if problem.n_components == problem.n_features or not problem.has_matrices:
        return float(problem.second_moments.traces.max())
    return problem.smallest_feature_variance


def _failures(
    judged: _Judged, *, is_bounded: bool = True, is_settled: bool = True
) -> Iterator[str]:
    """Everything that does not hold.

    Parameters
    ----------
    judged : _Judged
    is_bounded : bool
        Whether room for rounding is bounded by a share of each figure.
    is_settled : bool
        Whether the moments are known to rounding. Otherwise figures may differ by what two runs of
        the EM algorithm leave.
    """
    is_bounded = is_bounded and is_settled
    subspace, moments, found = judged.subspace, judged.moments, judged.found
    certificate, unrestricted, errors = subspace.require_certificate(), judged.whole, judged.errors
    problem, share = judged.reduction.problem, _share(certificate)

    deflated = _left(moments) if is_settled else judged.unsettled
    remaining_means = (
        np.zeros(len(errors))
        if is_settled
        else _ROUNDING_FACTOR * deflated * unrestricted.second_moments.traces
    )
    off = (
        _ROUNDING_FACTOR * errors_and_rounding(problem, judged.basis)[1]
        + judged.turned
        + remaining_means
    )
    of_errors, of_losses = off, 2 * off + judged.found_to
    losses = np.maximum(errors - unrestricted.best_errors, 0.0)
    if is_bounded:
        size = _largest_error(unrestricted, errors, float(off.max()))
        of_errors = _bounded(of_errors, errors, size, share)
        of_losses = _bounded(of_losses, losses, size, share)
    pooled = unrestricted.proportions @ judged.kept
    of_components = judged.rounding_of_components + remaining_means[:, None]
    claims = {
        **_row_comparisons(
            subspace,
            certificate,
            moments,
            pooled,
            unrestricted.proportions @ of_components,
            deflated,
        ),
        "errors": (errors, certificate.errors, _AGREEMENT_TOL * errors + of_errors),
        "total_variance": (
            found.total_variance,
            certificate.total_variance,
            _AGREEMENT_TOL * unrestricted.total_variance
            + float(unrestricted.proportions @ remaining_means),
        ),
    }
    claims["losses"] = (losses, certificate.losses, _AGREEMENT_TOL * losses + of_losses)
    parts = (certificate, *certificate.steps)
    is_scaled = subspace.scale is not None
    problems = [
        unrestricted
        if each.n_components == unrestricted.n_components
        else replace(unrestricted, n_components=each.n_components)
        for each in parts
    ]
    if is_settled:
        reasons = [
            unresolved_reason(each, problem, moments, each.center, is_scaled=is_scaled)
            for each, problem in zip(parts, problems, strict=True)
        ]
        claims["unresolved_reason"] = (reasons, [each.unresolved_reason for each in parts], None)
    yield from _component_failures(subspace.projector, is_soft=subspace.is_soft)
    own = _estimator_comparisons(
        judged.model, subspace, certificate, judged.kept, unrestricted, of_components
    )
    yield from _mismatches(claims | own)

    moved = judged.turned + remaining_means
    resolved = found.resolution + unrestricted.criterion.rounding_bound(moved, errors, unrestricted)
    room = _room(problem, found, certificate, resolved, judged.of_other_way, is_bounded=is_bounded)
    room = replace(room, of_rows=judged.resolution_of_rows, is_settled=is_settled)
    yield from _certificate_failures(
        found, certificate, room, matrix_free=judged.by_rows, may_be_thin=judged.may_be_thin
    )
    yield from _status_failures(
        judged.reduction,
        judged.basis,
        found,
        certificate,
        room,
        may_be_sparse=judged.may_be_sparse,
        may_be_thin=judged.may_be_thin,
    )
    try:
        # In units of each coordinate, which may vary much less than the features.
        check_means_agree(judged.family, judged.projector)
    except IncompatibleParameters:
        yield (
            f"The components do not meet {certificate.restriction!r}: along one of them the groups "
            "differ by more than rounding, in units of its deviation within them."
        )
    if certificate.steps or certificate.prefixes:
        yield from _nested_failures(judged, is_bounded=is_bounded, is_settled=is_settled)


@dataclass(frozen=True)
class _Room:
    """By how much figures of a certificate may differ.

    Attributes
    ----------
    objective : float
        The objective, the bound, and what is compared with them.
    other_way : float
        What of that is due to another way of solving.
    gap : float
        The largest gap of a model that is called optimal where the data leave it unresolved.
    of_rows : float
        The resolution of a fit that forms no matrices; zero where none does.
    is_settled : bool
        Whether the moments are known to rounding, and not only as far as the EM algorithm went.
    """

    objective: float
    other_way: float
    gap: float
    of_rows: float = 0.0
    is_settled: bool = True


def _room(
    problem: Problem,
    recomputed: Certificate,
    certificate: Certificate,
    resolution: float,
    of_other_way: float,
    *,
    is_bounded: bool,
) -> _Room:
    """Room for rounding of the objective.

    Parameters
    ----------
    problem : Problem
    found, claimed : Certificate
        What the model says of its own resolution proves nothing, so only what was found counts.
    resolved : float
        Of the objective.
    of_other_way : float
        By how much it may differ from one way of solving to another.
    is_bounded : bool
        Whether the room is bounded by a share of the objective.
    """
    gap = _ROUNDING_FACTOR * _EPSILON * float(problem.unrestricted.second_moments.traces.max())
    rounding = _ROUNDING_FACTOR * resolution + of_other_way
    if is_bounded:
        share, size = _share(certificate), max(abs(recomputed.objective), recomputed.scale)
        whole_size = resolution_scale(
            problem, recomputed.errors - problem.common_error, recomputed.resolution
        )
        can_be_zero = (
            recomputed.scale <= _ZERO * recomputed.resolution <= _ZERO * share * whole_size
        )
        most = max(share * size, rounding if can_be_zero else 0.0)
        rounding = min(rounding, most)
        of_other_way = min(of_other_way, most)
        gap = min(gap, most)
    same = _AGREEMENT_TOL * abs(recomputed.scale) + _OFFSET_ROUNDING * abs(recomputed.objective)
    return _Room(rounding + same, of_other_way, gap)


def _check_same_data(subspace: FairSubspace, certificate: Certificate, moments: Moments) -> None:
    """Check that features and groups of the data match those of the model."""
    for part in (certificate.criterion, certificate.restriction):
        if isinstance(part, UnresolvedObject):
            raise part.error()
    names, known = subspace.feature_names, moments.feature_names
    if subspace.n_features != moments.n_features:
        raise _VerificationFailure(
            f"The model has {counted(subspace.n_features, 'feature')}; the data have "
            f"{moments.n_features}."
        )
    if names is not None and known is not None and names != known:
        raise _VerificationFailure(
            "The data have other features than the model, or in another order."
        )
    if tuple(moments.labels) != tuple(certificate.groups):
        own, given = format_list(list(certificate.groups)), format_list(moments.labels)
        raise _VerificationFailure(
            f"The model was fitted on the groups {own}; the data have {given}."
        )


def _basis_in_coordinates(basis: FloatArray) -> FloatArray:
    """Columns of a basis within the row coordinates, without the part outside of them."""
    deflated, lengths, _ = np.linalg.svd(basis, full_matrices=False)
    kept = lengths > _COORDINATE_TOL
    # If one column is very large, coordinates are orthonormal to fewer digits.
    lengths = np.where(lengths > 1 - _COORDINATE_TOL, 1.0, lengths)
    return np.asarray(deflated[:, kept] * lengths[kept])


def _projector_errors(reduction: Reduction, projector: Projector, basis: FloatArray) -> FloatArray:
    """Error of each group, shape (k,); checks that an oblique encoder is the best for its decoder."""
    encoding, unrestricted = reduction.oblique_shift, reduction.problem.unrestricted
    if encoding is None:
        return unrestricted.second_moments.residual_variances(basis)
    # The group means are rounded.
    of_means = np.abs(projector.encoder) @ unrestricted.dense_moments.offset_rounding_error
    remaining_means = np.abs(projector.encoder @ encoding.forbidden)
    tol = np.abs(projector.encoder) @ np.abs(encoding.forbidden) * _ORTHONORMALITY_TOL
    if not (remaining_means <= tol + _MEAN_ROUNDING_UNITS * of_means[:, None]).all():
        share = float((remaining_means / tol).max() * _ORTHONORMALITY_TOL)
        raise _VerificationFailure(
            f"The encoder does not hide the groups' means: {share:.1e} of them is left."
        )
    errors = reconstruction_errors(projector, unrestricted.second_moments)
    best_total_error = (
        reduction.problem.objective(projector.basis) + reduction.problem.objective_offset
    )
    excess = float(unrestricted.proportions @ errors) - best_total_error
    rounding = unrestricted.total_variance * _OBLIQUE_LOSS_ROUNDING + encoding.rounding
    if not excess <= _AGREEMENT_TOL * best_total_error + rounding:
        raise _VerificationFailure(
            f"The encoder loses {excess:.1e} more than the best one of its decoder."
        )
    return errors


def _forbidden_rotation(moments: Moments, restriction: Restriction | None) -> float:
    """Bound on the rotation of the forbidden directions due to rounded means."""
    exact = moments.mean_differences(0)
    means = exact if restriction is None else restriction.constrained_means(moments)
    sizes = np.linalg.svd(means[1:] - means[0], compute_uv=False)
    offset = float(np.linalg.norm(np.abs(exact).max(axis=0)))
    unrestricted = moments.all_columns if isinstance(moments, GroupMoments) else None
    if restriction is not None and restriction.columns and unrestricted is not None:
        # Covariances with columns whose means are rounded, in units of their standard deviation.
        beside = slice(moments.n_features, None)
        remaining_means = np.abs(unrestricted.mean_differences(0)).max(axis=0)[beside]
        of_columns = remaining_means / unrestricted.standard_deviations[beside]
        offset += float(of_columns.max() * np.linalg.norm(moments.standard_deviations))
    rounding = _MEAN_ROUNDING_UNITS * _EPSILON * offset
    significant = sizes[sizes > rounding]
    return rounding / float(significant.min()) if significant.size else 0.0


def _most_outside(moments: Moments, restriction: Restriction | None) -> float:
    """Return the largest length of components beside the directions that a restriction leaves."""
    if restriction is not None and not restriction.forbids_mean_differences_only:
        return _COVARIANCE_DIRECTION_TOL
    return min(
        _ORTHONORMALITY_TOL + _forbidden_rotation(moments, restriction), _COVARIANCE_DIRECTION_TOL
    )


def _restrict_basis(reduction: Reduction, basis: FloatArray) -> tuple[FloatArray, float]:
    """Basis in the coordinates of the allowed directions, and the norm of the part outside of them."""
    axes, second, inside = reduction.axes, reduction.problem.second_moments, basis
    outside = 0.0
    if axes is not None:
        inside = np.asarray(axes.T @ basis)
        outside = float(np.linalg.norm(basis - axes @ inside))
    elif isinstance(second, SparseSecondMoments):
        outside = float(np.linalg.norm(second.forbidden.T @ basis))
    return inside, outside


def _evaluate(
    reduction: Reduction,
    basis: FloatArray,
    proof: Proof | None,
    tol: float,
    tolerance_factor: float = 1.0,
) -> Certificate:
    """Evaluate a basis and a proof in the coordinates of a reduction; without a proof the bound is -inf."""
    problem = reduction.problem
    if proof is None or not problem.has_matrices:
        weights = problem.proportions if proof is None else proof.weights
        recomputed = evaluate_solution(
            problem, basis, weights, tol=tol, lower_bound=-np.inf, tolerance_factor=tolerance_factor
        )
        return replace(recomputed, proof=None).with_offset(problem.objective_offset)
    proof.check()
    used = proof if reduction.axes is None else proof.change_coordinates(reduction.axes.T)
    if not used.applies_to(problem):
        raise _VerificationFailure("The model carries a proof of another kind of problem.")
    return evaluate_solution(
        problem, basis, used, tol=tol, tolerance_factor=tolerance_factor
    ).with_offset(problem.objective_offset)


def _mismatches(claims: _Comparisons) -> Iterator[str]:
    """Yield a message for each claim that differs from the recomputed value."""
    for name, (own, claimed, most) in claims.items():
        found, said = np.asarray(own), np.asarray(claimed)
        same = found.shape == said.shape
        if same and (most is None or found.dtype == object):
            same = bool((found == said).all())
        elif same:
            same = bool((np.abs(found - said) <= most).all())
        if not same:
            yield f"{name} = {_format_array(found)}, and not {_format_array(said)} as the model says."


def _format_array(value: Any) -> str:
    return np.array2string(value, 1000, 9, threshold=4, edgeitems=2)


def _estimator_comparisons(
    model: Any,
    subspace: FairSubspace,
    certificate: Certificate,
    kept: FloatArray,
    unrestricted: Problem,
    rounding: FloatArray,
) -> _Comparisons:
    """Compare attributes that a model stores twice, in case one was modified.

    Parameters
    ----------
    model, subspace, claimed : as of :func:`_verified`
    kept : (k, d) array
        What each component takes off each group's error.
    whole : Problem
        Without the restriction.
    rounding : (k, d) array
        By how much rounding may have moved `kept`.
    """
    said = {
        "center": (subspace.center, certificate.center, None),
        "components": (subspace.projector.decoder.T, certificate.components, 0.0),
    }
    if model is subspace:
        return said
    fitted: dict[str, Any] = {
        **{f"{name}_": getattr(subspace, name) for name in ("components", "mean", "scale")},
        "solution_": certificate,
        "group_errors_": certificate.errors,
        "group_losses_": certificate.losses,
        "disparity_": signed_disparity(certificate.errors),
        "groups_": label_array(list(certificate.groups)),
        "n_components_": subspace.n_components,
    }
    traces, total = unrestricted.second_moments.traces, unrestricted.total_variance
    # Each component in its own size, beside what rounding does to it.
    pooled = unrestricted.proportions @ kept
    tol = _AGREEMENT_TOL * np.abs(pooled) + unrestricted.proportions @ rounding
    shares: dict[str, tuple[FloatArray, Any]] = {"explained_variance_": (pooled, tol)}
    if (traces > 0).all():
        by_group = kept / traces[:, None]
        allowed_by_group = _AGREEMENT_TOL * np.abs(by_group) + rounding / traces[:, None]
        shares["explained_variance_ratio_"] = (pooled / total, tol / total)
        shares["group_explained_variance_ratio_"] = (by_group, allowed_by_group)
    rows = {name: (each, None) for name, each in fitted.items()} | shares
    own = {name: (each, getattr(model, name, each), most) for name, (each, most) in rows.items()}
    return {**said, **own}


def _component_failures(projector: Projector, *, is_soft: bool) -> Iterator[str]:
    """Check that components are orthonormal or a soft projection, and an oblique encoder inverts its decoder."""
    decoder, encoder = projector.decoder, projector.encoder
    products = {"components are not orthonormal": (decoder.T, decoder)}
    lengths = np.einsum("ij,ij->j", decoder, decoder)
    expected = np.diag(lengths) if is_soft else np.eye(len(lengths))
    if projector.oblique_decoder is not None:
        products["encoder does not undo the decoder"] = (encoder, decoder)
    for words, (deflated, right) in products.items():
        off = float(np.abs(deflated @ right - expected).max())
        if not off <= _ORTHONORMALITY_TOL * (np.abs(deflated) @ np.abs(right)).max():
            yield f"The {words}: their products are off by {off:.1e}."
    # A soft projection with squared lengths lambda_j keeps the fractions 1 - (1 - lambda_j)^2.
    kept = float((lengths * (2 - lengths)).sum())
    if is_soft and (
        lengths.max() > 1 + _ORTHONORMALITY_TOL or abs(kept - round(kept)) > _INTEGRALITY_TOL
    ):
        yield "The components are no soft projection of a whole number of dimensions."


def _spreads(moments: Moments, scale: FloatArray | None, center: str) -> FloatArray:
    """Root mean square of each scaled feature about the point of the errors, shape (p,)."""
    spreads = moments.standard_deviations
    if center == "none":
        spreads = np.hypot(spreads, moments.mean)
    return spreads if scale is None else spreads / scale


def _rounding_of_components(spreads: FloatArray, projector: Projector) -> FloatArray:
    """How far rounding of second moments may move the variance of each component, shape (d,).

    Entries of second moments are rounded by a share of the product of two features' sizes.
    """
    loadings = np.maximum(np.abs(projector.encoder), np.abs(projector.decoder.T))
    return np.asarray(_MEAN_ROUNDING_UNITS * _EPSILON * (loadings @ spreads) ** 2)


def _check_encoder(
    subspace: FairSubspace, family: ProblemFamily, reduction: Reduction, moments: Moments
) -> None:
    """Raise _Fails unless an oblique encoder is that of its decoder, on any rows.

    Errors on the rows of the fit say nothing of directions along which these do not vary, and
    little of components that vary little.
    """
    encoding = reduction.oblique_shift
    if encoding is None:
        return
    units = _positive(_spreads(moments, subspace.scale, "global"))
    unrestricted = reduction.problem.unrestricted
    pooled = unrestricted.dense_moments.mixture(unrestricted.proportions)
    own_units = _positive(np.sqrt(np.maximum(np.diag(pooled), 0.0)))
    eigenvalues = np.linalg.eigvalsh(pooled / own_units / own_units[:, None])
    varying = eigenvalues[eigenvalues > _NO_SHARE * eigenvalues[-1]]
    conditioning = float(eigenvalues[-1] / varying[0]) if varying.size else 1.0
    # The encoder follows from the inverse of the second moment and from differences of means.
    tol = _AGREEMENT_TOL + _ENCODER_ROUNDINGS * _EPSILON * conditioning
    tol += _forbidden_rotation(moments, subspace.require_certificate().restriction) * math.sqrt(
        conditioning
    )
    min_bound = math.inf
    for expected in _expected_encoders(subspace, family, encoding, moments):
        sizes = np.linalg.norm(expected * units, axis=1, keepdims=True)
        remaining_means = np.abs(subspace.components - expected) * units / _positive(sizes)
        min_bound = min(min_bound, float(remaining_means.max()))
    if not min_bound <= tol:
        raise _VerificationFailure(
            f"The encoder differs from that of its decoder by {min_bound:.1e} of its length, perhaps "
            "along directions in which the rows of the fit do not vary."
        )


def _positive(sizes: FloatArray) -> FloatArray:
    """Sizes to divide by: one in place of zero."""
    return np.where(sizes > 0, sizes, 1.0)


def _expected_encoders(
    subspace: FairSubspace, family: ProblemFamily, encoding: ObliqueShift, moments: Moments
) -> Iterator[FloatArray]:
    """Encoders of the decoder, (d, p), as a fit of rows or of their moments makes them.

    All do the same to the rows of the fit. Directions along which these do not vary are orthogonal
    to them in the features, or in features divided by their spread.
    """
    decoder, coordinates = subspace.projector.decoder, family.coordinates
    if coordinates is not None:
        inside = coordinates.project(decoder).T @ encoding.matrix
        yield coordinates.lift(inside.T).T
        if moments.n_features > _MAX_THIN_FEATURES:
            return
        certificate = subspace.require_certificate()
        in_features = build_problem_family(
            moments.to_dense(),
            subspace.dimension,
            certificate.criterion,
            restriction=certificate.restriction,
            feature_scale=subspace.scale,
        )
        of_features = in_features.reduction_at(subspace.dimension).oblique_shift
        assert of_features is not None
        yield decoder.T @ of_features.matrix
        return
    expected = decoder.T @ encoding.matrix
    yield expected
    if moments.counts.sum() <= moments.n_features:
        problem = family.template
        pooled = problem.dense_moments.mixture(problem.proportions)
        eigenvalues, vectors = np.linalg.eigh(pooled)
        along = vectors[:, eigenvalues > _NO_SHARE * eigenvalues[-1]]
        yield decoder.T + (expected - decoder.T) @ along @ along.T


def _row_comparisons(
    subspace: FairSubspace,
    certificate: Certificate,
    moments: Moments,
    pooled: FloatArray,
    rounding: FloatArray,
    left: float,
) -> _Comparisons:
    """What a model says of the rows that it was fitted on.

    Parameters
    ----------
    subspace, claimed, moments : as of :func:`_verified`
    pooled : (d,) array
        Variance of each component over all rows.
    rounding : (d,) array
        By how much rounding may have moved it.
    left : float
        How far apart, in standard deviations, two runs of the EM algorithm may end.
    """
    deviations, own = moments.standard_deviations, subspace.whitening
    mean = np.zeros(len(deviations)) if certificate.center == "none" else moments.mean
    units = None if subspace.scale is None else np.where(deviations == 0, 1.0, deviations)
    # A coordinate that is zero in every row stays as it is; no other has so little variance that
    # it is rounding.
    variances = None if own is None else np.where(pooled > 0, pooled, 1.0)
    same = _AGREEMENT_TOL + left
    tol = same * np.abs(pooled) + rounding
    return {
        "counts": (moments.counts, certificate.counts, None),
        "mean": (mean, subspace.mean, same * deviations + _OFFSET_ROUNDING * np.abs(mean)),
        "scale of the features": (units, subspace.scale, same * deviations),
        "squared whitening": (variances, None if own is None else own**2, tol),
        **_imputation_comparisons(moments, subspace.imputation_model, left),
    }


def _left(moments: Moments) -> float:
    """How far apart, in standard deviations, two runs of the EM algorithm may end."""
    completion = moments.em_summary if isinstance(moments, GroupMoments) else None
    return 0.0 if completion is None else 2 * completion.left


def _imputation_comparisons(
    moments: Moments, said: NormalModel | None, left: float
) -> _Comparisons:
    """Compare the models by which missing cells are imputed."""
    recomputed = moments.imputation_model
    if recomputed is None or said is None:
        descriptions = [
            "none" if each is None else "missing cells are expected" for each in (recomputed, said)
        ]
        return {"model of missing cells": (descriptions[0], descriptions[1], None)}
    units = recomputed.scales
    same = _AGREEMENT_TOL + left
    moved = same * units + _OFFSET_ROUNDING * np.abs(recomputed.mean)
    return {
        "mean of missing cells": (recomputed.mean, said.mean, moved),
        "covariance of missing cells": (
            recomputed.covariance,
            said.covariance,
            same * np.outer(units, units),
        ),
    }


def _certificate_failures(
    recomputed: Certificate,
    certificate: Certificate,
    tolerance_factor: _Room,
    *,
    matrix_free: bool = False,
    may_be_thin: bool = False,
) -> Iterator[str]:
    """Compare every figure that a solver provides."""
    if not 0 <= certificate.tol < 1:
        yield f"The model's tol is {certificate.tol!r}; allowed: a share from 0 to 1."
    unsure, of_other_way = tolerance_factor.objective, tolerance_factor.other_way
    tol: dict[str, float | None] = {"n_components": None, "theorem_3_2_holds": None}
    tol |= dict.fromkeys(("objective", "scale", "constraint_violation"), unsure)
    for name, most in tol.items():
        yield from _mismatches(
            {name: (getattr(recomputed, name), getattr(certificate, name), most)}
        )
    # Room for rounding is of the same size in any coordinates, but may vanish where matrices are
    # compared with a fit of the rows themselves.
    may_vanish = may_be_thin or (tolerance_factor.of_rows > 0 and recomputed.proof is not None)
    min_bound = recomputed.resolution / _ROUNDING_BOUND_FACTOR
    if may_vanish:
        # A figure above its rounding is still a number of double precision.
        is_zero = recomputed.scale <= _ZERO * recomputed.resolution
        min_bound = (
            0.0 if is_zero else min(min_bound, _EPSILON * recomputed.scale / _ROUNDING_FACTOR)
        )
    most = _ROUNDING_BOUND_FACTOR * recomputed.resolution + of_other_way + tolerance_factor.of_rows
    if tolerance_factor.is_settled and not min_bound <= certificate.resolution <= most:
        yield from _mismatches({"resolution": (recomputed.resolution, certificate.resolution, 0.0)})
    # The tolerance follows from other figures, which are compared.
    of_scale = certificate.tol * certificate.scale
    expected = (of_scale, max(of_scale, certificate.resolution))
    if not any(
        math.isclose(certificate.absolute_tol, each, rel_tol=_AGREEMENT_TOL) for each in expected
    ):
        yield (
            f"tolerance = {expected[0]:.9g}, or {expected[1]:.9g} with the resolution, and not "
            f"{certificate.absolute_tol:.9g} as the model says."
        )
    said = certificate.lower_bound
    if math.isnan(said) or said == math.inf or (certificate.proof is None and said > -math.inf):
        yield f"The model carries no proof of its lower bound, {said!r}."
    if not said <= certificate.objective + max(
        unsure, min(certificate.resolution, _ROUNDING_BOUND_FACTOR * unsure)
    ):
        yield f"The model says a lower bound of {said:.9g} and an objective below that."
    if recomputed.proof is None:
        return
    recomputed_bound = recomputed.lower_bound
    is_unbounded = matrix_free and said == -math.inf
    min_bound = (
        recomputed_bound
        - unsure
        - min(certificate.absolute_tol, _ROUNDING_FACTOR * recomputed.absolute_tol + unsure)
    )
    if not (min_bound <= said or is_unbounded) or said > recomputed_bound + unsure:
        yield f"The proof gives the lower bound {recomputed_bound:.9g}, and not {said:.9g} as the model says."
    if recomputed.gap < -recomputed.resolution:
        yield f"The lower bound lies above the objective by {-recomputed.gap:.1e}."


def _status_failures(
    reduction: Reduction,
    basis: FloatArray,
    found: Certificate,
    certificate: Certificate,
    tolerance_factor: _Room,
    *,
    may_be_sparse: bool,
    may_be_thin: bool,
) -> Iterator[str]:
    """Check that limits are respected and that the claimed status is justified, up to a small factor."""
    problem, said = reduction.problem, Status(certificate.status)
    if problem.limit is not None and not is_feasible(problem.limit, basis):
        yield "The components exceed the limit of the restriction."
    if found.constraint_violation > _ROUNDING_FACTOR * max(found.absolute_tol, found.resolution):
        yield f"The groups' errors differ by {found.constraint_violation:.1e} more than the criterion allows."
    own = max(abs(certificate.gap), certificate.constraint_violation)
    closed_to = _ROUNDING_FACTOR * max(certificate.absolute_tol, certificate.resolution)
    if said is not Status.OPEN_GAP and not own <= closed_to:
        yield f"The model is called {said}, and its own gap is {own:.1e}."
    if found.proof is None:
        unproven_status = Status.OPEN_GAP if problem.has_matrices else Status.ESTIMATED
        if said not in (Status.OPEN_GAP, unproven_status):
            yield f"The model is called {said}, but its lower bound cannot be checked."
        is_resolved = certificate.resolution <= certificate.absolute_tol
        if (
            said is Status.OPEN_GAP
            and is_resolved
            and _ROUNDING_FACTOR * own < certificate.absolute_tol
        ):
            yield f"The model is called {said}, but its own gap of {own:.1e} is closed."
        return
    lenient_status = found.status
    if (
        lenient_status is not Status.OPTIMAL
    ):  # within a small factor of the tolerance or the resolution
        lenient_status = _evaluate(
            reduction, basis, certificate.proof, certificate.tol, _ROUNDING_FACTOR
        ).status
    holds = said is Status.OPEN_GAP or lenient_status is Status.OPTIMAL
    if said is Status.UNRESOLVED:
        holds = lenient_status is not Status.OPEN_GAP or found.gap <= tolerance_factor.other_way
    if said is Status.ESTIMATED:  # only iterations without matrices produce this status
        holds = (holds or found.gap <= tolerance_factor.other_way) and may_be_sparse
    if (
        said is Status.OPTIMAL
        and lenient_status is Status.UNRESOLVED
        and own <= certificate.absolute_tol
    ):
        # Moments of the same rows may differ in their last digits.
        holds = abs(found.gap) <= tolerance_factor.gap
    if not holds:
        rows_would_help = lenient_status is Status.UNRESOLVED and may_be_thin
        yield (
            f"The model is called {certificate.status_text}, but the computed status is {found.status}: "
            f"the gap is {found.gap:.1e}."
            f"{_PASS_ROWS_HINT if rows_would_help else ''}"
        )
    # Rows may resolve less than their matrices, or more.
    resolves_less = said is Status.UNRESOLVED and not (may_be_thin or may_be_sparse)
    claims_open = said is Status.OPEN_GAP or resolves_less
    if (
        claims_open
        and found.status is Status.OPTIMAL
        and _ROUNDING_FACTOR * own < certificate.absolute_tol
    ):
        yield f"The model is called {said}, but its own gap of {own:.1e} is closed."


def _nested_failures(judged: _Judged, *, is_bounded: bool, is_settled: bool) -> Iterator[str]:
    """Verify the steps of nested components, and each prefix by itself."""
    subspace, family, moments = judged.subspace, judged.family, judged.moments
    certificate = subspace.require_certificate()
    d, rows, basis = certificate.n_components, certificate.components, subspace.components.T
    if (len(certificate.steps), len(certificate.prefixes)) != (d, d - 1):
        raise _VerificationFailure("The steps are not those of the components.")
    steps = enumerate(zip(certificate.steps, (*certificate.prefixes, certificate), strict=True))
    parts = [(step, rows[[i]], prefix) for i, (step, prefix) in steps]
    parts += [(each, rows[: i + 1], each) for i, each in enumerate(certificate.prefixes)]
    for part, own, prefix in parts:
        pairs = [(getattr(part, name), getattr(certificate, name)) for name in _SHARED_FIELDS]
        pairs += [(getattr(part, name), getattr(prefix, name)) for name in _PREFIX_FIELDS]
        pairs += [(part.components, own), (part.steps, ()), (part.prefixes, ())]
        if not all(np.array_equal(*pair) for pair in pairs):
            raise _VerificationFailure(
                "A step or prefix of nested components says other components, errors or settings."
            )
    if family.coordinates is not None:
        basis = np.linalg.qr(family.coordinates.project(basis))[0]
    single = family.reduction_at(1)
    for i, step in enumerate(certificate.steps if family.template.has_matrices else ()):
        deflated, component = deflate_reduction(single, basis[:, :i]), basis[:, [i]]
        if deflated.axes is not None:
            component = deflated.axes.T @ component
        deflated = replace(deflated, axes=None)
        found = _evaluate(deflated, component, step.proof, certificate.tol)
        room = _room(deflated.problem, found, step, found.resolution, 0.0, is_bounded=is_bounded)
        for message in (
            *_certificate_failures(
                found,
                step,
                replace(room, of_rows=judged.resolution_of_rows, is_settled=is_settled),
                may_be_thin=judged.may_be_thin,
            ),
            *_status_failures(
                deflated,
                component,
                found,
                step,
                room,
                may_be_sparse=judged.may_be_sparse,
                may_be_thin=judged.may_be_thin,
            ),
        ):
            yield f"Component {i + 1}, beside those before it: {message}"
    for n in range(1, d):
        first = subspace.truncate(n)
        first = replace(
            first, certificate=replace(first.require_certificate(), steps=(), prefixes=())
        )
        checked = _verify_moments(
            first, first, moments, matrix_free=judged.by_rows, is_thin=judged.is_thin
        )
        # Where the model itself can at most be unclear, so can its first components.
        is_unclear = not is_bounded and checked.messages[0].startswith(CANNOT_BE_VERIFIED)
        if not checked.holds and not is_unclear:
            yield f"The first {n} components: {checked.messages[0]}"


def _summary_messages(
    recomputed: Certificate, subspace: FairSubspace, moments: Moments
) -> Iterator[str]:
    """Summarize what was recomputed and what was not verified."""
    certificate = subspace.require_certificate()
    # Adding zero turns -0 into 0.
    said = (
        f"{certificate.criterion.name} is {recomputed.objective + 0.0:.9g} at these components "
        f"(the model says {certificate.objective + 0.0:.9g})"
    )
    if recomputed.proof is not None:
        yield (
            f"{said}, and its proof gives the lower bound {recomputed.lower_bound:.9g} "
            f"(the model says {certificate.lower_bound:.9g}). Double precision resolves "
            f"{recomputed.resolution:.1e}."
        )
    else:
        yield f"{said}."
        why = "the model carries no proof" if certificate.proof is None else "the rows stay sparse"
        yield f"The lower bound was not checked: {why}."
        yield "Neither were the status and the weights of the proof, which depend on the bound."
    alike = (
        recomputed.resolution / _ALIKE <= certificate.resolution <= _ALIKE * recomputed.resolution
    )
    if not alike:
        yield (
            f"The model says a resolution of {certificate.resolution:.1e}, and {recomputed.resolution:.1e} "
            "was computed. It depends on the way of solving: its size alone was checked."
        )
    if recomputed.proof is not None and certificate.status != recomputed.status:
        yield f"The computed status is {recomputed.status} (the model says {certificate.status})."
    if certificate.tol > LOOSE_TOL:
        yield f"A subspace is called optimal within {certificate.tol:.2g} of the objective."
    if subspace.feature_names is not None and moments.feature_names is None:
        yield (
            "Not checked are the names of the features, since the data have none: pass a table "
            "with named columns to check them."
        )
    yield (
        "Not judged are records of the run: its solver, number of eigenproblems, trace and version."
    )
