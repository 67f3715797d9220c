"""The plane of two components: against plain numpy, whatever blocks and parts the rows come in."""

from functools import cache

import numpy as np
import pandas as pd
import pytest

from display_cases import display_texts
from fairspan import FairPCA, GroupMoments
from fairspan.displays import ReducedRowsDisplay
from fairspan.errors import FairspanWarning, IncompatibleParameters, InvalidInput, UnknownGroup
from numpy_reference import random_rows

ROWS = random_rows(0, n=90, p=4, groups=("a", "b", "c"))
X = ROWS.X
GROUPS = ROWS.labels


@cache
def fair():
    return FairPCA(3, scale=True).fit(X, sensitive_features=GROUPS)


@pytest.mark.slow
def test_points_means_and_covariances_are_those_of_the_transformed_rows():
    display = ReducedRowsDisplay.from_estimator(fair(), X, GROUPS)
    Z = fair().transform(X)[:, :2]
    np.testing.assert_allclose(display.points, Z, atol=1e-12)
    assert display.n_rows == len(X)
    assert not any("rows are shown" in text for text in display_texts(display))
    for g, label in enumerate("abc"):
        group_points = Z[label == GROUPS]
        np.testing.assert_array_equal(display.codes == g, label == GROUPS)
        np.testing.assert_allclose(display.means[g], group_points.mean(axis=0), atol=1e-12)
        np.testing.assert_allclose(
            display.covariances[g], np.cov(group_points.T, ddof=0), atol=1e-12
        )


def test_few_points_are_shared_out_evenly_and_seeded():
    labels = np.where(np.arange(90) < 4, "a", np.where(GROUPS == "a", "b", GROUPS))
    fair = FairPCA(2).fit(X, sensitive_features=labels)
    display = ReducedRowsDisplay.compute(fair, X, labels, max_rows=24)
    # The four rows of "a" are all there; the others share what it leaves.
    assert np.bincount(display.codes).tolist() == [4, 10, 10]
    repeated = ReducedRowsDisplay.compute(fair, X, labels, max_rows=24)
    np.testing.assert_array_equal(display.points, repeated.points)
    other = ReducedRowsDisplay.compute(fair, X, labels, max_rows=24, random_state=1)
    assert not np.array_equal(display.points, other.points)
    np.testing.assert_array_equal(display.covariances, other.covariances)


def test_groups_absent_from_the_rows_are_not_drawn():
    frame = pd.DataFrame(X, columns=list("wxyz")).assign(group=GROUPS)
    fair = FairPCA(2).fit(frame, sensitive_features="group")
    test_rows = frame[frame["group"] != "b"]
    display = ReducedRowsDisplay.from_estimator(fair, test_rows, "group")
    assert display.groups == ("a", "c")
    assert set(display.codes) == {0, 1}
    np.testing.assert_allclose(display.points, fair.transform(test_rows)[:, :2], atol=1e-12)


def test_an_estimator_without_groups_shows_those_passed_to_it():
    plain = FairPCA(2, missing_groups="ignore").fit(X)
    display = ReducedRowsDisplay.from_estimator(plain, X, GROUPS)
    assert display.groups == ("a", "b", "c")


@pytest.mark.parametrize(
    ("error", "arguments"),
    [
        (UnknownGroup, (X, np.where(GROUPS == "a", "new", GROUPS))),
        (InvalidInput, (X, None)),
        (InvalidInput, (None, None)),
        (InvalidInput, (None, GROUPS)),
        (InvalidInput, (X[:, :2], GROUPS)),
        (InvalidInput, (X[:0], GROUPS[:0])),
    ],
)
def test_rows_that_cannot_be_used(error, arguments):
    with pytest.raises(error):
        ReducedRowsDisplay.from_estimator(fair(), *arguments)


def test_a_plane_needs_two_components():
    line = FairPCA(1).fit(X, sensitive_features=GROUPS)
    with pytest.raises(IncompatibleParameters, match="one component"):
        ReducedRowsDisplay.from_estimator(line, X, GROUPS)


def test_many_groups_have_panels(recwarn):
    rows = random_rows(4, n=120, p=3, groups=tuple("abcdef"))
    fair = FairPCA(2, criterion="total_error").fit_moments(
        GroupMoments.from_rows(rows.X, rows.labels)
    )
    display = ReducedRowsDisplay.from_estimator(fair, rows.X, rows.labels)
    boxes = [axes.get_position() for axes in display.axes_]
    reading_order = sorted(range(6), key=lambda i: (-round(boxes[i].y0, 6), boxes[i].x0))
    assert reading_order == list(range(6))
    assert not [
        caught_warning
        for caught_warning in recwarn
        if issubclass(caught_warning.category, FairspanWarning)
    ]


def test_each_group_has_the_ellipse_of_two_standard_deviations_its_axes_and_its_points():
    display = ReducedRowsDisplay.from_estimator(fair(), X, GROUPS)
    for g, (axes, mean) in enumerate(zip(display.axes_, display.means, strict=True)):
        # The points and lines of the other groups lie in each panel too, in another color.
        expected = display.points[display.codes == g]
        points = next(line for line in axes.lines if np.array_equal(line.get_xydata(), expected))
        lines = [
            np.asarray(line.get_xydata())
            for line in axes.lines
            if line is not points and line.get_color() == points.get_color()
        ]
        inverse = np.linalg.inv(display.covariances[g])
        distances = [
            np.sqrt(np.einsum("ni,ij,nj->n", curve - mean, inverse, curve - mean))
            for curve in lines
        ]
        assert [
            len(curve_distances) for curve_distances in distances if np.allclose(curve_distances, 2)
        ] == [200, 2, 2]
        # Only the axes of its own ellipse are drawn, each with an outline.
        assert sum(len(line.get_xdata()) == 2 for line in axes.lines) == 4


@pytest.mark.parametrize(
    ("far", "axis", "reach"),
    [
        # The ellipses, two standard deviations of corners, are twice as far as these.
        ((0.0, 60.0), 0, 2 * 10),
        # That of "b" reaches far along the point that is left out; it is cut off beyond the others
        # at twice the range of the widest component.
        ((0.0, 1e4), 1, 3 + 2 * 20),
        ((1e4, 0.0), 0, 10 + 2 * 20),
    ],
)
def test_a_far_point_is_omitted_and_the_limits_are_those_of_the_others(far, axis, reach):
    corners = np.array([[10.0, 3.0], [-10.0, 3.0], [10.0, -3.0], [-10.0, -3.0]])
    near = np.tile(corners, (50, 1))
    groups = np.repeat(["a", "b"], [4, 196])
    fair = FairPCA(2, criterion="total_error").fit(near, sensitive_features=groups)
    rows = np.vstack([near, [far]])
    display = ReducedRowsDisplay.from_estimator(fair, rows, np.append(groups, "b"))
    assert "1 row lies outside" in " ".join(display_texts(display))
    limits = np.abs((display.axes_[0].get_xlim(), display.axes_[0].get_ylim()))
    assert limits[axis] == pytest.approx(2 * [1.12 * reach], rel=1e-2)
