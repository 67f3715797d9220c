"""Changes that must not change the answer, over random problems."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from case_selection import mark_most_slow, parametrize_diagonal
from fairspan import FairPCA, NashWelfare
from numpy_reference import projector_distance
from problems import (
    MINIMAX,
    build_problem,
    dual_bound,
    minimax_value,
    random_basis,
    random_moments,
    search_boundary,
)

seeds, dimensions = st.integers(0, 10_000), st.integers(2, 9)
criteria = st.sampled_from(MINIMAX)


@given(seeds, dimensions, criteria, st.data())
def test_certificate_holds_by_numpy_alone(seed, p, criterion, data):
    d = data.draw(st.integers(1, p))
    matrices = random_moments(np.random.default_rng(seed), 2, p)
    solution = search_boundary(build_problem(matrices, d, criterion))
    rounding = 1e-12 * np.trace(matrices.sum(axis=0))
    basis = solution.components.T
    np.testing.assert_allclose(basis.T @ basis, np.eye(d), atol=1e-12)
    assert minimax_value(matrices, basis, criterion) == pytest.approx(
        solution.objective, abs=rounding
    )
    bound = dual_bound(matrices, solution.weights, d, criterion)
    assert solution.lower_bound <= bound + rounding
    # At d = p the value is zero, and so is a share of it.
    assert -solution.resolution <= solution.gap <= max(solution.absolute_tol, solution.resolution)
    assert solution.status == "optimal"
    # No random subspace is better.
    rng = np.random.default_rng(seed)
    others = [minimax_value(matrices, random_basis(rng, p, d), criterion) for _ in range(20)]
    assert min(others) >= solution.lower_bound - 1e-9 * np.trace(matrices.sum(axis=0))


@given(seeds, dimensions, criteria, st.data())
def test_rotation_and_order_of_groups_change_nothing(seed, p, criterion, data):
    d = data.draw(st.integers(1, p))
    rng = np.random.default_rng(seed)
    matrices = random_moments(rng, 2, p)
    turn = random_basis(rng, p, p)
    rotated = np.array([turn.T @ matrix @ turn for matrix in matrices])
    original = search_boundary(build_problem(matrices, d, criterion)).objective
    scale = np.trace(matrices.sum(axis=0))
    for variant in (rotated, matrices[::-1]):
        other = search_boundary(build_problem(variant, d, criterion)).objective
        assert other == pytest.approx(original, abs=2e-9 * scale)


@settings(derandomize=True, deadline=None, max_examples=15)
@given(seeds, criteria)
def test_relabeling_and_repeated_rows_change_nothing(seed, criterion):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((60, 5)) * [3, 2, 1, 1, 0.5]
    groups = np.where(rng.random(60) < 0.4, "a", "b")
    weights = rng.integers(1, 4, 60)
    fair = FairPCA(2, criterion=criterion)
    original = fair.fit(X, sensitive_features=groups, sample_weight=weights)
    errors, components = original.group_errors_, original.components_
    unweighted = fair.fit(np.repeat(X, weights, axis=0), sensitive_features=groups.repeat(weights))
    np.testing.assert_allclose(unweighted.group_errors_, errors, atol=1e-8)
    assert projector_distance(unweighted.components_, components) <= 1e-6
    renamed = np.where(groups == "a", "z", "y")
    relabeled = fair.fit(X, sensitive_features=renamed, sample_weight=weights)
    np.testing.assert_allclose(relabeled.group_errors_[::-1], errors, atol=1e-8)


@given(seeds, criteria)
def test_bounds_in_the_trace_close_in_and_count_up(seed, criterion):
    matrices = random_moments(np.random.default_rng(seed), 2, 6)
    solution = search_boundary(build_problem(matrices, 2, criterion))
    trace, last = solution.trace, solution.trace[-1]
    assert all(a.lower_bound <= b.lower_bound for a, b in pairwise(trace))
    assert all(a.upper_bound >= b.upper_bound for a, b in pairwise(trace))
    counts = [point.n_eigenproblems for point in trace]
    assert counts == sorted(counts)
    assert last.n_eigenproblems == solution.n_eigenproblems
    rounding = 1e-12 * np.trace(matrices.sum(axis=0))
    assert last.lower_bound == pytest.approx(solution.lower_bound, abs=rounding)
    assert last.upper_bound == pytest.approx(solution.objective, abs=rounding)


def test_a_loose_tolerance_stops_early_and_reports_it():
    matrices = random_moments(np.random.default_rng(3), 2, 12)
    tight = search_boundary(build_problem(matrices, 4, MINIMAX[0]), tol=1e-12)
    loose = search_boundary(build_problem(matrices, 4, MINIMAX[0]), tol=0.1)
    assert loose.n_eigenproblems < tight.n_eigenproblems
    assert loose.lower_bound <= tight.objective <= loose.objective
    assert loose.gap <= loose.absolute_tol


@pytest.mark.parametrize("seed", range(10))
def test_without_tolerance_the_gap_is_that_of_float64(seed):
    matrices = random_moments(np.random.default_rng(seed), 2, 30)
    solution = search_boundary(build_problem(matrices, 7, MINIMAX[0]), tol=0.0)
    largest = max(np.trace(matrix) for matrix in matrices)
    assert solution.absolute_tol == 0
    assert (solution.status == "optimal") == (solution.gap <= 0)
    assert (solution.status == "open gap") == (solution.gap > solution.resolution)
    assert solution.gap <= 1e-13 * largest


@pytest.mark.parametrize("seed", mark_most_slow(range(20), 4))
def test_never_worse_than_ordinary_pca_on_unscaled_columns(seed):
    # One wide column makes the total variance larger than all losses; the tolerance is a share of
    # the loss itself.
    rng = np.random.default_rng(seed)
    spread = np.diag(10.0 ** rng.uniform(0, 4, 5))
    matrices = np.array([spread @ matrix @ spread for matrix in random_moments(rng, 2, 5)])
    pooled = matrices.mean(axis=0)
    for d in (1, 2, 3):
        plain = np.linalg.eigh(pooled)[1][:, ::-1][:, :d]
        for criterion in MINIMAX:
            solution = search_boundary(build_problem(matrices, d, criterion))
            rounding = 1e-13 * max(np.trace(matrix) for matrix in matrices)
            limit = minimax_value(matrices, plain, criterion) * (1 + 1e-8) + rounding
            assert minimax_value(matrices, solution.components.T, criterion) <= limit
            assert solution.gap <= max(1e-9 * abs(solution.objective), solution.resolution)
            assert solution.resolution <= 100 * rounding


@parametrize_diagonal(angle=[0, 1e-12, 1e-9, 1e-6, 1e-3], criterion=MINIMAX)
def test_near_ties_of_any_width_are_closed_in_few_steps(criterion, angle, pytestconfig):
    most = 20 if pytestconfig.getoption("--path") == "auto" else np.inf
    for seed in range(12):
        rng = np.random.default_rng(seed)
        p = int(rng.integers(3, 12))
        turn = np.linalg.qr(np.eye(p) + angle * rng.standard_normal((p, p)))[0]
        first = np.diag(rng.uniform(0, 3, p))
        second = (turn * rng.uniform(0, 3, p)) @ turn.T
        matrices = [first, (second + second.T) / 2]
        solution = search_boundary(build_problem(matrices, int(rng.integers(1, p)), criterion))
        assert solution.status == "optimal"
        assert solution.n_eigenproblems <= most


def test_little_kept_next_to_much_variance_leaves_nash_welfare_few_digits():
    """tr S - e loses digits, which the rounding of its logarithm shows."""
    matrices = np.array([np.diag([1.0, 2.0, 1e11]), np.diag([2.0, 1.0, 1e11])])
    criterion = NashWelfare()
    epsilon = np.finfo(np.float64).eps
    problem = build_problem(matrices, 1, criterion)
    traces = problem.second_moments.traces
    captured = np.array([1.0, 2.0])
    nothing = np.zeros(2)
    errors = traces - captured
    unsure = criterion.rounding_bound(nothing, errors, problem)
    value = criterion.value(errors + 2 * epsilon * traces, problem)
    assert value - criterion.value(errors, problem) <= unsure
    assert unsure == pytest.approx(6 * epsilon * (1 + (traces / captured).mean()))
    assert criterion.rounding_bound(nothing, nothing, problem) == pytest.approx(12 * epsilon)
