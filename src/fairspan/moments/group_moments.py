"""GroupMoments: weight, mean and scatter of each group, all that a fair projection needs."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import blas

from fairspan.errors import InvalidInput, running_out_told
from fairspan.moments.accumulate import statistics_of
from fairspan.moments.group_means import Center, GroupMeans
from fairspan.moments.group_statistics import (
    EVERY_ROW,
    GroupStatistics,
    Intake,
    OneGroup,
    from_bytes,
    packed,
    statistics_of_file,
    to_bytes,
)
from fairspan.moments.operators import DenseSecondMoments
from fairspan.moments.running_group import GroupLimit
from fairspan.rows.groups import label_array, without_last_attribute
from fairspan.rows.protocol import OnMissing
from fairspan.rows.registry import rows_beside
from fairspan.storage import MOMENTS, NotAllowed, check_name, write_archive
from fairspan.typing import AnyArray, BoolArray, FloatArray, IntegerArray


@dataclass(frozen=True, eq=False, repr=False)
class GroupMoments(GroupMeans):
    """Weight, mean and centred scatter matrix of each group: all that a fit needs.

    Moments of parts add up: ``a + b`` holds exactly what one pass over both parts would give, up to
    rounding, so rows may be read in blocks, on many machines, or never leave their site.

    Attributes
    ----------
    groups : (k,) array
        Labels in sorted order; tuples where several attributes are crossed.
    counts : (k,) array of int
        Rows of each group.
    weights : (k,) array
        n_g, the sum of the sample weights; equal to the counts without weights.
    means : (k, p) array
        Weighted mean row of each group, in units of the features.
    scatters : (k, p, p) array
        Weighted sums of (x - mean)(x - mean)' about each group's own mean, undivided.
    feature_names : tuple of str or None
    intake : Intake
        Rows that were read but left out, if any.
    by_label : GroupMoments or None
        The moments of each group and class of y, tuples whose last part is the class; None where
        no y was given. The other attributes are their sums over the classes.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import GroupMoments
    >>> X = np.array([[2.0, 0.0], [4.0, 0.0], [0.0, 1.0]])
    >>> moments = GroupMoments.from_rows(X, ["a", "a", "b"])
    >>> moments.means
    array([[3., 0.],
           [0., 1.]])
    >>> (moments + moments).counts
    array([4, 2])
    """

    groups: AnyArray
    counts: IntegerArray
    weights: FloatArray
    means: FloatArray
    scatters: FloatArray
    feature_names: tuple[str, ...] | None = None
    intake: Intake = EVERY_ROW
    by_label: "GroupMoments | None" = None

    @classmethod
    def from_rows(
        cls,
        X: Any,
        sensitive_features: Any,
        sample_weight: Any = None,
        *,
        labels: Any = None,
        on_missing: OnMissing = "error",
        max_groups: int | None = None,
        max_memory: int | None = None,
    ) -> "GroupMoments":
        """One pass over rows, in blocks, accumulated in float64, wherever the rows are.

        Parameters
        ----------
        X : (n, p) table of finite numbers
            An array (of numpy, or of any package with the array API, on its own device), a scipy
            sparse matrix, a data frame (pandas, polars, pyarrow), anything that exports an Arrow
            stream, the path of a CSV, Parquet or Arrow file or of a folder of them, a Dask array or
            data frame, a Spark data frame.
        sensitive_features : (n,) or (n, a) array-like or data frame, or column name(s) of X
            Group of each row; several attributes make their intersections. Names, where the rows
            are not in memory.
        sample_weight : (n,) array-like, or column name of X, optional
            Finite and not negative; a row of weight zero counts as absent.
        labels : (n,) array-like, or column name of X, optional
            y, the class of each row, for restrictions that hold in each class
            (`MeanParity(given_labels=...)`); see `by_label`.
        on_missing : {"error", "drop"}
            What to do with rows in which a feature or the group is missing. Those that are dropped
            are counted in `intake`.
        max_groups : int, optional
            Most groups that are allowed. By default, more than 100 groups that are also more than
            a third of the rows are refused: these are no groups but an identifier, or a continuous
            number.
        max_memory : int, optional
            Bytes that may be taken, about 24 k p^2; more is refused before any matrix is made. By
            default, what this machine or container has. With labels, k counts every group in
            every class.

        Returns
        -------
        GroupMoments

        Raises
        ------
        InvalidInput
            NaN, infinity, text, missing labels, lengths that differ, no rows, too many groups, too
            little memory; a column whose numbers are neither zero nor within 1e-75 to 1e75, as
            their root mean square in the largest group shows.
        InvalidType, InvalidParameter
            max_groups or max_memory is no whole number of at least 1.

        Notes
        -----
        Each block is centred before its products are summed, and blocks are merged by the formula
        of Chan, Golub and LeVeque (1979), so that column offsets of 1e6 standard deviations only
        cause rounding errors. Memory beyond the input does not grow with n.
        """
        rows = rows_beside(X, sensitive_features, {"labels": labels}, sample_weight, on_missing)
        limit, has_labels = GroupLimit(max_groups, max_memory=max_memory), labels is not None
        return cls.of(statistics_of(rows, limit, has_labels=has_labels)).in_range()

    @classmethod
    def of(cls, statistics: GroupStatistics) -> "GroupMoments":
        """Put the statistics of groups side by side; there may be no group."""
        if statistics.has_labels:
            return replace(
                cls.of(statistics.without_labels()),
                by_label=cls.of(replace(statistics, has_labels=False)),
            )
        groups, p = statistics.groups, statistics.n_features
        k = len(groups)
        return cls(
            label_array(statistics.labels),
            np.array([group.count for group in groups], dtype=np.int64),
            np.array([group.weight for group in groups], dtype=np.float64),
            np.array([group.mean for group in groups], dtype=np.float64).reshape(k, p),
            np.array([group.scatter for group in groups], dtype=np.float64).reshape(k, p, p),
            statistics.feature_names,
            statistics.intake,
        )

    @property
    def statistics(self) -> GroupStatistics:
        """The same, group by group; or by group and class of y, where that is known."""
        if self.by_label is not None:
            return replace(self.by_label.statistics, has_labels=True, intake=self.intake)
        columns = (self.counts.tolist(), self.weights.tolist(), self.means, self.scatters)
        groups = [OneGroup(*column) for column in zip(self.labels, *columns, strict=True)]
        return GroupStatistics(groups, self.n_features, self.feature_names, self.intake)

    @property
    def variances(self) -> FloatArray:
        """Variance of each feature about each group's own mean (ddof 0), shape (k, p)."""
        return np.asarray(np.einsum("gii->gi", self.scatters) / self.weights[:, None])

    def second_moments(self, center: Center = "global") -> FloatArray:
        """Second moment matrix of each group about the chosen centre, divided by its weight.

        Parameters
        ----------
        center : {"global", "group", "none"}
            About the weighted mean of all rows, each group's own mean, or the origin.

        Returns
        -------
        (k, p, p) array
            S_g, in squared units of the features.

        Raises
        ------
        InvalidParameter
            Another centre.
        """
        return self.second_moments_about(self.center_point(center))

    def second_moments_about(self, point: FloatArray | None) -> FloatArray:
        """Second moments about a given point, or about each group's own mean if it is None.

        Returns
        -------
        (k, p, p) array
        """
        # In C's order whatever that of the scatters, as what is added in place must not be lost.
        second = np.divide(self.scatters, self.weights[:, None, None], order="C")
        if point is not None:
            for matrix, offset in zip(second, self.means - point, strict=True):
                # In place: with many features another k p^2 numbers would be much.
                blas.dger(1.0, offset, offset, a=matrix.T, overwrite_a=1)
        return second

    def operator_about(self, point: FloatArray | None) -> DenseSecondMoments:
        """The same in the form that solvers need."""
        rounding = np.zeros(self.n_features)
        if point is not None and point.any():  # the origin is no rounded mean
            rounding = np.finfo(np.float64).eps * np.abs(self.means).max(axis=0)
        return DenseSecondMoments(self.second_moments_about(point), offset_rounding=rounding)

    def matrices(self) -> "GroupMoments":
        """These moments themselves."""
        return self

    def divided_by(self, scale: FloatArray) -> "GroupMoments":
        """The moments of the rows divided by `scale`, a (p,) array of positive numbers."""
        by_label = None if self.by_label is None else self.by_label.divided_by(scale)
        return replace(
            self,
            means=self.means / scale,
            scatters=self.scatters / np.outer(scale, scale),
            by_label=by_label,
        )

    def selected(self, features: Sequence[int]) -> "GroupMoments":
        """The moments of some of the features, by position, in this order."""
        index = np.asarray(features, dtype=np.intp)
        names = self.feature_names
        return replace(
            self,
            means=self.means[:, index],
            scatters=self.scatters[:, index[:, None], index],
            feature_names=None if names is None else tuple(names[i] for i in index),
            by_label=None if self.by_label is None else self.by_label.selected(features),
        )

    @running_out_told()
    def __add__(self, other: object) -> "GroupMoments":
        if not isinstance(other, GroupMoments):
            return NotImplemented
        return GroupMoments.of(self.statistics + other.statistics.in_order_of(self.feature_names))

    def __radd__(self, other: object) -> "GroupMoments":
        # sum() starts from 0.
        return self if other == 0 else NotImplemented

    def without_small_groups(self, minimum: int) -> "GroupMoments":
        """The moments of the groups of at least `minimum` rows, to be shared with others.

        Classes of y are kept if every remaining group has as many rows in each of its classes.

        Parameters
        ----------
        minimum : int
            Fewest rows of a group that is kept.

        Returns
        -------
        GroupMoments

        Raises
        ------
        InvalidInput
            No group is that large.
        """
        large = self.counts >= minimum
        if not large.any():
            raise InvalidInput(
                f"No group has {minimum} rows; the largest has {self.counts.max()}",
                "Allowed: a minimum that leaves at least one group",
                "Lower it, or join groups before the moments are made",
            )
        kept = self.of_groups(large)
        if self.by_label is None:
            return kept
        left, pairs = set(kept.labels), self.by_label
        own = np.array([without_last_attribute(pair) in left for pair in pairs.labels])
        return replace(
            kept,
            by_label=pairs.of_groups(own) if (pairs.counts[own] >= minimum).all() else None,
        )

    def of_groups(self, chosen: BoolArray) -> "GroupMoments":
        """The moments of some of the groups, a (k,) array that says which."""
        return replace(
            self,
            groups=self.groups[chosen],
            counts=self.counts[chosen],
            weights=self.weights[chosen],
            means=self.means[chosen],
            scatters=self.scatters[chosen],
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to exactly the name given: npz arrays with a JSON header, no pickle.

        The file appears only when it is complete.

        Raises
        ------
        InvalidParameter
            The name is that of another kind of file, such as a table, or cannot be written.
        """
        check_name(path, "moments are")
        write_archive(path, MOMENTS.kind, *packed(self.statistics))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "GroupMoments":
        """Read what :meth:`save` wrote.

        Raises
        ------
        FileNotFoundError
            There is no such file.
        CorruptFile
            The file is truncated, altered or of another kind.
        """
        statistics = statistics_of_file(path)
        if not statistics.groups:
            raise MOMENTS.refusal(str(path), NotAllowed("groups", "is []", "at least one group"))
        return cls.of(statistics).in_range()

    def to_bytes(self) -> bytes:
        """What :meth:`save` would write."""
        return to_bytes(self.statistics)

    @classmethod
    def from_bytes(cls, contents: bytes) -> "GroupMoments":
        """Read what :meth:`to_bytes` gave.

        Raises
        ------
        CorruptFile
            The bytes are truncated, altered or of another kind.
        """
        return cls.of(from_bytes(contents))
