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

from fairspan.moments.operators import DenseSecondMoments, SecondMoments
from fairspan.problem.problem import Problem
from fairspan.solvers.simplex_program import least_on_simplex

FloatArray = npt.NDArray[np.float64]
# From (k,) errors: the (m,) scores, and their (m, k) derivatives.
Scores = Callable[[FloatArray], tuple[FloatArray, FloatArray]]

_MAX_STEPS = 200
# A step that keeps less than this share of its promise is corrected; less than that, damped.
_KEPT, _ENOUGH = 0.5, 0.1
# Damping, as a share of the largest curvature: its range, and by what it grows and shrinks.
_LEAST_DAMPING, _MOST_DAMPING, _MORE, _EASED = 1e-4, 1e8, 8.0, 16.0
# Curvatures below this share of the largest are not divided by.
_FLAT = 1e-3
# Without any curvature a step is no longer than the inverse of this.
_STEEPEST = 1e-9
_FLATTEST = 20
# How far from a saddle point is looked, as lengths of X.
_LENGTHS = (0.3, 0.1, 0.03, 0.01)
_ACTIVE = 1e-9
_ROUNDING = 1e-15


@dataclass(frozen=True, eq=False)
class _Model:
    """First and second order of the scores around a basis.

    Attributes
    ----------
    frame : (p, d) array, (p, p - d) array
        V and U in the bases that make M diagonal.
    derivatives : (m, k) array
        A, of the scores in the errors.
    descents : (k, p - d, d) array
        B, half the descent of each error along X.
    curvatures : (p - d, d) array
        a_j - b_i, of either sign.
    """

    basis: FloatArray
    complement: FloatArray
    scores: FloatArray
    derivatives: FloatArray
    descents: FloatArray
    curvatures: FloatArray

    @classmethod
    def at(
        cls, problem: Problem, scores: Scores, basis: FloatArray, multipliers: FloatArray
    ) -> "_Model":
        second = problem.second_moments
        values, derivatives = scores(problem.errors(basis))
        weights = multipliers @ derivatives
        images = second.applied(basis)
        complement = np.linalg.qr(basis, mode="complete")[0][:, basis.shape[1] :]
        inside = basis.T @ np.tensordot(weights, images, axes=1)
        a, turn = np.linalg.eigh((inside + inside.T) / 2)
        b, back = np.linalg.eigh(_compressed_mixture(second, weights, complement))
        basis, complement = basis @ turn, complement @ back
        descents = complement.T @ images @ turn
        curvatures = a[None, :] - b[:, None]
        return cls(basis, complement, values, derivatives, descents, curvatures)

    def safe_step(self, scores: FloatArray, damping: float = 0.0) -> "_Step":
        """With curvatures made positive, and larger by a share: a descent direction."""
        positive = np.abs(self.curvatures)
        steepest = float(np.abs(self.derivatives).sum(axis=1).max() * np.abs(self.descents).max())
        size = max(positive.max(), _STEEPEST * steepest, np.finfo(float).tiny)
        positive = np.maximum(positive, _FLAT * size) + damping * size
        gram = self.derivatives @ _inner(self.descents, self.descents / positive)
        multipliers = least_on_simplex(2 * gram @ self.derivatives.T, -scores)
        step = self._combined(multipliers, self.descents) / positive
        level = float(multipliers @ scores) - float(np.vdot(step, positive * step))
        return _Step(step, multipliers, float(scores.max()) - level)

    def newton_step(self, multipliers: FloatArray, scores: FloatArray) -> "_Step | None":
        """Newton's step for the scores with a multiplier to become equal, with true curvatures.

        Coordinates of little curvature are kept as unknowns instead of being divided out.
        """
        active = np.flatnonzero(multipliers > _ACTIVE)
        derivatives = self.derivatives[active]
        # One row says that the multipliers sum to one: the others must be of its size.
        steepest = float(np.abs(derivatives).sum(axis=1).max() * np.abs(self.descents).max())
        size = max(float(np.abs(self.curvatures).max()), steepest)
        if size == 0:
            return None
        curvatures, descents = self.curvatures / size, self.descents / size
        scores = (scores[active] - scores[active].max()) / size
        flat = np.zeros(curvatures.shape, dtype=bool)
        order = np.argsort(np.abs(curvatures), axis=None)[:_FLATTEST]
        flat.flat[order] = True
        curved, soft = np.where(flat, 0.0, descents), derivatives @ descents[:, flat]
        # Where ties leave more coordinates without any curvature, the step goes along the others.
        divisible = ~flat & (np.abs(curvatures) > np.finfo(float).eps)
        inverse = np.divide(1.0, curvatures, out=np.zeros_like(curvatures), where=divisible)
        n, s = len(active), int(flat.sum())
        system = np.zeros((n + 1 + s, n + 1 + s))
        system[:n, :n] = 2 * derivatives @ _inner(curved, curved * inverse) @ derivatives.T
        system[:n, n] = system[n, :n] = 1.0
        system[:n, n + 1 :] = 2 * soft
        system[n + 1 :, :n] = 2 * soft.T
        system[n + 1 :, n + 1 :] = -2 * np.diag(curvatures[flat])
        right = np.concatenate([scores, [1.0], np.zeros(s)])
        solved, *_ = np.linalg.lstsq(system, right, rcond=1e-14)
        if (solved[:n] < 0).any():
            return None
        found = np.zeros(len(multipliers))
        found[active] = solved[:n]
        step = self._combined(found, curved) * inverse
        step[flat] = solved[n + 1 :]
        return _Step(step, found, np.inf)

    def escape(self, multipliers: FloatArray) -> FloatArray | None:
        """The direction of most negative curvature that keeps the active scores level, if any.

        Of directions with given entries where the curvature is negative, the one that keeps the
        scores level with the least curvature elsewhere decides.
        """
        active = np.flatnonzero(multipliers > _ACTIVE)
        apart = self.derivatives[active[1:]] - self.derivatives[active[0]]
        least = _FLAT * float(np.abs(self.curvatures).max())
        falling = self.curvatures < 0
        if not falling.any() or least == 0:
            return None
        across = apart @ self.descents[:, falling]
        stiff = np.where(falling, np.inf, np.maximum(self.curvatures, least * _FLAT))
        price = apart @ _inner(self.descents, self.descents / stiff) @ apart.T
        held = np.linalg.pinv(price, hermitian=True)
        values, vectors = np.linalg.eigh(
            np.diag(self.curvatures[falling]) + across.T @ held @ across
        )
        if values[0] >= -least * _FLAT:
            return None
        direction = -np.tensordot(held @ (across @ vectors[:, 0]) @ apart, self.descents, axes=1)
        direction = direction / stiff
        direction[falling] = vectors[:, 0]
        return np.asarray(direction / np.linalg.norm(direction))

    def corrected(self, trial: FloatArray, step: FloatArray) -> FloatArray:
        """Scores from which a step leads to where those after this step are right to second order.

        Scores bend differently while the model bends all alike, so after a long step along their
        common level they part by its square, and the largest rises (Maratos 1978).
        """
        along = np.tensordot(self.descents, step, axes=2)
        return np.asarray(trial + 2 * self.derivatives @ along)

    def _combined(self, multipliers: FloatArray, descents: FloatArray) -> FloatArray:
        return np.tensordot(multipliers @ self.derivatives, descents, axes=1)

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
    value, n_steps, damping = float(values.max()), 0, 0.0
    multipliers = (values == values.max()) / float((values == values.max()).sum())
    if basis.shape[0] > basis.shape[1]:
        while n_steps < _MAX_STEPS and value > target:
            n_steps += 1
            model = _Model.at(problem, scores, basis, multipliers)
            found, damping = _downhill(problem, scores, model, damping)
            if value - found.value <= _ROUNDING * float(np.abs(model.scores).max()):
                away = _beside_saddle(problem, scores, model, found.multipliers)
                if away is None:
                    if found.value < value:
                        basis, value = found.basis, found.value
                    multipliers = found.multipliers
                    break
                found, damping = away, 0.0
            basis, value, multipliers = found.basis, found.value, found.multipliers
    slopes = scores(problem.errors(basis))[1]
    return LocalOptimum(basis, value, multipliers @ slopes, multipliers, n_steps)


def _compressed_mixture(
    second: SecondMoments, weights: FloatArray, basis: FloatArray
) -> FloatArray:
    if isinstance(second, DenseSecondMoments):
        compressed = basis.T @ second.mixture(weights) @ basis
    else:
        compressed = np.tensordot(weights, second.compressed(basis), axes=1)
    return np.asarray((compressed + compressed.T) / 2)


def _inner(left: FloatArray, right: FloatArray) -> FloatArray:
    """Inner products of two stacks of matrices."""
    return left.reshape(len(left), -1) @ right.reshape(len(right), -1).T


@dataclass(frozen=True, eq=False)
class _Step:
    """X, the multipliers it was found with, and by how much the model lets the largest fall."""

    along: FloatArray
    multipliers: FloatArray
    promise: float


@dataclass(frozen=True, eq=False)
class _Trial:
    """Where a step leads: its basis, and the scores there."""

    basis: FloatArray
    scores: FloatArray
    multipliers: FloatArray

    @property
    def value(self) -> float:
        return float(self.scores.max())


def _downhill(
    problem: Problem, scores: Scores, model: _Model, damping: float
) -> tuple[_Trial, float]:
    """The best of the steps tried, damped more and more until one keeps its promise.

    Also the damping to begin the next with.
    """

    def tried(step: _Step) -> _Trial:
        basis = model.moved(step.along)
        return _Trial(basis, scores(problem.errors(basis))[0], step.multipliers)

    value = float(model.scores.max())
    damping = damping / _EASED if damping > _LEAST_DAMPING else 0.0
    safe = model.safe_step(model.scores, damping)
    trials = [tried(safe)]
    newton = model.newton_step(safe.multipliers, model.scores)
    if newton is not None:
        trials.append(tried(newton))
        if value - trials[-1].value < _KEPT * safe.promise or trials[-1].value > trials[0].value:
            level = model.corrected(trials[-1].scores, newton.along)
            second = model.newton_step(safe.multipliers, level)
            if second is not None:
                trials.append(tried(second))
    best = min(trials, key=lambda trial: trial.value)
    while True:
        if value - best.value < _KEPT * safe.promise:
            level = model.corrected(trials[0].scores, safe.along)
            trials.append(tried(model.safe_step(level, damping)))
        best = min([best, *trials], key=lambda trial: trial.value)
        enough = max(_ENOUGH * safe.promise, _ROUNDING * float(np.abs(model.scores).max()))
        if value - best.value >= enough or safe.promise <= enough or damping > _MOST_DAMPING:
            return best, damping
        damping = max(_MORE * damping, _LEAST_DAMPING)
        safe = model.safe_step(model.scores, damping)
        trials = [tried(safe)]


def _beside_saddle(
    problem: Problem, scores: Scores, model: _Model, multipliers: FloatArray
) -> _Trial | None:
    """A point below a saddle point; None at a local minimum."""
    direction = model.escape(multipliers)
    if direction is None:
        return None
    value = float(model.scores.max())
    for length in _LENGTHS:
        for along in (length * direction, -length * direction):
            reached = scores(problem.errors(model.moved(along)))[0]
            level = model.safe_step(reached)
            basis = model.moved(along + level.along)
            found = _Trial(basis, scores(problem.errors(basis))[0], level.multipliers)
            if value - found.value > _ROUNDING * float(np.abs(model.scores).max()):
                return found
    return None
