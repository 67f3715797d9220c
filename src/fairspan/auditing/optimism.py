"""Optimism of the groups' best subspaces: held-out minus in-sample error.

The best error of a group is biased downward on its own rows, to which the best subspace was fitted,
and upward on held-out rows, since fewer rows determined that subspace. To second order both biases
are equal, so the mean of training and held-out error of the subspaces found without each fold is
nearly unbiased.
"""

from collections.abc import Sequence

import numpy as np

from fairspan.auditing.cross_fitting import CrossFit, Quantity
from fairspan.auditing.row_statistics import RowStatistics
from fairspan.typing import FloatArray

# If the held-out error of the best subspace exceeds its in-sample error by more than this share of
# the best error, the estimate depends on the folds and is averaged over several assignments.
MAX_OPTIMISM = 0.1


def corrected_best_errors(cross: CrossFit, statistics: RowStatistics) -> FloatArray:
    """Bias-corrected best error of each group on new rows for each model, (m, k)."""
    in_sample_errors = [
        (cross.fold_shares * cross.training_errors[model.optima_index]).sum(axis=0)
        for model in cross.models
    ]
    return np.asarray((np.array(in_sample_errors) + held_out_best_errors(statistics)) / 2)


def held_out_best_errors(statistics: RowStatistics) -> FloatArray:
    """Mean held-out errors of the groups' best subspaces, (m, k)."""
    return np.asarray(
        statistics.means[:, Quantity.HELD_OUT_ERROR]
        - statistics.means[:, Quantity.CROSS_FITTED_LOSS]
    )


def relative_optimism(
    cross: CrossFit, statistics: RowStatistics, best_errors: Sequence[FloatArray]
) -> FloatArray:
    """Optimism of the groups' best subspaces relative to their best errors, (m, k)."""
    best = corrected_best_errors(cross, statistics)
    optimism = held_out_best_errors(statistics) - np.array(best_errors)
    return np.asarray(np.divide(optimism, best, out=np.zeros_like(optimism), where=best > 0))
