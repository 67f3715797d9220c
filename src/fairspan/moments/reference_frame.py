"""Reference frames: the point about which second moments are taken, and units of the features."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from fairspan.moments.base_moments import BaseMoments
from fairspan.moments.second_moments import SecondMoments
from fairspan.typing import FloatArray


@dataclass(frozen=True, eq=False)
class ReferenceFrame:
    """Point about which second moments are taken, and the units of the features.

    Attributes
    ----------
    center : (p,) or (k, p) array
        One point for all groups, or one for each, such as its own mean; in the units of the rows.
    scale : (p,) array
        Divisor of each feature: ones for the units of the rows.

    Examples
    --------
    >>> from fairspan import GroupMoments
    >>> moments = GroupMoments.from_rows(np.array([[2.0, 0.0], [0.0, 2.0]]), ["a", "b"])
    >>> frame = ReferenceFrame.from_optional(np.zeros(2), scale=np.array([2.0, 1.0]))
    >>> frame.second_moments(moments).traces
    array([1., 4.])
    """

    center: FloatArray
    scale: FloatArray

    @classmethod
    def from_optional(cls, center: FloatArray, scale: FloatArray | None) -> "ReferenceFrame":
        """Make a reference frame with a scale, or in the units of the rows if the scale is None."""
        return cls(center, np.ones(center.shape[-1]) if scale is None else scale)

    @property
    def has_common_center(self) -> bool:
        """Whether all groups have the same center."""
        return self.center.ndim == 1

    @cached_property
    def is_scaled(self) -> bool:
        """Whether the units differ from those of the rows."""
        return bool((self.scale != 1).any())

    @property
    def scaled_center(self) -> FloatArray:
        """Center in the units of the frame, (p,) or (k, p)."""
        return self.center / self.scale

    @property
    def key(self) -> tuple[bytes, bytes]:
        """Bytes of center and scale: equal for frames in which rows have the same coordinates."""
        return self.center.tobytes(), self.scale.tobytes()

    def of_group(self, group: int) -> "ReferenceFrame":
        """Frame of one group, by position, with its center."""
        return self if self.has_common_center else replace(self, center=self.center[group])

    def select_groups(self, groups: Sequence[int]) -> "ReferenceFrame":
        """Select the centers of some groups, by position."""
        return self if self.has_common_center else replace(self, center=self.center[list(groups)])

    def standardize(self, rows: FloatArray) -> FloatArray:
        """Center and scale (n, p) rows; the center must be common to all of them."""
        centered = rows - self.center
        return centered / self.scale if self.is_scaled else centered

    def second_moments(self, moments: BaseMoments) -> SecondMoments:
        """Second moments of the rows about the center, in the units of the frame.

        Parameters
        ----------
        moments : GroupMoments, SparseMoments or WideMoments
            Moments in the units of the rows, of the groups that the centers belong to.
        """
        if not self.is_scaled:
            return moments.second_moments_about(self.center)
        return moments.divided_by(self.scale).second_moments_about(self.scaled_center)
