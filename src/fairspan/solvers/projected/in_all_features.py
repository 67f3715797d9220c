"""What was solved inside a subspace, in all features: with a bound for all of them."""

from dataclasses import replace
from typing import cast

import numpy as np

from fairspan.certificates.optimality import certified
from fairspan.certificates.solution import Solution, Status
from fairspan.certificates.supporting_polygon import least_beyond_lines
from fairspan.linalg import with_positive_signs
from fairspan.moments.operators import DenseSecondMoments
from fairspan.problem.criteria import declares
from fairspan.problem.problem import Problem
from fairspan.problem.robust_error_gap import RobustErrorGap
from fairspan.soft_projection import is_soft, retained
from fairspan.solvers.projected.grown_space import GrownSpace
from fairspan.solvers.projected.subspace_proof import SubspaceProof
from fairspan.typing import FloatArray

# What float64 can resolve, as a share of the trace.
_ROUNDING = 1e-13
# How exactly the least value beyond supporting lines is found, as a share of the gap to reach.
_SHARE = 0.05


def in_all_features(
    problem: Problem,
    space: GrownSpace,
    solution: Solution,
    proof: SubspaceProof,
    tolerance: float,
    n_eigenproblems: int,
) -> Solution:
    """The solution in all features, with a bound lowered by what the subspace may lack."""
    assert solution.proof is not None
    found = certified(
        problem,
        with_positive_signs(space.basis @ coordinates_of(solution)),
        solution.proof,
        tolerance=tolerance,
        n_eigenproblems=n_eigenproblems,
        trace=solution.trace,
        solver=solution.solver,
        lower_bound=_lower_bound(problem, space, solution, proof, tolerance),
    )
    # With more groups the robust error gap is bounded on a box that is found within W.
    by_box = declares(problem.criterion, "has_concave_scores") and problem.n_groups > 2
    proven = proof.is_proven and not by_box
    closed = found.status == Status.OPTIMAL
    eigen = "projected" if isinstance(problem.second_moments, DenseSecondMoments) else "matrix-free"
    status = Status.ESTIMATED if closed and not proven else found.status
    trace = [
        replace(step, lower_bound=min(step.lower_bound, found.lower_bound)) for step in found.trace
    ]
    return replace(found, status=status, eigen=eigen, trace=tuple(trace))


def _lower_bound(
    problem: Problem,
    space: GrownSpace,
    solution: Solution,
    proof: SubspaceProof,
    tolerance: float,
) -> float:
    lines, traces = solution.supporting_weights, problem.second_moments.traces
    slack = np.array([proof.excess(weights) for weights in mixtures_of(solution)])
    if lines is None or problem.n_groups != 2 or not slack.any():
        fall = fall_of_bound(problem, space, solution) if slack.any() else 0.0
        bound = solution.lower_bound - fall * float(slack.max())
        return bound - proof.uncertainty_of_losses(space)
    criterion = cast(RobustErrorGap, problem.criterion)
    d = problem.n_components
    within = [float(space.mixture(w).top_values(d).sum()) for w in lines]
    offsets = lines @ traces - np.array(within) - slack[1:]
    return least_beyond_lines(
        lambda errors: criterion.scores(errors, problem),
        lines,
        offsets,
        traces,
        _SHARE * tolerance * solution.scale,
    )


def fall_of_bound(problem: Problem, space: GrownSpace, solution: Solution) -> float:
    """By how much the bound falls, at most, per unit that W lacks of an eigenvalue sum."""
    criterion, weight = problem.criterion, float(solution.weights.sum())
    if declares(criterion, "is_logarithmic"):
        # Its bound falls with the logarithm of the sum.
        within = space.mixture(solution.weights).top_values(problem.n_components)
        return 1 / max(float(within.sum()), np.finfo(float).tiny)
    if declares(criterion, "wants_equal_errors") and weight > 0:
        # Its bound is that of the mixture divided by the weight of the total error.
        return 1 / weight
    if isinstance(criterion, RobustErrorGap):
        errors = space.second_moments.residual_variances(coordinates_of(solution))
        least = max(_ROUNDING * float(problem.second_moments.traces.max()), np.finfo(float).tiny)
        errors = np.maximum(errors, least)
        slopes = criterion.gradients(errors, problem)
        return max(float(np.abs(slopes).sum(axis=1).max()), 1.0)
    return 1.0


def mixtures_of(solution: Solution) -> list[FloatArray]:
    """Weights of all mixtures that the bound rests on, the last one first."""
    lines = solution.supporting_weights
    return [solution.weights, *([] if lines is None else lines)]


def coordinates_of(solution: Solution) -> FloatArray:
    """The basis in coordinates of the subspace, shape (m, r)."""
    components = solution.components
    return retained(components) if is_soft(components) else components.T
