"""What new rows would show, from rows in folds or from blocks of moments in place of folds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from fairspan.auditing.cross_fitting import (
    QUANTITIES,
    CrossFit,
    EvaluatedModel,
    GroupOptima,
    cross_fit,
    measure_quantities,
    reference_points,
)
from fairspan.auditing.expected_losses import MAX_OPTIMISM, EstimationOptions, relative_optimism
from fairspan.auditing.models import AuditedModel
from fairspan.auditing.row_statistics import RowStatistics, compute_row_statistics
from fairspan.errors import IncompatibleParameters, InvalidInput, InvalidParameter
from fairspan.formatting.text import counted
from fairspan.linalg.resources import format_bytes, moments_nbytes
from fairspan.metrics import GroupErrors
from fairspan.model.subspace import FairSubspace
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.of_rows import (
    MAX_DENSE_FEATURES,
    MIN_FOLDS,
    DenseFoldMoments,
    FoldMoments,
    Moments,
    SparseFoldMoments,
    affordable_folds,
    compute_fold_moments,
    compute_moments,
    compute_sparse_fold_moments,
)
from fairspan.moments.operators import (
    Projector,
    Reconstructor,
    SecondMoments,
    reconstruction_errors,
)
from fairspan.moments.wide import WideMoments
from fairspan.rows.arrays import ArrayRows, InMemoryRows
from fairspan.rows.groups import Folds, Label
from fairspan.rows.matrices import SparseRows
from fairspan.rows.protocol import GroupLimit, Rows
from fairspan.typing import FloatArray

# Up to so many features, a hundred groups in ten folds are within the budget of memory.
_MAX_FEATURES_WITHOUT_CHECK = 300
# Further assignments of rows to folds, where the groups' best errors move with them.
_N_EXTRA_ASSIGNMENTS = 4


@dataclass(frozen=True, eq=False)
class FoldedRows:
    """Rows in folds, with the models that they judge.

    Attributes
    ----------
    audited : sequence of Audited
        In the coordinates of the rows.
    rows : RowSource or PartitionedRows
    assigned : Folds
    moments : FoldMoments
    limit : GroupLimit
    has_y : bool
        Whether the rows' labels hold classes of y.
    """

    audited: Sequence[AuditedModel]
    rows: Rows
    folds: Folds
    fold_moments: FoldMoments
    limit: GroupLimit
    has_y: bool = False

    @classmethod
    def read(
        cls,
        audited: Sequence[AuditedModel],
        rows: Rows,
        assigned: Folds,
        limit: GroupLimit,
        *,
        has_y: bool = False,
    ) -> "FoldedRows":
        """Read all rows once."""
        if isinstance(rows, SparseRows) and rows.n_features > MAX_DENSE_FEATURES and not has_y:
            sparse: SparseFoldMoments = compute_sparse_fold_moments(rows, assigned, limit)
            return cls(audited, sparse.rows, assigned, sparse, limit)
        moments = compute_fold_moments(rows, assigned, limit, has_y=has_y)
        return cls(audited, rows, assigned, moments, limit, has_y)

    def with_rows(self, rows: Rows) -> "FoldedRows":
        """The same of another table of these rows, of which moments have matrices."""
        return FoldedRows.read(self.audited, rows, self.folds, self.limit, has_y=self.has_y)

    def with_new_folds(self) -> "FoldedRows":
        """The same rows in other folds."""
        other = replace(self.folds, seed=self.folds.seed + 1)
        return FoldedRows.read(self.audited, self.rows, other, self.limit, has_y=self.has_y)


def read_moments(
    audited: Sequence[AuditedModel],
    rows: Rows,
    moments: Moments | None,
    limit: GroupLimit,
    options: EstimationOptions,
) -> tuple[Moments, FoldedRows | None, str | None]:
    """Read all rows, by fold where estimates for new rows are wanted and memory allows.

    Parameters
    ----------
    audited : sequence of Audited
    rows : RowSource or PartitionedRows
    moments : GroupMoments, SparseMoments or WideMoments, optional
        Of all rows, if they are known.
    limit : GroupLimit
    options : Expectations

    Returns
    -------
    moments of all rows, the rows in folds or None, and why there are none

    Raises
    ------
    Incompatible
        Clusters without folds.
    """
    has_y = options.has_y
    if options.folds is None:
        return moments or compute_moments(rows, limit, has_y=has_y), None, None
    assigned, p = Folds(options.folds, options.seed, options.has_clusters), rows.n_features
    if not (isinstance(rows, SparseRows) and p > MAX_DENSE_FEATURES) and (
        p > _MAX_FEATURES_WITHOUT_CHECK or limit.max_memory is not None
    ):
        if moments is None and not options.has_clusters:
            moments = compute_moments(rows, limit, has_y=has_y)
        if isinstance(moments, WideMoments):
            reduced = reduce_to_span(audited, rows, moments)
            if reduced is None:
                return moments, None, "the models reach beyond the span of these few rows"
            return moments, FoldedRows.read(*reduced, assigned, limit), None
        n_groups = 2 if moments is None else moments.n_groups
        n_folds = affordable_folds(options.folds, n_groups, p, limit.max_memory)
        if n_folds is None:
            description = f"moments of {counted(n_groups, 'group')} in {MIN_FOLDS} folds would take"
            why = f"{description} {MIN_FOLDS * n_groups * p**2 * 8 / 2**30:.0f} GiB"
            if limit.max_memory is not None:
                size = format_bytes(moments_nbytes(MIN_FOLDS * n_groups, p))
                why = f"{description} {size}, and max_memory is {format_bytes(limit.max_memory)}"
            if moments is None:
                raise IncompatibleParameters(
                    f"clusters was given, but {why}",
                    "Allowed: tables whose moments by fold fit into memory",
                    "Choose fewer features",
                )
            return moments, None, why
        assigned = replace(assigned, n_folds=n_folds)
    folded = FoldedRows.read(audited, rows, assigned, limit, has_y=has_y)
    return moments or folded.fold_moments.total, folded, None


def cross_fit_rows(
    folded: FoldedRows, judged: Sequence[GroupErrors], in_sample: Sequence[bool]
) -> list[tuple[CrossFit, RowStatistics]]:
    """Cross-fitted models with what the rows say of them, for one assignment to folds or several.

    Where the groups' best errors move with the folds there are five. All but the first are used
    for these best errors alone: models are not fitted again for them, and rows are judged by their
    moments.

    Raises
    ------
    InvalidParameter
        Too few folds for models that are to be fitted again.
    """
    n_folds = folded.folds.n_folds
    if any(in_sample) and n_folds < MIN_FOLDS:
        raise InvalidParameter(
            f"folds is {n_folds}, and models were fitted on these rows",
            f"Allowed: {MIN_FOLDS} folds or more, as the models are fitted again without "
            "each: with fewer, they would be fitted on too few rows",
            "Use the default, 10, or audit rows that were held out",
        )
    errors, best_errors = [each.errors for each in judged], [each.best_errors for each in judged]
    cross = cross_fit(folded.audited, errors, in_sample, folded.fold_moments, n_folds)
    labels = folded.fold_moments.total.labels
    statistics = compute_row_statistics(
        folded.rows,
        folded.fold_moments.total,
        cross.optima,
        cross.models,
        folded.folds,
        has_y=folded.has_y,
    )
    results = [(cross, statistics)]
    if not (
        relative_optimism(cross, statistics, best_errors)[cross.has_enough_rows] > MAX_OPTIMISM
    ).any():
        return results
    for _ in range(_N_EXTRA_ASSIGNMENTS):
        folded = folded.with_new_folds()
        if not isinstance(folded.fold_moments, DenseFoldMoments):
            break
        cross = cross_fit(
            folded.audited, errors, [False] * len(judged), folded.fold_moments, n_folds
        )
        results.append((cross, block_statistics(cross, labels, folded.fold_moments.by_fold)))
    return results


def error_statistics(
    audited: Sequence[AuditedModel],
    judged: Sequence[GroupErrors],
    rows: Rows,
    moments: Moments,
    *,
    has_y: bool,
) -> RowStatistics:
    """Means and spreads of errors alone, from one pass over the rows."""
    benchmarks, projections = [], []
    for i, (each, figures) in enumerate(zip(audited, judged, strict=True)):
        subspace, model = each.subspace, each.row_model
        if model is None:
            benchmarks.append(GroupOptima(reference_points(subspace, moments), subspace.scale))
            projections.append(EvaluatedModel(i, subspace.projector, figures.errors))
        else:  # it takes rows as they came
            benchmarks.append(GroupOptima(np.zeros((1, moments.n_features)), None))
            projections.append(EvaluatedModel(i, model, np.zeros(moments.n_groups)))
    return compute_row_statistics(rows, moments, benchmarks, projections, has_y=has_y)


def reduce_to_span(
    audited: Sequence[AuditedModel], rows: Rows, thin: WideMoments
) -> tuple[list[AuditedModel], ArrayRows] | None:
    """Models and rows in orthonormal coordinates that hold both; distances stay what they are.

    The origin stays where it is, so that errors about it can be measured too.

    Parameters
    ----------
    audited : sequence of Audited
    rows : InMemoryRows
        With labels.
    thin : WideMoments
        Of the same rows.

    Returns
    -------
    list of Audited, ArrayRows; or None
        None where the models are in different units, or have more dimensions than there are rows.
    """
    scales: list[Any] = [each.subspace.scale for each in audited]
    if not all(np.array_equal(scale, scales[0]) for scale in scales) or not isinstance(
        rows, InMemoryRows
    ):
        return None
    scaled = thin if scales[0] is None else thin.divided_by(scales[0])
    unit = 1.0 if scales[0] is None else scales[0]
    points = [each.subspace.center_point(thin) for each in audited]
    directions = [-scaled.shift[:, None]]
    for each, point in zip(audited, points, strict=True):
        directions.append(each.subspace.projector.stacked_columns)
        if point is not None:
            directions.append((point / unit - scaled.shift)[:, None])
    if max(each.subspace.dimension for each in audited) > scaled.row_space.n_axes:
        return None
    known = scaled.row_space.extend(np.hstack(directions))
    origin = known.project(directions[0])[:, 0]
    reduced = []
    for each, point in zip(audited, points, strict=True):
        projector = each.subspace.projector
        reduced_projector = projector.with_stacked_columns(known.project(projector.stacked_columns))
        subspace = replace(
            each.subspace,
            components=reduced_projector.encoder,
            oblique_decoder=reduced_projector.oblique_decoder,
            mean=None
            if point is None
            else known.project((point / unit - scaled.shift)[:, None])[:, 0] - origin,
            scale=None,
            feature_names=None,
        )
        reduced.append(replace(each, subspace=subspace))
    assert rows.group_labels is not None
    row_positions = np.concatenate([part.row_indices for part in thin.group_rows])
    order = np.argsort(row_positions)
    padded = np.pad(
        known.row_coordinates[order], [(0, 0), (0, known.n_axes - known.row_coordinates.shape[1])]
    )
    return reduced, ArrayRows(
        padded - origin,
        group_labels=rows.group_labels[row_positions[order]],
        weights=None if rows.weights is None else rows.weights[row_positions[order]],
        weight_exponent=rows.weight_exponent,
    )


def block_statistics(
    cross: CrossFit, labels: Sequence[Label], blocks: Sequence[GroupMoments | None]
) -> RowStatistics:
    """Means over all blocks, and their standard errors by how blocks differ.

    With D_f the mean over block f of K, which weighs n_f of n, and l the mean over all: the
    variance of l is K / (K - 1) sum (n_f / n)^2 (D_f - l)^2.

    Parameters
    ----------
    cross : CrossFit
        Found without each block.
    labels : sequence of k labels
    blocks : sequence of GroupMoments, or None for one without rows
    """
    shape = (len(blocks), len(cross.models), len(QUANTITIES), len(labels))
    values, weights = np.zeros(shape), np.zeros((len(blocks), len(labels)))
    for fold, block in enumerate(blocks):
        if block is None:
            continue
        for i, label in enumerate(block.labels):
            group = list(labels).index(label)
            weights[fold, group] = block.weights[i]
            errors = _block_residuals(block.select_groups(np.arange(block.n_groups) == i), group)
            values[fold, :, :, group] = measure_quantities(
                errors, cross.optima, cross.models, group, fold, len(blocks)
            )[:, :, 0]
    shares = weights / weights.sum(axis=0)
    means = np.einsum("fg,fmqg->mqg", shares, values)
    sizes = (weights > 0).sum(axis=0)
    spread = np.einsum("fg,fmqg->mqg", shares**2, (values - means) ** 2)
    factor = np.where(sizes > 1, sizes / np.maximum(sizes - 1, 1), 0.0)
    # Blocks vary by the rows that they were fitted without as well: nothing is uncertain beside.
    return RowStatistics(
        means, np.sqrt(spread * factor), sizes, np.full(means.shape, np.nan), np.zeros(means.shape)
    )


def _block_residuals(
    block: GroupMoments, group: int
) -> Callable[[Sequence[tuple[GroupOptima, Reconstructor]]], FloatArray]:
    """Mean squared residuals (l, 1) of one group of a block, for l benchmarks and projectors.

    Benchmarks of different dimensions share the second moments about their centre.
    """
    second: dict[tuple[bytes, bytes], SecondMoments] = {}

    def about(benchmark: GroupOptima) -> SecondMoments:
        key = benchmark.coordinates_key(group)
        if key not in second:
            point, unit = benchmark.center_of(group), benchmark.scale
            unit = np.ones_like(point) if unit is None else unit
            second[key] = block.divided_by(unit).second_moments_about(point / unit)
        return second[key]

    def errors(pairs: Sequence[tuple[GroupOptima, Reconstructor]]) -> FloatArray:
        # Moments judge projections alone: others have been refused.
        return np.array(
            [
                reconstruction_errors(cast(Projector, model), about(benchmark))
                for benchmark, model in pairs
            ]
        )

    return errors


def leave_one_block_out_errors(
    blocks: Sequence[GroupMoments], pooled: GroupMoments, subspace: FairSubspace
) -> FloatArray:
    """Errors of each group over all blocks but one, for each block left out, (B, k).

    About where the model of all blocks is judged, or about each group's own mean without the block.

    Parameters
    ----------
    blocks : sequence of B >= 2 GroupMoments
    pooled : GroupMoments
        Their sum.
    subspace : FairSubspace

    Raises
    ------
    InvalidInput
        A group is in a single block: without that block it has no rows.
    """
    folds, point = DenseFoldMoments(tuple(blocks)), subspace.center_point(pooled)
    unit = np.ones(pooled.n_features) if subspace.scale is None else subspace.scale
    errors = np.empty((len(blocks), pooled.n_groups))
    for index in range(len(blocks)):
        remaining = folds.excluding(index)
        if missing_groups := [label for label in pooled.labels if label not in remaining.labels]:
            raise InvalidInput(
                f"The group {missing_groups[0]!r} stands in only one of the {len(blocks)} blocks",
                "Allowed: blocks among which every group stands in at least two",
                "Make larger blocks, or pass the sum of the blocks to audit without intervals",
            )
        about = (remaining.means if point is None else point) / unit
        second = remaining.divided_by(unit).second_moments_about(about)
        errors[index] = reconstruction_errors(subspace.projector, second)
    return errors
