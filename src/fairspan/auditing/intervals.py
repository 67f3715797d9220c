"""Intervals at 95 %: for an error, for a disparity, from rows or from blocks of moments."""

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import combinations

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from fairspan.metrics import GroupFigures
from fairspan.metrics.reconstruction import reference_point
from fairspan.moments.of_rows import Moments
from fairspan.problem.problem import signed_disparity
from fairspan.rows.engines import folded
from fairspan.rows.groups import Label, LabelCoder
from fairspan.rows.protocol import RowBlock, Rows, RowSource
from fairspan.subspace import FairSubspace, squared_residuals
from fairspan.typing import FloatArray

LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """A figure with the ends of its interval, None where there is none."""

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def has_interval(self) -> bool:
        """Whether there is an interval."""
        return self.low is not None and self.high is not None

    @property
    def contains_zero(self) -> bool:
        """Whether the interval contains zero; False without an interval."""
        return self.low is not None and self.high is not None and self.low <= 0 <= self.high

    @classmethod
    def around(
        cls, value: float, standard_error: float, freedom: float, tests: int = 1
    ) -> "Estimate":
        """A two-sided Student interval; with several tests a simultaneous one (Bonferroni)."""
        tail = (1 - LEVEL) / (2 * tests)
        # Huge degrees of freedom are the normal limit, which stdtrit reaches by itself.
        half = -float(stdtrit(freedom, tail)) * standard_error
        return cls(value, value - half, value + half)


def error_estimates(
    errors: FloatArray, standard_errors: FloatArray, counts: npt.NDArray[np.int64]
) -> list[Estimate]:
    """Student intervals of each group's mean error; none for a group of one row.

    The lower end is cut at zero, below which no error lies.
    """
    estimates = []
    for error, standard_error, count in zip(
        errors.tolist(), standard_errors.tolist(), counts.tolist(), strict=True
    ):
        estimate = Estimate(error)
        if count > 1:
            estimate = Estimate.around(error, standard_error, count - 1)
            estimate = Estimate(error, max(estimate.low or 0.0, 0.0), estimate.high)
        estimates.append(estimate)
    return estimates


def widest_pair(errors: FloatArray) -> tuple[int, int]:
    """Positions (a, b) of the two groups whose errors make the disparity, error_b - error_a."""
    if len(errors) == 2:
        return 0, 1
    return int(np.argmin(errors)), int(np.argmax(errors))


def disparity_estimate(
    errors: FloatArray, standard_errors: FloatArray, counts: npt.NDArray[np.int64]
) -> Estimate:
    """The disparity with Welch's interval for two independent samples.

    Of more than two groups the widest pair is shown, which was picked by looking: the interval is
    then simultaneous over all pairs (Bonferroni). No interval if a group of the pair has one row.
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
    pairs = len(list(combinations(range(len(errors)), 2)))
    return Estimate.around(value, total, freedom, pairs)


def jackknife(value: float, without_each: Sequence[float], tests: int = 1) -> Estimate:
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
    n_blocks = len(values)
    variance = (n_blocks - 1) / n_blocks * float(((values - values.mean()) ** 2).sum())
    return Estimate.around(value, float(np.sqrt(variance)), n_blocks - 1, tests)


def standard_errors(
    rows: Rows,
    moments: Moments,
    judged: Sequence[tuple[FairSubspace, GroupFigures]],
) -> list[FloatArray]:
    """Standard errors of the groups' mean errors, one (k,) array for each projection.

    With r_i the squared residual of row i, r its weighted group mean and n rows of the group:
    sqrt(n / (n - 1) sum w_i^2 (r_i - r)^2) / sum w_i, which without weights is s / sqrt(n). Weights
    are taken as sampling weights. The mean is known from the moments, so nothing cancels.

    Parameters
    ----------
    rows : RowSource or PartedRows
        The rows that `moments` were accumulated from.
    moments : GroupMoments, SparseMoments or ThinMoments
    judged : sequence of (subspace, its figures on these moments)

    Returns
    -------
    list of (k,) arrays
        Zero for a group of one row.
    """
    projections = tuple(_projection(*each, moments) for each in judged)
    squares = folded(rows, SquaredDeviations(tuple(moments.labels), projections))
    if squares is None:
        squares = np.zeros((len(judged), moments.n_groups))
    counts = moments.counts
    return list(np.sqrt(squares * counts / np.maximum(counts - 1, 1)) / moments.weights)


@dataclass(frozen=True, eq=False)
class Projection:
    """What is needed of a subspace to find the error of a row, and its groups' mean errors.

    Attributes
    ----------
    components : (d, p) array
    scale : (p,) array or None
    points : (k, p) or (1, p) array
        About which errors are measured, in each group or in all.
    errors : (k,) array
        Mean error of each group.
    """

    components: FloatArray
    scale: FloatArray | None
    points: FloatArray
    errors: FloatArray

    def deviations(self, values: FloatArray, codes: npt.NDArray[np.intp]) -> FloatArray:
        """Error of each row minus its group's mean error, (r,)."""
        rows = values - (self.points[codes] if len(self.points) > 1 else self.points)
        if self.scale is not None:
            rows /= self.scale
        return squared_residuals(rows, self.components) - self.errors[codes]


@dataclass(frozen=True, eq=False)
class SquaredDeviations:
    """The pass of an audit: sums of w_i^2 (r_i - r)^2 of each projection and group, (m, k)."""

    labels: tuple[Label, ...]
    projections: tuple[Projection, ...]

    def over(self, rows: RowSource) -> FloatArray | None:
        """The sums over some rows."""
        coder = LabelCoder(self.labels)
        k = len(self.labels)
        squares = np.zeros((len(self.projections), k))
        for block in rows.blocks():
            # Rows of weight zero may carry a group that has no other rows, so they go first.
            kept = _with_weight(block)
            assert kept.labels is not None
            codes = coder.encode(kept.labels, kept.first_row)
            for total, projection in zip(squares, self.projections, strict=True):
                deviations = projection.deviations(kept.values, codes)
                if kept.weights is not None:
                    deviations = deviations * kept.weights
                total += np.bincount(codes, deviations**2, minlength=k)
        return squares

    def merged(self, left: FloatArray, right: FloatArray) -> FloatArray:
        """The sums over both parts."""
        return left + right

    def to_bytes(self, result: FloatArray) -> bytes:
        """The sums as bytes."""
        file = BytesIO()
        np.save(file, result, allow_pickle=False)
        return file.getvalue()

    def from_bytes(self, contents: bytes) -> FloatArray:
        """The sums again."""
        return np.asarray(np.load(BytesIO(contents), allow_pickle=False))


def _projection(subspace: FairSubspace, figures: GroupFigures, moments: Moments) -> Projection:
    point = reference_point(subspace, moments)
    points = moments.means if point is None else np.asarray(point)[None]
    return Projection(subspace.components, subspace.scale, points, figures.errors)


def _with_weight(block: RowBlock) -> RowBlock:
    if block.weights is None or block.weights.all() or block.labels is None:
        return block
    rows = np.flatnonzero(block.weights)
    return RowBlock(block.first_row, block.values[rows], block.labels[rows], block.weights[rows])
