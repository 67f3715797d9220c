"""The frontier and all that can be reached: every subspace lies inside, every corner is one."""

import numpy as np
import pytest

from fairspan import FairPCA, GroupMoments, frontier
from fairspan.displays import FrontierDisplay
from fairspan.errors import IncompatibleParameters
from numpy_reference import random_rows
from problems import basis_errors, random_basis

SETTINGS = [(0, 1, 2), (1, 2, 3), (2, 2, 5), (3, 4, 5), (4, 3, 3)]


def distance_outside(corners, points):
    """Return the distance of points outside a counterclockwise convex polygon; <= 0 inside."""
    sides = np.roll(corners, -1, axis=0) - corners
    lengths = np.linalg.norm(sides, axis=1)
    is_side = lengths > 1e-9 * lengths.max()
    normals = np.column_stack([sides[:, 1], -sides[:, 0]])[is_side] / lengths[is_side, None]
    return np.max(points @ normals.T - np.einsum("ij,ij->i", corners[is_side], normals), axis=1)


@pytest.mark.parametrize(
    ("seed", "d", "p"),
    [
        SETTINGS[0],
        pytest.param(*SETTINGS[1], marks=pytest.mark.long),
        pytest.param(*SETTINGS[2], marks=pytest.mark.slow),
        pytest.param(*SETTINGS[3], marks=pytest.mark.long),
    ],
)
def test_every_subspace_lies_in_the_region(seed, d, p):
    rows = random_rows(seed, n=60, p=p)
    moments = GroupMoments.from_rows(rows.X, rows.labels)
    curve = frontier(moments, d, tol=1e-7)
    region = curve.achievable_region()
    rng = np.random.default_rng(seed)
    matrices = moments.second_moments("global")
    points = np.array([basis_errors(matrices, random_basis(rng, p, d)) for _ in range(400)])
    extent = np.ptp(region, axis=0).max()
    # Between its corners the boundary bends outwards a little.
    assert distance_outside(region, points).max() <= 5e-3 * extent
    # The frontier is a part of the boundary.
    assert np.abs(distance_outside(region, curve.errors)).max() <= 1e-6 * extent
    values = [np.linalg.eigvalsh(matrix) for matrix in matrices]
    np.testing.assert_allclose(
        region.min(axis=0), [eigenvalues[: p - d].sum() for eigenvalues in values]
    )
    np.testing.assert_allclose(
        region.max(axis=0), [eigenvalues[d:].sum() for eigenvalues in values], atol=5e-3 * extent
    )


@pytest.mark.parametrize(("seed", "d", "p"), SETTINGS[:3])
def test_every_corner_is_reached(seed, d, p):
    from scipy.spatial import ConvexHull

    rows = random_rows(seed, n=60, p=p)
    moments = GroupMoments.from_rows(rows.X, rows.labels)
    region = frontier(moments, d).achievable_region()
    matrices = moments.second_moments("global")
    # By brute force: the leading directions of a mixture, for all weights of either sign.
    angles = np.linspace(0, 2 * np.pi, 4001)
    mixtures = np.tensordot(np.column_stack([np.cos(angles), np.sin(angles)]), matrices, axes=1)
    bases = np.linalg.eigh(mixtures)[1][:, :, p - d :]
    captured_variances = np.einsum("npd,gpq,nqd->ng", bases, matrices, bases)
    corner_errors = np.trace(matrices, axis1=1, axis2=2) - captured_variances
    # The pairs of errors of all subspaces are convex, so what lies between is reached as well.
    hull = corner_errors[ConvexHull(corner_errors).vertices]
    assert distance_outside(hull, region).max() <= 1e-4 * np.ptp(region, axis=0).max()


@pytest.mark.long
def test_the_display_is_the_frontier_with_its_landmarks():
    rows = random_rows(5, n=60, p=4)
    fair = FairPCA(2, scale=True).fit(rows.X, sensitive_features=rows.labels)
    display = FrontierDisplay.from_estimator(fair)
    curve = frontier(fair.moments_, 2, scale=True, tol=1e-7)
    np.testing.assert_allclose(display.errors[[0, -1]], curve.errors[[0, -1]])
    extent = np.ptp(curve.errors, axis=0).max()
    # The corners of the display and points between them, near enough to each other.
    shares = np.linspace(0, 1, 200)[:, None, None]
    between = (display.errors[:-1] + shares * np.diff(display.errors, axis=0)).reshape(-1, 2)
    steps = np.linalg.norm(np.diff(display.errors, axis=0), axis=1).max() / 199
    for point in curve.errors:
        nearest = np.linalg.norm(between - point, axis=1).min()
        assert nearest <= 1.01e-4 * extent + steps / 2
    np.testing.assert_allclose(display.solutions["minimax_loss"], fair.group_errors_, atol=1e-6)
    for placed in curve.locate_all():
        if placed.name != "total_error":
            np.testing.assert_allclose(display.solutions[placed.name], placed.errors, atol=1e-6)
    pca = FairPCA(2, scale=True, criterion="total_error").fit_moments(fair.moments_)
    np.testing.assert_allclose(display.pca_errors, pca.group_errors_)
    kinds = display.frame()["kind"]
    assert (kinds == "frontier").sum() == len(display.errors)
    lines = {line.get_gid(): line for line in display.ax_.lines}
    # Errors are drawn as shares of the variances of the groups, whose features are scaled.
    scaled = (rows.X - fair.mean_) / fair.scale_
    variances = [(scaled[rows.labels == label] ** 2).sum(axis=1).mean() for label in ("a", "b")]
    np.testing.assert_allclose(lines["frontier"].get_xdata(), display.errors[:, 0] / variances[0])
    np.testing.assert_allclose(lines["PCA"].get_ydata(), display.pca_errors[1:] / variances[1])
    squared = curve.plot(criteria=["minimax_loss"], unit="squared")
    lines = {line.get_gid(): line for line in squared.ax_.lines}
    np.testing.assert_array_equal(lines["frontier"].get_xdata(), squared.errors[:, 0])


def test_requested_criteria_alone_are_shown():
    rows = random_rows(5, n=60, p=4)
    curve = frontier(GroupMoments.from_rows(rows.X, rows.labels), 2)
    picture = curve.plot(criteria=["minimax_error", "total_error"])
    assert list(picture.solutions) == ["minimax_error"]


def test_every_error_is_zero_with_all_components():
    rows = random_rows(6, n=40, p=3)
    fair = FairPCA(3).fit(rows.X, sensitive_features=rows.labels)
    display = FrontierDisplay.from_estimator(fair, criteria=["minimax_loss"])
    assert not display.errors.any()
    assert not display.pca_errors.any()


def test_three_groups_have_no_frontier():
    rows = random_rows(6, n=40, p=3, groups=("a", "b", "c"))
    fair = FairPCA(2).fit(rows.X, sensitive_features=rows.labels)
    with pytest.raises(IncompatibleParameters, match="two groups"):
        FrontierDisplay.from_estimator(fair)
