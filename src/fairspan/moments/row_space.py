"""Row space of a wide table: orthonormal axes that span the rows, and their coordinates."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy.linalg import qr

from fairspan.linalg.rounding import ANGLE_TOL, FIGURE_ROUNDING, RANK_TOL
from fairspan.moments.base_moments import Center
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.group_rows import GroupRows
from fairspan.moments.shifted_rows import ShiftedRows
from fairspan.typing import FloatArray

# Random probes that bound the error of the axes; each bound fails with probability 10^-10.
_N_PROBES = 10
# Seed of zero-variance directions and random probes; arbitrary but unlikely to be chosen by users.
_RANDOM_SEED = 0x5AFE_C0DE_2018


class MomentsOfRows(Protocol):
    """Moments that keep the rows of a wide table (:class:`~fairspan.moments.wide.WideMoments`)."""

    @property
    def rows(self) -> ShiftedRows:
        """Rows minus the shift."""

    @property
    def shift(self) -> FloatArray:
        """Shift, (p,)."""

    @property
    def n_features(self) -> int:
        """Number of features, p."""

    @property
    def group_rows(self) -> tuple[GroupRows, ...]:
        """Rows of each group."""

    @property
    def proportions(self) -> FloatArray:
        """Shares of the groups in the total weight, (k,)."""

    @property
    def variances(self) -> FloatArray:
        """Variance of each feature in each group, (k, p)."""

    def moments_of_coordinates(self, coordinates: FloatArray) -> GroupMoments:
        """Dense moments of (n, m) coordinates of the rows."""


@dataclass(frozen=True, eq=False)
class RowSpace:
    """Orthonormal axes that span the shifted rows, and the coordinates of the rows.

    The first axes are B'M (implicit), where B are the (n, p) shifted rows. Explicit axes come
    next, then padding without variance. Q are the axes without padding, as columns.

    Attributes
    ----------
    moments_of_rows : WideMoments
        Moments of the rows in all features.
    row_coordinates : (n, r) array
        Coordinates of the rows.
    row_weights : (n, r') array
        M; empty (r' = 0) if all axes are explicit.
    explicit_axes : (p, e) array
        Explicit axes.
    n_padding : int
        Number of axes without variance.
    center : {"global", "group", "none"}
        Center about which errors are measured; see :attr:`point`.
    orthogonality_defect : float
        Bound on ||Q'Q - I||.
    relative_span_residual : float
        Bound on the distance of rows from the span, relative to their norm.
    """

    moments_of_rows: MomentsOfRows
    row_coordinates: FloatArray
    row_weights: FloatArray
    explicit_axes: FloatArray
    n_padding: int = 0
    center: Center = "global"
    orthogonality_defect: float = 0.0
    relative_span_residual: float = 0.0

    @property
    def n_axes(self) -> int:
        """Number of axes without padding."""
        return int(self.row_weights.shape[1] + self.explicit_axes.shape[1])

    @cached_property
    def point(self) -> FloatArray:
        """Center of the errors in coordinates, (m,), or the mean of each group, (k, m)."""
        if self.center == "none":
            # Coordinates are relative to the shift.
            return self.project(-self.moments_of_rows.shift[:, None])[:, 0]
        # Means of the coordinates, and not projected means of the features, which carry the
        # rounding error of their offset.
        return self.coordinate_moments.center_point(self.center)

    @property
    def max_components(self) -> int:
        """Largest number of components for which the padding suffices.

        A subspace may extend beyond the rows in as many directions as it has components, unless
        axes and padding span all features.
        """
        spans_all_features = self.n_axes + self.n_padding == len(self.explicit_axes)
        return len(self.explicit_axes) if spans_all_features else self.n_padding

    @cached_property
    def coordinate_moments(self) -> GroupMoments:
        """Dense moments of the rows, with their coordinates along all axes as features.

        Group means that are equal up to rounding are made exactly equal, and so are the rows of a
        group: their scatter becomes zero.
        """
        n, r = self.row_coordinates.shape
        # Rows have zero coordinates along the other axes, which a fit may need besides those of the
        # rows: the direction of the origin, and the padding (directions without variance).
        m = self.n_axes + self.n_padding
        rows = np.zeros((n, m))
        rows[:, :r] = self.row_coordinates
        moments = self.moments_of_rows.moments_of_coordinates(rows)
        squares = np.einsum("ij,ij->i", rows, rows)
        # Sums of rows are rounded relative to the distance of rows from the shift.
        rms_distance = np.sqrt(squares.sum() / len(squares))
        max_difference = np.linalg.norm(moments.means - moments.means[0], axis=1).max()
        if max_difference <= FIGURE_ROUNDING * rms_distance:
            common_means = np.tile(moments.mean, (moments.n_groups, 1))
            moments = replace(
                moments, means=common_means, mean_corrections=None, skip_validation=True
            )
        # A group of equal rows has no variance, which rounding would make positive. Scatters are
        # sums over the rows, hence the weights.
        traces = np.einsum("gii->g", moments.scatters)
        is_constant = traces <= FIGURE_ROUNDING**2 * squares.max() * moments.weights
        if is_constant.any():
            scatters = np.where(is_constant[:, None, None], 0.0, moments.scatters)
            moments = replace(moments, scatters=scatters, skip_validation=True)
        return moments

    def with_error_bounds(self, distinct: ShiftedRows, row_norms: FloatArray) -> "RowSpace":
        """Return a copy with probabilistic bounds on ||Q'Q - I|| and on the span residual.

        Q are the axes without padding, as columns; the span residual is the distance of rows from
        the span of Q, relative to their norm. With ten random probes, each bound fails with
        probability 1e-10 (Halko, Martinsson and Tropp 2011, lemma 4.1). The bound on Q'Q - I is the
        square root of a bound on the norm of its square.

        Parameters
        ----------
        distinct : ShiftedRows
            Shifted rows without repetitions, of which :attr:`row_coordinates` are the coordinates.
        row_norms : (n,) array
            Norms of these rows.
        """
        rng = np.random.default_rng(_RANDOM_SEED)
        axis_probes = rng.standard_normal((self.n_axes, _N_PROBES))
        n_features = len(self.explicit_axes)  # (p, e), even if there are no explicit axes
        feature_probes = rng.standard_normal((n_features, _N_PROBES))
        # Twice: products with the squared matrix give a sharper bound.
        deviation, products = self._gram_deviation(axis_probes, distinct, feature_probes)
        squared_deviation, _ = self._gram_deviation(deviation, distinct, feature_probes[:, :0])
        # Axes are explicit, or weighted sums of the distinct rows.
        projected_probes = self.row_weights.T @ products
        if not self.row_weights.size:
            projected_probes = self.explicit_axes.T @ feature_probes
        residual = products - self.row_coordinates @ projected_probes
        residual /= np.where(row_norms > 0, row_norms, 1.0)[:, None]
        return replace(
            self,
            orthogonality_defect=float(np.sqrt(_norm_bound(squared_deviation))),
            relative_span_residual=_norm_bound(residual),
        )

    def _gram_deviation(
        self, columns: FloatArray, distinct: ShiftedRows, feature_columns: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return (Q'Q - I)C of columns C, one row per axis, and products of rows with features.

        Both are found in one pass over the distinct rows. `columns` are (r, q), `feature_columns`
        (p, s).
        """
        if not self.row_weights.size:
            deviation = self.explicit_axes.T @ (self.explicit_axes @ columns) - columns
            if not feature_columns.size:
                return deviation, feature_columns
            return deviation, distinct @ feature_columns
        q = columns.shape[1]
        images = distinct.lift_and_multiply(self.row_weights @ columns, feature_columns)
        return self.row_weights.T @ images[:, :q] - columns, images[:, q:]

    def span_residuals(self) -> FloatArray:
        """Bound on the RMS distance of each group's rows from the span, shape (k,)."""
        moments = self.moments_of_rows
        shifted_means = np.array([group.shifted_mean for group in moments.group_rows])
        mean_squares = moments.variances.sum(axis=1) + (shifted_means**2).sum(axis=1)
        return np.asarray(self.relative_span_residual * np.sqrt(mean_squares))

    def lift(self, columns: FloatArray) -> FloatArray:
        """Lift (m, q) columns of coordinates along the axes to (p, q) columns of features.

        The axes are orthonormal, so the lifted columns have the same products with each other up
        to rounding.
        """
        lifted = self._lift_axes(columns)
        # Coordinates along the padding, which are the last axes, in directions without variance.
        padding = columns[self.n_axes :]
        # The padding is formed only if needed. Iterative solvers leave shorter residues along it,
        # which are left out.
        if np.linalg.norm(padding) > ANGLE_TOL:
            lifted = lifted + self._padding @ padding
        gram = columns.T @ columns
        gram_error = lifted.T @ lifted - gram
        if self.row_weights.size and np.abs(gram_error).max(initial=0.0) > FIGURE_ROUNDING:
            # Axes that are weighted sums of rows are less orthogonal than explicit ones, so the
            # products of the lifted columns are inexact. Correct them to first order. The columns
            # keep their span, so that errors of the subspace change only in proportion to
            # themselves.
            lifted -= lifted @ np.linalg.lstsq(gram, gram_error, rcond=RANK_TOL)[0] / 2
        return lifted

    def project(self, columns: FloatArray) -> FloatArray:
        """Return the coordinates (m, q) of (p, q) columns of features, projected on all axes.

        The last rows are coordinates along the padding, the axes without variance.
        """
        padding = np.zeros((self.n_padding, columns.shape[1]))
        squares = np.einsum("ij,ij->j", columns, columns)
        coordinates = self._project_on_axes(columns)
        residual_squares = squares - np.einsum("ij,ij->j", coordinates, coordinates)
        if (residual_squares <= FIGURE_ROUNDING * squares).all():
            # The columns are in the span of the other axes: nothing is left for the padding.
            return np.vstack([coordinates, padding])
        # Projects twice, unlike above, since the residual must be orthogonal to the axes.
        coordinates, residual = self._decompose(columns)
        if self.n_padding and np.linalg.norm(residual) > ANGLE_TOL * np.linalg.norm(columns):
            padding = self._padding.T @ residual
        return np.vstack([coordinates, padding])

    def extend(self, columns: FloatArray) -> "RowSpace":
        """Extend the axes to span (p, q) further columns, before padding is set.

        Columns within the span of the axes add none.
        """
        # Zero columns add no axis.
        norms = np.linalg.norm(columns, axis=0)
        axes = self._new_axes(columns[:, norms > 0] / norms[norms > 0])
        return replace(self, explicit_axes=np.hstack([self.explicit_axes, axes]))

    def _new_axes(self, columns: FloatArray) -> FloatArray:
        """Orthonormal axes for the components of columns outside the span."""
        if not columns.size:
            return columns
        for _ in range(2):  # twice: reorthogonalize nearly dependent columns
            residual = self._decompose(columns)[1]
            axes, upper, _ = qr(residual, mode="economic", pivoting=True)
            rank = int((np.abs(np.diag(upper)) > RANK_TOL).sum())
            columns = axes[:, :rank]
        return columns

    def _lift_axes(self, columns: FloatArray) -> FloatArray:
        n_implicit = self.row_weights.shape[1]
        lifted = self.explicit_axes @ columns[n_implicit : self.n_axes]
        if not n_implicit:
            return lifted
        return lifted + self.moments_of_rows.rows.T @ (self.row_weights @ columns[:n_implicit])

    def _project_on_axes(self, columns: FloatArray) -> FloatArray:
        explicit = self.explicit_axes.T @ columns
        if not self.row_weights.size:
            return explicit
        implicit = self.row_weights.T @ (self.moments_of_rows.rows @ columns)
        return np.vstack([implicit, explicit])

    def _decompose(self, columns: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Decompose columns into coordinates along the axes and the residual outside their span."""
        coordinates = np.zeros((self.n_axes, columns.shape[1]))
        residual = columns
        for _ in range(2):  # twice: reorthogonalize
            step = self._project_on_axes(residual)
            coordinates = coordinates + step
            residual = residual - self._lift_axes(step)
        return coordinates, residual

    @cached_property
    def _padding(self) -> FloatArray:
        """Orthonormal directions without variance, reproducible."""
        # An unusual seed: rows drawn with the same one would span the padding.
        rng = np.random.default_rng(_RANDOM_SEED)
        return self._new_axes(rng.standard_normal((self.n_padding, len(self.explicit_axes))).T)


def _norm_bound(images: FloatArray) -> float:
    """Probabilistic bound on the norm of a matrix from its products with random normal vectors.

    Each column of `images` is one product. The bound fails with probability 10^-r for r products
    (Halko, Martinsson and Tropp 2011, lemma 4.1 with a factor of 10).
    """
    return float(10 * np.sqrt(2 / np.pi) * np.linalg.norm(images, axis=0).max(initial=0.0))
