"""The bound on the robust error gap of many groups: a box of errors that shrinks.

The scores J_i(e) = sum_g h(v_ig, e_g, eps_g) are concave in each error, so on a box of errors each
h is at least its chord. The largest of the chords' sums is piecewise linear, and bounds the
criterion from below for all errors in the box. The box need only hold subspaces whose value is at
most some level, one that has been reached. For multipliers mu_i >= 0 of the chords A_i.e - b_i,
every such subspace has

    +-e_g >= L(sum_h w_h S_h) - mu.b - level sum_i mu_i,    w = +-1_g + A'mu,

which moves a side of the box inwards.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fairspan.certificates.proof import Proof
from fairspan.linalg import smallest_sum
from fairspan.problem.criteria import declares
from fairspan.problem.criteria.error_gap import worst_case
from fairspan.problem.pieces import Pieces
from fairspan.problem.problem import Problem
from fairspan.typing import FloatArray

# Sides closer than this share of the error are one, and the chord there is the tangent.
_NARROW = 1e-12


@dataclass(frozen=True, eq=False)
class BoxesProof(Proof):
    """Boxes, one inside the other, and the multipliers of the chords of the last.

    Attributes
    ----------
    multipliers : (m,) array
        On the simplex.
    levels : (r,) array
        Of each round that shrinks the box: only subspaces whose value is at most this stay in it.
    n_sides : (r,) array
        How many sides each round moves, with the chords of the box that it begins with.
    groups, signs : (s,) arrays
        Of all sides in order: index of the group, and 1 for the least error, -1 for the largest.
    of_sides : (s, m) array
        mu of each side, of the chords.
    """

    multipliers: FloatArray
    levels: FloatArray
    n_sides: FloatArray
    groups: FloatArray
    signs: FloatArray
    of_sides: FloatArray
    kind: ClassVar[str] = "boxes"

    def __post_init__(self) -> None:
        if not np.isin(self.signs, (-1.0, 1.0)).all():
            raise ValueError("a side of a box is neither the least nor the largest error")

    def fits(self, problem: Problem) -> bool:
        """Of the robust error gap."""
        return declares(problem.criterion, "has_concave_scores")

    def gap(self, problem: Problem, basis: FloatArray, errors: FloatArray) -> tuple[float, float]:
        """The value at a subspace less the bound of the last box; all rounding is in it."""
        value = problem.criterion.value(errors, problem)
        low, high = first_box(problem)
        least, lowered = np.inf, 0.0
        ends = np.cumsum(self.n_sides).astype(int)
        starts = ends - self.n_sides.astype(int)
        for level, start, end in zip(self.levels, starts, ends, strict=True):
            chords = chords_of(problem, low, high)
            low, high = low.copy(), high.copy()
            least = min(least, float(level))
            for side in range(start, end):
                group, sign = int(self.groups[side]), self.signs[side]
                multipliers = np.maximum(self.of_sides[side], 0.0)
                alone = sign * np.eye(problem.n_groups)[group]
                reached = _least(problem, chords, multipliers, alone)[0]
                reached -= float(level * multipliers.sum())
                if sign > 0:
                    low[group] = max(low[group], reached)
                else:
                    high[group] = min(high[group], -reached)
            if (low > high).any():
                return value - least, 0.0
        chords = chords_of(problem, low, high)
        shares = np.maximum(self.multipliers, 0.0)
        shares = shares / shares.sum()
        bound, lowered = _least(problem, chords, shares, np.zeros(problem.n_groups))
        return value - min(bound, least), lowered


def first_box(problem: Problem) -> tuple[FloatArray, FloatArray]:
    """Least and largest error of any subspace on each group, with room for rounding."""
    second, d = problem.dense, problem.n_components
    low, high = np.zeros(problem.n_groups), np.zeros(problem.n_groups)
    for group, alone in enumerate(np.eye(problem.n_groups)):
        least = smallest_sum(second.matrices, alone, d)
        largest = smallest_sum(second.matrices, -alone, d)
        low[group] = max(least.value - least.rounding, 0.0)
        high[group] = max(largest.rounding - largest.value, 0.0)
    return low + second.outside, high + second.outside


def chords_of(problem: Problem, low: FloatArray, high: FloatArray) -> Pieces:
    """Affine functions below every score on a box of errors."""
    criterion = problem.robust
    weights, radii = criterion.pair_weights(problem), criterion.radii(problem)
    at_low, at_high = worst_case(weights, low, radii), worst_case(weights, high, radii)
    width = high - low
    wide = width > _NARROW * np.maximum(high, np.finfo(np.float64).tiny)
    slopes = np.where(wide, (at_high - at_low) / np.where(wide, width, 1.0), weights)
    return Pieces(slopes, (slopes * low - at_low).sum(axis=1))


def _least(
    problem: Problem, chords: Pieces, multipliers: FloatArray, added: FloatArray
) -> tuple[float, float]:
    """L(sum_g w_g S_g) - mu.b of w = added + A'mu, less its rounding; and the rounding."""
    second = problem.dense
    weights = added + multipliers @ chords.coefficients
    least = smallest_sum(second.matrices, weights, problem.n_components)
    constant = float(multipliers @ chords.offsets) - float(weights @ second.outside)
    rounding = least.rounding + 4 * np.finfo(np.float64).eps * float(
        multipliers @ np.abs(chords.offsets)
    )
    return least.value - constant - rounding, rounding
