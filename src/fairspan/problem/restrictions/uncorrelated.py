"""Projected rows that are uncorrelated with given columns."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple

import numpy as np

from fairspan.errors import InvalidInput, InvalidParameter, InvalidType
from fairspan.moments.compute import Moments
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.merging import merge_moments
from fairspan.parameters import check_bool, make_plain
from fairspan.problem.directions import equal_means_basis
from fairspan.problem.restrictions.restriction import Restriction
from fairspan.rows.attributes import ColumnKey, column_positions
from fairspan.rows.labels import format_list
from fairspan.typing import FloatArray


class _MomentsWithColumns(NamedTuple):
    """Moments of the features and of the columns of a restriction.

    Attributes
    ----------
    moments : GroupMoments
        By group if the restriction applies within groups, otherwise of all rows.
    positions : list of int
        Positions of the columns.
    """

    moments: GroupMoments
    positions: list[int]


@dataclass(frozen=True)
class Uncorrelated(Restriction):
    """Require projected rows that are uncorrelated with given columns, such as age and income.

    For a row with features f and column values z, V'Cov(f, z) = 0: V lies in the orthogonal
    complement of the columns of S_fz = sum_i w_i (f_i - f)(z_i - z)' / sum_i w_i, in which any
    criterion can be minimized. No linear function of the reduced rows then predicts z better than a
    constant does. If z indicates the groups, this is :class:`MeanParity`; the condition is that of
    LEACE (Belrose et al. 2023), with an orthogonal projection.

    The columns are not features: they enter no error, and `transform` does not need them.

    Parameters
    ----------
    columns : str, int, or sequence of these
        Numeric columns, by name, or by position if the rows have no column names.
    within_groups : bool, default=False
        Whether the reduced rows are uncorrelated with the columns within each group, about the
        group's own means, rather than over all rows. This removes up to k times as many directions.

    Raises
    ------
    InvalidParameter, InvalidType
        No column, or a duplicate; `within_groups` is not a bool.
    InvalidInput
        When fitting: the rows lack a column, or it is constant.
    IncompatibleParameters
        When fitting: too few directions remain.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import FairPCA, Uncorrelated
    >>> rng = np.random.default_rng(0)
    >>> age = rng.normal(size=200)
    >>> X = np.column_stack([rng.normal(size=(200, 3)) + np.outer(age, [2, 1, 0]), age])
    >>> hidden = FairPCA(1, criterion="total_error", restriction=Uncorrelated([3]))
    >>> reduced = hidden.fit(X, sensitive_features=age > 0).transform(X[:, :3])
    >>> bool(abs(np.corrcoef(reduced[:, 0], age)[0, 1]) < 1e-12)
    True
    """

    columns: tuple[ColumnKey, ...] = ()
    within_groups: bool = field(default=False, kw_only=True)
    name: ClassVar[str] = "uncorrelated"
    forbids_mean_differences_only: ClassVar[bool] = True
    compares_covariances: ClassVar[bool] = True

    def __post_init__(self) -> None:
        received: ColumnKey | Iterable[ColumnKey] = self.columns
        columns = [received] if isinstance(received, str | int) else list(received)
        if not columns or len(set(columns)) < len(columns):
            raise InvalidParameter(
                f"columns is {received!r}",
                "Allowed: distinct column names, or positions if the rows have no column names",
                'Name at least one, such as Uncorrelated(["age"])',
            )
        # False and True are integers in Python, but no positions.
        is_bool = any(isinstance(column, bool) for column in columns)
        if is_bool or not all(isinstance(column, str | int) for column in columns):
            raise InvalidType(
                f"columns is {received!r}",
                "Allowed: column names or integers",
                'Write them as in Uncorrelated(["age"])',
            )
        object.__setattr__(self, "columns", tuple(columns))
        check_bool("within_groups", self.within_groups)
        make_plain(self)  # numbers of other packages become built-in ones

    def constrained_means(self, moments: Moments) -> FloatArray:
        """Covariance of each feature with each column, preceded by a zero row, shape (1 + m, p).

        The rows take the place of means that must agree: along a direction in which all agree with
        the zero row, features are uncorrelated with the columns. They are in units of the feature,
        since columns are divided by their standard deviations. There are m columns or, if the
        restriction applies within groups, m pairs of a group and a column.

        Raises
        ------
        InvalidInput
            The moments contain the features only, or a column is constant.
        """
        with_columns = self._moments_with_columns(moments)
        all_moments = with_columns.moments
        positions = with_columns.positions
        p = moments.n_features
        deviations = np.sqrt(all_moments.variances[:, positions])
        divisors = all_moments.weights[:, None] * np.where(deviations > 0, deviations, 1.0)
        scatters = all_moments.scatters[:, positions][:, :, np.arange(p)]
        covariances = scatters / divisors[:, :, None]
        return np.vstack([np.zeros((1, p)), *covariances])

    def variances_of(self, moments: Moments, columns: FloatArray | None = None) -> FloatArray:
        """Variances in the rows of each covariance: of features, or along (p, q) columns.

        The first row is zero, like that of :meth:`constrained_means`.
        """
        with_columns = self._moments_with_columns(moments)
        features_only = with_columns.moments.select_features(range(moments.n_features))
        variances = features_only.variances_along(columns)
        repeated = np.repeat(variances, len(with_columns.positions), axis=0)
        return np.vstack([np.zeros((1, variances.shape[1])), repeated])

    def _moments_with_columns(self, moments: Moments) -> "_MomentsWithColumns":
        """Find the moments of the features and the columns, by group or of all rows.

        Raises
        ------
        InvalidInput
            The moments contain the features only, or a column is constant.
        """
        with_columns = moments.all_columns
        if with_columns is None:
            raise InvalidInput(
                f"The restriction is {self!r}, and the moments contain the features only",
                "Allowed: moments of the features and of these columns",
                "Compute the moments from rows that have the columns",
            )
        n_columns = with_columns.n_features
        names = with_columns.feature_names
        if names is None:
            positions = list(range(moments.n_features, n_columns))  # they follow the features
        else:
            positions = list(column_positions(self.columns, names, n_columns))
        assert len(positions) == len(self.columns)
        varies = with_columns.standard_deviations[positions] > 0
        if not varies.all():
            constant_columns = [self.columns[i] for i in np.flatnonzero(~varies)]
            raise InvalidInput(
                f"The columns {format_list(constant_columns)} of the restriction are constant",
                "Allowed: columns with at least two distinct values",
                "Drop them from the restriction and from the rows",
            )
        # The restriction does not depend on classes of y, by which the moments may be split.
        by_group = replace(with_columns, by_class=None, skip_validation=True)
        if self.within_groups:
            return _MomentsWithColumns(by_group, positions)
        # Groups with the same new label are merged: one label for all.
        all_rows = merge_moments([by_group], lambda label: "")
        return _MomentsWithColumns(all_rows, positions)

    def allowed_directions(
        self, means: FloatArray, covariances: FloatArray, n_components: int
    ) -> FloatArray:
        """Orthonormal basis of the allowed directions.

        Raises
        ------
        IncompatibleParameters
            Fewer than d directions remain.
        """
        return equal_means_basis(means, covariances, n_components)
