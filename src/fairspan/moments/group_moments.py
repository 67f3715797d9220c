"""GroupMoments: weight, mean and scatter of each group, all that a fair projection needs."""

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import InitVar, dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import blas

from fairspan.errors import Cause, InvalidInput, caller_remedies, warn
from fairspan.formatting.text import counted
from fairspan.linalg import is_valid_scatter
from fairspan.linalg.double_double import divide
from fairspan.linalg.resources import explain_memory_errors, warn_if_slow
from fairspan.moments.accumulate import (
    RunningMoments,
    StackedMoments,
    accumulate_rows,
    merge_into,
    stack_by_label,
)
from fairspan.moments.base import BaseMoments, Center, check_magnitudes
from fairspan.moments.dropped_rows import no_complete_rows, no_rows_error, warn_of_lost_groups
from fairspan.moments.em import EMSummary, fit_em
from fairspan.moments.normal_model import NormalModel
from fairspan.moments.operators import DenseSecondMoments, Doubt
from fairspan.moments.sparse import GroupRows, group_sparse_rows
from fairspan.moments.whole_numbers import check_whole_numbers
from fairspan.rows.arrays import resolve_labels
from fairspan.rows.attributes import ColumnKey, RowsWithAttributes, column_positions
from fairspan.rows.groups import (
    CodedLabels,
    Folds,
    Label,
    LabelEncoder,
    describe_label_type,
    format_list,
    label_array,
    label_type,
    to_python_labels,
    without_last_attribute,
)
from fairspan.rows.label_matching import KnownLabels
from fairspan.rows.matrices import DeviceRows, SparseRows
from fairspan.rows.opening import open_rows, row_remedies, warn_of_unused_categories
from fairspan.rows.protocol import (
    DEFAULT_GROUP_LIMIT,
    BaseRows,
    GroupLimit,
    OnMissing,
    Rows,
    RowSource,
    aggregate,
)
from fairspan.rows.weights import (
    LARGEST_WEIGHT,
    SMALLEST_WEIGHT,
    exponent_for,
    in_units,
    is_extreme,
    warn_of_negligible,
)
from fairspan.storage import (
    MOMENTS_SCHEMA,
    SchemaViolation,
    check_suffix,
    pack_archive,
    read_archive,
    write_atomic,
)
from fairspan.typing import AnyArray, BoolArray, FloatArray

# Where more of the cells are stored, blocks with all their zeros are multiplied faster.
_MAX_SPARSE_DENSITY = 1 / 12
# The largest correction of a mean, as a share of it: half a unit in the last place, rounded up.
_CORRECTION = float(np.finfo(np.float64).eps)
# The largest weight of a group: that of 1e20 rows with the largest weight of a row.
_LARGEST_GROUP_WEIGHT = 1e20 * LARGEST_WEIGHT
# Largest size of the exponent of the unit of weights: that of subnormal numbers is the largest.
_MOST_EXPONENT = 1500
# How far a covariance may be from symmetric, as a share of the deviations of its features.
_SYMMETRY_TOL = 1e-12


@dataclass(frozen=True, eq=False, repr=False)
class GroupMoments(BaseMoments):
    """Weight, mean and centred scatter matrix of each group: all that a fit needs.

    Moments of parts add up: ``a + b`` holds exactly what one pass over both parts would give, up to
    rounding, so rows may be read in blocks, on many machines, or never leave their site.

    Attributes
    ----------
    groups : (k,) array
        Labels in sorted order; tuples where several attributes are crossed.
    counts : (k,) array of int
        Rows of each group; 0 where that is not known, as of covariances alone.
    weights : (k,) array
        n_g, the sum of the sample weights; equal to the counts without weights.
    weight_exponent : int
        Binary exponent, even: weights and scatters are in units of 2**weight_exponent. It is 0
        unless sample weights are larger than 1e100 or smaller than 1e-100.
    means : (k, p) array
        Weighted mean row of each group, in units of the features.
    mean_corrections : (k, p) array or None
        Exact means minus `means`, which are rounded to float64; None where these are exact.
    scatters : (k, p, p) array
        Weighted sums of (x - mean)(x - mean)' about each group's own mean, undivided.
    feature_names : tuple of str or None
    n_dropped : int
        Rows that were read and left out, since a feature or the group is missing in them.
    by_label : GroupMoments or None
        The moments of each group and class of y, tuples whose last part is the class; None where
        no y was given. The other attributes are their sums over the classes.
    whole : GroupMoments or None
        The moments of the features and, after them, of columns that are no features, as age with
        :class:`~fairspan.Uncorrelated`; None where there are none. See :meth:`apart`.
    completion : Completion or None
        How the moments came from rows with missing cells (`on_missing="em"`); None of others. Such
        moments cannot be merged.
    lost_groups : frozenset of labels
        Groups of which every row was dropped, since something is missing in it. Saved moments do
        not keep them.

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
    # Moments of rows need no check, which takes up to a tenth of an eigenproblem.
    is_made_here: InitVar[bool] = False

    def __post_init__(self, is_made_here: bool) -> None:
        if is_made_here:
            return
        k, p = len(self.groups), self.means.shape[-1]
        shapes = {"counts": (k,), "weights": (k,), "means": (k, p), "scatters": (k, p, p)}
        _check_arrays({name: (getattr(self, name), shape) for name, shape in shapes.items()})
        if len(set(self.labels)) < k or sorted(self.labels) != self.labels:
            raise _invalid_moments_error(f"groups are {format_list(self.labels)}")
        if self.mean_corrections is not None:
            _check_arrays({"mean_corrections": (self.mean_corrections, (k, p))})
            if (np.abs(self.mean_corrections) > _CORRECTION * np.abs(self.means)).any():
                raise _invalid_moments_error(
                    "mean_corrections are larger than the rounding of the means"
                )
        exponent = self.weight_exponent
        if type(exponent) is not int or exponent % 2 or abs(exponent) > _MOST_EXPONENT:
            raise _invalid_moments_error(f"weight_exponent is {exponent!r}")
        out_of_range = (self.weights < SMALLEST_WEIGHT) | (self.weights > _LARGEST_GROUP_WEIGHT)
        for name, wrong in (("counts", self.counts < 0), ("weights", out_of_range)):
            if wrong.any():
                raise _invalid_moments_error(
                    f"{name} are {format_list(getattr(self, name).tolist())}"
                )
        arrays = (self.scatters, self.means, self.weights)
        for label, scatter, mean, weight in zip(self.labels, *arrays, strict=True):
            sizes = np.sqrt(np.abs(np.diag(scatter)))
            if (np.abs(scatter - scatter.T) > _SYMMETRY_TOL * np.outer(sizes, sizes)).any():
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
            Finite and not negative; a row of weight zero counts as absent. So does one whose weight
            is less than 1e-200 of the largest, with a warning.
        y : (n,) array-like, or column name of X, optional
            Class of each row, for restrictions within classes
            (`MeanParity(within_classes=...)`); see `by_class`.
        on_missing : {"error", "drop", "em", "em-drop-empty"}
            What to do with rows in which a feature or the group is missing. Those that are dropped
            are counted in `n_dropped`. With "em" only rows without a group are; the moments are
            then the maximum likelihood of a normal model of each group, given all cells that are
            observed, found by the EM algorithm in several passes over the rows. A row in which
            every feature is missing says nothing about it: it is an error with "em", and left out
            with "em-drop-empty".
        max_groups : int, optional
            Most groups that are allowed, by default 100: more look like an identifier or a
            continuous number.
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
            their root mean square in the largest group shows. With "em", a row in which every
            feature is missing, or a feature of which a group has no value.
        InvalidType, InvalidParameter
            max_groups or max_memory is no whole number of at least 1.

        Notes
        -----
        Each block is centred before its products are summed, and blocks are merged by the formula
        of Chan, Golub and LeVeque (1979), so that column offsets of 1e6 standard deviations only
        cause rounding errors. Memory beyond the input does not grow with n.

        The likelihood of incomplete rows assumes that whether a cell is missing depends on observed
        cells alone (missing at random). Where a group has fewer than p + 2 rows in which some pair
        of features is observed together, its correlations are drawn towards those of all groups;
        `completion.pool_weights` says how much.
        """
        limit = GroupLimit(max_groups, max_memory=max_memory)
        with caller_remedies(row_remedies(X)):
            rows = open_rows(X, sensitive_features, {"y": y}, sample_weight, on_missing)
            warn_of_unused_categories(rows)
            return compute_group_moments(rows, limit, has_y=y is not None)

    @classmethod
    def from_covariances(
        cls, covariances: Any, means: Any = None, weights: Any = None, groups: Any = None
    ) -> "GroupMoments":
        """Moments where only covariances are known: of a publication, or of another program.

        How many rows there were is not known, so `counts` are 0: an audit of such moments has no
        intervals. Everything else works as with moments of rows.

        Parameters
        ----------
        covariances : (k, p, p) array-like
            Of each group about its own mean, divided by its number of rows (ddof 0).
        means : (k, p) array-like, optional
            Mean row of each group; zero by default.
        weights : (k,) array-like, optional
            Positive, and at least 1e-200 of the largest; what each group counts for in the mean of
            all, such as its number of rows. One each by default.
        groups : (k,) array-like or list of tuples, optional
            A label for each, all different; 0 to k - 1 by default.

        Returns
        -------
        GroupMoments

        Raises
        ------
        InvalidInput
            Shapes that do not fit, numbers that are not finite, a matrix that is not symmetric or
            not positive semidefinite, a weight out of range, labels that are missing, of
            different types, or not different.

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
            k, p = (*matrices.shape, 0, 0)[:2]
            means = np.zeros((k, p)) if means is None else np.asarray(means, dtype=np.float64)
            weights = np.ones(k) if weights is None else np.asarray(weights, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise _invalid_moments_error(
                f"There are values that are no numbers ({error})"
            ) from error
        arrays = {"covariances": (matrices, (k or 1, p or 1, p)), "means": (means, (k, p))}
        _check_arrays({**arrays, "weights": (weights, (k,))})
        coder, given_groups = LabelEncoder(), np.arange(k) if groups is None else groups
        coder.encode(resolve_labels(given_groups, len(given_groups), None, "groups"))
        if len(coder.labels) != len(given_groups) or len(given_groups) != k:
            raise _invalid_moments_error(f"groups are {format_list(list(given_groups))}")
        order = sorted(range(k), key=coder.labels.__getitem__)
        labels = label_array([coder.labels[i] for i in order])
        exponent = 0
        if is_extreme(weights):
            exponent = exponent_for(float(weights.max()))
            scaled = in_units(weights, exponent)
            if not scaled.all():
                raise _invalid_moments_error(f"weights are {format_list(weights.tolist())}")
            weights = scaled
        weights, unknown = weights[order], np.zeros(k, dtype=np.int64)
        with np.errstate(over="ignore"):  # found by the constructor
            scatters = weights[:, None, None] * matrices[order]
        found = cls(labels, unknown, weights, means[order], scatters, weight_exponent=exponent)
        halves = (scatters + scatters.transpose(0, 2, 1)) / 2
        return replace(found, scatters=halves, is_made_here=True).check_range()

    @property
    def finest(self) -> "GroupMoments":
        """Moments of each group and class of y where these are known, or else of each group."""
        return self.by_class or self

    @property
    def imputation_model(self) -> NormalModel | None:
        """The normal model of all rows together, of moments of rows with missing cells.

        By its mean and covariance, of no group, missing cells of any row are expected.
        """
        if self.em_summary is None:
            return None
        second = self.second_moments_about(self.mean).matrices
        return NormalModel(self.mean, np.asarray(np.tensordot(self.proportions, second, axes=1)))

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
        return self.second_moments_about(self.center_point(center)).matrices

    def second_moments_about(self, point: FloatArray | None) -> DenseSecondMoments:
        """The same in the form that solvers need; about each group's own mean if it is None."""
        # In C's order whatever that of the scatters, as what is added in place must not be lost.
        second = np.divide(self.scatters, self.weights[:, None, None], order="C")
        if point is not None:
            for matrix, offset in zip(second, self.offsets_from(point), strict=True):
                # In place: with many features another k p^2 numbers would be much.
                blas.dger(1.0, offset, offset, a=matrix.T, overwrite_a=1)
        doubt = None
        if self.em_summary is not None:
            traces = np.einsum("gii->g", second)
            doubt = Doubt.of(self.scatters, traces, self.em_summary.left)
        return DenseSecondMoments(
            second, offset_rounding_error=self.offset_rounding(point), doubt=doubt
        )

    def to_dense(self) -> "GroupMoments":
        """These moments themselves."""
        return self

    def divided_by(self, scale: FloatArray) -> "GroupMoments":
        """The moments of the rows divided by `scale`, a (p,) array of positive numbers."""
        by_label = None if self.by_class is None else self.by_class.divided_by(scale)
        whole = self.all_columns
        if whole is not None:
            beside = np.ones(whole.n_features - self.n_features)
            whole = whole.divided_by(np.concatenate([scale, beside]))
        low = 0.0 if self.mean_corrections is None else self.mean_corrections
        means, corrections = divide(self.means, low, scale)
        return replace(
            self,
            means=means,
            mean_corrections=corrections,
            scatters=self.scatters / np.outer(scale, scale),
            by_class=by_label,
            all_columns=whole,
            is_made_here=True,
        )

    def select_features(self, features: Sequence[int]) -> "GroupMoments":
        """The moments of some of the features, by position, in this order."""
        index = np.asarray(features, dtype=np.intp)
        names, whole = self.feature_names, self.all_columns
        if whole is not None:
            whole = whole.select_features([*features, *range(self.n_features, whole.n_features)])
        return replace(
            self,
            means=self.means[:, index],
            mean_corrections=_chosen(self.mean_corrections, (slice(None), index)),
            scatters=self.scatters[:, index[:, None], index],
            feature_names=None if names is None else tuple(names[i] for i in index),
            by_class=None if self.by_class is None else self.by_class.select_features(features),
            all_columns=whole,
            is_made_here=True,
        )

    def with_attributes(self, columns: Sequence[ColumnKey]) -> "GroupMoments":
        """The moments of the other columns, which keep these as :attr:`whole`.

        Parameters
        ----------
        columns : sequence of str or int
            By name, or by position where the columns have no names.

        Raises
        ------
        InvalidInput
            A column that is not there, or none that is left.

        Examples
        --------
        >>> features = GroupMoments.from_rows(np.eye(3), ["a", "a", "b"]).apart([1])
        >>> features.n_features, features.whole.n_features
        (2, 3)
        """
        if not columns or self.all_columns is not None:
            return self
        beside = column_positions(columns, self.feature_names, self.n_features)
        features = [each for each in range(self.n_features) if each not in beside]
        whole = self.select_features([*features, *beside])
        arrays = whole.select_features(range(len(features)))
        return replace(arrays, all_columns=whole, is_made_here=True)

    @explain_memory_errors()
    def __add__(self, other: object) -> "GroupMoments":
        if not isinstance(other, GroupMoments):
            return NotImplemented
        return merge_moments([self, other])

    def __radd__(self, other: object) -> "GroupMoments":
        # sum() starts from 0.
        return self if other == 0 else NotImplemented

    def reorder_features(self, names: tuple[str, ...] | None) -> "GroupMoments":
        """The same moments with the features in this order, if they are the same ones."""
        arrays = self.feature_names
        if arrays is None or names is None or arrays == names or sorted(arrays) != sorted(names):
            return self
        return self.select_features([arrays.index(name) for name in names])

    def in_weight_units(self, exponent: int) -> "GroupMoments":
        """Return the moments with weights in units of 2**exponent, without negligible groups."""
        shift = self.weight_exponent - exponent
        if shift == 0:
            return self
        weights = in_units(self.weights, -shift)
        with np.errstate(under="ignore"):
            scatters = np.ldexp(self.scatters, shift)
        arrays = replace(self, by_class=None, all_columns=None, is_made_here=True)
        scaled = replace(
            arrays, weights=weights, scatters=scatters, weight_exponent=exponent, is_made_here=True
        )
        return scaled.select_groups(weights > 0)

    def sum_over_classes(self) -> "GroupMoments":
        """Moments of groups, from these of pairs of a group and a class, which it keeps."""
        whole, how = merge_moments([self], without_last_attribute), self.em_summary
        if how is not None:
            kinds = [whole.labels.index(without_last_attribute(pair)) for pair in self.labels]
            how = how.merge_groups(kinds, whole.n_groups)
        return replace(whole, by_class=self, em_summary=how, is_made_here=True)

    def drop_small_groups(self, min_rows: int) -> "GroupMoments":
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
        is_large = self.counts >= min_rows
        if not is_large.any():
            raise InvalidInput(
                f"No group has {counted(min_rows, 'row')}; the largest has {self.counts.max()}",
                "Allowed: a minimum that leaves at least one group",
                "Lower it, or join groups before the moments are made",
            )
        selected = self.select_groups(is_large)
        is_small = selected.by_class is not None and (selected.by_class.counts < min_rows).any()
        if not is_small:
            return selected
        whole = (
            None
            if selected.all_columns is None
            else replace(selected.all_columns, by_class=None, is_made_here=True)
        )
        return replace(selected, by_class=None, all_columns=whole, is_made_here=True)

    def select_groups(self, mask: BoolArray | Sequence[int]) -> "GroupMoments":
        """The moments of some of the groups: a (k,) array that says which, or their positions."""
        pairs = self.by_class
        if pairs is not None:
            remaining = set(to_python_labels(self.groups[mask]))
            pairs = pairs.select_groups(
                np.array([without_last_attribute(pair) in remaining for pair in pairs.labels])
            )
        return replace(
            self,
            by_class=pairs,
            all_columns=None if self.all_columns is None else self.all_columns.select_groups(mask),
            groups=self.groups[mask],
            counts=self.counts[mask],
            weights=self.weights[mask],
            means=self.means[mask],
            mean_corrections=_chosen(self.mean_corrections, mask),
            scatters=self.scatters[mask],
            em_summary=None if self.em_summary is None else self.em_summary.select_groups(mask),
            is_made_here=True,
        )

    def relabeled(self, labels: Sequence[Label]) -> "GroupMoments":
        """Return the moments of the same groups under other labels, in the order of these.

        Parameters
        ----------
        labels : sequence of k labels
            All different, in the order of the groups.
        """
        order = sorted(range(self.n_groups), key=labels.__getitem__)
        ordered = replace(self, by_class=None, all_columns=None, is_made_here=True).select_groups(
            order
        )
        return replace(ordered, groups=label_array([labels[i] for i in order]), is_made_here=True)

    def matched_to(self, known: KnownLabels) -> "GroupMoments":
        """Return the moments with labels of a fit in place of labels that are equal as text.

        Warns if there are any; see :class:`~fairspan.rows.label_matching.KnownLabels`.
        """
        pairs = CodedLabels.from_labels(self.finest.labels)
        matched = known.match(pairs)
        if matched is pairs:
            return self
        if (notice := known.notice(pairs)) is not None:
            warn(notice)
        return self._matched_to(known)

    def _matched_to(self, known: KnownLabels) -> "GroupMoments":
        arrays = self.relabeled(known.match(CodedLabels.from_labels(self.labels)).to_list())
        by_label, whole = self.by_class, self.all_columns
        return replace(
            arrays,
            by_class=None if by_label is None else by_label._matched_to(known),
            all_columns=None if whole is None else whole._matched_to(known),
            is_made_here=True,
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to exactly the name given: npz arrays with a JSON header, no pickle.

        The file appears only when it is complete.

        Raises
        ------
        InvalidParameter
            The name is that of another kind of file, such as a table, or cannot be written.
        """
        check_suffix(path, "moments are")
        write_atomic(path, check_partial(self).to_bytes())

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
        moments = load_partial(path)
        if not moments.n_groups:
            raise MOMENTS_SCHEMA.error_for(
                str(path), SchemaViolation("groups", "is []", "at least one group")
            )
        return moments.check_range()

    def to_bytes(self) -> bytes:
        """What :meth:`save` would write."""
        if self.all_columns is not None:
            if self.feature_names is None:
                raise InvalidInput(
                    "The moments hold columns that are no features, and have no names",
                    "Allowed: names, by which these columns are found again",
                    "Make the moments of a data frame",
                )
            return self.all_columns.to_bytes()
        names, stored = self.feature_names, self.finest
        header: dict[str, Any] = {
            "groups": stored.labels,
            "feature_names": None if names is None else list(names),
            "n_dropped": self.n_dropped,
        }
        if self.by_class is not None:
            header["n_label_columns"] = 1
        if self.weight_exponent:
            header["weight_exponent"] = self.weight_exponent
        if stored.em_summary is not None:
            header["em_summary"] = vars(stored.em_summary)
        triangles = stored.scatters[:, np.tri(self.n_features, dtype=bool)]
        arrays = {"counts": stored.counts, "weights": stored.weights, "means": stored.means}
        if stored.mean_corrections is not None:
            arrays["mean_corrections"] = stored.mean_corrections
        return pack_archive(MOMENTS_SCHEMA.kind, header, {**arrays, "triangles": triangles})

    @classmethod
    def from_bytes(cls, contents: bytes) -> "GroupMoments":
        """Read what :meth:`to_bytes` gave.

        Raises
        ------
        CorruptFile
            The bytes are truncated, altered or of another kind.
        """
        return _from_archive(
            read_archive(contents, MOMENTS_SCHEMA), "The archive that was received"
        )


def _chosen(array: FloatArray | None, index: Any) -> FloatArray | None:
    return None if array is None else array[index]


def _of_stacked(stacked: StackedMoments, **others: Any) -> GroupMoments:
    return GroupMoments(
        stacked.labels,
        stacked.counts,
        stacked.weights,
        stacked.means,
        stacked.scatters,
        mean_corrections=stacked.mean_corrections,
        is_made_here=True,
        **others,
    )


def _invalid_moments_error(received: str) -> InvalidInput:
    return InvalidInput(
        received,
        "Allowed: symmetric matrices (k, p, p) without negative eigenvalues, means (k, p), "
        "positive weights (k,), none less than 1e-200 of the largest, within "
        f"{SMALLEST_WEIGHT:.0e} to {_LARGEST_GROUP_WEIGHT:.0e} for the constructor, "
        "counts (k,) of zero or more, and k different groups; all finite. "
        "The constructor takes groups in sorted order, from_covariances in any",
        "Check each argument; where matrices were rounded, set their negative eigenvalues to zero",
    )


def _check_arrays(arrays: dict[str, tuple[AnyArray, tuple[int, ...]]]) -> None:
    """Make sure that arrays have their shapes and hold finite numbers; raises InvalidInput."""
    for name, (array, shape) in arrays.items():
        if np.shape(array) != shape:
            raise _invalid_moments_error(f"{name} has shape {np.shape(array)}, not {shape}")
        if not np.isfinite(array).all():
            raise _invalid_moments_error(f"{name} holds NaN or infinity")


def merge_moments(
    parts: Sequence[GroupMoments], relabel: Callable[[Label], Label] = lambda label: label
) -> GroupMoments:
    """Moments of the rows of all parts, in one step, by Chan, Golub and LeVeque (1979).

    Parameters
    ----------
    parts : sequence of GroupMoments
        At least one.
    relabel : callable, optional
        What each label becomes; groups that get the same label are one.

    Raises
    ------
    InvalidInput
        Other features, or labels of another type; numbers that overflow together.
    """
    first = parts[0]
    parts = [part.reorder_features(first.feature_names) for part in parts]
    for part in parts[1:]:
        check_mergeable(first, part)
    n_dropped = sum(part.n_dropped for part in parts)
    if first.all_columns is not None:
        all_columns = merge_moments(
            [part.all_columns for part in parts if part.all_columns is not None], relabel
        )
        return replace(
            all_columns.select_features(range(first.n_features)),
            all_columns=all_columns,
            is_made_here=True,
        )
    if first.by_class is not None:
        pairs = [part.by_class for part in parts if part.by_class is not None]
        found = merge_moments(pairs, relabel).sum_over_classes()
        return replace(found, n_dropped=n_dropped, is_made_here=True)
    exponent = _common_exponent(parts)
    parts = _in_common_units(parts, exponent)
    sums: dict[Label, RunningMoments] = {}
    with np.errstate(over="ignore", invalid="ignore"):  # found by the check
        for part in parts:
            corrections = part.mean_corrections
            for group, label in enumerate(part.labels):
                arrays = RunningMoments(
                    part.means[group],
                    int(part.counts[group]),
                    part.weights[group],
                    0.0 if corrections is None else corrections[group],
                    part.scatters[group].copy(),
                )
                merge_into(sums, relabel(label), arrays)
        stacked = stack_by_label(sums, first.n_features)
        lost = {relabel(label) for part in parts for label in part.lost_groups}
        whole = _of_stacked(
            stacked,
            feature_names=first.feature_names,
            n_dropped=n_dropped,
            weight_exponent=exponent,
            lost_groups=frozenset(lost.difference(to_python_labels(stacked.labels))),
        )
    return check_partial(whole)


def _common_exponent(parts: Sequence[GroupMoments]) -> int:
    """Return the exponent of a unit in which the weights of all parts are within range."""
    exponents = {part.weight_exponent for part in parts}
    if len(exponents) == 1:
        return exponents.pop()
    weighted = [part for part in parts if part.n_groups]
    smallest = [np.frexp(part.weights.min())[1] + part.weight_exponent for part in weighted]
    largest = [np.frexp(part.weights.max())[1] + part.weight_exponent for part in weighted]
    low, high = int(np.frexp(SMALLEST_WEIGHT)[1]), int(np.frexp(LARGEST_WEIGHT)[1])
    if not weighted or (min(smallest) >= low and max(largest) <= high):
        return 0
    exponent = int(max(largest)) - high
    return exponent + exponent % 2


def _in_common_units(parts: Sequence[GroupMoments], exponent: int) -> list[GroupMoments]:
    """Return the parts with weights in units of 2**exponent, without groups that are negligible.

    Warns of groups that are, and of those that no other part has.
    """
    scaled = [part.in_weight_units(exponent) for part in parts]
    selected = {label for part in scaled for label in part.labels}
    if sum(part.n_groups for part in scaled) < sum(part.n_groups for part in parts):
        every = dict.fromkeys(label for part in parts for label in part.labels)
        limit = math.ldexp(SMALLEST_WEIGHT, exponent)
        warn_of_negligible("A part", limit, [label for label in every if label not in selected])
    return scaled


def check_partial(moments: GroupMoments) -> GroupMoments:
    """The same moments, which may be of a part of the rows, in which a column may be tiny.

    Raises
    ------
    InvalidInput
        Numbers or weights so large that second moments overflow.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        if not np.isfinite(moments.weights.sum()):
            raise InvalidInput(
                "The weights of the rows overflow float64 together",
                "Allowed: weights with a finite sum",
                "Divide all of them by a constant",
            )
        check_magnitudes(moments.means, moments.variances, moments.feature_names, is_partial=True)
    return moments


def check_mergeable(a: GroupMoments, b: GroupMoments) -> None:
    """Make sure that moments have the same features in the same order, and labels of one type.

    Raises
    ------
    InvalidInput
        Lists what differs: features that are missing in `b`, that it has besides, or the first in
        another place; the types or the number of attributes of the labels.
    """
    if a.em_summary is not None or b.em_summary is not None:
        raise InvalidInput(
            "Some of the moments are of rows with missing cells, completed by the EM algorithm",
            "Allowed: moments of complete rows, which add up. What is expected of a missing cell "
            "depends on all rows, so such moments of parts are not those of the whole",
            "Read all rows together, such as a folder of files or a Dask or Spark collection: "
            'GroupMoments.from_rows(..., on_missing="em"); or leave incomplete rows out of each '
            'part: GroupMoments.from_rows(..., on_missing="drop")',
            cause=Cause.INCOMPLETE_PARTS,
        )
    differences = []
    if a.n_features != b.n_features or a.feature_names != b.feature_names:
        before, names = a.feature_names or (), b.feature_names or ()
        differing = {
            "missing": [name for name in before if name not in names],
            "besides": [name for name in names if name not in before],
        }
        told = [f"{format_list(found)} {word}" for word, found in differing.items() if found]
        details = f" ({', '.join(told)})" if told and before and names else ""
        differences.append(
            f"The features differ: {_describe_features(a)} against {_describe_features(b)}{details}"
        )
    if (a.all_columns is None) != (b.all_columns is None):
        differences.append("One of them has columns that are no features, the other does not")
    if (a.by_class is None) != (b.by_class is None):
        differences.append("One of them knows the class that each row has in y, the other does not")
    elif a.n_groups and b.n_groups and {*map(label_type, a.labels)} != {*map(label_type, b.labels)}:
        differences.append(
            f"The groups are of different types: {format_list(a.labels)} against {format_list(b.labels)} "
            f"({describe_label_type(a.labels)} against {describe_label_type(b.labels)})"
        )
    if differences:
        raise InvalidInput(
            "; ".join(differences),
            "Allowed: moments of the same features, with labels of one type",
            "Read both parts with the same columns, and with labels of one type, for example by "
            "astype(str); of saved moments, fairspan merge --label-type text joins labels",
        )


def _describe_features(moments: GroupMoments) -> str:
    if moments.feature_names is None:
        return f"{moments.n_features} without names"
    return f"{moments.n_features} named {format_list(moments.feature_names)}"


def _from_archive(stored: dict[str, Any], name: str) -> GroupMoments:
    """The moments again, from header and arrays as the schema allows them.

    Raises
    ------
    CorruptFile
        A scatter that no rows have, or numbers whose squares overflow.
    """
    names, p = stored["feature_names"], stored["means"].shape[1]
    labels = to_python_labels(stored["groups"])
    scatters = np.zeros((len(labels), p, p))
    scatters[:, np.tri(p, dtype=bool)] = stored["triangles"]
    scatters += np.tril(scatters, -1).transpose(0, 2, 1)
    has_classes = stored.get("n_label_columns", 0) == 1
    try:
        for index, label in enumerate(labels):
            if has_classes and not (isinstance(label, tuple) and len(label) > 1):
                raise SchemaViolation(
                    f"groups[{index}]", "has no class of y", "a group and a class"
                )
        moments = GroupMoments(
            label_array(labels),
            stored["counts"],
            stored["weights"],
            stored["means"],
            scatters,
            mean_corrections=stored.get("mean_corrections"),
            feature_names=None if names is None else tuple(names),
            n_dropped=stored["n_dropped"],
            weight_exponent=stored.get("weight_exponent", 0),
            em_summary=_em_summary_from_header(stored.get("em_summary")),
        )
        check_partial(moments)
        return moments.sum_over_classes() if has_classes else moments
    except ValueError as error:
        raise MOMENTS_SCHEMA.error_for(name, error) from error


def _em_summary_from_header(stored: dict[str, Any] | None) -> EMSummary | None:
    if stored is None:
        return None
    counts = np.array(stored["n_missing_cells"])
    weights = np.array(stored["pool_weights"], dtype=np.float64)
    return EMSummary(**{**stored, "n_missing_cells": counts, "pool_weights": weights})


def load_partial(path: str | os.PathLike[str]) -> GroupMoments:
    """Read saved moments, which may be of a part of some rows, and have no group.

    Raises
    ------
    FileNotFoundError, CorruptFile
        As of :meth:`GroupMoments.load`.
    """
    return _from_archive(read_archive(path, MOMENTS_SCHEMA), str(path))


@dataclass(frozen=True)
class MomentsAggregator:
    """The pass over rows that sums the moments of each group.

    Attributes
    ----------
    limit : GroupLimit
        How many groups there may be.
    folds : Folds or None
        With these, the last attribute of each label is the fold of the rows.
    """

    limit: GroupLimit = DEFAULT_GROUP_LIMIT
    folds: Folds | None = None

    @explain_memory_errors()  # also in workers, whose errors say which part it was
    def aggregate(self, rows: RowSource) -> GroupMoments:
        """Moments of some rows; of no group if there are none."""
        self.limit.check_memory(1, rows.n_features)  # how many groups there are, the rows tell
        if (
            isinstance(rows, SparseRows)
            and rows.density <= _MAX_SPARSE_DENSITY
            and self.folds is None
        ):
            groups, n_dropped = group_sparse_rows(rows, self.limit)
            self.limit.check_memory(len(groups), rows.n_features)
            found = dense_moments(groups, rows.n_features, n_dropped)
            if n_dropped:
                lost_groups = rows.lost_groups(found.labels)
                found = replace(found, lost_groups=lost_groups, is_made_here=True)
        else:
            sums = accumulate_rows(rows, self.limit, self.folds)
            found = _of_stacked(
                sums.stacked,
                feature_names=rows.feature_names,
                n_dropped=sums.n_dropped,
                lost_groups=sums.lost_groups,
            )
        if isinstance(rows, BaseRows) and rows.weight_exponent:
            exponent = rows.weight_exponent
            found = replace(found, weight_exponent=exponent, is_made_here=True)
        return check_partial(found)

    @explain_memory_errors()
    def merge(self, left: GroupMoments, right: GroupMoments) -> GroupMoments:
        """Moments of both parts."""
        labels = {*left.finest.labels, *right.finest.labels}
        if self.folds is not None:
            labels = set(map(without_last_attribute, labels))
        self.limit.check(labels, int(left.counts.sum() + right.counts.sum()), so_far=True)
        self.limit.check_memory(len(labels), left.n_features)
        return merge_moments([left, right])


def dense_moments(groups: Sequence[GroupRows], n_features: int, n_dropped: int) -> GroupMoments:
    """Moments with matrices of rows that are held by group."""
    sums = {
        each.label: RunningMoments(
            each.shift,
            len(each.row_indices),
            each.weight,
            each.mean_about_pilot,
            each.scatter(),
        )
        for each in groups
    }
    with np.errstate(over="ignore", invalid="ignore"):  # found by the check
        stacked = stack_by_label(sums, n_features)
    return _of_stacked(stacked, n_dropped=n_dropped)


@explain_memory_errors()
def compute_group_moments(
    rows: Rows,
    limit: GroupLimit = DEFAULT_GROUP_LIMIT,
    initial: GroupMoments | None = None,
    *,
    has_y: bool = False,
    folds: Folds | None = None,
) -> GroupMoments:
    """Moments of each group, from one pass over the rows; rows of weight zero count as absent.

    Parameters
    ----------
    rows : RowSource or PartitionedRows
        With labels.
    limit : GroupLimit
        How many groups there may be.
    onto : GroupMoments, optional
        Of rows that came before. These are then added, and the limit is one of all rows.
    has_y : bool
        Whether the last column of the labels is the class that a row has in y.
    folds : Folds, optional
        With these, the last attribute of each label is the fold of the rows, and classes stay as
        they are.

    Raises
    ------
    InvalidInput
        Whatever the source finds wrong with its rows; no rows at all; too many groups; numbers
        whose squares overflow.
    """
    if isinstance(rows, RowsWithAttributes):
        before = None if initial is None else initial.all_columns
        all_columns = compute_group_moments(rows.source, limit, before, has_y=has_y, folds=folds)
        return all_columns.with_attributes(rows.attributes)
    limit = replace(limit.for_rows(rows), has_y=has_y)
    if isinstance(rows, BaseRows) and rows.keeps_missing:
        stacked, n_dropped, how = fit_em(rows, limit)
        if not len(stacked.labels):
            raise no_rows_error(n_dropped)
        if n_dropped:
            were = "row was" if n_dropped == 1 else "rows were"
            warn(f"{n_dropped:,} {were} left out, without a group or without any observed feature")
            warn_of_lost_groups(rows, n_beside=int(has_y))
        names = rows.feature_names
        expected = _of_stacked(
            stacked,
            feature_names=names,
            n_dropped=n_dropped,
            em_summary=how,
            weight_exponent=rows.weight_exponent,
        )
        expected = expected.sum_over_classes() if has_y else expected
        return expected.check_range() if initial is None else merge_moments([initial, expected])
    limit.check_memory(1, rows.n_features)  # before a cluster is asked, or started
    if not isinstance(rows, SparseRows | DeviceRows):
        warn_if_slow(rows.n_rows, rows.n_features)
    tally = MomentsAggregator(limit, folds)
    found = aggregate(rows, tally)
    if found is None or not found.n_groups:
        n_dropped = 0 if found is None else found.n_dropped
        raise no_complete_rows(rows, n_dropped, int(has_y))
    if has_y and folds is None and found.by_class is None:
        found = found.sum_over_classes()
    if found.lost_groups:
        warn_of_lost_groups(rows, found.lost_groups, int(has_y))
    if initial is not None:
        found = tally.merge(initial, found)
    check_whole_numbers(rows, found)
    return found.check_range()
