"""Restrictions: constraints that make the projected groups look alike, combined with any criterion.

A criterion decides how much error each group may have. A restriction hides the group: it removes
differences between the groups from the projected rows (Olfat and Aswani 2019; Kleindessner et al.
2023). The two goals differ, and a subspace that hides the group can increase the error of a group.

Notation: m_g is the mean of group g, C_g its covariance about that mean (divided by its weight), V
the orthonormal (p, d) basis; all in scaled units if the features are scaled.

A restriction that forbids directions writes `name` and `allowed_directions` (mean_parity.py). One
that compares other quantities than means of groups gives them as `constrained_means`
(uncorrelated.py). One with a tolerance returns a `limit` (covariance_parity.py), for which only few
solvers have a method. A restriction that is selected by name is listed in
restriction_catalog.py and in :mod:`fairspan.registry`.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fairspan.errors import IncompatibleParameters
from fairspan.formatting.messages import counted
from fairspan.moments.compute import Moments
from fairspan.moments.row_space import RowSpace
from fairspan.problem.criteria.criterion import Criterion
from fairspan.problem.criteria.linear import TotalError
from fairspan.problem.directions import central_differences, mean_difference_directions
from fairspan.problem.limits import ParityLimit
from fairspan.rows.attributes import ColumnKey
from fairspan.rows.labels import Label
from fairspan.typing import FloatArray


@dataclass(frozen=True, eq=False)
class AllowedDirections:
    """Directions that a restriction allows, and what rounding may change about them.

    Attributes
    ----------
    axes : (p, m) array or None
        Orthonormal basis of the allowed directions; None if all are allowed.
    neighbors : (p, f) array
        Orthonormal forbidden directions into which rounding may rotate the axes.
    rotation : (f, m) array
        Bound on the angle, in radians, by which each axis is rotated into each neighbor.
    n_constant : int
        Number of forbidden directions along which rows do not vary.
    is_resolved : bool
        Whether rounding cannot change which directions are allowed. Otherwise neighbors may be
        allowed, or axes forbidden.
    """

    axes: FloatArray | None
    neighbors: FloatArray
    rotation: FloatArray
    n_constant: int = 0
    is_resolved: bool = True

    @classmethod
    def exact(cls, axes: FloatArray | None, n_features: int) -> "AllowedDirections":
        """Directions that rounding does not change, apart from that of the coordinates."""
        n_axes = n_features if axes is None else axes.shape[1]
        return cls(axes, neighbors=np.empty((n_features, 0)), rotation=np.empty((0, n_axes)))

    def largest_change(self, covariances: FloatArray, offsets: FloatArray) -> FloatArray:
        """Bound on the change of each group's error by rounding of the directions, shape (k,).

        Parameters
        ----------
        covariances : (k, p, p) array
        offsets : (k, p) array
            Mean of each group relative to the point about which errors are measured.
        """
        axes = self.axes
        if axes is None:
            return np.zeros(len(covariances))
        inside = _variances_along(axes, covariances, offsets)
        outside = _variances_along(self.neighbors, covariances, offsets)
        largest = inside.sum(axis=1) + outside.sum(axis=1)
        if not self.is_resolved:
            return np.asarray(largest)
        # Axes Q that are rotated by X into neighbors F become Q + FX, to first order, and any
        # variance within them changes by at most 2 sum_ij |X_ij| |F'S_gQ|_ij. The second-order
        # terms are the variances along FX, and those along Q times its squared length.
        products = np.array([self.neighbors.T @ matrix @ axes for matrix in covariances])
        products += (offsets @ self.neighbors)[:, :, None] * (offsets @ axes)[:, None, :]
        change = 2 * (np.abs(products) * self.rotation).sum(axis=(1, 2))
        change += ((np.sqrt(outside) @ self.rotation) ** 2).sum(axis=1)
        change += inside.sum(axis=1) * float((self.rotation**2).sum())
        return np.asarray(np.minimum(change, largest))


def _variances_along(
    directions: FloatArray, covariances: FloatArray, offsets: FloatArray
) -> FloatArray:
    """Mean square of each group's rows along (p, m) orthonormal directions, shape (k, m)."""
    variances = [np.einsum("ij,ij->j", directions, matrix @ directions) for matrix in covariances]
    return np.asarray(np.maximum(variances, 0.0) + (offsets @ directions) ** 2)


class Restriction(ABC):
    """Constraint on the subspaces that a criterion may choose from, to hide the group.

    To define a restriction, subclass this and provide `name` and `allowed_directions`; everything
    else has a default.

    Attributes
    ----------
    is_rotation_equivariant : bool
        Whether rotating the features only rotates the allowed subspaces. If so, data with fewer
        rows than features are solved in row coordinates; otherwise the moments of all features are
        computed.
    within_classes : "all", sequence of classes, or None
        Classes of y within which the means are compared; the moments then need `by_class`. None for
        all rows.
    keep_outcome : bool
        Whether every allowed subspace contains :meth:`required_directions`, which tell the classes
        of y apart; the moments then need `by_class`.
    columns : tuple of str or int
        Columns used by the restriction that are not features; the moments then need `all_columns`.
    oblique : bool
        Whether rows are shifted until the means agree before they are projected
        (:mod:`fairspan.problem.oblique`).
    within_groups : bool
        Whether the covariances that are compared are about the mean of each group.
    compares_covariances : bool
        Whether `constrained_means` are covariances of the features with other columns.
    uses_common_mean : bool
        Whether `allowed_directions` depends on the direction of the mean of all rows, in which
        there is something to keep if errors are about the origin.
    """

    is_rotation_equivariant: ClassVar[bool] = False
    within_classes: str | Sequence[Label] | None = None
    keep_outcome: bool = False
    columns: tuple[ColumnKey, ...] = ()
    oblique: bool = False
    within_groups: bool = False
    compares_covariances: ClassVar[bool] = False
    uses_common_mean: ClassVar[bool] = False

    @property
    @abstractmethod
    def name(self) -> str:
        """Name by which the restriction is selected."""

    @abstractmethod
    def allowed_directions(
        self, means: FloatArray, covariances: FloatArray, n_components: int
    ) -> FloatArray | None:
        """Orthonormal (p, m) columns whose span contains every allowed V; None for all directions.

        V is the orthonormal (p, d) basis of a subspace.

        Parameters
        ----------
        means : (k, p) array
        covariances : (k, p, p) array
            About each group's own mean.
        n_components : int
            d.
        """

    def select_directions(
        self,
        means: FloatArray,
        covariances: FloatArray,
        n_components: int,
        *,
        orthogonality_defect: float | None = None,
    ) -> AllowedDirections:
        """Return the allowed directions, with a bound on the effect of rounding on them.

        By default those of :meth:`allowed_directions`, without any further effect.

        Parameters
        ----------
        means : (k, p) array
        covariances : (k, p, p) array
        n_components : int
            d.
        orthogonality_defect : float, optional
            Relative error of squared lengths in row coordinates; None if the means and covariances
            are those of features.
        """
        axes = self.allowed_directions(means, covariances, n_components)
        return AllowedDirections.exact(axes, means.shape[1])

    def check_compatible(
        self, group_labels: list[Label], criterion: Criterion, *, allow_extra: bool
    ) -> None:
        """Raise IncompatibleParameters if groups or criterion do not suit the restriction."""
        return

    def max_components(self, means: FloatArray, covariances: FloatArray) -> int:
        """Largest number of components that can be requested."""
        directions = self.allowed_directions(means, covariances, 1)
        if directions is None:
            return int(means.shape[1])
        return int(directions.shape[1])

    def limit(self, means: FloatArray, covariances: FloatArray) -> ParityLimit | None:
        """Further constraint within the allowed directions; None if there is none."""
        return None

    @property
    def forbids_mean_differences_only(self) -> bool:
        """Whether, for every d, exactly the directions along which means differ are forbidden.

        Components can then be nested.
        """
        return False

    @property
    def needs_classes(self) -> bool:
        """Whether the class of each row (y) is needed."""
        return self.within_classes is not None or self.keep_outcome

    def required_directions(self, moments: Moments, forbidden: FloatArray) -> FloatArray | None:
        """Orthonormal directions that every allowed subspace contains, (p, r); None for none.

        Parameters
        ----------
        moments : GroupMoments
        forbidden : (p, n) array
            Orthonormal basis of the forbidden directions, to which they are orthogonal.
        """
        return None

    @property
    def requires_equal_means(self) -> bool:
        """Whether `constrained_means` must agree in every solution, which is then checked.

        By default only if the restriction says that it forbids their differences: other ones need
        not make means agree.
        """
        return self.forbids_mean_differences_only or self.oblique

    @property
    def max_mean_distance(self) -> float:
        """Largest distance between two projected means that must agree; 0 if they must be equal."""
        return 0.0

    @property
    def selects_by_covariances(self) -> bool:
        """Whether the covariances of the groups decide which directions are allowed."""
        return False

    @property
    def counts_directions(self) -> bool:
        """Whether the number of allowed directions depends on the number of features."""
        return False

    def in_row_coordinates(
        self, coordinates: RowSpace, n_components: int, n_available: int
    ) -> "Restriction":
        """Equivalent restriction in coordinates of the space that the rows span.

        By default the restriction itself, which suits those that count no directions.

        Parameters
        ----------
        coordinates : RowSpace
        n_components : int
            d.
        n_available : int
            Number of directions of the features along which no two constrained means differ.
        """
        return self

    def constrained_means(self, moments: Moments) -> FloatArray:
        """Means from which the directions are computed, shape (m, p): by default those of groups.

        They are relative to the mean of one of the groups, so that rows far from zero keep their
        precision.
        """
        return central_differences(moments)

    def variances_of(self, moments: Moments, columns: FloatArray | None = None) -> FloatArray:
        """Variances in the rows of each of these means: of features, or along (p, q) columns."""
        return moments.variances_along(columns)


def differences_of(restriction: Restriction, moments: Moments) -> FloatArray:
    """Mean difference directions that a restriction forbids, shape (p, rank)."""
    return mean_difference_directions(
        restriction.constrained_means(moments), restriction.variances_of(moments)
    )


def check_tolerance_supported(
    restriction: Restriction,
    group_labels: list[Label],
    criterion: Criterion,
    *,
    allow_extra: bool,
    alternative: str,
) -> None:
    """Raise IncompatibleParameters if a restriction with a tolerance is unsupported here."""
    if len(group_labels) > 2:
        received = counted(len(group_labels), "group")
    elif allow_extra:
        received = "allow_extra=True"
    elif not isinstance(criterion, TotalError):
        received = f"the criterion {criterion.name!r}"
    else:
        return
    raise IncompatibleParameters(
        f"{restriction!r} was requested together with {received}",
        "Allowed with a tolerance: the criterion 'total_error', two groups and allow_extra=False",
        f"Change these, or drop the tolerance: {alternative}",
    )
