"""The relaxed problem of k groups: Newton's method on the dual, with its kinks in the model.

The dual is smooth where eigenvalue d is not tied, and there Newton's method with a proximal term
converges in a few eigenproblems. Where eigenvalues cross as the multipliers move, or are tied at
the optimum, those around the cut enter the model as a block
(:mod:`fairspan.solvers.many_groups.tied_eigenvalues`), whose shares give the relaxed solution too.
Should rounding or a tie of many eigenvalues stall that, cutting planes go on: every dual point
gives an atom, a subspace V_j; the master program mixes them, P = sum c_j V_jV_j', so that the
largest piece is least; its own multipliers, and the point half-way to the best one, come next.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fairspan.certificates.solution import TracePoint
from fairspan.solvers.many_groups.best_mixture import best_mixture
from fairspan.solvers.many_groups.dual import Atom, Dual, DualPoint, DualSpectrum
from fairspan.solvers.many_groups.tied_eigenvalues import SpectralModel, block_around
from fairspan.typing import FloatArray

_MAX_ROUNDS = 1000
# A step is taken if the bound rises by this share of what the model promised.
_RISES = 0.1
# A block costs a program of some milliseconds: as long as eigenproblems are cheaper, this many
# steps may fail without one.
_LARGEST_BLOCK, _CHEAP_FEATURES, _FAILURES = 6, 150, 5
# The model's own program is solved to this share of the tolerance.
_PROGRAM = 1e-6
# Rises below this share of the errors in the pieces are rounding; but the relaxed solution, whose
# value is off by the first order of the multipliers, may need more steps, as long as they halve its
# gap.
_NOTHING, _HALF = 1e-14, 0.5
_MOST_STEPS = 80
# Weights that sum to this share of the pieces' coefficients are nothing.
_CANCELS = 1e-12
# Where this many rounds leave more than this share of the gap, rounding is in the way.
_STALL, _PROGRESS = 60, 0.9


@dataclass
class Relaxation:
    """Bounds on the relaxed optimum, and what attains them.

    Parameters
    ----------
    dual : Dual
    atoms : list of Atom
        Subspaces to start from; more are found.
    start : (m,) array, optional
        Multipliers to begin with; uniform if left out.

    Attributes
    ----------
    nearest : Atom or None
        The best subspace of exactly d dimensions that a dual point gave.
    settled : (SpectralModel, (r, r) array) or None
        Where Newton's method was last, and the shares there.
    """

    dual: Dual
    atoms: list[Atom] = field(default_factory=list)
    start: FloatArray | None = None
    best: DualPoint | None = None
    upper: float = np.inf
    mixture: FloatArray = field(default_factory=lambda: np.ones(1))
    mixed: list[Atom] = field(default_factory=list)
    nearest: Atom | None = None
    settled: tuple[SpectralModel, FloatArray] | None = None
    trace: list[TracePoint] = field(default_factory=list)

    @property
    def lower(self) -> float:
        """The best bound: D at the best multipliers."""
        return -np.inf if self.best is None else self.best.bound

    @property
    def gap(self) -> float:
        """Of the relaxed problem."""
        return self.upper - self.lower

    @property
    def projector(self) -> FloatArray:
        """P = sum_j c_j V_jV_j' of the best mixture, (p, p): eigenvalues in [0, 1], trace d."""
        factors = [
            np.sqrt(share) * atom.basis
            for share, atom in zip(self.mixture, self.mixed, strict=True)
        ]
        stacked = np.hstack(factors)
        return np.asarray(stacked @ stacked.T)

    def take(self, point: DualPoint) -> None:
        """Take the bound and the atom of a dual point."""
        self.atoms.append(point.atom)
        if self.nearest is None or self.value(point.atom) < self.value(self.nearest):
            self.nearest = point.atom
            self.consider([point.atom], np.ones(1))
        if point.bound > self.lower:
            self.best = point
        self.trace.append(TracePoint(self.dual.n_eigenproblems, self.lower, self.upper))

    def value(self, atom: Atom) -> float:
        """What is minimised, at an atom."""
        return self.dual.value(atom.errors)

    def consider(self, atoms: Sequence[Atom], mixture: FloatArray) -> None:
        """Take a mixture of atoms if it is the best so far."""
        errors = mixture @ np.array([atom.errors for atom in atoms])
        value = self.dual.value(errors)
        if value < self.upper:
            used = np.flatnonzero(mixture > 0)
            self.upper, self.mixture = value, mixture[used]
            self.mixed = [atoms[int(j)] for j in used]

    def run(self, tolerance: float, rounds: int = _MAX_ROUNDS, aim: float | None = None) -> None:
        """Narrow the gap to the tolerance (absolute), as far as rounding and `rounds` let it.

        Steps that converge fast go on to the gap `aim`, if it is given.
        """
        start = self._start()
        if self.gap > tolerance:
            _Ascent(self, tolerance if aim is None else aim).run(start, min(rounds, _MOST_STEPS))
        if self.gap > tolerance:
            self._cut(tolerance, rounds)

    def climb(self, least_rise: float, steps: int) -> None:
        """Raise the bound alone, as long as a step promises more than `least_rise`."""
        _Ascent(self, 0.0, least_rise).run(self._start(), steps)

    def _cut(self, tolerance: float, rounds: int) -> None:
        """Cutting planes."""
        reference = np.inf
        for step in range(rounds):
            if step % _STALL == 0:
                if self.gap > _PROGRESS * reference:
                    return
                reference = self.gap
            multipliers = self._mix()
            if self.gap <= tolerance:
                return
            assert self.best is not None
            for each in (multipliers, (multipliers + self.best.multipliers) / 2):
                self.take(self.dual.at(each))
                if self.gap <= tolerance:
                    return

    def _start(self) -> FloatArray:
        for atom in self.atoms:
            self.consider([atom], np.ones(1))
        if self.start is not None:
            return self.start
        if self.atoms:
            return self._mix()
        m, blocks = len(self.dual.offsets), self.dual.blocks
        even = blocks.even(m)
        # Where even ones cancel, all eigenvalues are tied at zero.
        largest = np.abs(self.dual.coefficients).max(axis=0)
        cancels = np.abs(even @ self.dual.coefficients) <= _CANCELS * largest
        return even if not cancels.all() else blocks.normalised(np.linspace(1.0, m, m))

    def _mix(self) -> FloatArray:
        """Solve the master program; take its mixture and return its multipliers."""
        values = self.dual.pieces_at(np.array([atom.errors for atom in self.atoms]))
        shares, multipliers = best_mixture(values, self.dual.blocks)
        self.consider(self.atoms, shares)
        k = self.dual.coefficients.shape[1]
        if len(self.atoms) > 20 * (k + 5):
            recent = len(self.atoms) - 10 * (k + 5)
            self.atoms = [atom for j, atom in enumerate(self.atoms) if shares[j] > 0 or j >= recent]
        return multipliers


@dataclass
class _Ascent:
    """Newton's method on the dual.

    Attributes
    ----------
    tolerance : float
        The gap to reach.
    least_rise : float
        What a step must promise.
    damping : float
        Of the proximal term, damping |step|^2 / 2.
    """

    relaxation: Relaxation
    tolerance: float
    least_rise: float = -np.inf
    damping: float = 0.0
    n_failures: int = 0

    def run(self, start: FloatArray, steps: int) -> None:
        """Climb until the gap is closed, or the model promises nothing more."""
        model = self._at(start)
        shares = model.hard
        self.relaxation.settled = (model, shares)
        self.relaxation.take(_point(model))
        factor = model.curvature_factor(shares)
        dual = self.relaxation.dual
        size = dual.pieces.size(model.atom(shares).errors)
        polished = np.inf
        for _ in range(steps):
            found, shares, promise = model.best(factor, self.damping, _PROGRAM * self.tolerance)
            if model.has_block:
                self.relaxation.consider([model.atom(shares)], np.ones(1))
            nothing = _NOTHING * size
            if self.relaxation.gap <= self.tolerance:
                return
            if promise <= self.least_rise:
                return
            if promise <= nothing:
                # The bound is there, and so is the solution once its gap shrinks no more.
                if self.damping > 0:
                    # What is left of it only shortens the steps, of which none can go wrong now.
                    self.damping = 0.0
                    continue
                if self.relaxation.gap > _HALF * polished:
                    return
                polished = self.relaxation.gap
            ahead = self._at(dual.blocks.normalised(found))
            self.relaxation.take(_point(ahead))
            carried = ahead.carried(model, shares)
            if ahead.has_block:
                self.relaxation.consider([ahead.atom(carried)], np.ones(1))
            if self.relaxation.gap <= self.tolerance:
                return
            rise = ahead.center.bound - model.center.bound
            length = float((found - model.center.multipliers) @ (found - model.center.multipliers))
            # The curvature along the step that its end would have been right for.
            bends = promise > nothing and length > 0
            secant = self.damping + 2 * (promise - rise) / length if bends else 0.0
            if rise >= _RISES * promise - nothing:
                model, shares, self.damping = ahead, carried, max(secant, 0.0)
                self.relaxation.settled = (model, shares)
            else:
                self.damping = max(2 * self.damping, secant)
                self.n_failures += 1
                block = self._block(model.center)
                if block != model.block:
                    model = replace(model, block=block)
                    shares, self.damping = model.hard, 0.0
            factor = model.curvature_factor(shares)

    def _at(self, multipliers: FloatArray) -> SpectralModel:
        dual = self.relaxation.dual
        center = dual.spectrum(multipliers)
        return SpectralModel(dual, center, self._block(center))

    def _block(self, center: DualSpectrum) -> tuple[int, int]:
        d, p = self.relaxation.dual.n_components, len(center.values)
        if d == p or (p < _CHEAP_FEATURES and self.n_failures < _FAILURES):
            return d, d
        return block_around(center.values, d, _LARGEST_BLOCK)


def _point(model: SpectralModel) -> DualPoint:
    center = model.center
    return DualPoint(center.multipliers, center.bound, model.atom(model.hard))
