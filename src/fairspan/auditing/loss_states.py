"""Classification of a group's loss by its simultaneous intervals."""

from dataclasses import dataclass, replace

from fairspan.auditing.estimates import State
from fairspan.auditing.intervals import is_heavy_tailed

# Number of rows that may lie as far out as the kurtosis allows.
_N_OUTLYING_ROWS = 4.0


@dataclass(frozen=True)
class LossInterval:
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

    @property
    def outlier_margin(self) -> float:
        """Amount that a few rows can have contributed to the loss; 0 without heavy tails."""
        if not self.is_heavy_tailed:
            return 0.0
        # With sigma the standard deviation of the rows' losses, none of n is further from the mean
        # than sigma (kurtosis n)^(1/4). So a row moves the mean by at most this / n, which is the
        # standard error sigma / sqrt(n) times (kurtosis / n)^(1/4).
        return float(_N_OUTLYING_ROWS * self.standard_error * (self.kurtosis / self.n) ** 0.25)

    def limits_that_decide(self, state: State) -> tuple[float, float]:
        """Return the limits that the state is decided by, which are those to print.

        Heavy tails widen both. Where a loss is not shown only because it is smaller than the
        optimism of the group's best subspace, the lower limit is the difference of the two.
        """
        if self.is_zero:
            return 0.0, 0.0
        low = self.low - self.outlier_margin
        if state == "inconclusive" and low > self.rounding_bound:
            low = min(low, self.cross_fitted - self.optimism)
        return low, self.high + self.outlier_margin

    def without_rounding(self) -> "LossInterval":
        """Return zeros in place of value and limits if they are negligible (rounding errors)."""
        if max(abs(self.low), abs(self.value), abs(self.high)) > self.rounding_bound:
            return self
        return replace(self, low=0.0, value=0.0, high=0.0)


def classify_loss(loss: LossInterval) -> State:
    """Classify the loss of a group by simultaneous intervals.

    The cross-fitted loss is relative to the best subspace found without the fold, the corrected
    loss to the bias-corrected best error; the optimism is the held-out minus the in-sample best
    error.

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
    is_large_enough = loss.cross_fitted >= max(loss.min_material_loss, loss.optimism)
    if loss.low - loss.outlier_margin > loss.rounding_bound and is_large_enough:
        return "harmed"
    # The interval of heavy-tailed losses shows neither that a loss is small nor that it is zero.
    if loss.is_heavy_tailed:
        return "inconclusive"
    if loss.low > loss.rounding_bound:
        if loss.value < loss.min_material_loss:
            return "minor"
        return "inconclusive"
    # The true loss is nonnegative; a negative interval suggests that the rows were used in fitting.
    max_immaterial = max(loss.min_material_loss, loss.rounding_bound)
    if -loss.rounding_bound <= loss.high < max_immaterial:
        return "no material harm"
    return "inconclusive"
