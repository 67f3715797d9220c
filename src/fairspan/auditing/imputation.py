"""Figures of tables in which missing cells were drawn, as one: the rules of Rubin (1987).

Of m tables with figures q_j and squared standard errors u_j, the figure is their mean, and its
squared standard error T = mean u_j + (1 + 1/m) B, with B the variance of the q_j. With the share
l = (1 + 1/m) B / T and v degrees of freedom without missing cells, it has 1 / (1/v_1 + 1/v_2) of
these: v_1 = (m - 1) / l^2 and v_2 = v (1 - l) (v + 1) / (v + 3) (Barnard and Rubin 1999).
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fairspan.auditing.cross_fitting import CrossFitted
from fairspan.auditing.expected_losses import Expectations
from fairspan.auditing.row_statistics import RowFigures
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.imputed import imputed_rows
from fairspan.moments.of_rows import Moments, matrices_of
from fairspan.rows.protocol import GroupLimit, Rows

Repeats = list[tuple[CrossFitted, RowFigures]]


def tables_of(
    rows: Rows, moments: Moments | None, limit: GroupLimit, options: Expectations
) -> tuple[Sequence[Rows], Moments]:
    """Tables in which missing cells are drawn, one where none is missing; and the rows' moments."""
    beside = {"has_labels": options.has_labels, "by_cluster": options.by_cluster}
    if not isinstance(moments, GroupMoments) or moments.completion is None:
        moments = matrices_of(rows, limit, **beside)
    assert moments.completion is not None
    if not moments.completion.cells.any():
        return [next(imputed_rows(rows, moments, limit, options.seed, **beside))], moments
    return list(imputed_rows(rows, moments, limit, options.seed, **beside)), moments


def pooled_repeats(tables: Sequence[Repeats]) -> Repeats:
    """What several tables say, for each assignment of rows to folds that all of them have."""
    found: Repeats = []
    for of_tables in zip(*tables, strict=False):
        crosses, figures = zip(*of_tables, strict=True)
        found.append((_pooled_models(crosses), pooled_figures(figures)))
    return found


def pooled_figures(tables: Sequence[RowFigures]) -> RowFigures:
    """Figures of rows in several tables, as one."""
    first, m = tables[0], len(tables)
    means = np.array([each.means for each in tables])
    within = np.mean([each.standard_errors**2 for each in tables], axis=0)
    between = (1 + 1 / m) * means.var(axis=0, ddof=1)
    total = within + between
    share = np.divide(between, total, out=np.zeros_like(total), where=total > 0)
    usual = first.degrees
    observed = (usual + 1) / (usual + 3) * usual * (1 - share)
    with np.errstate(divide="ignore"):
        freedom = 1 / (share**2 / (m - 1) + 1 / observed)
    return replace(
        first,
        means=means.mean(axis=0),
        standard_errors=np.sqrt(total),
        kurtosis=np.mean([each.kurtosis for each in tables], axis=0),
        training_errors=np.mean([each.training_errors for each in tables], axis=0),
        freedom=freedom,
    )


def _pooled_models(tables: Sequence[CrossFitted]) -> CrossFitted:
    """Best errors on the rows, and errors of models fitted again, as means over tables."""
    first = tables[0]
    projections = tuple(
        replace(
            each[0],
            errors_by_fold=np.mean([one.errors_by_fold for one in each], axis=0),
            least_cosine=min(one.least_cosine for one in each),
        )
        for each in zip(*(table.projections for table in tables), strict=True)
    )
    errors = zip(*(table.training_errors for table in tables), strict=True)
    return replace(
        first,
        training_errors=tuple(np.mean(each, axis=0) for each in errors),
        projections=projections,
        failures={name: why for table in tables for name, why in table.failures.items()},
    )
