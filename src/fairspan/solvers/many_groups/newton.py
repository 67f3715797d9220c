"""The relaxed problem of k groups: Newton's method on the dual, with its kinks in the model.

The dual is smooth where eigenvalue d is not tied, and there Newton's method with a proximal term
converges in a few eigenproblems. Where eigenvalues cross as the multipliers move, or are tied at
the optimum, those around the cut enter the model as a block
(:mod:`fairspan.solvers.many_groups.dual`), whose shares give the relaxed solution too.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from fairspan.certificates.certificate import Certificate, TracePoint
from fairspan.certificates.optimality import certify
from fairspan.problem.pieces import Pieces
from fairspan.problem.problem import Problem
from fairspan.solvers.exact_rank.descent import (
    LocalOptimum,
    Search,
    affine_scores,
    descend_from_each,
    starts_around,
)
from fairspan.solvers.exact_rank.rank_reduction import SoftBasis, reduced
from fairspan.solvers.many_groups.dual import (
    Atom,
    Dual,
    DualPoint,
    DualSpectrum,
    SpectralModel,
    block_around,
)
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
# The relaxation converges so fast that this share of the tolerance takes one step more.
_AIM = 1e-3
# How often the relaxation is solved anew for a gap that is smaller than was thought at first.
_MOST_RUNS = 3
# A few roundings of the errors in a piece.
_LEAST = 1e-15
# Further starts: so many, this far apart, of so many that are drawn, with so many numbers in all.
_MOST_FURTHER, _APART = 8, 0.1
# In many features, or of many groups, they find next to nothing, and a descent takes long: so many
# over the number of features, and less in proportion beyond so many groups.
_WORTHWHILE, _FEW_GROUPS = 100.0, 10.0
_FEWEST_DRAWN, _MOST_DRAWN, _NUMBERS_DRAWN = 32, 2000, 20_000


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


class PiecewiseSearch(Search):
    """Upper and lower bounds of a sum of maxima of pieces.

    Parameters
    ----------
    problem : Problem
    pieces : Pieces
    share : float
        The gap to reach, as a share of the value.
    """

    def __init__(self, problem: Problem, pieces: Pieces, share: float) -> None:
        super().__init__(problem, affine_scores(pieces), share)
        self.pieces, self.dual = pieces, Dual(problem, pieces)
        self.relaxation = Relaxation(self.dual)

    @property
    def lower(self) -> float:
        """No subspace, and no relaxed one, has a smaller value."""
        return self.relaxation.lower

    @property
    def n_eigenproblems(self) -> int:
        """Of descents and relaxation together."""
        return self.dual.n_eigenproblems + self.n_steps

    @property
    def tolerance(self) -> float:
        """The gap to reach, absolute: a share of the best value, or a few roundings."""
        best, nearest = self.best, self.relaxation.nearest
        errors = nearest.errors if best is None else self.problem.errors(best.basis)
        # What is lost in rounding may make a relaxed value seem lower than its bound.
        value = max(min(self.upper, self.relaxation.upper), self.lower)
        return max(self.share / 2 * abs(value), _LEAST * self.pieces.size(errors))

    def run(self) -> None:
        """Relax; if no atom is the answer, descend from what that found, and from other starts."""
        self._relax()
        self._take_atom()
        if self.closed:
            # Where a soft projection met the bound first, the subspace can still be made precise.
            if self.upper - self.lower > _AIM * self.tolerance:
                assert self.best is not None
                self.descend_from(self.best.basis)
            return
        # With two groups the relaxed solution itself, reduced, has d dimensions.
        soft = self.soft_basis()
        if not len(soft.shares):
            self.descend_from(soft.whole)
        first = self.problem.pooled_optimum.vectors
        pieces, projector = self.pieces, self.relaxation.projector
        descend_from_each(self, starts_around(projector, self.problem.n_components, first))
        for further in further_starts(
            self.problem, lambda errors: pieces.blocks.largest(pieces.at(errors)).sum(axis=1)
        ):
            if self.closed:
                return
            self.descend_from(further)

    def _relax(self) -> None:
        """Close the gap of the relaxed problem; half of it leaves half for the descent."""
        for _ in range(_MOST_RUNS):
            # The value falls on the way, and with it the gap to reach.
            goal = self.tolerance
            if self.relaxation.gap > goal / 2:
                self.relaxation.run(_AIM * goal)
            if self.relaxation.gap <= self.tolerance / 2:
                return

    def improved(self, local: LocalOptimum) -> None:
        """Take the bound of its multipliers."""
        self.relaxation.take(self.dual.at(local.multipliers))

    def _take_atom(self) -> None:
        """Take the relaxation's best subspace, without a descent."""
        relaxation, problem = self.relaxation, self.problem
        basis = relaxation.nearest.basis
        value = self.pieces.value(problem.errors(basis))
        if value < self.upper:
            multipliers = relaxation.multipliers
            self.best = LocalOptimum(basis, value, self.dual.weights(multipliers), multipliers, 0)
        self.note()

    def soft_basis(self) -> SoftBasis:
        """The relaxed solution at the least rank."""
        return reduced(
            self.dual, SoftBasis.of(self.relaxation.projector, self.problem.n_components)
        )

    def solution(self, solver: str) -> Certificate:
        """The best subspace, or with `allow_extra` a soft projection if that is better."""
        assert self.best is not None
        basis = self.best.basis
        if self.problem.allow_extra and not self.closed:
            soft = self.soft_basis()
            value = self.dual.pieces.value(soft.errors(self.problem.second_moments))
            basis = soft.basis if value < self.upper else basis
        return certify(
            self.problem,
            basis,
            self.dual.weights(self.relaxation.multipliers),
            tol=self.share,
            n_eigenproblems=self.n_eigenproblems,
            trace=self.trace,
            solver=solver,
        )


def further_starts(
    problem: Problem, values_at: Callable[[FloatArray], FloatArray]
) -> Iterator[FloatArray]:
    """Subspaces for a gap that is still open: the best of many that are spread over all of them.

    In few features the many leave little between them. The sequence is fixed, so that the same
    input gives the same answer.

    Parameters
    ----------
    problem : Problem
    values_at : function of (n, k) errors
        Gives (n,) values.
    """
    second, d = problem.second_moments, problem.n_components
    few_groups = min(1.0, _FEW_GROUPS / problem.n_groups)
    n_further = min(int(few_groups * _WORTHWHILE / problem.n_features), _MOST_FURTHER)
    if n_further == 0:
        return
    n_drawn = int(np.clip(_NUMBERS_DRAWN // (problem.n_features * d), _FEWEST_DRAWN, _MOST_DRAWN))
    rng = np.random.default_rng(0)
    drawn = np.linalg.qr(rng.standard_normal((n_drawn, problem.n_features, d)))[0]
    # What each captures of a group; digits that cancel do not matter here.
    columns = drawn.transpose(1, 0, 2).reshape(problem.n_features, -1)
    images = second.applied(columns)
    captured = np.einsum("pn,gpn->gn", columns, images).reshape(-1, n_drawn, d).sum(axis=2)
    order = np.argsort(values_at(second.traces - captured.T), kind="stable")
    taken: list[FloatArray] = []
    for index in order:
        if len(taken) == n_further:
            return
        basis = drawn[index]
        # ||VV' - WW'||_F^2 / 2 = d - ||V'W||_F^2
        if all(d - float(np.sum((basis.T @ other) ** 2)) > _APART for other in taken):
            taken.append(basis)
            yield basis
