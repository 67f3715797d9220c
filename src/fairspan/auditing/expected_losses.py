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

from fairspan.auditing.cross_fitting import QUANTITIES, CrossFitted
from fairspan.auditing.row_statistics import RowFigures
from fairspan.auditing.student import student_quantile
from fairspan.errors import Incompatible, InvalidParameter
from fairspan.problem.problem import signed_disparity
from fairspan.random_state import generator_of
from fairspan.registry import check_count
from fairspan.rows.groups import Folds
from fairspan.typing import FloatArray

LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """A figure, NaN if it is not known, with the ends of its interval, None where there is none."""

    value: float
    low: float | None = None
    high: float | None = None

    def columns(self, name: str) -> dict[str, float | None]:
        """The figure and the ends of its interval as columns of a table; None where unknown."""
        return {name: known(self.value), f"{name}_low": self.low, f"{name}_high": self.high}

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

    def cut_at_zero(self) -> "Estimate":
        """With a low end that is not below zero, as of an error."""
        return Estimate(self.value, max(self.low or 0.0, 0.0), self.high)

    @classmethod
    def around(
        cls,
        value: float,
        standard_error: float,
        freedom: float,
        tests: int = 1,
        level: float = LEVEL,
    ) -> "Estimate":
        """A two-sided Student interval; with several tests a simultaneous one (Bonferroni)."""
        half = half_width(standard_error, freedom, tests, level)
        return cls(value, value - half, value + half)


def known(value: float) -> float | None:
    """A figure as plain values have it: None where there is none."""
    return None if math.isnan(value) else value


def half_width(standard_error: float, freedom: float, tests: int, level: float) -> float:
    """Of a two-sided Student interval; with several tests of a simultaneous one (Bonferroni)."""
    # Huge degrees of freedom are the normal limit, which the quantile reaches by itself.
    return student_quantile((1 - level) / (2 * tests), float(freedom)) * standard_error


def error_estimates(
    errors: FloatArray, standard_errors: FloatArray, counts: FloatArray, level: float = LEVEL
) -> list[Estimate]:
    """Student intervals of each group's mean error; none for a group of one row.

    Counts are one more than degrees of freedom, and need not be whole numbers.
    The lower end is cut at zero, below which no error lies.
    """
    return [
        Estimate.around(error, standard_error, n - 1, level=level).cut_at_zero()
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
    level: float = LEVEL,
    by_fold: FloatArray | None = None,
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
    if by_fold is not None:
        total = float(np.hypot(total, jackknife_error(by_fold[:, pair[1]] - by_fold[:, pair[0]])))
    return Estimate.around(
        value, total, freedom, len(list(combinations(range(len(errors)), 2))), level
    )


def jackknife(
    value: float, without_each: Sequence[float], tests: int = 1, level: float = LEVEL
) -> Estimate:
    """Delete-a-block jackknife: the interval from the values with each block left out.

    Parameters
    ----------
    value : float
        With all blocks.
    without_each : sequence of B >= 2 floats
    tests : int
        For a simultaneous interval over so many figures.
    """
    values = np.asarray(without_each, dtype=np.float64)
    return Estimate.around(value, float(jackknife_error(values)), len(values) - 1, tests, level)


def jackknife_error(without_each: FloatArray) -> FloatArray:
    """sqrt((B - 1) / B sum_f (theta_f - their mean)^2), along the first of the axes."""
    n_blocks = len(without_each)
    deviations = without_each - without_each.mean(axis=0)
    # No square that could overflow.
    return np.asarray(math.sqrt((n_blocks - 1) / n_blocks) * np.hypot.reduce(deviations, axis=0))


State = Literal["harmed", "minor", "not shown", "cannot tell"]
"""What the intervals say of a group's loss."""

# Where the test error exceeds the error on the rows by more than this share of the best error, the
# estimate moves with the folds, and is averaged over several.
UNSTABLE = 0.1
# The fourth moment of n numbers, over the squared variance, is n where one of them is all that
# matters, and stays the same for any n where there is a fourth moment: 15 for squares of a normal
# number, which few numbers exceed by chance. More than this share of n is too much for intervals.
_HEAVY_SHARE, _NOT_HEAVY = 0.1, 30.0
# So many rows, each as far out as the kurtosis allows, may have added to a mean.
_FEW_ROWS = 4.0
_NEW_ERROR, _CROSS, _CORRECTED, _CHANGE = (
    QUANTITIES.index(name)
    for name in ("new_error", "cross_fitted_loss", "corrected_loss", "change")
)


UNKNOWN = Estimate(math.nan)
"""A figure of which nothing is known."""


@dataclass(frozen=True, kw_only=True)
class ExpectedFigures:
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
    state : {"harmed", "minor", "not shown", "cannot tell"}
        By intervals that hold for all groups at once.
    cross_fitted_instability : float
        By how much the group's best subspace does worse on rows that were left out, as a share of
        the best error.
    expected_change : Estimate
        In error, against the ordinary PCA beside it, by intervals that hold for all groups at once.
    detectable_loss : float
        The least loss that these rows can show, where the state is "cannot tell"; otherwise NaN.
    times_the_rows : float
        How many times as many rows would show the loss, or the least one that matters if that is
        larger (:func:`rows_to_show`); NaN where they would not.
    is_unstable : bool
        Whether the rows would tell that the model harms the group, or the sign of the change, but
        the loss or the change is no larger than its jackknife spread.
    is_dominated : bool
        Whether a few rows decide the loss, so that its interval means little.
    n_clusters : int or None
        Clusters, such as persons, that the group has rows of; None where they are not known.
    """

    expected_error: Estimate = UNKNOWN
    expected_loss: Estimate = UNKNOWN
    cross_fitted_loss: float = math.nan
    expected_best_error: float = math.nan
    state: State = "cannot tell"
    cross_fitted_instability: float = math.nan
    expected_change: Estimate = UNKNOWN
    detectable_loss: float = math.nan
    times_the_rows: float = math.nan
    is_unstable: bool = False
    is_dominated: bool = False
    n_clusters: int | None = None

    @property
    def why_unknown(self) -> str:
        """Why the state is "cannot tell", where it is not the interval's width alone."""
        if self.state != "cannot tell":
            return ""
        if not self.is_estimated:
            return "too few rows"
        return "unstable model" * self.is_unstable or "a few rows dominate" * self.is_dominated

    @property
    def is_estimated(self) -> bool:
        """Whether anything is known of new rows."""
        return not math.isnan(self.expected_loss.value)

    def is_impossible(self, rounding: float) -> bool:
        """Whether the whole interval of the loss is below zero, beyond rounding."""
        return self.expected_loss.high is not None and self.expected_loss.high < -rounding


@dataclass(frozen=True)
class ExpectedOfModel:
    """What a model would do to new rows of all groups.

    Attributes
    ----------
    groups : sequence of k ExpectedFigures
    disparity : Estimate
        Of the expected errors.
    pair : (int, int)
        Positions of the two groups that make it; equal where there is none.
    instability : float or None
        How much the model depends on its rows: the delete-a-fold jackknife spread of a group's
        error over the half width of its loss's interval, the largest over groups. None for a model
        that was not fitted on the audited rows.
    least_cosine : float or None
        Cosine of the largest principal angle between the model and its fits without a fold.
    """

    groups: Sequence[ExpectedFigures]
    disparity: Estimate = UNKNOWN
    pair: tuple[int, int] = (0, 0)
    instability: float | None = None
    least_cosine: float | None = None


@dataclass(frozen=True)
class Expectations:
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
    has_labels : bool
        Whether the last column of the labels, but for the cluster, is the class that a row has in
        y.
    max_memory : int or None
        Bytes that moments by fold may take: fewer folds are made, or none.
    repeats : int
        How many assignments of rows to folds are tried.
    """

    folds: int | None = 10
    level: float = 0.95
    material: float = 0.01
    seed: int = 0
    by_cluster: bool = False
    has_labels: bool = False
    max_memory: int | None = None
    repeats: int = 1


def are_heavy(kurtosis: float, n: int) -> bool:
    """Whether a few of n numbers decide their mean, so that no interval can be trusted.

    Examples
    --------
    >>> are_heavy(15.0, 100), are_heavy(40.0, 100), are_heavy(40.0, 1000)
    (False, True, False)
    """
    return kurtosis > max(_HEAVY_SHARE * n, _NOT_HEAVY)


USUAL = Expectations()
"""As :func:`fairspan.audit` makes them by default."""


def expectations(
    folds: int | None,
    level: float,
    material: float,
    random_state: Any,
    *,
    by_cluster: bool,
    has_labels: bool = False,
    repeats: int = 1,
) -> Expectations:
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
        raise Incompatible(
            "clusters was given, and folds is None",
            "Allowed: clusters with folds, which keep each cluster in one",
            "Leave folds at its default, 10",
        )
    check_count("repeats", repeats)
    if folds is not None:
        Folds(folds)
    elif repeats > 1:
        raise Incompatible(
            f"repeats is {repeats}, and folds is None",
            "Allowed: several assignments of rows to folds, where there are folds",
            "Leave folds at its default, 10",
        )
    whole = isinstance(random_state, numbers.Integral) and random_state >= 0
    seed = int(random_state) if whole else int(generator_of(random_state).integers(2**31))
    return Expectations(
        folds, float(level), float(material), seed, by_cluster, has_labels, repeats=repeats
    )


def expected_figures(
    repeats: Sequence[tuple[CrossFitted, RowFigures]],
    best_errors: Sequence[FloatArray],
    variances: Sequence[FloatArray],
    roundings: Sequence[FloatArray],
    options: Expectations,
    loss_is_shown: Callable[[int, int], bool] = lambda model, group: False,
) -> list[ExpectedOfModel]:
    """Estimates for each model and each group; without figures if there are too few rows.

    A model that was fitted on these rows varies with them. Let theta_f be a figure under the fit
    without fold f, over all rows of the group: the spread j^2 = (K - 1) / K sum_f (theta_f - their
    mean)^2 is added to the squared standard errors of its errors and changes.

    Parameters
    ----------
    repeats : sequence of (CrossFitted, RowFigures)
        Of one or several assignments of rows to folds. Best errors are averaged over these for
        models of which some move with the folds; its own figures, whatever other models there are
        stay the same.
    best_errors, variances, roundings : sequences of (k,) arrays
        Of each model, on the rows: e*_g, tr S_g, and the size up to which a loss is rounding.
    options : Expectations
    loss_is_shown : callable
        Of a model and a group by position, whether a test shows a loss that cross-fitting does not.
    """
    cross, figures = repeats[0]
    means, errors = figures.means.copy(), figures.standard_errors
    average = np.asarray(
        (cross.known & (instabilities(cross, figures, best_errors) > UNSTABLE)).any(axis=1)
    )[:, None]
    left_out = np.mean([left_out_errors(f) for _, f in repeats], axis=0)
    left_out = np.where(average, left_out, left_out_errors(figures))
    means[:, _CROSS] = means[:, _NEW_ERROR] - left_out
    bests = np.mean([best_errors_on_new_rows(*each) for each in repeats], axis=0)
    bests = np.where(average, bests, best_errors_on_new_rows(cross, figures))
    is_known = np.logical_and.reduce([each.known for each, _ in repeats]) & (figures.sizes > 1)
    k, sizes, degrees = len(figures.sizes), figures.sizes.tolist(), figures.degrees

    def half(i: int, g: int, quantity: int, beside: float = 0.0, tests: int = k) -> float:
        uncertain = float(np.hypot(errors[i, quantity, g], beside))
        return half_width(uncertain, float(degrees[i, quantity, g]), tests, options.level)

    def of_group(i: int, g: int, spread: float, of_change: float) -> ExpectedFigures:
        each = cross.projections[i]
        error, crossed, change = (float(means[i, q, g]) for q in (_NEW_ERROR, _CROSS, _CHANGE))
        best, own = float(bests[i, g]), half(i, g, _NEW_ERROR, spread, tests=1)
        beside = float(figures.training_errors[i, _CROSS, g]) if each.by_fold else 0.0
        value, moved = error - best, half(i, g, _CHANGE, of_change)
        low, high = crossed - half(i, g, _CROSS, beside), value + half(i, g, _CORRECTED)
        learnt = error - crossed - float(best_errors[i][g])
        matters, rounding = options.material * float(variances[i][g]), float(roundings[i][g])
        if max(abs(low), abs(value), abs(high)) <= rounding:
            low = value = high = 0.0
        tails = float(np.nan_to_num(figures.kurtosis[i, _CROSS, g])), sizes[g]
        state = _state(
            (low, value, high),
            crossed,
            learnt,
            (matters, rounding),
            tails,
            float(errors[i, _CROSS, g]),
        )
        # The loss that a claim rests on; and how large it is at least, if only the test shows it.
        claimed, least = crossed, 2 * value - high
        is_settled = state != "cannot tell" or tails[0] > _NOT_HEAVY
        if not is_settled and value >= matters and least > rounding and loss_is_shown(i, g):
            state, claimed, low = "harmed", value, max(low, least)
        needed = _needed(
            state,
            max(value, matters),
            float(np.hypot(errors[i, _CROSS, g], beside)),
            learnt * (len(cross.shares) - 1) / (2 * len(cross.shares) - 1),
            tails,
            quantile_of(k, options.level),
        )
        is_unstable = state == "harmed" and claimed <= spread
        has_sign = half(i, g, _CHANGE) < abs(change) <= of_change
        return ExpectedFigures(
            expected_error=Estimate(error, max(error - own, 0.0), error + own),
            expected_loss=Estimate(value, low, high),
            cross_fitted_loss=crossed,
            expected_best_error=best,
            state="cannot tell" if is_unstable else state,
            cross_fitted_instability=learnt / best if best > 0 else 0.0,
            expected_change=UNKNOWN
            if each.baseline is None
            else Estimate(change, change - moved, change + moved),
            detectable_loss=needed[0],
            times_the_rows=needed[1],
            is_unstable=is_unstable or (each.baseline is not None and has_sign),
            is_dominated=are_heavy(*tails),
            n_clusters=sizes[g] if options.by_cluster else None,
        )

    def of_model(i: int) -> ExpectedOfModel:
        each = cross.projections[i]
        plain = each if each.baseline is None else cross.projections[each.baseline]
        spreads = jackknife_error(each.errors_by_fold)
        of_changes = jackknife_error(each.errors_by_fold - plain.errors_by_fold)
        groups = [
            of_group(i, g, float(spreads[g]), float(of_changes[g]))
            if is_known[i, g]
            else ExpectedFigures()
            for g in range(k)
        ]
        known_ones = np.flatnonzero(is_known[i])
        if not len(known_ones):
            return ExpectedOfModel(groups)
        losses = [groups[g].expected_loss for g in known_ones]
        halves = np.array([float((each.high or 0.0) - (each.low or 0.0)) / 2 for each in losses])
        ratios = np.divide(spreads[known_ones], halves, out=np.zeros_like(halves), where=halves > 0)
        low, high = widest_pair(means[i, _NEW_ERROR, known_ones]) if len(known_ones) > 1 else (0, 0)
        return ExpectedOfModel(
            groups,
            disparity_estimate(
                means[i, _NEW_ERROR, known_ones],
                errors[i, _NEW_ERROR, known_ones],
                degrees[i, _NEW_ERROR, known_ones] + 1,
                options.level,
                each.errors_by_fold[:, known_ones],
            )
            if len(known_ones) > 1
            else UNKNOWN,
            (int(known_ones[low]), int(known_ones[high])),
            float(ratios.max()) if each.by_fold else None,
            each.least_cosine if each.by_fold else None,
        )

    return [of_model(i) for i in range(len(cross.projections))]


def best_errors_on_new_rows(cross: CrossFitted, figures: RowFigures) -> FloatArray:
    """Each group's best error on new rows, corrected, for each model, (m, k)."""
    training = [
        (cross.shares * cross.training_errors[each.benchmark]).sum(axis=0)
        for each in cross.projections
    ]
    return np.asarray((np.array(training) + left_out_errors(figures)) / 2)


def left_out_errors(figures: RowFigures) -> FloatArray:
    """Mean errors of best subspaces on the folds that they were found without, (m, k)."""
    return np.asarray(figures.means[:, _NEW_ERROR] - figures.means[:, _CROSS])


def instabilities(
    cross: CrossFitted, figures: RowFigures, best_errors: Sequence[FloatArray]
) -> FloatArray:
    """By how much best subspaces do worse on rows left out, as a share of best errors, (m, k)."""
    best = best_errors_on_new_rows(cross, figures)
    beyond = left_out_errors(figures) - np.array(best_errors)
    return np.asarray(np.divide(beyond, best, out=np.zeros_like(beyond), where=best > 0))


def _needed(
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
    if state != "cannot tell" or are_heavy(*tails) or not (loss > 0 and standard_error > 0):
        return math.nan, math.nan
    n, bias = tails[1], max(learnt, 0.0) * tails[1]
    spread = standard_error * math.sqrt(n)
    least = least_shown(n, spread, bias, quantile)
    return least, times_the_rows(n, loss, spread, bias, quantile)


def _state(
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
    above zero beyond chance, and the corrected loss is immaterial. "not shown": the high end of the
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
    (low, value, high), (matters, rounding), is_heavy = loss, least, are_heavy(*tails)
    if not any(loss):  # not even the tails of what is only rounding
        return "not shown"
    # By the kurtosis of n losses, none is further from their mean than sigma (kurtosis n)^(1/4): so
    # much a few rows can have moved it.
    doubt = _FEW_ROWS * standard_error * (tails[0] / tails[1]) ** 0.25 if is_heavy else 0.0
    if low - doubt > rounding and crossed >= max(matters, learnt):
        return "harmed"
    if is_heavy:
        return "cannot tell"  # intervals mean little where a few rows decide
    if low > rounding:
        return "minor" if value < matters else "cannot tell"
    # No loss is below zero: such rows are not those of a model that was made without them.
    return "not shown" if -rounding <= high < max(matters, rounding) else "cannot tell"


# A loss is shown in so many of the audits of other rows. The formula is that of cross-fitted losses
# and holds to first order: at its n the power was .6 to 1, so more rows than that are named.
_POWER, _MARGIN = 0.8, 1.3


def rows_to_show(loss: float, spread: float, bias: float, quantile: float) -> float:
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
    >>> round(rows_to_show(1.0, 2.0, 3.0, 2.0), 2)
    21.58
    """
    reach = quantile * spread
    by_spread = (reach + math.sqrt(reach**2 + 4 * loss * bias)) / (2 * loss)
    return max(by_spread**2, 3 * bias / loss)


def least_shown(n: float, spread: float, bias: float, quantile: float) -> float:
    """The least loss that n rows show: the same solved for l.

    Examples
    --------
    >>> round(least_shown(21.58, 2.0, 3.0, 2.0), 2)
    1.0
    """
    return max(quantile * spread / math.sqrt(n) + bias / n, 3 * bias / n)


def quantile_of(tests: int, level: float) -> float:
    """z: of the low end, simultaneous over so many groups, and of the power."""
    tails = (1 - level) / (2 * tests), 1 - _POWER
    return sum(student_quantile(tail, math.inf) for tail in tails)


def times_the_rows(n: float, loss: float, spread: float, bias: float, quantile: float) -> float:
    """How many times as many rows as these n show a loss, with a margin."""
    return _MARGIN * max(rows_to_show(loss, spread, bias, quantile) / n, 1.0)


def rounded_up(rows: float) -> int:
    """A number of rows with two digits.

    Examples
    --------
    >>> rounded_up(1234.5), rounded_up(7.2)
    (1300, 8)
    """
    unit = 10 ** max(len(str(int(rows))) - 2, 0)
    return int(math.ceil(rows / unit) * unit)
