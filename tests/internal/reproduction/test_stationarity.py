"""Stationarity, and Lipschitz constants, of the RFPCA experiments."""

import numpy as np
import pytest

from fairspan import BoundarySearch, ErrorGap, RobustErrorGap
from fairspan.solvers.published.riemannian import _PaperScores, horizontal_projection
from problems import (
    build_problem,
    finite_difference_slopes,
    random_basis,
    random_moments,
    robust_problem,
)
from reproduction.vu.stationarity import lipschitz_constant, stationarity

# The first seeds are quick together.
SEEDS = pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=() if seed < 3 else pytest.mark.slow) for seed in range(12)]
)


@pytest.mark.parametrize("k", [2, 3, 4])
@SEEDS
def test_lipschitz_constant_holds(seed, k):
    problem, rng = robust_problem(seed, k)
    p = problem.n_features
    d = problem.n_components
    constant = lipschitz_constant(problem)
    scores = _PaperScores(problem)

    def paper(basis):
        errors = problem.errors(basis)[:, None]
        return (
            scores.linear @ errors + scores.root_coefficients @ np.sqrt(errors) + scores.constant
        ).max()

    for length in (1e-3, 0.1, 1.0, 10.0):
        first = random_basis(rng, p, d)
        second = np.linalg.qr(first + length * rng.standard_normal((p, d)))[0]
        # |U - U'| and |V - V'| with the bases that lie closest: the same principal angles.
        cosines = np.linalg.svd(first.T @ second, compute_uv=False).clip(max=1)
        distance = np.sqrt(max(2 * (1 - cosines).sum(), 0.0))
        for function in (problem.objective, paper):
            assert abs(function(first) - function(second)) <= constant * distance + 1e-9
        assert stationarity(problem, first) <= constant * (1 + 1e-9)


def test_lipschitz_constant_is_attained_in_the_plane():
    problem = build_problem([np.diag([3.0, 1.0]), np.eye(2)], 1, ErrorGap(0.0), [0.5, 0.5])
    assert lipschitz_constant(problem) == pytest.approx(1.0)  # C = diag(2, 1)
    diagonal = np.array([[1.0], [1.0]]) / np.sqrt(2)
    assert stationarity(problem, diagonal) == pytest.approx(1.0)
    assert stationarity(problem, np.array([[1.0], [0.0]])) == pytest.approx(0.0, abs=1e-12)


@SEEDS
def test_stationarity_is_the_gradient_far_from_a_tie_and_zero_at_the_optimum(seed):
    problem, rng = robust_problem(seed)
    optimum = BoundarySearch().solve(problem, 1e-12).components.T
    assert stationarity(problem, optimum) <= 1e-4 * lipschitz_constant(problem)
    basis = random_basis(rng, problem.n_features, problem.n_components)
    units = np.eye(basis.size).reshape(-1, *basis.shape)
    directions = [horizontal_projection(basis, unit) for unit in units]
    numerical = np.linalg.norm(finite_difference_slopes(problem.objective, basis, directions))
    scores = problem.criterion.scores(problem.errors(basis), problem)
    if abs(scores[0] - scores[1]) > numerical / 2:
        assert stationarity(problem, basis) == pytest.approx(numerical, rel=1e-5)
    else:
        assert stationarity(problem, basis) <= numerical * (1 + 1e-5)


@pytest.mark.parametrize(
    ("matrices", "d"),
    [(np.zeros((2, 3, 3)), 1), (random_moments(np.random.default_rng(1), 2, 3), 3)],
)
def test_without_variance_and_in_all_dimensions_every_subspace_is_stationary(matrices, d):
    problem = build_problem(matrices, d, RobustErrorGap())
    assert stationarity(problem, np.eye(3)[:, :d]) == pytest.approx(0.0, abs=1e-6)
