"""Estimates for new rows by group and model."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from fairspan.auditing.identification import UNKNOWN_GAP, EigenvalueGap
from fairspan.auditing.intervals import UNKNOWN, Estimate
from fairspan.auditing.sample_size import UNKNOWN_PLAN, DetectionPlan

State = Literal["harmed", "minor", "no material harm", "inconclusive"]
"""Classification of a group's loss by its intervals."""

STATE_MEANINGS: Mapping[State, str] = {
    "harmed": "a loss is shown, and its estimate is at or above the threshold",
    "minor": "a loss is shown, estimated below the threshold; a larger one may not be ruled out",
    "no material harm": "no loss is shown, and one above the threshold is ruled out",
    "inconclusive": "no loss is shown, and one above the threshold is not ruled out",
}
"""Meanings of the states, from the worst to the least known, in the same words everywhere.

The threshold is the materiality.
"""

NOT_IDENTIFIED = "best subspace not identified"
"""Reason for an inconclusive state: components d and d + 1 may be equally important."""


@dataclass(frozen=True, kw_only=True)
class GroupEstimates:
    """Estimates for new rows of a group under a model, in squared (scaled) units of the features.

    By default, all are unknown (NaN).

    Attributes
    ----------
    expected_error : Estimate
        Mean error on new rows. For an in-sample model, that of the same fit to other rows; the
        interval includes the variation of the model with its rows.
    expected_loss : Estimate
        Expected excess over the group's best error. The interval runs from the lower limit of the
        cross-fitted loss to the upper limit of the corrected loss and is simultaneous over groups
        and over the models of its kind. It is the one that decides the state: heavy tails, and
        losses below the optimism of the group's best subspace or within the spread of refits, widen
        it.
    cross_fitted_loss : float
        Loss against the held-out best error; its expectation is at most the true loss.
    expected_best_error : float
        Bias-corrected estimate of the smallest error of any subspace of the same dimension on new
        rows.
    state : {"harmed", "minor", "no material harm", "inconclusive"}
        Classification by the simultaneous intervals.
    relative_optimism : float
        Optimism of the group's best subspace (held-out minus in-sample error), relative to the best
        error.
    expected_change : Estimate
        Change in error from the baseline PCA, with intervals simultaneous over groups and
        over the models that are compared with a baseline.
    detection : DetectionPlan
        If the state is "inconclusive": the smallest loss that these rows can detect, and by which
        factor more rows would detect the cross-fitted loss, or the materiality threshold if larger
        (:func:`required_sample_size`).
    is_unstable : bool
        Whether harm, or the sign of a material change, would be significant for the fixed model,
        but is within the jackknife spread of its refits.
    is_heavy_tailed : bool
        Whether a few rows dominate the loss, so that its interval is unreliable.
    has_few_pairs : bool
        Whether some pair of features is observed together in too few rows for estimates.
    n_clusters : int or None
        Number of clusters in the group; None if clusters were not given.
    n_effective : float
        Effective number of rows: as many rows of equal weight, all independent, as the rows count
        for at least. With clusters, as if all rows of a cluster were equal.
    eigenvalue_gap : EigenvalueGap
        Gap between eigenvalues d and d + 1 of the group's second moment, on which its best subspace
        of dimension d depends.
    """

    expected_error: Estimate = UNKNOWN
    expected_loss: Estimate = UNKNOWN
    cross_fitted_loss: float = math.nan
    expected_best_error: float = math.nan
    state: State = "inconclusive"
    relative_optimism: float = math.nan
    expected_change: Estimate = UNKNOWN
    detection: DetectionPlan = UNKNOWN_PLAN
    is_unstable: bool = False
    is_heavy_tailed: bool = False
    has_few_pairs: bool = False
    n_clusters: int | None = None
    n_effective: float = math.nan
    eigenvalue_gap: EigenvalueGap = UNKNOWN_GAP

    @property
    def min_detectable_loss(self) -> float:
        """Smallest loss that these rows can detect if the state is "inconclusive", or NaN."""
        return self.detection.min_detectable_loss

    @property
    def state_reason(self) -> str:
        """Reason for an inconclusive state that the interval of the loss does not show by itself.

        Empty if the interval contains zero and its upper limit is material.
        """
        if self.state != "inconclusive":
            return ""
        if self.has_few_pairs:
            return "features rarely observed together"
        if not self.is_estimated:
            return "too few rows"
        if self.is_unstable:
            return "unstable model"
        if self.is_heavy_tailed:
            return "heavy-tailed losses"
        if not self.eigenvalue_gap.is_identified:
            return NOT_IDENTIFIED
        if (self.expected_loss.low or 0.0) > 0:
            return "above zero, but perhaps below the threshold"
        if (self.expected_loss.high or 0.0) < 0:
            return "interval below zero"
        return ""

    @property
    def is_identified(self) -> bool | None:
        """Whether the gap is more than two standard errors above zero; None if it is unknown."""
        if math.isnan(self.eigenvalue_gap.value):
            return None
        return self.eigenvalue_gap.is_identified

    @property
    def is_estimated(self) -> bool:
        """Whether there are estimates for new rows."""
        return not math.isnan(self.expected_loss.value)

    def has_negative_loss(self, rounding_bound: float) -> bool:
        """Whether the entire interval of the loss is negative beyond rounding error."""
        return self.expected_loss.high is not None and self.expected_loss.high < -rounding_bound


@dataclass(frozen=True)
class ModelEstimates:
    """Estimates for new rows of all groups under one model.

    Attributes
    ----------
    groups : sequence of k GroupEstimates
    disparity : Estimate
        Disparity of the expected errors.
    disparity_pair : (int, int)
        Indices of the two groups that define it; equal if there is none.
    instability : float or None
        Sensitivity of an in-sample model to its rows: the largest ratio over groups of the
        delete-a-fold jackknife standard error of a group's error to the half width that the
        interval of its loss would have for a fixed model. None for other models.
    min_cosine : float or None
        Cosine of the largest principal angle between the model and any of its refits.
    """

    groups: Sequence[GroupEstimates]
    disparity: Estimate = UNKNOWN
    disparity_pair: tuple[int, int] = (0, 0)
    instability: float | None = None
    min_cosine: float | None = None
