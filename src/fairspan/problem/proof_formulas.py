"""What the weights of the groups prove of a criterion.

For weights w let L(M) be the sum of the p - d smallest eigenvalues of M = sum_g w_g S_g. Every
subspace has w.e >= L(M). So a criterion that is nowhere below some affine function w.e - b is
nowhere below L(M) - b. The gap between a value and that bound is stated as a sum of terms that are
not negative, and none of them is a difference of large numbers. The terms are the excess w.e -
L(M) of the subspace over the best one for its own mixture, and the difference of the criterion and
the affine function.
"""

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import scipy

from fairspan.problem.pieces import Pieces
from fairspan.typing import FloatArray

if TYPE_CHECKING:
    from fairspan.problem.problem import Problem


class ProofFormula(Protocol):
    """How weights of the groups prove a lower bound on a criterion."""

    def proving_weights(self, weights: FloatArray, problem: "Problem") -> FloatArray:
        """The nearest (k,) weights that prove a bound."""

    def gap(
        self, errors: FloatArray, excess: float, weights: FloatArray, problem: "Problem"
    ) -> float:
        """The value at (k,) errors less the bound, if excess = w.e - L(M)."""

    def scale(self, errors: FloatArray, weights: FloatArray, problem: "Problem") -> float:
        """What a gap is compared with: the size of the objective."""

    def rounding(self, roundings: FloatArray, errors: FloatArray, problem: "Problem") -> float:
        """By how much the value may be off, if the errors are by these."""


class PiecewiseProof:
    """For any sum of maxima of affine functions: multipliers whose mixture has the weights.

    Parameters
    ----------
    criterion : Criterion
        One with pieces.
    """

    def __init__(self, criterion: Any) -> None:
        self._criterion = criterion

    def proving_weights(self, weights: FloatArray, problem: "Problem") -> FloatArray:
        """A'm of the multipliers m that come nearest."""
        pieces, multipliers = self.multipliers(weights, problem)
        return np.asarray(multipliers @ pieces.coefficients)

    def gap(
        self, errors: FloatArray, excess: float, weights: FloatArray, problem: "Problem"
    ) -> float:
        """The excess, and by how much pieces that have a multiplier stay below the largest."""
        pieces, multipliers = self.multipliers(weights, problem)
        heights = pieces.at(errors)
        below = pieces.blocks.largest(heights)[pieces.blocks.of(len(heights))] - heights
        return float(multipliers @ below) + excess

    def scale(self, errors: FloatArray, weights: FloatArray, problem: "Problem") -> float:
        """The size of the value."""
        return abs(float(self._criterion.value(errors, problem)))

    def rounding(self, roundings: FloatArray, errors: FloatArray, problem: "Problem") -> float:
        """The largest of a piece in each block; twice where something is subtracted."""
        pieces = self._pieces(problem)
        return pieces.size(roundings) * (2 if pieces.offsets.any() else 1)

    def _pieces(self, problem: "Problem") -> Pieces:
        pieces: Pieces | None = self._criterion.pieces(problem)
        assert pieces is not None, f"{self._criterion} has neither pieces nor a proof formula"
        return pieces

    def multipliers(self, weights: FloatArray, problem: "Problem") -> tuple[Pieces, FloatArray]:
        """The pieces, and of multipliers on them those whose mixture comes nearest to weights."""
        pieces = self._pieces(problem)
        size = max(float(np.abs(pieces.coefficients).max()), np.finfo(np.float64).tiny)
        sums = pieces.blocks.membership(len(pieces.offsets))
        system = np.vstack([pieces.coefficients.T / size, sums])
        found, _ = scipy.optimize.nnls(system, np.append(weights / size, np.ones(len(sums))))
        return pieces, pieces.blocks.normalised(found)


def proof_formula_of(criterion: Any) -> ProofFormula:
    """That of a criterion; where it has none of its own, what its pieces give."""
    return criterion if criterion.proves_itself else PiecewiseProof(criterion)
