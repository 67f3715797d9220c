"""GroupMoments: weight, mean and scatter of each group."""

import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import InitVar, dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import blas

from fairspan.errors import Cause, InvalidInput, caller_remedies, warn
from fairspan.formatting.messages import counted
from fairspan.linalg import is_valid_scatter
from fairspan.linalg.double_double import divide
from fairspan.linalg.memory import explain_memory_errors, warn_if_slow
from fairspan.linalg.rounding import EPS, SUM_ROUNDING
from fairspan.moments.accumulate import (
    RunningMoments,
    StackedMoments,
    accumulate_rows,
    merge_into,
    stack_by_label,
)
from fairspan.moments.base import BaseMoments, Center, check_magnitudes
from fairspan.moments.dropped_rows import no_complete_rows_error, no_rows_error, warn_of_lost_groups
from fairspan.moments.em import EMSummary, fit_em
from fairspan.moments.files import (
    MOMENTS_SCHEMA,
    constructor_arguments,
    has_classes,
    lower_triangles,
)
from fairspan.moments.integer_precision import check_integer_precision
from fairspan.moments.normal_model import NormalModel
from fairspan.moments.second_moments import DenseSecondMoments, EMUncertainty
from fairspan.moments.sparse import GroupRows, group_sparse_rows
from fairspan.rows.aggregation import Rows, aggregate
from fairspan.rows.attributes import ColumnKey, RowsWithAttributes, column_positions
from fairspan.rows.blocks import OnMissing
from fairspan.rows.coded_labels import CodedLabels, LabelEncoder
from fairspan.rows.devices import DeviceRows
from fairspan.rows.group_limit import DEFAULT_GROUP_LIMIT, GroupLimit
from fairspan.rows.label_matching import KnownLabels
from fairspan.rows.label_resolution import resolve_labels
from fairspan.rows.labels import (
    Label,
    describe_label_type,
    format_list,
    label_array,
    label_type,
    to_python_labels,
    without_last_attribute,
)
from fairspan.rows.opening import open_rows, row_remedies, warn_about_unused_categories
from fairspan.rows.protocol import BaseRows, RowSource, row_metadata
from fairspan.rows.sparse import SparseRows
from fairspan.rows.weights import (
    MAX_WEIGHT,
    MIN_WEIGHT,
    exponent_for,
    in_units,
    is_extreme,
    warn_about_negligible,
)
from fairspan.storage.archive import pack_archive, read_archive
from fairspan.storage.atomic import check_suffix, write_atomic
from fairspan.storage.schema import SchemaViolation
from fairspan.typing import AnyArray, BoolArray, FloatArray

# Above this density, dense blocks are faster than sparse rows.
_MAX_SPARSE_DENSITY = 1 / 12
# Largest weight of a group: 1e20 rows of the largest weight of a row.
_MAX_GROUP_WEIGHT = 1e20 * MAX_WEIGHT
# Largest absolute exponent of the unit of weights: beyond that of subnormal numbers.
_MAX_EXPONENT = 1500


@dataclass(frozen=True, eq=False, repr=False)
class GroupMoments(BaseMoments):
    """Weight, mean and scatter matrix of each group: the sufficient statistics of a fit.

    Moments are additive: ``a + b`` equals the moments of both parts together, up to rounding, so
    rows may be read in blocks, on several machines, or stay at their site (federated).

    Attributes
    ----------
    groups : (k,) array
        Labels in sorted order; tuples if several attributes are crossed.
    counts : (k,) array of int
        Number of rows of each group; 0 if unknown (moments from covariances).
    weights : (k,) array
        Sum of the sample weights of each group, n_g; the counts if unweighted.
    weight_exponent : int
        Binary exponent, even: weights and scatters are in units of 2**weight_exponent. It is 0
        unless sample weights are larger than 1e100 or smaller than 1e-100.
    means : (k, p) array
        Weighted mean row of each group, in units of the features.
    mean_corrections : (k, p) array or None
        Exact means minus `means`, which are rounded to float64; None if these are exact.
    scatters : (k, p, p) array
        Weighted sums of (x - mean)(x - mean)' about each group mean, undivided.
    feature_names : tuple of str or None
    n_dropped : int
        Number of rows dropped because of missing values.
    by_class : GroupMoments or None
        Moments of each combination of group and class of y, labeled by tuples that end with the
        class; None without y. The other attributes are totals over the classes.
    all_columns : GroupMoments or None
        Moments of the features followed by the attribute columns (such as age for
        :class:`~fairspan.Uncorrelated`); None without attributes. See :meth:`with_attributes`.
    em_summary : EMSummary or None
        Summary of the EM fit if the rows had missing cells (`on_missing="em"`), otherwise None.
        Such moments cannot be merged.
    lost_groups : frozenset of labels
        Groups of which every row was dropped because of missing values; empty after loading.
    skip_validation : bool
        Whether to skip the validation of the arrays, for moments computed by this library.

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

    scatters: FloatArray
    by_class: "GroupMoments | None" = None
    all_columns: "GroupMoments | None" = None
    em_summary: EMSummary | None = None
    lost_groups: frozenset[Label] = frozenset()
    # Moments computed here skip validation, which costs up to a tenth of an eigendecomposition.
    skip_validation: InitVar[bool] = False

    def __post_init__(self, skip_validation: bool) -> None:
        if skip_validation:
            return
        k = len(self.groups)
        p = self.means.shape[-1]
        shapes = {"counts": (k,), "weights": (k,), "means": (k, p), "scatters": (k, p, p)}
        _check_arrays({name: (getattr(self, name), shape) for name, shape in shapes.items()})
        if len(set(self.labels)) < k or sorted(self.labels) != self.labels:
            raise _invalid_moments_error(f"groups are {format_list(self.labels)}")
        if self.mean_corrections is not None:
            _check_arrays({"mean_corrections": (self.mean_corrections, (k, p))})
            # A correction is at most half a unit in the last place; EPS rounds this up.
            if (np.abs(self.mean_corrections) > EPS * np.abs(self.means)).any():
                raise _invalid_moments_error(
                    "mean_corrections are larger than the rounding of the means"
                )
        exponent = self.weight_exponent
        if type(exponent) is not int or exponent % 2 or abs(exponent) > _MAX_EXPONENT:
            raise _invalid_moments_error(f"weight_exponent is {exponent!r}")
        out_of_range = (self.weights < MIN_WEIGHT) | (self.weights > _MAX_GROUP_WEIGHT)
        for name, is_invalid in (("counts", self.counts < 0), ("weights", out_of_range)):
            if is_invalid.any():
                raise _invalid_moments_error(
                    f"{name} are {format_list(getattr(self, name).tolist())}"
                )
        arrays = (self.scatters, self.means, self.weights)
        for label, scatter, mean, weight in zip(self.labels, *arrays, strict=True):
            sizes = np.sqrt(np.abs(np.diag(scatter)))
            if (np.abs(scatter - scatter.T) > SUM_ROUNDING * np.outer(sizes, sizes)).any():
                raise _invalid_moments_error(f"The matrix of group {label!r} is not symmetric")
            if not is_valid_scatter(scatter, mean, weight):
                raise _invalid_moments_error(
                    f"The matrix of group {label!r} has a negative eigenvalue"
                )

    @classmethod
    def from_rows(
        cls,
        X: Any,
        sensitive_features: Any,
        sample_weight: Any = None,
        *,
        y: Any = None,
        on_missing: OnMissing = "error",
        max_groups: int | None = None,
        max_memory: int | None = None,
    ) -> "GroupMoments":
        """Compute moments in one pass over the rows, wherever they are stored.

        Parameters
        ----------
        X : (n, p) table of finite numbers
            An array (of numpy, or of any package with the array API, on its own device), a scipy
            sparse matrix, a data frame (pandas, polars, pyarrow), anything that exports an Arrow
            stream, the path of a CSV, Parquet or Arrow file or of a folder of them, a Dask array or
            data frame, a Spark data frame.
        sensitive_features : (n,) or (n, a) array-like or data frame, or column name(s) of X
            Group of each row; several attributes are crossed. Column names are required if the rows
            are not in memory.
        sample_weight : (n,) array-like, or column name of X, optional
            Finite and nonnegative; rows of weight zero are ignored, and so are rows whose weight is
            less than 1e-200 of the largest, with a warning.
        y : (n,) array-like, or column name of X, optional
            Class of each row, for restrictions within classes
            (`MeanParity(within_classes=...)`); see `by_class`.
        on_missing : {"error", "drop", "em", "em-drop-empty"}
            Treatment of incomplete rows. "drop" drops them and counts them in `n_dropped`. "em"
            drops only rows without a group, and fits a normal model of each group to all observed
            cells by maximum likelihood (EM algorithm, several passes over the rows). A row in which
            every feature is missing is an error with "em", and dropped with "em-drop-empty".
        max_groups : int, optional
            Maximum number of groups, 100 by default; more suggest an identifier or a continuous
            variable.
        max_memory : int, optional
            Memory limit in bytes (about 24 k p^2 are needed), checked before any matrix is
            allocated. By default the memory of the machine or container. With y, k counts every
            combination of group and class.

        Returns
        -------
        GroupMoments

        Raises
        ------
        InvalidInput
            NaN, infinity, text, missing labels, inconsistent lengths, no rows, too many groups, too
            little memory, or a column with magnitudes outside 1e-75 to 1e75, according to its root
            mean square in a group. With "em", an entirely missing row, or a feature without values
            in a group.
        InvalidType, InvalidParameter
            max_groups or max_memory is not an integer of at least 1.

        Notes
        -----
        Blocks are shifted or centered before products are summed in float64, and merged with the
        formula of Chan, Golub and LeVeque (1979), so that column offsets of 1e6 standard deviations
        cause only rounding errors. Memory beyond the input does not grow with n.

        The likelihood of incomplete rows assumes that values are missing at random. If some pair of
        features is observed together in fewer than p + 2 rows of a group, its correlations are
        shrunk towards those of all groups; see `em_summary.pool_weights`.
        """
        limit = GroupLimit(max_groups, max_memory=max_memory)
        with caller_remedies(row_remedies(X)):
            rows = open_rows(
                X, sensitive_features, y=y, sample_weight=sample_weight, on_missing=on_missing
            )
            warn_about_unused_categories(rows)
            return compute_group_moments(rows, limit)

    @classmethod
    def from_covariances(
        cls, covariances: Any, means: Any = None, weights: Any = None, groups: Any = None
    ) -> "GroupMoments":
        """Make moments from known covariances, such as published ones.

        The number of rows is unknown, so `counts` are 0 and an audit has no intervals; everything
        else works as with moments of rows.

        Parameters
        ----------
        covariances : (k, p, p) array-like
            Covariance of each group (ddof 0).
        means : (k, p) array-like, optional
            Mean row of each group; zero by default.
        weights : (k,) array-like, optional
            Positive weight of each group in overall means, such as its number of rows, and at least
            1e-200 of the largest. Equal weights by default.
        groups : (k,) array-like or list of tuples, optional
            Distinct labels; 0 to k - 1 by default.

        Returns
        -------
        GroupMoments

        Raises
        ------
        InvalidInput
            Inconsistent shapes, numbers that are not finite, a matrix that is not symmetric or not
            positive semidefinite, a weight out of range, labels that are missing, of different
            types, or equal.

        Examples
        --------
        >>> import numpy as np
        >>> from fairspan import FairPCA, GroupMoments
        >>> covariances = [np.diag([3.0, 1.0, 0.0]), np.diag([0.0, 1.0, 2.0])]
        >>> moments = GroupMoments.from_covariances(covariances, groups=["a", "b"])
        >>> FairPCA(1).fit_moments(moments).group_errors_.round(3)
        array([2.2, 2.2])
        """
        try:
            matrices = np.asarray(covariances, dtype=np.float64)
            k, p = (*matrices.shape, 0, 0)[:2]  # with fewer axes, the check of shapes fails
            means = np.zeros((k, p)) if means is None else np.asarray(means, dtype=np.float64)
            weights = np.ones(k) if weights is None else np.asarray(weights, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise _invalid_moments_error(
                f"There are values that are not numbers ({error})"
            ) from error
        # At least one group and one feature.
        _check_arrays(
            {
                "covariances": (matrices, (max(k, 1), max(p, 1), p)),
                "means": (means, (k, p)),
                "weights": (weights, (k,)),
            }
        )
        labels, order = _sorted_labels(np.arange(k) if groups is None else groups, k)
        exponent = 0
        if is_extreme(weights):
            # In units of 2**exponent, negligible weights become zero, which is an error here.
            exponent = exponent_for(float(weights.max()))
            scaled = in_units(weights, exponent)
            if not scaled.all():
                raise _invalid_moments_error(f"weights are {format_list(weights.tolist())}")
            weights = scaled
        weights = weights[order]
        with np.errstate(over="ignore"):  # detected by the constructor
            scatters = weights[:, None, None] * matrices[order]
        unknown_counts = np.zeros(k, dtype=np.int64)
        moments = cls(
            labels, unknown_counts, weights, means[order], scatters, weight_exponent=exponent
        )
        symmetric_scatters = (scatters + scatters.transpose(0, 2, 1)) / 2
        return replace(moments, scatters=symmetric_scatters, skip_validation=True).check_range()

    @property
    def finest(self) -> "GroupMoments":
        """Moments by group and class if available, otherwise by group."""
        return self if self.by_class is None else self.by_class

    @property
    def imputation_model(self) -> NormalModel | None:
        """Normal model of all rows; None unless the rows had missing cells.

        It imputes missing cells of rows without regard to their group.
        """
        if self.em_summary is None:
            return None
        matrices = self.second_moments_about(self.mean).matrices
        return NormalModel(self.mean, np.asarray(np.tensordot(self.proportions, matrices, axes=1)))

    @property
    def variances(self) -> FloatArray:
        """Variance of each feature about each group's own mean (ddof 0), shape (k, p)."""
        return np.asarray(np.einsum("gii->gi", self.scatters) / self.weights[:, None])

    def _apply_covariances(self, columns: FloatArray) -> FloatArray:
        return np.asarray(self.scatters @ columns / self.weights[:, None, None])

    def second_moments(self, center: Center = "global") -> FloatArray:
        """Return the second-moment matrix of each group about a center, divided by its weight.

        Parameters
        ----------
        center : {"global", "group", "none"}
            The weighted mean of all rows, each group's own mean, or the origin.

        Returns
        -------
        (k, p, p) array
            S_g, in squared units of the features.

        Raises
        ------
        InvalidParameter
            Unknown center.
        """
        return self.second_moments_about(self.center_point(center)).matrices

    def second_moments_about(self, point: FloatArray | None) -> DenseSecondMoments:
        """Second moments about a point, or about each group mean if None.

        S_g is the scatter of the group divided by its weight, plus the outer product of its mean
        minus the point. Moments fitted by EM come with a bound on the error of the unfinished
        iteration.
        """
        # C order, so that the in-place update below works on the result and not on a copy.
        matrices = np.divide(self.scatters, self.weights[:, None, None], order="C")
        if point is not None:
            for matrix, offset in zip(matrices, self.offsets_from(point), strict=True):
                # In place, to avoid another k p^2 entries.
                blas.dger(1.0, offset, offset, a=matrix.T, overwrite_a=1)
        uncertainty = None
        if self.em_summary is not None:
            traces = np.einsum("gii->g", matrices)
            uncertainty = EMUncertainty.from_distance(
                self.scatters, traces, self.em_summary.distance
            )
        return DenseSecondMoments(
            matrices, offset_rounding_error=self.offset_rounding(point), uncertainty=uncertainty
        )

    def to_dense(self) -> "GroupMoments":
        """Return self; these moments are dense."""
        return self

    def in_features(self) -> "GroupMoments":
        """Return self; problems are posed in the features already."""
        return self

    def for_verification(self, n_components: int, *, has_restriction: bool) -> "GroupMoments":
        """Return self; matrices prove as much as can be proven."""
        return self

    def reduce_to_row_space(self, n_components: int | float, center: Center) -> None:
        """Return None: matrices do not tell the span of the rows."""

    def divided_by(self, scale: FloatArray) -> "GroupMoments":
        """Moments of the rows divided by `scale`, a (p,) array of positive numbers.

        Only features are divided; attribute columns in :attr:`all_columns` keep their units.
        """
        by_class = None if self.by_class is None else self.by_class.divided_by(scale)
        all_columns = self.all_columns
        if all_columns is not None:
            attribute_scale = np.ones(all_columns.n_features - self.n_features)
            all_columns = all_columns.divided_by(np.concatenate([scale, attribute_scale]))
        old_corrections = 0.0 if self.mean_corrections is None else self.mean_corrections
        means, corrections = divide(self.means, old_corrections, scale)
        return replace(
            self,
            means=means,
            mean_corrections=corrections,
            scatters=self.scatters / np.outer(scale, scale),
            by_class=by_class,
            all_columns=all_columns,
            skip_validation=True,
        )

    def select_features(self, features: Sequence[int]) -> "GroupMoments":
        """Select features by position, in this order."""
        index = np.asarray(features, dtype=np.intp)
        names = self.feature_names
        by_class = None if self.by_class is None else self.by_class.select_features(features)
        all_columns = self.all_columns
        if all_columns is not None:
            attributes = range(self.n_features, all_columns.n_features)
            all_columns = all_columns.select_features([*features, *attributes])
        return replace(
            self,
            means=self.means[:, index],
            mean_corrections=_take_optional(self.mean_corrections, (slice(None), index)),
            scatters=self.scatters[:, index[:, None], index],
            feature_names=None if names is None else tuple(names[i] for i in index),
            by_class=by_class,
            all_columns=all_columns,
            skip_validation=True,
        )

    def with_attributes(self, columns: Sequence[ColumnKey]) -> "GroupMoments":
        """Turn columns into attributes, and keep all of them in :attr:`all_columns`.

        Moments that have attributes already are returned unchanged.

        Parameters
        ----------
        columns : sequence of str or int
            Column names, or positions if the columns are unnamed.

        Raises
        ------
        InvalidInput
            Unknown column, or no feature left.

        Examples
        --------
        >>> moments = GroupMoments.from_rows(np.eye(3), ["a", "a", "b"]).with_attributes([1])
        >>> moments.n_features, moments.all_columns.n_features
        (2, 3)
        """
        if not columns or self.all_columns is not None:
            return self
        attributes = column_positions(columns, self.feature_names, self.n_features)
        features = [index for index in range(self.n_features) if index not in attributes]
        all_columns = self.select_features([*features, *attributes])
        feature_moments = all_columns.select_features(range(len(features)))
        return replace(feature_moments, all_columns=all_columns, skip_validation=True)

    @explain_memory_errors()
    def __add__(self, other: object) -> "GroupMoments":
        if not isinstance(other, GroupMoments):
            return NotImplemented
        return merge_moments([self, other])

    def __radd__(self, other: object) -> "GroupMoments":
        # sum() starts from 0.
        return self if other == 0 else NotImplemented

    def select_named_features(self, names: Sequence[str] | None) -> "GroupMoments":
        """Select features by name, in this order; return self if some name is unknown.

        Unnamed features, and features for unknown names (None), are returned unchanged as well.
        """
        own_names = self.feature_names
        if not names or not own_names or not set(names) <= set(own_names):
            return self
        return self.select_features([own_names.index(name) for name in names])

    def reorder_features(self, names: tuple[str, ...] | None) -> "GroupMoments":
        """Reorder the features if the names are a permutation; otherwise return self."""
        old_names = self.feature_names
        if old_names is None or names is None or old_names == names:
            return self
        if sorted(old_names) != sorted(names):
            return self
        return self.select_features([old_names.index(name) for name in names])

    def in_weight_units(self, exponent: int) -> "GroupMoments":
        """Return the moments with weights in units of 2**exponent, without negligible groups.

        A group is negligible if its weight is zero in the new unit. The result has neither classes
        nor attributes, unless the unit is the same.
        """
        shift = self.weight_exponent - exponent
        if shift == 0:
            return self
        weights = in_units(self.weights, -shift)
        with np.errstate(under="ignore"):
            scatters = np.ldexp(self.scatters, shift)
        scaled = replace(
            self,
            weights=weights,
            scatters=scatters,
            weight_exponent=exponent,
            by_class=None,
            all_columns=None,
            skip_validation=True,
        )
        return scaled.select_groups(weights > 0)

    def sum_over_classes(self) -> "GroupMoments":
        """Sum moments by group and class over the classes; keeps them as :attr:`by_class`."""
        total = merge_moments([self], without_last_attribute)
        summary = self.em_summary
        if summary is not None:
            group_of = [total.labels.index(without_last_attribute(pair)) for pair in self.labels]
            summary = summary.merge_groups(group_of, total.n_groups)
        return replace(total, by_class=self, em_summary=summary, skip_validation=True)

    def drop_small_groups(self, min_rows: int) -> "GroupMoments":
        """Drop groups with fewer than `min_rows` rows, before sharing moments.

        Class moments are kept only if every remaining group has that many rows in each class.

        Parameters
        ----------
        min_rows : int
            Minimum number of rows of a group.

        Returns
        -------
        GroupMoments

        Raises
        ------
        InvalidInput
            Every group is smaller.
        """
        is_large = self.counts >= min_rows
        if not is_large.any():
            raise InvalidInput(
                f"No group has {counted(min_rows, 'row')}; the largest has {self.counts.max()}",
                "Allowed: a minimum that leaves at least one group",
                "Lower it, or merge groups before computing moments",
            )
        selected = self.select_groups(is_large)
        if selected.by_class is None or (selected.by_class.counts >= min_rows).all():
            return selected
        all_columns = selected.all_columns
        if all_columns is not None:
            all_columns = replace(all_columns, by_class=None, skip_validation=True)
        return replace(selected, by_class=None, all_columns=all_columns, skip_validation=True)

    def select_groups(self, mask: BoolArray | Sequence[int]) -> "GroupMoments":
        """Select groups by a (k,) boolean mask, or by position."""
        by_class = self.by_class
        if by_class is not None:
            remaining = set(to_python_labels(self.groups[mask]))
            pair_mask = [without_last_attribute(pair) in remaining for pair in by_class.labels]
            by_class = by_class.select_groups(np.array(pair_mask))
        all_columns = self.all_columns
        if all_columns is not None:
            all_columns = all_columns.select_groups(mask)
        em_summary = self.em_summary
        if em_summary is not None:
            em_summary = em_summary.select_groups(mask)
        return replace(
            self,
            by_class=by_class,
            all_columns=all_columns,
            groups=self.groups[mask],
            counts=self.counts[mask],
            weights=self.weights[mask],
            means=self.means[mask],
            mean_corrections=_take_optional(self.mean_corrections, mask),
            scatters=self.scatters[mask],
            em_summary=em_summary,
            skip_validation=True,
        )

    def relabeled(self, labels: Sequence[Label]) -> "GroupMoments":
        """Return the moments with other labels, sorted by these, without classes and attributes.

        Parameters
        ----------
        labels : sequence of k labels
            Distinct labels, in the order of the groups.
        """
        order = sorted(range(self.n_groups), key=labels.__getitem__)
        plain = replace(self, by_class=None, all_columns=None, skip_validation=True)
        sorted_labels = label_array([labels[i] for i in order])
        return replace(plain.select_groups(order), groups=sorted_labels, skip_validation=True)

    def matched_to(self, known: KnownLabels) -> "GroupMoments":
        """Replace labels by labels of a fit that are equal as text, such as 1 by "1".

        Warns if a label is replaced; see :class:`~fairspan.rows.label_matching.KnownLabels`.
        """
        known_labels = known if self.by_class is None else known.of_pairs()
        labels = CodedLabels.from_labels(self.finest.labels)
        matched = known_labels.match(labels)
        if matched is labels:
            return self
        if (notice := known_labels.describe_matches(labels)) is not None:
            warn(notice)
        return self._matched_to(known)

    def _matched_to(self, known: KnownLabels) -> "GroupMoments":
        """Replace labels as :meth:`matched_to` does, without a warning."""
        matched_labels = known.match(CodedLabels.from_labels(self.labels)).to_list()
        by_class = None if self.by_class is None else self.by_class._matched_to(known.of_pairs())
        all_columns = None if self.all_columns is None else self.all_columns._matched_to(known)
        return replace(
            self.relabeled(matched_labels),
            by_class=by_class,
            all_columns=all_columns,
            skip_validation=True,
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save to exactly this path: an npz archive with a JSON header, without pickle.

        The file is written atomically.

        Raises
        ------
        InvalidParameter
            The suffix belongs to another file format, or the file cannot be written.
        """
        check_suffix(path, "moments are")
        write_atomic(path, check_no_overflow(self).to_bytes())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "GroupMoments":
        """Load moments written by :meth:`save`.

        Raises
        ------
        FileNotFoundError
            There is no such file.
        CorruptFile
            The file is truncated, altered or of another kind.
        """
        moments = load_partial(path)
        if not moments.n_groups:
            raise MOMENTS_SCHEMA.error_for(
                str(path), SchemaViolation("groups", "is []", "at least one group")
            )
        return moments.check_range()

    def to_bytes(self) -> bytes:
        """Serialize as :meth:`save` does.

        With classes of y, only the moments by group and class are stored: their sums over the
        classes are those of the groups.
        """
        if self.all_columns is not None:
            if self.feature_names is None:
                raise InvalidInput(
                    "The moments have unnamed attribute columns",
                    "Allowed: named columns, so that attributes can be identified",
                    "Compute the moments from a data frame",
                )
            # Readers know the attributes by their names, and split the columns again.
            return self.all_columns.to_bytes()
        stored = self.finest
        header: dict[str, Any] = {
            "groups": stored.labels,
            "feature_names": None if self.feature_names is None else list(self.feature_names),
            "n_dropped": self.n_dropped,
        }
        if self.by_class is not None:
            header["n_label_columns"] = 1
        if self.weight_exponent:
            header["weight_exponent"] = self.weight_exponent
        if stored.em_summary is not None:
            header["em_summary"] = vars(stored.em_summary)
        arrays = {"counts": stored.counts, "weights": stored.weights, "means": stored.means}
        if stored.mean_corrections is not None:
            arrays["mean_corrections"] = stored.mean_corrections
        arrays["triangles"] = lower_triangles(stored.scatters)
        return pack_archive(MOMENTS_SCHEMA.kind, header, arrays)

    @classmethod
    def from_bytes(cls, contents: bytes) -> "GroupMoments":
        """Restore moments from :meth:`to_bytes`.

        Raises
        ------
        CorruptFile
            The bytes are truncated, altered or of another kind.
        """
        return _from_archive(
            read_archive(contents, MOMENTS_SCHEMA), "The archive that was received"
        )


def _take_optional(array: FloatArray | None, index: Any) -> FloatArray | None:
    return None if array is None else array[index]


def _sorted_labels(groups: Any, k: int) -> tuple[AnyArray, list[int]]:
    """Return k distinct labels in sorted order, and their positions in `groups`.

    Raises
    ------
    InvalidInput
        Another number of labels, or labels that are missing, of different types, or equal.
    """
    encoder = LabelEncoder()
    encoder.encode(resolve_labels(groups, len(groups), None, "groups"))
    if len(encoder.labels) != len(groups) or len(groups) != k:
        raise _invalid_moments_error(f"groups are {format_list(list(groups))}")
    order = sorted(range(k), key=encoder.labels.__getitem__)
    return label_array([encoder.labels[i] for i in order]), order


def _from_stacked(stacked: StackedMoments, **others: Any) -> GroupMoments:
    return GroupMoments(
        stacked.labels,
        stacked.counts,
        stacked.weights,
        stacked.means,
        stacked.scatters,
        mean_corrections=stacked.mean_corrections,
        skip_validation=True,
        **others,
    )


def _invalid_moments_error(received: str) -> InvalidInput:
    return InvalidInput(
        received,
        "Allowed: symmetric matrices (k, p, p) without negative eigenvalues, means (k, p), "
        "positive weights (k,), none less than 1e-200 of the largest, within "
        f"{MIN_WEIGHT:.0e} to {_MAX_GROUP_WEIGHT:.0e} for the constructor, "
        "counts (k,) of zero or more, and k distinct groups; all finite. "
        "The constructor takes groups in sorted order, from_covariances in any",
        "Check each argument; if matrices were rounded, set their negative eigenvalues to zero",
    )


def _check_arrays(arrays: dict[str, tuple[AnyArray, tuple[int, ...]]]) -> None:
    """Check shapes and finiteness of arrays; raises InvalidInput."""
    for name, (array, shape) in arrays.items():
        if np.shape(array) != shape:
            raise _invalid_moments_error(f"{name} has shape {np.shape(array)}, not {shape}")
        if not np.isfinite(array).all():
            raise _invalid_moments_error(f"{name} contains NaN or infinity")


def merge_moments(
    parts: Sequence[GroupMoments], relabel: Callable[[Label], Label] = lambda label: label
) -> GroupMoments:
    """Merge moments of several parts (Chan, Golub and LeVeque 1979).

    With attributes, the moments of all columns are merged and split again; with classes of y, those
    of each group and class, whose sums are the moments of the groups.

    Parameters
    ----------
    parts : sequence of GroupMoments
        At least one.
    relabel : callable, optional
        Maps old to new labels; groups with the same new label are merged.

    Raises
    ------
    InvalidInput
        Inconsistent features or label types, or overflow.
    """
    first = parts[0]
    parts = [part.reorder_features(first.feature_names) for part in parts]
    for part in parts[1:]:
        check_mergeable(first, part)
    if first.all_columns is not None:
        with_attributes = [part.all_columns for part in parts if part.all_columns is not None]
        all_columns = merge_moments(with_attributes, relabel)
        features = all_columns.select_features(range(first.n_features))
        return replace(features, all_columns=all_columns, skip_validation=True)
    if first.by_class is not None:
        by_class = [part.by_class for part in parts if part.by_class is not None]
        merged = merge_moments(by_class, relabel).sum_over_classes()
        n_dropped = sum(part.n_dropped for part in parts)
        lost = {relabel(label) for part in parts for label in part.lost_groups}
        return replace(
            merged,
            n_dropped=n_dropped,
            lost_groups=frozenset(lost.difference(merged.labels)),
            skip_validation=True,
        )
    return _merge_plain(parts, relabel)


def _merge_plain(parts: Sequence[GroupMoments], relabel: Callable[[Label], Label]) -> GroupMoments:
    """Merge moments without classes and attributes, with the features in the same order."""
    n_dropped = sum(part.n_dropped for part in parts)
    exponent = _common_exponent(parts)
    parts = _in_common_units(parts, exponent)
    sums: dict[Label, RunningMoments] = {}
    with np.errstate(over="ignore", invalid="ignore"):  # detected by check_no_overflow
        for part in parts:
            corrections = part.mean_corrections
            for group, label in enumerate(part.labels):
                group_moments = RunningMoments(
                    shift=part.means[group],
                    count=int(part.counts[group]),
                    weight=part.weights[group],
                    mean_offset=0.0 if corrections is None else corrections[group],
                    scatter=part.scatters[group].copy(),
                )
                merge_into(sums, relabel(label), group_moments)
        stacked = stack_by_label(sums, parts[0].n_features)
    # A group of which one part dropped every row is not lost if another part has rows of it.
    lost = {relabel(label) for part in parts for label in part.lost_groups}
    merged = _from_stacked(
        stacked,
        feature_names=parts[0].feature_names,
        n_dropped=n_dropped,
        weight_exponent=exponent,
        lost_groups=frozenset(lost.difference(to_python_labels(stacked.labels))),
    )
    return check_no_overflow(merged)


def _common_exponent(parts: Sequence[GroupMoments]) -> int:
    """Return the exponent of a unit of weights for all parts.

    It is that of the parts if they have the same. Otherwise it is zero if all weights are within
    the range for that, else the one in which the largest weight is at the upper end of the range;
    small weights may then become zero.
    """
    exponents = {part.weight_exponent for part in parts}
    if len(exponents) == 1:
        return exponents.pop()
    weighted = [part for part in parts if part.n_groups]
    smallest = [np.frexp(part.weights.min())[1] + part.weight_exponent for part in weighted]
    largest = [np.frexp(part.weights.max())[1] + part.weight_exponent for part in weighted]
    min_exponent = int(np.frexp(MIN_WEIGHT)[1])
    max_exponent = int(np.frexp(MAX_WEIGHT)[1])
    if not weighted or (min(smallest) >= min_exponent and max(largest) <= max_exponent):
        return 0
    exponent = int(max(largest)) - max_exponent
    return exponent + exponent % 2  # even, so that the square root of the unit is a power of two


def _in_common_units(parts: Sequence[GroupMoments], exponent: int) -> list[GroupMoments]:
    """Return the parts with weights in units of 2**exponent, without negligible groups.

    Warns if groups of a part are negligible, and names those that no part has otherwise.
    """
    scaled = [part.in_weight_units(exponent) for part in parts]
    remaining = {label for part in scaled for label in part.labels}
    if sum(part.n_groups for part in scaled) < sum(part.n_groups for part in parts):
        all_labels = dict.fromkeys(label for part in parts for label in part.labels)
        limit = math.ldexp(MIN_WEIGHT, exponent)
        lost = [label for label in all_labels if label not in remaining]
        warn_about_negligible("A part", limit, lost)
    return scaled


def check_no_overflow(moments: GroupMoments) -> GroupMoments:
    """Check that weights and second moments are finite, and return the moments.

    Moments of some of the rows are checked for nothing else: a column that is too small here may
    be large enough in the others.

    Raises
    ------
    InvalidInput
        Numbers or weights so large that second moments overflow.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        if not np.isfinite(moments.weights.sum()):
            raise InvalidInput(
                "The sum of the weights overflows float64",
                "Allowed: weights with a finite sum",
                "Divide all of them by a constant",
            )
        check_magnitudes(moments.means, moments.variances, moments.feature_names, is_partial=True)
    return moments


def check_mergeable(a: GroupMoments, b: GroupMoments) -> None:
    """Check that moments have the same features in the same order, and labels of one type.

    Raises
    ------
    InvalidInput
        They differ; the message lists how.
    """
    if a.em_summary is not None or b.em_summary is not None:
        raise InvalidInput(
            "Some of the moments were fitted to incomplete rows by EM",
            "Allowed: moments of complete rows. EM estimates depend on all rows, so those of parts "
            "cannot be merged",
            "Read all rows together, such as a folder of files or a Dask or Spark collection: "
            'GroupMoments.from_rows(..., on_missing="em"); or drop incomplete rows in each part: '
            'GroupMoments.from_rows(..., on_missing="drop")',
            cause=Cause.INCOMPLETE_PARTS,
        )
    differences = [*_feature_differences(a, b), *_label_differences(a, b)]
    if differences:
        raise InvalidInput(
            "; ".join(differences),
            "Allowed: moments of the same features, with labels of one type",
            "Read both parts with the same columns, and with labels of one type, for example by "
            "astype(str)",
            cause=Cause.DIFFERENT_MOMENTS,
        )


def _feature_differences(a: GroupMoments, b: GroupMoments) -> Iterator[str]:
    """Iterate over the differences between the columns of moments, as phrases."""
    if a.n_features != b.n_features or a.feature_names != b.feature_names:
        details = ""
        if a.feature_names and b.feature_names:
            differences_by_kind = {
                "missing": [name for name in a.feature_names if name not in b.feature_names],
                "additional": [name for name in b.feature_names if name not in a.feature_names],
            }
            phrases = [
                f"{format_list(names)} {kind}"
                for kind, names in differences_by_kind.items()
                if names
            ]
            details = f" ({', '.join(phrases)})" if phrases else ""
        yield (
            f"The features differ: {_describe_features(a)} against {_describe_features(b)}{details}"
        )
    if (a.all_columns is None) != (b.all_columns is None):
        yield "Only one of them has attribute columns"


def _label_differences(a: GroupMoments, b: GroupMoments) -> Iterator[str]:
    """Iterate over the differences between the labels of moments, as phrases."""
    if (a.by_class is None) != (b.by_class is None):
        yield "Only one of them has classes of y"
        return
    if not a.n_groups or not b.n_groups:  # moments without rows have no type of labels
        return
    if {*map(label_type, a.labels)} != {*map(label_type, b.labels)}:
        yield (
            f"The groups are of different types: {format_list(a.labels)} against "
            f"{format_list(b.labels)} ({describe_label_type(a.labels)} against "
            f"{describe_label_type(b.labels)})"
        )


def _describe_features(moments: GroupMoments) -> str:
    if moments.feature_names is None:
        return f"{moments.n_features} without names"
    return f"{moments.n_features} named {format_list(moments.feature_names)}"


def _from_archive(stored: dict[str, Any], name: str) -> GroupMoments:
    """Restore moments from a validated header and arrays; `name` is that of the file in messages.

    With classes of y, the file stores moments of each group and class; their sums over the classes
    are the moments of the groups.

    Raises
    ------
    CorruptFile
        Invalid scatter matrix, or overflow.
    """
    try:
        moments = GroupMoments(**constructor_arguments(stored))
        # The file may hold the moments of some of the rows, in which a feature may be smaller than
        # in all of them, so that only too large numbers are an error.
        check_no_overflow(moments)
        return moments.sum_over_classes() if has_classes(stored) else moments
    except ValueError as error:
        raise MOMENTS_SCHEMA.error_for(name, error) from error


def load_partial(path: str | os.PathLike[str]) -> GroupMoments:
    """Load saved moments that may be partial or empty.

    Raises
    ------
    FileNotFoundError, CorruptFile
        Same as for :meth:`GroupMoments.load`.
    """
    return _from_archive(read_archive(path, MOMENTS_SCHEMA), str(path))


@dataclass(frozen=True)
class MomentsAggregator:
    """Aggregator of group moments.

    Attributes
    ----------
    limit : GroupLimit
        Maximum number of groups, and memory.
    """

    limit: GroupLimit = DEFAULT_GROUP_LIMIT

    @explain_memory_errors()  # also in workers, where the partition is added to the error
    def aggregate(self, rows: RowSource) -> GroupMoments:
        """Moments of some rows, by class as well if they have classes; no groups without rows.

        The source may have divided very large or small weights by a power of two; the result is in
        the same unit, and its `weight_exponent` tells the power.
        """
        self.limit.check_memory(1, rows.n_features)  # the number of groups is not known yet
        # Products of sparse rows are faster up to this density.
        if isinstance(rows, SparseRows) and rows.density <= _MAX_SPARSE_DENSITY:
            return self._aggregate_sparse(rows)
        sums = accumulate_rows(rows, self.limit)
        moments = moments_of_stacked(sums.by_fold[0], rows)
        return replace(
            moments, n_dropped=sums.n_dropped, lost_groups=sums.lost_groups, skip_validation=True
        )

    def _aggregate_sparse(self, rows: SparseRows) -> GroupMoments:
        """Dense moments of sparse rows, by sparse products."""
        groups, n_dropped = group_sparse_rows(rows, self.limit)
        self.limit.check_memory(len(groups), rows.n_features)
        moments = moments_of_stacked(_stack_group_rows(groups, rows.n_features), rows)
        lost_groups = rows.lost_groups(moments.labels) if n_dropped else frozenset()
        return replace(moments, n_dropped=n_dropped, lost_groups=lost_groups, skip_validation=True)

    @explain_memory_errors()
    def merge(self, left: GroupMoments, right: GroupMoments) -> GroupMoments:
        """Merge the moments of two parts."""
        labels = {*left.finest.labels, *right.finest.labels}
        n_rows = int(left.counts.sum() + right.counts.sum())
        check = self.limit.check if left.by_class is None else self.limit.check_pairs
        check(labels, n_rows, so_far=True)
        self.limit.check_memory(len(labels), left.n_features)
        return merge_moments([left, right])


def moments_of_stacked(stacked: StackedMoments, rows: RowSource) -> GroupMoments:
    """Return accumulated moments of rows; of pairs of group and class, with their totals.

    Raises
    ------
    InvalidInput
        Sums overflowed.
    """
    info = row_metadata(rows)
    moments = check_no_overflow(
        _from_stacked(
            stacked, feature_names=rows.feature_names, weight_exponent=info.weight_exponent
        )
    )
    return moments.sum_over_classes() if info.has_classes else moments


def dense_moments(groups: Sequence[GroupRows], n_features: int, n_dropped: int) -> GroupMoments:
    """Dense moments of rows stored by group."""
    return _from_stacked(_stack_group_rows(groups, n_features), n_dropped=n_dropped)


def _stack_group_rows(groups: Sequence[GroupRows], n_features: int) -> StackedMoments:
    """Moments of rows stored by group, as arrays."""
    sums = {
        group.label: RunningMoments(
            shift=group.shift,
            count=len(group.row_indices),
            weight=group.weight,
            mean_offset=group.mean_about_shift,
            scatter=group.scatter(),
        )
        for group in groups
    }
    with np.errstate(
        over="ignore", invalid="ignore"
    ):  # detected by check_no_overflow or check_range
        return stack_by_label(sums, n_features)


@explain_memory_errors()
def compute_group_moments(
    rows: Rows,
    limit: GroupLimit = DEFAULT_GROUP_LIMIT,
    initial: GroupMoments | None = None,
) -> GroupMoments:
    """Compute the moments of each group in one pass; rows of weight zero are ignored.

    Parameters
    ----------
    rows : RowSource or PartitionedRows
        Rows with groups. If they have classes, the result has moments by class as well.
    limit : GroupLimit
        Maximum number of groups, and memory.
    initial : GroupMoments, optional
        Moments of earlier rows, to which these are added; the group limit applies to the total.

    Raises
    ------
    InvalidInput
        Invalid rows, no rows, too many groups, magnitudes out of range, or `initial` moments
        together with rows that are fitted by EM.
    """
    if isinstance(rows, RowsWithAttributes):
        # Moments of all columns first, then split into features and attributes.
        initial_columns = None if initial is None else initial.all_columns
        all_columns = compute_group_moments(rows.source, limit, initial_columns)
        return all_columns.with_attributes(rows.attributes)
    limit = limit.for_rows(rows)
    if isinstance(rows, BaseRows) and rows.keeps_missing:
        moments = _compute_em(rows, limit)
        # Merging EM moments is an error, which says what to do instead.
        return moments.check_range() if initial is None else merge_moments([initial, moments])
    return _compute_complete(rows, limit, initial)


def _compute_em(rows: Rows, limit: GroupLimit) -> GroupMoments:
    """Fit moments to incomplete rows by EM."""
    stacked, n_dropped, summary = fit_em(rows, limit)
    # Binary exponent of the unit of weights. It is read after the fit, since files determine it
    # while they are read.
    weight_exponent = rows.weight_exponent if isinstance(rows, BaseRows) else 0
    if not len(stacked.labels):
        raise no_rows_error(n_dropped)
    if n_dropped:
        phrase = "row was" if n_dropped == 1 else "rows were"
        warn(f"{n_dropped:,} {phrase} dropped, without a group or without any observed feature")
        warn_of_lost_groups(rows)
    moments = _from_stacked(
        stacked,
        feature_names=rows.feature_names,
        n_dropped=n_dropped,
        em_summary=summary,
        weight_exponent=weight_exponent,
    )
    return moments.sum_over_classes() if row_metadata(rows).has_classes else moments


def _compute_complete(rows: Rows, limit: GroupLimit, initial: GroupMoments | None) -> GroupMoments:
    """Compute moments of rows that are complete, or of which incomplete ones are dropped."""
    check_costs(rows, limit)
    aggregator = MomentsAggregator(limit)
    moments = aggregate(rows, aggregator)
    if moments is None:
        raise no_complete_rows_error(rows, 0)
    if not moments.n_groups:
        raise no_complete_rows_error(rows, moments.n_dropped)
    if moments.lost_groups:
        warn_of_lost_groups(rows, moments.lost_groups)
    if initial is not None:
        moments = aggregator.merge(initial, moments)
    check_integer_precision(rows, moments)
    return moments.check_range()


def check_costs(rows: Rows, limit: GroupLimit) -> None:
    """Check that matrices of the features fit into memory, and warn if a pass takes long.

    Raises
    ------
    InvalidInput
        Not even the matrices of one group fit.
    """
    limit.check_memory(1, rows.n_features)  # before any cluster work
    # The duration is known only for dense rows on the processor.
    if not isinstance(rows, SparseRows | DeviceRows):
        warn_if_slow(rows.n_rows, rows.n_features)
