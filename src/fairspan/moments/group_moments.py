"""Group moments: made from rows or covariances, merged, saved and loaded."""

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fairspan.errors import caller_remedies, warn
from fairspan.linalg.memory import explain_memory_errors, warn_if_slow
from fairspan.moments.accumulate import accumulate_rows
from fairspan.moments.dense_moments import DenseMoments
from fairspan.moments.dropped_rows import no_complete_rows_error, no_rows_error, warn_of_lost_groups
from fairspan.moments.em import fit_em
from fairspan.moments.files import MOMENTS_FILE, moments_to_bytes, read_moments
from fairspan.moments.fixed_point import CONVERGENCE_TOL
from fairspan.moments.group_rows import GroupRows
from fairspan.moments.integer_precision import check_integer_precision
from fairspan.moments.merging import merge_moments, sum_over_classes
from fairspan.moments.moment_validation import (
    check_arrays,
    check_no_overflow,
    invalid_moments_error,
)
from fairspan.moments.running_moments import RunningMoments, StackedMoments, stack_by_label
from fairspan.moments.sparse_scatter import group_sparse_rows
from fairspan.rows.aggregation import Rows, aggregate
from fairspan.rows.attributes import RowsWithAttributes
from fairspan.rows.blocks import OnMissing
from fairspan.rows.coded_labels import LabelEncoder
from fairspan.rows.devices import DeviceRows
from fairspan.rows.group_limit import DEFAULT_GROUP_LIMIT, GroupLimit
from fairspan.rows.label_resolution import resolve_labels
from fairspan.rows.labels import Label, format_list, label_array
from fairspan.rows.opening import open_rows, row_remedies, warn_about_unused_categories
from fairspan.rows.protocol import RowSource, row_metadata
from fairspan.rows.sparse_rows import SparseRows
from fairspan.rows.weights import exponent_for, in_units, is_extreme
from fairspan.storage.atomic import check_suffix, write_atomic
from fairspan.storage.fields import InvalidField
from fairspan.typing import AnyArray, FloatArray, LabelsLike, TableLike, WeightsLike

# Above this density, dense blocks are faster than sparse rows.
_MAX_SPARSE_DENSITY = 1 / 12


@dataclass(frozen=True, eq=False, repr=False)
class GroupMoments(DenseMoments):
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

    @classmethod
    def from_rows(
        cls,
        X: TableLike,
        sensitive_features: LabelsLike,
        sample_weight: WeightsLike = None,
        *,
        y: LabelsLike = None,
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
        # Error messages then suggest the arguments of this method.
        with caller_remedies(row_remedies(X)):
            rows = open_rows(
                X, sensitive_features, y=y, sample_weight=sample_weight, on_missing=on_missing
            )
            warn_about_unused_categories(rows)
            return compute_group_moments(rows, limit)

    @classmethod
    def from_covariances(
        cls,
        covariances: npt.ArrayLike,
        means: npt.ArrayLike | None = None,
        weights: npt.ArrayLike | None = None,
        groups: Collection[Label] | AnyArray | None = None,
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
            # With fewer axes, the check of shapes fails.
            k = len(matrices) if matrices.ndim else 0
            p = matrices.shape[1] if matrices.ndim > 1 else 0
            means = np.zeros((k, p)) if means is None else np.asarray(means, dtype=np.float64)
            weights = np.ones(k) if weights is None else np.asarray(weights, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise invalid_moments_error(
                f"There are values that are not numbers ({error})"
            ) from error
        # At least one group and one feature.
        check_arrays(
            {
                "covariances": (matrices, (max(k, 1), max(p, 1), p)),
                "means": (means, (k, p)),
                "weights": (weights, (k,)),
            }
        )
        labels, order = _sorted_labels(np.arange(k) if groups is None else groups, k)
        weights, exponent = _weights_in_range(weights)
        weights = weights[order]
        with np.errstate(over="ignore"):  # detected by the constructor
            scatters = weights[:, None, None] * matrices[order]
        unknown_counts = np.zeros(k, dtype=np.int64)
        moments = cls(
            labels, unknown_counts, weights, means[order], scatters, weight_exponent=exponent
        )
        # The constructor accepts matrices that are symmetric up to rounding.
        symmetric_scatters = (scatters + scatters.transpose(0, 2, 1)) / 2
        return replace(moments, scatters=symmetric_scatters, skip_validation=True).check_range()

    @explain_memory_errors()
    def __add__(self, other: object) -> "GroupMoments":
        if not isinstance(other, GroupMoments):
            return NotImplemented
        return merge_moments([self, other])

    def __radd__(self, other: object) -> "GroupMoments":
        # sum() starts from 0.
        return self if other == 0 else NotImplemented

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
        moments = load_partial(path)  # a part may have no groups, unlike the result here
        if not moments.n_groups:
            raise MOMENTS_FILE.error_for(
                str(path), InvalidField("groups", "is []", "at least one group")
            )
        return moments.check_range()

    def to_bytes(self) -> bytes:
        """Serialize as :meth:`save` does.

        Raises
        ------
        InvalidInput
            The moments have unnamed attribute columns.
        """
        return moments_to_bytes(self)

    @classmethod
    def from_bytes(cls, contents: bytes) -> "GroupMoments":
        """Restore moments from :meth:`to_bytes`.

        Raises
        ------
        CorruptFile
            The bytes are truncated, altered or of another kind.
        """
        return read_moments(contents, cls)


def _weights_in_range(weights: FloatArray) -> tuple[FloatArray, int]:
    """Divide (k,) weights outside 1e-100 to 1e100 by 2**exponent, and return the exponent too.

    That brings the largest into range.

    Raises
    ------
    InvalidInput
        A weight is not positive, or is negligible: it would become zero.
    """
    if not is_extreme(weights):
        return weights, 0
    exponent = exponent_for(float(weights.max()))
    scaled = in_units(weights, exponent)
    if not scaled.all():
        raise invalid_moments_error(f"weights are {format_list(weights.tolist())}")
    return scaled, exponent


def _sorted_labels(groups: Collection[Label] | AnyArray, k: int) -> tuple[AnyArray, list[int]]:
    """Return k distinct labels in sorted order, and their positions in `groups`.

    Raises
    ------
    InvalidInput
        Another number of labels, or labels that are missing, of different types, or equal.
    """
    encoder = LabelEncoder()
    # There is no table X, so the groups cannot be names of its columns.
    encoder.encode(resolve_labels(groups, len(groups), X=None, name="groups"))
    # Equal labels are encoded only once.
    if len(encoder.labels) != len(groups) or len(groups) != k:
        raise invalid_moments_error(f"groups are {format_list(list(groups))}")
    order = sorted(range(k), key=encoder.labels.__getitem__)
    return label_array([encoder.labels[i] for i in order]), order


def load_partial(path: str | os.PathLike[str]) -> GroupMoments:
    """Load saved moments that may be partial or empty.

    Raises
    ------
    FileNotFoundError, CorruptFile
        Same as for :meth:`GroupMoments.load`.
    """
    return read_moments(path, GroupMoments)


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
        (stacked,) = sums.by_fold  # without folds, there is one entry for all rows
        moments = moments_from_stacked(stacked, rows)
        return replace(
            moments, n_dropped=sums.n_dropped, lost_groups=sums.lost_groups, skip_validation=True
        )

    def _aggregate_sparse(self, rows: SparseRows) -> GroupMoments:
        """Dense moments of sparse rows, by sparse products."""
        groups, n_dropped = group_sparse_rows(rows, self.limit)
        self.limit.check_memory(len(groups), rows.n_features)
        moments = moments_from_stacked(_stack_group_rows(groups, rows.n_features), rows)
        lost_groups = rows.lost_groups(moments.labels) if n_dropped else frozenset()
        return replace(moments, n_dropped=n_dropped, lost_groups=lost_groups, skip_validation=True)

    @explain_memory_errors()
    def merge(self, left: GroupMoments, right: GroupMoments) -> GroupMoments:
        """Merge the moments of two parts."""
        labels = {*left.finest.labels, *right.finest.labels}
        n_rows = int(left.counts.sum() + right.counts.sum())
        check = self.limit.check if left.by_class is None else self.limit.check_pairs
        check(labels, n_rows, is_partial=True)
        self.limit.check_memory(len(labels), left.n_features)
        return merge_moments([left, right])


def moments_from_stacked(stacked: StackedMoments, rows: RowSource) -> GroupMoments:
    """Return the moments of rows from stacked arrays of them, one entry per group.

    If the rows have classes, entries are pairs of group and class; the result has their totals by
    group, and keeps the moments of the pairs as `by_class`.

    Raises
    ------
    InvalidInput
        Sums overflowed.
    """
    info = row_metadata(rows)
    moments = check_no_overflow(
        GroupMoments.from_stacked(
            stacked, feature_names=rows.feature_names, weight_exponent=info.weight_exponent
        )
    )
    return sum_over_classes(moments) if info.has_classes else moments


def dense_moments(groups: Sequence[GroupRows], n_features: int, n_dropped: int) -> GroupMoments:
    """Dense moments of rows stored by group."""
    return GroupMoments.from_stacked(_stack_group_rows(groups, n_features), n_dropped=n_dropped)


def _stack_group_rows(groups: Sequence[GroupRows], n_features: int) -> StackedMoments:
    """Moments of rows stored by group, stacked into arrays in label order."""
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
    limit = limit.for_rows(rows)  # learns the group columns of these rows, for its messages
    if row_metadata(rows).keeps_missing:
        moments = fit_em_moments(rows, limit)
        # Merging EM moments is an error, which says what to do instead.
        return moments.check_range() if initial is None else merge_moments([initial, moments])
    return _compute_complete(rows, limit, initial)


def fit_em_moments(
    rows: Rows, limit: GroupLimit, convergence_tol: float = CONVERGENCE_TOL
) -> GroupMoments:
    """Fit moments to incomplete rows by EM.

    See :func:`fairspan.moments.em.fit_em` for the parameters.
    """
    stacked, n_dropped, summary = fit_em(rows, limit, convergence_tol)
    # Binary exponent of the unit of weights. It is read after the fit, since files determine it
    # while they are read.
    weight_exponent = row_metadata(rows).weight_exponent
    if not len(stacked.labels):
        raise no_rows_error(n_dropped)
    if n_dropped:
        phrase = "row was" if n_dropped == 1 else "rows were"
        warn(f"{n_dropped:,} {phrase} dropped, without a group or without any observed feature")
        warn_of_lost_groups(rows)
    moments = GroupMoments.from_stacked(
        stacked,
        feature_names=rows.feature_names,
        n_dropped=n_dropped,
        em_summary=summary,
        weight_exponent=weight_exponent,
    )
    # Rows with classes are fitted by group and class; the moments of the groups are sums of these.
    return sum_over_classes(moments) if row_metadata(rows).has_classes else moments


def _compute_complete(rows: Rows, limit: GroupLimit, initial: GroupMoments | None) -> GroupMoments:
    """Compute moments of rows that are complete, or of which incomplete ones are dropped."""
    check_costs(rows, limit)
    aggregator = MomentsAggregator(limit)
    moments = aggregate(rows, aggregator)
    if moments is None:  # there are no rows, so none was dropped
        raise no_complete_rows_error(rows, n_dropped=0)
    if not moments.n_groups:  # every row was dropped, or has weight zero
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
