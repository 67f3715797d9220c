"""Intervals, and the expected loss of each group on new rows, with a state.

A group's best error is too small on its own rows, to which its best subspace was fitted, and too
large on rows that were left out, as fewer rows found it. To second order both are off by the same,
so the mean of training and test error of the subspaces found without each fold is nearly unbiased.
The loss that is measured against the test error alone is never too large, whatever the
distribution: a claim of harm rests on it.
"""

import math
import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

import numpy as np

from fairspan.auditing.cross_fitting import QUANTITIES, CrossFit
from fairspan.auditing.distributions import student_isf
from fairspan.auditing.row_statistics import RowStatistics
from fairspan.errors import IncompatibleParameters, InvalidParameter
from fairspan.problem.problem import signed_disparity
from fairspan.random_state import as_generator
from fairspan.registry import check_integer
from fairspan.rows.groups import Folds
from fairspan.typing import FloatArray

DEFAULT_LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """A figure, NaN if it is not known, with the ends of its interval, None where there is none."""

    value: float
    low: float | None = None
    high: float | None = None

    def to_record(self, name: str) -> dict[str, float | None]:
        """The figure and the ends of its interval as columns of a table; None where unknown."""
        return {name: none_if_nan(self.value), f"{name}_low": self.low, f"{name}_high": self.high}

    @property
    def has_interval(self) -> bool:
        """Whether there is an interval."""
        return self.low is not None and self.high is not None

    @property
    def contains_zero(self) -> bool:
        """Whether the interval contains zero; False without an interval."""
        return self.low is not None and self.high is not None and self.low <= 0 <= self.high

    def without_rounding(self, rounding: float) -> "Estimate":
        """The same with zero for a figure or an end that is no larger than `rounding`."""
        value = 0.0 if abs(self.value) <= rounding else self.value
        low, high = (
            0.0 if end is not None and abs(end) <= rounding else end
            for end in (self.low, self.high)
        )
        return Estimate(value, low, high)

    def clipped_at_zero(self) -> "Estimate":
        """With a low end that is not below zero, as of an error."""
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
        """A two-sided Student interval; with several tests a simultaneous one (Bonferroni)."""
        margin = half_width(standard_error, df, n_tests, level)
        return cls(value, value - margin, value + margin)


def none_if_nan(value: float) -> float | None:
    """A figure as plain values have it: None where there is none."""
    return None if math.isnan(value) else value


def half_width(standard_error: float, freedom: float, tests: int, level: float) -> float:
    """Of a two-sided Student interval; with several tests of a simultaneous one (Bonferroni)."""
    # Huge degrees of freedom are the normal limit, which the quantile reaches by itself.
    return student_isf((1 - level) / (2 * tests), float(freedom)) * standard_error


def error_estimates(
    errors: FloatArray,
    standard_errors: FloatArray,
    counts: FloatArray,
    level: float = DEFAULT_LEVEL,
) -> list[Estimate]:
    """Student intervals of each group's mean error; none for a group of one row.

    Counts are one more than degrees of freedom, and need not be whole numbers.
    The lower end is cut at zero, below which no error lies.
    """
    return [
        Estimate.from_standard_error(error, standard_error, n - 1, level=level).clipped_at_zero()
        if n > 1
        else Estimate(error)
        for error, standard_error, n in zip(
            errors.tolist(), standard_errors.tolist(), counts.tolist(), strict=True
        )
    ]


def widest_pair(errors: FloatArray) -> tuple[int, int]:
    """Positions (a, b) of the two groups whose errors make the disparity, error_b - error_a."""
    return (0, 1) if len(errors) == 2 else (int(np.argmin(errors)), int(np.argmax(errors)))


def disparity_estimate(
    errors: FloatArray,
    standard_errors: FloatArray,
    counts: FloatArray,
    level: float = DEFAULT_LEVEL,
    refit_errors: FloatArray | None = None,
) -> Estimate:
    """The disparity with Welch's interval for two independent samples.

    Of more than two groups the widest pair is shown, which was picked by looking: the interval is
    then simultaneous over all pairs (Bonferroni). No interval if a group of the pair has one row.
    With `by_fold`, the errors (K, k) under fits without each fold, the jackknife spread of their
    difference is added.
    """
    value = signed_disparity(errors)
    pair = list(widest_pair(errors))
    if len(errors) < 2 or (counts[pair] < 2).any():
        return Estimate(value)
    total = float(np.hypot(*standard_errors[pair]))
    if total == 0:
        return Estimate(value, value, value)
    # As shares, so that no power of an error overflows.
    shares = (standard_errors[pair] / total) ** 2
    freedom = 1.0 / float((shares**2 / (counts[pair] - 1)).sum())
    if refit_errors is not None:
        total = float(
            np.hypot(
                total, jackknife_standard_error(refit_errors[:, pair[1]] - refit_errors[:, pair[0]])
            )
        )
    return Estimate.from_standard_error(
        value, total, freedom, len(list(combinations(range(len(errors)), 2))), level
    )


def jackknife_estimate(
    value: float, leave_one_out: Sequence[float], n_tests: int = 1, level: float = DEFAULT_LEVEL
) -> Estimate:
    """Delete-a-block jackknife: the interval from the values with each block left out.

    Parameters
    ----------
    value : float
        With all blocks.
    leave_one_out : sequence of B >= 2 floats
    tests : int
        For a simultaneous interval over so many figures.
    """
    values = np.asarray(leave_one_out, dtype=np.float64)
    return Estimate.from_standard_error(
        value, float(jackknife_standard_error(values)), len(values) - 1, n_tests, level
    )


def jackknife_standard_error(leave_one_out: FloatArray) -> FloatArray:
    """sqrt((B - 1) / B sum_f (theta_f - their mean)^2), along the first of the axes."""
    n_blocks = len(leave_one_out)
    deviations = leave_one_out - leave_one_out.mean(axis=0)
    # No square that could overflow.
    return np.asarray(math.sqrt((n_blocks - 1) / n_blocks) * np.hypot.reduce(deviations, axis=0))


State = Literal["harmed", "minor", "no material harm", "inconclusive"]
"""What the intervals say of a group's loss."""

# Where the test error exceeds the error on the rows by more than this share of the best error, the
# estimate moves with the folds, and is averaged over several.
MAX_OPTIMISM = 0.1
# The fourth moment of n numbers, over the squared variance, is n where one of them is all that
# matters, and stays the same for any n where there is a fourth moment: 15 for squares of a normal
# number, which few numbers exceed by chance. More than this share of n is too much for intervals.
_MAX_KURTOSIS_SHARE, _MIN_HEAVY_KURTOSIS = 0.1, 30.0
# So many rows, each as far out as the kurtosis allows, may have added to a mean.
_N_OUTLYING_ROWS = 4.0
_NEW_ERROR, _CROSS, _CORRECTED, _CHANGE = (
    QUANTITIES.index(name)
    for name in ("new_error", "cross_fitted_loss", "corrected_loss", "change")
)


UNKNOWN = Estimate(math.nan)
"""A figure of which nothing is known."""


@dataclass(frozen=True, kw_only=True)
class GroupEstimates:
    """What a model would do to new rows of a group, in squared (scaled) units of the features.

    By default nothing is known: figures are NaN.

    Attributes
    ----------
    expected_error : Estimate
        Mean error. Of a model fitted on these rows it is that of the same fit on other rows, and
        the interval allows for how the model varies with its rows.
    expected_loss : Estimate
        By how much it exceeds the best error that the group could have. The interval runs from the
        low end of the cross-fitted loss to the high end of the corrected loss, for all groups at
        once.
    cross_fitted_loss : float
        Never above the true loss but for chance.
    expected_best_error : float
        The least error that any subspace of the same dimension has on new rows, corrected.
    state : {"harmed", "minor", "no material harm", "inconclusive"}
        By intervals that hold for all groups at once.
    relative_optimism : float
        By how much the group's best subspace does worse on rows that were left out, as a share of
        the best error.
    expected_change : Estimate
        In error, against the ordinary PCA beside it, by intervals that hold for all groups at once.
    min_detectable_loss : float
        The least loss that these rows can show, where the state is "inconclusive"; otherwise NaN.
    sample_size_factor : float
        How many times as many rows would show the loss, or the least one that matters if that is
        larger (:func:`required_sample_size`); NaN where they would not.
    is_unstable : bool
        Whether the rows would tell that the model harms the group, or the sign of the change, but
        the loss or the change is no larger than its jackknife spread.
    is_heavy_tailed : bool
        Whether a few rows decide the loss, so that its interval means little.
    n_clusters : int or None
        Clusters, such as persons, that the group has rows of; None where they are not known.
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
        """Why the state is "inconclusive", where it is not the interval's width alone."""
        if self.state != "inconclusive":
            return ""
        if not self.is_estimated:
            return "too few rows"
        return "unstable model" * self.is_unstable or "a few rows dominate" * self.is_heavy_tailed

    @property
    def is_estimated(self) -> bool:
        """Whether anything is known of new rows."""
        return not math.isnan(self.expected_loss.value)

    def has_negative_loss(self, rounding_bound: float) -> bool:
        """Whether the whole interval of the loss is below zero, beyond rounding."""
        return self.expected_loss.high is not None and self.expected_loss.high < -rounding_bound


@dataclass(frozen=True)
class ModelEstimates:
    """What a model would do to new rows of all groups.

    Attributes
    ----------
    groups : sequence of k GroupEstimates
    disparity : Estimate
        Of the expected errors.
    pair : (int, int)
        Positions of the two groups that make it; equal where there is none.
    instability : float or None
        How much the model depends on its rows: the delete-a-fold jackknife spread of a group's
        error over the half width of its loss's interval, the largest over groups. None for a model
        that was not fitted on the audited rows.
    min_cosine : float or None
        Cosine of the largest principal angle between the model and its fits without a fold.
    """

    groups: Sequence[GroupEstimates]
    disparity: Estimate = UNKNOWN
    disparity_pair: tuple[int, int] = (0, 0)
    instability: float | None = None
    min_cosine: float | None = None


@dataclass(frozen=True)
class EstimationOptions:
    """How estimates of what new rows would show are made.

    Attributes
    ----------
    folds : int or None
        K; None for no estimates.
    level : float
        Level of the intervals.
    material : float
        The least loss that matters, as a share of the group's variance.
    seed : int
        For the assignment of rows to folds.
    by_cluster : bool
        Whether the last column of the labels names the cluster of a row.
    has_y : bool
        Whether the last column of the labels, but for the cluster, is the class that a row has in
        y.
    max_memory : int or None
        Bytes that moments by fold may take: fewer folds are made, or none.
    repeats : int
        How many assignments of rows to folds are tried.
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
    """Whether a few of n numbers decide their mean, so that no interval can be trusted.

    Examples
    --------
    >>> is_heavy_tailed(15.0, 100), is_heavy_tailed(40.0, 100), is_heavy_tailed(40.0, 1000)
    (False, True, False)
    """
    return kurtosis > max(_MAX_KURTOSIS_SHARE * n, _MIN_HEAVY_KURTOSIS)


DEFAULT_OPTIONS = EstimationOptions()
"""As :func:`fairspan.audit` makes them by default."""


def estimation_options(
    folds: int | None,
    level: float,
    material: float,
    random_state: Any,
    *,
    by_cluster: bool,
    has_y: bool = False,
    runs: int = 1,
) -> EstimationOptions:
    """Settings that were given by a user, checked.

    Raises
    ------
    InvalidParameter, InvalidType, Incompatible
    """
    if not isinstance(level, numbers.Real) or not 0.5 < level < 1:
        raise InvalidParameter(
            f"level is {level!r}",
            "Allowed: a number above 0.5 and below 1",
            "Use the default, 0.95",
        )
    if not isinstance(material, numbers.Real) or not 0 <= material < 1:
        raise InvalidParameter(
            f"material is {material!r}",
            "Allowed: a share of a group's variance, from 0 to below 1",
            "Use the default, 0.01",
        )
    if folds is None and by_cluster:
        raise IncompatibleParameters(
            "clusters was given, and folds is None",
            "Allowed: clusters with folds, which keep each cluster in one",
            "Leave folds at its default, 10",
        )
    check_integer("repeats", runs)
    if folds is not None:
        Folds(folds)
    elif runs > 1:
        raise IncompatibleParameters(
            f"repeats is {runs}, and folds is None",
            "Allowed: several assignments of rows to folds, where there are folds",
            "Leave folds at its default, 10",
        )
    is_seed = isinstance(random_state, numbers.Integral) and random_state >= 0
    seed = int(random_state) if is_seed else int(as_generator(random_state).integers(2**31))
    return EstimationOptions(
        folds, float(level), float(material), seed, by_cluster, has_y, repeats=runs
    )


def estimate_models(
    runs: Sequence[tuple[CrossFit, RowStatistics]],
    best_errors: Sequence[FloatArray],
    variances: Sequence[FloatArray],
    roundings: Sequence[FloatArray],
    options: EstimationOptions,
    is_loss_significant: Callable[[int, int], bool] = lambda model, group: False,
) -> list[ModelEstimates]:
    """Estimates for each model and each group; without figures if there are too few rows.

    A model that was fitted on these rows varies with them. Let theta_f be a figure under the fit
    without fold f, over all rows of the group: the spread j^2 = (K - 1) / K sum_f (theta_f - their
    mean)^2 is added to the squared standard errors of its errors and changes.

    Parameters
    ----------
    repeats : sequence of (CrossFit, RowStatistics)
        Of one or several assignments of rows to folds. Best errors are averaged over these for
        models of which some move with the folds; its own figures, whatever other models there are
        stay the same.
    best_errors, variances, roundings : sequences of (k,) arrays
        Of each model, on the rows: e*_g, tr S_g, and the size up to which a loss is rounding.
    options : Expectations
    is_loss_significant : callable
        Of a model and a group by position, whether a test shows a loss that cross-fitting does not.
    """
    cross, figures = runs[0]
    means, errors = figures.means.copy(), figures.standard_errors
    needs_averaging = np.asarray(
        (
            cross.has_enough_rows & (relative_optimism(cross, figures, best_errors) > MAX_OPTIMISM)
        ).any(axis=1)
    )[:, None]
    held_out_best = np.mean([held_out_best_errors(f) for _, f in runs], axis=0)
    held_out_best = np.where(needs_averaging, held_out_best, held_out_best_errors(figures))
    means[:, _CROSS] = means[:, _NEW_ERROR] - held_out_best
    best_errors_new_rows = np.mean([corrected_best_errors(*each) for each in runs], axis=0)
    best_errors_new_rows = np.where(
        needs_averaging, best_errors_new_rows, corrected_best_errors(cross, figures)
    )
    is_known = np.logical_and.reduce([each.has_enough_rows for each, _ in runs]) & (
        figures.n_independent > 1
    )
    k, sizes, degrees = len(figures.n_independent), figures.n_independent.tolist(), figures.df

    def margin(i: int, g: int, quantity: int, beside: float = 0.0, tests: int = k) -> float:
        uncertain = float(np.hypot(errors[i, quantity, g], beside))
        return half_width(uncertain, float(degrees[i, quantity, g]), tests, options.level)

    def of_group(i: int, g: int, spread: float, of_change: float) -> GroupEstimates:
        each = cross.models[i]
        error, cross_fitted, change = (float(means[i, q, g]) for q in (_NEW_ERROR, _CROSS, _CHANGE))
        best, own = float(best_errors_new_rows[i, g]), margin(i, g, _NEW_ERROR, spread, tests=1)
        beside = float(figures.training_standard_errors[i, _CROSS, g]) if each.refits else 0.0
        value, change_margin = error - best, margin(i, g, _CHANGE, of_change)
        low, high = cross_fitted - margin(i, g, _CROSS, beside), value + margin(i, g, _CORRECTED)
        optimism = error - cross_fitted - float(best_errors[i][g])
        matters, rounding = options.materiality * float(variances[i][g]), float(roundings[i][g])
        if max(abs(low), abs(value), abs(high)) <= rounding:
            low = value = high = 0.0
        tails = float(np.nan_to_num(figures.kurtosis[i, _CROSS, g])), sizes[g]
        state = _classify_loss(
            (low, value, high),
            cross_fitted,
            optimism,
            (matters, rounding),
            tails,
            float(errors[i, _CROSS, g]),
        )
        # The loss that a claim rests on; and how large it is at least, if only the test shows it.
        claimed_loss, loss_low = cross_fitted, 2 * value - high
        is_decided = state != "inconclusive" or tails[0] > _MIN_HEAVY_KURTOSIS
        if (
            not is_decided
            and value >= matters
            and loss_low > rounding
            and is_loss_significant(i, g)
        ):
            state, claimed_loss, low = "harmed", value, max(low, loss_low)
        needed = _sample_size_figures(
            state,
            max(value, matters),
            float(np.hypot(errors[i, _CROSS, g], beside)),
            optimism * (len(cross.fold_shares) - 1) / (2 * len(cross.fold_shares) - 1),
            tails,
            power_quantile(k, options.level),
        )
        is_unstable = state == "harmed" and claimed_loss <= spread
        sign_depends_on_refits = margin(i, g, _CHANGE) < abs(change) <= of_change
        return GroupEstimates(
            expected_error=Estimate(error, max(error - own, 0.0), error + own),
            expected_loss=Estimate(value, low, high),
            cross_fitted_loss=cross_fitted,
            expected_best_error=best,
            state="inconclusive" if is_unstable else state,
            relative_optimism=optimism / best if best > 0 else 0.0,
            expected_change=UNKNOWN
            if each.baseline_index is None
            else Estimate(change, change - change_margin, change + change_margin),
            min_detectable_loss=needed[0],
            sample_size_factor=needed[1],
            is_unstable=is_unstable or (each.baseline_index is not None and sign_depends_on_refits),
            is_heavy_tailed=is_heavy_tailed(*tails),
            n_clusters=sizes[g] if options.has_clusters else None,
        )

    def of_model(i: int) -> ModelEstimates:
        each = cross.models[i]
        plain = each if each.baseline_index is None else cross.models[each.baseline_index]
        spreads = jackknife_standard_error(each.refit_errors)
        of_changes = jackknife_standard_error(each.refit_errors - plain.refit_errors)
        groups = [
            of_group(i, g, float(spreads[g]), float(of_changes[g]))
            if is_known[i, g]
            else GroupEstimates()
            for g in range(k)
        ]
        known_ones = np.flatnonzero(is_known[i])
        if not len(known_ones):
            return ModelEstimates(groups)
        losses = [groups[g].expected_loss for g in known_ones]
        halves = np.array([float((each.high or 0.0) - (each.low or 0.0)) / 2 for each in losses])
        ratios = np.divide(spreads[known_ones], halves, out=np.zeros_like(halves), where=halves > 0)
        low, high = widest_pair(means[i, _NEW_ERROR, known_ones]) if len(known_ones) > 1 else (0, 0)
        return ModelEstimates(
            groups,
            disparity_estimate(
                means[i, _NEW_ERROR, known_ones],
                errors[i, _NEW_ERROR, known_ones],
                degrees[i, _NEW_ERROR, known_ones] + 1,
                options.level,
                each.refit_errors[:, known_ones],
            )
            if len(known_ones) > 1
            else UNKNOWN,
            (int(known_ones[low]), int(known_ones[high])),
            float(ratios.max()) if each.refits else None,
            each.min_cosine if each.refits else None,
        )

    return [of_model(i) for i in range(len(cross.models))]


def corrected_best_errors(cross: CrossFit, figures: RowStatistics) -> FloatArray:
    """Each group's best error on new rows, corrected, for each model, (m, k)."""
    training = [
        (cross.fold_shares * cross.training_errors[each.optima_index]).sum(axis=0)
        for each in cross.models
    ]
    return np.asarray((np.array(training) + held_out_best_errors(figures)) / 2)


def held_out_best_errors(figures: RowStatistics) -> FloatArray:
    """Mean errors of best subspaces on the folds that they were found without, (m, k)."""
    return np.asarray(figures.means[:, _NEW_ERROR] - figures.means[:, _CROSS])


def relative_optimism(
    cross: CrossFit, figures: RowStatistics, best_errors: Sequence[FloatArray]
) -> FloatArray:
    """By how much best subspaces do worse on rows left out, as a share of best errors, (m, k)."""
    best = corrected_best_errors(cross, figures)
    beyond = held_out_best_errors(figures) - np.array(best_errors)
    return np.asarray(np.divide(beyond, best, out=np.zeros_like(beyond), where=best > 0))


def _sample_size_figures(
    state: State,
    loss: float,
    standard_error: float,
    learnt: float,
    tails: tuple[float, int],
    quantile: float,
) -> tuple[float, float]:
    """The least loss that the rows show, and how many times as many show this one.

    NaN where there is something to tell, or where a few rows decide, and more tell nothing.
    """
    if state != "inconclusive" or is_heavy_tailed(*tails) or not (loss > 0 and standard_error > 0):
        return math.nan, math.nan
    n, bias = tails[1], max(learnt, 0.0) * tails[1]
    spread = standard_error * math.sqrt(n)
    loss_low = min_detectable_loss(n, spread, bias, quantile)
    return loss_low, sample_size_factor(n, loss, spread, bias, quantile)


def _classify_loss(
    loss: tuple[float, float, float],
    crossed: float,
    learnt: float,
    least: tuple[float, float],
    tails: tuple[float, int],
    standard_error: float,
) -> State:
    """What may be said of a group, by intervals that hold for all groups at once.

    "harmed": the cross-fitted loss is above zero beyond chance, and neither immaterial nor less
    than what the group's own best subspace loses on rows that it was found without. "minor": it is
    above zero beyond chance, and the corrected loss is immaterial. "no material harm": the high end of the
    corrected loss is immaterial, and not below zero; so is a loss that is only rounding. "cannot
    tell": otherwise, unless a test shows
    the loss (:mod:`fairspan.auditing.loss_test`). If the losses of
    single rows have long tails, a loss counts only if it exceeds what a few rows can have added.

    Parameters
    ----------
    loss : tuple of 3 floats
        Low end, corrected loss, high end.
    crossed, learnt : float
        The cross-fitted loss; and what the group's own best subspace loses on rows left out. Where
        eigenvalue d is nearly tied, which of the tied directions were learnt decides.
    least : tuple of 2 floats
        The least loss that matters, and what is only rounding.
    tails : (float, int)
        Kurtosis of the losses of rows, and how many rows.
    standard_error : float
        Of the cross-fitted loss.
    """
    (low, value, high), (matters, rounding), is_heavy = loss, least, is_heavy_tailed(*tails)
    if not any(loss):  # not even the tails of what is only rounding
        return "no material harm"
    # By the kurtosis of n losses, none is further from their mean than sigma (kurtosis n)^(1/4): so
    # much a few rows can have moved it.
    outlier_margin = (
        _N_OUTLYING_ROWS * standard_error * (tails[0] / tails[1]) ** 0.25 if is_heavy else 0.0
    )
    if low - outlier_margin > rounding and crossed >= max(matters, learnt):
        return "harmed"
    if is_heavy:
        return "inconclusive"  # intervals mean little where a few rows decide
    if low > rounding:
        return "minor" if value < matters else "inconclusive"
    # No loss is below zero: such rows are not those of a model that was made without them.
    return "no material harm" if -rounding <= high < max(matters, rounding) else "inconclusive"


# A loss is shown in so many of the audits of other rows. The formula is that of cross-fitted losses
# and holds to first order: at its n the power was .6 to 1, so more rows than that are named.
_POWER, _SAFETY_FACTOR = 0.8, 1.3


def required_sample_size(
    loss: float, standard_deviation: float, bias: float, quantile: float
) -> float:
    """The n at which a loss is shown: max{[(z s + sqrt(z^2 s^2 + 4 l B)) / 2 l]^2, 3 B / l}.

    A loss l is shown where the low end of the cross-fitted loss is above zero, and where that loss
    is at least what the group's own best subspace loses on rows that it was found without. With n
    rows the cross-fitted loss is l - B / n on average and varies by s / sqrt(n), and the best
    subspace loses 2 B / n. Of normal rows with second moment S, eigenvalues lambda and leading
    eigenvectors U, B = sum over i <= d < j of lambda_i lambda_j / (lambda_i - lambda_j) and s^2 =
    2 tr[((UU' - VV') S)^2]. Audits take both from the rows, of whatever distribution: s from the
    spread of the rows' losses, and B from the difference between errors on rows left out and on the
    rows of the fit.

    Parameters
    ----------
    loss, spread, bias, quantile : float
        l > 0, s, B and z.

    Examples
    --------
    >>> round(required_sample_size(1.0, 2.0, 3.0, 2.0), 2)
    21.58
    """
    scaled_deviation = quantile * standard_deviation
    root_n = (scaled_deviation + math.sqrt(scaled_deviation**2 + 4 * loss * bias)) / (2 * loss)
    return max(root_n**2, 3 * bias / loss)


def min_detectable_loss(n: float, spread: float, bias: float, quantile: float) -> float:
    """The least loss that n rows show: the same solved for l.

    Examples
    --------
    >>> round(min_detectable_loss(21.58, 2.0, 3.0, 2.0), 2)
    1.0
    """
    return max(quantile * spread / math.sqrt(n) + bias / n, 3 * bias / n)


def power_quantile(n_tests: int, level: float) -> float:
    """z: of the low end, simultaneous over so many groups, and of the power."""
    tails = (1 - level) / (2 * n_tests), 1 - _POWER
    return sum(student_isf(tail, math.inf) for tail in tails)


def sample_size_factor(n: float, loss: float, spread: float, bias: float, quantile: float) -> float:
    """How many times as many rows as these n show a loss, with a margin."""
    return _SAFETY_FACTOR * max(required_sample_size(loss, spread, bias, quantile) / n, 1.0)


def round_up_two_digits(rows: float) -> int:
    """A number of rows with two digits.

    Examples
    --------
    >>> round_up_two_digits(1234.5), round_up_two_digits(7.2)
    (1300, 8)
    """
    unit = 10 ** max(len(str(int(rows))) - 2, 0)
    return int(math.ceil(rows / unit) * unit)
