"""Intervals, and estimates of each group's loss on new rows.

The best error of a group is biased downward on its own rows, to which the best subspace was fitted,
and upward on held-out rows, since fewer rows determined that subspace. To second order both biases
are equal, so the mean of training and held-out error of the subspaces found without each fold is
nearly unbiased. The loss against the held-out error is biased downward whatever the distribution;
claims of harm rest on it.
"""

import math
import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from fairspan.auditing.cross_fitting import QUANTITIES, CrossFit
from fairspan.auditing.distributions import student_isf
from fairspan.auditing.row_statistics import RowStatistics
from fairspan.errors import IncompatibleParameters, InvalidParameter
from fairspan.parameters import check_integer
from fairspan.problem.problem import signed_disparity
from fairspan.random_state import as_generator
from fairspan.rows.folds import Folds
from fairspan.typing import FloatArray

DEFAULT_LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """A value (NaN if unknown) with its confidence limits (None if there is no interval)."""

    value: float
    low: float | None = None
    high: float | None = None

    def to_record(self, name: str) -> dict[str, float | None]:
        """Return value and limits as entries `name`, `name_low`, `name_high`."""
        return {name: none_if_nan(self.value), f"{name}_low": self.low, f"{name}_high": self.high}

    @property
    def has_interval(self) -> bool:
        """Whether both confidence limits are known."""
        return self.low is not None and self.high is not None

    @property
    def contains_zero(self) -> bool:
        """Whether the interval contains zero; False without an interval."""
        return self.low is not None and self.high is not None and self.low <= 0 <= self.high

    def without_rounding(self, rounding: float) -> "Estimate":
        """Return the estimate with zero in place of a value or limit of at most `rounding`."""
        value = 0.0 if abs(self.value) <= rounding else self.value
        low, high = (
            0.0 if limit is not None and abs(limit) <= rounding else limit
            for limit in (self.low, self.high)
        )
        return Estimate(value, low, high)

    def clipped_at_zero(self) -> "Estimate":
        """Return the estimate with its lower limit clipped at zero."""
        return Estimate(self.value, max(self.low or 0.0, 0.0), self.high)

    @classmethod
    def from_standard_error(
        cls,
        value: float,
        standard_error: float,
        df: float,
        n_tests: int = 1,
        level: float = DEFAULT_LEVEL,
    ) -> "Estimate":
        """Two-sided Student interval, Bonferroni-adjusted for `n_tests` simultaneous intervals."""
        margin = half_width(standard_error, df, n_tests, level)
        return cls(value, value - margin, value + margin)


def none_if_nan(value: float) -> float | None:
    """Return the value, or None if it is NaN."""
    return None if math.isnan(value) else value


def half_width(standard_error: float, df: float, n_tests: int, level: float) -> float:
    """Half width of a two-sided Student interval, Bonferroni-adjusted for `n_tests`."""
    # The quantile handles infinite degrees of freedom.
    return student_isf((1 - level) / (2 * n_tests), float(df)) * standard_error


def error_estimates(
    errors: FloatArray,
    standard_errors: FloatArray,
    counts: FloatArray,
    level: float = DEFAULT_LEVEL,
) -> list[Estimate]:
    """Student intervals of each group's mean error, clipped at zero.

    `counts` are the degrees of freedom plus one and need not be integers. There is no interval for
    a group of one row.
    """
    estimates = []
    values = zip(errors.tolist(), standard_errors.tolist(), counts.tolist(), strict=True)
    for error, standard_error, count in values:
        estimate = Estimate(error)
        if count > 1:
            estimate = Estimate.from_standard_error(error, standard_error, count - 1, level=level)
            estimate = estimate.clipped_at_zero()
        estimates.append(estimate)
    return estimates


def widest_pair(errors: FloatArray) -> tuple[int, int]:
    """Return the indices (a, b) of the groups that define the disparity error_b - error_a.

    The two groups, or those with the smallest and largest error.
    """
    if len(errors) == 2:
        return 0, 1
    return int(np.argmin(errors)), int(np.argmax(errors))


def disparity_estimate(
    errors: FloatArray,
    standard_errors: FloatArray,
    counts: FloatArray,
    level: float = DEFAULT_LEVEL,
    refit_errors: FloatArray | None = None,
) -> Estimate:
    """Disparity with Welch's interval for two independent samples.

    With more than two groups, the widest pair is selected from the data, so the interval is
    simultaneous over all pairs (Bonferroni). No interval if a group of the pair has one row. With
    `refit_errors` (K, k), the jackknife variance of their difference is added.
    """
    value = signed_disparity(errors)
    pair = list(widest_pair(errors))
    if len(errors) < 2 or (counts[pair] < 2).any():
        return Estimate(value)
    standard_error = float(np.hypot(*standard_errors[pair]))
    if standard_error == 0:
        return Estimate(value, value, value)
    # Normalize first to avoid overflow.
    shares = (standard_errors[pair] / standard_error) ** 2
    df = 1.0 / float((shares**2 / (counts[pair] - 1)).sum())
    if refit_errors is not None:
        differences = refit_errors[:, pair[1]] - refit_errors[:, pair[0]]
        standard_error = float(np.hypot(standard_error, jackknife_standard_error(differences)))
    return Estimate.from_standard_error(value, standard_error, df, math.comb(len(errors), 2), level)


def jackknife_estimate(
    value: float, leave_one_out: Sequence[float], n_tests: int = 1, level: float = DEFAULT_LEVEL
) -> Estimate:
    """Delete-a-block jackknife interval.

    Parameters
    ----------
    value : float
        Value from all blocks.
    leave_one_out : sequence of B >= 2 floats
    n_tests : int
        Number of simultaneous intervals.
    """
    values = np.asarray(leave_one_out, dtype=np.float64)
    return Estimate.from_standard_error(
        value, float(jackknife_standard_error(values)), len(values) - 1, n_tests, level
    )


def jackknife_standard_error(leave_one_out: FloatArray) -> FloatArray:
    """Jackknife standard error sqrt((B - 1) / B sum_f (theta_f - mean)^2) along the first axis."""
    n_blocks = len(leave_one_out)
    deviations = leave_one_out - leave_one_out.mean(axis=0)
    # hypot avoids overflow of the squares.
    return np.asarray(math.sqrt((n_blocks - 1) / n_blocks) * np.hypot.reduce(deviations, axis=0))


State = Literal["harmed", "minor", "no material harm", "inconclusive"]
"""Classification of a group's loss by its intervals."""

# If the held-out error of the best subspace exceeds its in-sample error by more than this share of
# the best error, the estimate depends on the folds and is averaged over several assignments.
MAX_OPTIMISM = 0.1
# The kurtosis of n numbers is n if a single one dominates, and bounded in n if the fourth moment is
# finite. Above this share of n, intervals are unreliable.
_MAX_KURTOSIS_SHARE = 0.1
# Squares of normal variables have a kurtosis of 15, and few samples of them exceed 30 by chance.
_MIN_HEAVY_KURTOSIS = 30.0
# Number of rows that may lie as far out as the kurtosis allows.
_N_OUTLYING_ROWS = 4.0
_NEW_ERROR, _CROSS, _CORRECTED, _CHANGE = (
    QUANTITIES.index(name)
    for name in ("held_out_error", "cross_fitted_loss", "corrected_loss", "change")
)


UNKNOWN = Estimate(math.nan)
"""Estimate of an unknown value."""


@dataclass(frozen=True, kw_only=True)
class GroupEstimates:
    """Estimates for new rows of a group under a model, in squared (scaled) units of the features.

    By default, all are unknown (NaN).

    Attributes
    ----------
    expected_error : Estimate
        Mean error on new rows. For an in-sample model, that of the same fit to other rows; the
        interval includes the variation of the model with its rows.
    expected_loss : Estimate
        Expected excess over the group's best error. The interval runs from the lower limit of the
        cross-fitted loss to the upper limit of the corrected loss and is simultaneous over groups.
    cross_fitted_loss : float
        Loss against the held-out best error; its expectation is at most the true loss.
    expected_best_error : float
        Bias-corrected estimate of the smallest error of any subspace of the same dimension on new
        rows.
    state : {"harmed", "minor", "no material harm", "inconclusive"}
        Classification by the simultaneous intervals.
    relative_optimism : float
        Optimism of the group's best subspace (held-out minus in-sample error), relative to the best
        error.
    expected_change : Estimate
        Change in error from the baseline PCA, with intervals simultaneous over groups.
    min_detectable_loss : float
        Smallest loss that these rows can detect if the state is "inconclusive", otherwise NaN.
    sample_size_factor : float
        Factor on the number of rows at which the loss, or the materiality threshold if larger,
        would be detected (:func:`required_sample_size`); NaN if not applicable.
    is_unstable : bool
        Whether harm, or the sign of the change, would be significant for the fixed model, but is
        within the jackknife spread of its refits.
    is_heavy_tailed : bool
        Whether a few rows dominate the loss, so that its interval is unreliable.
    n_clusters : int or None
        Number of clusters in the group; None if clusters were not given.
    """

    expected_error: Estimate = UNKNOWN
    expected_loss: Estimate = UNKNOWN
    cross_fitted_loss: float = math.nan
    expected_best_error: float = math.nan
    state: State = "inconclusive"
    relative_optimism: float = math.nan
    expected_change: Estimate = UNKNOWN
    min_detectable_loss: float = math.nan
    sample_size_factor: float = math.nan
    is_unstable: bool = False
    is_heavy_tailed: bool = False
    n_clusters: int | None = None

    @property
    def state_reason(self) -> str:
        """Reason for an inconclusive state other than the width of the interval."""
        if self.state != "inconclusive":
            return ""
        if not self.is_estimated:
            return "too few rows"
        if self.is_unstable:
            return "unstable model"
        return "heavy-tailed losses" if self.is_heavy_tailed else ""

    @property
    def is_estimated(self) -> bool:
        """Whether there are estimates for new rows."""
        return not math.isnan(self.expected_loss.value)

    def has_negative_loss(self, rounding_bound: float) -> bool:
        """Whether the entire interval of the loss is negative beyond rounding error."""
        return self.expected_loss.high is not None and self.expected_loss.high < -rounding_bound


@dataclass(frozen=True)
class ModelEstimates:
    """Estimates for new rows of all groups under one model.

    Attributes
    ----------
    groups : sequence of k GroupEstimates
    disparity : Estimate
        Disparity of the expected errors.
    disparity_pair : (int, int)
        Indices of the two groups that define it; equal if there is none.
    instability : float or None
        Sensitivity of an in-sample model to its rows: the largest ratio over groups of the
        delete-a-fold jackknife standard error of a group's error to the half width of the interval
        of its loss. None for other models.
    min_cosine : float or None
        Cosine of the largest principal angle between the model and any of its refits.
    """

    groups: Sequence[GroupEstimates]
    disparity: Estimate = UNKNOWN
    disparity_pair: tuple[int, int] = (0, 0)
    instability: float | None = None
    min_cosine: float | None = None


@dataclass(frozen=True)
class EstimationOptions:
    """Options for the estimates on new rows.

    Attributes
    ----------
    folds : int or None
        Number K of folds; None for no estimates.
    level : float
        Confidence level of the intervals.
    materiality : float
        Materiality threshold, as a share of the group's variance.
    seed : int
        Seed of the fold assignment.
    has_clusters : bool
        Whether the last label column is the cluster.
    has_y : bool
        Whether the last label column before the cluster is y.
    max_memory : int or None
        Memory budget in bytes for moments by fold; the number of folds is reduced to fit it.
    repeats : int
        Number of fold assignments.
    """

    folds: int | None = 10
    level: float = 0.95
    materiality: float = 0.01
    seed: int = 0
    has_clusters: bool = False
    has_y: bool = False
    max_memory: int | None = None
    repeats: int = 1


def is_heavy_tailed(kurtosis: float, n: int) -> bool:
    """Whether a few of n numbers dominate their mean, so that intervals are unreliable.

    Examples
    --------
    >>> is_heavy_tailed(15.0, 100), is_heavy_tailed(40.0, 100), is_heavy_tailed(40.0, 1000)
    (False, True, False)
    """
    return kurtosis > max(_MAX_KURTOSIS_SHARE * n, _MIN_HEAVY_KURTOSIS)


DEFAULT_OPTIONS = EstimationOptions()
"""The defaults of :func:`fairspan.audit`."""


def estimation_options(
    folds: int | None,
    level: float,
    materiality: float,
    random_state: Any,
    *,
    has_clusters: bool,
    has_y: bool = False,
    repeats: int = 1,
) -> EstimationOptions:
    """Validate the user's settings and return them as options.

    Raises
    ------
    InvalidParameter, InvalidType, IncompatibleParameters
    """
    if not isinstance(level, numbers.Real) or not 0.5 < level < 1:
        raise InvalidParameter(
            f"level is {level!r}",
            "Allowed: a number above 0.5 and below 1",
            "Use the default, 0.95",
        )
    if not isinstance(materiality, numbers.Real) or not 0 <= materiality < 1:
        raise InvalidParameter(
            f"materiality is {materiality!r}",
            "Allowed: a share of a group's variance, at least 0 and below 1",
            "Use the default, 0.01",
        )
    if folds is None and has_clusters:
        raise IncompatibleParameters(
            "clusters was given, but folds is None",
            "Allowed: clusters together with folds",
            "Leave folds at its default, 10",
        )
    check_integer("repeats", repeats)
    if folds is not None:
        Folds(folds)
    elif repeats > 1:
        raise IncompatibleParameters(
            f"repeats is {repeats}, but folds is None",
            "Allowed: repeats together with folds",
            "Leave folds at its default, 10",
        )
    is_seed = isinstance(random_state, numbers.Integral) and random_state >= 0
    seed = int(random_state) if is_seed else int(as_generator(random_state).integers(2**31))
    return EstimationOptions(
        folds, float(level), float(materiality), seed, has_clusters, has_y, repeats=repeats
    )


def estimate_models(
    runs: Sequence[tuple[CrossFit, RowStatistics]],
    best_errors: Sequence[FloatArray],
    variances: Sequence[FloatArray],
    roundings: Sequence[FloatArray],
    options: EstimationOptions,
    is_loss_significant: Callable[[int, int], bool] = lambda model, group: False,
) -> list[ModelEstimates]:
    """Estimate losses, errors and changes on new rows for each model and group.

    Groups with too few rows get none.

    An in-sample model varies with its rows: with theta_f a figure over all rows of the group under
    the fit without fold f, the jackknife variance j^2 = (K - 1) / K sum_f (theta_f - mean)^2 is
    added to the squared standard errors of its errors and changes.

    Parameters
    ----------
    runs : sequence of (CrossFit, RowStatistics)
        One run per fold assignment. Best errors are averaged over the runs for models with an
        unstable group; all other figures come from the first run, so they do not depend on which
        other models are audited.
    best_errors, variances, roundings : sequences of (k,) arrays
        Observed best errors e*_g and variances tr S_g for each model.
    options : EstimationOptions
    is_loss_significant : callable
        Function (model index, group index) -> whether the loss test is significant.
    """
    estimator = _Estimator(runs, best_errors, variances, roundings, options, is_loss_significant)
    return [estimator.estimate_model(i) for i in range(len(estimator.models))]


class _Estimator:
    """Estimates of models and groups, given by their indices; see :func:`estimate_models`."""

    def __init__(
        self,
        runs: Sequence[tuple[CrossFit, RowStatistics]],
        best_errors: Sequence[FloatArray],
        variances: Sequence[FloatArray],
        roundings: Sequence[FloatArray],
        options: EstimationOptions,
        is_loss_significant: Callable[[int, int], bool],
    ) -> None:
        cross, statistics = runs[0]
        self._cross = cross
        self._statistics = statistics
        self._best_errors = best_errors
        self._variances = variances
        self._roundings = roundings
        self._options = options
        self._is_loss_significant = is_loss_significant
        self._n_groups = len(statistics.n_independent)
        self.models = cross.models
        optimism = relative_optimism(cross, statistics, best_errors)
        is_group_unstable = cross.has_enough_rows & (optimism > MAX_OPTIMISM)
        needs_averaging = np.asarray(is_group_unstable.any(axis=1))[:, None]
        held_out_best = np.where(
            needs_averaging,
            np.mean([held_out_best_errors(run_statistics) for _, run_statistics in runs], axis=0),
            held_out_best_errors(statistics),
        )
        self._means = statistics.means.copy()
        self._means[:, _CROSS] = self._means[:, _NEW_ERROR] - held_out_best
        self._best_errors_new_rows = np.where(
            needs_averaging,
            np.mean([corrected_best_errors(*run) for run in runs], axis=0),
            corrected_best_errors(cross, statistics),
        )
        has_enough_rows = np.logical_and.reduce([run.has_enough_rows for run, _ in runs])
        self._is_estimated = has_enough_rows & (statistics.n_independent > 1)

    def estimate_model(self, i: int) -> ModelEstimates:
        """Estimate all groups of a model, their disparity and the model's instability."""
        model = self.models[i]
        baseline = model if model.baseline_index is None else self.models[model.baseline_index]
        refit_spreads = jackknife_standard_error(model.refit_errors)
        change_spreads = jackknife_standard_error(model.refit_errors - baseline.refit_errors)
        groups = [GroupEstimates()] * self._n_groups
        estimated = np.flatnonzero(self._is_estimated[i])
        for g in estimated.tolist():
            groups[g] = self._estimate_group(
                i, g, float(refit_spreads[g]), float(change_spreads[g])
            )
        if not len(estimated):
            return ModelEstimates(groups)
        instability = None
        min_cosine = None
        if model.refits:
            losses = [groups[g].expected_loss for g in estimated]
            margins = np.array([((loss.high or 0.0) - (loss.low or 0.0)) / 2 for loss in losses])
            ratios = np.zeros_like(margins)
            np.divide(refit_spreads[estimated], margins, out=ratios, where=margins > 0)
            instability = float(ratios.max())
            min_cosine = model.min_cosine
        disparity = UNKNOWN
        disparity_pair = (int(estimated[0]), int(estimated[0]))
        if len(estimated) > 1:
            errors = self._means[i, _NEW_ERROR, estimated]
            disparity = disparity_estimate(
                errors,
                self._statistics.standard_errors[i, _NEW_ERROR, estimated],
                self._statistics.df[i, _NEW_ERROR, estimated] + 1,
                self._options.level,
                model.refit_errors[:, estimated],
            )
            low, high = widest_pair(errors)
            disparity_pair = (int(estimated[low]), int(estimated[high]))
        return ModelEstimates(groups, disparity, disparity_pair, instability, min_cosine)

    def _margin(
        self,
        i: int,
        g: int,
        quantity: int,
        extra_standard_error: float = 0.0,
        n_tests: int | None = None,
    ) -> float:
        """Half width of the interval of a quantity, simultaneous over all groups by default."""
        row_standard_error = self._statistics.standard_errors[i, quantity, g]
        standard_error = float(np.hypot(row_standard_error, extra_standard_error))
        df = float(self._statistics.df[i, quantity, g])
        if n_tests is None:
            n_tests = self._n_groups
        return half_width(standard_error, df, n_tests, self._options.level)

    def _estimate_group(
        self, i: int, g: int, refit_spread: float, change_spread: float
    ) -> GroupEstimates:
        """Estimate a group, given the spreads of its error and change under the refits."""
        model = self.models[i]
        statistics = self._statistics
        error = float(self._means[i, _NEW_ERROR, g])
        cross_fitted = float(self._means[i, _CROSS, g])
        best = float(self._best_errors_new_rows[i, g])
        error_margin = self._margin(i, g, _NEW_ERROR, refit_spread, n_tests=1)
        cross_standard_error = float(statistics.standard_errors[i, _CROSS, g])
        training_standard_error = 0.0
        if model.refits:
            training_standard_error = float(statistics.training_standard_errors[i, _CROSS, g])
        optimism = error - cross_fitted - float(self._best_errors[i][g])
        loss = _LossInterval(
            low=cross_fitted - self._margin(i, g, _CROSS, training_standard_error),
            value=error - best,
            high=error - best + self._margin(i, g, _CORRECTED),
            cross_fitted=cross_fitted,
            optimism=optimism,
            min_material_loss=self._options.materiality * float(self._variances[i][g]),
            rounding_bound=float(self._roundings[i][g]),
            kurtosis=float(np.nan_to_num(statistics.kurtosis[i, _CROSS, g])),
            n=int(statistics.n_independent[g]),
            standard_error=cross_standard_error,
        ).without_rounding()
        state = _classify_loss(loss)
        low = loss.low
        # Loss that the claim is based on.
        claimed_loss = cross_fitted
        if self._is_shown_by_test(i, g, state, loss):
            state = "harmed"
            claimed_loss = loss.value
            low = max(low, loss.low_of_corrected)
        n_folds = len(self._cross.fold_shares)
        detectable_loss, sample_size_factor_ = _sample_size_figures(
            state,
            loss,
            float(np.hypot(cross_standard_error, training_standard_error)),
            optimism * (n_folds - 1) / (2 * n_folds - 1),
            power_quantile(self._n_groups, self._options.level),
        )
        is_unstable = state == "harmed" and claimed_loss <= refit_spread
        expected_change = UNKNOWN
        sign_depends_on_refits = False
        if model.baseline_index is not None:
            change = float(self._means[i, _CHANGE, g])
            change_margin = self._margin(i, g, _CHANGE, change_spread)
            expected_change = Estimate(change, change - change_margin, change + change_margin)
            sign_depends_on_refits = self._margin(i, g, _CHANGE) < abs(change) <= change_spread
        return GroupEstimates(
            expected_error=Estimate(error, max(error - error_margin, 0.0), error + error_margin),
            expected_loss=Estimate(loss.value, low, loss.high),
            cross_fitted_loss=cross_fitted,
            expected_best_error=best,
            state="inconclusive" if is_unstable else state,
            relative_optimism=optimism / best if best > 0 else 0.0,
            expected_change=expected_change,
            min_detectable_loss=detectable_loss,
            sample_size_factor=sample_size_factor_,
            is_unstable=is_unstable or sign_depends_on_refits,
            is_heavy_tailed=loss.is_heavy_tailed,
            n_clusters=loss.n if self._options.has_clusters else None,
        )

    def _is_shown_by_test(self, i: int, g: int, state: State, loss: "_LossInterval") -> bool:
        """Whether the loss test shows a material loss that the intervals leave open."""
        if state != "inconclusive" or loss.kurtosis > _MIN_HEAVY_KURTOSIS:
            return False
        is_material = loss.value >= loss.min_material_loss
        is_above_rounding = loss.low_of_corrected > loss.rounding_bound
        return is_material and is_above_rounding and self._is_loss_significant(i, g)


@dataclass(frozen=True)
class _LossInterval:
    """Loss of a group with its simultaneous limits, and what decides its state.

    Attributes
    ----------
    low, value, high : float
        Lower limit of the cross-fitted loss; corrected loss and its upper limit.
    cross_fitted, optimism : float
        The cross-fitted loss, and the optimism of the group's best subspace. If eigenvalue d is
        nearly tied, which of the tied directions were found is decisive.
    min_material_loss, rounding_bound : float
        Absolute materiality threshold, and the rounding error bound.
    kurtosis : float
        Kurtosis of the rows' losses.
    n : int
        Number of independent rows or clusters.
    standard_error : float
        Standard error of the cross-fitted loss.
    """

    low: float
    value: float
    high: float
    cross_fitted: float
    optimism: float
    min_material_loss: float
    rounding_bound: float
    kurtosis: float
    n: int
    standard_error: float

    @property
    def is_heavy_tailed(self) -> bool:
        """Whether a few rows dominate the loss, so that intervals are unreliable."""
        return is_heavy_tailed(self.kurtosis, self.n)

    @property
    def is_zero(self) -> bool:
        """Whether value and limits are zero."""
        return not any((self.low, self.value, self.high))

    @property
    def low_of_corrected(self) -> float:
        """Lower limit of the corrected loss, whose interval is symmetric."""
        return 2 * self.value - self.high

    def without_rounding(self) -> "_LossInterval":
        """Return zeros in place of value and limits if they are negligible (rounding errors)."""
        if max(abs(self.low), abs(self.value), abs(self.high)) > self.rounding_bound:
            return self
        return replace(self, low=0.0, value=0.0, high=0.0)


def corrected_best_errors(cross: CrossFit, statistics: RowStatistics) -> FloatArray:
    """Bias-corrected best error of each group on new rows for each model, (m, k)."""
    in_sample_errors = [
        (cross.fold_shares * cross.training_errors[model.optima_index]).sum(axis=0)
        for model in cross.models
    ]
    return np.asarray((np.array(in_sample_errors) + held_out_best_errors(statistics)) / 2)


def held_out_best_errors(statistics: RowStatistics) -> FloatArray:
    """Mean held-out errors of the groups' best subspaces, (m, k)."""
    return np.asarray(statistics.means[:, _NEW_ERROR] - statistics.means[:, _CROSS])


def relative_optimism(
    cross: CrossFit, statistics: RowStatistics, best_errors: Sequence[FloatArray]
) -> FloatArray:
    """Optimism of the groups' best subspaces relative to their best errors, (m, k)."""
    best = corrected_best_errors(cross, statistics)
    optimism = held_out_best_errors(statistics) - np.array(best_errors)
    return np.asarray(np.divide(optimism, best, out=np.zeros_like(optimism), where=best > 0))


def _sample_size_figures(
    state: State, loss: _LossInterval, standard_error: float, bias_per_row: float, quantile: float
) -> tuple[float, float]:
    """Smallest detectable loss, and the factor on the number of rows needed to detect this one.

    NaN if the state is conclusive or the losses are heavy-tailed.
    """
    target_loss = max(loss.value, loss.min_material_loss)
    is_conclusive = state != "inconclusive"
    if is_conclusive or loss.is_heavy_tailed or not (target_loss > 0 and standard_error > 0):
        return math.nan, math.nan
    bias = max(bias_per_row, 0.0) * loss.n
    standard_deviation = standard_error * math.sqrt(loss.n)
    detectable_loss = min_detectable_loss(loss.n, standard_deviation, bias, quantile)
    return detectable_loss, sample_size_factor(
        loss.n, target_loss, standard_deviation, bias, quantile
    )


def _classify_loss(loss: _LossInterval) -> State:
    """Classify the loss of a group by simultaneous intervals.

    "harmed": the cross-fitted loss is significantly positive, at least the materiality threshold,
    and at least the optimism of the group's best subspace. "minor": it is significantly positive,
    but the corrected loss is immaterial. "no material harm": the upper limit of the corrected loss
    is immaterial and not negative; also if the loss is negligible (rounding error). "inconclusive":
    otherwise, unless the loss test is significant (:mod:`fairspan.auditing.loss_test`). If the
    losses of single rows are heavy-tailed, a loss counts only if it exceeds what a few rows can
    have contributed.
    """
    if loss.is_zero:
        return "no material harm"
    # No loss is further from the mean than sigma (kurtosis n)^(1/4), which bounds the contribution
    # of a few rows.
    outlier_margin = 0.0
    if loss.is_heavy_tailed:
        outlier_margin = _N_OUTLYING_ROWS * loss.standard_error * (loss.kurtosis / loss.n) ** 0.25
    is_large_enough = loss.cross_fitted >= max(loss.min_material_loss, loss.optimism)
    if loss.low - outlier_margin > loss.rounding_bound and is_large_enough:
        return "harmed"
    if loss.is_heavy_tailed:
        return "inconclusive"
    if loss.low > loss.rounding_bound:
        return "minor" if loss.value < loss.min_material_loss else "inconclusive"
    # The true loss is nonnegative; a negative interval suggests that the rows were used in fitting.
    max_immaterial = max(loss.min_material_loss, loss.rounding_bound)
    if -loss.rounding_bound <= loss.high < max_immaterial:
        return "no material harm"
    return "inconclusive"


# Target power.
_POWER = 0.8
# The formula is for cross-fitted losses and exact to first order; at its n the simulated power was
# .6 to 1.
_SAFETY_FACTOR = 1.3


def required_sample_size(
    loss: float, standard_deviation: float, bias: float, quantile: float
) -> float:
    """Return the number of rows at which a loss is detected.

    The number is max{[(z s + sqrt(z^2 s^2 + 4 l B)) / 2 l]^2, 3 B / l}. A loss l is detected if the
    lower limit of the cross-fitted loss is positive and that loss is at least the optimism of the
    group's best subspace. With n rows, the cross-fitted loss has mean l - B / n and standard
    deviation s / sqrt(n), and the optimism is 2 B / n. For normal rows with
    second moment S, eigenvalues lambda and leading eigenvectors U, B = sum over i <= d < j of
    lambda_i lambda_j / (lambda_i - lambda_j) and s^2 = 2 tr[((UU' - VV') S)^2]. Audits estimate
    both from the rows without distributional assumptions: s from the spread of the rows' losses, B
    from the difference between held-out and in-sample errors.

    Parameters
    ----------
    loss, standard_deviation, bias, quantile : float
        l > 0, s, B and z.

    Examples
    --------
    >>> round(required_sample_size(1.0, 2.0, 3.0, 2.0), 2)
    21.58
    """
    scaled_deviation = quantile * standard_deviation
    root_n = (scaled_deviation + math.sqrt(scaled_deviation**2 + 4 * loss * bias)) / (2 * loss)
    return max(root_n**2, 3 * bias / loss)


def min_detectable_loss(n: float, standard_deviation: float, bias: float, quantile: float) -> float:
    """Smallest loss that n rows detect: :func:`required_sample_size` solved for l.

    Examples
    --------
    >>> round(min_detectable_loss(21.58, 2.0, 3.0, 2.0), 2)
    1.0
    """
    return max(quantile * standard_deviation / math.sqrt(n) + bias / n, 3 * bias / n)


def power_quantile(n_tests: int, level: float) -> float:
    """Sum of the normal quantiles of the simultaneous confidence limit and of the power."""
    tails = (1 - level) / (2 * n_tests), 1 - _POWER
    return sum(student_isf(tail, math.inf) for tail in tails)


def sample_size_factor(
    n: float, loss: float, standard_deviation: float, bias: float, quantile: float
) -> float:
    """Factor on n at which a loss is detected, including the safety factor."""
    required = required_sample_size(loss, standard_deviation, bias, quantile)
    return _SAFETY_FACTOR * max(required / n, 1.0)


def round_up_two_digits(rows: float) -> int:
    """Round a number of rows up to two significant digits.

    Examples
    --------
    >>> round_up_two_digits(1234.5), round_up_two_digits(7.2)
    (1300, 8)
    """
    unit = 10 ** max(len(str(int(rows))) - 2, 0)
    return int(math.ceil(rows / unit) * unit)
