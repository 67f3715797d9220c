"""Estimates of each group's loss on new rows.

The loss against the held-out best error is biased downward whatever the distribution; claims of
harm rest on it (:mod:`fairspan.auditing.cross_fit_run`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fairspan.auditing.cross_fit_run import RepeatedCrossFit
from fairspan.auditing.cross_fitting import EvaluatedModel, Quantity
from fairspan.auditing.estimates import GroupEstimates, ModelEstimates, State
from fairspan.auditing.estimation_options import EstimationOptions
from fairspan.auditing.identification import EigenvalueGap
from fairspan.auditing.intervals import (
    MIN_HEAVY_KURTOSIS,
    UNKNOWN,
    Estimate,
    disparity_estimate,
    half_width,
    jackknife_standard_error,
    widest_pair,
)
from fairspan.auditing.loss_states import LossInterval, classify_loss
from fairspan.auditing.loss_test import LossTest
from fairspan.auditing.sample_size import (
    UNKNOWN_PLAN,
    DetectionPlan,
    LossSpread,
    plan_detection,
    power_quantile,
)
from fairspan.metrics import GroupErrors
from fairspan.typing import FloatArray, IndexArray

# Below a gap of this many standard errors, the best subspace may be any of several, and the loss
# test compares with too small losses: in simulations it then claimed harm to tied groups in twice
# the nominal share of draws, and at a quarter of the level in no more.
_MIN_GAP_OF_TEST = 1.0
_LEVEL_DIVISOR_WITHOUT_GAP = 4


def estimate_models(
    cross_fit: RepeatedCrossFit,
    model_errors: Sequence[GroupErrors],
    loss_test: LossTest,
    options: EstimationOptions,
) -> list[ModelEstimates]:
    """Estimate losses, errors and changes on new rows for each model and group.

    The loss is the error of the group minus its best error, that of the best subspace for it alone;
    the change is the error minus that of the baseline model. Groups with too few rows get none.

    An in-sample model varies with its rows: with theta_f a figure over all rows of the group under
    the fit without fold f, the jackknife variance j^2 = (K - 1) / K sum_f (theta_f - mean)^2 is
    added to the squared standard errors of its errors and changes, and of the corrected loss.

    Where the center was learnt from the judged rows, means are corrected for it
    (:mod:`fairspan.auditing.fold_centers`).

    Parameters
    ----------
    cross_fit : RepeatedCrossFit
        Cross-fit of the models, under one fold assignment or several.
    model_errors : sequence of GroupErrors
        Errors of each model on the audited rows.
    loss_test : LossTest
    options : EstimationOptions
    """
    estimator = _Estimator(cross_fit, model_errors, loss_test, options)
    return [estimator.estimate_model(i) for i in range(len(estimator.models))]


@dataclass(frozen=True)
class _LossClaim:
    """State of a loss, with the limits and the loss that decide it.

    Attributes
    ----------
    state : {"harmed", "minor", "no material harm", "inconclusive"}
    low, high : float
        Limits of the interval to print.
    supporting_loss : float
        Loss that a claim of harm rests on: the cross-fitted one, which is biased downward, or the
        corrected one if the loss test shows it.
    """

    state: State
    low: float
    high: float
    supporting_loss: float


class _Estimator:
    """Estimates of models and groups, given by their indices; see :func:`estimate_models`."""

    def __init__(
        self,
        cross_fit: RepeatedCrossFit,
        model_errors: Sequence[GroupErrors],
        loss_test: LossTest,
        options: EstimationOptions,
    ) -> None:
        first = cross_fit.first
        self._statistics = first.statistics
        self._model_errors = model_errors
        self._loss_test = loss_test
        self._options = options
        self._eigenvalue_gaps = first.fit.eigenvalue_gaps
        self._n_folds, self._n_groups = first.fit.fold_shares.shape
        self.models = first.fit.models
        self._n_tests = _simultaneous_tests(self.models, self._n_groups, options)
        self._held_out_best_errors = cross_fit.held_out_best_errors
        means = first.statistics.means.copy()
        means[:, Quantity.CROSS_FITTED_LOSS] = (
            means[:, Quantity.HELD_OUT_ERROR] - self._held_out_best_errors
        )
        corrections = first.fit.center_corrections
        self._means = means + corrections
        self._best_errors_new_rows = cross_fit.corrected_best_errors + (
            corrections[:, Quantity.HELD_OUT_ERROR] - corrections[:, Quantity.CROSS_FITTED_LOSS]
        )
        self._has_enough_pairs = first.fit.has_enough_pairs
        self._is_estimated = cross_fit.has_enough_rows & (first.statistics.n_independent > 1)

    def estimate_model(self, i: int) -> ModelEstimates:
        """Estimate all groups of a model, their disparity and the model's instability.

        Groups with too few rows get no estimates; without any others, nor does the model.
        `min_cosine` is the smallest cosine of a principal angle between the model and a refit
        without one fold.
        """
        model = self.models[i]
        # Without a baseline the change is that from the model itself, zero.
        baseline = model
        if model.baseline_index is not None:
            baseline = self.models[model.baseline_index]
        refit_spreads = jackknife_standard_error(model.refit_errors)
        change_spreads = jackknife_standard_error(model.refit_errors - baseline.refit_errors)

        # Without further fields, there are no estimates.
        groups = [
            GroupEstimates(has_few_pairs=not has_enough)
            for has_enough in self._has_enough_pairs.tolist()
        ]
        estimated = np.flatnonzero(self._is_estimated[i] & self._has_enough_pairs)
        for g in estimated.tolist():
            groups[g] = self._estimate_group(
                i, g, float(refit_spreads[g]), float(change_spreads[g])
            )
        if not len(estimated):
            return ModelEstimates(groups)

        instability = None
        min_cosine = None
        if model.refits:
            instability = self._instability(i, groups, estimated, refit_spreads)
            min_cosine = model.min_cosine
        # A single group has no disparity; a pair of equal groups stands for that.
        disparity = UNKNOWN
        pair = (0, 0)
        if len(estimated) > 1:
            disparity = self._disparity(i, estimated)
            pair = widest_pair(self._means[i, Quantity.HELD_OUT_ERROR, estimated])
        disparity_pair = (int(estimated[pair[0]]), int(estimated[pair[1]]))
        return ModelEstimates(groups, disparity, disparity_pair, instability, min_cosine)

    def _instability(
        self,
        i: int,
        groups: Sequence[GroupEstimates],
        estimated: IndexArray,
        refit_spreads: FloatArray,
    ) -> float:
        """Largest ratio of the spread of a group's error under the refits to the sampling error.

        The sampling error is the half width that the interval of the group's loss would have if
        the model were fixed.

        Parameters
        ----------
        i : int
            Index of the model.
        groups : sequence of k GroupEstimates
        estimated : array of int
            Indices of the groups with estimates.
        refit_spreads : (k,) array
            Jackknife standard errors of the groups' errors under the refits.
        """
        margins = np.array(
            [self._margin_of_fixed_model(i, g, groups[g]) for g in estimated.tolist()]
        )
        ratios = np.zeros_like(margins)
        np.divide(refit_spreads[estimated], margins, out=ratios, where=margins > 0)
        return float(ratios.max())

    def _disparity(self, i: int, estimated: IndexArray) -> Estimate:
        """Difference in expected error between two groups of model i, with its interval.

        It is the error of the second group minus that of the first; of more than two groups, the
        largest error minus the smallest. `estimated` are the indices of at least two groups with
        estimates.
        """
        standard_errors = self._statistics.standard_errors[i, Quantity.HELD_OUT_ERROR]
        df = self._statistics.df[i, Quantity.HELD_OUT_ERROR]
        return disparity_estimate(
            self._means[i, Quantity.HELD_OUT_ERROR, estimated],
            standard_errors[estimated],
            counts=df[estimated] + 1,
            level=self._options.level,
            refit_errors=self.models[i].refit_errors[:, estimated],
        )

    def _margin(
        self,
        i: int,
        g: int,
        quantity: int,
        extra_standard_error: float = 0.0,
        n_tests: int | None = None,
    ) -> float:
        """Half width of the interval of a quantity, by default simultaneous over a family.

        The family is that of :func:`_simultaneous_tests`. The squares of the standard error from
        the rows and of `extra_standard_error` are added.
        """
        row_standard_error = self._statistics.standard_errors[i, quantity, g]
        standard_error = float(np.hypot(row_standard_error, extra_standard_error))
        df = float(self._statistics.df[i, quantity, g])
        if n_tests is None:
            n_tests = self._n_tests[i]
        return half_width(standard_error, df, n_tests, self._options.level)

    def _margin_of_fixed_model(self, i: int, g: int, estimates: GroupEstimates) -> float:
        """Half width of the interval of the loss without the variation of the model itself."""
        loss = estimates.expected_loss
        if loss == Estimate(0.0, 0.0, 0.0):  # nothing but rounding error
            return 0.0
        high = loss.value + self._margin(i, g, Quantity.CORRECTED_LOSS)
        return (high - (loss.low or 0.0)) / 2

    def _estimate_group(
        self, i: int, g: int, refit_spread: float, change_spread: float
    ) -> GroupEstimates:
        """Estimate group g of model i.

        `refit_spread` and `change_spread` are the jackknife standard errors of its error, and of
        its change from the baseline, under the refits without each fold.
        """
        error = float(self._means[i, Quantity.HELD_OUT_ERROR, g])
        best = float(self._best_errors_new_rows[i, g])
        error_margin = self._margin(i, g, Quantity.HELD_OUT_ERROR, refit_spread, n_tests=1)
        # Refits vary with the training rows, which adds to the variation between held-out rows.
        training_standard_error = 0.0
        if self.models[i].refits:
            training_standard_error = float(
                self._statistics.training_standard_errors[i, Quantity.CROSS_FITTED_LOSS, g]
            )
        loss = self._loss_interval(i, g, training_standard_error, refit_spread)
        claim = self._classify(i, g, loss)
        plan = UNKNOWN_PLAN
        if claim.state == "inconclusive":
            plan = self._plan_detection(i, g, loss, training_standard_error)
        # The harm is significant for the fixed model, but within the spread of its refits, so it
        # may be due to the rows the model was fitted to.
        is_harm_unstable = claim.state == "harmed" and claim.supporting_loss <= refit_spread
        if is_harm_unstable:
            low = min(claim.low, claim.supporting_loss - refit_spread)
            claim = replace(claim, state="inconclusive", low=low)
        change = self._change(i, g, change_spread)
        n_effective = math.nan
        if self._statistics.effective_counts is not None:
            n_effective = float(self._statistics.effective_counts[g])
        return GroupEstimates(
            expected_error=Estimate(error, max(error - error_margin, 0.0), error + error_margin),
            expected_loss=Estimate(loss.value, claim.low, claim.high),
            cross_fitted_loss=loss.cross_fitted,
            expected_best_error=best,
            state=claim.state,
            relative_optimism=loss.optimism / best if best > 0 else 0.0,
            expected_change=change,
            detection=plan,
            is_unstable=is_harm_unstable or self._is_sign_unstable(i, g, change, change_spread),
            is_heavy_tailed=loss.is_heavy_tailed,
            n_clusters=loss.n if self._options.has_clusters else None,
            n_effective=n_effective,
            eigenvalue_gap=self._eigenvalue_gap(i, g),
        )

    def _eigenvalue_gap(self, i: int, g: int) -> EigenvalueGap:
        """Gap after eigenvalue d of group g, with d the dimension of model i."""
        return self._eigenvalue_gaps[self.models[i].optima_index][g]

    def _classify(self, i: int, g: int, loss: LossInterval) -> "_LossClaim":
        """Classify the loss of group g by its interval, and by the loss test if that is open.

        The loss test compares with losses of simulated rows, and is less conservative than
        cross-fitting. It supports the corrected loss, so that the lower limit of that one counts.
        """
        state = classify_loss(loss)
        low, high = loss.limits_that_decide(state)
        if self._is_shown_by_test(i, g, state, loss):
            low = max(loss.low, loss.low_of_corrected)
            return _LossClaim("harmed", low, high, supporting_loss=loss.value)
        return _LossClaim(state, low, high, supporting_loss=loss.cross_fitted)

    def _plan_detection(
        self, i: int, g: int, loss: LossInterval, training_standard_error: float
    ) -> DetectionPlan:
        """Return how many rows detect the loss of group g; unknown if losses are heavy-tailed.

        The loss is the cross-fitted one, as a part of the corrected loss may be optimism, or the
        materiality threshold if larger. The plan has only the smallest loss that the rows detect
        if the group's best subspace is not identified.
        """
        standard_error = float(np.hypot(loss.standard_error, training_standard_error))
        if loss.is_heavy_tailed or not standard_error > 0:
            return UNKNOWN_PLAN
        weight_variation = 0.0
        if self._statistics.weight_variation is not None:
            weight_variation = float(self._statistics.weight_variation[g])
        # With n rows and some constant B, the best error is too small by B / n in sample, and too
        # large by B K / (n (K - 1)) on held-out rows. The optimism is the sum, the bias its first
        # term.
        n_folds = self._n_folds
        bias_of_best_error = loss.optimism * (n_folds - 1) / (2 * n_folds - 1)
        # Figures of a single row: the bias shrinks with 1 / n, the standard error with 1 / sqrt(n).
        spread = LossSpread(
            n=loss.n,
            standard_deviation=standard_error * math.sqrt(loss.n),
            bias=max(bias_of_best_error, 0.0) * loss.n,
            weight_variation=weight_variation,
        )
        quantile = power_quantile(self._n_tests[i], self._options.level)
        plan = plan_detection(loss.cross_fitted, loss.min_material_loss, spread, quantile)
        if self._eigenvalue_gap(i, g).is_identified:
            return plan
        # The bias shrinks more slowly with the number of rows than the formula says.
        return DetectionPlan(plan.min_detectable_loss)

    def _loss_interval(
        self, i: int, g: int, training_standard_error: float, refit_spread: float
    ) -> LossInterval:
        """Interval of the loss of group g under model i, set to zero if it is rounding error.

        The loss is the held-out error of the model minus the best error of the group. For the
        cross-fitted loss, that is the held-out error of the best subspace found without the fold,
        which is too large, so the loss is too small; the corrected loss has the bias-corrected best
        error instead. The lower limit is that of the cross-fitted loss, so that it is conservative;
        the value and the upper limit are those of the corrected loss.

        `training_standard_error` is the standard error of the cross-fitted loss due to the choice
        of training rows, by which the lower limit is widened. The field `standard_error` of the
        result has the variation between the rows only. By `refit_spread`, the jackknife standard
        error of the error under the refits, the upper limit is widened: the model in hand may lose
        more than its refits do on average.
        """
        statistics = self._statistics
        error = float(self._means[i, Quantity.HELD_OUT_ERROR, g])
        cross_fitted = float(self._means[i, Quantity.CROSS_FITTED_LOSS, g])
        cross_margin = self._margin(i, g, Quantity.CROSS_FITTED_LOSS, training_standard_error)
        corrected = error - float(self._best_errors_new_rows[i, g])
        held_out_best_error = float(self._held_out_best_errors[i, g])
        in_sample_best_error = float(self._model_errors[i].best_errors[g])
        loss = LossInterval(
            low=cross_fitted - cross_margin,
            value=corrected,
            high=corrected + self._margin(i, g, Quantity.CORRECTED_LOSS, refit_spread),
            cross_fitted=cross_fitted,
            optimism=held_out_best_error - in_sample_best_error,
            min_material_loss=self._options.materiality * float(self._model_errors[i].variances[g]),
            rounding_bound=float(self._model_errors[i].roundings[g]),
            # NaN where losses do not vary, or their powers overflow: no kurtosis is then known.
            kurtosis=float(np.nan_to_num(statistics.kurtosis[i, Quantity.CROSS_FITTED_LOSS, g])),
            n=int(statistics.n_independent[g]),
            standard_error=float(statistics.standard_errors[i, Quantity.CROSS_FITTED_LOSS, g]),
        )
        return loss.without_rounding()

    def _change(self, i: int, g: int, change_spread: float) -> Estimate:
        """Change in error from the baseline; unknown without one."""
        if self.models[i].baseline_index is None:
            return UNKNOWN
        change = float(self._means[i, Quantity.CHANGE, g])
        margin = self._margin(i, g, Quantity.CHANGE, change_spread)
        return Estimate(change, change - margin, change + margin)

    def _is_sign_unstable(self, i: int, g: int, change: Estimate, change_spread: float) -> bool:
        """Whether the sign of a significant and material change is within the spread of refits."""
        if self.models[i].baseline_index is None:
            return False
        min_change = self._options.materiality * float(self._model_errors[i].variances[g])
        size = abs(change.value)
        return size >= min_change and self._margin(i, g, Quantity.CHANGE) < size <= change_spread

    def _is_shown_by_test(self, i: int, g: int, state: State, loss: LossInterval) -> bool:
        """Whether the loss test shows a material loss that the intervals leave open."""
        if state != "inconclusive" or loss.kurtosis > MIN_HEAVY_KURTOSIS:
            return False
        is_material = loss.value >= loss.min_material_loss
        is_above_rounding = loss.low_of_corrected > loss.rounding_bound
        if not (is_material and is_above_rounding):
            return False
        n_tests = self._n_tests[i]
        gap = self._eigenvalue_gaps[self.models[i].optima_index][g]
        if gap.in_standard_errors < _MIN_GAP_OF_TEST:
            n_tests *= _LEVEL_DIVISOR_WITHOUT_GAP
        return self._loss_test.is_significant(i, g, n_tests)


def _simultaneous_tests(
    models: Sequence[EvaluatedModel], n_groups: int, options: EstimationOptions
) -> list[int]:
    """Return for each model how many intervals of losses, or of changes, hold at once with its own.

    Models that are compared with a baseline are one family with all of their groups, since the best
    of them may be chosen. The others are another one: ordinary PCA, at each number of dimensions.
    """
    if options.n_tests is not None:
        return [options.n_tests] * len(models)
    if options.is_pointwise:
        return [n_groups] * len(models)
    has_baseline = [model.baseline_index is not None for model in models]
    return [n_groups * has_baseline.count(compared) for compared in has_baseline]
