"""Local minimisation of maxima of smooth functions of the errors, at exactly d components.

What is minimised is the largest score, or a sum of the largest scores of several blocks. Moving V
to V + UX, U the orthogonal complement, changes the error e_g by -2 <B_g, X> in first order,
B_g = U'S_gV. For multipliers m of the scores F_i, w_g = sum_i m_i dF_i/de_g and M = sum_g w_g S_g,
the second order is sum_(i, j) (a_j - b_i) X_ij^2 in the bases of U and V that make U'MU = diag(b)
and V'MV = diag(a). So the quadratic model is diagonal, and each step is a program over multipliers
on a simplex for each block of scores.

Each step is the better of two: one with curvatures made positive, which goes down, and Newton's on
the scores that stay largest, which ends it. Both are corrected for scores that bend differently,
and damped as far as needed. Saddle points end a descent too: a search has other starts.

Curvatures can lie many orders of magnitude apart, as where V holds the direction of a column of
large numbers. So what is small is told for each column of X by itself.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fairspan.linalg import eigh, graded_eigh, symmetric
from fairspan.problem.pieces import ONE_BLOCK, Blocks, Pieces
from fairspan.problem.problem import Problem
from fairspan.solvers.programs import least_on_simplex
from fairspan.typing import FloatArray

_MAX_STEPS = 200
# A step that keeps less than this share of its promise is corrected; less than that, damped.
_KEPT, _ENOUGH = 0.5, 0.1
# Damping, as a share of the largest curvature: its range, and by what it grows and shrinks.
_LEAST_DAMPING, _MOST_DAMPING, _MORE, _EASED = 1e-4, 1e8, 8.0, 16.0
# Curvatures are taken to be this share of a column's at least: of a step that goes down, and of
# Newton's.
_FLAT, _DIVISIBLE = 1e-3, 1e-8
# Scores with a multiplier below this are not active.
_ACTIVE = 1e-9
# Scores are uncertain by this share of the errors in them.
_ROUNDING = 1e-15
# Differences for second derivatives are this share of the errors.
_DIFFERENCE = 1e-5
# Share of a group's variance below which the slope of the robust error gap is taken at it.
_LEAST_ERROR = 1e-9


@dataclass(frozen=True, eq=False)
class Scores:
    """Smooth functions of the errors: the sum over blocks of the largest of each is minimised.

    Attributes
    ----------
    function : callable
        From (k,) errors: the (m,) scores, each a sum of functions of one error, and their (m, k)
        derivatives.
    blocks : Blocks
    """

    function: Callable[[FloatArray], tuple[FloatArray, FloatArray]]
    blocks: Blocks = ONE_BLOCK

    @classmethod
    def affine(cls, pieces: Pieces) -> "Scores":
        """Pieces as smooth functions of the errors."""
        return cls(lambda errors: (pieces.at(errors), pieces.coefficients), pieces.blocks)

    @classmethod
    def of(cls, problem: Problem) -> "Scores":
        """The criterion of a problem as a sum of maxima of smooth functions of the errors."""
        if problem.pieces is not None:
            return cls.affine(problem.pieces)
        criterion: Any = problem.criterion
        traces = problem.second_moments.traces
        floor = np.zeros(len(traces))
        if criterion.has_concave_scores:
            # At an error of zero the slope is infinite; just beyond it is finite and says the same.
            floor = _LEAST_ERROR * np.where(traces > 0, traces, max(float(traces.max()), 1.0))
        return cls(
            lambda errors: (
                criterion.scores(errors, problem),
                criterion.gradients(np.maximum(errors, floor), problem),
            )
        )


@dataclass(frozen=True, eq=False)
class Point:
    """A subspace, and the scores there.

    Attributes
    ----------
    basis : (p, d) array
    value : float
        What is minimised.
    scores : (m,) array
    multipliers : (m,) array
        On a simplex for each block: those of the step that led here.
    """

    basis: FloatArray
    value: float
    scores: FloatArray
    multipliers: FloatArray


def descend(problem: Problem, scores: Scores, basis: FloatArray) -> tuple[Point, int]:
    """Walk downhill from a (p, d) basis until no step lowers the value.

    Returns
    -------
    Point
        Never above the start but by rounding.
    int
        How many steps, with one eigenproblem each.
    """
    values, blocks, damping = scores.function(problem.errors(basis))[0], scores.blocks, 0.0
    largest = values == blocks.largest(values)[blocks.of(len(values))]
    multipliers = blocks.normalised(largest.astype(np.float64))
    point = Point(basis, blocks.value(values), values, multipliers)
    if basis.shape[0] == basis.shape[1]:
        return point, 0
    n_steps = 0
    while n_steps < _MAX_STEPS:
        n_steps += 1
        model = Model.at(problem, scores, point)
        found, damping = _downhill(problem, scores, model, damping)
        before, point = point.value, found
        if before - found.value <= model.rounding:
            break
    return point, n_steps


def _downhill(
    problem: Problem, scores: Scores, model: "Model", damping: float
) -> tuple[Point, float]:
    """The best of the steps tried, damped more and more until one keeps its promise.

    Also the damping to begin the next with. Of those alike, the first: it is Newton's, which is
    precise; where none is lower, the point itself.
    """
    point = model.point

    def tried(step: Step) -> Point:
        basis = np.linalg.qr(model.basis + model.complement @ step.along)[0]
        values = scores.function(problem.errors(basis))[0]
        return Point(basis, scores.blocks.value(values), values, step.multipliers)

    def best() -> Point:
        least = min(each.value for each in found) + model.rounding
        return next(each for each in found if each.value <= least)

    found: list[Point] = []
    smooth = len(point.scores) == len(scores.blocks)  # a score alone has no other to part from
    damping = damping / _EASED if damping > _LEAST_DAMPING else 0.0
    while True:
        safe = model.safe_step(point.scores, damping)
        trial, is_first = tried(safe), not found
        newton = model.newton_step(safe.multipliers, point.scores) if is_first else None
        if newton is not None:
            found.append(tried(newton))
            kept = point.value - found[0].value >= _KEPT * safe.promise
            if not smooth and not (kept and found[0].value <= trial.value):
                corrected = model.corrected(found[0].scores, newton.along)
                newton = model.newton_step(safe.multipliers, corrected)
                found += [] if newton is None else [tried(newton)]
        found.append(trial)
        if not smooth and point.value - best().value < _KEPT * safe.promise:
            corrected = model.corrected(trial.scores, safe.along)
            found.append(tried(model.safe_step(corrected, damping)))
        lowest = best()
        enough = max(_ENOUGH * safe.promise, model.rounding)
        if (
            point.value - lowest.value >= enough
            or safe.promise <= enough
            or damping > _MOST_DAMPING
        ):
            # The multipliers balance the scores here, wherever the steps lead.
            stays = Point(point.basis, point.value, point.scores, lowest.multipliers)
            return lowest if lowest.value <= point.value + model.rounding else stays, damping
        damping = max(_MORE * damping, _LEAST_DAMPING)


@dataclass(frozen=True, eq=False)
class Step:
    """X, the multipliers it was found with, and by how much the model lets the value fall."""

    along: FloatArray
    multipliers: FloatArray
    promise: float


@dataclass(frozen=True, eq=False)
class Model:
    """First and second order of the scores around a point.

    Attributes
    ----------
    point : Point
    basis : (p, d) array
    complement : (p, p - d) array
        V and U in the bases that make M diagonal.
    derivatives : (m, k) array
        A, of the scores in the errors.
    descents : (k, p - d, d) array
        B, half the descent of each error along X.
    curvatures : (p - d, d) array
        a_j - b_i, of either sign.
    bends : (k,) array
        Second derivatives of the weighed scores in each group's error.
    rounding : float
        How far scores are off.
    blocks : Blocks
        Of the scores.
    """

    point: Point
    basis: FloatArray
    complement: FloatArray
    derivatives: FloatArray
    descents: FloatArray
    curvatures: FloatArray
    bends: FloatArray
    rounding: float = 0.0
    blocks: Blocks = ONE_BLOCK

    @classmethod
    def at(cls, problem: Problem, scores: Scores, point: Point) -> "Model":
        """Around a point, the second order weighed by its multipliers."""
        basis, second = point.basis, problem.second_moments
        errors = problem.errors(basis)
        derivatives = scores.function(errors)[1]
        weights, images = point.multipliers @ derivatives, second.applied(basis)
        complement = np.linalg.qr(basis, mode="complete")[0][:, basis.shape[1] :]
        inside = symmetric(basis.T @ np.tensordot(weights, images, axes=1))
        a, turn, _ = graded_eigh(inside, max(len(inside) - 1, 0))
        b, back = eigh(symmetric(complement.T @ problem.dense.mixture(weights) @ complement))
        complement = complement @ back
        change = _DIFFERENCE * errors
        bent = weights - point.multipliers @ scores.function(errors - change)[1]
        return cls(
            point,
            basis @ turn,
            complement,
            derivatives,
            complement.T @ images @ turn,
            a[None, :] - b[:, None],
            np.divide(bent, change, out=np.zeros_like(errors), where=change > 0),
            _ROUNDING * scores.blocks.value(np.abs(derivatives) @ errors),
            scores.blocks,
        )

    @cached_property
    def sizes(self) -> FloatArray:
        """Of curvatures and slopes in each column of X, shape (d,)."""
        slopes = np.abs(self.derivatives).sum(axis=1).max() * np.abs(self.descents).max(axis=(0, 1))
        largest = np.maximum(np.abs(self.curvatures).max(axis=0), slopes)
        # Columns without any are those of a tie, and measured like the least of the others.
        varied = largest[largest > np.finfo(np.float64).eps * largest.max()]
        return np.asarray(np.maximum(largest, varied.min() if len(varied) else 1.0))

    def safe_step(self, scores: FloatArray, damping: float = 0.0) -> Step:
        """With curvatures made positive, and larger by a share: a descent direction."""
        sizes = self.sizes
        positive = np.maximum(np.abs(self.curvatures), _FLAT * sizes) + damping * sizes
        flat = (np.sqrt(2) * self.descents / np.sqrt(positive)).reshape(len(self.descents), -1)
        multipliers = least_on_simplex(
            self.derivatives @ flat, -scores, self.blocks, start=self.point.multipliers
        )
        step = np.tensordot(multipliers @ self.derivatives, self.descents, axes=1) / positive
        level = float(multipliers @ scores) - float(np.vdot(step, positive * step))
        return Step(step, multipliers, self.blocks.value(scores) - level)

    def newton_step(self, multipliers: FloatArray, scores: FloatArray) -> Step | None:
        """Newton's step for the scores with a multiplier to become equal, with true curvatures.

        The step X = B_w / curvatures with B_w = sum_g w_g B_g is stationary, and changes the errors
        by -falls w, where w = A'm + bends * change of the errors. So the multipliers m, of any
        sign, and the level of each block solve one linear system.
        """
        active = np.flatnonzero(multipliers > _ACTIVE)
        derivatives, blocks = self.derivatives[active], self.blocks.among(active)
        n, k, least = len(active), len(self.descents), _DIVISIBLE * self.sizes
        signs = np.where(self.curvatures < 0, -1.0, 1.0)
        curvatures = signs * np.maximum(np.abs(self.curvatures), least)
        falls = 2 * self.descents.reshape(k, -1) @ (self.descents / curvatures).reshape(k, -1).T
        if self.bends.any():
            falls = np.linalg.solve(np.eye(k) + falls * self.bends, falls)
        gram, sums = derivatives @ falls @ derivatives.T, blocks.membership(n)
        size = float(np.abs(gram).max())
        if not 0 < size < np.inf:
            return None
        system = np.block([[gram / size, sums.T], [sums, np.zeros((len(sums), len(sums)))]])
        highest = blocks.largest(scores[active])[blocks.of(n)]
        right = np.append((scores[active] - highest) / size, np.ones(len(sums)))
        solved = np.linalg.lstsq(system, right, rcond=1e-14)[0][:n]
        if (solved < 0).any():
            return None
        found, weights = np.zeros(len(multipliers)), solved @ derivatives
        found[active] = solved
        weights = weights - self.bends * (falls @ weights)
        return Step(np.tensordot(weights, self.descents, axes=1) / curvatures, found, np.inf)

    def corrected(self, trial: FloatArray, step: FloatArray) -> FloatArray:
        """Scores from which a step leads to where those after this step are right to second order.

        Scores bend differently while the model bends all alike, so after a long step along their
        common level they part by its square, and the largest rises (Maratos 1978).
        """
        return np.asarray(trial + 2 * self.derivatives @ np.tensordot(self.descents, step, axes=2))


def best_rounding(
    problem: Problem, projector: FloatArray, candidates: Sequence[FloatArray]
) -> FloatArray:
    """The best (p, d) basis found by descent from a (p, p) relaxed solution and other subspaces."""
    leading = eigh(projector)[1][:, ::-1][:, : problem.n_components]
    scores = Scores.of(problem)
    found = (descend(problem, scores, start)[0] for start in (leading, *candidates))
    return min(found, key=lambda point: point.value).basis
