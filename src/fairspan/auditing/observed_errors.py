"""Errors of models on the audited rows, and their intervals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fairspan.auditing.block_statistics import leave_one_block_out_errors
from fairspan.auditing.in_sample import InSampleStatus, detect_in_sample
from fairspan.auditing.intervals import (
    Estimate,
    disparity_estimate,
    error_estimates,
    jackknife_estimate,
    jackknife_standard_error,
    widest_pair,
)
from fairspan.auditing.largest_rows import LargestRow
from fairspan.auditing.models import AuditedModel
from fairspan.metrics import GroupErrors, group_errors
from fairspan.moments.compute import Moments
from fairspan.moments.fold_moments import FoldMoments
from fairspan.moments.group_moments import GroupMoments
from fairspan.problem.disparity import signed_disparity
from fairspan.typing import FloatArray


@dataclass(frozen=True, eq=False)
class ObservedModel:
    """A model with its errors on the audited rows.

    Attributes
    ----------
    model : AuditedModel
    errors : GroupErrors
        Errors, variances and best errors of each group.
    status : InSampleStatus
        Whether the model was fitted to these rows.
    """

    model: AuditedModel
    errors: GroupErrors
    status: InSampleStatus


def observe_models(
    models: Sequence[AuditedModel],
    moments: Moments,
    fold_models: Sequence[AuditedModel] = (),
    folds: FoldMoments | None = None,
) -> list[ObservedModel]:
    """Compute the errors of models on the audited rows, and tell which were fitted to these.

    Without folds, only exact matches of number and mean of the rows are detected; with folds, also
    training rows that overlap.

    Parameters
    ----------
    models : sequence of AuditedModel
    moments : GroupMoments, SparseMoments or WideMoments
        Moments of the audited rows.
    fold_models : sequence of AuditedModel
        The models in the coordinates of the folds; empty without folds.
    folds : FoldMoments, optional

    Raises
    ------
    UnknownGroup
        The rows have a group that a model was not fitted on.
    InvalidInput
        The features differ.
    """
    errors_by_model = []
    for model in models:
        model.check_groups(moments.labels)
        errors_by_model.append(group_errors(model.subspace, moments))
    is_exact_match = [
        model.was_fitted_on(moments, errors.errors)
        for model, errors in zip(models, errors_by_model, strict=True)
    ]
    if folds is None or all(is_exact_match):
        statuses = [
            InSampleStatus(is_match, no_refit_reason=model.no_refit_reason)
            for model, is_match in zip(models, is_exact_match, strict=True)
        ]
    else:
        statuses = detect_in_sample(models, is_exact_match, fold_models, folds)
    return [
        ObservedModel(model, errors, status)
        for model, errors, status in zip(models, errors_by_model, statuses, strict=True)
    ]


def with_no_refit_reasons(
    models: Sequence[AuditedModel], observed: Sequence[ObservedModel]
) -> list[AuditedModel]:
    """Return the models with the reasons why they cannot be refitted."""
    return [
        replace(model, no_refit_reason=item.status.no_refit_reason)
        for model, item in zip(models, observed, strict=True)
    ]


@dataclass(frozen=True, eq=False)
class ErrorIntervals:
    """Errors of one model on the audited rows, with intervals.

    Attributes
    ----------
    errors : sequence of k Estimates
    disparity : Estimate
    standard_errors : (k,) array
        Standard errors of the errors; NaN if unknown.
    df : float or (k,) array
        Degrees of freedom of the standard errors; need not be integers.
    kurtosis : (k,) array
        Kurtosis of the rows' squared residuals; 0 if unknown.
    largest_rows : mapping of int to LargestRow
        Row with the largest error, by index of the groups of which a few rows dominate the error.
    """

    errors: Sequence[Estimate]
    disparity: Estimate
    standard_errors: FloatArray
    df: FloatArray | float
    kurtosis: FloatArray
    largest_rows: Mapping[int, LargestRow] = field(default_factory=dict)

    @classmethod
    def unknown(cls, errors: FloatArray) -> "ErrorIntervals":
        """Errors without intervals, as those of a single set of moments."""
        return cls(
            errors=[Estimate(error) for error in errors.tolist()],
            disparity=Estimate(signed_disparity(errors)),
            standard_errors=np.full(len(errors), np.nan),
            df=0,
            kurtosis=np.zeros(len(errors)),
        )

    @classmethod
    def student(
        cls,
        errors: FloatArray,
        standard_errors: FloatArray,
        df: FloatArray,
        kurtosis: FloatArray,
        level: float,
    ) -> "ErrorIntervals":
        """Student intervals of the errors, and Welch's of the disparity.

        All arrays have shape (k,); the kurtosis may be NaN, if all rows have the same error.
        """
        counts = df + 1  # the intervals take degrees of freedom plus one
        return cls(
            errors=error_estimates(errors, standard_errors, counts, level),
            disparity=disparity_estimate(errors, standard_errors, counts, level),
            standard_errors=standard_errors,
            df=df,
            kurtosis=np.nan_to_num(kurtosis),
        )

    @classmethod
    def jackknife(
        cls,
        observed: ObservedModel,
        pooled: GroupMoments,
        blocks: Sequence[GroupMoments],
        level: float,
    ) -> "ErrorIntervals":
        """Delete-a-block jackknife intervals of the errors and of their disparity.

        The disparity is the difference in error of two groups; of more than two groups, of those
        with the largest and the smallest error. Its interval is simultaneous over all pairs of
        groups. `pooled` is the sum of the blocks.
        """
        errors = observed.errors.errors
        leave_one_out = leave_one_block_out_errors(blocks, pooled, observed.model.subspace)
        disparity = Estimate(signed_disparity(errors))
        if pooled.n_groups > 1:
            low, high = widest_pair(errors)
            n_pairs = pooled.n_groups * (pooled.n_groups - 1) // 2
            differences = (leave_one_out[:, high] - leave_one_out[:, low]).tolist()
            disparity = jackknife_estimate(disparity.value, differences, n_pairs, level)
        return cls(
            errors=[
                jackknife_estimate(value, column.tolist(), level=level).clipped_at_zero()
                for value, column in zip(errors.tolist(), leave_one_out.T, strict=True)
            ],
            disparity=disparity,
            standard_errors=jackknife_standard_error(leave_one_out),
            df=len(blocks) - 1,
            kurtosis=np.zeros(pooled.n_groups),  # unknown without rows
        )
