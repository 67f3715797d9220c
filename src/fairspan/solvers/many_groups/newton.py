"""The relaxed problem of k groups: Newton's method on the dual, with its kinks in the model.

The dual is smooth where eigenvalue d is not tied, and there Newton's method with a proximal term
converges in a few eigenproblems. Where eigenvalues cross as the multipliers move, or are tied at
the optimum, those around the cut enter the model as a block
(:mod:`fairspan.solvers.many_groups.tied_eigenvalues`), whose shares give the relaxed solution too.
"""

from dataclasses import replace

import numpy as np

from fairspan.certificates.solution import TracePoint
from fairspan.solvers.many_groups.dual import Atom, Dual, DualPoint, DualSpectrum
from fairspan.solvers.many_groups.tied_eigenvalues import SpectralModel, block_around
from fairspan.typing import FloatArray

# A step is taken if the bound rises by this share of what the model promised.
_RISES = 0.1
# A block costs a program of some milliseconds: as long as eigenproblems are cheaper, this many
# steps may fail without one.
_LARGEST_BLOCK, _CHEAP_FEATURES, _FAILURES = 6, 150, 5
# Rises below this share of the errors in the pieces are rounding; but the relaxed solution, whose
# value is off by the first order of the multipliers, may need more steps, as long as they halve its
# gap.
_NOTHING, _HALF = 1e-14, 0.5
_MOST_STEPS = 80
# Weights that sum to this share of the pieces' coefficients are nothing.
_CANCELS = 1e-12


class Relaxation:
    """Bounds on the relaxed optimum, and what attains them.

    Parameters
    ----------
    dual : Dual

    Attributes
    ----------
    lower, upper : float
        The best bound, and the least value of a relaxed solution.
    multipliers : (m,) array
        Those of the best bound.
    relaxed : Atom
        The best relaxed solution.
    nearest : Atom
        The best subspace of exactly d dimensions that a dual point gave.
    settled : (SpectralModel, (r, r) array)
        Where Newton's method was last, and the shares there.
    """

    def __init__(self, dual: Dual) -> None:
        self.dual, self.n_failures = dual, 0
        self.lower, self.upper = -np.inf, np.inf
        self.trace: list[TracePoint] = []
        model = self._at(_even(dual))
        self.settled, self.multipliers = (model, model.hard), model.center.multipliers
        self.nearest = self.relaxed = model.atom(model.hard)
        self.take(_point(model))

    @property
    def gap(self) -> float:
        """Of the relaxed problem."""
        return self.upper - self.lower

    @property
    def projector(self) -> FloatArray:
        """P of the best relaxed solution, (p, p): eigenvalues in [0, 1], trace d."""
        return np.asarray(self.relaxed.basis @ self.relaxed.basis.T)

    def take(self, point: DualPoint) -> None:
        """Take the bound and the atom of a dual point."""
        if self.dual.pieces.value(point.atom.errors) < self.dual.pieces.value(self.nearest.errors):
            self.nearest = point.atom
        self._consider(point.atom)
        if point.bound > self.lower:
            self.lower, self.multipliers = point.bound, point.multipliers
        self.trace.append(TracePoint(self.dual.n_eigenproblems, self.lower, self.upper))

    def _consider(self, atom: Atom) -> None:
        """Take a relaxed solution if it is the best so far."""
        value = self.dual.pieces.value(atom.errors)
        if value < self.upper:
            self.upper, self.relaxed = value, atom

    def run(self, tolerance: float) -> None:
        """Climb until the gap is closed, or the model promises nothing more.

        Parameters
        ----------
        tolerance : float
            The gap to reach, absolute.
        """
        model, shares = self.settled
        factor, dual, damping = model.curvature_factor(shares), self.dual, 0.0
        size = dual.pieces.size(model.atom(shares).errors)
        polished = np.inf
        for _ in range(_MOST_STEPS):
            found, shares, promise = model.best(factor, damping)
            if model.has_block:
                self._consider(model.atom(shares))
            nothing = _NOTHING * size
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
            ahead = self._at(dual.blocks.normalised(found))
            self.take(_point(ahead))
            carried = ahead.carried(model, shares)
            if ahead.has_block:
                self._consider(ahead.atom(carried))
            if self.gap <= tolerance:
                return
            rise = ahead.center.bound - model.center.bound
            length = float((found - model.center.multipliers) @ (found - model.center.multipliers))
            # The curvature along the step that its end would have been right for.
            bends = promise > nothing and length > 0
            secant = damping + 2 * (promise - rise) / length if bends else 0.0
            if rise >= _RISES * promise - nothing:
                model, shares, damping = ahead, carried, max(secant, 0.0)
                self.settled = (model, shares)
            else:
                damping = max(2 * damping, secant)
                self.n_failures += 1
                block = self._block(model.center)
                if block != model.block:
                    model = replace(model, block=block)
                    shares, damping = model.hard, 0.0
            factor = model.curvature_factor(shares)

    def _at(self, multipliers: FloatArray) -> SpectralModel:
        center = self.dual.spectrum(multipliers)
        return SpectralModel(self.dual, center, self._block(center))

    def _block(self, center: DualSpectrum) -> tuple[int, int]:
        d, p = self.dual.n_components, len(center.values)
        if d == p or (p < _CHEAP_FEATURES and self.n_failures < _FAILURES):
            return d, d
        return block_around(center.values, d, _LARGEST_BLOCK)


def _even(dual: Dual) -> FloatArray:
    """Even multipliers; rising ones where these cancel, and all eigenvalues are tied at zero."""
    m, blocks = len(dual.offsets), dual.blocks
    even, largest = blocks.even(m), np.abs(dual.coefficients).max(axis=0)
    cancels = np.abs(even @ dual.coefficients) <= _CANCELS * largest
    return blocks.normalised(np.linspace(1.0, m, m)) if cancels.all() else even


def _point(model: SpectralModel) -> DualPoint:
    center = model.center
    return DualPoint(center.multipliers, center.bound, model.atom(model.hard))
