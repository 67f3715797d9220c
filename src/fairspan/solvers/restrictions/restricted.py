"""Solving under a restriction, at one dimension or at the smallest that keeps enough of each group.

Directions that a restriction leaves are coordinates: the problem is solved in them, and the answer
mapped back. Errors stay those of the whole rows, and excess losses are still measured against the
best subspace of all.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fairspan.certificates.solution import Solution
from fairspan.errors import Incompatible
from fairspan.linalg import with_positive_signs
from fairspan.linalg.threads import threads_of
from fairspan.problem.mean_free_directions import mean_free_directions
from fairspan.problem.posing import Posed, Restricted
from fairspan.problem.problem import Problem
from fairspan.problem.restrictions import CovarianceParity
from fairspan.soft_projection import is_soft, retained
from fairspan.solvers.choose import check_accepted
from fairspan.solvers.protocol import Solver
from fairspan.solvers.restrictions.parity import tolerant_solver

FloatArray = npt.NDArray[np.float64]

# A share that is met up to rounding is met.
_ROUNDING = 1e-12
# A group with less than this share of another's variance has none: its rows differ by rounding.
_NO_VARIANCE = 1e-20


@dataclass(frozen=True, eq=False)
class Solved:
    """A problem without its restriction, and the solution within it.

    Attributes
    ----------
    problem : Problem
    solution : Solution
        Its components have the p features of the problem.
    """

    problem: Problem
    solution: Solution

    @property
    def basis(self) -> FloatArray:
        """B with captured variances tr(B'S_gB), shape (p, r)."""
        components = self.solution.components
        return retained(components) if is_soft(components) else components.T

    @property
    def kept(self) -> FloatArray:
        """1 - e_g / tr S_g of each group, shape (k,); 1 for a group without variance."""
        traces = self.problem.second_moments.traces
        varies = _varying(traces)
        kept = np.ones(len(traces))
        kept[varies] -= self.problem.errors(self.basis)[varies] / traces[varies]
        return kept


@dataclass(frozen=True, eq=False)
class Task:
    """What is to be solved, at a dimension yet to be given.

    Attributes
    ----------
    posed : Posed
    solver : Solver
    tol : float
        Largest gap to call optimal, as a share of the objective.
    random_state : int, Generator, RandomState or None
    """

    posed: Posed
    solver: Solver
    tol: float
    random_state: Any = None

    @property
    def problem(self) -> Problem:
        """Without the restriction, at any dimension."""
        return self.posed.problem

    def at(self, n_components: int) -> Solved:
        """Solve for a dimension.

        Raises
        ------
        Incompatible
            The solver, or the restriction, cannot take it.
        """
        return self._checked(n_components)()

    def keeping(self, share: float) -> Solved:
        """Solve for the smallest dimension that keeps this share of every group's variance.

        The share that a criterion leaves to a group need not grow with the dimension, so every
        dimension is tried, from the first at which each group's own best subspace would do.

        Raises
        ------
        Incompatible
            No dimension keeps it, or the solver cannot take the problem.
        """
        last, best = self._most_components(), -np.inf
        obstacle: Incompatible | None = None
        for d in range(min(self._least_components(share), last), last + 1):
            solve = self._checked(d)
            try:
                solved = solve()
            except Incompatible as error:  # such as equal errors that are out of reach for this d
                obstacle = error
                continue
            least = float(solved.kept.min())
            if least >= share - _ROUNDING:
                return solved
            best = max(best, least)
        if best == -np.inf and obstacle is not None:
            raise obstacle
        raise Incompatible(
            f"n_components is {share!r}, a share of every group's variance, with the criterion "
            f"{self.problem.criterion.name!r} and restriction {self.posed.restriction!r}",
            f"Allowed here is at most {np.floor(best * 1e6) / 1e6:g}, which the group served worst "
            f"keeps with up to {last} components",
            "Choose a smaller share, another criterion, or a looser restriction",
        )

    def _checked(self, n_components: int) -> "_Ready":
        """Everything but the solving, so that settings which cannot work are told at once."""
        restricted = self.posed.at(n_components)
        solver: Any = tolerant_solver(restricted.problem, self.posed.restriction, self.solver)
        if solver is None:
            solver = self.solver
            check_accepted(solver, restricted.problem)
        return _Ready(restricted, solver, self.tol, self.random_state)

    def _most_components(self) -> int:
        p = self.problem.n_features
        if self.posed.restriction is None:
            return p
        if isinstance(self.posed.restriction, CovarianceParity) or self.posed.restriction.is_exact:
            p = mean_free_directions(self.posed.means, self.posed.covariances, 1).shape[1]
        wanted = getattr(self.posed.restriction, "n_directions", None)
        return p if wanted is None else min(p, wanted)

    def _least_components(self, share: float) -> int:
        """The first d with t_d(S_g) >= share tr S_g for every group."""
        p, traces = self.problem.n_features, self.problem.second_moments.traces
        needed = 1
        for group in np.flatnonzero(_varying(traces)):
            # Solving for each dimension asks for the same decompositions.
            alone = np.eye(len(traces))[group]
            kept = np.cumsum(self.problem.spectra.known(alone).values[::-1])
            reached = np.flatnonzero(kept >= (share - _ROUNDING) * traces[group])
            needed = max(needed, int(reached[0]) + 1 if len(reached) else p)
        return needed


@dataclass(frozen=True, eq=False)
class _Ready:
    """A problem and the solver that accepted it."""

    restricted: Restricted
    solver: Any
    tolerance: float
    random_state: Any

    def __call__(self) -> Solved:
        restricted = self.restricted
        # Only the largest steps should use threads; they say so themselves.
        # What overflows on the way, beside a column of large numbers, is looked at in the end.
        with threads_of(None), np.errstate(all="ignore"):
            solution = self.solver.solve(restricted.problem, self.tolerance, self.random_state)
        directions = restricted.directions
        if directions is not None:
            columns = with_positive_signs(directions @ solution.components.T)
            solution = replace(
                solution,
                components=np.ascontiguousarray(columns.T),
                proof=None if solution.proof is None else solution.proof.lifted(directions),
                objective=solution.objective + restricted.shift,
                lower_bound=solution.lower_bound + restricted.shift,
                trace=tuple(step.shifted(restricted.shift) for step in solution.trace),
            )
        return Solved(restricted.full, solution)


def _varying(traces: FloatArray) -> npt.NDArray[np.bool_]:
    """Which groups have variance."""
    return np.asarray(traces > _NO_VARIANCE * traces.max())
