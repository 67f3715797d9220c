"""Where things lie in a picture, and the names that are written in it."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from fairspan.displays import LoadingsDisplay
from fairspan.drawing import layout
from fairspan.drawing.layout import FAIR, INK, PLAIN, PURPLE, look, other_look
from fairspan.drawing.pictures import AuditPicture, Estimates, FrontierPicture
from fairspan.formatting.text import axis_number as number
from fairspan.formatting.text import label_of, labels_of, terminal_width
from pictures import pictures_of


def axes_of(width=8.0, height=6.0):
    return Figure(figsize=(width, height)).add_subplot()


@pytest.mark.parametrize("low", [0.0, 0.3, 0.62])
@pytest.mark.parametrize("reach", [0.08, 0.1, 0.13, 0.17, 0.2, 0.3])
@pytest.mark.parametrize("width", [3.0, 6.0])
def test_ticks_of_shares_are_what_is_written_beside_them(low, reach, width):
    axes = axes_of(width)
    layout.set_shares(axes, np.array([low, low + reach]))
    axes.figure.draw_without_rendering()
    for tick in axes.get_xticklabels():
        written = tick.get_text().removesuffix(" %").replace("\N{MINUS SIGN}", "-")
        assert float(written) == pytest.approx(100 * tick.get_position()[0])


def test_things_beside_pca_look_different_and_only_pca_is_hollow():
    looks = [other_look(i) for i in range(55)]
    assert len({(each.colour, each.marker) for each in looks}) == 55
    assert all(each.is_filled for each in (*looks, look(0), FAIR))
    assert not PLAIN.is_filled


@pytest.mark.parametrize("side", [1, -1])
def test_the_line_of_equal_errors_crosses_the_whole_frontier_picture(side):
    picture = FrontierPicture(
        errors=np.array([[1.0, 9.0], [2.0, 8.0]])[::side, ::side],
        plain=np.array([1.5, 8.7])[::side],
        answers={},
        groups=("a", "b"),
        n_components=1,
        region=None,
    )
    axes = axes_of()
    picture.plot(ax=axes)
    line = next(np.asarray(each.get_xydata()) for each in axes.lines if each.get_linestyle() != "-")
    limits = np.array([axes.get_xlim(), axes.get_ylim()])
    assert line.min() <= limits.min()
    assert line.max() >= limits.max()


def test_images_stand_in_order_below_their_names_and_as_tall_as_they_are():
    rng = np.random.default_rng(0)
    wide = LoadingsDisplay(
        loadings=rng.normal(size=(6, 12)),
        features=tuple("abcdefghijkl"),
        image_shape=(2, 6),
        plain=rng.normal(size=(6, 12)),
        name="minimax_loss",
    )
    axes = axes_of(12, 9)
    wide.plot(ax=axes)
    shown = [(panel.get_title(), panel.images) for panel in wide.axes_ if panel.images]
    blocks = [*wide.plain, *wide.loadings]
    assert [title.split()[-1] for title, _ in shown] == [str(i % 6 + 1) for i in range(12)]
    assert [title.startswith("PCA") for title, _ in shown] == [True] * 6 + [False] * 6
    for (_, drawn), block in zip(shown, blocks, strict=True):
        np.testing.assert_allclose(drawn[0].get_array(), block.reshape(2, 6))
    tall = replace(wide, image_shape=(6, 2))
    assert tall.size()[1] > 2 * wide.size()[1]


def test_a_map_of_narrow_cells_has_a_scale_in_place_of_numbers():
    values = np.random.default_rng(0).normal(size=(40, 5))
    picture = LoadingsDisplay(loadings=values, features=tuple("abcde"))
    axes = axes_of(5, 5)
    picture.plot(ax=axes)
    assert len(axes.figure.axes) == 2
    assert len(axes.texts) < values.size


@pytest.mark.parametrize("d", [1, 2])
def test_a_loss_is_told_against_the_groups_own_best_dimensions(d):
    picture = replace(pictures_of(("a", "b"))["group losses"], n_components=d)
    axes = axes_of()
    picture.plot(ax=axes)
    titles = " ".join(axes.get_title(loc=loc) for loc in ("left", "center", "right"))
    texts = " ".join([titles, *(text.get_text() for text in axes.figure.findobj(_is_text))])
    assert ("its own best dimension" if d == 1 else "its own best 2 dimensions") in texts


def _is_text(artist):
    return hasattr(artist, "get_text")


def test_far_points_are_left_out_alike_wherever_the_rows_lie():
    near = pictures_of(("a", "b"))["rows"]
    points = near.points.copy()
    points[0] = points.max(axis=0) + 40 * np.ptp(points, axis=0)
    limits = []
    for away in (0.0, 1000.0):
        picture = replace(near, points=points + away, means=near.means + away)
        picture.plot(ax=axes_of())
        limits.append(np.array([picture.axes_[0].get_xlim(), picture.axes_[0].get_ylim()]) - away)
        assert picture.ax_.get_xlabel() == "component 1"
    np.testing.assert_allclose(limits[0], limits[1], atol=1e-6)


@pytest.mark.parametrize(("reach", "is_left_out"), [(1.5, False), (3.0, True)])
def test_a_point_is_far_beyond_twice_the_range_of_nine_tenths(reach, is_left_out):
    near = pictures_of(("a", "b"))["rows"]
    low, high = np.quantile(near.points, [0.05, 0.95], axis=0)
    points = near.points.copy()
    points[0] = high + reach * (high - low).max()
    replace(near, points=points).plot(ax=(axes := axes_of()))
    said = " ".join(text.get_text() for text in axes.figure.findobj(_is_text))
    assert ("1\xa0row lies" in said) == is_left_out


def test_models_beside_pca_take_looks_in_turn_and_the_colours_of_states():
    ones = np.ones(2)
    states = ("harmed", "not shown")
    models = dict.fromkeys(("PCA", "one", "two"), Estimates.of(ones, ones / 2, 2 * ones, states))
    picture = AuditPicture(("a", "b"), models, ("PCA",), "expected loss")
    picture.plot(ax=(axes := axes_of()))
    drawn = [
        (line.get_marker(), to_hex(line.get_color()))
        for line in axes.lines
        if str(line.get_gid()).startswith("model")
    ]
    markers = [PLAIN.marker, other_look(0).marker, other_look(1).marker]
    assert drawn == [(marker, colour) for marker in markers for colour in (PURPLE, INK)]
    legend = axes.get_legend()
    assert [text.get_text() for text in legend.get_texts()] == [*models, *states]
    assert [to_hex(line.get_color()) for line in legend.get_lines()] == [INK] * 3 + [PURPLE, INK]
    assert any(list(line.get_xdata()) == [0, 0] for line in axes.lines)
    # What was seen on the rows themselves lies inside too, wherever it is.
    models["one"] = Estimates.of(ones, ones / 2, 2 * ones, states, 9 * ones)
    picture.plot(ax=(axes := axes_of()))
    low, high = axes.get_xlim()
    assert low < 0 < 9 < high
    # Other figures have no states: colours are those of models.
    replace(picture, quantity="loss", models=dict.fromkeys(models, Estimates.of(ones))).plot(
        ax=(axes := axes_of())
    )
    colours = [to_hex(line.get_color()) for line in axes.get_legend().get_lines()]
    assert colours == [PLAIN.colour, other_look(0).colour, other_look(1).colour]


def test_answers_at_one_place_share_a_mark_inside_that_of_pca():
    place = np.array([2.0, 8.0])
    # The fourth is at another place, though near in comparison to the errors themselves.
    answers = {"one": place, "two": place, "three": place, "four": np.array([1.95, 8.05])}
    curve = np.array([[1.5, 8.5], [2.0, 8.0]])
    FrontierPicture(
        errors=curve, plain=place, answers=answers, groups=("a", "b"), n_components=1, region=None
    ).plot(ax=(axes := axes_of()))
    marks = {line.get_gid(): line for line in axes.lines}
    assert [each for each in marks if str(each).startswith("answer")] == ["answer-0", "answer-1"]
    assert marks["answer-1"].get_xdata() == [1.95]
    assert marks["PCA"].get_markersize() > 1.5 * marks["answer-0"].get_markersize()
    told = [text.get_text() for text in axes.get_legend().get_texts()]
    assert told == ["frontier", "equal errors", "PCA", "one, two, three", "four"]


def test_the_axes_of_a_group_cross_at_its_mean():
    picture = pictures_of(("a", "b"))["rows"]
    picture.plot(ax=axes_of())
    axes = picture.axes_[0]
    lines = [np.asarray(line.get_xydata()) for line in axes.lines if len(line.get_xydata()) == 2]
    for g, mean in enumerate(picture.means):
        for axis in picture.principal_axes(g):
            ends = np.array([mean - axis, mean + axis])
            assert any(np.allclose(line, ends) for line in lines)


def test_titles_of_images_stay_within_their_images():
    rng = np.random.default_rng(0)
    picture = LoadingsDisplay(
        loadings=rng.normal(size=(4, 6)),
        features=tuple("abcdef"),
        image_shape=(2, 3),
        plain=rng.normal(size=(4, 6)),
        name="a_criterion_of_somebody_with_a_very_long_name",
    )
    axes = axes_of(7, 5)
    picture.plot(ax=axes)
    axes.figure.draw_without_rendering()
    titled = [panel.title for panel in picture.axes_ if panel.get_title()]
    boxes = [title.get_window_extent() for title in titled]
    assert len(boxes) == 8
    for i, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[i + 1 :])


def test_a_path_has_a_logarithmic_scale_with_zero_at_its_beginning():
    picture = pictures_of(("a", "b"))["path"]
    picture.plot(ax=axes_of())
    for axes in picture.axes_:
        assert axes.get_xscale() == "symlog"
        low, high = axes.get_xlim()
        assert low == pytest.approx(-0.1 * 0.01)
        assert high == pytest.approx(1.1 * 10)
    # Nothing but zero has no place on such a scale.
    nothing = replace(picture, values=np.zeros(5), current=None).plot(ax=axes_of())
    assert all(axes.get_xscale() == "linear" for axes in nothing.axes_)


def test_each_image_has_its_own_scale_around_zero():
    loadings = np.array([[4.0, -1.0, 0.0, 2.0], [0.1, 0.2, -0.5, 0.0], np.zeros(4)])
    picture = LoadingsDisplay(loadings, tuple("abcd"), image_shape=(2, 2))
    picture.plot(ax=axes_of())
    images = [image for axes in picture.axes_ for image in axes.get_images()]
    assert [image.get_clim() for image in images] == [(-4, 4), (-0.5, 0.5), (-1, 1)]


def shown(label):
    return label.replace("\\$", "$")


@settings(derandomize=True, max_examples=50)
@given(st.text(max_size=60), st.integers(8, 40))
def test_a_label_fits_and_is_printable(name, longest):
    label = shown(label_of(name, longest))
    assert 0 <= terminal_width(label) <= longest or label == "(no name)"
    assert label
    assert label.isprintable()
    if name.isprintable() and name.isascii() and 0 < len(name) <= longest:
        assert label == name


@settings(derandomize=True, max_examples=50)
@given(st.lists(st.text("ab -", min_size=1, max_size=30), unique=True, max_size=12))
def test_different_names_have_different_labels(names):
    labels = labels_of(names, 8)
    assert len(set(labels)) == len(names)
    assert all(terminal_width(label) <= 8 for label in labels)


def test_names_that_differ_in_their_middle_alone_are_numbered_and_still_fit():
    assert labels_of(["a long name here", "a long and here"], 7) == [
        "a lo\N{HORIZONTAL ELLIPSIS} 1",
        "a lo\N{HORIZONTAL ELLIPSIS} 2",
    ]


@pytest.mark.parametrize(
    "value", [0.0, 1.0, -0.25, 123456.0, 1e-12, -3.5e20, 1e300, 0.1 + 0.2, 1 / 3]
)
def test_numbers_are_read_back(value):
    text = number(value)
    assert len(text) <= 13
    assert float(text.replace("\N{MINUS SIGN}", "-")) == pytest.approx(value, rel=1e-5)


def test_twelve_groups_differ_by_marker_alone():
    assert len({look(i).marker for i in range(12)}) == 12
