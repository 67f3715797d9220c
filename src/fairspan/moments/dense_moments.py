"""Moments with a scatter matrix for each group: their values, and algebra within one set."""

from collections.abc import Sequence
from dataclasses import InitVar, dataclass, replace
from typing import Self, TypedDict, Unpack

import numpy as np
from scipy.linalg import blas

from fairspan.errors import InvalidInput, warn
from fairspan.formatting.messages import counted
from fairspan.linalg.double_double import divide
from fairspan.moments.base_moments import BaseMoments, Center
from fairspan.moments.em import EMSummary
from fairspan.moments.em_uncertainty import EMUncertainty
from fairspan.moments.moment_validation import check_moments
from fairspan.moments.normal_model import NormalModel
from fairspan.moments.running_moments import StackedMoments
from fairspan.moments.second_moments import DenseSecondMoments
from fairspan.rows.attributes import ColumnKey, column_positions
from fairspan.rows.coded_labels import CodedLabels
from fairspan.rows.label_matching import KnownLabels
from fairspan.rows.labels import Label, label_array, to_python_labels, without_last_attribute
from fairspan.rows.weights import in_units
from fairspan.typing import BoolArray, FloatArray, IndexArray


class MomentsDetails(TypedDict, total=False):
    """Optional fields of moments, besides their matrices."""

    feature_names: tuple[str, ...] | None
    n_dropped: int
    weight_exponent: int
    em_summary: EMSummary | None
    lost_groups: frozenset[Label]


@dataclass(frozen=True, eq=False, repr=False)
class DenseMoments(BaseMoments):
    """Moments with matrices: weight, mean and scatter of each group.

    Selections, divisions and other units within one set of moments; merging is in
    :mod:`fairspan.moments.merging`, and reading rows and files in
    :class:`~fairspan.moments.group_moments.GroupMoments`, which documents the attributes.
    """

    scatters: FloatArray
    by_class: Self | None = None
    all_columns: Self | None = None
    em_summary: EMSummary | None = None
    lost_groups: frozenset[Label] = frozenset()
    # Moments computed here skip validation, which costs up to a tenth of an eigendecomposition.
    skip_validation: InitVar[bool] = False

    def __post_init__(self, skip_validation: bool) -> None:
        # Users and files may pass any arrays; moments computed here are valid.
        if not skip_validation:
            check_moments(self, self.scatters)

    @classmethod
    def from_stacked(cls, stacked: StackedMoments, **details: Unpack[MomentsDetails]) -> Self:
        """Make moments from the arrays of `stacked`, with further fields in `details`."""
        return cls(
            stacked.labels,
            stacked.counts,
            stacked.weights,
            stacked.means,
            stacked.scatters,
            mean_corrections=stacked.mean_corrections,
            skip_validation=True,
            **details,
        )

    @property
    def finest(self) -> Self:
        """Moments by group and class if available, otherwise by group."""
        return self if self.by_class is None else self.by_class

    @property
    def is_em_estimated(self) -> bool:
        """Whether the rows were incomplete, and their moments were estimated by EM."""
        return self.em_summary is not None

    @property
    def em_distance(self) -> float:
        """Distance of the EM estimates from their limit, in standard deviations; 0 without EM."""
        return 0.0 if self.em_summary is None else self.em_summary.distance

    @property
    def imputation_model(self) -> NormalModel | None:
        """Normal model of all rows; None unless the rows had missing cells.

        It imputes missing cells of rows without regard to their group.
        """
        if not self.is_em_estimated:
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

    def second_moments_about(self, point: FloatArray) -> DenseSecondMoments:
        """Second moments about a (p,) point, or about (k, p) points, one for each group.

        S_g is the scatter of the group divided by its weight, plus the outer product of its mean
        minus the point. Moments fitted by EM come with a bound on the error of the unfinished
        iteration.
        """
        # C order, so that the in-place update below works on the result and not on a copy.
        matrices = np.divide(self.scatters, self.weights[:, None, None], order="C")
        for matrix, offset in zip(matrices, self.offsets_from(point), strict=True):
            if offset.any():
                # In place, to avoid another k p^2 entries.
                blas.dger(1.0, offset, offset, a=matrix.T, overwrite_a=1)
        traces = np.einsum("gii->g", matrices)
        return DenseSecondMoments(
            matrices,
            offset_rounding_error=self.offset_rounding(point),
            uncertainty=EMUncertainty.from_distance(self.scatters, traces, self.em_distance),
        )

    def to_dense(self) -> Self:
        """Return self; these moments are dense."""
        return self

    def in_features(self) -> Self:
        """Return self; problems are posed in the features already."""
        return self

    def for_verification(self, n_components: int, *, has_restriction: bool) -> Self:
        """Return self; matrices prove as much as can be proven."""
        return self

    def reduce_to_row_space(self, n_components: int | float, center: Center) -> None:
        """Return None: matrices do not tell the span of the rows."""

    def divided_by(self, scale: FloatArray) -> Self:
        """Moments of the rows divided by `scale`, a (p,) array of positive numbers.

        Only features are divided; attribute columns in :attr:`all_columns` keep their units.
        """
        by_class = None if self.by_class is None else self.by_class.divided_by(scale)
        all_columns = self.all_columns
        if all_columns is not None:
            attribute_scale = np.ones(all_columns.n_features - self.n_features)
            all_columns = all_columns.divided_by(np.concatenate([scale, attribute_scale]))
        # Means are stored as rounded numbers and corrections, which are divided together.
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

    def select_features(self, features: Sequence[int]) -> Self:
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

    def select_named_features(self, names: Sequence[str] | None) -> Self:
        """Select features by name, in this order; return self if some name is unknown.

        Unnamed features, and features for unknown names (None), are returned unchanged as well.
        """
        feature_names = self.feature_names
        if not names or not feature_names or not set(names) <= set(feature_names):
            return self
        return self.select_features([feature_names.index(name) for name in names])

    def reorder_features(self, names: tuple[str, ...] | None) -> Self:
        """Reorder the features if the names are a permutation; otherwise return self."""
        old_names = self.feature_names
        if old_names is None or names is None or old_names == names:
            return self
        if sorted(old_names) != sorted(names):
            return self
        return self.select_features([old_names.index(name) for name in names])

    def with_attributes(self, columns: Sequence[ColumnKey]) -> Self:
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
        >>> from fairspan import GroupMoments
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

    def select_groups(self, mask: BoolArray | Sequence[int]) -> Self:
        """Select groups by a (k,) boolean mask, or by position."""
        by_class = self.by_class
        if by_class is not None:
            # Keep all classes of the selected groups: a pair is a group and then a class.
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

    def drop_small_groups(self, min_rows: int) -> Self:
        """Drop groups with fewer than `min_rows` rows, whose moments would reveal single rows.

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
        # Moments of all columns have the same classes as those of the features.
        all_columns = selected.all_columns
        if all_columns is not None:
            all_columns = replace(all_columns, by_class=None, skip_validation=True)
        return replace(selected, by_class=None, all_columns=all_columns, skip_validation=True)

    def relabeled(self, labels: Sequence[Label]) -> Self:
        """Return the moments with other labels, sorted by these, without classes and attributes.

        Moments by class (`by_class`) have pairs of group and class as labels, and those of features
        and attributes (`all_columns`) repeat the labels of the groups. Both would contradict the
        new labels, so they are left out.

        Parameters
        ----------
        labels : sequence of k labels
            Distinct labels, in the order of the groups.
        """
        order = sorted(range(self.n_groups), key=labels.__getitem__)
        by_group = replace(self, by_class=None, all_columns=None, skip_validation=True)
        sorted_labels = label_array([labels[i] for i in order])
        return replace(by_group.select_groups(order), groups=sorted_labels, skip_validation=True)

    def matched_to(self, known: KnownLabels) -> Self:
        """Replace labels by labels of a fit that are equal as text, such as 1 by "1".

        Warns if a label is replaced; see :class:`~fairspan.rows.label_matching.KnownLabels`.
        """
        # Labels of moments with classes are pairs of group and class.
        known_labels = known if self.by_class is None else known.of_pairs()
        labels = CodedLabels.from_labels(self.finest.labels)
        matched = known_labels.match(labels)
        if matched is labels:
            return self
        if (notice := known_labels.describe_matches(labels)) is not None:
            warn(notice)
        return self._matched_to(known)

    def _matched_to(self, known: KnownLabels) -> Self:
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

    def in_weight_units(self, exponent: int) -> Self:
        """Return the moments with weights in units of 2**exponent, without negligible groups.

        The scatter of a group is a sum of weighted products, which neither overflow nor underflow
        if the weights are between 1e-100 and 1e100. Other weights are divided by a power of two,
        2**weight_exponent, which is exact; parts are merged in one common unit. A group whose
        weight is zero in that unit is negligible beside the others, and is left out.

        The result has neither classes nor attributes, unless the unit is the same.
        """
        # Weights and scatters are multiplied by 2**shift.
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


def _take_optional(
    array: FloatArray | None, index: BoolArray | Sequence[int] | tuple[slice, IndexArray]
) -> FloatArray | None:
    return None if array is None else array[index]
