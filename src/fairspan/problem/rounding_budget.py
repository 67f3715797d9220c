"""Rounding errors that a problem starts with, before anything is solved.

Second moments are rounded, and so are the coordinates in which they are given: row coordinates,
along the axes of few rows, and the directions that a restriction allows. The bounds on all of these
are collected here. The rounding errors of solving are those of :mod:`fairspan.linalg`.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import numpy as np

from fairspan.linalg.rounding import EPS
from fairspan.moments.second_moments import DenseSecondMoments, SecondMoments
from fairspan.typing import FloatArray


@dataclass(frozen=True, eq=False)
class RowRank:
    """Upper bound on the number of directions along which rows vary, and their least variance.

    Attributes
    ----------
    maximum : int
        The bound.
    second_moments : SecondMoments
        Second moments of these rows.
    proportions : (k,) array
        q_g.
    typical_variance : float
        Variance of all rows if all were of the typical size.
    n_deflated : int
        Number of previous components that were removed from the rows since.
    """

    maximum: int
    second_moments: SecondMoments
    proportions: FloatArray
    typical_variance: float
    n_deflated: int = 0

    @cached_property
    def smallest_variance(self) -> float:
        """Smallest variance along a direction in which rows vary, or that of a typical row.

        Infinity if they do not vary; zero, up to rounding, if they vary along fewer directions than
        the bound.
        """
        if self.maximum == 0:
            return np.inf
        leading = self.second_moments.leading(self.proportions, self.maximum)
        return min(max(float(leading.eigenvalues[-1]), 0.0), self.typical_variance)


@dataclass(frozen=True, eq=False)
class RoundingBudget:
    """Bounds on the rounding errors of a problem's second moments and coordinates.

    Attributes
    ----------
    fixed_errors : (k,) array, or 0
        Of the errors in the directions that a restriction forbids, or that earlier components have.
    inner_variances : (k,) array, or 0
        Of each group's variance in the allowed directions.
    oblique_shift : float
        Of errors where an oblique restriction shifts rows before projecting.
    orthogonality_defect : float
        Bound on ||Q'Q - I|| of the row coordinates Q, the relative error of squared lengths.
    forbidden_rotation : float
        Angle by which forbidden directions are rotated, at most; zero without a restriction.
    selection_change : (k,) array, or 0
        Change of each group's errors if rounding changes the directions that a restriction selects.
    span_residuals : (k,) array, or 0
        Root mean square distance of each group's rows from the span of the row coordinates.
    row_rank : RowRank or None
        Bound on the number of directions along which rows vary, which tells zero errors from errors
        lost in rounding; None if unknown.
    """

    fixed_errors: FloatArray | float = 0.0
    inner_variances: FloatArray | float = 0.0
    oblique_shift: float = 0.0
    orthogonality_defect: float = 0.0
    forbidden_rotation: float = 0.0
    selection_change: FloatArray | float = 0.0
    span_residuals: FloatArray | float = 0.0
    row_rank: RowRank | None = None

    def within(
        self, second_moments: SecondMoments, *, n_forbidden: int, is_full: bool
    ) -> "RoundingBudget":
        """Budget within the directions that a restriction allows.

        The forbidden directions are computed in row coordinates and are as inexact as these, so
        they may be rotated by the same amount (`forbidden_rotation`). Rows vary along differences
        of their means or covariances, so each forbidden direction lowers their rank by one.

        Parameters
        ----------
        second_moments : SecondMoments
            In the allowed directions.
        n_forbidden : int
            Number of forbidden directions.
        is_full : bool
            Whether components use all directions that are left. Then no row can be outside of them,
            and the variance of a typical row, which would tell whether one is, does not matter.
        """
        row_rank = self.row_rank
        if row_rank is not None:
            maximum = max(row_rank.maximum - n_forbidden, 0)
            row_rank = replace(
                row_rank,
                maximum=min(maximum, second_moments.n_features),
                second_moments=second_moments,
                typical_variance=np.inf if is_full else row_rank.typical_variance,
            )
        return replace(self, forbidden_rotation=self.orthogonality_defect, row_rank=row_rank)

    def after_components(self, rounding: FloatArray, n_components: int) -> "RoundingBudget":
        """Budget once previous nested components are removed.

        Parameters
        ----------
        rounding : (k,) array
            Rounding error bound of each group's variance in the orthogonal complement of the
            components. The errors that the components leave fixed are off by as much.
        n_components : int
            Number of components that are removed.
        """
        row_rank = self.row_rank
        if row_rank is not None:
            # The bound on the rank stays that of the rows before any component was removed; how
            # many were removed since is counted separately.
            row_rank = replace(row_rank, n_deflated=row_rank.n_deflated + n_components)
        return replace(self, fixed_errors=rounding + self.fixed_errors, row_rank=row_rank)

    def variance_rounding(self, second_moments: SecondMoments) -> FloatArray:
        """Bound on the rounding error of each group's variance, shape (k,)."""
        traces = second_moments.traces
        rounding = EPS * 2 * second_moments.n_features * traces + self.inner_variances
        if second_moments.has_matrices:
            dense_moments = cast(DenseSecondMoments, second_moments)
            mean_rounding = float(np.linalg.norm(dense_moments.offset_rounding_error))
            rounding += 2 * mean_rounding * dense_moments.root_traces + mean_rounding**2
        return rounding + self.coordinate_rounding(second_moments, traces)

    def coordinate_rounding(self, second_moments: SecondMoments, errors: FloatArray) -> FloatArray:
        """Bound on the effect of inexact coordinates on (k,) errors, shape (k,).

        A squared length is off by at most the fraction `orthogonality_defect`; and if rows are
        displaced by m in root mean square, an error e changes by at most 2 sqrt(e) m + m^2. Other
        directions that a restriction may select change it by at most `selection_change`.
        """
        displacement = self._row_displacement(second_moments.traces)
        errors = np.maximum(errors, 0.0)
        rounding = (
            self.orthogonality_defect * errors
            + 2 * np.sqrt(errors) * displacement
            + displacement**2
        )
        return np.asarray(
            rounding + self.selection_change + _moment_rounding(second_moments, errors)
        )

    def bound_rounding(
        self, second_moments: SecondMoments, weights: FloatArray, errors: FloatArray
    ) -> float:
        """Bound on the effect of inexact row coordinates and shifted rows on the minimum of w.e.

        Includes the same effect on the groups' best errors, which excess losses subtract, the
        rounding error of the variance that an oblique restriction loses by shifting rows, and that
        of the directions that a restriction selects.

        Parameters
        ----------
        second_moments : SecondMoments
        weights : (k,) array
            w.
        errors : (k,) array
            Those of any subspace: the bound is relative to the minimum, which is at most their w.e.

        Returns
        -------
        float
            In the units of w.e.
        """
        # In inexact coordinates, with s the `orthogonality_defect`, a second moment S becomes FSF'
        # for a matrix F with ||FF' - I|| <= s. This changes each eigenvalue by at most the fraction
        # s of it (Ostrowski 1959). Groups of negative weight contribute negative eigenvalues, whose
        # sizes sum to at most their weighted variances.
        #
        # Rows that are displaced by m in root mean square change an error e by at most
        # 2 sqrt(e) m + m^2, and weighted sums likewise (Cauchy-Schwarz).
        traces = second_moments.traces
        abs_weights = np.abs(weights)
        squared_displacement = np.broadcast_to(
            self._row_displacement(traces) ** 2, abs_weights.shape
        )
        weighted_error = float(abs_weights @ errors)
        weighted_displacement = float(abs_weights @ squared_displacement)
        negative_variance = float(np.maximum(-weights, 0.0) @ traces)
        eigenvalue_rounding = (
            self.orthogonality_defect * (weighted_error + negative_variance)
            + 2 * float(np.sqrt(weighted_error * weighted_displacement))
            + weighted_displacement
        )
        # Second moments that were fitted by EM, to rows with missing cells, are inexact themselves.
        eigenvalue_rounding += float(abs_weights @ _moment_rounding(second_moments, errors))
        # Doubled, since the groups' best errors may be off by as much.
        shared_rounding = self.oblique_shift + np.broadcast_to(
            self.selection_change, abs_weights.shape
        )
        return 2 * eigenvalue_rounding + float(abs_weights @ shared_rounding)

    def _row_displacement(self, traces: FloatArray) -> FloatArray:
        """Bound on the root mean square displacement of each group's rows, shape (k,).

        Row coordinates omit what lies outside their span, and forbidden directions are rotated.
        """
        deviations = np.sqrt(np.maximum(traces, 0.0))
        return np.asarray(self.span_residuals + self.forbidden_rotation * deviations)


def _moment_rounding(second_moments: SecondMoments, errors: FloatArray) -> FloatArray:
    """Bound on the effect of second moments that were fitted by EM on (k,) errors, shape (k,)."""
    uncertainty = getattr(second_moments, "uncertainty", None)
    if uncertainty is None:
        return np.zeros(len(errors))
    return np.asarray(uncertainty.error_bounds(errors))
