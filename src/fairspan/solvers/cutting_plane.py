"""Any number of groups: a relaxation solved to a proven gap, and exactly d components beside it.

For more than two groups some tables have no subspace of exactly d dimensions as good as the relaxed
optimum (Tantipongpipat et al. 2019; NP-hard to decide when the number of groups is part of the
input). So both sides are computed: the bound, by cutting planes on the dual, and the best subspace,
by descent. Their gap is reported; it is called optimal only if it is closed.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from fairspan.errors import Incompatible
from fairspan.problem.criteria import EqualError, ErrorGap, NashWelfare
from fairspan.problem.parameters import check_choice
from fairspan.problem.pieces import Pieces, pairwise_weights
from fairspan.problem.problem import Problem
from fairspan.solvers.certificate import certified, resolution
from fairspan.solvers.descent import LocalOptimum, descend
from fairspan.solvers.dual import Dual
from fairspan.solvers.rank_reduction import SoftBasis, reduced
from fairspan.solvers.relaxation import Relaxation
from fairspan.solvers.rounding import scores_of
from fairspan.solvers.solution import Solution, TracePoint

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class CuttingPlane:
    """Every criterion, for any number of groups.

    Parameters
    ----------
    eigen : {"auto", "dense"}
        How eigenproblems are solved; both are dense LAPACK.

    Notes
    -----
    Piecewise linear criteria: descent from ordinary PCA to a local optimum, whose multipliers give
    a bound; if that leaves a gap, cutting planes on the dual (:mod:`fairspan.solvers.relaxation`),
    and descents from what they find. With `allow_extra` the relaxed solution itself is given where
    exactly d components do not reach it, at d + floor(sqrt(2 k + 1/4) - 3/2) dimensions at most.
    """

    eigen: str = "auto"
    name: ClassVar[str] = "cutting_plane"

    def __post_init__(self) -> None:
        check_choice("eigen", self.eigen, ("auto", "dense"))

    def objection(self, problem: Problem) -> str | None:
        """Why it cannot take this problem; None if it can."""
        return None

    def solve(self, problem: Problem, tolerance: float, random_state: object = None) -> Solution:
        """Find the best subspace within reach, and a bound.

        Parameters
        ----------
        problem : Problem
        tolerance : float
            Absolute, in the criterion's units.
        random_state : object
            Not used: starts are taken from a fixed sequence.

        Returns
        -------
        Solution
        """
        assert problem.pieces is not None
        search = PiecewiseSearch(problem, problem.pieces, tolerance)
        search.run()
        return search.solution(self.name)


# How many subspaces the descent starts from before the gap is left open.
_STARTS = 12


class PiecewiseSearch:
    """Upper and lower bounds of a piecewise linear criterion."""

    def __init__(self, problem: Problem, pieces: Pieces, tolerance: float) -> None:
        self.problem = problem
        self.pieces = pieces
        self.tolerance = max(tolerance, resolution(problem))
        self.dual = Dual(problem, pieces)
        self.relaxation = Relaxation(self.dual)
        self.best: LocalOptimum | None = None
        self.n_steps = 0
        self.trace: list[TracePoint] = []

    @property
    def upper(self) -> float:
        """The best value of exactly d components so far."""
        return np.inf if self.best is None else self.best.value

    @property
    def lower(self) -> float:
        """No subspace, and no relaxed one, has a smaller value."""
        return self.relaxation.lower

    @property
    def closed(self) -> bool:
        """Whether exactly d components reach the bound."""
        return self.upper - self.lower <= self.tolerance

    def run(self) -> None:
        """Descend from ordinary PCA; if that does not close the gap, relax and descend again."""
        self.descend_from(self.problem.pooled_optimum.vectors)
        if self.closed:
            return
        self.relaxation.run(self.tolerance / 2)
        self.note()
        for start in self.starts():
            if self.closed:
                return
            self.descend_from(start)

    def descend_from(self, start: FloatArray) -> None:
        """Take the local optimum below a subspace, and the bound of its multipliers."""
        local = descend(self.problem, scores_of(self.problem, self.pieces), start)
        self.n_steps += local.n_eigenproblems
        if local.value < self.upper:
            self.best = local
            self.relaxation.start = local.multipliers
            self.relaxation.atoms.append(self.dual.atom(local.basis))
            self.relaxation.take(self.dual.at(local.multipliers))
        self.note()

    def starts(self) -> list[FloatArray]:
        """Leading eigenvectors of the relaxed solution, its atoms, and what lies around it."""
        d = self.problem.n_components
        values, vectors = np.linalg.eigh(self.relaxation.projector)
        vectors = vectors[:, ::-1]
        largest = np.argsort(-self.relaxation.mixture)[:_STARTS]
        atoms = [self.relaxation.mixed[j].basis for j in largest]
        spread = np.sqrt(np.clip(values[::-1], 0, 1))
        rng = np.random.default_rng(0)
        around = [
            np.linalg.qr(vectors * spread @ rng.standard_normal((len(spread), d)))[0]
            for _ in range(_STARTS)
        ]
        return [vectors[:, :d], *atoms, *around]

    def note(self) -> None:
        """Record the bounds."""
        n = self.dual.n_eigenproblems + self.n_steps
        self.trace.append(TracePoint(n, self.lower, self.upper))

    def soft_basis(self) -> SoftBasis:
        """The relaxed solution at the least rank."""
        soft = SoftBasis.of(self.relaxation.projector, self.problem.n_components)
        return reduced(self.dual, soft)

    def solution(self, solver: str) -> Solution:
        """The best subspace, or with `allow_extra` a soft projection if that is better."""
        assert self.best is not None
        assert self.relaxation.best is not None
        basis = self.best.basis
        if self.problem.allow_extra and not self.closed:
            soft = self.soft_basis()
            value = self.dual.pieces_at(soft.captured(self.problem.second_moments)).max()
            basis = soft.basis if value < self.upper else basis
        return certified(
            self.problem,
            basis,
            self.lower,
            self.dual.weights(self.relaxation.best.multipliers),
            tolerance=self.tolerance,
            n_eigenproblems=self.dual.n_eigenproblems + self.n_steps,
            trace=self.trace,
            solver=solver,
        )
