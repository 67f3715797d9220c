"""Covariance parity says so where rounding decides which directions it allows."""

import numpy as np
import pytest

from fairspan import CovarianceParity, FairPCA, GroupMoments, RobustErrorGap, verify

UNRESOLVED = "rounding decides which directions the restriction selects"


def nearly_dependent_rows(seed, *, smallest, n=30, p=90):
    """Fewer rows than features, with singular values from one down to `smallest`."""
    rng = np.random.default_rng(seed)
    left, _, right = np.linalg.svd(rng.standard_normal((n, p)), full_matrices=False)
    return (left * np.geomspace(1, smallest, n)) @ right, np.arange(n) % 2


def fit_both(X, groups, monkeypatch, n_directions, **settings):
    """Fit in row coordinates, and from matrices of the features."""
    fair = FairPCA(2, restriction=CovarianceParity(n_directions), **settings)
    dense = fair.fit_moments(GroupMoments.from_rows(X, groups)).solution_
    monkeypatch.setattr("fairspan.moments.compute.MIN_WIDE_FEATURES", 5)
    thin = fair.fit(X, sensitive_features=groups)
    assert thin.solution_.eigensolver == "thin"
    assert verify(thin, X, sensitive_features=groups).holds
    return thin.solution_, dense


@pytest.mark.parametrize("criterion", ["total_error", RobustErrorGap(2.0, 0.5)])
def test_a_direction_of_rounding_size_decides_how_many_others_are_forbidden(monkeypatch, criterion):
    # The rows vary along 27 directions in which the means agree. Matrices do not show the last of
    # them, and forbid one direction less.
    X, groups = nearly_dependent_rows(0, smallest=2e-7)
    thin, dense = fit_both(X, groups, monkeypatch, 24, criterion=criterion, center="group")
    assert abs(thin.objective - dense.objective) > 1e-3 * thin.objective
    for solution in (thin, dense):
        assert solution.status == "unresolved"
        assert solution.unresolved_reason == UNRESOLVED
        # No bound excludes the other answer.
        assert solution.lower_bound <= min(thin.objective, dense.objective)


@pytest.mark.parametrize("center", ["global", "group", "none"])
def test_all_directions_with_variance_are_allowed_whatever_their_number(monkeypatch, center):
    # At least as many directions are requested as rows vary along: none of these is forbidden, and
    # their exact number does not matter.
    X, groups = nearly_dependent_rows(1, smallest=1e-8)
    thin, dense = fit_both(X, groups, monkeypatch, 29, criterion="total_error", center=center)
    assert thin.status == dense.status == "optimal"
    assert thin.objective == pytest.approx(dense.objective, rel=1e-9)


@pytest.mark.parametrize("n_directions", [3, 12, 20, 24, 26, 28])
@pytest.mark.parametrize("exponent", [2, 4, 6, 7, 8])
def test_fits_in_other_coordinates_agree_or_are_not_resolved(monkeypatch, exponent, n_directions):
    for seed in range(3):
        X, groups = nearly_dependent_rows(seed, smallest=10.0**-exponent)
        thin, dense = fit_both(X, groups, monkeypatch, n_directions, criterion="minimax_error")
        if "unresolved" in (thin.status, dense.status):
            continue
        allowed = thin.resolution + dense.resolution + 1e-9 * min(thin.scale, dense.scale)
        assert abs(thin.objective - dense.objective) <= allowed


def test_tables_without_directions_of_rounding_size_are_resolved(monkeypatch):
    X, groups = nearly_dependent_rows(2, smallest=1e-3)
    thin, dense = fit_both(X, groups, monkeypatch, 24, criterion="total_error")
    assert thin.status == dense.status == "optimal"
    assert thin.objective == pytest.approx(dense.objective, rel=1e-9)


def test_groups_of_equal_covariances_leave_all_directions():
    # The difference of the covariances is rounding error, and orders no directions.
    rng = np.random.default_rng(3)
    half = rng.standard_normal((40, 8)) @ rng.standard_normal((8, 8))
    order = rng.permutation(40)
    X = np.vstack([half, half[order] + 0.3])
    groups = np.repeat([0, 1], 40)
    settings = {"criterion": "total_error", "center": "group"}
    hidden = FairPCA(2, restriction=CovarianceParity(4), **settings)
    mean_parity = FairPCA(2, restriction="mean_parity", **settings)
    solution = hidden.fit(X, sensitive_features=groups).solution_
    expected = mean_parity.fit(X, sensitive_features=groups).solution_
    assert solution.status == "optimal"
    assert solution.objective == pytest.approx(expected.objective, rel=1e-9)


def test_rotated_columns_of_rounding_size_change_no_proven_answer():
    # One column is so small that matrices lose it once all columns are rotated.
    rng = np.random.default_rng(4)
    X = rng.standard_normal((200, 6)) * np.array([1, 2, 1.5, 1, 1, 3e-7])
    groups = np.arange(200) % 2
    X[groups == 1] *= np.array([1.5, 0.8, 1.1, 1, 0.9, 1.3])
    rotation = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    fair = FairPCA(2, criterion="total_error", restriction=CovarianceParity(4))
    graded, rotated = (
        fair.fit(rows, sensitive_features=groups).solution_ for rows in (X, X @ rotation)
    )
    assert graded.status == "optimal"
    agrees = rotated.objective == pytest.approx(graded.objective, rel=1e-9)
    assert agrees or rotated.status == "unresolved"


def uncorrelated_columns(rng, n, p):
    """Columns of mean zero and variance one, without correlation."""
    columns = rng.standard_normal((n, p))
    columns -= columns.mean(axis=0)
    return np.linalg.svd(columns, full_matrices=False)[0] * np.sqrt(n)


def rotate(X, seed):
    """Rotate the columns at random."""
    rng = np.random.default_rng(seed)
    return X @ np.linalg.qr(rng.standard_normal((X.shape[1],) * 2))[0]


def rows_with_a_small_column(size, n=40):
    """Two groups, all of whose other directions differ by more than zero in variance."""
    rng = np.random.default_rng(0)
    deviations = np.sqrt([[11.5, 0.5, size**2], [8.5, 0.1, size**2]])
    X = np.vstack([uncorrelated_columns(rng, n, 3) * row for row in deviations])
    return X, np.repeat([0, 1], n)


def fit_within(tolerance, X, groups, **settings):
    parity = CovarianceParity(tolerance=tolerance)
    fair = FairPCA(1, criterion="total_error", restriction=parity, **settings)
    return fair.fit(X, sensitive_features=groups).solution_


@pytest.mark.parametrize("size", [1e-6, 2e-7])
def test_a_direction_of_rounding_size_decides_what_a_tolerance_allows(size):
    # A component may lean to the last column, along which the groups agree, to keep more of the
    # first. Rotated, that column may be rounding error, and directions without variance are left
    # out.
    X, groups = rows_with_a_small_column(size)
    graded = fit_within(0.5, X, groups, tol=1e-6)
    assert graded.status == "optimal"
    # The variance is 10.3, and the variances of the groups along the first column are 10 and differ
    # by 3: a component whose square has 1/6 of its length there, and the rest on the last column.
    assert graded.objective == pytest.approx(10.3 - 10 / 6, rel=1e-7)
    rotated = fit_within(0.5, rotate(X, 5), groups, tol=1e-6)
    assert rotated.status == "unresolved"
    assert rotated.unresolved_reason == UNRESOLVED
    assert rotated.lower_bound <= graded.objective


@pytest.mark.parametrize("size", [1e-9, 0.0])
def test_no_variance_below_zero_leaves_the_resolution_unknown(size):
    # The variance along the last direction is computed as slightly negative.
    X, groups = rows_with_a_small_column(size)
    for seed in range(3):
        rotated = fit_within(0.5, rotate(X, seed), groups, tol=1e-6)
        assert rotated.status == "optimal"
        assert 0 < rotated.resolution < 1e-12


@pytest.mark.parametrize("difference", [1e-3, 1e-5, 1e-7])
def test_rounding_hides_no_direction_in_which_groups_agree(difference):
    # Groups agree in the last two columns. The rounding error of their small difference in the
    # first, large column is large relative to that difference.
    rng = np.random.default_rng(6)
    half = uncorrelated_columns(rng, 60, 3) * [10, 1, 0.9]
    X = np.vstack([half, half[rng.permutation(60)] * [1 + difference, 1, 1]])
    groups = np.repeat([0, 1], 60)
    expected = 50 * (1 + (1 + difference) ** 2) + 0.81
    for seed in range(8):
        order = np.random.default_rng(seed).permutation(120)
        solution = fit_within(0.0, rotate(X, seed)[order], groups[order])
        assert solution.status == "optimal"
        assert solution.objective == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("size", [1e-3, 5e-7, 1e-7])
def test_fits_within_a_tolerance_agree_in_other_coordinates(monkeypatch, size):
    # Row coordinates show smaller variances than matrices of the features.
    X, groups = rows_with_a_small_column(size, n=6)
    axes = np.linalg.qr(np.random.default_rng(9).standard_normal((30, 3)))[0].T
    rows = X @ axes
    parity = CovarianceParity(tolerance=0.5)
    fair = FairPCA(1, criterion="total_error", restriction=parity, tol=1e-6)
    dense = fair.fit_moments(GroupMoments.from_rows(rows, groups)).solution_
    monkeypatch.setattr("fairspan.moments.compute.MIN_WIDE_FEATURES", 5)
    thin = fair.fit(rows, sensitive_features=groups).solution_
    assert thin.eigensolver == "thin"
    statuses = {thin.status, dense.status}
    assert statuses == {"optimal"} if size == 1e-3 else "unresolved" in statuses
    # No bound excludes the other answer.
    slack = 1e-6 * dense.objective
    assert max(thin.lower_bound, dense.lower_bound) <= min(thin.objective, dense.objective) + slack
