"""Splits, standardizing, folds, ABDiff, ARE and stationarity of the RFPCA experiments."""

import numpy as np
import pytest

from fairspan.errors import InvalidInput
from fairspan.problem.criteria.error_gap import ErrorGap, RobustErrorGap
from fairspan.solvers.published.riemannian import _PaperScores, horizontal_projection
from fairspan.solvers.two_groups.boundary_search import BoundarySearch
from problems import (
    build_problem,
    finite_difference_slopes,
    random_basis,
    random_moments,
    robust_problem,
)
from reproduction.vu.protocol import (
    Part,
    errors_of,
    fold_rows,
    split_rows,
    standardized,
)
from reproduction.vu.stationarity import lipschitz_constant, stationarity


def test_a_split_shares_out_every_row_once_and_depends_on_the_seed_alone():
    train, test = split_rows(11, 0.3, seed=4)
    assert len(train) == 3  # round(3.3)
    assert sorted([*train, *test]) == list(range(11))
    assert (split_rows(50, 0.3, 1)[0] == split_rows(50, 0.3, 1)[0]).all()
    assert (split_rows(50, 0.3, 1)[0] != split_rows(50, 0.3, 2)[0]).any()


def test_folds_judge_every_row_once_and_never_what_they_are_fitted_on():
    folds = fold_rows(10, 3, seed=0)
    assert [len(judged) for _, judged in folds] == [4, 3, 3]
    assert sorted(np.concatenate([judged for _, judged in folds])) == list(range(10))
    for fitted, judged in folds:
        assert sorted([*fitted, *judged]) == list(range(10))


def test_the_training_part_alone_standardizes():
    X = np.array([[1.0, 5.0, 0.1], [3.0, 5.0, 0.1], [10.0, 8.0, 0.2]])
    rows = standardized(X, np.array([0, 1]))
    # Mean 2 and deviation 1; a column constant in training is centered, not divided.
    np.testing.assert_allclose(rows, [[-1, 0, 0], [1, 0, 0], [8, 3, 0.1]], atol=1e-15)
    # Faces are centered only.
    rows = standardized(2 * X, np.array([0, 1]), scale=False)
    np.testing.assert_allclose(rows, [[-2, 0, 0], [2, 0, 0], [16, 6, 0.2]], atol=1e-15)


def test_a_column_that_is_constant_up_to_rounding_is_not_blown_up():
    X = np.full((30, 1), 0.1)
    X[-1] = 0.2
    assert np.abs(standardized(X, np.arange(29))).max() == pytest.approx(0.1)


def test_gap_and_error_by_hand():
    rows = np.array([[5.0, 1.0], [7.0, 3.0], [9.0, 2.0]])
    part = Part(rows, np.array(["a", "a", "b"]))
    errors = errors_of(np.array([[1.0, 0.0]]), part)
    # Errors are the squares of the second column: 1, 9 and 4; means of the groups 5 and 4.
    assert (errors.gap, errors.error) == pytest.approx((1, 14 / 3))
    # About the groups' own means 2 and 2: 1, 1 and 0.
    assert errors.gap_about_own_means == pytest.approx(1)
    # Groups are weighted by their rows in the error and not in the gap.
    rows = np.array([[0.0, 1.0], [0.0, -1.0], [0.0, 1.0], [0.0, 5.0]])
    errors = errors_of(np.array([[1.0, 0.0]]), Part(rows, np.array(["a", "a", "a", "b"])))
    assert (errors.gap, errors.error) == pytest.approx((24, 7))


def test_one_group_has_no_gap():
    with pytest.raises(InvalidInput, match="two mean errors"):
        errors_of(np.array([[1.0, 0.0]]), Part(np.ones((2, 2)), np.array(["a", "a"])))


SEEDS = pytest.mark.parametrize("seed", range(12))


@pytest.mark.parametrize("k", [2, 3, 4])
@SEEDS
def test_lipschitz_constant_holds(seed, k):
    problem, rng = robust_problem(seed, k)
    p, d = problem.n_features, problem.n_components
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
