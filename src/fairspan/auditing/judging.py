"""What models do to each group of some rows, or of moments instead of rows."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from fairspan.auditing.by_feature import errors_by_feature
from fairspan.auditing.certificate_here import certificate_here, drift_since_fit
from fairspan.auditing.cross_fitting import CrossFitted, cross_fitted
from fairspan.auditing.estimating import (
    block_figures,
    errors_without_each,
    figures_by_fold,
    figures_of_errors,
    read_rows,
)
from fairspan.auditing.expected_losses import (
    UNKNOWN,
    Estimate,
    Expectations,
    ExpectedFigures,
    ExpectedOfModel,
    disparity_estimate,
    error_estimates,
    expected_figures,
    jackknife,
    jackknife_error,
    widest_pair,
)
from fairspan.auditing.imputation import pooled_figures, pooled_repeats, tables_of
from fairspan.auditing.loss_test import LossTest
from fairspan.auditing.models import Audited
from fairspan.auditing.own_rows import OwnRows, own_rows
from fairspan.auditing.results import GroupResult, ModelResult
from fairspan.auditing.row_statistics import RowFigures
from fairspan.errors import Incompatible
from fairspan.metrics import GroupFigures, group_figures, worst_case_error
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.of_rows import FEWEST_FOLDS, FoldMoments, Moments, SummedFolds
from fairspan.problem.criteria import RobustErrorGap
from fairspan.problem.problem import signed_disparity
from fairspan.rows.protocol import GroupLimit, KnownRows, Rows
from fairspan.typing import FloatArray, IntegerArray

NO_PROJECTION = (
    "it is no projection, so its errors are those of the rows: how it was fitted is not known, and "
    "the best subspaces do not bound it"
)
_Expected = list[ExpectedOfModel]


def judged_on_rows(
    audited: Sequence[Audited],
    rows: Rows,
    moments: Moments | None,
    limit: GroupLimit,
    options: Expectations,
) -> tuple[list[ModelResult], Moments, tuple[int, ...], FoldMoments | None]:
    """Judge models on rows, read twice: for moments, and for spreads.

    Models that are no projections are judged by the errors of the rows themselves. Of rows with
    missing cells, spreads are those of several tables in which these cells are drawn.

    Returns
    -------
    the models, and moments of all rows
    ordered : tuple of int
        Columns whose values all differ and only rise or only fall.
    folds : FoldMoments or None
        Moments by fold, where estimates for new rows were made.
    """
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
    tables: Sequence[Rows] = [rows]
    if isinstance(rows, KnownRows) and rows.keeps_missing:
        tables, moments = tables_of(rows, moments, limit, options)
    moments, folded, why = read_rows(linear, tables[0], moments, limit, options)
    results: list[ModelResult] = []
    ordered: tuple[int, ...] = ()
    if folded is not None:
        judged = [_judge(each, moments) for each in linear]
        own = _own(linear, judged, moments, folded.audited, folded.moments)
        folded = replace(folded, audited=_with_reasons(folded.audited, own))
        here = [each.fitted_here for each in own]
        every = [folded, *map(folded.of_table, tables[1:])]
        found = [figures_by_fold(each, judged, here) for each in every]
        repeats = found[0] if len(found) == 1 else pooled_repeats(found)
        cross, seen = repeats[0]
        subspaces = [each.subspace for each in folded.audited]
        tests = [LossTest(subspaces, each.moments, options.level, options.seed) for each in every]
        expected = _expected(repeats, judged, options, tests)
        results = _on_rows(linear, judged, moments, own, seen, expected, cross.failures, options)
        results = _with_features(results, linear, moments, cross, folded.moments)
        if folded.rows.n_features == moments.n_features:
            ordered = seen.ordered
    rest = audited if folded is None else others
    if rest:
        judged = [_judge(each, moments) for each in rest]
        of_tables = [
            figures_of_errors(rest, judged, table, moments, has_labels=options.has_labels)
            for table in tables
        ]
        seen = of_tables[0] if len(tables) == 1 else pooled_figures(of_tables)
        whys = {each.name: why if each.by_rows is None else NO_PROJECTION for each in rest}
        expected = [_nothing(moments)] * len(rest)
        own = _own(rest, judged, moments)
        more = _on_rows(rest, judged, moments, own, seen, expected, whys, options)
        results += _with_features(more, rest, moments)
        if folded is None and linear:
            ordered = seen.ordered
    places = {each.name: place for place, each in enumerate(audited)}
    results.sort(key=lambda model: places[model.name])
    return results, moments, ordered, None if folded is None else folded.moments


def _on_rows(
    audited: Sequence[Audited],
    judged: Sequence[GroupFigures],
    moments: Moments,
    own: Sequence[OwnRows],
    seen: RowFigures,
    expected: _Expected,
    whys: Mapping[str, str | None],
    options: Expectations,
) -> list[ModelResult]:
    """Figures of moments, with the intervals that one more pass over the rows gave."""
    results = []
    for i, (each, figures) in enumerate(zip(audited, judged, strict=True)):
        if each.by_rows is not None:
            figures = replace(figures, errors=seen.means[i, 0])
        counts = seen.degrees[i, 0] + 1
        spreads = (figures.errors, seen.standard_errors[i, 0], counts, options.level)
        results.append(
            _model_audit(
                each,
                figures,
                moments,
                own[i],
                error_estimates(*spreads),
                disparity_estimate(*spreads),
                expected[i],
                np.nan_to_num(seen.kurtosis[i, 0]),
                whys.get(each.name),
                (seen.standard_errors[i, 0], seen.sizes - 1),
                options,
            )
        )
    return results


def judged_on_moments(
    audited: Sequence[Audited],
    pooled: GroupMoments,
    blocks: Sequence[GroupMoments],
    options: Expectations,
) -> list[ModelResult]:
    """Judge models on moments alone; two or more blocks give jackknife intervals.

    Raises
    ------
    Incompatible
        A model that is no projection, whose errors moments do not tell.
    """
    for each in audited:
        if each.by_rows is not None:
            raise Incompatible(
                f"The model {each.name} is no projection, and moments were given",
                "Allowed beside moments are projections, whose errors moments tell",
                "Pass rows: X and sensitive_features",
            )
    judged = [_judge(each, pooled) for each in audited]
    expected = [_nothing(pooled)] * len(audited)
    failures: dict[str, str] = {}
    own = _own(audited, judged, pooled)
    if len(blocks) > 1 and options.folds is not None:
        expected, failures, own = _from_blocks(audited, judged, blocks, options)
    results: list[ModelResult] = []
    for each, figures, groups, known in zip(audited, judged, expected, own, strict=True):
        errors = [Estimate(error) for error in figures.errors.tolist()]
        difference = Estimate(signed_disparity(figures.errors))
        spread = np.full(pooled.n_groups, np.nan)
        if len(blocks) > 1:
            errors, difference, spread = _jackknifed(each, figures, pooled, blocks, options.level)
        unknown, why = np.zeros(pooled.n_groups), failures.get(each.name)
        results.append(
            _model_audit(
                each,
                figures,
                pooled,
                known,
                errors,
                difference,
                groups,
                unknown,
                why,
                (spread, len(blocks) - 1),
                options,
            )
        )
    # Of a model that was fitted on the blocks, only folds of rows tell which features lose.
    return _with_features(results, audited, pooled)


def _with_features(
    results: Sequence[ModelResult],
    audited: Sequence[Audited],
    moments: Moments,
    cross: CrossFitted | None = None,
    folds: FoldMoments | None = None,
) -> list[ModelResult]:
    """The same with the errors by feature."""
    found = []
    for i, (result, each) in enumerate(zip(results, audited, strict=True)):
        by_fold = () if cross is None else cross.projections[i].by_fold
        is_known = np.array([group.is_estimated for group in result.groups])
        if result.fitted_here and not by_fold:
            is_known[:] = False
        errors = errors_by_feature(each, moments, is_known, by_fold, folds)
        found.append(replace(result, by_feature=errors))
    return found


def expected_in_folds(
    audited: Sequence[Audited], folds: SummedFolds, options: Expectations
) -> list[ExpectedOfModel]:
    """Estimates for each model and group from moments by fold alone, with no pass over rows.

    Intervals are computed from the differences between folds: they are wider than those of an
    audit of the rows.
    """
    judged = [_judge(each, folds.whole) for each in audited]
    return _from_blocks(
        audited, judged, [part for part in folds.parts if part is not None], options
    )[0]


def _from_blocks(
    audited: Sequence[Audited],
    judged: Sequence[GroupFigures],
    blocks: Sequence[GroupMoments],
    options: Expectations,
) -> tuple[_Expected, dict[str, str], list[OwnRows]]:
    """Estimates with blocks in place of folds, why some models have none, and what is their own."""
    folds = SummedFolds(tuple(blocks))
    own = _own(audited, judged, folds.whole, audited, folds)
    here = [each.fitted_here for each in own]
    few = len(blocks) < FEWEST_FOLDS
    cross = cross_fitted(
        _with_reasons(audited, own),
        [each.errors for each in judged],
        [fitted and not few for fitted in here],
        folds,
        len(blocks),
    )
    seen = block_figures(cross, folds.whole.labels, blocks)
    failures = dict(cross.failures)
    if few:
        are = "1 block is" if len(blocks) == 1 else f"{len(blocks)} blocks are"
        why = f"{are} too few to fit it again without each"
        failures |= {each.name: why for each, fitted in zip(audited, here, strict=True) if fitted}
    test = LossTest([each.subspace for each in audited], folds, options.level, options.seed)
    return _expected([(cross, seen)], judged, options, [test]), failures, own


def _expected(
    repeats: Sequence[tuple[CrossFitted, RowFigures]],
    judged: Sequence[GroupFigures],
    options: Expectations,
    tests: Sequence[LossTest],
) -> _Expected:
    return expected_figures(
        repeats,
        [each.best_errors for each in judged],
        [each.total_variances for each in judged],
        [each.roundings for each in judged],
        options,
        # What is shown whatever the missing cells are.
        lambda model, group: all(test.shows(model, group) for test in tests),
    )


def _jackknifed(
    each: Audited,
    figures: GroupFigures,
    pooled: GroupMoments,
    blocks: Sequence[GroupMoments],
    level: float,
) -> tuple[list[Estimate], Estimate, FloatArray]:
    """Errors and disparity with their intervals, and the standard errors of the errors."""
    without = errors_without_each(blocks, pooled, each.subspace)
    spread = jackknife_error(without)
    errors = [
        jackknife(value, column.tolist(), level=level).cut_at_zero()
        for value, column in zip(figures.errors.tolist(), without.T, strict=True)
    ]
    low, high = widest_pair(figures.errors)
    pairs = pooled.n_groups * (pooled.n_groups - 1) // 2
    difference = signed_disparity(figures.errors)
    if pooled.n_groups == 1:
        return errors, Estimate(difference), spread
    apart = (without[:, high] - without[:, low]).tolist()
    return errors, jackknife(difference, apart, pairs, level), spread


def _own(
    audited: Sequence[Audited],
    judged: Sequence[GroupFigures],
    moments: Moments,
    in_folds: Sequence[Audited] = (),
    folds: FoldMoments | None = None,
) -> list[OwnRows]:
    """Which models were fitted on these rows; without folds, on exactly these."""
    exact = [
        each.was_fitted_on(moments, figures.errors)
        for each, figures in zip(audited, judged, strict=True)
    ]
    if folds is None or all(exact):
        return [
            OwnRows(is_so, why_not_refitted=each.why_not_refitted)
            for each, is_so in zip(audited, exact, strict=True)
        ]
    return own_rows(audited, exact, in_folds, folds)


def _with_reasons(audited: Sequence[Audited], own: Sequence[OwnRows]) -> list[Audited]:
    """The models with why they cannot be fitted again, where that is so."""
    return [
        replace(each, why_not_refitted=known.why_not_refitted)
        for each, known in zip(audited, own, strict=True)
    ]


def _judge(each: Audited, moments: Moments) -> GroupFigures:
    each.check_groups(moments.labels)
    return group_figures(each.subspace, moments)


def _nothing(moments: Moments) -> ExpectedOfModel:
    return ExpectedOfModel([ExpectedFigures()] * moments.n_groups)


def _worst_errors(each: Audited, moments: Moments) -> tuple[float, ...] | None:
    """Of a model by the robust error gap, where its radii are known for the groups of the rows."""
    certificate = each.subspace.certificate
    criterion = None if certificate is None else certificate.criterion
    if not isinstance(criterion, RobustErrorGap):
        return None
    radius = criterion.radius
    if isinstance(radius, Mapping) and set(radius) != set(moments.labels):
        return None
    return tuple(worst_case_error(each.subspace, moments, radius=radius).values())


def _model_audit(
    each: Audited,
    figures: GroupFigures,
    moments: Moments,
    own: OwnRows,
    errors: Sequence[Estimate],
    difference: Estimate,
    expected: ExpectedOfModel,
    kurtosis: FloatArray,
    why: str | None,
    spread: tuple[FloatArray, IntegerArray | int],
    options: Expectations,
) -> ModelResult:
    low, high = widest_pair(figures.errors) if moments.n_groups > 1 else (0, 0)
    if why is not None:
        expected = _nothing(moments)
    first, second = expected.pair
    certificate, here = each.subspace.certificate, None
    drift = [UNKNOWN] * moments.n_groups
    if not own.fitted_here:
        here = certificate_here(each.subspace, moments, figures.errors, options.material)
        drift = drift_since_fit(each.subspace, moments, figures.errors, *spread, options.level)
    return ModelResult(
        name=each.name,
        n_components=each.subspace.dimension,
        center=each.subspace.center,
        scaled=each.subspace.scale is not None,
        status=None if certificate is None else str(certificate.status),
        tol=None if certificate is None else certificate.tol,
        reason=None if certificate is None else certificate.reason,
        worst_errors_here=_worst_errors(each, moments),
        certificate_here=here,
        gap=None if certificate is None else certificate.gap,
        is_plain_pca=each.is_plain_pca,
        fitted_here=own.fitted_here,
        seems_fitted_here=own.by_test,
        baseline=each.baseline,
        known_groups=each.known_groups,
        groups=tuple(
            GroupResult(
                group=label,
                n=int(moments.counts[i]),
                proportion=float(moments.proportions[i]),
                total_variance_here=float(figures.total_variances[i]),
                error_here=errors[i],
                best_error_here=float(figures.best_errors[i]),
                loss_here=float(figures.excess_losses[i]),
                kept_here=float(figures.captured_ratios[i]),
                kurtosis_here=float(kurtosis[i]),
                drift_here=drift[i],
                rounding_here=float(figures.roundings[i]),
                **vars(expected.groups[i]),
            )
            for i, label in enumerate(figures.labels)
        ),
        disparity_here=difference,
        pair=(figures.labels[low], figures.labels[high]),
        why_no_estimates=why,
        is_nested=each.subspace.is_nested,
        expected_disparity=expected.disparity,
        expected_pair=(figures.labels[first], figures.labels[second]) if first != second else None,
        instability=expected.instability,
        least_cosine=expected.least_cosine,
    )
