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

from fairspan.auditing.models import Audited
from fairspan.formatting.text import counted
from fairspan.moments.of_rows import FoldMoments, Moments, SummedFolds
from fairspan.moments.operators import Projector
from fairspan.rows.groups import Label
from fairspan.typing import BoolArray, FloatArray

MOST_SHOWN = 20
"""Features that are listed one by one in JSON, on pages and in pictures; the rest are summed."""
# With more, k times as many figures a model would be kept for every audit.
_MOST_FEATURES = 5000


@dataclass(frozen=True, eq=False)
class FeatureErrors:
    """The error of each feature in each group under one model, in squared (scaled) units.

    Attributes
    ----------
    model : str
    groups : tuple of k labels
    features : tuple of p str
    error_here : (k, p) array
        On these rows; they sum to the groups' errors.
    expected_error : (k, p) array
        On new rows; NaN where nothing is known of these.
    has_rest : bool
        Whether the last feature is the sum of others.
    """

    model: str
    groups: tuple[Label, ...]
    features: tuple[str, ...]
    error_here: FloatArray
    expected_error: FloatArray
    has_rest: bool = False

    @property
    def best_known(self) -> FloatArray:
        """On new rows where that is known of every group, otherwise on these."""
        return self.error_here if np.isnan(self.expected_error).any() else self.expected_error

    def shown(self, n_features: int = MOST_SHOWN) -> "FeatureErrors":
        """The features with the largest error in any group; what is left, as a last one, summed.

        The first has the largest.
        """
        order = np.argsort(-self.best_known.max(axis=0), kind="stable")
        if len(order) <= n_features:
            first, rest = order, order[:0]
        else:
            first, rest = order[: n_features - 1], order[n_features - 1 :]

        def of(errors: FloatArray) -> FloatArray:
            beyond = [errors[:, rest].sum(axis=1)] if len(rest) else []
            return np.column_stack([errors[:, first], *beyond])

        others = (counted(len(rest), "other"),) if len(rest) else ()
        return FeatureErrors(
            self.model,
            self.groups,
            (*(self.features[i] for i in first), *others),
            of(self.error_here),
            of(self.expected_error),
            len(rest) > 0,
        )

    def largest(self, group: Label, n_features: int = 3) -> list[tuple[str, float]]:
        """The features with most of a group's error, with their shares of it; none of no error."""
        errors = self.best_known[self.groups.index(group)]
        order = np.argsort(-errors, kind="stable")[:n_features].tolist()
        whole = float(errors.sum())
        return [(self.features[i], errors[i] / whole) for i in order if errors[i] > 0]

    @property
    def records(self) -> list[dict[str, Any]]:
        """One flat dictionary for each group and feature; None where there is no figure."""
        return [
            {
                "model": self.model,
                "group": group,
                "feature": feature,
                "error_here": float(here),
                "expected_error": None if np.isnan(expected) else float(expected),
            }
            for group, own, new in zip(
                self.groups, self.error_here, self.expected_error, strict=True
            )
            for feature, here, expected in zip(self.features, own, new, strict=True)
        ]


def errors_by_feature(
    each: Audited,
    moments: Moments,
    is_known: BoolArray,
    by_fold: Sequence[Projector] = (),
    folds: FoldMoments | None = None,
) -> FeatureErrors | None:
    """The errors by feature of a projection; None of tables of many thousand features.

    Parameters
    ----------
    each : Audited
    moments : GroupMoments, SparseMoments or ThinMoments
        Of all rows.
    is_known : (k,) array of bool
        Of which groups something is known of new rows.
    by_fold : sequence of K Projectors
        Fitted again without each fold; empty where it was fitted on other rows.
    folds : FoldMoments, optional
    """
    if moments.n_features > _MOST_FEATURES or each.by_rows is not None:
        return None
    names = moments.feature_names or each.subspace.feature_names
    point, scale = each.subspace.reference_point(moments), each.subspace.scale
    about = moments.means if point is None else point
    here = _diagonals(moments, about, scale, each.subspace.projector)
    expected = np.full_like(here, np.nan)
    if not by_fold:
        expected = here
    elif isinstance(folds, SummedFolds) and folds.whole.n_features == moments.n_features:
        expected = _on_left_out(folds, about, scale, by_fold)
    return FeatureErrors(
        each.name,
        tuple(moments.labels),
        names or tuple(f"x{i}" for i in range(moments.n_features)),
        here,
        np.where(is_known[:, None], expected, np.nan),
    )


def _on_left_out(
    folds: SummedFolds, about: FloatArray, scale: FloatArray | None, by_fold: Sequence[Projector]
) -> FloatArray:
    whole = folds.whole
    errors, labels = np.zeros((whole.n_groups, whole.n_features)), whole.labels
    for part, projector in zip(folds.parts, by_fold, strict=True):
        if part is None:
            continue
        met = [labels.index(label) for label in part.labels]
        points = about[met] if about.ndim > 1 else about
        shares = part.weights / whole.weights[met]
        errors[met] += shares[:, None] * _diagonals(part, points, scale, projector)
    return errors


def _diagonals(
    moments: Moments, about: FloatArray, scale: FloatArray | None, projector: Projector
) -> FloatArray:
    """The diagonal of R S_g R' of each group, (k, p)."""
    squares = moments.variances + (moments.means - about) ** 2
    if scale is not None:
        moments, about, squares = moments.divided_by(scale), about / scale, squares / scale**2
    encoder, decoder = projector.encoder.T, projector.decoder
    images = moments.operator_about(about).applied(encoder)
    inside = np.einsum("pr,gps->grs", encoder, images)
    both = np.einsum("gpr,pr->gp", images, decoder)
    kept = np.einsum("pr,grs,ps->gp", decoder, inside, decoder, optimize=True)
    # What a projection keeps of a feature may be all of it, up to rounding.
    return np.asarray(np.maximum(squares - 2 * both + kept, 0.0))
