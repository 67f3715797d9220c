"""Centers without each fold, and the correction of errors about a center learnt from the rows.

Rows are nearer to their own mean than new rows are. With residual map R and covariance S of a
group, its mean squared residual about the mean of N independent rows is 2 tr(R S R') / N smaller on
these rows than on new ones, and about the mean of its own n rows, tr(R S R') / n smaller than about
the true mean. Let s_f be how far the center moves if the rows of fold f are included, and a_f the
deviation of the mean of the group's rows in fold f from the center: then the mean over the rows of
2 (R s_f)'(R a_f) estimates 2 tr(R S R') / N, or 2 tr(R S R') / n, without bias. Rows that depend on
each other, as those of a cluster, are in one fold, and weights are in the means.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairspan.moments.compute import Moments
from fairspan.moments.projector import Projector
from fairspan.moments.reference_frame import ReferenceFrame
from fairspan.typing import FloatArray, IntegerArray


@dataclass(frozen=True, eq=False)
class GroupMeans:
    """Counts, weights and means of some of the rows, relative to the means of all rows.

    Attributes
    ----------
    counts, weights : (k,) arrays
        Zero for a group that has none of the rows.
    group_deviations : (k, p) array
        Mean of each group minus its mean over all rows; zero for a group without rows.
    common_deviation : (p,) array
        Mean over all groups minus that over all rows.
    """

    counts: IntegerArray
    weights: FloatArray
    group_deviations: FloatArray
    common_deviation: FloatArray

    @classmethod
    def from_moments(cls, moments: Moments, total: Moments) -> "GroupMeans":
        """Compute the means of the rows in `moments`, relative to those of all rows in `total`."""
        present = [total.labels.index(label) for label in moments.labels]
        counts = np.zeros(total.n_groups, dtype=np.int64)
        weights = np.zeros(total.n_groups)
        group_deviations = np.zeros_like(total.means)
        counts[present] = moments.counts
        weights[present] = moments.weights
        group_deviations[present] = moments.means - total.means[present]
        return cls(counts, weights, group_deviations, moments.mean - total.mean)


@dataclass(frozen=True, eq=False)
class FoldCenters:
    """Means of all rows and of those outside each of K folds, for k groups and p features.

    All are in the units of the rows. With clusters, which lie within folds, the differences between
    the means are those of clusters.

    Attributes
    ----------
    group_means : (k, p) array
    shares : (K, k) array
        Share of each group's weight in each fold.
    group_shifts : (K, k, p) array
        Mean of each group minus its mean outside the fold; zero if it has no rows there.
    common_shifts : (K, p) array
        Mean of all rows minus that of the rows outside the fold.
    """

    group_means: FloatArray
    shares: FloatArray
    group_shifts: FloatArray
    common_shifts: FloatArray

    @classmethod
    def from_training(cls, total: Moments, means_by_fold: Sequence["GroupMeans"]) -> "FoldCenters":
        """Compute the shifts from the moments of all rows, and the means outside each fold."""
        counts = np.array([training.counts for training in means_by_fold])
        weights = np.array([training.weights for training in means_by_fold])
        # Where a fold has no rows of the group, the weights may differ by rounding.
        shares = np.where(counts < total.counts, 1 - weights / total.weights, 0.0)
        return cls(
            group_means=total.means,
            shares=shares,
            group_shifts=-np.array([training.group_deviations for training in means_by_fold]),
            common_shifts=-np.array([training.common_deviation for training in means_by_fold]),
        )

    def fold_means_about_shifted_centers(
        self, frame: ReferenceFrame, fold: int, group: int
    ) -> FloatArray:
        """Mean of a group's rows in a fold about two centers, (2, p), in the units of the frame.

        The center of the frame is shifted by s_f away from the rows of the fold, to the center
        without them, and by s_f towards these. Half the difference of the squared residuals is
        2 (R s_f)'(R a_f).
        """
        own_frame = frame.of_group(group)
        share = self.shares[fold, group]
        if frame.has_common_center:
            shift = self.common_shifts[fold]
        else:
            shift = self.group_shifts[fold, group]
        # The deviation of the fold's mean from that of the group is opposite to that of the rows
        # outside the fold, in the inverse ratio of weights.
        fold_deviation = (1 - share) / share * self.group_shifts[fold, group]
        deviation = self.group_means[group] - own_frame.center + fold_deviation
        return np.stack([deviation + shift, deviation - shift]) / own_frame.scale

    def excess_by_feature(
        self, frame: ReferenceFrame, projectors: Sequence[Projector]
    ) -> FloatArray:
        """Excess of errors of each feature about a center that does not depend on the rows.

        Parameters
        ----------
        frame : ReferenceFrame
        projectors : sequence of K Projectors
            The map that judges the rows of each fold.

        Returns
        -------
        (k, p) array
            Means over the rows of each group, in the units of the frame.
        """
        excess = np.zeros_like(self.group_means)
        for fold, group in np.argwhere(self.shares > 0).tolist():
            means = self.fold_means_about_shifted_centers(frame, fold, group)
            away, towards = projectors[fold].residuals(means) ** 2
            excess[group] += self.shares[fold, group] * (away - towards) / 2
        return excess
