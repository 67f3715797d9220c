"""What weights, means and variances of groups tell, however their second moments are held."""

from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from fairspan.moments.center import Center, check_center
from fairspan.rows.groups import Label, plain_labels

FloatArray = npt.NDArray[np.float64]


class GroupMeans(Protocol):
    """Weight, mean and variances of each group of rows.

    Attributes
    ----------
    groups : (k,) array
        Labels in sorted order.
    weights : (k,) array
        n_g, the sum of the sample weights.
    means : (k, p) array
        Weighted mean row of each group.
    """

    groups: npt.NDArray[Any]
    weights: FloatArray
    means: FloatArray

    if TYPE_CHECKING:  # a dataclass that has it as a field would take this for its default

        @property
        def variances(self) -> FloatArray:
            """Variance of each feature about each group's own mean (ddof 0), shape (k, p)."""

    @property
    def n_features(self) -> int:
        """p, the number of features."""
        return int(self.means.shape[1])

    @property
    def n_groups(self) -> int:
        """k, the number of groups."""
        return len(self.groups)

    @property
    def labels(self) -> list[Label]:
        """The groups as plain Python values."""
        return plain_labels(self.groups)

    @property
    def proportions(self) -> FloatArray:
        """q_g = n_g / sum of n, shape (k,)."""
        return np.asarray(self.weights / self.weights.sum())

    @cached_property
    def mean(self) -> FloatArray:
        """Weighted mean of all rows, shape (p,)."""
        # About the first group's mean, so that a large common offset does not cost digits.
        shift = self.means[0]
        return np.asarray(shift + self.proportions @ (self.means - shift))

    @cached_property
    def standard_deviations(self) -> FloatArray:
        """Pooled standard deviation of each feature (ddof 0) about the mean of all rows, (p,)."""
        variances = self.proportions @ (self.variances + (self.means - self.mean) ** 2)
        # A constant column may differ from its mean by rounding; that is not variance.
        rounding = np.finfo(np.float64).eps * np.abs(self.mean)
        return np.where(variances > rounding**2, np.sqrt(variances), 0.0)

    def center_point(self, center: Center) -> FloatArray | None:
        """The point that `center` stands for; None where each group has its own."""
        check_center(center)
        if center == "group":
            return None
        return self.mean if center == "global" else np.zeros(self.n_features)
