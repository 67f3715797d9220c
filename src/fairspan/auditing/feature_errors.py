"""Reconstruction error of each feature in each group.

A model maps a row x (centered, and divided by the model's scale) to E x with its encoder E, (d, p),
and back to D E x with its decoder D, (p, d). With R = I - DE and S_g the second moment matrix of
group g, (p, p), the errors are the diagonal of R S_g R'; their sum e_g is the error of the group.
The expected errors of an in-sample model come from the folds: the diagonal for the moments of a
fold under the refit without it, averaged with the folds' weights. If the center was learnt from
these rows, they are corrected as the errors of the groups are.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairspan.auditing.fold_centers import FoldCenters
from fairspan.auditing.models import AuditedModel
from fairspan.formatting.messages import counted
from fairspan.moments.compute import Moments
from fairspan.moments.fold_moments import DenseFoldMoments, FoldMoments
from fairspan.moments.projector import Projector
from fairspan.moments.reference_frame import ReferenceFrame
from fairspan.rows.labels import Label
from fairspan.typing import BoolArray, FloatArray, IndexArray

MAX_FEATURES_SHOWN = 20
"""Number of entries shown in JSON, on pages and in plots.

The last one is the sum of the remaining features.
"""
# Above this, every audit would have to store k p values per model.
_MAX_FEATURES = 5000


@dataclass(frozen=True, eq=False)
class FeatureErrors:
    """Error of each feature in each group under one model.

    Errors are in squared units of the features; if the model scales, of the scaled features.

    Attributes
    ----------
    model : str
    groups : tuple of k labels
    features : tuple of p str
    observed_error : (k, p) array
        Errors on the audited rows; each row sums to the group's error.
    expected_error : (k, p) array
        Errors on new rows; NaN for groups without estimates.
    variances : (k,) array
        Variance of each group, of which errors are a part.
    has_remainder : bool
        Whether the last entry is the sum of the remaining features.
    """

    model: str
    groups: tuple[Label, ...]
    features: tuple[str, ...]
    observed_error: FloatArray
    expected_error: FloatArray
    variances: FloatArray
    has_remainder: bool = False

    @property
    def best_estimate(self) -> FloatArray:
        """Expected errors if every group has them, otherwise observed errors."""
        if np.isnan(self.expected_error).any():
            return self.observed_error
        return self.expected_error

    def top(self, n_features: int = MAX_FEATURES_SHOWN) -> "FeatureErrors":
        """Return the features with the largest error in any group, in decreasing order.

        Order by expected errors if every group has them. If there are more than `n_features`, the
        last entry is the sum of the others.
        """
        order = np.argsort(-self.best_estimate.max(axis=0), kind="stable")
        n_separate = len(order) if len(order) <= n_features else n_features - 1
        separate = order[:n_separate]
        remainder = order[n_separate:]
        names = [self.features[i] for i in separate]
        if len(remainder):
            names.append(counted(len(remainder), "other"))
        return FeatureErrors(
            self.model,
            self.groups,
            tuple(names),
            _sum_remainder(self.observed_error, separate, remainder),
            _sum_remainder(self.expected_error, separate, remainder),
            self.variances,
            has_remainder=len(remainder) > 0,
        )

    def largest_shares(self, group: Label, n_features: int = 3) -> list[tuple[str, float]]:
        """Return the features with the largest errors of a group and their shares of its error.

        Features without error are omitted.
        """
        errors = self.best_estimate[self.groups.index(group)]
        order = np.argsort(-errors, kind="stable")[:n_features].tolist()
        total = float(errors.sum())
        return [(self.features[i], errors[i] / total) for i in order if errors[i] > 0]

    @property
    def records(self) -> list[dict[str, object]]:
        """Return one flat dictionary per group and feature.

        Values that are not available are None.
        """
        return [
            {
                "model": self.model,
                "group": group,
                "feature": feature,
                "observed_error": float(observed),
                "expected_error": None if np.isnan(expected) else float(expected),
            }
            for group, group_observed, group_expected in zip(
                self.groups, self.observed_error, self.expected_error, strict=True
            )
            for feature, observed, expected in zip(
                self.features, group_observed, group_expected, strict=True
            )
        ]


def _sum_remainder(errors: FloatArray, separate: IndexArray, remainder: IndexArray) -> FloatArray:
    """Return (k, p) errors of separate features, and last the sum of the remaining ones, if any."""
    sums = [errors[:, remainder].sum(axis=1)] if len(remainder) else []
    return np.column_stack([errors[:, separate], *sums])


@dataclass(frozen=True, eq=False)
class ModelByFold:
    """Results for a model without each of K folds.

    Attributes
    ----------
    refits : sequence of K Projectors
        Refits of the model; empty for models fitted to other rows.
    moments : FoldMoments or None
        Moments of the rows by fold, needed with refits.
    centers : FoldCenters or None
        Means of the rows without each fold, needed for a center that was learnt from them.
    center_excess_weight : float
        That of :class:`~fairspan.auditing.cross_fitting.GroupOptima`, 0 for any other center.
    """

    refits: Sequence[Projector] = ()
    moments: FoldMoments | None = None
    centers: FoldCenters | None = None
    center_excess_weight: float = 0.0


def compute_feature_errors(
    model: AuditedModel,
    moments: Moments,
    is_estimated: BoolArray,
    by_fold: ModelByFold | None = None,
) -> FeatureErrors | None:
    """Compute the errors by feature.

    None above 5,000 features and for models that are not projections.

    The result has observed errors, and expected ones on new rows. Without refits, both are equal
    but for the correction of a center learnt from these rows, since the model was fitted to other
    rows. Expected errors are NaN for groups that are not estimated; with refits or that correction
    also if they would require moments by fold that `by_fold` does not have: it may have no
    matrices, or rows in other coordinates than the features.

    Parameters
    ----------
    model : AuditedModel
    moments : GroupMoments, SparseMoments or WideMoments
        Moments of all rows.
    is_estimated : (k,) array of bool
        Groups that have estimates for new rows.
    by_fold : ModelByFold, optional
        What was found without each fold, if there are folds.
    """
    if moments.n_features > _MAX_FEATURES or model.row_model is not None:
        return None
    names = moments.feature_names or model.subspace.feature_names
    frame = model.subspace.reference_frame(moments)
    observed = _residual_diagonals(moments, frame, model.subspace.projector)
    expected = np.full_like(observed, np.nan)
    by_fold = by_fold or ModelByFold()
    refits = by_fold.refits
    folds = by_fold.moments
    if not refits:
        expected = observed
    elif isinstance(folds, DenseFoldMoments) and folds.total.n_features == moments.n_features:
        expected = _held_out_errors(folds, frame, refits)
    if by_fold.centers is not None and by_fold.center_excess_weight:
        n_folds = len(by_fold.centers.shares)
        expected = _corrected_for_center(
            expected,
            by_fold.centers,
            by_fold.center_excess_weight,
            frame,
            projectors=refits or [model.subspace.projector] * n_folds,
        )
    return FeatureErrors(
        model.name,
        tuple(moments.labels),
        names or tuple(f"x{i}" for i in range(moments.n_features)),
        observed,
        np.where(is_estimated[:, None], expected, np.nan),
        _mean_squares(moments, frame).sum(axis=1),
    )


def _held_out_errors(
    folds: DenseFoldMoments, frame: ReferenceFrame, refits: Sequence[Projector]
) -> FloatArray:
    """Errors by feature of each group, (k, p), each row under the refit without its fold.

    They are averages over the folds, with the fold's share of the group's weight. All are measured
    about the centers of `frame`, those of all rows.
    """
    total = folds.total
    errors = np.zeros((total.n_groups, total.n_features))
    labels = total.labels
    for fold, projector in zip(folds.by_fold, refits, strict=True):
        if fold is None:
            continue
        present = [labels.index(label) for label in fold.labels]
        errors_of_fold = _residual_diagonals(fold, frame.select_groups(present), projector)
        shares = fold.weights / total.weights[present]
        errors[present] += shares[:, None] * errors_of_fold
    return errors


def _corrected_for_center(
    errors: FloatArray,
    centers: FoldCenters,
    excess_weight: float,
    frame: ReferenceFrame,
    projectors: Sequence[Projector],
) -> FloatArray:
    """Return errors by feature, (k, p), corrected for a center that was learnt from the rows.

    NaN if the centers are in other coordinates than the features. `projectors` has one per fold.
    """
    if centers.group_means.shape != errors.shape:
        return np.full_like(errors, np.nan)
    excess = centers.excess_by_feature(frame, projectors)
    # Clip rounding errors: a feature may be reconstructed exactly.
    return np.maximum(errors + excess_weight * excess, 0.0)


def _residual_diagonals(
    moments: Moments, frame: ReferenceFrame, projector: Projector
) -> FloatArray:
    """Error of each feature in each group, (k, p), in squared scaled units.

    For each group g it is the diagonal of R S_g R' = S_g - R0 - R0' + D (E S_g E') D', where
    R0 = S_g E' D', without forming a (p, p) matrix. E and D are the encoder (d, p) and the decoder
    (p, d) of the projector, R = I - DE, and S_g is the second moment matrix of the group in the
    frame.

    Parameters
    ----------
    moments : GroupMoments, SparseMoments or WideMoments
        Moments in the units of the features.
    frame : ReferenceFrame
    projector : Projector
    """
    second_moment_diagonal = _mean_squares(moments, frame)
    encoder_columns = projector.encoder.T
    decoder = projector.decoder
    # S_g E', (k, p, d), and E S_g E', (k, d, d).
    images = frame.second_moments(moments).apply(encoder_columns)
    encoded_moments = np.einsum("pr,gps->grs", encoder_columns, images)
    cross_diagonal = np.einsum("gpr,pr->gp", images, decoder)
    reconstructed_diagonal = np.einsum(
        "pr,grs,ps->gp", decoder, encoded_moments, decoder, optimize=True
    )
    errors = second_moment_diagonal - 2 * cross_diagonal + reconstructed_diagonal
    # Clip rounding errors: a feature may be reconstructed exactly.
    return np.asarray(np.maximum(errors, 0.0))


def _mean_squares(moments: Moments, frame: ReferenceFrame) -> FloatArray:
    """Mean squared (scaled) features about the center, (k, p): the diagonals of S_g."""
    mean_squares = moments.variances + (moments.means - frame.center) ** 2
    return np.asarray(mean_squares / frame.scale**2)
