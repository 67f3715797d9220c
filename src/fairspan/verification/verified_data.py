"""Data of a verification: moments of the rows, in the features and groups of the model."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from fairspan.certificates import eigensolver
from fairspan.certificates.certificate import Certificate
from fairspan.certificates.eigensolver import Eigensolver
from fairspan.formatting.messages import counted
from fairspan.linalg.rounding import LOOSE_TOL
from fairspan.model.serialization import UnresolvedObject
from fairspan.model.subspace import FairSubspace
from fairspan.moments import compute
from fairspan.moments.compute import Moments, compute_moments
from fairspan.moments.group_moments import compute_group_moments
from fairspan.moments.row_spread import with_row_spread
from fairspan.rows.label_matching import KnownLabels, check_types
from fairspan.rows.label_resolution import SingleGroup
from fairspan.rows.labels import Label, format_list, label_type
from fairspan.rows.opening import match_groups, open_rows
from fairspan.typing import LabelsLike, TableLike, WeightsLike
from fairspan.verification.verification_failure import VerificationFailure


def read_moments(
    X_or_moments: TableLike,
    sensitive_features: LabelsLike,
    sample_weight: WeightsLike,
    y: LabelsLike,
    subspace: FairSubspace,
) -> Moments:
    """Return moments of all columns of the data, with the group labels that the model has.

    Parameters
    ----------
    X_or_moments, sensitive_features, sample_weight, y
        The arguments of :func:`fairspan.verify`; with moments, the others are not needed.
    subspace : FairSubspace
        That of the model, with a certificate.
    """
    certificate = subspace.require_certificate()
    if isinstance(X_or_moments, Moments):
        moments = X_or_moments
        # Labels are replaced by those of the model that are equal as text. Classes of y are
        # replaced in the same way, so moments with classes are matched even if the groups agree.
        has_classes = moments.by_class is not None
        if has_classes or not _are_same_labels(moments.labels, certificate.groups):
            moments = moments.matched_to(KnownLabels.from_certificate(certificate))
        # Labels that differ are an error if their types do; other labels are compared later.
        check_types(moments.labels, certificate.groups)
        return moments
    if sensitive_features is None and len(certificate.groups) == 1:
        sensitive_features = SingleGroup(str(certificate.groups[0]))
    rows = open_rows(
        X_or_moments,
        sensitive_features,
        y=y,
        sample_weight=sample_weight,
        on_missing=subspace.standardization.on_missing,
    )
    rows = match_groups(rows, KnownLabels.from_certificate(certificate))
    if getattr(certificate.restriction, "columns", ()):
        # The restriction needs columns besides the features, which only GroupMoments keep.
        moments = compute_group_moments(rows)
    else:
        moments = compute_moments(rows)
    check_types(moments.labels, certificate.groups)
    # Whether an objective near zero is zero depends on the size of a typical row: another pass.
    if may_have_zero_errors(certificate):
        moments = with_row_spread(moments, rows)
    return moments


def may_have_zero_errors(certificate: Certificate) -> bool:
    """Return whether a certificate claims errors or an objective near zero, or no numbers."""
    try:
        max_error = float(np.max(certificate.errors, initial=0.0))
        # Errors that are larger beside the variance do not need the spread of rows.
        is_small = max_error <= LOOSE_TOL * certificate.total_variance
        return bool(is_small or certificate.may_be_zero)
    except (TypeError, ValueError, AttributeError):
        # The certificate was tampered with, which the verification of its fields reports.
        return False


def _are_same_labels(first: Sequence[Label], second: Sequence[Label]) -> bool:
    """Return whether labels are equal and of the same types, unlike 1, 1.0 and True."""
    if list(first) != list(second):
        return False
    return [*map(label_type, first)] == [*map(label_type, second)]


def select_model_features(moments: Moments, subspace: FairSubspace) -> Moments:
    """Moments of the model's features, with the columns that its restriction needs.

    Raises
    ------
    InvalidInput
        The data lack these columns.
    """
    restriction = subspace.require_certificate().restriction
    if restriction is not None:
        moments = moments.with_attributes(restriction.columns)
    # Columns in another order, or among others, are matched by name.
    return moments.select_named_features(subspace.feature_names)


@dataclass(frozen=True, eq=False)
class VerifiedData:
    """Data that a model is verified with.

    Attributes
    ----------
    moments : GroupMoments, SparseMoments or WideMoments
        Moments of the model's features, as matrices where that is affordable.
    matrix_free : bool
        Whether the data are sparse rows of many features, which fits use without matrices: rounding
        errors then differ, and no bound is proven.
    is_wide : bool
        Whether the data have fewer rows than features.
    """

    moments: Moments
    matrix_free: bool
    is_wide: bool

    @cached_property
    def eigensolvers(self) -> frozenset[Eigensolver]:
        """Eigensolvers that a fit of these data may have used; they round differently."""
        n_features = self.moments.n_features
        # With many features and no more rows than these, a fit may use row coordinates.
        n_rows = int(self.moments.counts.sum())
        has_few_rows = n_features > compute.MIN_WIDE_FEATURES and n_rows <= n_features
        # Many features are solved within a search subspace (PROJECTED), sparse rows of more
        # features by products with them (MATRIX_FREE), few rows in row coordinates (THIN). Which
        # one a fit used also depends on the form of its data and on its solver, unknown here.
        is_possible = {
            Eigensolver.DENSE: True,
            Eigensolver.PROJECTED: n_features >= eigensolver.SMALL_SUBSPACES_FROM,
            Eigensolver.MATRIX_FREE: self.matrix_free or n_features > compute.MAX_DENSE_FEATURES,
            Eigensolver.THIN: self.is_wide or has_few_rows,
        }
        return frozenset(solver for solver, possible in is_possible.items() if possible)


def representations(moments: Moments, subspace: FairSubspace) -> Iterator[VerifiedData]:
    """Yield the moments in each form in which a fit may have used the rows.

    First as matrices if these are affordable. Then without the spread of the rows, which a fit to
    merged moments does not know, so that it may call a gap unresolved. Last in row coordinates, in
    which a fit to fewer rows than features resolves another gap than matrices do.

    Parameters
    ----------
    moments : GroupMoments, SparseMoments or WideMoments
        Moments of the model's features.
    subspace : FairSubspace
        That of the model, with a certificate.
    """
    has_restriction = subspace.require_certificate().restriction is not None
    # Properties of the data as a fit uses them, before the conversion to matrices.
    first = VerifiedData(
        moments.for_verification(subspace.dimension, has_restriction=has_restriction),
        matrix_free=moments.matrix_free,
        is_wide=moments.has_row_coordinates,
    )
    yield first
    if first.moments.row_spread is not None:
        yield replace(first, moments=replace(first.moments, row_spread=None))
    if moments.has_row_coordinates and first.moments is not moments:
        yield replace(first, moments=moments)


def check_same_data(subspace: FairSubspace, certificate: Certificate, moments: Moments) -> None:
    """Check that features and groups of the data match those of the model."""
    # A custom criterion or restriction of a loaded model may not be known here.
    for part in (certificate.criterion, certificate.restriction):
        if isinstance(part, UnresolvedObject):
            raise part.error()
    model_names = subspace.feature_names
    data_names = moments.feature_names
    if subspace.n_features != moments.n_features:
        raise VerificationFailure(
            f"The model has {counted(subspace.n_features, 'feature')}; the data have "
            f"{moments.n_features}."
        )
    if model_names is not None and data_names is not None and model_names != data_names:
        raise VerificationFailure(
            "The features of the data differ from those of the model, at least in their order."
        )
    if tuple(moments.labels) != tuple(certificate.groups):
        raise VerificationFailure(
            f"The model was fitted on the groups {format_list(list(certificate.groups))}; the data "
            f"have {format_list(moments.labels)}."
        )


def distance_from_em_limit(moments: Moments) -> float:
    """Distance, in standard deviations, between the limits of two runs of the EM algorithm."""
    return 2 * moments.em_distance
