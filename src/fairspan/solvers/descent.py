"""Local minimisation of a largest of smooth functions of the errors, at exactly d components.

Moving V to V + UX, U the orthogonal complement, changes the error e_g by -2 <B_g, X> in first
order, B_g = U'S_gV. For multipliers m of the scores, w_g = sum_i m_i dF_i/de_g and
M = sum_g w_g S_g, the second order is sum_(i, j) (a_j - b_i) X_ij^2 in the bases of U and V that
make U'MU = diag(b) and V'MV = diag(a). So the quadratic model is diagonal, and each step is a
program over the simplex of multipliers; Newton's method on the scores that stay largest ends it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairspan.problem.problem import Problem
from fairspan.solvers.simplex_program import least_on_simplex

FloatArray = npt.NDArray[np.float64]
# From (k,) errors: the (m,) scores, and their (m, k) derivatives.
Scores = Callable[[FloatArray], tuple[FloatArray, FloatArray]]

_MAX_STEPS = 200
_SMALLEST_STEP = 2.0**-30
# Curvatures below this share of the largest are not divided by.
_FLAT = 1e-3
# Without any curvature a step is no longer than the inverse of this.
_STEEPEST = 1e-9
_FLATTEST = 20
_ACTIVE = 1e-9
_ROUNDING = 1e-15


@dataclass(frozen=True, eq=False)
class _Model:
    """First and second order of the scores around a basis.

    Attributes
    ----------
    frame : (p, d) array, (p, p - d) array
        V and U in the bases that make M diagonal.
    slopes : (m, p - d, d) array
        A_i . B, half the descent of each score along X.
    curvatures : (p - d, d) array
        a_j - b_i, of either sign.
    """

    basis: FloatArray
    complement: FloatArray
    scores: FloatArray
    slopes: FloatArray
    curvatures: FloatArray

    @classmethod
    def at(
        cls, problem: Problem, scores: Scores, basis: FloatArray, multipliers: FloatArray
    ) -> "_Model":
        second = problem.second_moments
        values, derivatives = scores(problem.errors(basis))
        weights = multipliers @ derivatives
        complement = np.linalg.qr(basis, mode="complete")[0][:, basis.shape[1] :]
        inside = np.tensordot(weights, second.compressed(basis), axes=1)
        outside = np.tensordot(weights, second.compressed(complement), axes=1)
        a, turn = np.linalg.eigh(inside)
        b, back = np.linalg.eigh(outside)
        basis, complement = basis @ turn, complement @ back
        mixed = complement.T @ second.applied(basis)
        slopes = np.tensordot(derivatives, mixed, axes=1)
        return cls(basis, complement, values, slopes, a[None, :] - b[:, None])

    def safe_step(self) -> tuple[FloatArray, FloatArray]:
        """Step and multipliers with curvatures made positive: a descent direction."""
        positive = np.abs(self.curvatures)
        size = max(positive.max(), _STEEPEST * np.abs(self.slopes).max(), np.finfo(float).tiny)
        positive = np.maximum(positive, _FLAT * size)
        gram = _inner(self.slopes, self.slopes / positive)
        multipliers = least_on_simplex(2 * gram, -self.scores)
        return np.tensordot(multipliers, self.slopes, axes=1) / positive, multipliers

    def newton_step(self, multipliers: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """Newton's step for the scores with a multiplier to become equal, with true curvatures.

        Coordinates of little curvature are kept as unknowns instead of being divided out.
        """
        active = np.flatnonzero(multipliers > _ACTIVE)
        # One row says that the multipliers sum to one: the others must be of its size.
        size = max(float(np.abs(each).max()) for each in (self.curvatures, self.slopes[active]))
        if size == 0:
            return None
        curvatures, slopes = self.curvatures / size, self.slopes[active] / size
        scores = (self.scores[active] - self.scores.max()) / size
        flat = np.zeros(curvatures.shape, dtype=bool)
        order = np.argsort(np.abs(curvatures), axis=None)[:_FLATTEST]
        flat.flat[order] = True
        curved, soft = np.where(flat, 0.0, slopes), slopes[:, flat]
        # Where ties leave more coordinates without any curvature, the step goes along the others.
        divisible = ~flat & (np.abs(curvatures) > np.finfo(float).eps)
        inverse = np.divide(1.0, curvatures, out=np.zeros_like(curvatures), where=divisible)
        n, s = len(active), int(flat.sum())
        system = np.zeros((n + 1 + s, n + 1 + s))
        system[:n, :n] = 2 * _inner(curved, curved * inverse)
        system[:n, n] = system[n, :n] = 1.0
        system[:n, n + 1 :] = 2 * soft
        system[n + 1 :, :n] = 2 * soft.T
        system[n + 1 :, n + 1 :] = -2 * np.diag(curvatures[flat])
        right = np.concatenate([scores, [1.0], np.zeros(s)])
        solved, *_ = np.linalg.lstsq(system, right, rcond=1e-14)
        if (solved[:n] < 0).any():
            return None
        step = np.tensordot(solved[:n], curved, axes=1) * inverse
        step[flat] = solved[n + 1 :]
        found = np.zeros(len(multipliers))
        found[active] = solved[:n]
        return step, found

    def moved(self, step: FloatArray) -> FloatArray:
        """The orthonormal basis of V + UX."""
        return np.asarray(np.linalg.qr(self.basis + self.complement @ step)[0])


@dataclass(frozen=True, eq=False)
class LocalOptimum:
    """Where a descent ended.

    Attributes
    ----------
    basis : (p, d) array
    value : float
        Its largest score.
    weights : (k,) array
        w of the last model: the groups' second moments whose mixture balances the scores there.
    multipliers : (m,) array
        Of the scores, on the simplex.
    n_eigenproblems : int
        One a step.
    """

    basis: FloatArray
    value: float
    weights: FloatArray
    multipliers: FloatArray
    n_eigenproblems: int


def descend(
    problem: Problem, scores: Scores, basis: FloatArray, target: float = -np.inf
) -> LocalOptimum:
    """Walk downhill from a basis until no step lowers the largest score, or the target is met.

    Parameters
    ----------
    problem : Problem
    scores : function of (k,) errors
        Gives (m,) scores and their (m, k) derivatives.
    basis : (p, d) array
    target : float
        Good enough, for example a lower bound plus the tolerance.

    Returns
    -------
    LocalOptimum
        Never above the start.
    """
    values = scores(problem.errors(basis))[0]
    value, n_steps = float(values.max()), 0
    multipliers = (values == values.max()) / float((values == values.max()).sum())
    if basis.shape[0] > basis.shape[1]:
        while n_steps < _MAX_STEPS and value > target:
            n_steps += 1
            model = _Model.at(problem, scores, basis, multipliers)
            step, safe = model.safe_step()
            newton = model.newton_step(safe)
            candidates = [(step, safe)] if newton is None else [newton, (step, safe)]
            found = _downhill(problem, scores, model, candidates, value)
            multipliers = candidates[0][1] if found is None else found[2]
            if found is None:
                break
            falls, (basis, value, _) = value - found[1], found
            if falls <= _ROUNDING * float(np.abs(model.scores).max()):
                break
    slopes = scores(problem.errors(basis))[1]
    return LocalOptimum(basis, value, multipliers @ slopes, multipliers, n_steps)


def _inner(left: FloatArray, right: FloatArray) -> FloatArray:
    """Inner products of two stacks of matrices."""
    return left.reshape(len(left), -1) @ right.reshape(len(right), -1).T


def _downhill(
    problem: Problem,
    scores: Scores,
    model: _Model,
    candidates: list[tuple[FloatArray, FloatArray]],
    value: float,
) -> tuple[FloatArray, float, FloatArray] | None:
    """The better of the whole steps if one goes down; else the first shortened one that does."""
    share = 1.0
    while share >= _SMALLEST_STEP:
        tried = []
        for step, multipliers in candidates:
            basis = model.moved(share * step)
            tried.append((float(scores(problem.errors(basis))[0].max()), basis, multipliers))
        best = min(tried, key=lambda each: each[0])
        if best[0] < value:
            return best[1], best[0], best[2]
        share /= 2 if share == 1.0 else 4
    return None
