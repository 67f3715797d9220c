"""Where models lose what they lose: the error of each feature in each group.

With R = I - DE what a projection leaves of a centred row, and S_g the second moment of a group, the
errors are the diagonal of R S_g R'; they sum to e_g. On new rows, those of a model that was fitted
on these rows come from the folds: the diagonal for the moments of a fold and the model fitted
without it, averaged with the folds' weights.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairspan.auditing.models import AuditedModel
from fairspan.formatting.text import counted
from fairspan.moments.of_rows import DenseFoldMoments, FoldMoments, Moments
from fairspan.moments.operators import Projector
from fairspan.rows.groups import Label
from fairspan.typing import BoolArray, FloatArray

MAX_FEATURES_SHOWN = 20
"""Features that are listed one by one in JSON, on pages and in pictures; the rest are summed."""
# With more, k times as many figures a model would be kept for every audit.
_MAX_FEATURES = 5000


@dataclass(frozen=True, eq=False)
class FeatureErrors:
    """The error of each feature in each group under one model, in squared (scaled) units.

    Attributes
    ----------
    model : str
    groups : tuple of k labels
    features : tuple of p str
    observed_error : (k, p) array
        On these rows; they sum to the groups' errors.
    expected_error : (k, p) array
        On new rows; NaN where nothing is known of these.
    has_remainder : bool
        Whether the last feature is the sum of others.
    """

    model: str
    groups: tuple[Label, ...]
    features: tuple[str, ...]
    observed_error: FloatArray
    expected_error: FloatArray
    has_remainder: bool = False

    @property
    def best_estimate(self) -> FloatArray:
        """On new rows where that is known of every group, otherwise on these."""
        return self.observed_error if np.isnan(self.expected_error).any() else self.expected_error

    def top(self, n_features: int = MAX_FEATURES_SHOWN) -> "FeatureErrors":
        """The features with the largest error in any group; what is left, as a last one, summed.

        The first has the largest.
        """
        order = np.argsort(-self.best_estimate.max(axis=0), kind="stable")
        if len(order) <= n_features:
            first, remainder_positions = order, order[:0]
        else:
            first, remainder_positions = order[: n_features - 1], order[n_features - 1 :]

        def of(errors: FloatArray) -> FloatArray:
            remainder = (
                [errors[:, remainder_positions].sum(axis=1)] if len(remainder_positions) else []
            )
            return np.column_stack([errors[:, first], *remainder])

        remainder_name = (
            (counted(len(remainder_positions), "other"),) if len(remainder_positions) else ()
        )
        return FeatureErrors(
            self.model,
            self.groups,
            (*(self.features[i] for i in first), *remainder_name),
            of(self.observed_error),
            of(self.expected_error),
            len(remainder_positions) > 0,
        )

    def largest_shares(self, group: Label, n_features: int = 3) -> list[tuple[str, float]]:
        """The features with most of a group's error, with their shares of it; none of no error."""
        errors = self.best_estimate[self.groups.index(group)]
        order = np.argsort(-errors, kind="stable")[:n_features].tolist()
        total = float(errors.sum())
        return [(self.features[i], errors[i] / total) for i in order if errors[i] > 0]

    @property
    def records(self) -> list[dict[str, Any]]:
        """One flat dictionary for each group and feature; None where there is no figure."""
        return [
            {
                "model": self.model,
                "group": group,
                "feature": feature,
                "observed_error": float(observed),
                "expected_error": None if np.isnan(expected) else float(expected),
            }
            for group, own, new in zip(
                self.groups, self.observed_error, self.expected_error, strict=True
            )
            for feature, observed, expected in zip(self.features, own, new, strict=True)
        ]


def compute_feature_errors(
    model: AuditedModel,
    moments: Moments,
    is_estimated: BoolArray,
    refits: Sequence[Projector] = (),
    folds: FoldMoments | None = None,
) -> FeatureErrors | None:
    """The errors by feature of a projection; None of tables of many thousand features.

    Parameters
    ----------
    each : Audited
    moments : GroupMoments, SparseMoments or WideMoments
        Of all rows.
    is_known : (k,) array of bool
        Of which groups something is known of new rows.
    by_fold : sequence of K Projectors
        Fitted again without each fold; empty where it was fitted on other rows.
    folds : FoldMoments, optional
    """
    if moments.n_features > _MAX_FEATURES or model.row_model is not None:
        return None
    names = moments.feature_names or model.subspace.feature_names
    point, scale = model.subspace.center_point(moments), model.subspace.scale
    center = moments.means if point is None else point
    observed = _residual_diagonals(moments, center, scale, model.subspace.projector)
    expected = np.full_like(observed, np.nan)
    if not refits:
        expected = observed
    elif isinstance(folds, DenseFoldMoments) and folds.total.n_features == moments.n_features:
        expected = _held_out_errors(folds, center, scale, refits)
    return FeatureErrors(
        model.name,
        tuple(moments.labels),
        names or tuple(f"x{i}" for i in range(moments.n_features)),
        observed,
        np.where(is_estimated[:, None], expected, np.nan),
    )


def _held_out_errors(
    folds: DenseFoldMoments,
    center: FloatArray,
    scale: FloatArray | None,
    refits: Sequence[Projector],
) -> FloatArray:
    whole = folds.total
    errors, labels = np.zeros((whole.n_groups, whole.n_features)), whole.labels
    for part, projector in zip(folds.by_fold, refits, strict=True):
        if part is None:
            continue
        met = [labels.index(label) for label in part.labels]
        points = center[met] if center.ndim > 1 else center
        shares = part.weights / whole.weights[met]
        errors[met] += shares[:, None] * _residual_diagonals(part, points, scale, projector)
    return errors


def _residual_diagonals(
    moments: Moments, center: FloatArray, scale: FloatArray | None, projector: Projector
) -> FloatArray:
    """The diagonal of R S_g R' of each group, (k, p)."""
    second_moment_diagonal = moments.variances + (moments.means - center) ** 2
    if scale is not None:
        moments, center, second_moment_diagonal = (
            moments.divided_by(scale),
            center / scale,
            second_moment_diagonal / scale**2,
        )
    encoder, decoder = projector.encoder.T, projector.decoder
    images = moments.second_moments_about(center).apply(encoder)
    encoded = np.einsum("pr,gps->grs", encoder, images)
    cross_term = np.einsum("gpr,pr->gp", images, decoder)
    reconstructed = np.einsum("pr,grs,ps->gp", decoder, encoded, decoder, optimize=True)
    # What a projection keeps of a feature may be all of it, up to rounding.
    return np.asarray(np.maximum(second_moment_diagonal - 2 * cross_term + reconstructed, 0.0))
