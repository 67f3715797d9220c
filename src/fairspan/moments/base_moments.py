"""Base class of moments: weights, means and variances of groups, and centering."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Literal, NamedTuple, Self, get_args

import numpy as np

from fairspan.errors import InvalidInput, InvalidParameter
from fairspan.formatting.messages import counted, describe_position
from fairspan.formatting.table import Table
from fairspan.linalg.double_double import exact_sum
from fairspan.linalg.rounding import EPS
from fairspan.moments.normal_model import NormalModel
from fairspan.moments.second_moments import SecondMoments
from fairspan.rows.label_matching import KnownLabels
from fairspan.rows.labels import Label, format_label, table_name, to_python_labels
from fairspan.typing import AnyArray, FloatArray, IntegerArray

Center = Literal["global", "group", "none"]

# Fourth powers of magnitudes in this range, and their sums, neither overflow nor underflow.
_MIN_MAGNITUDE = 1e-75
_MAX_MAGNITUDE = 1e75
# Both limits of magnitudes are divided by this factor to get those of a column's root mean square:
# some entries are larger than that, and zeros among the entries make it smaller.
_MAX_TO_RMS = 4.0


def describe_dropped_rows(n_dropped: int, template: str = "{}") -> str:
    """Describe the dropped rows using a template; empty if there are none.

    Examples
    --------
    >>> describe_dropped_rows(3, " ({})"), describe_dropped_rows(0, " ({})")
    (' (3 rows with missing values dropped)', '')
    """
    if not n_dropped:
        return ""
    return template.format(f"{counted(n_dropped, 'row')} with missing values dropped")


def no_group_labels_error() -> InvalidInput:
    """Build the error for rows without group labels."""
    return InvalidInput(
        "The rows have no group labels",
        "Allowed: one label per row",
        "Pass sensitive_features",
    )


def check_magnitudes(
    means: FloatArray,
    variances: FloatArray,
    names: Sequence[str] | None,
    *,
    is_partial: bool = False,
) -> None:
    """Check that each feature is zero or has magnitudes between 1e-75 and 1e75.

    The entries are not known, only their moments: the root mean square about zero in the group
    where it is largest decides. Its limits are those of the magnitudes divided by 4, since some
    entries are larger than the root mean square, and zeros make it smaller.

    Parameters
    ----------
    means, variances : (k, p) arrays
        Means and variances by group and feature.
    names : sequence of str, or None
        Feature names.
    is_partial : bool
        Whether these are part of the rows, and others may have larger values; then there is no
        lower limit.

    Raises
    ------
    InvalidInput
        A feature is out of range; the message names it.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        rms = np.hypot(means, np.sqrt(variances)).max(axis=0, initial=0.0)
    min_rms = 0.0 if is_partial else _MIN_MAGNITUDE / _MAX_TO_RMS
    max_rms = _MAX_MAGNITUDE / _MAX_TO_RMS
    # NaN, from values that overflowed, compares as false.
    is_valid = ((rms >= min_rms) | (rms == 0)) & (rms <= max_rms)
    if is_valid.all():
        return
    first = int(np.argmin(is_valid))
    name = describe_column(first, names)
    if np.isfinite(rms[first]):
        size = f"of about {rms[first]:.0e} (root mean square)"
    else:
        size = "whose squares overflow float64"
    raise InvalidInput(
        f"X has values {size} in {name}",
        f"Allowed: zero, and magnitudes from {_MIN_MAGNITUDE:.0e} to {_MAX_MAGNITUDE:.0e} with a "
        f"root mean square of at most {max_rms:.1e}, so that fourth powers do not overflow",
        "Divide the column by a constant, or change its unit",
    )


def describe_column(index: int, names: Sequence[str] | None) -> str:
    """Return the name of a column, or its position if it has none, for a message."""
    return describe_position("column", index) if names is None else f"column {names[index]!r}"


def check_center(center: object) -> None:
    """Check the name of a center: of the point about which variances and errors are measured.

    Raises
    ------
    InvalidParameter
        It is none of "global" (mean of all rows), "group" (each group's mean) and "none" (origin).
    """
    if not isinstance(center, str) or center not in get_args(Center):
        raise InvalidParameter(
            f"center is {center!r}",
            "Allowed: 'global', 'group' and 'none'",
            "Use 'global' unless you reproduce a paper that centers each group",
        )


@dataclass(frozen=True)
class RowSpread:
    """Rank and typical size of rows, which their moments do not show.

    Attributes
    ----------
    rank : int
        Upper bound on the rank of the rows about their mean.
    typical_share : float
        Squared length of a typical row as a share of the mean of all, in raw or standardized
        features, whichever is smaller. It is tiny if a few huge rows make up the variance.
    """

    rank: int
    typical_share: float


@dataclass(frozen=True, eq=False, repr=False)
class GroupMeans:
    """Weight and mean of each group, and the distances of the means from a point.

    Attributes
    ----------
    groups : (k,) array
        Labels in sorted order.
    counts : (k,) array of int
        Number of rows of each group; 0 if unknown.
    weights : (k,) array
        Sum of the sample weights of each group, n_g, in units of 2**weight_exponent.
    weight_exponent : int
        0 unless sample weights are larger than 1e100 or smaller than 1e-100.
    means : (k, p) array
        Weighted mean row of each group, rounded to float64.
    mean_corrections : (k, p) array or None
        Exact means minus `means`; None if these are exact. Far from zero, a mean that is rounded to
        float64 loses digits that the rows have.
    feature_names : tuple of str or None
    """

    groups: AnyArray
    counts: IntegerArray
    weights: FloatArray
    means: FloatArray
    mean_corrections: FloatArray | None = field(default=None, kw_only=True)
    feature_names: tuple[str, ...] | None = field(default=None, kw_only=True)
    weight_exponent: int = field(default=0, kw_only=True)

    @property
    def n_features(self) -> int:
        """Number of features, p."""
        return int(self.means.shape[1])

    @property
    def n_groups(self) -> int:
        """Number of groups, k."""
        return len(self.groups)

    @property
    def labels(self) -> list[Label]:
        """Group labels as plain Python values."""
        return to_python_labels(self.groups)

    @property
    def proportions(self) -> FloatArray:
        """Shares of the groups in the total weight, q_g = n_g / sum of n, shape (k,)."""
        return np.asarray(self.weights / self.weights.sum())

    @cached_property
    def mean(self) -> FloatArray:
        """Weighted mean of all rows, shape (p,)."""
        # Relative to the first group mean, so that a large common offset loses no digits.
        differences = self._differences_from_first
        correction = 0.0 if self.mean_corrections is None else self.mean_corrections[0]
        return exact_sum(self.means[0], correction + self.proportions @ differences)[0]

    @cached_property
    def _differences_from_first(self) -> FloatArray:
        """Group means minus that of the first group, shape (k, p)."""
        return self.mean_differences(0)

    def mean_differences(self, group: int) -> FloatArray:
        """Return the group means minus that of one group, exact to float64, shape (k, p)."""
        differences = self.means - self.means[group]
        if self.mean_corrections is not None:
            corrections = self.mean_corrections - self.mean_corrections[group]
            differences = differences + corrections
        return np.asarray(differences)

    @cached_property
    def _offsets(self) -> FloatArray:
        """Group means minus the exact mean of all rows, shape (k, p)."""
        differences = self._differences_from_first
        return np.asarray(differences - self.proportions @ differences)

    def offsets_from(self, point: FloatArray) -> FloatArray:
        """Return the group means minus a point, shape (k, p).

        Parameters
        ----------
        point : (p,) or (k, p) array
            One point, or one for each group. If a point is the mean of all rows, or of the group,
            rounded to float64, the exact mean is used.
        """
        # Differences from the mean of all rows are known more exactly than the mean itself.
        if point is self.mean:
            return self._offsets.copy()
        offsets = self.means - point
        # The exact means are the rounded ones plus these corrections.
        if self.mean_corrections is not None:
            offsets = offsets + self.mean_corrections
        if point.ndim > 1:
            return np.asarray(np.where(point == self.means, 0.0, offsets))
        return np.asarray(np.where(point == self.mean, self._offsets, offsets))

    def offset_rounding(self, point: FloatArray) -> FloatArray:
        """Return bounds on the rounding of :meth:`offsets_from`, in units of the features, (p,).

        An offset is a group mean minus the point. Means are sums of differences from a row near the
        data, so the rounding of an offset is relative to the largest offset of the feature, never
        to the distance of the means from zero. It is exactly zero for a constant feature.

        Parameters
        ----------
        point : (p,) or (k, p) array
            Same as for :meth:`offsets_from`.
        """
        # Two roundings: of the subtraction, and of the sum over groups that gives the mean of all
        # rows, if that is the point.
        max_offsets = np.abs(self.offsets_from(point)).max(axis=0)
        return np.asarray(EPS * 2 * max_offsets)

    def center_point(self, center: Center) -> FloatArray:
        """Return the center point, (p,), or the mean of each group, (k, p)."""
        check_center(center)
        if center == "group":
            return self.means
        return self.mean if center == "global" else np.zeros(self.n_features)


class CompactCoordinates(NamedTuple):
    """Moments, a point and columns of features in m coordinates that contain all three.

    Attributes
    ----------
    moments : BaseMoments
        Moments of the coordinates of the rows.
    point : (m,) or (k, m) array
        One point, or the mean of each group.
    basis : (m, r) array
    """

    moments: "BaseMoments"
    point: FloatArray
    basis: FloatArray


@dataclass(frozen=True, eq=False, repr=False)
class BaseMoments(GroupMeans, ABC):
    """Interface of all moments, and their weights, means and variances of each group.

    :class:`~fairspan.moments.group_moments.GroupMoments` hold a p x p matrix for each group. Where
    there are many features, :class:`~fairspan.moments.row_moments.SparseMoments` and
    :class:`~fairspan.moments.wide.WideMoments` keep the rows instead. Callers use the methods below
    for all.

    Attributes
    ----------
    n_dropped : int
        Number of rows dropped because of missing values.
    matrix_free : bool
        Whether only products with second moments are available, no p x p matrices.
    has_row_coordinates : bool
        Whether problems may be posed in coordinates of the span of the rows, which are fewer than
        the features; see :meth:`reduce_to_row_space`.
    row_spread : RowSpread or None
        Rank of the rows about their mean and size of a typical row, found from the rows themselves
        (:mod:`fairspan.moments.row_spread`); None if unknown.
    """

    matrix_free: ClassVar[bool] = False
    has_row_coordinates: ClassVar[bool] = False

    n_dropped: int = field(default=0, kw_only=True)
    row_spread: RowSpread | None = field(default=None, kw_only=True)

    @property
    @abstractmethod
    def variances(self) -> FloatArray:
        """Variance of each feature about each group's own mean (ddof 0), shape (k, p)."""

    def check_range(self) -> Self:
        """Check the magnitudes of the features, and return these moments.

        Raises
        ------
        InvalidInput
            Fourth powers of a column overflow or underflow.
        """
        check_magnitudes(self.means, self.variances, self.feature_names)
        return self

    @abstractmethod
    def second_moments_about(self, point: FloatArray) -> SecondMoments:
        """Second moments about a (p,) point, or about (k, p) points, one for each group."""

    @abstractmethod
    def divided_by(self, scale: FloatArray) -> Self:
        """Moments of the rows divided by `scale`, a (p,) array of positive numbers."""

    def in_units(self, scale: FloatArray | None) -> Self:
        """Moments of the rows divided by `scale`, or as they are if it is None."""
        return self if scale is None else self.divided_by(scale)

    @abstractmethod
    def with_attributes(self, columns: Sequence[str | int]) -> "BaseMoments":
        """Turn columns into attributes, which are no features, if these moments can keep them."""

    @abstractmethod
    def select_named_features(self, names: Sequence[str] | None) -> "BaseMoments":
        """Select features by name, in this order, if these moments have all of them."""

    @abstractmethod
    def matched_to(self, known: KnownLabels) -> "BaseMoments":
        """Replace labels by labels of a fit that are equal as text, such as 1 by "1"."""

    @abstractmethod
    def to_dense(self) -> "BaseMoments":
        """Convert to `GroupMoments`, which have k p^2 entries."""

    @abstractmethod
    def in_features(self) -> "BaseMoments":
        """Moments in the features, as solvers need them: matrices, or products with sparse rows."""

    @abstractmethod
    def for_verification(self, n_components: int, *, has_restriction: bool) -> "BaseMoments":
        """Moments that prove most about a model of the same rows, in memory that is affordable.

        Parameters
        ----------
        n_components : int
            Dimension of the model.
        has_restriction : bool
            Whether the model is restricted to some directions.
        """

    def guard_rows(self) -> None:
        """Detect from now on whether rows of the caller, to which the moments refer, have changed.

        Does nothing here: only :class:`~fairspan.moments.wide.WideMoments` of dense tables refer
        to such rows.
        """

    @abstractmethod
    def reduce_to_row_space(self, n_components: int | float, center: Center) -> object:
        """Return coordinates of the span of the rows (a `RowSpace`) if these are fewer, else None.

        Parameters
        ----------
        n_components : int or float
            d, or a fraction of the variance in (0, 1).
        center : {"global", "group", "none"}
            Center about which errors are measured.
        """

    def to_compact_coordinates(
        self, point: FloatArray, basis: FloatArray, n_components: int
    ) -> "CompactCoordinates":
        """Express moments, a point and (p, r) columns in fewer coordinates, for fast evaluation.

        There are at least `n_components` coordinates: those of the features here, as only
        :class:`~fairspan.moments.wide.WideMoments` have fewer.
        """
        return CompactCoordinates(self, point, basis)

    def variances_along(self, columns: FloatArray | None = None) -> FloatArray:
        """Variance of each feature, or along each of (p, q) columns, about each group's own mean.

        Shape (k, p) or (k, q). Columns need not have unit length: the variance along v is v'Cv with
        C the covariance. Clipped at zero, since rounding may make it negative.
        """
        if columns is None:
            return self.variances
        images = self._apply_covariances(columns)
        return np.asarray(np.maximum(np.einsum("ij,gij->gj", columns, images), 0.0))

    def _apply_covariances(self, columns: FloatArray) -> FloatArray:
        """Multiply (p, q) columns by the covariance of each group, shape (k, p, q)."""
        # About each group's own mean, second moments are covariances.
        return self.second_moments_about(self.means).apply(columns)

    @property
    def is_em_estimated(self) -> bool:
        """Whether the rows were incomplete, and their moments were estimated by EM."""
        return False

    @property
    def em_distance(self) -> float:
        """Distance of the EM estimates from their limit, in standard deviations; 0 without EM."""
        return 0.0

    @property
    def imputation_model(self) -> "NormalModel | None":
        """Normal model of all rows; None unless the rows had missing cells."""
        return None

    @property
    def max_rank(self) -> int:
        """Upper bound on the rank of the rows about their mean."""
        bounds = [int((self.standard_deviations > 0).sum())]
        # Moments completed by a model vary along more directions than their rows.
        if self.counts.all() and not self.is_em_estimated:
            bounds.append(int(self.counts.sum()) - 1)
        if self.row_spread is not None:
            bounds.append(self.row_spread.rank)
        return min(bounds)

    @cached_property
    def standard_deviations(self) -> FloatArray:
        """Pooled standard deviation of each feature (ddof 0) about the mean of all rows, (p,)."""
        return np.asarray(np.sqrt(self.proportions @ (self.variances + self._offsets**2)))

    def __repr__(self) -> str:
        counts = ", ".join(
            f"{format_label(label)}: {count or 'unknown'}"
            for label, count in zip(self.labels, self.counts.tolist(), strict=True)
        )
        features = counted(self.n_features, "feature")
        summary = f"{type(self).__name__} of {features}, rows by group: {counts}"
        return f"<{summary}{describe_dropped_rows(self.n_dropped, ' ({})')}>"

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    def table(self) -> Table:
        """Return a table of rows, weight and variance by group, about the mean of the group.

        An unknown number of rows is stored as 0. Weights are in units of 2**weight_exponent, which
        the header states unless it is 1.
        """
        rows = [
            (
                table_name(label),
                f"{count:,}" if count else "unknown",
                f"{weight:,.10g}",
                f"{100 * share:.1f} %",
                f"{variance:.4g}",
            )
            for label, count, weight, share, variance in zip(
                self.labels,
                self.counts.tolist(),
                self.weights.tolist(),
                self.proportions.tolist(),
                self.variances.sum(axis=1).tolist(),
                strict=True,
            )
        ]
        row_count = ""
        if self.counts.all():
            row_count = f"{counted(int(self.counts.sum()), 'row')}, "
        unit = f" / 2^{self.weight_exponent}" if self.weight_exponent else ""
        dropped = describe_dropped_rows(self.n_dropped, "; {}")
        return Table.from_texts(
            f"{row_count}{counted(self.n_features, 'feature')}{dropped}; variance of all features, "
            "about the mean of each group",
            ("group", "rows", f"weight{unit}", "share", "variance"),
            rows,
        )
