"""The bound on the robust error gap of many groups: a box of errors that shrinks.

The scores J_i(e) = sum_g h(v_ig, e_g, eps_g) are concave in each error, so on a box of errors each
h is at least its chord, and the largest of the chords' sums, which is piecewise linear, bounds the
criterion from below wherever errors lie in the box. The box need only hold subspaces whose value is
at most some level, one that has been reached. For multipliers mu_i >= 0 of the chords A_i.e - b_i,
every such subspace has

    +-e_g >= L(sum_h w_h S_h) - mu.b - level sum_i mu_i,    w = +-1_g + A'mu,

which moves a side of the box inwards.
"""

from dataclasses import dataclass

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
class Side:
    """How one side of the box is moved.

    Attributes
    ----------
    group : int
    sign : float
        1 for the least error, -1 for the largest.
    multipliers : (m,) array
        mu, of the chords.
    """

    group: int
    sign: float
    multipliers: FloatArray


@dataclass(frozen=True, eq=False)
class Shrinking:
    """Sides that are moved with the chords of one box.

    Attributes
    ----------
    level : float
        Only subspaces whose value is at most this stay in the box.
    sides : tuple of Side
    """

    level: float
    sides: tuple[Side, ...]


@dataclass(frozen=True, eq=False)
class BoxesProof(Proof):
    """Boxes, one inside the other, and the multipliers of the chords of the last.

    Attributes
    ----------
    shrinkings : tuple of Shrinking
    multipliers : (m,) array
        On the simplex.
    """

    shrinkings: tuple[Shrinking, ...]
    multipliers: FloatArray

    def fits(self, problem: Problem) -> bool:
        """Of the robust error gap."""
        return declares(problem.criterion, "has_concave_scores")

    def gap(self, problem: Problem, basis: FloatArray, errors: FloatArray) -> tuple[float, float]:
        """The value at a subspace less the bound of the last box; all rounding is in it."""
        value = problem.criterion.value(errors, problem)
        low, high = first_box(problem)
        least, lowered = np.inf, 0.0
        for shrinking in self.shrinkings:
            chords = chords_of(problem, low, high)
            low, high = low.copy(), high.copy()
            least = min(least, shrinking.level)
            for side in shrinking.sides:
                reached, _ = _side_of(problem, chords, side, shrinking.level)
                if side.sign > 0:
                    low[side.group] = max(low[side.group], reached)
                else:
                    high[side.group] = min(high[side.group], -reached)
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


def _side_of(problem: Problem, chords: Pieces, side: Side, level: float) -> tuple[float, float]:
    """Where a side is moved to, and what of that is room for rounding."""
    alone = np.zeros(problem.n_groups)
    alone[side.group] = side.sign
    multipliers = np.maximum(side.multipliers, 0.0)
    bound, rounding = _least(problem, chords, multipliers, alone)
    return bound - level * float(multipliers.sum()), rounding


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
