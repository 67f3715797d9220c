"""Uncertainty of second moments fitted by an unfinished EM iteration."""

from dataclasses import dataclass

import numpy as np

from fairspan.linalg import column_rms
from fairspan.typing import FloatArray


@dataclass(frozen=True, eq=False)
class EMUncertainty:
    """Bound on the errors of groups due to second moments of an unfinished iteration.

    If correlations C are inexact by at most d in norm, an error changes by at most d / l times
    itself, where l is the smallest eigenvalue of C, and by at most d times the variance.

    Attributes
    ----------
    relative : (k,) array
        d / l, infinite if C is singular.
    absolute : (k,) array
        d times the variance of each group.
    """

    relative: FloatArray
    absolute: FloatArray

    @classmethod
    def from_distance(
        cls, scatters: FloatArray, traces: FloatArray, distance: float
    ) -> "EMUncertainty | None":
        """Bound the change of errors from the distance of an EM iteration to its limit.

        The result is None if the distance is zero.

        EM fits a mean and correlations to the rows of each group, and may stop before it converges.

        Parameters
        ----------
        scatters : (k, p, p) array
            Scatter matrices about the group means, up to a factor; only their correlations count.
        traces : (k,) array
            Variances about the point in use.
        distance : float
            Distance of all means and correlations from their limits, the root of the sum of
            squares, with means in standard deviations.
        """
        if distance <= 0:
            return None
        root_diagonals = column_rms(scatters)
        units = np.where(root_diagonals > 0, root_diagonals, 1.0)
        # Constant features get a correlation of one with themselves.
        correlations = scatters / units[:, :, None] / units[:, None, :]
        np.einsum("gii->gi", correlations)[:] = 1.0
        # Bound on the norm by which the correlations, about any center, are inexact: once for the
        # correlations themselves, once for the mean of the group, and once for that of all rows.
        norm_bound = 3 * distance
        smallest = np.linalg.eigvalsh(correlations)[:, 0]
        # Infinite where correlations are singular: the absolute bound then applies alone.
        relative = np.full(len(smallest), np.inf)
        np.divide(norm_bound, smallest, out=relative, where=smallest > 0)
        return cls(relative=relative, absolute=norm_bound * traces)

    def select_groups(self, groups: slice) -> "EMUncertainty":
        """Select groups by position."""
        return EMUncertainty(self.relative[groups], self.absolute[groups])

    def error_bounds(self, errors: FloatArray) -> FloatArray:
        """Return bounds on the uncertainty of (k,) errors, shape (k,)."""
        with np.errstate(invalid="ignore"):
            relative_bounds = self.relative * np.maximum(errors, 0.0)
        return np.minimum(np.nan_to_num(relative_bounds, posinf=np.inf), self.absolute)
