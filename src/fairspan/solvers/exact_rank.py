"""Subspaces of exactly d dimensions: local descent, rounding, and rank reduction.

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

Rank reduction (Pataki 1998) makes a relaxed solution of as few dimensions as its value needs. P
with 0 <= P <= I and tr P = d is given as columns sqrt(lb_j) u_j, P = sum_j lb_j u_j u_j'. Let F
be its r eigenvectors with eigenvalues between 0 and 1. As long as the symmetric r x r matrices
outnumber the equations that keep the value, there is a direction Delta along which P + t F Delta F'
keeps it; walking until an eigenvalue reaches 0 or 1 makes r smaller.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairspan.linalg import graded_eigh, symmetric
from fairspan.moments.operators import SecondMoments
from fairspan.problem.problem import ONE_BLOCK, Blocks, Pieces, Problem
from fairspan.solvers.programs import from_triangle, least_on_simplex, to_triangle
from fairspan.typing import FloatArray

_MAX_STEPS = 200
# A step that keeps less than this share of its promise is corrected; less than that, damped.
_KEPT, _ENOUGH = 0.5, 0.1
# Damping, as a share of the largest curvature: its range, and by what it grows and shrinks.
_LEAST_DAMPING, _MOST_DAMPING, _MORE, _EASED = 1e-4, 1e8, 8.0, 16.0
# Curvatures are taken to be this share of a column's at least: of a step that goes down, and of
# Newton's.
_FLAT, _DIVISIBLE = 1e-3, 1e-8
# Scores with a multiplier below this are not active; pieces closer to the largest than this share
# of the pieces' size are.
_ACTIVE = 1e-9
# Scores are uncertain by this share of the errors in them.
_ROUNDING = 1e-15
# Differences for second derivatives are this share of the errors.
_DIFFERENCE = 1e-5
# Share of a group's variance below which the slope of the robust error gap is taken at it.
_LEAST_ERROR = 1e-9


@dataclass(frozen=True, eq=False)
class Point:
    """A subspace, and what it leaves there.

    Attributes
    ----------
    basis : (p, d) array
    errors : (k,) array
    scores : (m,) array
        The sum of the largest of each block is minimised: this is the value.
    multipliers : (m,) array
        On a simplex for each block: those of the step that led here.
    value : float
    """

    basis: FloatArray
    errors: FloatArray
    scores: FloatArray
    multipliers: FloatArray
    value: float

    @classmethod
    def at(
        cls, problem: Problem, basis: FloatArray, multipliers: FloatArray | None = None
    ) -> "Point":
        """Where no multipliers are known, the largest scores share them evenly."""
        errors, blocks = problem.errors(basis), blocks_of(problem)
        scores = scores_at(problem, errors)[0]
        largest = blocks.largest(scores)
        if multipliers is None:
            multipliers = blocks.normalised((scores == largest[blocks.of(len(scores))]) * 1.0)
        return cls(basis, errors, scores, multipliers, float(largest.sum()))


def blocks_of(problem: Problem) -> Blocks:
    """The blocks of the scores."""
    return ONE_BLOCK if problem.pieces is None else problem.pieces.blocks


def scores_at(problem: Problem, errors: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The criterion as smooth functions of the (k,) errors, whose largest count.

    Returns
    -------
    scores : (m,) array
        Each a sum of functions of one error.
    derivatives : (m, k) array
    """
    if problem.pieces is not None:
        return problem.pieces.at(errors), problem.pieces.coefficients
    criterion: Any = problem.criterion
    scores = criterion.scores(errors, problem)
    if criterion.has_concave_scores:
        # At an error of zero the slope is infinite; just beyond it is finite and says the same.
        traces = problem.second_moments.traces
        least = _LEAST_ERROR * np.where(traces > 0, traces, max(float(traces.max()), 1.0))
        errors = np.maximum(errors, least)
    return scores, criterion.gradients(errors, problem)


def descend(problem: Problem, basis: FloatArray) -> tuple[Point, int]:
    """Walk downhill from a (p, d) basis until no step lowers the value.

    Returns
    -------
    Point
        Never above the start but by rounding.
    int
        How many steps, with one eigenproblem each.
    """
    point, damping, n_steps = Point.at(problem, basis), 0.0, 0
    while n_steps < _MAX_STEPS and basis.shape[0] > basis.shape[1]:
        n_steps += 1
        model = Model(problem, point)
        point, damping = _downhill(model, damping)
        if model.point.value - point.value <= model.rounding:
            break
    return point, n_steps


def _downhill(model: "Model", damping: float) -> tuple[Point, float]:
    """The best of the steps tried, damped more and more until one keeps its promise.

    Also the damping to begin the next with. Of those alike, the first: it is Newton's, which is
    precise; where none is lower, the point itself.
    """
    point, found = model.point, list[Point]()
    smooth = len(point.scores) == len(model.blocks)  # a score alone has no other to part from
    damping = damping / _EASED if damping > _LEAST_DAMPING else 0.0
    while True:
        along, multipliers, promise = model.safe_step(point.scores, damping)
        trial = model.moved(along, multipliers)
        newton = None if found else model.newton_step(multipliers, point.scores)
        if newton is not None:
            found.append(first := model.moved(*newton))
            kept = point.value - first.value >= _KEPT * promise
            if not smooth and not (kept and first.value <= trial.value):
                corrected = model.corrected(first.scores, newton[0])
                newton = model.newton_step(multipliers, corrected)
                found += [] if newton is None else [model.moved(*newton)]
        found.append(trial)
        if not smooth and point.value - min(each.value for each in found) < _KEPT * promise:
            corrected = model.corrected(trial.scores, along)
            found.append(model.moved(*model.safe_step(corrected, damping)[:2]))
        least = min(each.value for each in found) + model.rounding
        lowest = next(each for each in found if each.value <= least)
        enough = max(_ENOUGH * promise, model.rounding)
        if point.value - lowest.value >= enough or promise <= enough or damping > _MOST_DAMPING:
            if lowest.value > point.value + model.rounding:
                # The multipliers balance the scores here, wherever the steps lead.
                lowest = replace(point, multipliers=lowest.multipliers)
            return lowest, damping
        damping = max(_MORE * damping, _LEAST_DAMPING)


class Model:
    """First and second order of the scores around a point, weighed by its multipliers.

    Attributes
    ----------
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
    sizes : (d,) array
        Of curvatures and slopes in each column of X.
    """

    def __init__(self, problem: Problem, point: Point) -> None:
        self.problem, self.point, self.blocks = problem, point, blocks_of(problem)
        basis, errors, second = point.basis, point.errors, problem.second_moments
        self.derivatives = scores_at(problem, errors)[1]
        weights, images = point.multipliers @ self.derivatives, second.applied(basis)
        complement = np.linalg.qr(basis, mode="complete")[0][:, basis.shape[1] :]
        inside = symmetric(basis.T @ np.tensordot(weights, images, axes=1))
        a, turn, _ = graded_eigh(inside, max(len(inside) - 1, 0))
        mixture = problem.dense.mixture(weights)
        b, back = np.linalg.eigh(symmetric(complement.T @ mixture @ complement))
        self.basis, self.complement = basis @ turn, complement @ back
        self.descents = self.complement.T @ images @ turn
        self.curvatures = a[None, :] - b[:, None]
        change = _DIFFERENCE * errors
        bent = weights - point.multipliers @ scores_at(problem, errors - change)[1]
        self.bends = np.divide(bent, change, out=np.zeros_like(errors), where=change > 0)
        sizes = np.abs(self.derivatives)
        self.rounding = _ROUNDING * self.blocks.value(sizes @ errors)
        slopes = sizes.sum(axis=1).max() * np.abs(self.descents).max(axis=(0, 1))
        largest = np.maximum(np.abs(self.curvatures).max(axis=0), slopes)
        # Columns without any are those of a tie, and measured like the least of the others.
        varied = largest[largest > np.finfo(np.float64).eps * largest.max()]
        self.sizes = np.maximum(largest, varied.min() if len(varied) else 1.0)

    def moved(self, along: FloatArray, multipliers: FloatArray) -> Point:
        """The point to which a step X leads."""
        basis = np.linalg.qr(self.basis + self.complement @ along)[0]
        return Point.at(self.problem, basis, multipliers)

    def safe_step(
        self, scores: FloatArray, damping: float = 0.0
    ) -> tuple[FloatArray, FloatArray, float]:
        """With curvatures made positive, and larger by a share: a descent direction.

        Returns
        -------
        along : (p - d, d) array
            X.
        multipliers : (m,) array
            With which it was found.
        promise : float
            By how much the model lets the value fall.
        """
        positive = np.maximum(np.abs(self.curvatures), _FLAT * self.sizes) + damping * self.sizes
        flat = (np.sqrt(2) * self.descents / np.sqrt(positive)).reshape(len(self.descents), -1)
        multipliers = least_on_simplex(
            self.derivatives @ flat, -scores, self.blocks, start=self.point.multipliers
        )
        step = np.tensordot(multipliers @ self.derivatives, self.descents, axes=1) / positive
        level = float(multipliers @ scores) - float(np.vdot(step, positive * step))
        return step, multipliers, self.blocks.value(scores) - level

    def newton_step(
        self, multipliers: FloatArray, scores: FloatArray
    ) -> tuple[FloatArray, FloatArray] | None:
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
        return np.tensordot(weights, self.descents, axes=1) / curvatures, found

    def corrected(self, trial: FloatArray, step: FloatArray) -> FloatArray:
        """Scores from which a step leads to where those after this step are right to second order.

        Scores bend differently while the model bends all alike, so after a long step along their
        common level they part by its square, and the largest rises (Maratos 1978).
        """
        return np.asarray(trial + 2 * self.derivatives @ np.tensordot(self.descents, step, axes=2))


def best_rounding(
    problem: Problem, soft: FloatArray, candidates: Sequence[FloatArray]
) -> FloatArray:
    """The best (p, d) basis found by descent from a (p, r) soft one and other subspaces."""
    leading = np.linalg.eigh(soft @ soft.T)[1][:, ::-1][:, : problem.n_components]
    found = (descend(problem, start)[0] for start in (leading, *candidates))
    return min(found, key=lambda point: point.value).basis


# Eigenvalues of P closer to 0 or 1 than this are taken as 0 or 1.
_WHOLE = 1e-9
# Singular values of equations of length one above this are not zero.
_INDEPENDENT = 1e-10


def soft_basis(values: FloatArray, vectors: FloatArray, n_components: int) -> FloatArray:
    """Columns sqrt(lb_j) u_j from eigenvalues lb_j and eigenvectors; those within rounding whole.

    Parameters
    ----------
    values : (n,) array
    vectors : (p, n) array
        Orthonormal.
    n_components : int
        The sum of the eigenvalues.

    Returns
    -------
    (p, r) array
        Columns of length one first.
    """
    whole, between = values > 1 - _WHOLE, (values > _WHOLE) & (values <= 1 - _WHOLE)
    left, shares = n_components - np.count_nonzero(whole), values[between]
    if left <= 0 or not len(shares):
        return vectors[:, whole]
    return np.hstack(
        [vectors[:, whole], vectors[:, between] * np.sqrt(shares * left / shares.sum())]
    )


def largest_rank(n_components: int, n_groups: int) -> int:
    """d + floor(sqrt(2 k + 1/4) - 3/2): no relaxed optimum needs more dimensions."""
    return n_components + math.floor(math.sqrt(2 * n_groups + 0.25) - 1.5)


def reduced(second: SecondMoments, pieces: Pieces, soft: FloatArray) -> FloatArray:
    """A relaxed solution of the least rank that counting equations promises, no worse in value.

    All active pieces (those equal to the largest of their block) keep equal values, whose sum over
    the blocks never rises; an inactive one that catches up joins them.

    Parameters
    ----------
    second : SecondMoments
    pieces : Pieces
        What must not rise.
    soft : (p, r) array
        Columns sqrt(lb_j) u_j.

    Returns
    -------
    (p, r) array
        With two groups d dimensions, with three to five d + 1, and so on (:func:`largest_rank`).
    """
    active, which = np.zeros(len(pieces.offsets), dtype=bool), pieces.blocks.of(len(pieces.offsets))
    lengths = np.linalg.norm(soft, axis=0)
    n_components = round(float(lengths @ lengths))
    soft = soft_basis(lengths**2, soft / np.where(lengths > 0, lengths, 1.0), n_components)
    # Each round an eigenvalue becomes whole or a piece joins.
    for _ in range(soft.shape[1] + len(active)):
        shares = np.einsum("ij,ij->j", soft, soft)
        between = shares <= 1 - _WHOLE
        whole, shares = soft[:, ~between], shares[between]
        vectors = soft[:, between] / np.sqrt(shares)
        errors = second.residual_variances(soft)
        heights = pieces.at(errors)
        # Both what is active now and what stopped an earlier step.
        active |= heights >= pieces.blocks.largest(heights)[which] - _ACTIVE * pieces.size(errors)
        chosen = np.flatnonzero(active)
        blocks, rows = pieces.blocks.among(chosen), pieces.coefficients[chosen]
        matrices = second.compressed(vectors)
        kept = np.tensordot(blocks.apart(rows), matrices, axes=1)
        direction = null_direction(np.concatenate([np.eye(len(shares))[None], kept]))
        if direction is None:
            break
        change = np.einsum("gij,ij->g", matrices, direction)
        if rows[list(blocks.starts)].sum(axis=0) @ change < 0:
            direction, change = -direction, -change
        # Until an eigenvalue is 0 or 1, or another piece catches up with the active ones.
        highest = pieces.blocks.leaders(np.where(active, heights, -np.inf))[which]
        rise = -pieces.coefficients @ change
        closing, below = rise - rise[highest], np.maximum(heights[highest] - heights, 0.0)
        catches = ~active & (closing > 0)
        reach = np.divide(below, closing, out=np.full(len(active), np.inf), where=catches)
        low, high = 1 / np.sqrt(shares), 1 / np.sqrt(1 - shares)
        downward = -np.linalg.eigvalsh(low[:, None] * direction * low)[0]
        upward = np.linalg.eigvalsh(high[:, None] * direction * high)[-1]
        far, first = float(1 / max(downward, upward)), int(np.argmin(reach))
        active[first] |= reach[first] < far
        values, turn = np.linalg.eigh(np.diag(shares) + min(far, float(reach[first])) * direction)
        moved = soft_basis(values, vectors @ turn, n_components - whole.shape[1])
        soft = np.hstack([whole, moved])
    return soft


def null_direction(equations: FloatArray) -> FloatArray | None:
    """A symmetric matrix at right angles to all of these; None if there is none to be had for sure.

    It exists whenever r (r + 1) / 2 exceeds the number of equations.

    Parameters
    ----------
    equations : (n, r, r) array
        Symmetric.
    """
    rows = to_triangle(equations)
    sizes = np.linalg.norm(rows, axis=1, keepdims=True)
    _, values, axes = np.linalg.svd(rows / np.where(sizes > 0, sizes, 1.0))
    if len(axes) <= np.count_nonzero(values > _INDEPENDENT):
        return None
    return from_triangle(axes[-1], equations.shape[1])
