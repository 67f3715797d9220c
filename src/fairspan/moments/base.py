"""Weights, means and variances of groups, and the centre about which errors are measured."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Literal, Self, get_args

import numpy as np

from fairspan.errors import InvalidInput, InvalidParameter
from fairspan.formatting.table import Table
from fairspan.formatting.text import counted, describe_position
from fairspan.linalg.double_double import exact_sum
from fairspan.moments.normal_model import NormalModel
from fairspan.moments.operators import SecondMoments
from fairspan.rows.groups import Label, format_label, table_name, to_python_labels
from fairspan.typing import AnyArray, FloatArray, IntegerArray

Center = Literal["global", "group", "none"]

# Fourth powers of these numbers, and sums of them, stay within double precision.
_MIN_MAGNITUDE, _MAX_MAGNITUDE = 1e-75, 1e75
# Rounding of the difference of two means, as a share of it: a subtraction and the sum over groups.
_OFFSET_ROUNDING = 2 * float(np.finfo(np.float64).eps)
# The largest number of a column is hardly more than so many times their root mean square.
_MAX_TO_RMS = 4.0


def describe_dropped_rows(n_dropped: int, template: str = "{}") -> str:
    """How many rows were left out, written into a text; nothing if all rows are in.

    Examples
    --------
    >>> left_out(3, " ({})"), left_out(0, " ({})")
    (' (3 rows with missing values left out)', '')
    """
    rows = f"{n_dropped:,} row{'s' * (n_dropped > 1)}"
    return template.format(f"{rows} with missing values left out") if n_dropped else ""


def check_magnitudes(
    means: FloatArray,
    variances: FloatArray,
    names: Sequence[str] | None,
    *,
    is_partial: bool = False,
) -> None:
    """Make sure that each feature is zero, or that its numbers lie between 1e-75 and 1e75.

    Parameters
    ----------
    means, variances : (k, p) arrays
        Of each feature in each group.
    names : sequence of str, or None
        Of the features.
    is_partial : bool
        Whether there may be other rows, with larger numbers.

    Raises
    ------
    InvalidInput
        Names the first feature that does not.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        rms = np.hypot(means, np.sqrt(variances)).max(axis=0, initial=0.0)
    least = 0.0 if is_partial else _MIN_MAGNITUDE / _MAX_TO_RMS
    # NaN compares as false.
    right = ((rms >= least) | (rms == 0)) & (rms <= _MAX_MAGNITUDE / _MAX_TO_RMS)
    if not right.all():
        first = int(np.argmin(right))
        name = describe_position("column", first) if names is None else f"column {names[first]!r}"
        size = (
            f"of about {rms[first]:.0e} (root mean square)"
            if np.isfinite(rms[first])
            else "whose squares overflow float64"
        )
        raise InvalidInput(
            f"X has numbers {size} in {name}",
            f"Allowed: zero, and numbers from {_MIN_MAGNITUDE:.0e} to {_MAX_MAGNITUDE:.0e} with a root mean "
            f"square of at most {_MAX_MAGNITUDE / _MAX_TO_RMS:.1e}, whose fourth powers double "
            "precision can hold",
            "Divide the column by a constant, or change its unit",
        )


def check_center(center: object) -> None:
    """Make sure that a centre has one of the three names.

    Raises
    ------
    InvalidParameter
    """
    if not isinstance(center, str) or center not in get_args(Center):
        raise InvalidParameter(
            f"center is {center!r}",
            "Allowed: 'global', 'group' and 'none'",
            "Use 'global' unless you reproduce a paper that centres each group",
        )


@dataclass(frozen=True, eq=False, repr=False)
class BaseMoments(ABC):
    """Weight, mean and variances of each group: what all kinds of moments have.

    Attributes
    ----------
    groups : (k,) array
        Labels in sorted order.
    counts : (k,) array of int
        Rows of each group; 0 where that is not known.
    weights : (k,) array
        n_g, the sum of the sample weights, in units of 2**weight_exponent.
    weight_exponent : int
        0 unless sample weights are larger than 1e100 or smaller than 1e-100.
    means : (k, p) array
        Weighted mean row of each group, rounded to float64.
    mean_corrections : (k, p) array or None
        Exact means minus `means`; None where these are exact. Far from zero, a mean that is rounded
        to float64 loses digits that the rows have.
    n_dropped : int
        Rows that were read and left out, since a feature or the group is missing in them.
    matrix_free : bool
        Whether p x p matrices are avoided, so that only products with second moments are to be had.
    feature_names : tuple of str or None
    """

    matrix_free: ClassVar[bool] = False

    groups: AnyArray
    counts: IntegerArray
    weights: FloatArray
    means: FloatArray
    mean_corrections: FloatArray | None = field(default=None, kw_only=True)
    feature_names: tuple[str, ...] | None = field(default=None, kw_only=True)
    n_dropped: int = field(default=0, kw_only=True)
    weight_exponent: int = field(default=0, kw_only=True)

    @property
    @abstractmethod
    def variances(self) -> FloatArray:
        """Variance of each feature about each group's own mean (ddof 0), shape (k, p)."""

    def check_range(self) -> Self:
        """These moments themselves, of all rows.

        Raises
        ------
        InvalidInput
            A column holds numbers so large or small that their fourth powers leave float64.
        """
        check_magnitudes(self.means, self.variances, self.feature_names)
        return self

    @abstractmethod
    def second_moments_about(self, point: FloatArray | None) -> SecondMoments:
        """Second moments about a point, or about each group's own mean if it is None."""

    def to_compact_coordinates(
        self, point: FloatArray | None, basis: FloatArray, n_components: int
    ) -> "tuple[BaseMoments, FloatArray | None, FloatArray]":
        """Moments, a point and (p, r) columns in coordinates in which they are judged fast.

        There are at least `n_components` coordinates.
        """
        return self, point, basis

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
        return to_python_labels(self.groups)

    @property
    def imputation_model(self) -> "NormalModel | None":
        """The normal model of all rows together, of moments of rows with missing cells."""
        return None

    @property
    def proportions(self) -> FloatArray:
        """q_g = n_g / sum of n, shape (k,)."""
        return np.asarray(self.weights / self.weights.sum())

    @cached_property
    def mean(self) -> FloatArray:
        """Weighted mean of all rows, shape (p,)."""
        apart = self._differences_from_first
        correction = 0.0 if self.mean_corrections is None else self.mean_corrections[0]
        return exact_sum(self.means[0], correction + self.proportions @ apart)[0]

    @cached_property
    def _differences_from_first(self) -> FloatArray:
        """Group means minus that of the first group, shape (k, p)."""
        return self.mean_differences(0)

    def mean_differences(self, group: int) -> FloatArray:
        """Return the group means minus that of one group, exact to float64, shape (k, p)."""
        apart = self.means - self.means[group]
        if self.mean_corrections is not None:
            apart = apart + (self.mean_corrections - self.mean_corrections[group])
        return np.asarray(apart)

    @cached_property
    def _offsets(self) -> FloatArray:
        """Group means minus the exact mean of all rows, shape (k, p)."""
        apart = self._differences_from_first
        return np.asarray(apart - self.proportions @ apart)

    def offsets_from(self, point: FloatArray | None) -> FloatArray:
        """Return the group means minus a point, shape (k, p).

        Parameters
        ----------
        point : (p,) or (k, p) array, or None
            One point, or one for each group; None for each group's own mean. If a point is the
            mean of all rows, or of the group, rounded to float64, the exact mean is used.
        """
        if point is None:
            return np.zeros_like(self.means)
        if point is self.mean:
            return self._offsets.copy()
        apart = self.means - point
        if self.mean_corrections is not None:
            apart = apart + self.mean_corrections
        if point.ndim > 1:
            return np.asarray(np.where(point == self.means, 0.0, apart))
        return np.asarray(np.where(point == self.mean, self._offsets, apart))

    def offset_rounding(self, point: FloatArray | None) -> FloatArray:
        """Return bounds on the rounding of :meth:`offsets_from`, in units of the features, (p,).

        Offsets are sums of differences from a pilot row, so their rounding is a share of how far
        group means lie from the point and from each other, never of how far they lie from zero. It
        is exactly zero for a feature that does not vary.

        Parameters
        ----------
        point : (p,) or (k, p) array, or None
            As of :meth:`offsets_from`.
        """
        if point is None:
            return np.zeros(self.n_features)
        return np.asarray(_OFFSET_ROUNDING * np.abs(self.offsets_from(point)).max(axis=0))

    @cached_property
    def standard_deviations(self) -> FloatArray:
        """Pooled standard deviation of each feature (ddof 0) about the mean of all rows, (p,)."""
        return np.asarray(np.sqrt(self.proportions @ (self.variances + self._offsets**2)))

    def center_point(self, center: Center) -> FloatArray | None:
        """The point that `center` names; None where each group has its own."""
        check_center(center)
        if center == "group":
            return None
        return self.mean if center == "global" else np.zeros(self.n_features)

    def __repr__(self) -> str:
        rms = ", ".join(
            f"{format_label(label)}: {count or 'unknown'}"
            for label, count in zip(self.labels, self.counts.tolist(), strict=True)
        )
        features = counted(self.n_features, "feature")
        whole = f"{type(self).__name__} of {features}, rows by group: {rms}"
        return f"<{whole}{describe_dropped_rows(self.n_dropped, ' ({})')}>"

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    def table(self) -> Table:
        """Rows, weight and variance of each group; the variance is about the group's own mean."""
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
        n_rows, p = int(self.counts.sum()), self.n_features
        known = f"{n_rows:,} row{'s' if n_rows > 1 else ''}, " if self.counts.all() else ""
        unit = f" / 2^{self.weight_exponent}" if self.weight_exponent else ""
        caption = f"{known}{p:,} feature{'s' if p > 1 else ''}{describe_dropped_rows(self.n_dropped, '; {}')}"
        return Table.from_texts(
            f"{caption}; variance of all features, about the mean of each group",
            ("group", "rows", f"weight{unit}", "share", "variance"),
            rows,
        )
