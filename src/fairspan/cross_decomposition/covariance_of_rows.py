"""Covariance that pairs keep of single rows, which they were not fitted to."""

from dataclasses import dataclass, replace

import numpy as np

from fairspan.cross_decomposition.cross_covariances import leading_pairs
from fairspan.cross_decomposition.fit_pairs import fit_pairs
from fairspan.cross_decomposition.joined_tables import JoinedRows
from fairspan.cross_decomposition.pose_pairs import PairedSettings, pose_pairs
from fairspan.errors import InvalidType
from fairspan.moments.base_moments import Center
from fairspan.moments.group_moments import GroupMoments, compute_group_moments
from fairspan.moments.merging import merge_moments
from fairspan.rows.aggregation import as_row_source
from fairspan.rows.arrays import ArrayRows
from fairspan.rows.blocks import RowBlock, select_rows
from fairspan.rows.coded_labels import CodedLabels
from fairspan.rows.folds import Folds
from fairspan.typing import BoolArray, FloatArray, IndexArray


@dataclass(frozen=True, eq=False)
class FoldedRows:
    """Rows of a joined table in memory, with their folds.

    Attributes
    ----------
    values : (n, p + q) array
    group_codes, cluster_codes, fold_codes : (n,) arrays of int
        Positions of the groups in those of the moments; clusters, or rows if there are none; and
        folds.
    weights : (n,) array
    n_targets : int
        q.
    moments : GroupMoments
        Of all rows.
    fold_moments : tuple of GroupMoments
        Of the rows of each fold; folds without rows are left out.
    fold_numbers : tuple of int
        Fold of each of these moments.
    """

    values: FloatArray
    group_codes: IndexArray
    cluster_codes: IndexArray
    fold_codes: IndexArray
    weights: FloatArray
    n_targets: int
    moments: GroupMoments
    fold_moments: tuple[GroupMoments, ...]
    fold_numbers: tuple[int, ...]

    def moments_without(self, fold: int) -> GroupMoments:
        """Moments of the rows outside a fold."""
        others = [
            moments
            for number, moments in zip(self.fold_numbers, self.fold_moments, strict=True)
            if number != fold
        ]
        return merge_moments(others)


def fold_rows(joined: JoinedRows, folds: Folds) -> FoldedRows:
    """Read the rows of a joined table, and assign them to folds.

    Raises
    ------
    InvalidType
        The rows are on a cluster.
    """
    source = as_row_source(joined.rows)
    if source is None:
        raise InvalidType(
            f"X is of type {type(joined.rows).__name__}, whose partitions are read in place",
            "Allowed: arrays, data frames and files, which are read into memory",
            "Load the rows into memory, or a random part of them",
        )
    blocks = [_without_zero_weights(block) for block in source.blocks()]
    values = np.concatenate([block.values for block in blocks])
    groups = _join_labels([block.groups for block in blocks])
    positions = np.concatenate([block.positions for block in blocks])
    clusters = _join_clusters(blocks)
    fold_codes = folds.assign(positions, clusters)
    weights = np.concatenate(
        [np.ones(len(block.values)) if block.weights is None else block.weights for block in blocks]
    )
    names = joined.rows.feature_names
    numbers = tuple(np.unique(fold_codes).tolist())
    moments = tuple(
        _moments_of(values, groups, weights, fold_codes == fold, names) for fold in numbers
    )
    merged = merge_moments(list(moments))
    positions_by_label = {label: index for index, label in enumerate(merged.labels)}
    # -1 for categories without rows.
    group_positions = np.array(
        [positions_by_label.get(label, -1) for label in groups.categories], dtype=np.intp
    )
    cluster_codes = np.arange(len(values)) if clusters is None else clusters.codes
    return FoldedRows(
        values=values,
        group_codes=group_positions[groups.codes],
        cluster_codes=cluster_codes,
        fold_codes=fold_codes,
        weights=weights,
        n_targets=joined.n_targets,
        moments=merged,
        fold_moments=moments,
        fold_numbers=numbers,
    )


def _without_zero_weights(block: RowBlock) -> RowBlock:
    """Return the block without rows of weight zero, which are no evidence."""
    if block.weights is None or (block.weights > 0).all():
        return block
    kept = np.flatnonzero(block.weights > 0)
    return replace(
        block,
        values=block.values[kept],
        groups=select_rows(block.groups, kept),
        weights=block.weights[kept],
        clusters=select_rows(block.clusters, kept),
        kept_offsets=block.positions[kept] - block.first_row,
    )


def _join_labels(parts: list[CodedLabels | None]) -> CodedLabels:
    """Labels of consecutive blocks as those of one."""
    labels = [label for part in parts if part is not None for label in part.to_list()]
    return CodedLabels.from_labels(labels)


def _join_clusters(blocks: list[RowBlock]) -> CodedLabels | None:
    """Clusters of all rows; None if rows are independent."""
    parts = [block.clusters for block in blocks]
    return None if parts[0] is None else _join_labels(parts)


def _moments_of(
    values: FloatArray,
    groups: CodedLabels,
    weights: FloatArray,
    mask: BoolArray,
    names: tuple[str, ...] | None,
) -> GroupMoments:
    """Moments of the rows of a mask."""
    rows = ArrayRows(
        array=values[mask], groups=groups[mask], weights=weights[mask], on_missing="error"
    )
    moments = compute_group_moments(rows)
    return replace(moments, feature_names=names, skip_validation=True)


@dataclass(frozen=True, eq=False)
class HeldOutCovariances:
    """Covariance that pairs keep of each row, by models fitted without its fold.

    Attributes
    ----------
    kept : (n,) array
        ((x - c_x)'U) . ((y - c_y)'V) of the model; their mean over a group is tr U'C_gV.
    best : (n,) array
        The same of the pair that is best for the row's group alone; NaN where the group has no
        rows outside the fold.
    """

    kept: FloatArray
    best: FloatArray


def held_out_covariances(rows: FoldedRows, settings: PairedSettings) -> HeldOutCovariances:
    """Fit a model, and the best pair of each group, without each fold, and apply them to its rows.

    Parameters
    ----------
    rows : FoldedRows
    settings : PairedSettings
    """
    n = len(rows.values)
    kept = np.full(n, np.nan)
    best = np.full(n, np.nan)
    # Losses are measured against the best pair without the restriction.
    unrestricted = PairedSettings(
        method=settings.method,
        n_components=settings.n_components,
        center=settings.center,
        scale=settings.scale,
        regularization=settings.regularization,
    )
    for fold in rows.fold_numbers:
        moments = rows.moments_without(fold)
        pair = fit_pairs(moments, rows.n_targets, settings).subspace
        posed = pose_pairs(moments, rows.n_targets, unrestricted)
        in_fold = rows.fold_codes == fold
        for index, label in enumerate(moments.labels):
            position = rows.moments.labels.index(label)
            selected = np.flatnonzero(in_fold & (rows.group_codes == position))
            if not len(selected):
                continue
            standardized = rows.values[selected] - _center_of_group(moments, index, settings.center)
            if posed.feature_scale is not None:
                standardized = standardized / posed.feature_scale
            covariance = posed.problem.covariances.matrices[index]
            best_pair = leading_pairs(covariance, settings.n_components)
            kept[selected] = _score_products(standardized, pair.x.rotations, pair.y.rotations)
            best[selected] = _score_products(
                standardized, posed.x_axes @ best_pair.U, posed.y_axes @ best_pair.V
            )
    return HeldOutCovariances(kept, best)


def _center_of_group(moments: GroupMoments, index: int, center: Center) -> FloatArray:
    """Point about which covariances of a group are computed, shape (p + q,)."""
    if center == "none":
        return np.zeros(moments.n_features)
    return moments.means[index] if center == "group" else moments.mean


def _score_products(rows: FloatArray, x_weights: FloatArray, y_weights: FloatArray) -> FloatArray:
    """Sum over components of the products of the two scores of each row, shape (n,).

    Parameters
    ----------
    rows : (n, p + q) array
        Standardized rows of the joined table.
    x_weights, y_weights : (p, d) and (q, d) arrays
    """
    p = len(x_weights)
    return np.asarray(np.einsum("ij,ij->i", rows[:, :p] @ x_weights, rows[:, p:] @ y_weights))


@dataclass(frozen=True)
class WeightedMean:
    """Mean with its standard error.

    Attributes
    ----------
    value : float
    standard_error : float
    """

    value: float
    standard_error: float


def weighted_mean(values: FloatArray, weights: FloatArray, clusters: IndexArray) -> WeightedMean:
    """Weighted mean of rows, with the standard error of independent clusters.

    Examples
    --------
    >>> mean = weighted_mean(np.array([1.0, 3.0]), np.ones(2), np.arange(2))
    >>> mean.value, mean.standard_error
    (2.0, 1.0)
    """
    total = weights.sum()
    mean = float(weights @ values / total)
    _, codes = np.unique(clusters, return_inverse=True)
    sums = np.bincount(codes, weights=weights * (values - mean))
    m = len(sums)
    if m < 2:
        return WeightedMean(mean, np.nan)
    variance = float((sums**2).sum()) / total**2 * m / (m - 1)
    return WeightedMean(mean, float(np.sqrt(variance)))
