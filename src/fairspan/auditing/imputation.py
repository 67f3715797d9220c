"""Figures of tables in which missing cells were drawn, as one: the rules of Rubin (1987).

Of m tables with figures q_j and squared standard errors u_j, the figure is their mean, and its
squared standard error T = mean u_j + (1 + 1/m) B, with B the variance of the q_j. With the share
l = (1 + 1/m) B / T and v degrees of freedom without missing cells, it has 1 / (1/v_1 + 1/v_2) of
these: v_1 = (m - 1) / l^2 and v_2 = v (1 - l) (v + 1) / (v + 3) (Barnard and Rubin 1999).
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fairspan.auditing.cross_fitting import CrossFit
from fairspan.auditing.expected_losses import EstimationOptions
from fairspan.auditing.row_statistics import RowStatistics
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.multiple_imputation import draw_imputations
from fairspan.moments.of_rows import Moments, compute_dense_moments
from fairspan.rows.protocol import GroupLimit, Rows

Repeats = list[tuple[CrossFit, RowStatistics]]


def impute_rows(
    rows: Rows, moments: Moments | None, limit: GroupLimit, options: EstimationOptions
) -> tuple[Sequence[Rows], Moments]:
    """Tables in which missing cells are drawn, one where none is missing; and the rows' moments."""
    label_columns = {"has_y": options.has_y, "by_cluster": options.has_clusters}
    if not isinstance(moments, GroupMoments) or moments.em_summary is None:
        moments = compute_dense_moments(rows, limit, **label_columns)
    assert moments.em_summary is not None
    if not moments.em_summary.n_missing_cells.any():
        return [
            next(draw_imputations(rows, moments, limit, options.seed, **label_columns))
        ], moments
    return list(draw_imputations(rows, moments, limit, options.seed, **label_columns)), moments


def pool_runs(imputations: Sequence[Repeats]) -> Repeats:
    """What several tables say, for each assignment of rows to folds that all of them have."""
    found: Repeats = []
    for of_tables in zip(*imputations, strict=False):
        crosses, figures = zip(*of_tables, strict=True)
        found.append((_pool_cross_fits(crosses), pool_statistics(figures)))
    return found


def pool_statistics(imputations: Sequence[RowStatistics]) -> RowStatistics:
    """Figures of rows in several tables, as one."""
    first, m = imputations[0], len(imputations)
    means = np.array([model_versions.means for model_versions in imputations])
    within = np.mean([model_versions.standard_errors**2 for model_versions in imputations], axis=0)
    between = (1 + 1 / m) * means.var(axis=0, ddof=1)
    total = within + between
    missing_information = np.divide(between, total, out=np.zeros_like(total), where=total > 0)
    complete_df = first.df
    observed_df = (complete_df + 1) / (complete_df + 3) * complete_df * (1 - missing_information)
    with np.errstate(divide="ignore"):
        df = 1 / (missing_information**2 / (m - 1) + 1 / observed_df)
    return replace(
        first,
        means=means.mean(axis=0),
        standard_errors=np.sqrt(total),
        kurtosis=np.mean([model_versions.kurtosis for model_versions in imputations], axis=0),
        training_standard_errors=np.mean(
            [model_versions.training_standard_errors for model_versions in imputations], axis=0
        ),
        df_override=df,
    )


def _pool_cross_fits(imputations: Sequence[CrossFit]) -> CrossFit:
    """Best errors on the rows, and errors of models fitted again, as means over tables."""
    first = imputations[0]
    projections = tuple(
        replace(
            model_versions[0],
            refit_errors=np.mean([version.refit_errors for version in model_versions], axis=0),
            min_cosine=min(version.min_cosine for version in model_versions),
        )
        for model_versions in zip(*(table.models for table in imputations), strict=True)
    )
    errors = zip(*(table.training_errors for table in imputations), strict=True)
    return replace(
        first,
        training_errors=tuple(np.mean(model_versions, axis=0) for model_versions in errors),
        models=projections,
        refit_failures={
            name: reason for table in imputations for name, reason in table.refit_failures.items()
        },
    )
