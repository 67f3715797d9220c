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
from typing import ClassVar

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
        Columns used by the restriction that are not features; the moments then need `with_columns`.
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
