"""A problem of many features posed in the coordinates of the rows, and its answer brought back.

Let r directions be those of the span (and of the origin, where errors are measured about it). A
subspace of d dimensions holds at most d directions without variance, and if d > r at least d - r;
these stand for nothing but themselves. So d' = min(d, r) dimensions of r + d' coordinates, at most
2r, hold all that a criterion can tell apart.
"""

import numbers
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairspan.linalg import with_positive_signs
from fairspan.moments.center import Center
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.held_rows.frame import Frame
from fairspan.moments.held_rows.thin_moments import ThinMoments

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class InCoordinates:
    """What a fit is to solve in place of the problem in all features.

    Attributes
    ----------
    frame : Frame
    point : (r + padding,) array or None
        About which errors are measured; None where each group has its own mean.
    asked : int or float
        d, or a share of variance.
    """

    frame: Frame
    point: FloatArray | None
    asked: int | float

    @classmethod
    def of(cls, moments: ThinMoments, n_components: int | float, center: Center) -> "InCoordinates":
        """Pose a problem.

        Parameters
        ----------
        moments : ThinMoments
            Scaled, if they are to be.
        n_components : int or float
            d, or a share above 0 and below 1.
        center : {"global", "group", "none"}
        """
        point, p = moments.center_point(center), moments.n_features
        beside = np.empty((p, 0))
        if center == "none":
            beside = moments.beside(moments.mean[:, None])
        n_known = moments.span.rank + beside.shape[1]
        whole = isinstance(n_components, numbers.Integral)
        n_inside = min(int(n_components), max(n_known, 1)) if whole else max(n_known, 1)
        n_apart = int(n_components) - n_inside if whole else 0
        frame = moments.framed(beside, min(n_inside, p - n_known - n_apart))
        if center == "global":  # not the mean of the features, which is rounded at their offset
            return cls(frame, frame.moments.mean, n_components)
        return cls(frame, frame.point(point, moments.mean), n_components)

    @property
    def n_left(self) -> int:
        """Directions without variance that the frame leaves out."""
        return self.frame.n_features - self.frame.n_known - self.frame.n_padding

    @property
    def n_components(self) -> int | float:
        """d' in the coordinates, or the share."""
        if not isinstance(self.asked, numbers.Integral):
            return self.asked
        return min(int(self.asked), max(self.frame.n_known, 1))

    def in_features(self, basis: FloatArray, n_components: int) -> FloatArray:
        """An answer in the features, with the directions that stand for themselves at its end.

        Parameters
        ----------
        basis : (r + padding, m) array
            Orthogonal columns no longer than one.
        n_components : int
            The dimension that it answers, in the coordinates.

        Returns
        -------
        (p, m') array
            The entry of largest absolute value of each column is positive.
        """
        if isinstance(self.asked, numbers.Integral):
            n_more = int(self.asked) - n_components
        else:
            n_more = self.n_left if n_components > max(self.frame.n_known, 1) else 0
        return with_positive_signs(self.frame.lifted(basis, n_more))


def with_basis(
    moments: ThinMoments, point: FloatArray | None, basis: FloatArray, n_components: int
) -> tuple[GroupMoments, FloatArray | None, FloatArray]:
    """Moments, a point and a basis of any subspace in coordinates that hold all three.

    Parameters
    ----------
    moments : ThinMoments
    point : (p,) array or None
    basis : (p, r) array
    n_components : int
        There are at least that many coordinates.

    Returns
    -------
    GroupMoments, (m,) array or None, (m, r) array
    """
    directions = basis if point is None else np.column_stack([basis, point - moments.mean])
    beside = moments.beside(directions)
    n_known = moments.span.rank + beside.shape[1]
    frame = moments.framed(beside, max(n_components - n_known, 0))
    return frame.moments, frame.point(point, moments.mean), frame.reduced(basis)
