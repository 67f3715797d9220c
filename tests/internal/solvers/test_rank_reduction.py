"""Ranks of relaxed solutions, and single steps of the local descent."""

import numpy as np
import pytest

from case_selection import mark_most_slow, select_cases
from fairspan import ErrorGap, GroupMoments, MinimaxError, MinimaxLoss
from fairspan.solvers.local_descent import Iterate, QuadraticModel
from fairspan.solvers.rank_reduction import max_relaxed_rank, reduce_rank
from internal.relaxations import solve_relaxation
from problems import (
    build_problem,
    problem_from_moments,
    random_moments,
)
from real_data import MANY_GROUP_NAMES, load

DIMENSIONS = (1, 3, 10)


@pytest.fixture(scope="module", params=MANY_GROUP_NAMES)
def real_moments(request):
    rows = load(request.param)
    return request.param, GroupMoments.from_rows(rows.z_scored(ddof=0), rows.groups)


@pytest.mark.parametrize("d", mark_most_slow(DIMENSIONS[::-1], 3))
def test_rank_reduction_preserves_the_relaxation_of_real_data(real_moments, d):
    _, moments = real_moments
    problem = problem_from_moments(moments, d, MinimaxLoss())
    check_reduction(problem, solve_relaxation(problem))


def check_reduction(problem, relaxation):
    values = np.linalg.eigvalsh(relaxation.best_relaxed.basis @ relaxation.best_relaxed.basis.T)
    assert values.min() >= -1e-9
    assert values.max() <= 1 + 1e-9
    assert values.sum() == pytest.approx(problem.n_components, abs=1e-9)
    soft = reduce_rank(problem.second_moments, problem.pieces, relaxation.best_relaxed.basis)
    assert soft.shape[1] <= max_relaxed_rank(problem.n_components, problem.n_groups)
    gram = soft.T @ soft
    np.testing.assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-9)
    assert np.trace(gram) == pytest.approx(problem.n_components, abs=1e-7)
    value = problem.pieces.value(problem.errors(soft))
    assert value <= relaxation.upper_bound + 1e-8 * problem.total_variance


@pytest.mark.parametrize(("k", "extra"), [(1, 0), (2, 0), (3, 1), (5, 1), (6, 2), (9, 2), (16, 4)])
def test_the_bound_on_the_rank(k, extra):
    # Pataki: r fractional eigenvalues need r (r + 1) / 2 equations, one of which is the trace.
    assert max_relaxed_rank(7, k) == 7 + extra
    fractional = max(r for r in range(20) if r * (r + 1) / 2 <= k)
    assert extra == max(fractional - 1, 0)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", select_cases(range(20), 4))
def test_rank_reduction_preserves_the_relaxation_of_random_problems(seed):
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 12))
    p = int(rng.integers(3, 12))
    d = int(rng.integers(1, p))
    criterion = [MinimaxLoss(), MinimaxError(), ErrorGap(0.5)][seed % 3]
    problem = build_problem(random_moments(rng, k, p), d, criterion)
    check_reduction(problem, solve_relaxation(problem))


def test_rank_reduction_from_shares_of_all_dimensions():
    """P = (d / p) I has as many fractional eigenvalues as there can be."""
    problem = build_problem(random_moments(np.random.default_rng(5), 6, 9), 4, MinimaxError())
    even = np.eye(9) * np.sqrt(4 / 9)
    soft = reduce_rank(problem.second_moments, problem.pieces, even)
    assert soft.shape[1] <= max_relaxed_rank(4, 6)
    assert np.sum(soft**2) == pytest.approx(4)
    original_value, reduced_value = (
        problem.pieces.value(problem.errors(point)) for point in (even, soft)
    )
    assert reduced_value <= original_value * (1 + 1e-12)


@pytest.mark.filterwarnings("error")
def test_a_step_without_curvature_does_not_overflow():
    # Each group pulls along an axis of its own, and neither way curves.
    square = 1e3 * np.ones((2, 2))
    matrices = np.zeros((2, 3, 3))
    matrices[0][np.ix_([0, 1], [0, 1])] = square
    matrices[1][np.ix_([0, 2], [0, 2])] = square
    problem = build_problem(matrices, 1, MinimaxError())
    iterate = Iterate.from_basis(problem, np.eye(3)[:, :1], np.full(2, 0.5))
    model = QuadraticModel(problem, iterate)
    model.curvatures = np.zeros((2, 1))
    along, multipliers, _ = model.descent_step(np.array([2.0, 1.0]))
    assert np.isfinite(along).all()
    np.testing.assert_allclose(multipliers.sum(), 1)


def test_newtons_step_where_ties_leave_little_curvature_anywhere():
    rng = np.random.default_rng(0)
    p = 40
    d = 3
    problem = build_problem(random_moments(rng, 2, p), d, MinimaxError())
    model = QuadraticModel(problem, Iterate.from_basis(problem, np.eye(p)[:, :d], np.full(2, 0.5)))
    curvatures = np.zeros((p - d, d))
    curvatures[:4] = rng.uniform(1, 2, (4, d))
    model.curvatures = curvatures
    model.half_descents = np.where(curvatures > 0, rng.standard_normal((2, p - d, d)), 0.0)
    model.column_scales = np.full(d, 2.0)
    along, multipliers = model.newton_step(np.array([0.5, 0.5]), np.array([1.0, 1.0]))
    assert np.isfinite(along).all()
    np.testing.assert_allclose(multipliers.sum(), 1)
