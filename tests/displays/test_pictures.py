"""Every picture: what it says, that it can be read, and that what it shows are the data."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from sklearn.decomposition import PCA

import fairspan as fs
from display_cases import (
    HOSTILE,
    LONG,
    display_texts,
    draw_case,
    draw_without_layout,
    drawn_texts,
    find_overlaps,
    make_displays,
)
from fairspan.displays import ErrorCurveDisplay, FrontierDisplay, LoadingsDisplay
from fairspan.errors import InvalidInput, MissingDependency

KINDS = (
    *("errors", "losses", "kept", "group losses", "path", "errors by feature", "loadings"),
    *("many loadings", "images", "rows", "audit", "frontier"),
    "expected losses",
    "covariance lost",
)
TWELVE = (
    *("errors", "kept", "group losses", "path", "many loadings", "rows", "audit"),
    "expected losses",
    "covariance lost",
)
PAIR = ("a", "b")


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "names"),
    [(kind, HOSTILE[6:8]) for kind in KINDS if kind != "losses"]
    + [(kind, HOSTILE) for kind in TWELVE]
    + [(kind, LONG) for kind in ("kept", "audit", "expected losses")]
    + [(kind, LONG[:1]) for kind in ("errors",)],
)
def test_texts_are_large_enough_apart_and_inside(kind, names):
    picture, labels = draw_case(make_displays(names)[kind])
    assert find_overlaps(labels) == []
    assert min(size for _, _, size in labels) >= 9
    bounds = picture.figure_.bbox
    for text, box, _ in labels:
        assert bounds.x0 - 1 <= box.x0 <= box.x1 <= bounds.x1 + 1, text
        assert bounds.y0 - 1 <= box.y0 <= box.y1 <= bounds.y1 + 1, text


@pytest.mark.parametrize("kind", ["kept", pytest.param("audit", marks=pytest.mark.slow)])
def test_every_group_is_named_apart(kind):
    _, labels = draw_case(make_displays(HOSTILE)[kind])
    texts = [text for text, _, _ in labels]
    for name in ("\\$\\frac{", "_hidden", "<b>&amp;", "(no name)", "two?lines", "a\\$b\\$c"):
        assert name in texts
    assert len({text for text in texts if text.startswith("univ")}) == 2


def test_long_names_of_groups_are_written_in_full_in_two_lines():
    name = "people of the male sex as recorded in the census of 1994"
    axes = draw_without_layout(make_displays((name, "women"))["kept"])
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert [label.replace("\n", " ") for label in labels] == [name, "women"]


@pytest.mark.long
@pytest.mark.parametrize("kind", ["errors", "kept", "path", "many loadings", "frontier"])
def test_displays_stay_in_their_axes(kind):
    from matplotlib import pyplot
    from matplotlib.figure import Figure

    figure = Figure(figsize=(16, 7), layout="constrained")
    left, right = figure.subplots(1, 2)
    right.plot([0, 1])
    open_figures = set(pyplot.get_fignums())
    picture = make_displays(PAIR)[kind]
    assert picture.plot(ax=left) is picture
    assert (picture.ax_, picture.figure_) == (left, figure)
    labels = drawn_texts(figure)
    edge = right.get_window_extent().x0
    left_boxes = [box for _, box, _ in labels if box.x0 < edge - 40]
    assert max(box.x1 for box in left_boxes) < edge
    assert find_overlaps(labels) == []
    assert len(right.lines) == 1
    assert set(pyplot.get_fignums()) == open_figures


@pytest.mark.long
@pytest.mark.parametrize("layout", [None, "tight"])
@pytest.mark.parametrize("kind", ["errors", "kept"])
def test_other_layouts_are_drawn_too(kind, layout):
    picture, _ = draw_case(make_displays(LONG[:3])[kind], layout)
    assert len(picture.axes_) == {"errors": 3, "kept": 1}[kind]


def test_panels_lie_within_axes_of_no_grid():
    from matplotlib.figure import Figure

    figure = Figure()
    picture = make_displays(PAIR)["errors"].plot(figure.add_axes((0.2, 0.3, 0.5, 0.4)))
    boxes = [axes.get_position() for axes in picture.axes_]
    assert (boxes[0].x0, boxes[0].y0, boxes[-1].x1) == pytest.approx((0.2, 0.3, 0.7))


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_has_the_drawn_values(kind):
    pictures = make_displays(PAIR)
    assert set(pictures) == set(KINDS)
    picture = pictures[kind]
    columns = picture.to_columns()
    frame = picture.frame()
    assert list(frame.columns) == list(columns)
    assert len({len(column) for column in columns.values()}) == 1
    assert len(frame) > 0
    assert repr(picture).startswith(f"<{type(picture).__name__}: {len(frame)} rows")


def test_a_notebook_shows_a_drawn_picture_once():
    from matplotlib import pyplot

    picture = make_displays(PAIR)["kept"]
    assert picture._repr_html_() is None
    picture.plot()
    html = picture._repr_html_()
    assert html.startswith('<img alt="Share of variance kept')
    assert "base64,iVBOR" in html
    assert picture.figure_.number not in pyplot.get_fignums()


def test_settings_are_put_back():
    from matplotlib import pyplot

    original_settings = dict(pyplot.rcParams)
    picture = make_displays(HOSTILE)["kept"].plot()
    assert dict(pyplot.rcParams) == original_settings
    assert picture.figure_.number in pyplot.get_fignums()


@pytest.mark.parametrize(
    "kind",
    [
        "errors",
        "loadings",
        *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("kept", "rows")),
    ],
)
def test_on_dark_paper_texts_and_lines_are_light_and_hollow_marks_have_its_color(kind):
    from matplotlib import pyplot
    from matplotlib.colors import to_hex, to_rgb

    with pyplot.style.context("dark_background"):
        picture = make_displays(PAIR)[kind].plot()
        drawn_texts(picture.figure_)
    texts = [
        text
        for axes in picture.figure_.axes
        for text in (axes.title, axes.xaxis.label, *axes.get_xticklabels(), *axes.get_yticklabels())
    ]
    lines = [line for axes in picture.axes_ for line in axes.lines]
    # Ellipses have an edge of the color of the paper.
    colors = {to_hex(artist.get_color()) for artist in [*texts, *lines]} - {"#000000"}
    assert colors
    assert all(sum(to_rgb(color)) > 1.2 for color in colors)
    hollow = {to_hex(line.get_markerfacecolor()) for line in lines if line.get_gid() == "PCA-0"}
    assert hollow <= {"#000000"}
    # Figures on the cells of a map do not depend on the paper.
    assert {to_hex(text.get_color()) for text in picture.ax_.texts} <= {"#111111", "#fefefe"}


@pytest.mark.parametrize("setting", [pytest.param(False, marks=pytest.mark.slow), True])
def test_only_rows_of_groups_have_grid_lines_whatever_the_users_settings(setting):
    from matplotlib import pyplot

    for kind, axis in (("errors", None), ("frontier", None), ("kept", "x")):
        with pyplot.rc_context({"axes.grid": setting}):
            picture = make_displays(PAIR)[kind].plot()
        for axes in picture.axes_:
            gridded_axes = {
                one_axis.axis_name
                for one_axis in (axes.xaxis, axes.yaxis)
                if any(line.get_visible() for line in one_axis.get_gridlines())
            }
            assert gridded_axes == ({axis} if axis else set())


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    picture = make_displays(PAIR)["kept"]
    assert picture.to_columns()["group"][:2] == ["a", "b"]
    for draw in (
        picture.plot,
        lambda: type(picture).from_estimator(None),
    ):
        with pytest.raises(MissingDependency, match=r"fairspan\[plot\]"):
            draw()


def assert_band(band, places, ends):
    """Assert that a filled band lies between the ends at each place, without an outline."""
    (path,) = band.get_paths()
    corners = {tuple(corner) for corner in path.vertices}
    assert corners == {
        (place, end) for place, pair in zip(places, ends, strict=True) for end in pair
    }
    assert not any(band.get_linewidth())


def test_lines_are_the_data():
    picture = make_displays(LONG[:3])["errors"]
    draw_without_layout(picture)
    for g, panel in enumerate(picture.axes_):
        lines = {line.get_gid(): line for line in panel.lines}
        bands = list(panel.collections)
        for model in ("PCA", "minimax_loss", "best possible"):
            records = [record for record in picture.records if record["model"] == model]
            records = [record for record in records if record["group"] == LONG[g]]
            values = [record["observed_error"] for record in records]
            np.testing.assert_array_equal(lines[f"{model}-{g}"].get_xdata(), range(1, 9))
            np.testing.assert_array_equal(lines[f"{model}-{g}"].get_ydata(), values)
            ends = [
                (record["observed_error_low"], record["observed_error_high"]) for record in records
            ]
            assert_band(bands.pop(0), range(1, 9), ends)
        assert bands == []
        assert lines[f"marked-{g}"].get_xdata()[0] == 3
    pca, fair = (lines[f"{name}-2"] for name in ("PCA", "minimax_loss"))
    # Both lines can be distinguished without color.
    assert pca.get_linestyle() != fair.get_linestyle()
    assert pca.get_markerfacecolor() == "white" != fair.get_markerfacecolor()
    assert any("Bands are 95 % confidence intervals" in text for text in display_texts(picture))


def test_losses_and_bound_are_the_data():
    picture = make_displays(PAIR)["group losses"]
    draw_without_layout(picture)
    lines = {line.get_gid(): line for line in picture.ax_.lines}
    for i, values in enumerate(picture.values()):
        np.testing.assert_array_equal(lines[f"model-{i}"].get_xdata(), values)
    assert picture.ax_.get_xlim()[0] <= 0
    # The variance of both groups is one.
    marks = [lines[f"bound-{g}"] for g in range(2)]
    assert [list(line.get_xdata()) for line in marks] == [[1.5, 1.5]] * 2
    assert set(picture.frame()["bound"]) == {1.5}


@pytest.mark.parametrize(
    ("changes", "expected_text"),
    [
        ({}, "Open gap"),
        ({}, "its best 2 dimensions"),
        ({"bound": None}, "does not bound"),
        ({"status": "optimal"}, "Proven"),
        ({"status": "estimated"}, "is an estimate"),
        ({"n_components": 1}, "its best dimension"),
    ],
)
def test_losses_are_described_with_their_bounds(changes, expected_text):
    picture = replace(make_displays(PAIR)["group losses"], **changes)
    draw_without_layout(picture)
    assert any(expected_text in text for text in display_texts(picture))


@pytest.mark.parametrize("kind", [pytest.param("losses", marks=pytest.mark.slow), "path"])
def test_paths_say_how_many_answers_are_not_proven(kind):
    picture = make_displays(PAIR)[kind]
    n = 8 if kind == "losses" else 5
    statuses = ["optimal"] * (n - 3) + ["open gap", "estimated", "infeasible"]
    if kind == "path":
        picture.statuses = statuses
    else:
        for i, record in enumerate(picture.records[2 * n :]):
            record["status"] = statuses[i // 2]
    draw_without_layout(picture)
    assert any(f"Of {n - 1} solutions, 2 are not" in text for text in display_texts(picture))
    frame = picture.frame()
    assert "open gap" in set(frame["status"])
    if kind == "losses":
        assert set(frame.dropna(subset="status")["model"]) == {"minimax_loss"}


@pytest.mark.long
@pytest.mark.parametrize("k", [2, 6])
def test_the_axes_of_a_group_cross_at_its_mean_and_right_angles_are_seen_as_such(k):
    picture, _ = draw_case(make_displays(LONG[:k])["rows"])
    for g, (panel, mean) in enumerate(zip(picture.axes_, picture.means, strict=True)):
        long, short = picture.principal_axes(g)
        lines = [np.asarray(line.get_xydata()) for line in panel.lines]
        for axis in (long, short):
            ends = np.array([mean - axis, mean + axis])
            assert any(line.shape == (2, 2) and np.allclose(line, ends) for line in lines)
        start, *ends = panel.transData.transform([mean, mean + long, mean + short])
        one, two = ends - start
        assert abs(one @ two) < 1e-6 * np.linalg.norm(one) * np.linalg.norm(two)


@pytest.mark.slow
def test_the_largest_loadings_are_shown_first():
    picture = make_displays(LONG)["loadings"]
    picture.n_features = 4
    part = (picture.loadings**2).sum(axis=0)
    assert picture.to_columns()["feature"] == [LONG[j] for j in np.argsort(-part)[:4]]
    draw_without_layout(picture)
    image = picture.ax_.images[0]
    np.testing.assert_array_equal(image.get_array(), picture.loadings[:, picture.shown_features].T)
    low, high = image.get_clim()
    assert low == -high  # zero is white


def test_a_map_of_narrow_cells_has_a_scale_in_place_of_numbers():
    values = np.random.default_rng(0).normal(size=(40, 5))
    axes = draw_without_layout(LoadingsDisplay(loadings=values, features=tuple("abcde")), 5, 5)
    assert len(axes.figure.axes) == 2
    assert len(axes.texts) < values.size


@pytest.mark.slow
def test_images_stand_in_order_below_their_names_and_as_tall_as_they_are():
    rng = np.random.default_rng(0)
    wide = LoadingsDisplay(
        loadings=rng.normal(size=(6, 12)),
        features=tuple("abcdefghijkl"),
        image_shape=(2, 6),
        pca_components=rng.normal(size=(6, 12)),
        name="minimax_loss",
    )
    draw_without_layout(wide, 12, 9)
    titled_images = [
        (panel.get_title(loc="center"), panel.images) for panel in wide.axes_ if panel.images
    ]
    blocks = [*wide.pca_components, *wide.loadings]
    assert [title.split()[-1] for title, _ in titled_images] == [str(i % 6 + 1) for i in range(12)]
    assert [title.startswith("PCA") for title, _ in titled_images] == [True] * 6 + [False] * 6
    for (_, images), block in zip(titled_images, blocks, strict=True):
        np.testing.assert_allclose(images[0].get_array(), block.reshape(2, 6))
    tall = replace(wide, image_shape=(6, 2))
    assert tall.figure_size()[1] > 2 * wide.figure_size()[1]


def test_each_image_has_its_own_scale_around_zero():
    loadings = np.array([[4.0, -1.0, 0.0, 2.0], [0.1, 0.2, -0.5, 0.0], np.zeros(4)])
    picture = LoadingsDisplay(loadings, tuple("abcd"), image_shape=(2, 2))
    draw_without_layout(picture)
    images = [image for axes in picture.axes_ for image in axes.get_images()]
    assert [image.get_clim() for image in images] == [(-4, 4), (-0.5, 0.5), (-1, 1)]


@pytest.mark.slow
def test_titles_of_images_stay_within_their_images():
    rng = np.random.default_rng(0)
    picture = LoadingsDisplay(
        loadings=rng.normal(size=(4, 6)),
        features=tuple("abcdef"),
        image_shape=(2, 3),
        pca_components=rng.normal(size=(4, 6)),
        name="a_criterion_of_somebody_with_a_very_long_name",
    )
    draw_without_layout(picture, 7, 5).figure.draw_without_rendering()
    titled = [panel.title for panel in picture.axes_ if panel.get_title(loc="center")]
    boxes = [("", title.get_window_extent(), 10) for title in titled]
    assert len(boxes) == 8
    assert find_overlaps(boxes, 0) == []


@pytest.mark.parametrize(
    ("kind", "unit"),
    [
        ("frontier", 1e12),
        pytest.param("losses", 1e-200, marks=pytest.mark.slow),
        pytest.param("frontier", 1e-200, marks=pytest.mark.slow),
        pytest.param("losses", 1e12, marks=pytest.mark.slow),
    ],
)
def test_any_units_can_be_read(kind, unit):
    picture = make_displays(PAIR)[kind]
    if kind == "frontier":
        picture.errors = unit * picture.errors
        picture.achievable_region = unit * picture.achievable_region
        picture.pca_errors = unit * picture.pca_errors
        picture.solutions = {name: unit * solution for name, solution in picture.solutions.items()}
    else:
        records = [
            {**record, "observed_loss": unit * record["observed_loss"]}
            for record in picture.records
        ]
        picture = replace(picture, records=records)
    _, labels = draw_case(picture)
    assert find_overlaps(labels) == []


@pytest.mark.parametrize(
    "point",
    [
        (0.0, 0.0),
        *(pytest.param(point, marks=pytest.mark.slow) for point in ((0.0, 2.0), (1.0, 1.0))),
    ],
)
def test_a_frontier_of_one_point_is_drawn(point):
    picture = make_displays(PAIR)["frontier"]
    picture.errors = np.array([point])
    picture.achievable_region = np.array([point] * 5)
    picture.pca_errors = np.array(point)
    picture.solutions = {name: np.array(point) for name in "abc"}
    _, labels = draw_case(picture)
    assert find_overlaps(labels) == []
    assert "PCA,\na,\nb,\nc" in [text for text, _, _ in labels]


@pytest.mark.parametrize("side", [1, -1])
def test_the_line_of_equal_errors_crosses_the_entire_frontier_display(side):
    errors = np.array([[1.0, 9.0], [2.0, 8.0]])[::side, ::side]
    plain = np.array([1.5, 8.7])[::side]
    axes = draw_without_layout(FrontierDisplay(errors, PAIR, None, plain, {}, 1))
    line = next(
        np.asarray(candidate.get_xydata())
        for candidate in axes.lines
        if candidate.get_linestyle() != "-"
    )
    limits = np.array([axes.get_xlim(), axes.get_ylim()])
    assert line.min() <= limits.min()
    assert line.max() >= limits.max()


def test_answers_at_one_place_share_a_mark_inside_that_of_pca():
    place = np.array([2.0, 8.0])
    # The fourth is at another place, though near in comparison to the errors themselves.
    answers = {"one": place, "two": place, "three": place, "four": np.array([1.95, 8.05])}
    curve = np.array([[1.5, 8.5], [2.0, 8.0]])
    axes = draw_without_layout(FrontierDisplay(curve, PAIR, None, place, answers, 1))
    marks = {line.get_gid(): line for line in axes.lines}
    assert [gid for gid in marks if str(gid).startswith("answer")] == ["answer-3", "answer-0"]
    assert marks["answer-3"].get_xdata() == [1.95]
    assert marks["PCA"].get_markersize() > 1.5 * marks["answer-0"].get_markersize()
    assert sorted(named_solutions(axes)) == ["PCA, one, two, three", "four"]


def named_solutions(axes):
    """Return names next to points of a drawn frontier, and names in its legend."""
    curve = {"frontier", "equal errors", "equal errors in squared units", "achievable errors"}
    legend = [text.get_text() for text in axes.get_legend().get_texts()]
    next_to_points = [text.get_text() for text in axes.texts if text.get_text()]
    names = [name for name in (*legend, *next_to_points) if name not in curve]
    return [" ".join(name.split()) for name in names]


@pytest.mark.slow
@pytest.mark.parametrize("n", [4, 12])
def test_every_solution_is_named_once_without_covering_another(n):
    """Next to its point, or in the legend if there is no room, as on a crowded curve."""
    angle = np.linspace(0, np.pi / 2, 50)
    curve = np.column_stack([2 - np.cos(angle), 2 - np.sin(angle)])
    places = np.linspace(5, 44, n).astype(int)
    solutions = {f"criterion {i}": curve[place] for i, place in enumerate(places.tolist())}
    picture = FrontierDisplay(curve, PAIR, None, np.array([1.4, 1.6]), solutions, 1)
    _, drawn_labels = draw_case(picture)
    assert find_overlaps(drawn_labels) == []
    assert sorted(named_solutions(picture.ax_)) == sorted(["PCA", *solutions])
    labels = [text for text in picture.ax_.texts if text.get_text()]
    assert labels
    pixels = picture.ax_.transData.transform(curve)
    for label in labels:
        box = label.get_window_extent()
        is_covered = (pixels > [box.x0, box.y0]) & (pixels < [box.x1, box.y1])
        assert not is_covered.all(axis=1).any(), label.get_text()


def test_an_answer_far_from_the_frontier_is_an_arrow_at_the_edge():
    picture = make_displays(PAIR)["frontier"]
    near = picture._limits()
    picture.solutions = {**picture.solutions, "disparity": np.array([1.5, 9.0])}
    np.testing.assert_array_equal(near, picture._limits())
    assert list(picture.distant_solutions()) == ["disparity"]
    _, labels = draw_case(picture)
    assert find_overlaps(labels) == []
    names = named_solutions(picture.ax_)
    assert {"disparity outside the axes: 1.5, 9", "first, second, third"} <= set(names)
    # Whoever reads the table finds it where it is.
    assert picture.frame().iloc[-1].tolist() == ["disparity", 1.5, 9.0]
    # The arrow stands at the upper edge, above 1.5, and points upwards.
    arrow = next(text for text in picture.ax_.texts if text.arrow_patch and not text.get_text())
    low, high = picture.ax_.get_ylim()
    assert arrow.xy[0] == arrow.xyann[0] == pytest.approx(1.5)
    assert high - 0.2 * (high - low) < arrow.xyann[1] < arrow.xy[1] < high


def test_the_two_groups_of_a_disparity_are_named_in_full():
    picture = make_displays(("women in towns", "men in towns"))["path"]
    draw_without_layout(picture)
    message = next(text for text in display_texts(picture) if "women in towns" in text)
    assert message.index(" men in towns") < message.index("women in towns")


def test_a_path_has_a_logarithmic_scale_with_zero_at_its_beginning():
    picture = make_displays(PAIR)["path"]
    draw_without_layout(picture)
    for axes in picture.axes_:
        assert axes.get_xscale() == "symlog"
        assert axes.get_xlim() == pytest.approx((-0.1 * 0.01, 1.1 * 10))
    # Nothing but zero has no place on such a scale.
    nothing = replace(picture, values=np.zeros(5), selected_value=None).plot()
    assert all(axes.get_xscale() == "linear" for axes in nothing.axes_)


@pytest.mark.parametrize(
    ("reach", "is_left_out"),
    [(1.5, False), (3.0, True), pytest.param(40.0, True, marks=pytest.mark.slow)],
)
def test_a_point_is_far_beyond_twice_the_range_of_nine_tenths_wherever_the_rows_lie(
    reach, is_left_out
):
    near = make_displays(PAIR)["rows"]
    low, high = np.quantile(near.points, [0.05, 0.95], axis=0)
    points = near.points.copy()
    points[0] = high + reach * (high - low).max()
    limits = []
    for away in (0.0, 1000.0):
        picture = replace(near, points=points + away, means=near.means + away)
        draw_without_layout(picture)
        limits.append(np.array([picture.axes_[0].get_xlim(), picture.axes_[0].get_ylim()]) - away)
        assert any("1 row lies" in text for text in display_texts(picture)) == is_left_out
    np.testing.assert_allclose(limits[0], limits[1], atol=0.01)


def test_an_audit_shows_what_is_expected_where_it_is_known():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4)) * [3, 2, 1, 1]
    X[100:] = X[100:, ::-1]
    groups = np.repeat(["a", "b", "few"], [100, 198, 2])
    fair = PCA(2).fit(X)
    audit = fs.audit(fair, X, groups, folds=5)
    picture = audit.plot()
    assert picture.quantity == "expected_loss"
    frame = picture.frame()
    records = audit.frame()
    for name in ("state", "expected_loss", "expected_loss_low", "expected_loss_high"):
        assert frame[name].equals(records[name])
    assert audit.plot(quantity="observed_error").quantity == "observed_error"
    result = fs.audit(fair, X, groups, folds=None)
    assert result.plot().quantity == "observed_error"
    with pytest.raises(InvalidInput, match="no estimates"):
        result.plot(quantity="expected_loss")


def marker_of(criterion, names):
    """Return the marker and color of a criterion at a frontier with these criteria."""
    from matplotlib.colors import to_hex

    errors = {name: np.array([1.0 + i, 9.0 - i]) for i, name in enumerate(names)}
    curve = np.array([[0.5, 9.5], [9.5, 0.5]])
    picture = FrontierDisplay(curve, PAIR, None, np.array([5.0, 5.0]), errors, 1)
    axes = draw_without_layout(picture)
    (line,) = (
        line for line in axes.lines if line.get_gid() == f"answer-{[*names].index(criterion)}"
    )
    return line.get_marker(), to_hex(line.get_color())


@pytest.mark.parametrize("criterion", ["minimax_loss", "least_variance", "nash_welfare"])
def test_a_criterion_has_one_marker_whatever_it_is_compared_with(criterion):
    other_names = ("error_gap", "disparity", "mine")
    markers = {
        marker_of(criterion, names)
        for names in (
            (criterion, *other_names),
            (*other_names, criterion),
            ("equal_error", criterion),
        )
    }
    assert len(markers) == 1
    readable = criterion.replace("_", " ").replace("nash", "Nash")
    assert marker_of(readable, ("error gap", readable)) in markers
    assert marker_of("mine", (criterion, *other_names)) not in markers


def test_a_label_is_clearly_nearest_to_its_own_mark():
    places = {"minimax_loss": (5.0, 5.0), "least_variance": (9.5, 2.6), "nash_welfare": (8.6, 2.8)}
    solutions = {name: np.array(place) for name, place in places.items()}
    curve = np.array([[1.0, 9.0], [5.0, 5.0], [8.6, 2.8], [9.5, 2.6]])
    picture, _ = draw_case(FrontierDisplay(curve, PAIR, None, np.array([1.5, 8.5]), solutions, 1))
    axes = picture.ax_
    marks = {name.replace("_", " "): place for name, place in places.items()} | {"PCA": (1.5, 8.5)}
    pixels = {name: axes.transData.transform(place) for name, place in marks.items()}
    labels = [text for text in axes.texts if text.get_text()]
    assert labels
    for label in labels:
        box = label.get_window_extent()
        distances = {
            name.lower(): np.hypot(max(box.x0 - x, x - box.x1, 0), max(box.y0 - y, y - box.y1, 0))
            for name, (x, y) in pixels.items()
        }
        own_distance = distances.pop(label.get_text().lower())
        assert 1.4 * own_distance < min(distances.values())


def test_a_group_with_several_models_is_named_once_as_a_heading():
    picture, drawn_labels = draw_case(
        make_displays(("Amer-Indian-Eskimo", "women"))["expected losses"]
    )
    texts = [text for text, _, _ in drawn_labels]
    for name in ("Amer-Indian-Eskimo", "women"):
        assert texts.count(name) == 1
    labels = [label.get_text() for label in picture.ax_.get_yticklabels()]
    models = [" ".join(label.split()) for label in labels]
    assert models == models[: len(models) // 2] * 2
    assert find_overlaps(drawn_labels) == []


@pytest.mark.parametrize(("largest", "is_logarithmic"), [(8, False), (59, True)])
def test_many_dimensions_are_on_a_logarithmic_axis(largest, is_logarithmic):
    dimensions = [1, 2, 3, 4, 5, largest]
    records = [
        {
            "model": "PCA",
            "n_components": d,
            "group": group,
            "observed_loss": 1.0 / d,
            "observed_total_variance": 10.0,
            "status": None,
        }
        for d in dimensions
        for group in PAIR
    ]
    picture, labels = draw_case(ErrorCurveDisplay(records, "observed_loss", 3))
    assert (picture.axes_[0].get_xscale() == "log") is is_logarithmic
    assert find_overlaps(labels) == []
