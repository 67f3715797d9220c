"""Problems whose optimum is known in closed form, or by trying every angle."""

import numpy as np
import pytest

from case_selection import parametrize_diagonal
from fairspan import FairPCA, GroupMoments, LeastVariance, MinimaxError, MinimaxLoss, TotalError
from fairspan.errors import InvalidInput
from problems import (
    MINIMAX,
    RELATIVE,
    basis_errors,
    build_problem,
    group_divisors,
    matrix_traces,
    minimax_value,
    minimize_over_angles,
    random_moments,
    reference_values,
    search_boundary,
    solve_exactly,
)

A, B = [[2.0, 0], [3, 0], [4, 0]], [[0.0, 1], [0, 2], [0, 3]]
TOY = np.array(A + B)
TOY_GROUPS = list("AAABBB")


def test_the_notes_toy_uncentred():
    plain = FairPCA(1, criterion="total_error", center="none")
    plain.fit(TOY, sensitive_features=TOY_GROUPS)
    np.testing.assert_allclose(np.abs(plain.components_), [[1, 0]], atol=1e-12)
    np.testing.assert_allclose(plain.group_errors_, [0, 14 / 3], atol=1e-12)
    assert plain.disparity_ == pytest.approx(14 / 3)


def test_the_notes_toy_repaired_in_closed_form():
    # S_A = diag(29/3, 0), S_B = diag(0, 14/3): losses (29/3) sin^2 and (14/3) cos^2 agree.
    fair = FairPCA(1, center="none").fit(TOY, sensitive_features=TOY_GROUPS)
    expected = (29 / 3) * (14 / 3) / (29 / 3 + 14 / 3)
    np.testing.assert_allclose(fair.group_losses_, expected, rtol=1e-9)
    np.testing.assert_allclose(fair.components_[0] ** 2, [29 / 43, 14 / 43], atol=1e-8)


def test_a_tie_of_higher_dimension_at_rank_exactly_d():
    # The optimum lies inside a flat edge that needs more than one pair to be turned.
    matrices = [np.diag([2.0, 2, 2, 1, 1, 1, 0]), np.diag([1.0, 1, 1, 2, 2, 2, 0])]
    solution = search_boundary(build_problem(matrices, 3, MinimaxLoss()))
    np.testing.assert_allclose(solution.components @ solution.components.T, np.eye(3), atol=1e-12)
    assert solution.objective == pytest.approx(1.5, abs=1e-9)
    assert solution.gap <= 1e-8


@parametrize_diagonal(k=[2, 3], criterion=MINIMAX, seed=range(8))
def test_ellipses_in_the_plane_against_every_angle(seed, criterion, k):
    matrices = random_moments(np.random.default_rng(seed), k, 2)
    solution = solve_exactly(build_problem(matrices, 1, criterion), 1e-9)
    least, _ = minimize_over_angles(lambda basis: minimax_value(matrices, basis, criterion))
    scale = (matrix_traces(matrices) / group_divisors(matrices, criterion)).max()
    assert solution.lower_bound <= least + 1e-12 * scale
    assert solution.objective == pytest.approx(least, abs=1e-8 * scale)
    reached = minimax_value(matrices, solution.components.T, criterion)
    assert reached == pytest.approx(solution.objective, abs=1e-12 * scale)


def test_minimax_error_at_an_end_keeps_unequal_errors():
    # Group 1 has far more variance: its own best subspace is the answer, its error the bound.
    matrices = np.array([np.diag([9.0, 8.0, 7.0]), np.diag([0.1, 0.2, 0.3])])
    solution = search_boundary(build_problem(matrices, 1, MinimaxError()))
    assert solution.objective == pytest.approx(15.0)
    assert solution.weights.tolist() == [1.0, 0.0]
    assert solution.gap <= 1e-12
    assert basis_errors(matrices, solution.components.T)[1] < 1


def test_minimax_error_at_a_tied_end_takes_the_pareto_point():
    # Group 1 is indifferent between the first two axes; group 2 is not.
    matrices = np.array([np.diag([5.0, 5.0, 4.0]), np.diag([0.0, 1.0, 0.0])])
    for order in ([0, 1], [1, 0]):
        solution = search_boundary(build_problem(matrices[order], 1, MinimaxError()))
        errors = basis_errors(matrices, solution.components.T)
        np.testing.assert_allclose(errors, [9.0, 0.0], atol=1e-12)


def test_minimax_loss_of_groups_that_share_a_best_subspace_is_zero():
    # Each group is indifferent inside its own eigenspace; one choice serves both fully.
    matrices = [np.diag([3.0, 3.0, 0.0]), np.diag([0.0, 2.0, 2.0])]
    solution = search_boundary(build_problem(matrices, 1, MinimaxLoss()))
    assert solution.objective == pytest.approx(0, abs=1e-9)
    np.testing.assert_allclose(np.abs(solution.components), [[0, 1, 0]], atol=1e-4)


@pytest.mark.parametrize("criterion", [*MINIMAX, TotalError()], ids=str)
@pytest.mark.parametrize("d", [1, 3, 5])
def test_equal_moments_give_the_common_eigenvectors(criterion, d):
    matrix = random_moments(np.random.default_rng(5), 1, 5)[0]
    solution = search_boundary(build_problem([matrix, matrix], d, criterion, [0.3, 0.7]))
    top = np.linalg.eigh(matrix)[1][:, ::-1][:, :d]
    projector = solution.components.T @ solution.components
    np.testing.assert_allclose(projector, top @ top.T, atol=1e-8)


@pytest.mark.parametrize("criterion", [*MINIMAX, TotalError()], ids=str)
def test_one_group_is_ordinary_pca_and_its_bound_comes_from_the_spectrum_alone(criterion):
    matrix = random_moments(np.random.default_rng(6), 1, 6)
    solution = search_boundary(build_problem(matrix, 2, criterion))
    values, vectors = np.linalg.eigh(matrix[0])
    top = vectors[:, -2:]
    np.testing.assert_allclose(solution.components.T @ solution.components, top @ top.T, atol=1e-8)
    assert solution.status == "optimal"
    expected = values[:-2].sum()
    if criterion in MINIMAX:
        expected = reference_values(matrix, 2, criterion)[0] - values[-2:].sum()
        expected /= group_divisors(matrix, criterion)[0]
    assert solution.lower_bound == pytest.approx(expected, abs=1e-12 * np.trace(matrix[0]))
    assert solution.trace[-1].upper_bound == pytest.approx(solution.objective, rel=1e-12)


@pytest.mark.counts
@pytest.mark.parametrize("criterion", [*MINIMAX, TotalError()], ids=str)
def test_one_group_takes_one_eigenproblem(criterion):
    matrix = random_moments(np.random.default_rng(6), 1, 6)
    assert search_boundary(build_problem(matrix, 2, criterion)).n_eigenproblems == 1


@pytest.mark.parametrize("criterion", MINIMAX, ids=str)
def test_all_dimensions_lose_nothing(criterion):
    matrices = random_moments(np.random.default_rng(7), 2, 4)
    solution = search_boundary(build_problem(matrices, 4, criterion))
    captured = matrix_traces(matrices).min() if isinstance(criterion, LeastVariance) else 0.0
    assert solution.objective == pytest.approx(
        -captured, abs=1e-12 * np.trace(matrices.sum(axis=0))
    )
    assert solution.status == "optimal"


@pytest.mark.parametrize("criterion", MINIMAX, ids=str)
def test_no_variance_at_all(criterion):
    problem = build_problem(np.zeros((2, 3, 3)), 1, criterion)
    if criterion in RELATIVE:
        with pytest.raises(InvalidInput, match=r"variance.* none: 'group 0', 'group 1'"):
            search_boundary(problem)
        return
    solution = search_boundary(problem)
    assert (solution.objective, solution.status) == (0, "optimal")


def test_total_error_takes_any_number_of_groups():
    matrices = random_moments(np.random.default_rng(8), 5, 6)
    shares = [0.1, 0.2, 0.3, 0.15, 0.25]
    solution = search_boundary(build_problem(matrices, 2, TotalError(), shares))
    pooled = np.tensordot(shares, matrices, axes=1)
    assert solution.objective == pytest.approx(np.linalg.eigvalsh(pooled)[:-2].sum())
    assert solution.gap <= 1e-12 * np.trace(pooled)


def test_moments_alone_give_the_same_as_rows():
    moments = GroupMoments.from_rows(TOY, TOY_GROUPS)
    by_rows = FairPCA(1).fit(TOY, sensitive_features=TOY_GROUPS)
    by_moments = FairPCA(1).fit_moments(moments)
    assert by_rows.components_.tobytes() == by_moments.components_.tobytes()


def test_nash_welfare_of_many_groups_is_the_best_direction_of_many():
    """The bound is open here. Another local optimum, 6 % worse, was returned once."""
    rng = np.random.default_rng(10)
    covariances = []
    for _ in range(23):
        root = rng.normal(size=(3, 3)) * rng.uniform(0.3, 2, 3)
        covariances.append(root @ root.T)
    moments = GroupMoments.from_covariances(np.array(covariances), weights=np.ones(23))
    fair = FairPCA(1, criterion="nash_welfare").fit_moments(moments)
    directions = rng.normal(size=(100_000, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    captured = np.einsum(
        "ni,gij,nj->ng", directions, np.array(covariances), directions, optimize=True
    )
    assert fair.solution_.objective <= -np.log(captured).mean(axis=1).max()
