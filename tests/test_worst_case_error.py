"""Errors at the worst distribution near the rows, and the distance by which it is near."""

import numpy as np
import pytest
import scipy.linalg

import fairspan as fs
from fairspan import metrics
from fairspan.errors import InvalidInput, InvalidParameter, UnknownGroup

RNG = np.random.default_rng(4)
GROUPS = np.array(["a", "b", "b"] * 30)
X = RNG.standard_normal((90, 5)) * [3, 2, 2, 1, 0.5] + 2 * (GROUPS == "b")[:, None]
RADIUS = {"a": 0.7, "b": 0.3}


@pytest.fixture(scope="module")
def fair():
    return fs.FairPCA(2).fit(X, sensitive_features=GROUPS)


def moments_of(rows):
    return rows.mean(axis=0), np.cov(rows, rowvar=False, ddof=0)


def move(rows, subspace, eps, sign=1.0):
    """x + sqrt(eps / e) (I - VV')(x - mean)."""
    outside = (rows - subspace.mean) @ (np.eye(5) - subspace.projector.basis @ subspace.components)
    error = float((outside**2).sum(axis=1).mean())
    return rows + sign * np.sqrt(eps / error) * outside


def error_of(rows, subspace):
    return float(((rows - subspace.inverse_transform(subspace.transform(rows))) ** 2).sum(1).mean())


@pytest.mark.parametrize("least", [False, True])
def test_the_worst_case_is_attained_at_the_edge_of_the_ball(fair, least):
    subspace = fair.subspace_
    sign = -1.0 if least else 1.0
    worst = metrics.worst_case_error(fair, X, GROUPS, RADIUS, best_case=least)
    for label, eps in RADIUS.items():
        rows = X[label == GROUPS]
        moved_rows = move(rows, subspace, eps, sign)
        apart = metrics.gaussian_wasserstein(*moments_of(rows), *moments_of(moved_rows))
        assert apart == pytest.approx(eps, rel=1e-9)
        assert error_of(moved_rows, subspace) == pytest.approx(worst[label], rel=1e-10)


def test_no_other_distribution_at_that_distance_has_a_larger_error(fair):
    subspace = fair.subspace_
    worst = metrics.worst_case_error(fair, X, GROUPS, RADIUS)
    lowest = metrics.worst_case_error(fair, X, GROUPS, RADIUS, best_case=True)
    rows = X[GROUPS == "a"]
    eps = RADIUS["a"]
    rng = np.random.default_rng(0)
    for _ in range(8):
        turn = 0.5 * rng.standard_normal((5, 5))
        step = rows @ turn + rng.standard_normal(5)
        # The linear map that is as far as the ball allows, along this direction.
        ends = [0.0, 8.0]
        for _ in range(40):
            middle = sum(ends) / 2
            moved_rows = rows + middle * step
            near = metrics.gaussian_wasserstein(*moments_of(rows), *moments_of(moved_rows)) <= eps
            ends[0 if near else 1] = middle
        error = error_of(rows + ends[0] * step, subspace)
        assert lowest["a"] - 1e-9 <= error <= worst["a"] + 1e-9


def test_a_robust_models_objective_is_made_of_worst_cases():
    """Equation (4): with lambda = 0 the objective is the shares of the worst errors."""
    robust = fs.FairPCA(2, criterion=fs.RobustErrorGap(0.0, 0.8)).fit(X, sensitive_features=GROUPS)
    worst = metrics.worst_case_error(robust, robust.moments_, radius=0.8)
    by_rows = metrics.worst_case_error(robust, X, GROUPS, 0.8)
    assert worst == pytest.approx(by_rows)
    shares = robust.moments_.weights / robust.moments_.weights.sum()
    assert robust.solution_.objective == pytest.approx(shares @ list(worst.values()))


def test_an_audit_of_a_robust_model_has_the_worst_cases(fair):
    robust = fs.FairPCA(2, criterion=fs.RobustErrorGap(0.5, 0.8)).fit(X, sensitive_features=GROUPS)
    audit = fs.audit({"robust": robust, "fair": fair}, X, GROUPS, folds=None)
    by_name = {model.name: model for model in audit.models}
    worst = metrics.worst_case_error(robust, X, GROUPS, 0.8)
    assert by_name["robust"].worst_case_errors == pytest.approx(list(worst.values()))
    assert by_name["fair"].worst_case_errors is None
    assert "worst-case errors" in " ".join(str(audit).split())
    other = fs.FairPCA(2, criterion=fs.RobustErrorGap(0.5, RADIUS))
    other.fit(X, sensitive_features=GROUPS)
    only = fs.audit(other, X[GROUPS == "a"], GROUPS[GROUPS == "a"], folds=None)
    assert only.models[0].worst_case_errors is None


def test_an_error_below_the_radius_may_vanish(fair):
    near = metrics.worst_case_error(fair, X, GROUPS, {"a": 1e3, "b": 0.0}, best_case=True)
    assert near["a"] == 0.0
    assert near["b"] == pytest.approx(metrics.reconstruction_error(fair, X, GROUPS)["b"])


@pytest.mark.parametrize("seed", range(5))
def test_the_distance_agrees_with_matrix_square_roots(seed):
    rng = np.random.default_rng(seed)
    first, second = (root @ root.T for root in rng.standard_normal((2, 4, 4)))
    means = rng.standard_normal((2, 4))
    root = scipy.linalg.sqrtm(first)
    cross = np.trace(scipy.linalg.sqrtm(root @ second @ root)).real
    expected = ((means[0] - means[1]) ** 2).sum() + np.trace(first + second) - 2 * cross
    distance = metrics.gaussian_wasserstein(means[0], first, means[1], second)
    assert distance == pytest.approx(expected, rel=1e-8)
    assert metrics.gaussian_wasserstein(means[0], first, means[0], first) < 1e-12


def test_the_distance_of_covariances_that_commute_and_of_points():
    ones = np.zeros(3)
    variances = np.array([4.0, 9.0, 0.0]), np.array([1.0, 0.0, 16.0])
    distance = metrics.gaussian_wasserstein(
        ones, np.diag(variances[0]), ones, np.diag(variances[1])
    )
    assert distance == pytest.approx(1 + 9 + 16)
    empty = np.zeros((3, 3))
    assert metrics.gaussian_wasserstein([1, 2, 3], empty, [1, 2, 5], empty) == 4.0


@pytest.mark.parametrize(
    "wrong",
    [
        ([0.0], np.eye(2), [0.0, 0.0], np.eye(2)),
        ([0.0, 0.0], np.eye(2), [0.0, 0.0, 0.0], np.eye(2)),
        ([0.0, 0.0], -np.eye(2), [0.0, 0.0], np.eye(2)),
        ([0.0, 0.0], [[1.0, 0.5], [0.0, 1.0]], [0.0, 0.0], np.eye(2)),
        ([0.0, np.nan], np.eye(2), [0.0, 0.0], np.eye(2)),
    ],
)
def test_invalid_means_and_covariances_are_refused(wrong):
    with pytest.raises(InvalidInput, match="Allowed"):
        metrics.gaussian_wasserstein(*wrong)


def test_radii_are_checked(fair):
    with pytest.raises(InvalidParameter, match="best_case is 'no'"):
        metrics.worst_case_error(fair, X, GROUPS, best_case="no")
    with pytest.raises(InvalidParameter, match="radius"):
        metrics.worst_case_error(fair, X, GROUPS, -1.0)
    with pytest.raises(UnknownGroup, match="radius is given for"):
        metrics.worst_case_error(fair, X, GROUPS, {"a": 1.0})


def test_a_search_chooses_what_neg_error_plus_gap_prefers():
    """Compare the scorer with -(ARE + ABDiff) of each fold's held-out rows."""
    from sklearn.model_selection import GridSearchCV

    folds = [(np.arange(90)[30:], np.arange(30)), (np.arange(60), np.arange(60, 90))]
    grid = {"criterion__penalty": [0.0, 2.0]}
    model = fs.FairPCA(2, criterion=fs.RobustErrorGap(radius=0.15))
    search = GridSearchCV(model, grid, scoring=metrics.neg_error_plus_gap, cv=folds)
    search.fit(X, GROUPS, sensitive_features=GROUPS)
    scores = search.cv_results_["mean_test_score"]
    for penalty, score in zip(grid["criterion__penalty"], scores, strict=True):
        reference = []
        for train, test in folds:
            fit = fs.FairPCA(2, criterion=fs.RobustErrorGap(penalty, 0.15))
            fit.fit(X[train], sensitive_features=GROUPS[train])
            errors = -fit.score_samples(X[test])
            gap = errors[GROUPS[test] == "a"].mean() - errors[GROUPS[test] == "b"].mean()
            reference.append(-errors.mean() - abs(gap))
        assert score == pytest.approx(np.mean(reference))
