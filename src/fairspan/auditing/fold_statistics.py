"""Cross-fitted statistics from rows in folds, or from blocks of moments that serve as folds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeGuard, cast

import numpy as np

from fairspan.auditing.cross_fitting import (
    CrossFit,
    EvaluatedModel,
    GroupOptima,
    Quantity,
    cross_fit,
    measure_quantities,
    reference_points,
)
from fairspan.auditing.models import AuditedModel
from fairspan.auditing.optimism import MAX_OPTIMISM, relative_optimism
from fairspan.auditing.options import EstimationOptions
from fairspan.auditing.row_statistics import RowStatistics, compute_row_statistics
from fairspan.errors import IncompatibleParameters, InvalidInput, InvalidParameter
from fairspan.formatting.messages import counted
from fairspan.linalg.memory import format_bytes, moments_nbytes
from fairspan.metrics import GroupErrors
from fairspan.model.subspace import FairSubspace
from fairspan.moments.compute import MAX_DENSE_FEATURES, Moments, compute_moments
from fairspan.moments.fold_moments import (
    MIN_FOLDS,
    DenseFoldMoments,
    FoldMoments,
    affordable_folds,
    compute_fold_moments,
    compute_sparse_fold_moments,
)
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.projector import Projector, Reconstructor
from fairspan.moments.reference_frame import ReferenceFrame
from fairspan.moments.second_moments import SecondMoments, reconstruction_errors
from fairspan.moments.wide import WideMoments
from fairspan.rows.aggregation import Rows
from fairspan.rows.arrays import ArrayRows
from fairspan.rows.folds import Folds
from fairspan.rows.group_limit import GroupLimit
from fairspan.rows.in_memory import InMemoryRows
from fairspan.rows.labels import Label
from fairspan.rows.sparse import SparseRows
from fairspan.typing import FloatArray

# Up to this number of features, moments of a hundred groups in ten folds fit the memory budget.
_MAX_FEATURES_WITHOUT_CHECK = 300
# Number of additional fold assignments if the groups' best errors depend on the folds.
_N_EXTRA_ASSIGNMENTS = 4


@dataclass(frozen=True, eq=False)
class FoldedRows:
    """Rows assigned to folds, their moments by fold, and the models under audit.

    Attributes
    ----------
    models : sequence of AuditedModel
        Models in the coordinates of the rows.
    rows : Rows
    folds : Folds
    fold_moments : FoldMoments
    limit : GroupLimit
    """

    models: Sequence[AuditedModel]
    rows: Rows
    folds: Folds
    fold_moments: FoldMoments
    limit: GroupLimit

    @classmethod
    def read(
        cls,
        models: Sequence[AuditedModel],
        rows: Rows,
        folds: Folds,
        limit: GroupLimit,
    ) -> "FoldedRows":
        """Read all rows once and accumulate their moments by fold.

        Sparse rows with too many features for (p, p) matrices are kept, except incomplete ones, and
        moments without a fold are computed from the rows of the others. With classes of y, matrices
        are needed all the same, to add the moments of the classes.

        Parameters
        ----------
        models : sequence of AuditedModel
        rows : Rows
        folds : Folds
        limit : GroupLimit
            Largest number of groups, and memory for their matrices.
        """
        moments: FoldMoments
        if _needs_no_matrices(rows):
            moments = compute_sparse_fold_moments(rows, folds, limit)
        else:
            moments = compute_fold_moments(rows, folds, limit)
        return cls(models, rows, folds, moments, limit)

    def with_rows(self, rows: Rows) -> "FoldedRows":
        """Return the same for another version of the rows (an imputation), with dense moments."""
        return FoldedRows.read(self.models, rows, self.folds, self.limit)

    def with_new_folds(self) -> "FoldedRows":
        """Return the same rows under another fold assignment."""
        other = replace(self.folds, seed=self.folds.seed + 1)
        return FoldedRows.read(self.models, self.rows, other, self.limit)


def _needs_no_matrices(rows: Rows) -> TypeGuard[SparseRows]:
    """Whether moments by fold are computed from kept sparse rows rather than (p, p) matrices.

    Only if there are too many features for matrices, and no classes of y, whose moments are added
    up from matrices.
    """
    if not isinstance(rows, SparseRows):
        return False
    return rows.n_features > MAX_DENSE_FEATURES and not rows.has_classes


@dataclass(frozen=True, eq=False)
class FirstPass:
    """Moments from the first pass over the rows.

    Attributes
    ----------
    moments : GroupMoments, SparseMoments or WideMoments
        Moments of all rows.
    folded_rows : FoldedRows or None
        The rows with their moments by fold; None if there are no estimates for new rows.
    no_estimates_reason : str or None
        Why estimates were requested but cannot be made.
    """

    moments: Moments
    folded_rows: FoldedRows | None = None
    no_estimates_reason: str | None = None


def read_moments(
    models: Sequence[AuditedModel],
    rows: Rows,
    moments: Moments | None,
    limit: GroupLimit,
    options: EstimationOptions,
) -> FirstPass:
    """Read moments of all rows; by fold if estimates are requested and memory suffices.

    If memory does not suffice for the requested folds, there are fewer. Rows that are fewer than
    features are expressed in coordinates of their span, with models to match.

    Parameters
    ----------
    models : sequence of AuditedModel
        Projections to evaluate.
    rows : Rows
    moments : GroupMoments, SparseMoments or WideMoments, optional
        Moments of all rows, if already known.
    limit : GroupLimit
    options : EstimationOptions

    Raises
    ------
    IncompatibleParameters
        Clusters were given, but moments by fold do not fit into memory.
    """
    if options.folds is None:
        return FirstPass(moments or compute_moments(rows, limit))
    folds = Folds(options.folds, options.seed)
    n_features = rows.n_features
    is_limited = n_features > _MAX_FEATURES_WITHOUT_CHECK or limit.max_memory is not None
    if is_limited and not _needs_no_matrices(rows):
        # Moments of all rows give the number of groups. Clusters require moments by fold: whether
        # these fit is decided before rows are read, for two groups, the least that are compared.
        if moments is None and not options.has_clusters:
            moments = compute_moments(rows, limit)
        if isinstance(moments, WideMoments):
            try:
                reduced = reduce_to_span(models, rows, moments)
            except IrreducibleRows as error:
                return FirstPass(moments, no_estimates_reason=str(error))
            return FirstPass(moments, FoldedRows.read(reduced.models, reduced.rows, folds, limit))
        n_groups = 2 if moments is None else moments.n_groups
        n_folds = affordable_folds(options.folds, n_groups, n_features, limit.max_memory)
        if n_folds is None:
            reason = _no_folds_reason(n_groups, n_features, limit.max_memory)
            if moments is None:
                raise IncompatibleParameters(
                    f"clusters was given, but {reason}",
                    "Allowed: tables whose moments by fold fit into memory",
                    "Use fewer features",
                )
            return FirstPass(moments, no_estimates_reason=reason)
        folds = replace(folds, n_folds=n_folds)
    folded = FoldedRows.read(models, rows, folds, limit)
    return FirstPass(moments or folded.fold_moments.total, folded)


def _no_folds_reason(n_groups: int, n_features: int, max_memory: int | None) -> str:
    """Describe why moments by fold do not fit into memory."""
    description = f"moments of {counted(n_groups, 'group')} in {MIN_FOLDS} folds would need"
    if max_memory is None:
        return f"{description} {MIN_FOLDS * n_groups * n_features**2 * 8 / 2**30:.0f} GiB"
    size = format_bytes(moments_nbytes(MIN_FOLDS * n_groups, n_features))
    return f"{description} {size}, and max_memory is {format_bytes(max_memory)}"


def cross_fit_rows(
    folded: FoldedRows, group_errors: Sequence[GroupErrors], in_sample: Sequence[bool]
) -> list[tuple[CrossFit, RowStatistics]]:
    """Cross-fit the models and evaluate them on the rows, for one fold assignment or several.

    If the groups' best errors depend on the folds, four further assignments are added, except for
    rows that have no matrices by fold; they serve only to average the best errors, so models are
    not refitted and the rows are evaluated from their moments.

    Parameters
    ----------
    folded : FoldedRows
    group_errors : sequence of GroupErrors
        Errors of each model on all rows.
    in_sample : sequence of bool
        Models to refit without each fold, since they were fitted to these rows.

    Returns
    -------
    list of (CrossFit, RowStatistics)
        One pair per fold assignment.

    Raises
    ------
    InvalidParameter
        Too few folds for refitting models.
    """
    n_folds = folded.folds.n_folds
    if any(in_sample) and n_folds < MIN_FOLDS:
        raise InvalidParameter(
            f"folds is {n_folds}, but some models were fitted to these rows",
            f"Allowed: {MIN_FOLDS} folds or more, since these models are refitted without each "
            "fold: with fewer, the training sets would be too small",
            "Use the default, 10, or audit held-out rows",
        )
    errors = [model_errors.errors for model_errors in group_errors]
    best_errors = [model_errors.best_errors for model_errors in group_errors]
    cross = cross_fit(folded.models, errors, in_sample, folded.fold_moments, n_folds)
    labels = folded.fold_moments.total.labels
    statistics = compute_row_statistics(
        folded.rows,
        folded.fold_moments.total,
        cross.optima,
        cross.models,
        folded.folds,
    )
    results = [(cross, statistics)]
    optimism = relative_optimism(cross, statistics, best_errors)[cross.has_enough_rows]
    if not (optimism > MAX_OPTIMISM).any():
        return results
    for _ in range(_N_EXTRA_ASSIGNMENTS):
        folded = folded.with_new_folds()
        if not isinstance(folded.fold_moments, DenseFoldMoments):
            break
        no_refits = [False] * len(group_errors)
        cross = cross_fit(folded.models, errors, no_refits, folded.fold_moments, n_folds)
        results.append((cross, block_statistics(cross, labels, folded.fold_moments.by_fold)))
    return results


def error_statistics(
    models: Sequence[AuditedModel],
    group_errors: Sequence[GroupErrors],
    rows: Rows,
    moments: Moments,
) -> RowStatistics:
    """Means and standard errors of the models' errors, from one pass over the rows.

    Each model gets a center and scale of its own; no best subspaces are computed.
    """
    optima = []
    evaluated_models = []
    for i, (model, model_errors) in enumerate(zip(models, group_errors, strict=True)):
        subspace = model.subspace
        row_model = model.row_model
        if row_model is None:
            optima.append(GroupOptima(reference_points(subspace, moments), subspace.scale))
            evaluated_models.append(
                EvaluatedModel(optima_index=i, model=subspace.projector, errors=model_errors.errors)
            )
        else:  # it takes rows uncentered and unscaled, and its errors are not known from moments
            no_center = np.zeros((1, moments.n_features))
            no_reference_errors = np.zeros(moments.n_groups)
            optima.append(GroupOptima(no_center, scale=None))
            evaluated_models.append(
                EvaluatedModel(optima_index=i, model=row_model, errors=no_reference_errors)
            )
    return compute_row_statistics(rows, moments, optima, evaluated_models)


@dataclass(frozen=True, eq=False)
class ReducedRows:
    """Models and rows in orthonormal coordinates of their joint span.

    Attributes
    ----------
    models : list of AuditedModel
    rows : ArrayRows
    """

    models: list[AuditedModel]
    rows: ArrayRows


class IrreducibleRows(Exception):
    """Rows and models that cannot be expressed in coordinates of their span; says why."""


def reduce_to_span(
    models: Sequence[AuditedModel], rows: Rows, wide_moments: WideMoments
) -> ReducedRows:
    """Express models and rows in orthonormal coordinates of their joint span.

    Distances and the origin are preserved, so that errors are those in all features, while moments
    by fold need memory for the dimension of the span only.

    Parameters
    ----------
    models : sequence of AuditedModel
    rows : InMemoryRows
        Rows with labels.
    wide_moments : WideMoments
        Moments of the same rows.

    Raises
    ------
    IrreducibleRows
        The models differ in scale, the rows are not in memory, or a model has more dimensions than
        the span of the rows.
    """
    if not isinstance(rows, InMemoryRows):
        raise IrreducibleRows("rows that are fewer than their features must be in memory")
    scales: list[Any] = [model.subspace.scale for model in models]
    if not all(np.array_equal(scale, scales[0]) for scale in scales):
        raise IrreducibleRows(
            "the models divide the features by different scales, and the rows are fewer than these"
        )
    model_scale = scales[0]
    scaled = wide_moments if model_scale is None else wide_moments.divided_by(model_scale)
    frames = [model.subspace.reference_frame(wide_moments) for model in models]
    # The span is that of the scaled rows minus a shift, which is one of them. It is extended by the
    # origin, and by the components and center of each model.
    directions = [-scaled.shift[:, None]]
    for model, frame in zip(models, frames, strict=True):
        directions.append(model.subspace.projector.stacked_columns)
        if frame.has_common_center:
            directions.append((frame.scaled_center - scaled.shift)[:, None])
    if max(model.subspace.dimension for model in models) > scaled.row_space.n_axes:
        raise IrreducibleRows("the models extend beyond the span of these few rows")
    joint_span = scaled.row_space.extend(np.hstack(directions))
    # Coordinates of the origin of the features, which is minus the shift; it becomes the origin of
    # the new coordinates.
    origin = joint_span.project(directions[0])[:, 0]
    reduced = []
    for model, frame in zip(models, frames, strict=True):
        # The columns of the encoder, and of the decoder if it is not the transposed encoder (an
        # oblique projection), are directions and so need no shift.
        projector = model.subspace.projector
        reduced_projector = projector.with_stacked_columns(
            joint_span.project(projector.stacked_columns)
        )
        mean = None
        if frame.has_common_center:
            shifted_center = (frame.scaled_center - scaled.shift)[:, None]
            mean = joint_span.project(shifted_center)[:, 0] - origin
        subspace = replace(
            model.subspace,
            components=reduced_projector.encoder,
            oblique_decoder=reduced_projector.oblique_decoder,
            mean=mean,
            scale=None,
            feature_names=None,
        )
        reduced.append(replace(model, subspace=subspace))
    assert rows.groups is not None
    row_positions = np.concatenate(
        [group_rows.row_indices for group_rows in wide_moments.group_rows]
    )
    # The span has the rows by group; return them in the order of the table.
    order = np.argsort(row_positions)
    # The rows have no component along the axes that were added.
    n_new_axes = joint_span.n_axes - joint_span.row_coordinates.shape[1]
    coordinates = np.pad(joint_span.row_coordinates[order], [(0, 0), (0, n_new_axes)])
    reduced_rows = ArrayRows(
        coordinates - origin,
        groups=rows.groups[row_positions[order]],
        weights=None if rows.weights is None else rows.weights[row_positions[order]],
        weight_exponent=rows.weight_exponent,
    )
    return ReducedRows(reduced, reduced_rows)


def block_statistics(
    cross: CrossFit, labels: Sequence[Label], blocks: Sequence[GroupMoments | None]
) -> RowStatistics:
    """Means over all blocks, with standard errors from the variation between blocks.

    Means are those of each :class:`Quantity`, such as a held-out error. With D_f the mean of a
    quantity over a group's rows in block f of K, n_f / n the block's share of the group's weight,
    and l the overall mean, the variance of l is K / (K - 1) sum_f (n_f / n)^2 (D_f - l)^2. K counts
    the blocks with rows of the group, and is the number of independent observations. The kurtosis
    is unknown (NaN).

    Parameters
    ----------
    cross : CrossFit
        Cross-fit with blocks as folds.
    labels : sequence of k labels
    blocks : sequence of K GroupMoments
        None for an empty block.
    """
    shape = (len(blocks), len(cross.models), len(Quantity), len(labels))
    values = np.zeros(shape)
    weights = np.zeros((len(blocks), len(labels)))
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
    n_blocks = (weights > 0).sum(axis=0)
    variances = np.einsum("fg,fmqg->mqg", shares**2, (values - means) ** 2)
    factor = np.where(n_blocks > 1, n_blocks / np.maximum(n_blocks - 1, 1), 0.0)
    return RowStatistics(
        means,
        standard_errors=np.sqrt(variances * factor),
        n_independent=n_blocks,
        kurtosis=np.full(means.shape, np.nan),
        # The variation between blocks already includes that of the training rows.
        training_standard_errors=np.zeros(means.shape),
    )


def _block_residuals(
    block: GroupMoments, group: int
) -> Callable[[Sequence[tuple[GroupOptima, Reconstructor]]], FloatArray]:
    """Return a function for mean squared residuals of one group of a block.

    It maps l pairs of group optima and projectors to an array (l, 1), as
    :func:`measure_quantities` requires: the optima provide center and scale, and the residuals are
    those of the projector. Optima with the same center and scale share their second moments.

    Parameters
    ----------
    block : GroupMoments
        Moments with this group only.
    group : int
        Index of the group in the optima.
    """
    second_moments_by_key: dict[tuple[bytes, bytes], SecondMoments] = {}

    def second_moments(optima: GroupOptima) -> SecondMoments:
        key = optima.coordinates_key(group)
        if key not in second_moments_by_key:
            frame = ReferenceFrame.from_optional(optima.center_of(group), optima.scale)
            second_moments_by_key[key] = frame.second_moments(block)
        return second_moments_by_key[key]

    def errors(pairs: Sequence[tuple[GroupOptima, Reconstructor]]) -> FloatArray:
        # Only projections get here: other models cannot be evaluated from moments.
        return np.array(
            [
                reconstruction_errors(cast(Projector, model), second_moments(optima))
                for optima, model in pairs
            ]
        )

    return errors


def leave_one_block_out_errors(
    blocks: Sequence[GroupMoments], pooled: GroupMoments, subspace: FairSubspace
) -> FloatArray:
    """Errors of each group with each block left out in turn, (B, k).

    They are measured about the reference point of the full model, or about each group's own mean
    without the block.

    Parameters
    ----------
    blocks : sequence of B >= 2 GroupMoments
    pooled : GroupMoments
        Sum of the blocks.
    subspace : FairSubspace

    Raises
    ------
    InvalidInput
        A group is in a single block: without that block it has no rows.
    """
    folds = DenseFoldMoments(tuple(blocks))
    frame = subspace.reference_frame(pooled)
    errors = np.empty((len(blocks), pooled.n_groups))
    for index in range(len(blocks)):
        remaining = folds.excluding(index)
        missing_groups = [label for label in pooled.labels if label not in remaining.labels]
        if missing_groups:
            raise InvalidInput(
                f"The group {missing_groups[0]!r} occurs in only one of the {len(blocks)} blocks",
                "Allowed: blocks such that every group occurs in at least two",
                "Use larger blocks, or pass the sum of the blocks to audit without intervals",
            )
        if not frame.has_common_center:
            frame = subspace.reference_frame(remaining)
        second_moments = frame.second_moments(remaining)
        errors[index] = reconstruction_errors(subspace.projector, second_moments)
    return errors
