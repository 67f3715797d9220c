"""The worst-case criteria: published values, real data, and guarantees for other groups."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import fairspan as fs
from case_selection import ALL_CASES, parametrize_diagonal, select_cases
from fairspan import FairPCA
from fairspan.errors import InvalidInput, InvalidParameter
from fairspan.metrics import group_errors
from numpy_reference import random_rows
from problems import (
    MINIMAX,
    RELATIVE,
    build_problem,
    dual_bound,
    group_divisors,
    matrix_traces,
    minimax_value,
    random_moments,
    reference_values,
    search_boundary,
    solve_exactly,
)
from real_data import TWO_GROUPS, load, load_faces, published_pca_errors

CREDIT, ADULT = "default_credit:group__education_sex6", "adult_race5:group__race"
LOSS, ERROR, VARIANCE = *RELATIVE, fs.LeastVariance()
EVERY = settings(derandomize=True, deadline=None, max_examples=5)


@cache
def moments_of(name):
    rows = load(name)
    return fs.GroupMoments.from_rows(rows.X, rows.groups)


@pytest.mark.parametrize(
    ("name", "d", "criterion", "objective"),
    [
        (CREDIT, 3, LOSS, 0.037437),
        (CREDIT, 3, ERROR, 0.465786),
        (CREDIT, 5, LOSS, 0.040354),
        (CREDIT, 5, ERROR, 0.332996),
        (CREDIT, 5, VARIANCE, -11.9422),
        (ADULT, 10, LOSS, 0.089944),
        (ADULT, 10, ERROR, 0.668331),
        (ADULT, 10, VARIANCE, -19.9290),
    ],
    ids=str,
)
def test_the_optimum_of_real_groups_is_proven(name, d, criterion, objective):
    moments = moments_of(name)
    fair = fs.FairPCA(d, criterion=criterion, center="group", scale=True).fit_moments(moments)
    solution = fair.solution_
    digits = 5e-5 if criterion == VARIANCE else 5e-7
    assert solution.objective == pytest.approx(objective, abs=digits)
    assert solution.status == "optimal"
    assert fs.verify(fair, moments).holds
    # By numpy alone.
    scaled = moments.divided_by(fair.scale_)
    matrices = np.array([s / n for s, n in zip(scaled.scatters, scaled.weights, strict=True)])
    value = minimax_value(matrices, fair.components_.T, criterion)
    assert value == pytest.approx(solution.objective, rel=1e-10)
    ratios = fair.group_explained_variance_ratio_.sum(axis=1)
    if criterion == ERROR:
        assert ratios.min() == pytest.approx(1 - solution.objective, abs=1e-9)
    if criterion == VARIANCE:
        assert (ratios * matrix_traces(matrices)).min() == pytest.approx(-solution.objective)


@EVERY
@given(st.integers(0, 10_000), st.integers(2, 5), st.sampled_from(MINIMAX))
def test_no_mixture_of_the_groups_has_more_than_the_value(seed, k, criterion):
    """Groups never seen: any second moment in the convex hull, normalized where relative."""
    rng = np.random.default_rng(seed)
    p = int(rng.integers(3, 7))
    matrices = random_moments(rng, k, p)
    d = int(rng.integers(1, p))
    solution = solve_exactly(build_problem(matrices, d, criterion), 1e-9)
    basis = solution.components.T
    size = np.trace(matrices, axis1=1, axis2=2).max()
    corners = matrices / group_divisors(matrices, criterion)[:, None, None]
    for shares in rng.dirichlet(np.full(k, 0.5), 50):
        stranger = np.tensordot(shares, corners, axes=1)
        # Its own optimum counts for losses, since t_d is convex.
        missing = reference_values(stranger[None], d, criterion)[0] - np.trace(
            basis.T @ stranger @ basis
        )
        assert missing <= solution.objective + 1e-9 * size
        if criterion in RELATIVE:
            # Normalized matrices have trace one, and so have their mixtures.
            assert minimax_value(stranger[None], basis, criterion) <= solution.objective + 1e-9


def largest_error_of_mixture(moments, basis):
    """Return the largest error of a mixture about its own mean, which is concave in shares."""
    residual_map = np.eye(len(basis)) - basis @ basis.T
    within = np.array(
        [np.trace(residual_map @ s @ residual_map) for s in moments.second_moments("group")]
    )
    means = moments.means @ residual_map
    alone = within + (means**2).sum(axis=1)
    k = len(alone)
    result = minimize(
        lambda shares: ((shares @ means) ** 2).sum() - shares @ alone,
        np.full(k, 1 / k),
        bounds=[(0, 1)] * k,
        constraints={"type": "eq", "fun": lambda shares: shares.sum() - 1},
        method="SLSQP",
    )
    return -result.fun


def test_about_its_own_mean_a_mixture_may_lose_more():
    """A mixture includes the distances between the groups' means, which center="group" removes."""
    moments = moments_of(CREDIT)
    criterion = fs.MinimaxError()
    fair = fs.FairPCA(3, criterion=criterion, center="group", scale=True).fit_moments(moments)
    assert fair.solution_.objective == pytest.approx(10.46, abs=5e-3)
    scaled = moments.divided_by(fair.scale_)
    assert largest_error_of_mixture(scaled, fair.components_.T) == pytest.approx(11.42, abs=5e-3)
    halves = largest_error_of_halves(scaled, fair.components_.T)
    assert halves == pytest.approx(11.41, abs=5e-3)
    # About the mean of all rows, which is fixed, no mixture has more than the worst group; and
    # about its own mean a mixture has less than about any other point.
    fair = fs.FairPCA(3, criterion=criterion, scale=True).fit_moments(moments)
    error = largest_error_of_mixture(scaled, fair.components_.T)
    assert error <= fair.solution_.objective


def largest_error_of_halves(moments, basis):
    residual_map = np.eye(len(basis)) - basis @ basis.T
    within = np.array(
        [np.trace(residual_map @ s @ residual_map) for s in moments.second_moments("group")]
    )
    means = moments.means @ residual_map
    apart = ((means[:, None] - means[None]) ** 2).sum(axis=2)
    return ((within[:, None] + within[None]) / 2 + apart / 4).max()


@parametrize_diagonal(seed=range(3), k=[2, 3])
def test_the_least_share_of_variance_is_one_minus_the_largest_relative_error(k, seed):
    """For matrices of trace one, share of variance, relative error and least variance agree."""
    rng = np.random.default_rng(seed)
    matrices = random_moments(rng, k, 4)
    normalized = matrices / matrix_traces(matrices)[:, None, None]
    error, loss, least, plain_error, plain_loss = (
        solve_exactly(build_problem(second_moments, 2, criterion), 1e-9).lower_bound
        for second_moments, criterion in (
            *((matrices, ERROR), (matrices, LOSS), (normalized, VARIANCE)),
            *((normalized, fs.MinimaxError()), (normalized, fs.MinimaxLoss())),
        )
    )
    assert error == pytest.approx(1 + least, abs=2e-9)
    assert (error, loss) == pytest.approx((plain_error, plain_loss), abs=2e-9)


def test_an_end_is_optimal_where_a_group_has_little_to_keep():
    # Of the second group no direction keeps as much as the first one's second best.
    matrices = np.array([np.diag([9.0, 8.0]), np.diag([0.1, 0.2])])
    solution = solve_exactly(build_problem(matrices, 1, VARIANCE), 1e-9)
    assert solution.objective == pytest.approx(-0.2, abs=1e-12)
    np.testing.assert_allclose(solution.weights, [0, 1], atol=1e-12)
    np.testing.assert_allclose(np.abs(solution.components), [[0, 1]], atol=1e-7)
    assert solution.status == "optimal"


def make_rows(k, offset=0.0):
    rows = random_rows(0, 40 * k, 6, list("abcd")[:k], offset)
    return rows.X, rows.labels


@parametrize_diagonal(
    offset=[1.0, 1e2], center=["global", "group", "none"], k=[2, 3], criterion=[*RELATIVE, VARIANCE]
)
def test_within_mean_parity(criterion, k, center, offset):
    """Shares refer to all of the variance, including forbidden directions."""
    X, groups = make_rows(k, offset)
    parity = fs.MeanParity()
    fair = fs.FairPCA(2, criterion=criterion, restriction=parity, center=center)
    fair.fit(X, sensitive_features=groups)
    means = np.array([fair.transform(X[groups == g]).mean(axis=0) for g in "abcd"[:k]])
    np.testing.assert_allclose(means, means[:1].repeat(k, axis=0), atol=1e-9 * offset)
    matrices = fair.moments_.second_moments(center)
    size = matrix_traces(matrices).max() if criterion == VARIANCE else 1.0
    value = minimax_value(matrices, fair.components_.T, criterion)
    assert fair.solution_.objective == pytest.approx(value, abs=1e-11 * size)
    # Three groups may have a gap that is real, at exactly d components.
    assert fair.solution_.status == "optimal" or (k == 3 and fair.solution_.relative_gap < 1e-6)
    assert fs.verify(fair, X, groups).holds
    # No other subspace in which the means agree is better.
    apart = np.linalg.svd(fair.moments_.means - fair.moments_.means[0])[2][k - 1 :].T
    rng = np.random.default_rng(1)
    for _ in range(50):
        basis = apart @ np.linalg.qr(rng.standard_normal((apart.shape[1], 2)))[0]
        other = minimax_value(matrices, basis, criterion)
        assert other >= fair.solution_.lower_bound - 1e-11 * size


@pytest.mark.parametrize("criterion", RELATIVE, ids=str)
@pytest.mark.parametrize(
    ("row", "center"), [([0.0] * 4, "none"), ([0.1, 1e5, 3.3, -7.7], "group")], ids=str
)
def test_a_group_without_variance_is_refused_by_name(row, center, criterion):
    X = np.random.default_rng(0).standard_normal((60, 4))
    groups = np.repeat(["many", "same"], 30)
    X[groups == "same"] = row
    with pytest.raises(InvalidInput, match=r"variance of each group.*none: 'same'"):
        fs.FairPCA(2, criterion=criterion, center=center).fit(X, sensitive_features=groups)
    # As they are, errors and losses need no variance.
    fair = fs.FairPCA(2, criterion=criterion.name, center=center)
    assert fair.fit(X, sensitive_features=groups).solution_.status == "optimal"


@pytest.mark.parametrize("unit", [1e-70, 1e70])
@pytest.mark.parametrize("criterion", [*RELATIVE, VARIANCE], ids=str)
def test_units_near_the_ends_of_the_range(criterion, unit):
    X, groups = make_rows(2)
    plain = fs.FairPCA(2, criterion=criterion).fit(X, sensitive_features=groups)
    scaled = fs.FairPCA(2, criterion=criterion).fit(unit * X, sensitive_features=groups)
    factor = unit**2 if criterion == VARIANCE else 1.0
    assert scaled.solution_.objective == pytest.approx(factor * plain.solution_.objective, rel=1e-9)
    assert scaled.solution_.status == "optimal"
    assert fs.verify(scaled, unit * X, groups).holds
    weights = scaled.solution_.weights * (1 if criterion == VARIANCE else unit**2)
    np.testing.assert_allclose(weights, plain.solution_.weights, rtol=1e-6)


def test_a_relative_criterion_is_named_relative():
    assert repr(LOSS) == "MinimaxLoss(relative=True)"
    assert repr(fs.MinimaxError()) == "MinimaxError()"
    assert "fraction" in LOSS.formula.summary
    assert "fraction" not in fs.MinimaxLoss().formula.summary
    for kind in (fs.MinimaxLoss, fs.MinimaxError):
        with pytest.raises(InvalidParameter, match="relative is 1"):
            kind(relative=1)
    fair = fs.FairPCA(2, criterion=LOSS).set_params(criterion__relative=False)
    assert fair.criterion == fs.MinimaxLoss()


def compute_with_numpy(X, groups, center):
    """Second moments and proportions from the rows, without fairspan."""
    labels = np.unique(groups)
    points = {"global": X.mean(axis=0), "group": None}
    second = []
    for label in labels:
        rows = X[groups == label]
        rows = rows - (rows.mean(axis=0) if points[center] is None else points[center])
        second.append(rows.T @ rows / len(rows))
    return np.array(second), [float((groups == label).mean()) for label in labels]


def dimensions(p):
    """Return four dimensions; in the full sweep all, or of many the first ten and every fourth.

    The last one or two are where the least is left.
    """
    if not ALL_CASES:
        return sorted({1, min(3, p - 1), p // 2, p - 1})
    return sorted({*range(1, min(p, 11)), *range(11, p, 1 if p < 40 else 4), p - 1})


# Features so nearly collinear that the last dimensions leave little more than rounding.
COLLINEAR = {("parkinsons:group__sex", 18), ("parkinsons:group__sex", 19)}


# Standardized and raw: the raw ones have variances that differ by ten orders of magnitude, and what
# is left of the small ones may be beyond double precision.
@pytest.mark.long
@pytest.mark.sweep
@pytest.mark.parametrize(("standardized", "center"), [(True, "global"), (False, "group")])
@pytest.mark.parametrize("name", TWO_GROUPS)
def test_gap_is_closed_from_one_dimension_to_all_but_one(name, standardized, center):
    rows = load(name)
    X = rows.z_scored(ddof=0) if standardized else rows.X
    matrices, shares = compute_with_numpy(X, rows.groups, center)
    total = float(np.trace(np.tensordot(shares, matrices, axes=1)))
    for criterion in MINIMAX:
        size = 1.0 if criterion in RELATIVE else total
        for d in dimensions(X.shape[1]):
            solution = search_boundary(build_problem(matrices, d, criterion, shares))
            # Matrices cannot tell errors of zero, as of collinear features, from rounding.
            is_zero = solution.may_be_zero
            if standardized and (name, d) not in COLLINEAR and not is_zero:
                assert solution.status == "optimal"
            else:
                assert solution.status in ("optimal", "unresolved")
            assert solution.gap <= max(1e-9 * abs(solution.objective), solution.resolution)
            assert solution.resolution <= 1e-9 * size
            # The certificate, from the components and the weights alone.
            value = minimax_value(matrices, solution.components.T, criterion)
            bound = dual_bound(matrices, solution.weights, d, criterion)
            assert value - bound <= 1.01e-9 * size


@pytest.fixture(scope="module")
def credit():
    rows = load("default_credit:group__education")
    return fs.GroupMoments.from_rows(rows.z_scored(ddof=1), rows.groups)


def plain_pca(moments, d):
    """PCA about the mean of all rows, whose errors are measured about each group's mean."""
    fair = FairPCA(d, criterion="total_error").fit_moments(moments)
    return replace(fair.subspace_, center="group")


def test_credit_plain_pca_as_published(credit):
    table = {d: figures for d, figures in published_pca_errors() if "lower" in figures and d <= 22}
    for d, figures in table.items():
        errors = group_errors(plain_pca(credit, d), credit).errors
        assert errors == pytest.approx([figures["higher"], figures["lower"]], abs=5.01e-5)
    assert len(table) == 22


@pytest.mark.parametrize(("d", "loss"), [(3, 0.204310), (5, 0.050331), (10, 0.283628)])
def test_credit_minimax_loss_as_published(credit, d, loss):
    fair = FairPCA(d, center="group").fit_moments(credit)
    np.testing.assert_allclose(fair.group_losses_, loss, atol=1e-6)
    assert fair.solution_.objective == pytest.approx(loss, abs=1e-6)


@pytest.fixture(scope="module")
def faces():
    rows = load_faces()
    return fs.GroupMoments.from_rows(rows.X, rows.groups)


@pytest.mark.long
@pytest.mark.sweep
@pytest.mark.parametrize("criterion", ["minimax_loss", "minimax_error"])
@pytest.mark.parametrize("d", select_cases([1, 5, 20], 2))
def test_faces_gap_is_closed(faces, d, criterion):
    fair = FairPCA(d, criterion=criterion, center="group").fit_moments(faces)
    total = float(faces.proportions @ np.einsum("gii->g", faces.second_moments("group")))
    assert fair.solution_.status == "optimal"
    assert fair.solution_.gap <= 1e-9 * total
    if (criterion, d) == ("minimax_loss", 20):
        np.testing.assert_allclose(fair.group_losses_, 0.208405, atol=1e-6)


@pytest.mark.long
def test_faces_plain_pca_as_published(faces):
    table = dict(published_pca_errors())
    # The leading 20 components contain those of every smaller dimension.
    plain = plain_pca(faces, 20)
    second = faces.second_moments("group")
    for d in (1, 5, 20):
        basis = plain.components[:d]
        errors = [np.trace(matrix) - np.vdot(basis, basis @ matrix) for matrix in second]
        assert errors == pytest.approx([table[d]["female"], table[d]["male"]], abs=5.01e-5)
