"""Optima that are known: of one group, of scikit-learn, by brute force and by a conic solver."""

import numpy as np
import pytest
import scipy
from scipy.optimize import minimize
from sklearn.cross_decomposition import CCA, PLSSVD

from cross_decomposition.paired_tables import (
    captured_covariance,
    cross_covariances,
    draw_tables,
    max_covariance,
)
from fairspan.cross_decomposition import FairCCA, FairPLS


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("scale", [False, True])
def test_pooled_covariance_is_that_of_plssvd(d, scale):
    X, Y, groups = draw_tables(groups="abc")
    fair = FairPLS(d, criterion="total_covariance", scale=scale)
    fair.fit(X, Y, sensitive_features=groups)
    theirs = PLSSVD(d, scale=scale).fit(X, Y)
    np.testing.assert_allclose(
        fair.x_weights_ @ fair.y_weights_.T, theirs.x_weights_ @ theirs.y_weights_.T, atol=1e-10
    )
    # Of unscaled columns the scores are equal up to signs; scikit-learn scales by n - 1.
    x_scores, y_scores = fair.transform(X, Y)
    factor = np.sqrt(len(X) / (len(X) - 1)) if scale else 1.0
    for mine, other in zip((x_scores, y_scores), theirs.transform(X, Y), strict=True):
        np.testing.assert_allclose(np.abs(mine), factor * np.abs(other), atol=1e-10)


def test_pooled_correlations_are_canonical_correlations():
    X, Y, groups = draw_tables(n=500)
    fair = FairCCA(2, criterion="total_covariance").fit(X, Y, sensitive_features=groups)
    x_scores, y_scores = CCA(2, tol=1e-14, max_iter=20_000).fit(X, Y).transform(X, Y)
    theirs = [np.corrcoef(x_scores[:, j], y_scores[:, j])[0, 1] for j in range(2)]
    np.testing.assert_allclose(fair.covariances_, theirs, atol=1e-7)
    # And those of scipy: cosines of the angles between the spans of the centered columns.
    centered = [table - table.mean(axis=0) for table in (X, Y)]
    cosines = np.sort(np.cos(scipy.linalg.subspace_angles(*centered)))[::-1]
    np.testing.assert_allclose(fair.covariances_, cosines[:2], atol=1e-12)


def test_scores_of_cca_are_uncorrelated_and_of_unit_variance():
    X, Y, groups = draw_tables()
    fair = FairCCA(2).fit(X, Y, sensitive_features=groups)
    for scores in fair.transform(X, Y):
        np.testing.assert_allclose(np.cov(scores.T, ddof=0), np.eye(2), atol=1e-10)


@pytest.mark.parametrize("seed", range(5))
def test_a_single_pair_of_two_by_two_tables_is_the_best_of_all_angles(seed):
    X, Y, groups = draw_tables(seed, p=2, q=2)
    fair = FairPLS(1).fit(X, Y, sensitive_features=groups)
    matrices = cross_covariances(X, Y, groups)
    best = [max_covariance(C, 1) for C in matrices]
    angles = np.linspace(0, 2 * np.pi, 1_441)
    x_axes = y_axes = np.array([np.cos(angles), np.sin(angles)])
    losses = [most - x_axes.T @ C @ y_axes for most, C in zip(best, matrices, strict=True)]
    smallest = np.max(losses, axis=0).min()
    assert fair.solution_.objective <= smallest + 1e-12
    assert fair.solution_.objective == pytest.approx(smallest, abs=0.01)
    assert fair.solution_.status == "optimal"


@pytest.mark.parametrize("criterion", ["minimax_loss", "minimax_relative_loss"])
@pytest.mark.parametrize("d", [1, 2])
def test_the_bound_of_two_groups_is_the_best_mixture(criterion, d):
    X, Y, groups = draw_tables(2)
    fair = FairPLS(d, criterion=criterion).fit(X, Y, sensitive_features=groups)
    matrices = cross_covariances(X, Y, groups)
    best = np.array([max_covariance(C, d) for C in matrices])
    divisors = best if criterion == "minimax_relative_loss" else np.ones(2)

    def bound(share):
        weights = np.array([share, 1 - share]) / divisors
        return weights @ best - max_covariance(np.tensordot(weights, matrices, 1), d)

    highest = max(bound(share) for share in np.linspace(0, 1, 2_001))
    assert fair.solution_.objective == pytest.approx(highest, rel=1e-5)
    assert fair.solution_.objective >= highest - 1e-12


def values(matrices, best, criterion):
    """Return the criterion as a function of the groups' captured covariances."""
    if criterion == "nash_welfare":
        return lambda c: -np.mean(np.log(np.maximum(c, 1e-12)))
    divisors = best if criterion == "minimax_relative_loss" else 1.0
    return lambda c: np.max((best - c) / divisors)


@pytest.mark.long
@pytest.mark.parametrize("criterion", ["minimax_loss", "minimax_relative_loss", "nash_welfare"])
@pytest.mark.parametrize("n_groups", [2, 3])
def test_no_descent_finds_a_better_pair(criterion, n_groups):
    X, Y, groups = draw_tables(4, p=3, q=3, groups="abc"[:n_groups], shared=1.0)
    fair = FairPLS(1, criterion=criterion, tol=1e-10).fit(X, Y, sensitive_features=groups)
    matrices = cross_covariances(X, Y, groups)
    best = np.array([max_covariance(C, 1) for C in matrices])
    value = values(matrices, best, criterion)

    def objective(parameters):
        u = parameters[:3]
        v = parameters[3:]
        u, v = u / np.linalg.norm(u), v / np.linalg.norm(v)
        return value(np.array([u @ C @ v for C in matrices]))

    rng = np.random.default_rng(0)
    smallest = min(
        minimize(
            objective, rng.normal(size=6), method="Nelder-Mead", options={"maxiter": 4_000}
        ).fun
        for _ in range(40)
    )
    certificate = fair.solution_
    assert smallest >= certificate.lower_bound - certificate.assessment.resolution
    assert certificate.objective <= smallest + 1e-9
    assert certificate.objective == pytest.approx(smallest, abs=1e-3 * max(1.0, abs(smallest)))


@pytest.mark.slow
@pytest.mark.parametrize("n_groups", [2, 4])
@pytest.mark.parametrize("criterion", ["minimax_loss", "nash_welfare"])
def test_the_bound_is_the_optimum_of_the_relaxed_conic_program(criterion, n_groups):
    """Products UV' have the convex hull of spectral norm at most 1 and nuclear norm at most d."""
    cvxpy = pytest.importorskip("cvxpy")
    X, Y, groups = draw_tables(7, p=4, q=3, groups="abcd"[:n_groups], shared=1.0)
    fair = FairPLS(2, criterion=criterion).fit(X, Y, sensitive_features=groups)
    matrices = cross_covariances(X, Y, groups)
    M = cvxpy.Variable((4, 3))
    captured = cvxpy.hstack([cvxpy.sum(cvxpy.multiply(C, M)) for C in matrices])
    if criterion == "nash_welfare":
        objective = -cvxpy.sum(cvxpy.log(captured)) / n_groups
    else:
        best = np.array([max_covariance(C, 2) for C in matrices])
        objective = cvxpy.max(best - captured)
    problem = cvxpy.Problem(
        cvxpy.Minimize(objective), [cvxpy.norm(M, 2) <= 1, cvxpy.norm(M, "nuc") <= 2]
    )
    problem.solve(solver=cvxpy.CLARABEL)
    assert fair.solution_.lower_bound == pytest.approx(problem.value, abs=2e-6)
    assert fair.solution_.objective >= problem.value - 1e-6


def test_figures_follow_from_the_weights():
    X, Y, groups = draw_tables(groups="abc")
    for center in ("global", "group", "none"):
        fair = FairPLS(2, center=center).fit(X, Y, sensitive_features=groups)
        matrices = cross_covariances(X, Y, groups, center=center)
        U, V = fair.x_weights_, fair.y_weights_
        np.testing.assert_allclose(U.T @ U, np.eye(2), atol=1e-12)
        np.testing.assert_allclose(V.T @ V, np.eye(2), atol=1e-12)
        np.testing.assert_allclose(
            fair.group_covariances_, [captured_covariance(C, U, V) for C in matrices], rtol=1e-10
        )
        np.testing.assert_allclose(
            fair.group_best_covariances_, [max_covariance(C, 2) for C in matrices], rtol=1e-12
        )
        assert fair.solution_.objective == pytest.approx(fair.group_losses_.max(), rel=1e-12)


def test_one_group_loses_nothing():
    X, Y, _ = draw_tables()
    only = FairPLS(2).fit(X, Y, sensitive_features=["all"] * len(X))
    usual = FairPLS(2, criterion="total_covariance").fit(X, Y, sensitive_features=["all"] * len(X))
    np.testing.assert_allclose(
        only.x_weights_ @ only.y_weights_.T, usual.x_weights_ @ usual.y_weights_.T, atol=1e-8
    )
    assert only.solution_.status == "optimal"
    assert only.group_losses_[0] <= 1e-10


@pytest.mark.parametrize("method", [FairPLS, FairCCA])
@pytest.mark.parametrize("tables", ["both", "x", "y"])
def test_scores_of_all_groups_have_the_same_mean(method, tables):
    X, Y, groups = draw_tables()
    X = X + np.where(groups == "a", 3.0, 0.0)[:, None]
    Y = Y + np.where(groups == "a", 1.0, 0.0)[:, None] * [1, 2, 3, 0]
    hidden = method(2, restriction="mean_parity", restricted_tables=tables)
    hidden.fit(X, Y, sensitive_features=groups)
    free = method(2).fit(X, Y, sensitive_features=groups)
    for name, scores in zip("xy", hidden.transform(X, Y), strict=True):
        distance = np.abs(scores[groups == "a"].mean(axis=0) - scores[groups == "b"].mean(axis=0))
        if tables in ("both", name):
            assert distance.max() <= 1e-10
        else:
            assert distance.max() > 1e-3
    assert hidden.solution_.objective >= free.solution_.objective - 1e-12
    np.testing.assert_allclose(
        hidden.group_best_covariances_, free.group_best_covariances_, rtol=1e-10
    )
    assert hidden.solution_.status == "optimal"


def test_a_restricted_pair_is_the_best_of_tables_without_the_mean_differences():
    X, Y, groups = draw_tables(3)
    X = X + np.where(groups == "a", 3.0, 0.0)[:, None]
    hidden = FairPLS(1, restriction="mean_parity", restricted_tables="x", scale=False)
    hidden.fit(X, Y, sensitive_features=groups)
    difference = X[groups == "a"].mean(axis=0) - X[groups == "b"].mean(axis=0)
    complement = scipy.linalg.null_space(difference[None])
    matrices = cross_covariances(X, Y, groups, scale=False)
    best = np.array([max_covariance(C, 1) for C in matrices])
    shares = np.linspace(0, 1, 4_001)
    bounds = [
        np.array([share, 1 - share]) @ best
        - max_covariance(complement.T @ (share * matrices[0] + (1 - share) * matrices[1]), 1)
        for share in shares
    ]
    assert hidden.solution_.objective == pytest.approx(max(bounds), rel=1e-5)
