"""Any solver, for second moments that are no matrices: inside a subspace that grows as needed.

The problem is solved exactly within a subspace W of few dimensions, whose compressed second moments
are small matrices. Then the mixtures that its bound rests on are looked at in all p dimensions:
their leading eigenvectors join W, and the problem is solved again, until W holds them. Errors stay
those of the whole rows throughout.

The bound then rests on eigenvectors found by iteration, which cannot exclude that a larger
eigenvalue was missed. So a closed gap is called estimated, not optimal.
"""

from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from fairspan.errors import Incompatible
from fairspan.linalg import with_positive_signs
from fairspan.problem.criteria import EqualError
from fairspan.problem.problem import Problem
from fairspan.soft_projection import is_soft, retained
from fairspan.solvers.certificate import certified
from fairspan.solvers.grown_space import GrownSpace, SoughtMoments
from fairspan.solvers.protocol import Solver
from fairspan.solvers.solution import Solution, Status

FloatArray = npt.NDArray[np.float64]

_MOST_ROUNDS = 60
# Eigenvalue sums are settled to this share of the gap to reach.
_SHARE = 1e-3
# Directions outside of the subspace are settled to this share of the eigenvalues.
_DIRECTION = 1e-9
# What float64 can resolve, as a share of the trace.
_ROUNDING = 1e-13
# Mixtures that are looked at in one round; the robust error gap rests on dozens.
_MIXTURES = 4


@dataclass(frozen=True)
class GrowingSubspace:
    """A solver of small problems, for large ones.

    Attributes
    ----------
    solver : Solver
    """

    solver: Solver

    @property
    def name(self) -> str:
        """That of the solver inside."""
        return self.solver.name

    def objection(self, problem: Problem) -> str | None:
        """Why the solver cannot take this problem; None if it can."""
        return self.solver.objection(problem)

    def solve(self, problem: Problem, tolerance: float, random_state: Any = None) -> Solution:
        """Find a subspace whose gap is at most `tolerance`, as far as iterations can tell.

        Raises
        ------
        Incompatible
            As the solver inside.
        """
        second = cast(SoughtMoments, problem.second_moments)
        size = float(np.abs(second.traces).max())
        goal = max(_SHARE * tolerance / size if size > 0 else 0.0, _ROUNDING)
        space = GrownSpace.of(second, _start(problem, second))
        n_eigenproblems, slack = 0, np.inf
        for _ in range(_MOST_ROUNDS):
            solution = self._within(problem, space, tolerance, random_state)
            n_eigenproblems += solution.n_eigenproblems
            missing, slack, n_sought = _missing(problem, space, solution, goal)
            n_eigenproblems += n_sought
            wider = space.with_columns(missing)
            if wider is space:
                break
            space = wider
        return _finished(problem, space, solution, slack, tolerance, n_eigenproblems)

    def _within(
        self, problem: Problem, space: GrownSpace, tolerance: float, random_state: Any
    ) -> Solution:
        inside = replace(problem, second_moments=space.second_moments, unrestricted=problem)
        try:
            return self.solver.solve(inside, tolerance, random_state)
        except Incompatible as error:
            if not isinstance(problem.criterion, EqualError):
                raise
            raise Incompatible(
                error.args[0],
                "Allowed are tables where some subspace has equal errors",
                "Use 'error_gap' with a large penalty, another n_components, or another center",
            ) from error


def _start(problem: Problem, second: SoughtMoments) -> FloatArray:
    d, k = problem.n_components, problem.n_groups
    optima = [problem.pooled_optimum.vectors, *(each.vectors for each in problem.group_optima)]
    if isinstance(problem.criterion, EqualError):
        # Whether errors can be equal shows between the groups' largest differences.
        alone = np.eye(k)
        optima += [
            second.sought(alone[a] - alone[b], d).vectors for a, b in permutations(range(k), 2)
        ]
    return np.hstack(optima)


def _missing(
    problem: Problem, space: GrownSpace, solution: Solution, goal: float
) -> tuple[FloatArray, float, int]:
    """Directions that the subspace lacks, how far bounds may be off, and eigenproblems solved."""
    second, d = space.full, problem.n_components
    mixtures = [solution.weights]
    if solution.supporting_weights is not None:
        mixtures += list(solution.supporting_weights)
    lacking, slack = _lacking(space, mixtures, d)
    columns = [_pull(space, solution)]
    if lacking:
        columns += [second.sought(w, d, start=start).vectors for w, start in lacking]
        return np.hstack(columns), slack, len(lacking)
    # From a start of its own, as the subspace may have lost sight of an eigenvector.
    fresh = second.sought(solution.weights, d)
    sum_within = float(space.ritz(solution.weights, d).values[:d].sum())
    excess = fresh.leading.top_eigenvalue_sum + fresh.uncertainty - sum_within
    if excess > goal * float(np.abs(solution.weights) @ second.traces):
        columns.append(fresh.vectors)
    return np.hstack(columns), max(slack, excess, 0.0), 1


def _lacking(
    space: GrownSpace, mixtures: list[FloatArray], n_components: int
) -> tuple[list[tuple[FloatArray, FloatArray]], float]:
    """The mixtures whose eigenvectors lie outside the most, with what is known of these vectors.

    Also by how much an eigenvalue sum may be off, judged by the residuals.
    """
    found: list[tuple[float, FloatArray, FloatArray]] = []
    d, slack = n_components, 0.0
    for weights in mixtures:
        size = float(np.abs(weights) @ space.full.traces)
        values, vectors, residuals = space.ritz(weights, d)
        lengths = np.linalg.norm(residuals, axis=0)
        off, squares = float(lengths.sum()), float(lengths @ lengths)
        if np.sqrt(squares) > max(_DIRECTION * float(np.abs(values[:d]).max()), _ROUNDING * size):
            found.append((off / size, weights, vectors))
        elif len(values) > d and values[d - 1] > values[d]:
            off = min(off, squares / float(values[d - 1] - values[d]))
        slack = max(slack, off)
    found.sort(key=lambda each: -each[0])
    return [(weights, vectors) for _, weights, vectors in found[:_MIXTURES]], slack


def _pull(space: GrownSpace, solution: Solution) -> FloatArray:
    """Directions outside of the subspace in which the solution's mixture pulls its basis.

    A solution with an open gap need not be made of leading eigenvectors.
    """
    basis = _coordinates(solution)
    image = np.tensordot(solution.weights, space.images, axes=1) @ basis
    outside = image - space.basis @ (space.basis.T @ image)
    size = float(np.abs(solution.weights) @ space.full.traces)
    least = max(_DIRECTION * float(np.linalg.norm(image, 2)), _ROUNDING * size)
    if float(np.linalg.norm(outside)) <= least:
        return outside[:, :0]
    return outside


def _coordinates(solution: Solution) -> FloatArray:
    components = solution.components
    return retained(components) if is_soft(components) else components.T


def _finished(
    problem: Problem,
    space: GrownSpace,
    solution: Solution,
    slack: float,
    tolerance: float,
    n_eigenproblems: int,
) -> Solution:
    """The solution in all dimensions, with a bound lowered by what it may be off."""
    weight = float(solution.weights.sum())
    # The bound of equal errors is that of its mixture divided by the weight of the total error.
    per_unit = 1 / weight if isinstance(problem.criterion, EqualError) and weight > 0 else 1.0
    found = certified(
        problem,
        with_positive_signs(space.basis @ _coordinates(solution)),
        solution.lower_bound - per_unit * slack,
        solution.weights,
        tolerance=tolerance,
        n_eigenproblems=n_eigenproblems,
        trace=solution.trace,
        solver=solution.solver,
        supporting_weights=solution.supporting_weights,
    )
    closed = found.status == Status.OPTIMAL
    return replace(found, status=Status.ESTIMATED if closed else found.status)
