"""The plane of two components: against plain numpy, whatever blocks and parts the rows come in."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.text import Text

from by_hand import random_rows
from fairspan import FairPCA, GroupMoments
from fairspan.displays import ReducedRowsDisplay
from fairspan.displays.reduced_rows import PlaneRows
from fairspan.drawing.layout import look
from fairspan.errors import FairspanWarning, Incompatible, InvalidInput, UnknownGroup
from fairspan.rows.registry import rows_of

ROWS = random_rows(0, n=90, p=4, groups=("a", "b", "c"))
X, GROUPS = ROWS.X, ROWS.labels
FAIR = FairPCA(3, scale=True).fit(X, sensitive_features=GROUPS)


def test_points_means_and_covariances_are_those_of_the_transformed_rows():
    display = ReducedRowsDisplay.from_estimator(FAIR, X, GROUPS)
    Z = FAIR.transform(X)[:, :2]
    np.testing.assert_allclose(display.points, Z, atol=1e-12)
    assert display.n_rows == len(X)
    for g, label in enumerate("abc"):
        own = Z[label == GROUPS]
        np.testing.assert_array_equal(display.codes == g, label == GROUPS)
        np.testing.assert_allclose(display.means[g], own.mean(axis=0), atol=1e-12)
        np.testing.assert_allclose(display.covariances[g], np.cov(own.T, ddof=0), atol=1e-12)


def test_few_points_are_shared_out_evenly_and_seeded():
    few = np.r_[np.arange(30), np.flatnonzero(GROUPS != "a")]
    labels = np.where(np.arange(90) < 4, "a", np.where(GROUPS == "a", "b", GROUPS))
    fair = FairPCA(2).fit(X, sensitive_features=labels)
    display = ReducedRowsDisplay.from_estimator(fair, X, labels, max_rows=24)
    # The four rows of "a" are all there; the others share what it leaves.
    assert np.bincount(display.codes).tolist() == [4, 10, 10]
    assert len(few) > 24
    again = ReducedRowsDisplay.from_estimator(fair, X, labels, max_rows=24)
    np.testing.assert_array_equal(display.points, again.points)
    other = ReducedRowsDisplay.from_estimator(fair, X, labels, max_rows=24, random_state=1)
    assert not np.array_equal(display.points, other.points)
    np.testing.assert_array_equal(display.covariances, other.covariances)


def test_a_group_column_and_a_missing_group():
    frame = pd.DataFrame(X, columns=list("wxyz")).assign(group=GROUPS)
    fair = FairPCA(2).fit(frame, sensitive_features="group")
    held_out = frame[frame["group"] != "b"]
    display = ReducedRowsDisplay.from_estimator(fair, held_out, "group")
    assert display.groups == ("a", "c")
    assert set(display.codes) == {0, 1}
    np.testing.assert_allclose(display.points, fair.transform(held_out)[:, :2], atol=1e-12)


def test_parts_add_up_to_the_whole():
    fold = PlaneRows.of(FAIR.subspace_, ["a", "b", "c"], 1000, 0)
    whole = fold.over(rows_of(X, GROUPS, ROWS.weights))
    first = fold.over(rows_of(X[:50], GROUPS[:50], ROWS.weights[:50]))
    second = fold.over(rows_of(X[50:], GROUPS[50:], ROWS.weights[50:]))
    joined = fold.merged(fold.from_bytes(fold.to_bytes(first)), second)
    for name in ("n_rows", "sums", "codes", "points"):
        np.testing.assert_allclose(getattr(joined, name), getattr(whole, name), atol=1e-9)
    Z = FAIR.transform(X)[:, :2]
    own = GROUPS == "b"
    expected = np.cov(Z[own].T, ddof=0, aweights=ROWS.weights[own])
    np.testing.assert_allclose(whole.of_groups()[2][1], expected, atol=1e-12)


def test_an_estimator_that_knows_no_groups_shows_those_it_is_given():
    plain = FairPCA(2, missing_groups="ignore").fit(X)
    display = ReducedRowsDisplay.from_estimator(plain, X, GROUPS)
    assert display.groups == ("a", "b", "c")


@pytest.mark.parametrize(
    ("error", "arguments"),
    [
        (UnknownGroup, (X, np.where(GROUPS == "a", "new", GROUPS))),
        (InvalidInput, (X, None)),
        (InvalidInput, (None, GROUPS)),
        (InvalidInput, (X[:, :2], GROUPS)),
        (InvalidInput, (X[:0], GROUPS[:0])),
    ],
)
def test_rows_that_cannot_be_used(error, arguments):
    with pytest.raises(error):
        ReducedRowsDisplay.from_estimator(FAIR, *arguments)


def test_a_plane_needs_two_components():
    line = FairPCA(1).fit(X, sensitive_features=GROUPS)
    with pytest.raises(Incompatible, match="one component"):
        ReducedRowsDisplay.from_estimator(line, X, GROUPS)


def test_many_groups_have_panels(recwarn):
    many = random_rows(4, n=120, p=3, groups=tuple("abcdef"))
    fair = FairPCA(2, criterion="total_error").fit_moments(
        GroupMoments.from_rows(many.X, many.labels)
    )
    display = ReducedRowsDisplay.from_estimator(fair, many.X, many.labels).plot()
    assert len(display.axes_) == 6
    assert not [each for each in recwarn if issubclass(each.category, FairspanWarning)]


def test_each_group_has_the_ellipse_of_two_standard_deviations_and_its_axes():
    display = ReducedRowsDisplay.from_estimator(FAIR, X, GROUPS).plot()
    lines = [line for axes in display.figure_.axes for line in axes.lines]
    for mean, covariance in zip(display.means, display.covariances, strict=True):
        about = [line.get_xydata() - mean for line in lines if line.get_color() != "white"]
        inverse = np.linalg.inv(covariance)
        distances = [np.sqrt(np.einsum("ni,ij,nj->n", each, inverse, each)) for each in about]
        found = [len(each) for each in distances if len(each) > 1 and np.allclose(each, 2)]
        assert sorted(found) == [2, 2, 200]


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
def test_a_far_point_is_left_out_and_the_limits_are_those_of_the_others(far, axis, reach):
    corners = np.array([[10.0, 3.0], [-10.0, 3.0], [10.0, -3.0], [-10.0, -3.0]])
    near, groups = np.tile(corners, (50, 1)), np.repeat(["a", "b"], [4, 196])
    fair = FairPCA(2, criterion="total_error").fit(near, sensitive_features=groups)
    rows = np.vstack([near, [far]])
    display = ReducedRowsDisplay.from_estimator(fair, rows, np.append(groups, "b")).plot()
    note = " ".join(text.get_text() for text in display.figure_.findobj(Text))
    assert "1 row lies outside the picture" in " ".join(note.split())
    (panel,) = display.axes_
    limits = np.abs((panel.get_xlim(), panel.get_ylim()))
    assert limits[axis] == pytest.approx(2 * [1.12 * reach], rel=1e-2)


def test_the_points_of_each_group_have_its_look():
    display = ReducedRowsDisplay.from_estimator(FAIR, X, GROUPS).plot()
    (axes,) = display.axes_
    for g in range(3):
        own = look(g)
        (points,) = (
            line
            for line in axes.lines
            if (line.get_color(), line.get_marker()) == (own.colour, own.marker)
        )
        np.testing.assert_array_equal(points.get_xydata(), display.points[display.codes == g])
