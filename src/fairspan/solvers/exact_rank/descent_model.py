"""First and second order of smooth functions of the errors around a subspace of d dimensions.

Moving V to V + UX, U the orthogonal complement, changes the error e_g by -2 <B_g, X> in first
order, B_g = U'S_gV. For multipliers m of the scores, w_g = sum_i m_i dF_i/de_g and
M = sum_g w_g S_g, the second order is sum_(i, j) (a_j - b_i) X_ij^2 in the bases of U and V that
make U'MU = diag(b) and V'MV = diag(a). So the quadratic model is diagonal, and each step is a
program over multipliers on a simplex for each block of scores.

Curvatures can lie many orders of magnitude apart, as where V holds the direction of a column of
large numbers. So column j of X is measured in units of the inverse root of the largest curvature in
it, which makes the curvatures of all columns alike.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from fairspan.linalg import eigh, graded_eigh, symmetric
from fairspan.problem.pieces import ONE_BLOCK, Blocks
from fairspan.problem.problem import Problem
from fairspan.solvers.programs import least_on_simplex
from fairspan.typing import FloatArray

# Curvatures below this share of the largest are not divided by.
_FLAT = 1e-3
# Without any curvature a step is no longer than the inverse of this.
_STEEPEST = 1e-9
_FLATTEST = 20
# Scores with a multiplier below this are not active.
_ACTIVE = 1e-9
# Scores are uncertain by this share of the errors in them.
_ROUNDING = 1e-15
# Differences for second derivatives are this share of the errors.
_DIFFERENCE = 1e-5


@dataclass(frozen=True, eq=False)
class Scores:
    """Smooth functions of the errors: the sum over blocks of the largest of each is minimised.

    Attributes
    ----------
    function : callable
        From (k,) errors: the (m,) scores, and their (m, k) derivatives.
    blocks : Blocks
    """

    function: Callable[[FloatArray], tuple[FloatArray, FloatArray]]
    blocks: Blocks = ONE_BLOCK

    def __call__(self, errors: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Scores and derivatives at (k,) errors."""
        return self.function(errors)


@dataclass(frozen=True, eq=False)
class Step:
    """X, the multipliers it was found with, and by how much the model lets the value fall."""

    along: FloatArray
    multipliers: FloatArray
    promise: float


@dataclass(frozen=True, eq=False)
class Model:
    """First and second order of the scores around a basis.

    Attributes
    ----------
    basis : (p, d) array
    complement : (p, p - d) array
        V and U in the bases that make M diagonal.
    scores : (m,) array
    derivatives : (m, k) array
        A, of the scores in the errors.
    descents : (k, p - d, d) array
        B, half the descent of each error along X.
    curvatures : (p - d, d) array
        a_j - b_i, of either sign.
    units : (d,) array
        What the columns of X are measured in.
    rounding : float
        How far scores are off.
    bends : (k,) array
        Second derivatives of the weighed scores in each group's error; empty if they are affine.
    blocks : Blocks
        Of the scores.
    """

    basis: FloatArray
    complement: FloatArray
    scores: FloatArray
    derivatives: FloatArray
    descents: FloatArray
    curvatures: FloatArray
    units: FloatArray
    rounding: float = 0.0
    bends: FloatArray = field(default_factory=lambda: np.zeros(0))
    blocks: Blocks = ONE_BLOCK

    @property
    def value(self) -> float:
        """What is minimised, at the basis."""
        return self.blocks.value(self.scores)

    @property
    def is_smooth(self) -> bool:
        """Whether there is one score in each block, so that none parts from others."""
        return len(self.scores) == len(self.blocks)

    @classmethod
    def at(
        cls, problem: Problem, scores: Scores, basis: FloatArray, multipliers: FloatArray
    ) -> "Model":
        """Around a basis, the second order weighed by these multipliers."""
        second = problem.second_moments
        errors = problem.errors(basis)
        values, derivatives = scores(errors)
        weights = multipliers @ derivatives
        images = second.applied(basis)
        complement = np.linalg.qr(basis, mode="complete")[0][:, basis.shape[1] :]
        inside = symmetric(basis.T @ np.tensordot(weights, images, axes=1))
        a, turn, _ = graded_eigh(inside, max(len(inside) - 1, 0))
        b, back = eigh(symmetric(complement.T @ problem.dense.mixture(weights) @ complement))
        basis, complement = basis @ turn, complement @ back
        curvatures = a[None, :] - b[:, None]
        units = _units(curvatures)
        return cls(
            basis,
            complement,
            values,
            derivatives,
            complement.T @ images @ turn * units,
            curvatures * units**2,
            units,
            _ROUNDING * scores.blocks.value(np.abs(derivatives) @ errors),
            _bends(scores, errors, multipliers),
            scores.blocks,
        )

    def safe_step(self, scores: FloatArray, damping: float = 0.0) -> "Step":
        """With curvatures made positive, and larger by a share: a descent direction."""
        positive = np.abs(self.curvatures)
        steepest = float(np.abs(self.derivatives).sum(axis=1).max() * np.abs(self.descents).max())
        size = max(positive.max(), _STEEPEST * steepest, np.finfo(float).tiny)
        positive = np.maximum(positive, _FLAT * size) + damping * size
        flat = (np.sqrt(2) * self.descents / np.sqrt(positive)).reshape(len(self.descents), -1)
        multipliers = least_on_simplex(self.derivatives @ flat, -scores, self.blocks)
        step = np.tensordot(multipliers @ self.derivatives, self.descents, axes=1) / positive
        level = float(multipliers @ scores) - float(np.vdot(step, positive * step))
        return Step(step, multipliers, self.blocks.value(scores) - level)

    def newton_step(self, multipliers: FloatArray, scores: FloatArray) -> "Step | None":
        """Newton's step for the scores with a multiplier to become equal, with true curvatures.

        Coordinates of little curvature are kept as unknowns instead of being divided out.
        """
        active = np.flatnonzero(multipliers > _ACTIVE)
        derivatives, blocks = self.derivatives[active], self.blocks.among(active)
        highest = blocks.largest(scores[active])[blocks.of(len(active))]
        # One row says that the multipliers sum to one: the others must be of its size. So errors
        # are measured in a unit in which scores change about as much as they, as logarithms do not.
        unit = 2.0 ** -np.round(np.log2(np.abs(derivatives).max() or 1.0))
        steepest = float(np.abs(derivatives).sum(axis=1).max() * np.abs(self.descents).max())
        size = max(float(np.abs(self.curvatures).max()), steepest)
        if size == 0:
            return None
        scaled = replace(
            self,
            scores=(scores[active] - highest) / size,
            derivatives=derivatives * unit,
            descents=self.descents / unit / size,
            curvatures=self.curvatures / size,
            bends=self.bends * unit * unit * size,
            blocks=blocks,
        )
        solved, step = scaled._level_and_stationary()
        if (solved < 0).any():
            return None
        found = np.zeros(len(multipliers))
        found[active] = solved
        return Step(step, found, np.inf)

    def _level_and_stationary(self) -> tuple[FloatArray, FloatArray]:
        """Multipliers of any sign, and the step to equal scores in each block that is stationary.

        Unknown are the multipliers, the level of each block, the step where there is little
        curvature, and where scores bend the changes <B, X> of the errors.
        """
        curvatures, derivatives, bends = self.curvatures, self.derivatives, self.bends
        flat = np.zeros(curvatures.shape, dtype=bool)
        flat.flat[np.argsort(np.abs(curvatures), axis=None)[:_FLATTEST]] = True
        curved, soft = np.where(flat, 0.0, self.descents), self.descents[:, flat]
        # Where ties leave more coordinates without any curvature, the step goes along the others.
        divisible = ~flat & (np.abs(curvatures) > np.finfo(float).eps)
        inverse = np.divide(1.0, curvatures, out=np.zeros_like(curvatures), where=divisible)
        falls = np.tensordot(derivatives, curved, axes=1)
        n, s, q = len(derivatives), soft.shape[1], len(bends)
        sums = self.blocks.membership(n)
        n_balanced = n + len(sums)
        at, rest = slice(n_balanced, n_balanced + s), slice(n_balanced + s, None)
        system = np.zeros((n_balanced + s + q, n_balanced + s + q))
        system[:n, :n] = 2 * _inner(falls, falls * inverse)
        system[n:n_balanced, :n], system[:n, n:n_balanced] = sums, sums.T
        system[:n, at] = 2 * derivatives @ soft
        system[at, :n] = system[:n, at].T
        system[at, at] = -2 * np.diag(curvatures[flat])
        if q:
            gram = _inner(curved, curved * inverse)
            system[:n, rest] = -4 * derivatives @ gram * bends
            system[at, rest] = -4 * soft.T * bends
            system[rest, :n] = gram @ derivatives.T
            system[rest, at] = soft
            system[rest, rest] = -2 * gram * bends - np.eye(q)
        right = np.concatenate([self.scores, np.ones(len(sums)), np.zeros(s + q)])
        solved, *_ = np.linalg.lstsq(system, right, rcond=1e-14)
        weights = solved[:n] @ derivatives
        if q:
            weights = weights - 2 * bends * solved[rest]
        step = np.tensordot(weights, curved, axes=1) * inverse
        step[flat] = solved[at]
        return solved[:n], step

    def corrected(self, trial: FloatArray, step: FloatArray) -> FloatArray:
        """Scores from which a step leads to where those after this step are right to second order.

        Scores bend differently while the model bends all alike, so after a long step along their
        common level they part by its square, and the largest rises (Maratos 1978).
        """
        return np.asarray(trial + 2 * self.derivatives @ np.tensordot(self.descents, step, axes=2))

    def moved(self, step: FloatArray) -> FloatArray:
        """The orthonormal basis of V + UX."""
        return np.asarray(np.linalg.qr(self.basis + self.complement @ (step * self.units))[0])


def _units(curvatures: FloatArray) -> FloatArray:
    """Of each column of X; 1 for all where curvatures are not far apart."""
    largest = np.abs(curvatures).max(axis=0)
    size = float(largest.max())
    if size == 0 or float(largest.min()) >= _FLAT * size:
        return np.ones(len(largest))
    # Columns without curvature are those of a tie, and measured like the least of the others.
    least = float(largest[largest > np.finfo(np.float64).eps * size].min())
    return np.asarray(np.sqrt(least / np.maximum(largest, least)))


def _bends(scores: Scores, errors: FloatArray, multipliers: FloatArray) -> FloatArray:
    """Second derivatives by differences: scores are sums of functions of one error each."""
    change = _DIFFERENCE * np.maximum(errors, _DIFFERENCE * float(errors.max()))
    if not change.all():
        return np.zeros(0)
    low = np.maximum(errors - change / 2, 0.0)
    bends = np.asarray(multipliers @ (scores(low + change)[1] - scores(low)[1]) / change)
    return bends if bends.any() else np.zeros(0)


def _inner(left: FloatArray, right: FloatArray) -> FloatArray:
    """Inner products of two stacks of matrices."""
    return left.reshape(len(left), -1) @ right.reshape(len(right), -1).T
