"""Multiple imputation: pool statistics of several imputations by Rubin's rules (1987).

Imputed cells of a row depend on all rows, so only errors on the rows at hand are estimated this
way. Held-out figures come from moments by fold (:mod:`fairspan.moments.em_folds`).

For m imputations with estimates q_j and squared standard errors u_j, the pooled estimate is their
mean, with squared standard error T = mean u_j + (1 + 1/m) B, where B is the variance of the q_j.
With l = (1 + 1/m) B / T and v degrees of freedom for complete data, the degrees of freedom are 1 /
(1/v_1 + 1/v_2), where v_1 = (m - 1) / l^2 and v_2 = v (1 - l) (v + 1) / (v + 3) (Barnard and Rubin
1999).
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fairspan.auditing.cross_fitting import Quantity
from fairspan.auditing.estimation_options import EstimationOptions
from fairspan.auditing.row_statistics import RowStatistics
from fairspan.moments.compute import Moments
from fairspan.moments.group_moments import compute_group_moments
from fairspan.moments.multiple_imputation import draw_imputations
from fairspan.rows.aggregation import Rows
from fairspan.rows.group_limit import GroupLimit


def impute_rows(
    rows: Rows, moments: Moments | None, limit: GroupLimit, options: EstimationOptions
) -> tuple[Sequence[Rows], Moments]:
    """Impute the missing cells several times (once if none is missing).

    Returns
    -------
    sequence of Rows
        Copies of the rows without missing cells.
    GroupMoments
        Expected moments given the observed cells (EM): `moments` if they are that, else computed.
    """
    if moments is None or moments.em_summary is None:
        moments = compute_group_moments(rows, limit)
    assert moments.em_summary is not None
    if not moments.em_summary.n_missing_cells.any():
        # All copies would be equal.
        one_copy = next(draw_imputations(rows, moments, limit, options.seed))
        return [one_copy], moments
    copies = list(draw_imputations(rows, moments, limit, options.seed))
    return copies, moments


def pool_statistics(imputations: Sequence[RowStatistics]) -> RowStatistics:
    """Pool row statistics over imputations by Rubin's rules, with their degrees of freedom.

    Kurtosis and training standard errors are averaged; all else is that of the first imputation.
    """
    first = imputations[0]
    m = len(imputations)
    means = np.array([imputation.means for imputation in imputations])
    within = np.mean([imputation.standard_errors**2 for imputation in imputations], axis=0)
    between = (1 + 1 / m) * means.var(axis=0, ddof=1)
    total = within + between
    missing_information = np.divide(between, total, out=np.zeros_like(total), where=total > 0)
    # Degrees of freedom of Barnard and Rubin (1999); they are zero if `observed_df` is.
    complete_df = first.df
    observed_df = (complete_df + 1) / (complete_df + 3) * complete_df * (1 - missing_information)
    with np.errstate(divide="ignore"):
        df = 1 / (missing_information**2 / (m - 1) + 1 / observed_df)
    return replace(
        first,
        means=means.mean(axis=0),
        standard_errors=np.sqrt(total),
        kurtosis=np.mean([imputation.kurtosis for imputation in imputations], axis=0),
        training_standard_errors=np.mean(
            [imputation.training_standard_errors for imputation in imputations], axis=0
        ),
        df_override=df,
    )


def with_block_estimates(rows: RowStatistics, blocks: RowStatistics) -> RowStatistics:
    """Take held-out figures from blocks of moments, and all else from imputed rows.

    A row is held out only if its missing cells were imputed without it, which blocks ensure. The
    kurtosis and the number of independent rows are those of the rows.

    Parameters
    ----------
    rows : RowStatistics
        Pooled over the imputations.
    blocks : RowStatistics
        Of the folds as blocks.
    """
    is_held_out = np.arange(len(Quantity)) != Quantity.ERROR
    is_held_out = is_held_out[:, None]  # for each of q quantities, in all groups
    return replace(
        rows,
        means=np.where(is_held_out, blocks.means, rows.means),
        standard_errors=np.where(is_held_out, blocks.standard_errors, rows.standard_errors),
        # The variation between blocks already includes that of the training rows.
        training_standard_errors=np.where(is_held_out, 0.0, rows.training_standard_errors),
        df_override=np.where(is_held_out, blocks.df, rows.df),
    )
