"""What models do to each group of some rows, or of moments instead of rows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fairspan.auditing.block_statistics import block_figures, errors_without_each
from fairspan.auditing.by_rows import (
    NO_PROJECTION,
    check_projections,
    figures_by_rows,
)
from fairspan.auditing.cross_fitting import CrossFitted, cross_fitted
from fairspan.auditing.estimating import (
    FoldedRows,
    figures_by_fold,
    figures_of_errors,
    read_rows,
)
from fairspan.auditing.expected_losses import Expectations, ExpectedFigures, expected_figures
from fairspan.auditing.intervals import (
    Estimate,
    disparity_estimate,
    error_estimates,
    jackknife,
    widest_pair,
)
from fairspan.auditing.models import Audited
from fairspan.auditing.results import GroupAudit, ModelAudit
from fairspan.auditing.row_statistics import RowFigures
from fairspan.errors import Incompatible
from fairspan.metrics import GroupFigures, group_figures
from fairspan.moments.folds import FEWEST_FOLDS, FoldMoments, SummedFolds
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.of_rows import Moments
from fairspan.problem.problem import signed_disparity
from fairspan.rows.group_limit import GroupLimit
from fairspan.rows.protocol import Rows
from fairspan.typing import FloatArray


@dataclass(frozen=True, eq=False)
class Judged:
    """Models that were judged, and what was seen of the rows.

    Attributes
    ----------
    models : list of ModelAudit
    moments : GroupMoments, SparseMoments or ThinMoments
        Of all rows.
    ordered : tuple of int
        Columns whose values all differ and only rise or only fall.
    folds : FoldMoments or None
        Moments by fold, where estimates for new rows were made.
    """

    models: list[ModelAudit]
    moments: Moments
    ordered: tuple[int, ...] = ()
    folds: FoldMoments | None = None


def judged_on_rows(
    audited: Sequence[Audited],
    rows: Rows,
    moments: Moments | None,
    limit: GroupLimit,
    options: Expectations,
) -> Judged:
    """Judge models on rows, read twice: for moments, and for spreads; and on their moments."""
    linear = [each for each in audited if each.by_rows is None]
    others = [each for each in audited if each.by_rows is not None]
    if others and options.by_cluster:
        raise Incompatible(
            f"clusters was given, and the model {others[0].name} is no projection",
            "Allowed with clusters are projections, which are judged by fold",
            "Leave clusters out, or leave out that model",
        )
    if not linear:
        options = replace(options, folds=None)
    moments, folded, why = read_rows(linear, rows, moments, limit, options)
    results, seen = _judged_projections(linear, rows, moments, folded, why, options)
    if others:
        results += _judged_by_rows(others, rows, moments, options)
        places = {each.name: place for place, each in enumerate(audited)}
        results.sort(key=lambda model: places[model.name])
    in_features = folded is None or folded.rows.n_features == moments.n_features
    folds = None if folded is None else folded.moments
    ordered = seen.ordered if in_features and seen is not None else ()
    return Judged(results, moments, ordered, folds)


def _judged_projections(
    audited: Sequence[Audited],
    rows: Rows,
    moments: Moments,
    folded: FoldedRows | None,
    why: str | None,
    options: Expectations,
) -> tuple[list[ModelAudit], RowFigures | None]:
    """Projections, judged by moments, with intervals from one more pass over the rows."""
    if not audited:
        return [], None
    judged = [_judge(each, moments) for each in audited]
    here = [
        each.was_fitted_on(moments, figures.errors)
        for each, figures in zip(audited, judged, strict=True)
    ]
    expected, failures = _nothing(audited, moments.n_groups), {each.name: why for each in audited}
    if folded is None:
        seen = figures_of_errors(audited, judged, rows, moments, has_labels=options.has_labels)
    else:
        repeats = figures_by_fold(folded, judged, here)
        seen = repeats[0][1]
        expected = _expected(repeats, judged, options)
        failures = dict(repeats[0][0].failures)
    spreads = seen.standard_errors[:, 0]
    results = [
        _model_audit(
            each,
            figures,
            moments,
            error_estimates(figures.errors, errors, seen.sizes, options.level),
            disparity_estimate(figures.errors, errors, seen.sizes, options.level),
            None if each.name in failures else groups,
            np.nan_to_num(kurtosis[0]),
            failures.get(each.name),
        )
        for each, figures, errors, groups, kurtosis in zip(
            audited, judged, spreads, expected, seen.kurtosis, strict=True
        )
    ]
    return results, seen


def _judged_by_rows(
    audited: Sequence[Audited], rows: Rows, moments: Moments, options: Expectations
) -> list[ModelAudit]:
    """Models that are no projections: the errors of the rows themselves."""
    judged, seen = figures_by_rows(audited, rows, moments, has_labels=options.has_labels)
    return [
        _model_audit(
            each,
            figures,
            moments,
            error_estimates(figures.errors, errors, seen.sizes, options.level),
            disparity_estimate(figures.errors, errors, seen.sizes, options.level),
            None,
            np.nan_to_num(kurtosis[0]),
            NO_PROJECTION,
        )
        for each, figures, errors, kurtosis in zip(
            audited, judged, seen.standard_errors[:, 0], seen.kurtosis, strict=True
        )
    ]


def judged_on_moments(
    audited: Sequence[Audited],
    pooled: GroupMoments,
    blocks: Sequence[GroupMoments],
    options: Expectations,
) -> list[ModelAudit]:
    """Judge models on moments alone; two or more blocks give jackknife intervals."""
    check_projections(audited)
    judged = [_judge(each, pooled) for each in audited]
    expected = _nothing(audited, pooled.n_groups)
    failures: dict[str, str] = {}
    if len(blocks) > 1 and options.folds is not None:
        expected, failures = _from_blocks(audited, judged, blocks, options)
    results = []
    for each, figures, groups in zip(audited, judged, expected, strict=True):
        errors = [Estimate(error) for error in figures.errors.tolist()]
        difference = Estimate(signed_disparity(figures.errors))
        if len(blocks) > 1:
            errors, difference = _jackknifed(each, figures, pooled, blocks, options.level)
        shown, why = None if each.name in failures else groups, failures.get(each.name)
        unknown = np.zeros(pooled.n_groups)
        results.append(_model_audit(each, figures, pooled, errors, difference, shown, unknown, why))
    return results


def expected_in_folds(
    audited: Sequence[Audited], folds: SummedFolds, options: Expectations
) -> list[list[ExpectedFigures | None]]:
    """Estimates for each model and group from moments by fold alone, with no pass over rows.

    Intervals are computed from the differences between folds: they are wider than those of an
    audit of the rows.
    """
    judged = [_judge(each, folds.whole) for each in audited]
    blocks = [part for part in folds.parts if part is not None]
    return _from_blocks(audited, judged, blocks, options)[0]


_Expected = list[list[ExpectedFigures | None]]


def _from_blocks(
    audited: Sequence[Audited],
    judged: Sequence[GroupFigures],
    blocks: Sequence[GroupMoments],
    options: Expectations,
) -> tuple[_Expected, dict[str, str]]:
    """Estimates with blocks in place of folds, and why some models have none."""
    folds = SummedFolds(tuple(blocks))
    here = [
        each.was_fitted_on(folds.whole, figures.errors)
        for each, figures in zip(audited, judged, strict=True)
    ]
    few = len(blocks) < FEWEST_FOLDS
    again = [fitted and not few for fitted in here]
    errors = [each.errors for each in judged]
    cross = cross_fitted(audited, errors, again, folds, len(blocks))
    seen = block_figures(cross, folds.whole.labels, blocks)
    failures = dict(cross.failures)
    if few:
        why = f"{len(blocks)} blocks are too few to fit it again without each"
        failures |= {each.name: why for each, fitted in zip(audited, here, strict=True) if fitted}
    return _expected([(cross, seen)], judged, options), failures


def _expected(
    repeats: Sequence[tuple[CrossFitted, RowFigures]],
    judged: Sequence[GroupFigures],
    options: Expectations,
) -> _Expected:
    return expected_figures(
        repeats,
        [each.best_errors for each in judged],
        [each.total_variances for each in judged],
        options,
    )


def _nothing(audited: Sequence[Audited], n_groups: int) -> _Expected:
    return [[None] * n_groups for _ in audited]


def _jackknifed(
    each: Audited,
    figures: GroupFigures,
    pooled: GroupMoments,
    blocks: Sequence[GroupMoments],
    level: float,
) -> tuple[list[Estimate], Estimate]:
    without = errors_without_each(blocks, pooled, each.subspace)
    errors = []
    for value, column in zip(figures.errors.tolist(), without.T, strict=True):
        estimate = jackknife(value, column.tolist(), level=level)
        errors.append(Estimate(value, max(estimate.low or 0.0, 0.0), estimate.high))
    low, high = widest_pair(figures.errors)
    pairs = pooled.n_groups * (pooled.n_groups - 1) // 2
    difference = signed_disparity(figures.errors)
    if pooled.n_groups == 1:
        return errors, Estimate(difference)
    return errors, jackknife(
        difference, (without[:, high] - without[:, low]).tolist(), pairs, level
    )


def _judge(each: Audited, moments: Moments) -> GroupFigures:
    each.check_groups(moments.labels)
    return group_figures(each.subspace, moments)


def _model_audit(
    each: Audited,
    figures: GroupFigures,
    moments: Moments,
    errors: Sequence[Estimate],
    difference: Estimate,
    expected: Sequence[ExpectedFigures | None] | None,
    kurtosis: FloatArray,
    why: str | None,
) -> ModelAudit:
    captured = figures.captured_ratios
    low, high = widest_pair(figures.errors) if moments.n_groups > 1 else (0, 0)
    provenance = each.subspace.provenance
    return ModelAudit(
        name=each.name,
        n_components=each.subspace.dimension,
        center=each.subspace.center,
        scaled=each.subspace.scale is not None,
        status=None if provenance is None else provenance.status,
        reason=None if provenance is None else provenance.reason,
        gap=None if provenance is None else provenance.objective - provenance.lower_bound,
        is_plain_pca=each.is_plain_pca,
        fitted_here=each.was_fitted_on(moments, figures.errors),
        baseline=each.baseline,
        known_groups=each.known_groups,
        groups=tuple(
            GroupAudit(
                group=label,
                n=int(moments.counts[i]),
                proportion=float(moments.proportions[i]),
                total_variance=float(figures.total_variances[i]),
                error=errors[i],
                best_error=float(figures.best_errors[i]),
                excess_loss=float(figures.excess_losses[i]),
                variance_kept=None if np.isnan(captured[i]) else float(captured[i]),
                expected=None if expected is None else expected[i],
                kurtosis=float(kurtosis[i]),
            )
            for i, label in enumerate(figures.labels)
        ),
        disparity=difference,
        pair=(figures.labels[low], figures.labels[high]),
        why_no_estimates=why,
        is_nested=each.subspace.is_nested,
    )
