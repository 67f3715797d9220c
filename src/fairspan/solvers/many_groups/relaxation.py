"""The relaxed problem of k groups: Newton's method on its dual, with the kinks in the model.

The relaxed problem minimises max_i (A_i.e(P) - b_i) over 0 <= P <= I, tr P = d, where
e_g(P) = tr S_g - <S_g, P>; or a sum of such maxima over blocks of pieces. Its dual maximises
D(m) = L(sum_g w_g S_g) - m.b, w = A'm, L the sum of the p - d smallest eigenvalues, over
multipliers m on the simplex, one simplex for each block. D is concave; the pieces at the leading
eigenvectors V of the mixture are a supergradient, and D(m) is the sum of the pieces at V weighted
by m. So it is computed from errors, which do not cancel, and never from t_d.

D is smooth where eigenvalue d is not tied, and there Newton's method with a proximal term converges
in a few eigenproblems. Eigenvalues near the cut may cross as the multipliers move, or be tied at
the optimum, and there t_d has kinks. So r eigenvectors Q around the cut are kept as a block: with
those above it, V, and the rest U, t_d(M + E) = tr of V'(M + E)V + t_j(Q'(M + E)Q) + second-order
terms, j = d minus those in V. The second-order terms are sums of squares of E's entries between V,
Q and U over gaps of eigenvalues, weighted by the shares Y that Q'(M + E)Q's leading eigenvectors
have (Overton and Womersley 1995). VV' + QYQ' is the relaxed solution.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from fairspan.linalg import symmetric
from fairspan.problem.problem import Pieces, Problem
from fairspan.solvers.programs import least_on_simplex, saddle_point
from fairspan.typing import FloatArray

# Gaps of eigenvalues below this share of both are not divided by.
_NO_GAP = 1e-14
# Eigenvalues below this share of the largest may be rounding.
_NOTHING = 1e-12
# A step is taken if the bound rises by this share of what the model promised.
_RISES = 0.1
# A block costs a program of some milliseconds: as long as eigenproblems are cheaper, this many
# steps may fail without one.
_LARGEST_BLOCK, _CHEAP_FEATURES, _FAILURES = 6, 150, 5
# Rises below this share of the errors in the pieces are rounding; but the relaxed solution, whose
# value is off by the first order of the multipliers, may need more steps, as long as they halve its
# gap.
_ROUNDING, _HALF = 1e-14, 0.5
_MOST_STEPS = 80
# Weights that sum to this share of the pieces' coefficients are nothing.
_CANCELS = 1e-12


@dataclass(frozen=True, eq=False)
class Atom:
    """A subspace, or a soft one, and the error of each group that it leaves.

    Attributes
    ----------
    basis : (p, r) array
        P = BB': d orthonormal columns; of a soft one r > d orthogonal columns of length at most 1.
    errors : (k,) array
        e_g(P).
    value : float
        Of the pieces at these errors.
    """

    basis: FloatArray
    errors: FloatArray
    value: float


@dataclass(frozen=True, eq=False)
class DualModel:
    """The dual near a point.

    Attributes
    ----------
    problem : Problem
    pieces : Pieces
    multipliers : (m,) array
        Where: on a simplex for each block of pieces.
    values, vectors : (p,) and (p, p) arrays
        Eigenvalues of the mixture there, largest first, and eigenvectors.
    block : (int, int)
        First eigenvector of Q, and the one after its last; both d for no block: then the model is
        Newton's.
    """

    problem: Problem
    pieces: Pieces
    multipliers: FloatArray
    values: FloatArray
    vectors: FloatArray
    block: tuple[int, int]

    @cached_property
    def nearest(self) -> Atom:
        """The leading eigenvectors."""
        basis = self.vectors[:, : self.problem.n_components]
        errors = self.problem.errors(basis)
        return Atom(basis, errors, self.pieces.value(errors))

    @cached_property
    def bound(self) -> float:
        """D(m): no subspace, and no relaxed one, has a smaller value."""
        return float(self.multipliers @ self.pieces.at(self.nearest.errors))

    @property
    def rank(self) -> int:
        """j: how many of the d dimensions are shared out among the block."""
        return self.problem.n_components - self.block[0]

    @cached_property
    def _images(self) -> FloatArray:
        """S_g[V Q], shape (k, p, hi)."""
        return self.problem.second_moments.applied(self.vectors[:, : self.block[1]])

    @cached_property
    def _compressed(self) -> FloatArray:
        """Q'S_gQ, shape (k, r, r)."""
        low, high = self.block
        return symmetric(self.vectors[:, low:high].T @ self._images[:, :, low:high])

    @property
    def hard(self) -> FloatArray:
        """Y of the d leading eigenvectors themselves, shape (r, r)."""
        low, high = self.block
        return np.diag((np.arange(high - low) < self.rank).astype(np.float64))

    def atom(self, shares: FloatArray) -> Atom:
        """VV' + QYQ'."""
        low, high = self.block
        if not self.rank:
            return self.nearest
        # What Y leaves of the block, and not what it takes: a huge variance would not cancel.
        left = np.tensordot(self._compressed, np.eye(high - low) - shares, axes=2)
        errors = self.problem.errors(self.vectors[:, :high]) + left
        values, turn = np.linalg.eigh(shares)
        lengths = np.sqrt(np.clip(values[::-1], 0.0, 1.0))
        around = (self.vectors[:, low:high] @ turn[:, ::-1]) * lengths
        basis = np.hstack([self.vectors[:, :low], around])
        return Atom(basis, errors, self.pieces.value(errors))

    def shares_of(self, atom: Atom) -> FloatArray:
        """The shares of the block that come nearest to a relaxed solution."""
        low, high = self.block
        overlap = self.vectors[:, low:high].T @ atom.basis
        return self._feasible(overlap @ overlap.T)

    def _feasible(self, shares: FloatArray) -> FloatArray:
        """The nearest matrix between 0 and I whose trace is the block's rank."""
        if not self.rank:
            return shares
        values, turn = np.linalg.eigh(shares)
        # The nearest numbers between 0 and 1 with this sum: it rises with what is added to all, in
        # straight lines between these.
        points = np.sort(np.concatenate([-values, 1 - values]))
        sums = np.clip(values + points[:, None], 0.0, 1.0).sum(axis=1)
        values = np.clip(values + np.interp(self.rank, sums, points), 0.0, 1.0)
        return np.asarray((turn * values) @ turn.T)

    def curvature_factor(self, shares: FloatArray) -> FloatArray:
        """F with FF' minus the dual's second derivative at these shares, shape (m, s)."""
        low, high = self.block
        values, k, r = self.values, len(self._images), high - low
        sizes = np.abs(values[:high, None]) + np.abs(values[None, low:])
        least = _NO_GAP * np.maximum(sizes, _NOTHING * float(np.abs(values).max()))
        least = np.maximum(least, np.finfo(np.float64).tiny)
        across = self._images.transpose(0, 2, 1) @ self.vectors[:, low:]
        across /= np.sqrt(np.maximum(values[:high, None] - values[None, low:], least))
        parts = [across[:, :low, r:]]
        if r:
            share, turn = np.linalg.eigh(shares)
            share = np.clip(share, 0.0, 1.0)
            parts.append(across[:, :low, :r] @ (turn * np.sqrt(1 - share)))
            parts.append((turn * np.sqrt(share)).T @ across[:, low:, r:])
        flat = np.hstack([part.reshape(k, -1) for part in parts])
        # The second derivative of t_d in the groups' weights has sqrt(2) times this, (k, s).
        return np.asarray(self.pieces.coefficients @ (np.sqrt(2) * flat))

    @cached_property
    def _slopes(self) -> FloatArray:
        """The pieces at V alone, shape (m,)."""
        if not self.rank:
            return self.pieces.at(self.nearest.errors)
        return self.pieces.at(self.problem.errors(self.vectors[:, : self.block[0]]))

    def height(self, multipliers: FloatArray, factor: FloatArray, damping: float = 0.0) -> float:
        """slopes.m - t_j(sum_i m_i C_i) - |F'(m - c)|^2 / 2 - damping |m - c|^2 / 2, c here."""
        step = multipliers - self.multipliers
        along = step @ factor
        bent = (float(along @ along) + damping * float(step @ step)) / 2
        if self.rank:
            mixed = np.tensordot(multipliers @ self.pieces.coefficients, self._compressed, axes=1)
            bent += float(np.linalg.eigvalsh(mixed)[::-1][: self.rank].sum())
        return float(multipliers @ self._slopes) - bent

    def highest(self, factor: FloatArray, damping: float) -> tuple[FloatArray, FloatArray]:
        """Multipliers where that is largest, and the shares there."""
        center, blocks, slopes = self.multipliers, self.pieces.blocks, self._slopes
        if self.rank:
            # C_i, the mixture of the groups' Q'S_gQ in each piece.
            mixtures = np.tensordot(self.pieces.coefficients, self._compressed, axes=1)
            found, shares = saddle_point(
                slopes, factor, damping, center, mixtures, self.rank, blocks
            )
            # Without a solution it promises nothing, and the search ends with what it has.
            solved = np.isfinite(found).all() and np.isfinite(shares).all()
            return (found, self._feasible(shares)) if solved else (center, self.hard)
        linear = -slopes - factor @ (center @ factor) - damping * center
        found = least_on_simplex(factor, linear, blocks, added=damping, start=center)
        return found, self.hard


class Relaxation:
    """Bounds on the relaxed optimum, and what attains them.

    Parameters
    ----------
    problem : Problem
        Its criterion is not looked at.
    pieces : Pieces

    Attributes
    ----------
    lower, upper : float
        The best bound, and the least value of a relaxed solution.
    multipliers : (m,) array
        Those of the best bound.
    relaxed, nearest : Atom
        The best relaxed solution, and the best subspace of exactly d dimensions that a dual point
        gave.
    n_eigenproblems : int
        How many were solved so far.
    """

    def __init__(self, problem: Problem, pieces: Pieces) -> None:
        self.problem, self.pieces = problem, pieces
        self.lower, self.upper, self._least = -np.inf, np.inf, np.inf
        self.n_eigenproblems = self._n_failures = 0
        self._settled = self.at(_first(problem, pieces))
        self._shares = self._settled.hard

    @property
    def gap(self) -> float:
        """Of the relaxed problem."""
        return self.upper - self.lower

    @property
    def weights(self) -> FloatArray:
        """w = A'm of the best bound, shape (k,)."""
        return np.asarray(self.multipliers @ self.pieces.coefficients)

    def at(self, multipliers: FloatArray) -> DualModel:
        """The dual at a point, by one eigenproblem; its bound and atom are taken."""
        multipliers = self.pieces.blocks.normalised(multipliers)
        whole = self.problem.dense.solved.spectrum(multipliers @ self.pieces.coefficients)
        self.n_eigenproblems += 1
        model = DualModel(
            self.problem,
            self.pieces,
            multipliers,
            whole.values,
            whole.vectors,
            self._block(whole.values),
        )
        if model.nearest.value < self._least:
            self._least, self.nearest = model.nearest.value, model.nearest
        self._consider(model.nearest)
        if model.bound > self.lower:
            self.lower, self.multipliers = model.bound, multipliers
        return model

    def _consider(self, atom: Atom) -> None:
        """Take a relaxed solution if it is the best so far."""
        if atom.value < self.upper:
            self.upper, self.relaxed = atom.value, atom

    def run(self, tolerance: float) -> None:
        """Climb until the gap is closed, or the model promises nothing more.

        Parameters
        ----------
        tolerance : float
            The gap to reach, absolute.
        """
        model, shares, damping, polished = self._settled, self._shares, 0.0, np.inf
        nothing = _ROUNDING * self.pieces.size(model.atom(shares).errors)
        factor = model.curvature_factor(shares)
        for _ in range(_MOST_STEPS):
            found, shares = model.highest(factor, damping)
            promise = model.height(found, factor, damping) - model.bound
            solution = model.atom(shares)
            self._consider(solution)
            if self.gap <= tolerance:
                return
            if promise <= nothing:
                # The bound is there, and so is the solution once its gap shrinks no more.
                if damping > 0:
                    # What is left of it only shortens the steps, of which none can go wrong now.
                    damping = 0.0
                    continue
                if self.gap > _HALF * polished:
                    return
                polished = self.gap
            ahead = self.at(found)
            carried = ahead.shares_of(solution)
            self._consider(ahead.atom(carried))
            if self.gap <= tolerance:
                return
            rise, step = ahead.bound - model.bound, ahead.multipliers - model.multipliers
            # The curvature along the step that its end would have been right for.
            bends = promise > nothing and step.any()
            secant = damping + 2 * (promise - rise) / float(step @ step) if bends else 0.0
            if rise >= _RISES * promise - nothing:
                model, shares, damping = ahead, carried, max(secant, 0.0)
                self._settled, self._shares = model, shares
            else:
                damping = max(2 * damping, secant)
                self._n_failures += 1
                block = self._block(model.values)
                if block != model.block:
                    model = replace(model, block=block)
                    shares, damping = model.hard, 0.0
            factor = model.curvature_factor(shares)

    def _block(self, values: FloatArray) -> tuple[int, int]:
        """The block around the cut, of (p,) eigenvalues; none as long as it does without."""
        d, p = self.problem.n_components, len(values)
        if d == p or (p < _CHEAP_FEATURES and self._n_failures < _FAILURES):
            return d, d
        # That which is set apart the most, by the gaps before and after it; beyond the ends they
        # are as large as can be.
        gaps = np.concatenate([[np.inf], values[:-1] - values[1:], [np.inf]])
        lows, most = range(max(0, d - _LARGEST_BLOCK + 1), d), _LARGEST_BLOCK
        ends = ((low, high) for low in lows for high in range(d + 1, min(p, low + most) + 1))
        return max(ends, key=lambda block: min(gaps[block[0]], gaps[block[1]]))


def _first(problem: Problem, pieces: Pieces) -> FloatArray:
    """Multipliers to begin with: the weights of a problem's start where each piece has its own."""
    coefficients = pieces.coefficients
    if problem.start is None or not np.array_equal(coefficients, np.eye(len(coefficients))):
        return _even(pieces)
    return pieces.blocks.normalised(problem.start.weights)


def _even(pieces: Pieces) -> FloatArray:
    """Even multipliers; rising ones where these cancel, and all eigenvalues are tied at zero."""
    m, largest = len(pieces.offsets), np.abs(pieces.coefficients).max(axis=0)
    even = pieces.blocks.normalised(np.ones(m))
    cancels = np.abs(even @ pieces.coefficients) <= _CANCELS * largest
    return np.linspace(1.0, m, m) if cancels.all() else even
