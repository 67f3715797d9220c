"""Cross-fit of the models under one assignment of rows to folds, as evaluated on the rows.

It has the optimism of the groups' best subspaces, which is their held-out minus their in-sample
error. The best error of a group is biased downward on its own rows, to which the best subspace was
fitted, and upward on held-out rows, since fewer rows determined that subspace. To second order both
biases are equal, so the mean of training and held-out error of the subspaces found without each
fold is nearly unbiased.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from fairspan.auditing.cross_fitting import CrossFit, Quantity
from fairspan.auditing.row_statistics import RowStatistics
from fairspan.metrics import GroupErrors
from fairspan.typing import BoolArray, FloatArray, IntegerArray

# If the held-out error of the best subspace exceeds its in-sample error by more than this share of
# the best error, the estimate depends on the folds and is averaged over several assignments.
MAX_OPTIMISM = 0.1


@dataclass(frozen=True, eq=False)
class CrossFitRun:
    """Cross-fit of the models under one fold assignment, and the statistics of the rows under it.

    Attributes
    ----------
    fit : CrossFit
        The models and the groups' best subspaces, on all rows and without each fold.
    statistics : RowStatistics
        Means and standard errors of the rows' squared residuals under them.
    """

    fit: CrossFit
    statistics: RowStatistics

    @cached_property
    def held_out_best_errors(self) -> FloatArray:
        """Mean held-out errors of the groups' best subspaces for each model, (m, k)."""
        means = self.statistics.means
        return np.asarray(means[:, Quantity.HELD_OUT_ERROR] - means[:, Quantity.CROSS_FITTED_LOSS])

    @cached_property
    def corrected_best_errors(self) -> FloatArray:
        """Bias-corrected best error of each group on new rows for each model, (m, k)."""
        in_sample_errors = [
            (self.fit.fold_shares * self.fit.training_errors[model.optima_index]).sum(axis=0)
            for model in self.fit.models
        ]
        return np.asarray((np.array(in_sample_errors) + self.held_out_best_errors) / 2)

    def has_unstable_best_error(self, model_errors: Sequence[GroupErrors]) -> BoolArray:
        """Whether the best error of a group depends on the folds, for each model and group, (m, k).

        It does if the optimism, the held-out minus the in-sample error of the group's best
        subspace, is more than 10 % of the best error: then the subspace varies with the rows that
        are left out. Groups with too few rows get no estimates, and do not count.

        Parameters
        ----------
        model_errors : sequence of m GroupErrors
            Errors of each model on all rows.
        """
        best_errors = np.array([errors.best_errors for errors in model_errors])
        best = self.corrected_best_errors
        optimism = self.held_out_best_errors - best_errors
        relative_optimism = np.divide(optimism, best, out=np.zeros_like(optimism), where=best > 0)
        return np.asarray(self.fit.has_enough_rows & (relative_optimism > MAX_OPTIMISM))


@dataclass(frozen=True, eq=False)
class RepeatedCrossFit:
    """Cross-fit of m models, repeated under further fold assignments for those that are unstable.

    A model is unstable if the best error of a group depends on the folds. All figures come from the
    first assignment, except best errors of unstable models, which are averaged over assignments, so
    that estimates of a model do not depend on which other models are audited.

    Attributes
    ----------
    first : CrossFitRun
        Cross-fit of all models under the first assignment.
    unstable_models : (u,) array of int
        Indices of the unstable models.
    further : sequence of CrossFitRun
        Cross-fits of the unstable models only, one per further assignment; empty if there are none.
    """

    first: CrossFitRun
    unstable_models: IntegerArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    further: Sequence[CrossFitRun] = ()

    @property
    def held_out_best_errors(self) -> FloatArray:
        """Mean held-out errors of the groups' best subspaces for each model, (m, k)."""
        result = self.first.held_out_best_errors.copy()
        if self.further:
            errors = [result[self.unstable_models]]
            errors += [run.held_out_best_errors for run in self.further]
            result[self.unstable_models] = np.mean(errors, axis=0)
        return result

    @property
    def corrected_best_errors(self) -> FloatArray:
        """Bias-corrected best error of each group on new rows for each model, (m, k)."""
        result = self.first.corrected_best_errors.copy()
        if self.further:
            errors = [result[self.unstable_models]]
            errors += [run.corrected_best_errors for run in self.further]
            result[self.unstable_models] = np.mean(errors, axis=0)
        return result

    @property
    def has_enough_rows(self) -> BoolArray:
        """Whether a group has more training rows than dimensions, whichever fold is left out.

        One value for each model and group, (m, k), under all assignments.
        """
        result = self.first.fit.has_enough_rows.copy()
        for run in self.further:
            result[self.unstable_models] &= run.fit.has_enough_rows
        return result
