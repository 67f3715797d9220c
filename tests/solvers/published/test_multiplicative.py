"""Multiplicative weights: between the bound and the regret that theory promises."""

from dataclasses import replace

import numpy as np
import pytest

from case_selection import mark_most_long, mark_most_slow, select_cases
from fairspan import (
    DualNewton,
    ErrorGap,
    GroupMoments,
    LeastVariance,
    MinimaxError,
    MinimaxLoss,
    MultiplicativeWeights,
)
from fairspan.errors import InvalidParameter, InvalidType
from problems import (
    MINIMAX,
    basis_errors,
    build_problem,
    dual_bound,
    group_divisors,
    matrix_traces,
    problem_from_moments,
    random_moments,
    reference_values,
    search_boundary,
)
from real_data import load

SEEDS = pytest.mark.parametrize("seed", mark_most_long(range(8), 3))
each_criterion = pytest.mark.parametrize("criterion", MINIMAX, ids=str)


def random_problem(seed, k, criterion, allow_extra=False):
    rng = np.random.default_rng(seed)
    p = int(rng.integers(3, 9))
    matrices = random_moments(rng, k, p)
    problem = build_problem(matrices, int(rng.integers(1, p)), criterion)
    return replace(problem, allow_extra=allow_extra), matrices


def largest_range(matrices, n_components, criterion):
    """Return the largest range of values: captured variance is between zero and the variance."""
    values = reference_values(matrices, n_components, criterion)
    if isinstance(criterion, LeastVariance):
        values = matrix_traces(matrices)
    return (values / group_divisors(matrices, criterion)).max()


@each_criterion
@SEEDS
def test_two_groups_against_the_exact_optimum(seed, criterion):
    problem, matrices = random_problem(seed, 2, criterion)
    optimum = search_boundary(problem).objective
    solution = MultiplicativeWeights(1.0).solve(problem, 0.0)
    rounding = 1e-9 * problem.total_variance
    assert solution.lower_bound <= optimum + rounding
    assert solution.objective >= optimum - rounding
    bound = dual_bound(matrices, solution.weights, problem.n_components, criterion)
    assert solution.lower_bound <= bound + rounding
    basis = solution.components.T
    np.testing.assert_allclose(basis.T @ basis, np.eye(problem.n_components), atol=1e-12)


@each_criterion
def test_the_weights_of_the_second_round_are_those_of_the_paper(criterion):
    problem, matrices = random_problem(3, 3, criterion, allow_extra=True)
    d = problem.n_components
    divisors = group_divisors(matrices, criterion)
    even = np.full(3, 1 / 3) / divisors
    leading = np.linalg.eigh(np.tensordot(even, matrices, axes=1))[1][:, -d:]
    captured = np.einsum("pd,gpq,qd->g", leading, matrices, leading)
    values = (reference_values(matrices, d, criterion) - captured) / divisors
    factors = np.exp(0.5 * values / largest_range(matrices, d, criterion))
    bounds = [
        dual_bound(matrices, weights, d, criterion)
        for weights in (even, factors / factors.sum() / divisors)
    ]
    assert bounds[0] < bounds[1]
    solution = MultiplicativeWeights(0.5, 2).solve(problem, 0.0)
    assert [step.lower_bound for step in solution.trace] == pytest.approx(bounds)


@pytest.mark.long
@pytest.mark.sweep
@pytest.mark.parametrize("step", [0.1, 1.0])
@pytest.mark.parametrize("k", [2, 3, 5])
@each_criterion
@pytest.mark.parametrize("seed", select_cases(range(8), 3))
def test_regret_of_the_average_is_as_promised(seed, criterion, k, step):
    problem, matrices = random_problem(seed, k, criterion, allow_extra=True)
    scale = largest_range(matrices, problem.n_components, criterion)
    for rounds in (5, 50):
        solution = MultiplicativeWeights(step, rounds).solve(problem, 0.0)
        promised = scale * (np.log(k) / (step * len(solution.trace)) + step / 8)
        assert solution.objective - solution.lower_bound <= promised + 1e-9 * scale


@pytest.mark.long
@each_criterion
def test_gap_closes_as_rounds_and_step_follow(criterion):
    gaps = []
    for rounds in (4, 40, 400):
        solver = MultiplicativeWeights(step_size=2 / np.sqrt(rounds), max_iter=rounds)
        problems = [random_problem(seed, 3, criterion, allow_extra=True)[0] for seed in range(8)]
        gaps.append(
            [solver.solve(problem, 0.0).gap / problem.total_variance for problem in problems]
        )
    means = np.mean(gaps, axis=1)
    assert means[0] > 3 * means[1] > 9 * means[2]
    assert max(gaps[-1]) < 0.02


@SEEDS
def test_soft_projection_has_the_errors_of_the_average(seed):
    problem, matrices = random_problem(seed, 3, MinimaxError(), allow_extra=True)
    solution = MultiplicativeWeights().solve(problem, 0.0)
    projection = solution.components.T @ solution.components
    errors = basis_errors(matrices, solution.components.T)
    assert max(errors) == pytest.approx(solution.objective, rel=1e-9)
    values = np.linalg.eigvalsh(projection)
    # lb = 1 - (1 - lambda)^2 of each eigenvalue; together they are d dimensions.
    assert (1 - (1 - values) ** 2).sum() == pytest.approx(problem.n_components, abs=1e-9)


def test_only_a_soft_projection_reaches_the_bound_of_three_lines_in_the_plane():
    """Lines at 0, 60, 120 degrees: P = I / 2 loses 1/2 of each, one direction 3/4 of two."""
    angles = np.radians([0, 60, 120])
    matrices = [np.outer(u, u) for u in np.column_stack([np.cos(angles), np.sin(angles)])]
    problem = build_problem(matrices, 1, MinimaxLoss())
    solver = MultiplicativeWeights(step_size=0.02, max_iter=2000)
    soft = solver.solve(replace(problem, allow_extra=True), 1e-2)
    assert soft.objective == pytest.approx(1 / 2, abs=5e-3)
    assert soft.status == "optimal"
    assert len(soft.components) == 2
    hard = solver.solve(problem, 1e-2)
    assert hard.objective == pytest.approx(3 / 4, abs=1e-6)
    assert hard.lower_bound == pytest.approx(1 / 2, abs=5e-3)
    assert hard.status == "open gap"


def test_ends_once_the_gap_is_closed_and_traces_every_round():
    problem, _ = random_problem(4, 2, MinimaxLoss())
    solution = MultiplicativeWeights(1.0, max_iter=500).solve(problem, 0.2)
    assert solution.status == "optimal"
    counts = [point.n_eigenproblems for point in solution.trace]
    assert counts == [*range(1, len(counts) + 1)] < [*range(1, 100)]
    lower = [point.lower_bound for point in solution.trace]
    assert lower == sorted(lower)
    assert solution.objective <= solution.trace[-1].upper_bound + 1e-12


@pytest.mark.parametrize("criterion", mark_most_slow(MINIMAX, len(MINIMAX)), ids=str)
def test_an_accuracy_is_kept(criterion):
    """Theorem A.2: the average of so many rounds is within epsilon of the optimum."""
    solver = MultiplicativeWeights.for_accuracy(0.2, n_groups=3)
    assert solver.step_size == pytest.approx(0.2 / 8)
    assert solver.max_iter == np.ceil(32 * np.log(3) / 0.2**2)
    problem, matrices = random_problem(5, 3, criterion, allow_extra=True)
    scale = largest_range(matrices, problem.n_components, criterion)
    optimum = DualNewton().solve(problem, 1e-9).objective
    assert solver.solve(problem, 0.0).objective <= optimum + 0.2 * scale
    for wrong in (0.0, -0.1, 1.5, 4e-12):
        with pytest.raises(InvalidParameter, match="accuracy"):
            MultiplicativeWeights.for_accuracy(wrong)
    assert MultiplicativeWeights.for_accuracy(8e-12).step_size == pytest.approx(1e-12)


@pytest.mark.parametrize("d", [5, 8])
def test_the_steps_of_auto_close_what_one_small_step_leaves_open(d):
    rows = load("default_credit:group__education")
    moments = GroupMoments.from_rows(rows.z_scored(ddof=0), rows.groups)
    problem = problem_from_moments(moments, d, MinimaxLoss(), "group")
    optimum = search_boundary(problem).objective
    small = MultiplicativeWeights(1.0).solve(problem, 1e-9)
    auto = MultiplicativeWeights().solve(problem, 1e-9)
    assert auto.lower_bound <= optimum + 1e-9
    assert auto.gap < 1e-6 < small.gap
    # Each step goes on from the best weights, so that no bound is lost.
    lower = [point.lower_bound for point in auto.trace]
    assert lower == sorted(lower)
    assert len(auto.trace) <= 100


def test_supported_problems_and_parameters():
    matrices = random_moments(np.random.default_rng(0), 3, 4)
    solver = MultiplicativeWeights()
    for criterion in MINIMAX:
        assert solver.unsupported_reason(build_problem(matrices, 2, criterion)) is None
    assert "minimax" in solver.unsupported_reason(build_problem(matrices, 2, ErrorGap()))
    assert "two groups" in solver.unsupported_reason(build_problem(matrices[:1], 2, MinimaxLoss()))
    step_sizes = [{"step_size": value} for value in (0.0, -1.0, "small")]
    for wrong in ({"max_iter": 0}, *step_sizes):
        kind = InvalidType if "small" in wrong.values() else InvalidParameter
        with pytest.raises(kind):
            MultiplicativeWeights(**wrong)
