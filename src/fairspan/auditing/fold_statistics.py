"""Moments of rows by fold, and the statistics of models that are cross-fitted to these folds."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeGuard

import numpy as np

from fairspan.auditing.block_statistics import block_statistics
from fairspan.auditing.cross_fit_run import CrossFitRun
from fairspan.auditing.cross_fitting import (
    EvaluatedModel,
    GroupOptima,
    cross_fit,
)
from fairspan.auditing.estimation_options import EstimationOptions
from fairspan.auditing.imputation import pool_statistics, with_block_estimates
from fairspan.auditing.models import AuditedModel
from fairspan.auditing.row_span import IrreducibleRows, reduce_to_span
from fairspan.auditing.row_statistics import RowStatistics, compute_row_statistics
from fairspan.errors import Cause, IncompatibleParameters, InvalidInput, InvalidParameter
from fairspan.formatting.messages import counted
from fairspan.linalg.memory import format_bytes, moments_nbytes
from fairspan.metrics import GroupErrors
from fairspan.moments.compute import MAX_DENSE_FEATURES, Moments, compute_moments, is_wide
from fairspan.moments.em import MAX_SILENT_DISTANCE
from fairspan.moments.em_folds import EMFoldMoments, compute_em_fold_moments
from fairspan.moments.fold_moments import (
    MIN_FOLDS,
    DenseFoldMoments,
    FoldMoments,
    affordable_folds,
    compute_fold_moments,
    compute_sparse_fold_moments,
)
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.reference_frame import ReferenceFrame
from fairspan.moments.wide import WideMoments
from fairspan.rows.aggregation import Rows
from fairspan.rows.coded_labels import CodedLabels
from fairspan.rows.folds import Folds
from fairspan.rows.group_limit import GroupLimit
from fairspan.rows.in_memory import InMemoryRows
from fairspan.rows.protocol import row_metadata
from fairspan.rows.sparse_rows import SparseRows

# Up to this number of features, moments of a hundred groups in ten folds fit the memory budget.
_MAX_FEATURES_WITHOUT_CHECK = 300
_UNOBSERVED_WITHOUT_FOLD = (
    "all values of a feature in a group are in one fold, so its moments without that fold are "
    "unknown"
)
_NOT_CONVERGED_WITHOUT_FOLD = (
    "the EM algorithm did not converge without one of the folds, since too few rows observe some "
    "features together"
)
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
        moments without a fold are computed from the rows of the others. Not so with classes of y:
        the moments of a group are then the sum of those of its classes, which requires matrices.

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
    # Moments by fold of few features fit into memory; sparse rows that are kept need no matrices.
    is_limited = n_features > _MAX_FEATURES_WITHOUT_CHECK or limit.max_memory is not None
    if _needs_no_matrices(rows):
        # The coordinates of few rows are faster than products with them, but have no clusters.
        if is_wide(rows) and not options.has_clusters:
            moments = moments or compute_moments(rows, limit)
            with suppress(IrreducibleRows):
                return _read_reduced(models, rows, moments, folds, limit)
    elif is_limited:
        # Clusters require moments by fold: whether these fit is decided before rows are read, for
        # two groups, the least that are compared.
        n_groups = 2 if options.has_clusters else _known_group_count(rows)
        if moments is None and n_groups is None:
            moments = compute_moments(rows, limit)
        if isinstance(moments, WideMoments):
            try:
                return _read_reduced(models, rows, moments, folds, limit)
            except IrreducibleRows as error:
                return FirstPass(moments, no_estimates_reason=str(error))
        if moments is not None:
            n_groups = moments.n_groups
        assert n_groups is not None
        n_folds = affordable_folds(options.folds, n_groups, n_features, limit.max_memory)
        if n_folds is None:
            reason = _no_folds_reason(n_groups, n_features, limit.max_memory)
            if moments is None and options.has_clusters:
                raise IncompatibleParameters(
                    f"clusters was given, but {reason}",
                    "Allowed: tables whose moments by fold fit into memory",
                    "Use fewer features",
                )
            return FirstPass(moments or compute_moments(rows, limit), no_estimates_reason=reason)
        folds = replace(folds, n_folds=n_folds)
    if row_metadata(rows).keeps_missing:
        assert isinstance(moments, GroupMoments)
        return _read_incomplete(models, rows, folds, limit, moments)
    folded = FoldedRows.read(models, rows, folds, limit)
    return FirstPass(moments or folded.fold_moments.total, folded)


def _read_reduced(
    models: Sequence[AuditedModel],
    rows: Rows,
    moments: Moments,
    folds: Folds,
    limit: GroupLimit,
) -> FirstPass:
    """Read rows and models in coordinates of their span.

    Raises
    ------
    IrreducibleRows
        They have no such coordinates.
    """
    if not isinstance(moments, WideMoments):
        raise IrreducibleRows("the moments of the rows are in all features")
    reduced = reduce_to_span(models, rows, moments)
    return FirstPass(moments, FoldedRows.read(reduced.models, reduced.rows, folds, limit))


def _known_group_count(rows: Rows) -> int | None:
    """Return the number of groups of rows in memory, if their moments are matrices.

    None if only a pass over the rows tells it: rows of files, or of which some may be dropped; and
    for few rows of many features, whose moments are no matrices.
    """
    if not isinstance(rows, InMemoryRows) or rows.on_missing != "error" or is_wide(rows):
        return None
    if not isinstance(rows.groups, CodedLabels):
        return None
    codes = rows.groups.codes
    if rows.weights is not None:
        codes = codes[rows.weights > 0]
    return int(np.count_nonzero(np.bincount(codes)))


def _read_incomplete(
    models: Sequence[AuditedModel],
    rows: Rows,
    folds: Folds,
    limit: GroupLimit,
    moments: GroupMoments,
) -> FirstPass:
    """Fit moments to incomplete rows without each fold, if possible; `moments` are of all rows."""
    try:
        fold_moments = compute_em_fold_moments(rows, folds, limit, moments)
    except InvalidInput as error:
        if error.cause is not Cause.UNOBSERVED_COLUMN:
            raise
        return FirstPass(moments, no_estimates_reason=_UNOBSERVED_WITHOUT_FOLD)
    if fold_moments.distance > MAX_SILENT_DISTANCE:
        return FirstPass(moments, no_estimates_reason=_NOT_CONVERGED_WITHOUT_FOLD)
    return FirstPass(moments, FoldedRows(models, rows, folds, fold_moments, limit))


def _no_folds_reason(n_groups: int, n_features: int, max_memory: int | None) -> str:
    """Describe why moments by fold do not fit into memory."""
    description = f"moments of {counted(n_groups, 'group')} in {MIN_FOLDS} folds would need"
    if max_memory is None:
        return f"{description} {MIN_FOLDS * n_groups * n_features**2 * 8 / 2**30:.0f} GiB"
    size = format_bytes(moments_nbytes(MIN_FOLDS * n_groups, n_features))
    return f"{description} {size}, and max_memory is {format_bytes(max_memory)}"


def cross_fit_rows(
    folded: FoldedRows,
    copies: Sequence[Rows],
    model_errors: Sequence[GroupErrors],
    in_sample: Sequence[bool],
) -> CrossFitRun:
    """Cross-fit the models, and evaluate them on the rows.

    Parameters
    ----------
    folded : FoldedRows
    copies : sequence of Rows
        Copies of the rows with imputed cells, or the rows alone if no cell is missing.
    model_errors : sequence of GroupErrors
        Errors of each model on all rows.
    in_sample : sequence of bool
        Models to refit without each fold, since they were fitted to these rows.

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
    errors = [errors.errors for errors in model_errors]
    fit = cross_fit(folded.models, errors, in_sample, folded.fold_moments, n_folds)
    moments = folded.fold_moments
    statistics_by_copy = [
        compute_row_statistics(
            rows, moments.total, optima=fit.optima, models=fit.models, folds=folded.folds
        )
        for rows in copies
    ]
    if not isinstance(moments, EMFoldMoments):
        return CrossFitRun(fit, statistics_by_copy[0])
    blocks = block_statistics(fit, moments.total.labels, moments.by_fold)
    statistics = with_block_estimates(pool_statistics(statistics_by_copy), blocks)
    return CrossFitRun(fit, statistics)


def cross_fit_with_new_folds(
    folded_rows: FoldedRows, model_errors: Sequence[GroupErrors]
) -> list[CrossFitRun]:
    """Cross-fit models under four further fold assignments, for the groups' best errors.

    Models are not refitted, and the rows are evaluated from their moments. There are none for rows
    that have no matrices by fold, or missing cells, since each assignment would take many passes.

    Parameters
    ----------
    folded_rows : FoldedRows
        The rows under the first assignment, with the models whose best errors depend on it.
    model_errors : sequence of GroupErrors
        Errors of each of these models on all rows.
    """
    runs: list[CrossFitRun] = []
    if isinstance(folded_rows.fold_moments, EMFoldMoments):
        return runs
    errors = [errors.errors for errors in model_errors]
    no_refits = [False] * len(errors)
    reassigned = folded_rows
    for _ in range(_N_EXTRA_ASSIGNMENTS):
        reassigned = reassigned.with_new_folds()
        moments = reassigned.fold_moments
        if not isinstance(moments, DenseFoldMoments):
            break
        fit = cross_fit(reassigned.models, errors, no_refits, moments, reassigned.folds.n_folds)
        statistics = block_statistics(fit, moments.total.labels, moments.by_fold)
        runs.append(CrossFitRun(fit, statistics))
    return runs


def error_statistics(
    models: Sequence[AuditedModel],
    model_errors: Sequence[GroupErrors],
    rows: Rows,
    moments: Moments,
) -> RowStatistics:
    """Means and standard errors of the models' errors, from one pass over the rows.

    No best subspaces are computed: the optima give only the center and scale of each model.
    """
    optima = []
    evaluated_models = []
    for i, (model, errors) in enumerate(zip(models, model_errors, strict=True)):
        subspace = model.subspace
        row_model = model.row_model
        if row_model is None:
            optima.append(GroupOptima(subspace.reference_frame(moments)))
            evaluated_models.append(
                EvaluatedModel(optima_index=i, model=subspace.projector, errors=errors.errors)
            )
        else:
            # It takes rows uncentered and unscaled. Its errors are not known from moments, so sums
            # are not taken relative to them, but of the squared residuals themselves.
            no_center = np.zeros(moments.n_features)
            no_reference_errors = np.zeros(moments.n_groups)
            optima.append(GroupOptima(ReferenceFrame.from_optional(no_center, scale=None)))
            evaluated_models.append(
                EvaluatedModel(optima_index=i, model=row_model, errors=no_reference_errors)
            )
    return compute_row_statistics(rows, moments, optima, evaluated_models)
