"""Every picture: what it says, that it can be read, and what expected losses look like."""

import re
import sys
import warnings

import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.figure import Figure

import fairspan as fs
from fairspan.displays import ErrorCurveDisplay
from fairspan.drawing.layout import FAINT, INK, PURPLE
from fairspan.drawing.pictures import METADATA, AuditPicture, Estimates, empty_figure, reproducible
from fairspan.errors import InvalidInput, MissingDependency
from fairspan.report.page.figures import inline_svg
from pictures import HOSTILE, LONG, overlaps, pictures_of, written_in

KINDS = tuple(pictures_of(("a", "b")))
TWELVE = ("errors", "kept", "group losses", "path", "many loadings", "rows", "audit")


def drawn(picture, layout="constrained"):
    figure = Figure(figsize=picture.size(), layout=layout)
    picture.plot(figure.add_subplot())  # without a warning
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        return picture, written_in(figure)


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "names"),
    [(kind, HOSTILE[6:8]) for kind in KINDS if kind != "losses"]
    + [(kind, HOSTILE) for kind in TWELVE]
    + [(kind, LONG) for kind in ("kept", "audit")]
    + [(kind, LONG[:1]) for kind in ("errors",)],
)
def test_texts_are_large_enough_apart_and_inside(kind, names):
    picture, written = drawn(pictures_of(names)[kind])
    assert overlaps(written) == []
    assert min(size for _, _, size in written) >= 9
    bounds = picture.figure_.bbox
    for text, box, _ in written:
        assert bounds.x0 - 1 <= box.x0 <= box.x1 <= bounds.x1 + 1, text
        assert bounds.y0 - 1 <= box.y0 <= box.y1 <= bounds.y1 + 1, text


@pytest.mark.parametrize("kind", ["kept", "audit"])
def test_every_group_is_named_apart(kind):
    _, written = drawn(pictures_of(HOSTILE)[kind])
    texts = [text for text, _, _ in written]
    for name in ("\\$\\frac{", "_hidden", "<b>&amp;", "(no name)", "two?lines", "a\\$b\\$c"):
        assert name in texts
    ends = {text for text in texts if text.startswith("univ")}
    assert len(ends) == 2


@pytest.mark.long
@pytest.mark.parametrize("kind", ["errors", "kept", "path", "many loadings", "frontier"])
def test_pictures_stay_in_the_axes_they_are_given(kind):
    figure = Figure(figsize=(16, 7), layout="constrained")
    left, right = figure.subplots(1, 2)
    right.plot([0, 1])
    before = set(pyplot.get_fignums())
    picture = pictures_of(("a", "b"))[kind]
    assert picture.plot(ax=left) is picture
    assert picture.ax_ is left
    assert picture.figure_ is figure
    written = written_in(figure)
    edge = right.get_window_extent().x0
    own = [box for _, box, _ in written if box.x0 < edge - 40]
    assert max(box.x1 for box in own) < edge
    assert overlaps(written) == []
    assert len(right.lines) == 1
    assert set(pyplot.get_fignums()) == before


@pytest.mark.long
@pytest.mark.parametrize("layout", [None, "tight"])
@pytest.mark.parametrize("kind", ["errors", "kept"])
def test_other_layouts_are_drawn_too(kind, layout):
    picture, written = drawn(pictures_of(LONG[:3])[kind], layout)
    assert len(picture.axes_) == {"errors": 3, "kept": 1}[kind]
    assert overlaps(written) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_tells_what_is_drawn(kind):
    picture = pictures_of(("a", "b"))[kind]
    columns = picture.columns()
    frame = picture.frame()
    assert list(frame.columns) == list(columns)
    assert len({len(column) for column in columns.values()}) == 1
    assert len(frame) > 0


@pytest.mark.long
@pytest.mark.parametrize("kind", ["errors", "rows", "frontier"])
def test_drawn_twice_the_bytes_are_the_same(kind, tmp_path):
    def once():
        picture, _ = drawn(pictures_of(HOSTILE[:2])[kind])
        with reproducible("fairspan"):
            picture.figure_.savefig(tmp_path / "one.svg", metadata=METADATA["svg"])
        written = (tmp_path / "one.svg").read_bytes()
        return written, inline_svg(picture.figure_, "k", 'what "it" shows')

    assert once() == once()


def test_names_that_look_like_parts_of_a_figure_stay_as_they_are():
    names = ("#0072B2", 'id="x', 'url(#y href="#z')
    picture, _ = drawn(pictures_of(names)["kept"])
    svg = inline_svg(picture.figure_, "k", "kept")
    texts = "".join(re.findall(r">([^<>]*)<", svg))
    assert all(name in texts for name in names)
    assert 'id="k-' in svg
    assert "var(--blue)" in svg
    assert "var(" not in texts


def test_settings_are_put_back():
    before = dict(pyplot.rcParams)
    picture = pictures_of(HOSTILE)["kept"].plot()
    assert dict(pyplot.rcParams) == before
    assert picture.figure_.number in pyplot.get_fignums()


@pytest.mark.parametrize("setting", [False, True])
def test_only_rows_of_groups_have_grid_lines_whatever_the_users_settings(setting):
    for kind, axis in (("errors", None), ("frontier", None), ("kept", "x")):
        with pyplot.rc_context({"axes.grid": setting}):
            picture = pictures_of(("a", "b"))[kind].plot()
        for axes in picture.figure_.axes:
            shown = {
                each.axis_name
                for each in (axes.xaxis, axes.yaxis)
                if any(line.get_visible() for line in each.get_gridlines())
            }
            assert shown == ({axis} if axis else set())


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    picture = pictures_of(("a", "b"))["kept"]
    assert picture.columns()["group"] == ["a", "b"]
    with pytest.raises(MissingDependency, match=r"fairspan\[plot\]"):
        picture.plot()
    with pytest.raises(MissingDependency, match=r"fairspan\[plot\]"):
        empty_figure("a test")


def test_lines_are_the_data():
    picture, _ = drawn(pictures_of(LONG[:3])["errors"])
    for g, panel in enumerate(picture.axes_):
        lines = {line.get_gid(): line for line in panel.lines}
        for name, values in (
            ("plain", picture.plain.values),
            ("fair", picture.fair.values),
            ("best", picture.best),
        ):
            np.testing.assert_array_equal(lines[f"{name}-{g}"].get_xdata(), picture.dimensions)
            np.testing.assert_array_equal(lines[f"{name}-{g}"].get_ydata(), values[:, g])
        assert lines[f"marked-{g}"].get_xdata()[0] == 3
    pca, fair = (lines[f"{name}-2"] for name in ("plain", "fair"))
    # Told apart without colour.
    assert pca.get_linestyle() != fair.get_linestyle()
    assert pca.get_markerfacecolor() == "white" != fair.get_markerfacecolor()


def test_bars_and_bound_are_the_data():
    picture, written = drawn(pictures_of(("a", "b"))["group losses"])
    widths = [bar.get_width() for bar in picture.ax_.patches]
    np.testing.assert_array_equal(widths, picture.estimates.values.ravel())
    assert picture.ax_.get_xlim()[0] == 0
    (bound,) = (line for line in picture.ax_.lines if line.get_gid() == "bound")
    assert bound.get_xdata()[0] == 1.5
    assert set(picture.frame()["bound"]) == {1.5}
    assert any(text.startswith("Open gap") for text, _, _ in written)


@pytest.mark.parametrize(
    ("bound", "status", "said"),
    [
        (None, "optimal", "gives no bound"),
        (1.5, "optimal", "Proven"),
        (1.5, "estimated", "is an estimate"),
    ],
)
def test_losses_say_what_is_proven(bound, status, said):
    picture = pictures_of(("a", "b"))["group losses"]
    picture.bound, picture.status = bound, status
    _, written = drawn(picture)
    assert any(said in text for text, _, _ in written)


@pytest.mark.parametrize("kind", ["losses", "path"])
def test_paths_say_how_many_answers_are_not_proven(kind):
    picture = pictures_of(("a", "b"))[kind]
    n = len(picture.columns()["group"]) // 4 if kind == "losses" else 5
    picture.statuses = ["optimal"] * (n - 3) + ["open gap", "estimated", "no answer"]
    _, written = drawn(picture)
    assert any(f"Of {n - 1} answers, 2 are not" in " ".join(t.split()) for t, _, _ in written)
    columns = picture.columns()
    assert "open gap" in columns["status"]
    if kind == "losses":
        told = {
            name for name, status in zip(columns["model"], columns["status"], strict=True) if status
        }
        assert told == {picture.name}


@pytest.mark.long
@pytest.mark.parametrize("k", [2, 6])
def test_right_angles_are_seen_as_such(k):
    picture, _ = drawn(pictures_of(LONG[:k])["rows"])
    for g in range(k):
        panel = picture.axes_[min(g, len(picture.axes_) - 1)]
        long, short = picture.principal_axes(g)
        ends = panel.transData.transform([picture.means[g], picture.means[g] + long])
        other = panel.transData.transform([picture.means[g], picture.means[g] + short])
        one, two = ends[1] - ends[0], other[1] - other[0]
        assert abs(one @ two) < 1e-6 * np.linalg.norm(one) * np.linalg.norm(two)


def test_the_largest_loadings_are_shown_first():
    picture = pictures_of(LONG)["loadings"]
    picture.n_features = 4
    part = (picture.loadings**2).sum(axis=0)
    assert picture.columns()["feature"] == [LONG[j] for j in np.argsort(-part)[:4]]
    drawn(picture)
    image = picture.ax_.images[0]
    np.testing.assert_array_equal(image.get_array(), picture.loadings[:, picture.shown].T)
    low, high = image.get_clim()
    assert low == -high  # zero is white


@pytest.mark.parametrize("unit", [1e-200, 1e12])
@pytest.mark.parametrize("kind", ["frontier", "errors"])
def test_any_units_can_be_read(kind, unit):
    picture = pictures_of(("a", "b"))[kind]
    if kind == "frontier":
        picture.errors, picture.region = unit * picture.errors, unit * picture.region
        picture.plain = unit * picture.plain
        picture.answers = {name: unit * each for name, each in picture.answers.items()}
    else:
        picture.plain = Estimates.of(unit * picture.plain.values)
        picture.fair = Estimates.of(unit * picture.fair.values)
        picture.best = None
    _, written = drawn(picture)
    assert overlaps(written) == []


@pytest.mark.parametrize("point", [(0.0, 0.0), (1.0, 1.0), (0.0, 2.0)])
def test_a_frontier_of_one_point_is_drawn(point):
    picture = pictures_of(("a", "b"))["frontier"]
    picture.errors = np.array([point])
    picture.region = np.array([point] * 5)
    picture.plain = np.array(point)
    picture.answers = {name: np.array(point) for name in "abc"}
    _, written = drawn(picture)
    assert overlaps(written) == []
    assert "a, b, c" in [text for text, _, _ in written]


def test_an_answer_far_from_the_frontier_is_an_arrow_at_the_edge():
    picture = pictures_of(("a", "b"))["frontier"]
    near = picture._limits()
    picture.answers = {**picture.answers, "disparity": np.array([1.5, 9.0])}
    np.testing.assert_array_equal(near, picture._limits())
    assert list(picture.outside()) == ["disparity"]
    _, written = drawn(picture)
    assert overlaps(written) == []
    assert "disparity (1.5, 9), outside" in [text for text, *_ in written]
    assert "first, second, third" in [text for text, *_ in written]
    # Whoever reads the table finds it where it is.
    assert picture.frame().iloc[-1].tolist() == ["disparity", 1.5, 9.0]
    # The arrow stands at the upper edge, above 1.5, and points upwards.
    arrow = next(each for each in picture.ax_.texts if each.arrow_patch and not each.get_text())
    low, high = picture.ax_.get_ylim()
    assert arrow.xy[0] == arrow.xyann[0] == pytest.approx(1.5)
    assert high - 0.2 * (high - low) < arrow.xyann[1] < arrow.xy[1] < high


def test_the_two_groups_of_a_disparity_are_named_whole():
    _, written = drawn(pictures_of(("women in towns", "men in towns"))["path"])
    texts = [" ".join(text.split()) for text, _, _ in written]
    assert any("error of men in towns minus that of women in towns" in text for text in texts)


def test_in_one_panel_models_have_no_colour_that_would_be_taken_for_a_groups():
    picture, written = drawn(pictures_of(("a", "b"))["errors"])
    assert any("Bands are 95 % confidence intervals" in text for text, *_ in written)
    handles = dict(zip(*reversed(picture._legend(picture.axes_[0])), strict=True))
    colours = {name: handle.get_color() for name, handle in handles.items()}
    assert colours["PCA"] == colours["minimax loss"] == INK
    assert len({colours["a"], colours["b"], colours["best possible"], INK}) == 4


def test_a_panel_of_a_group_of_too_few_rows_says_so_inside():
    plain, on_rows = np.tile([[2.0, 3.0, np.nan]], (8, 1)), np.ones((8, 3))
    both = (Estimates.of(each, on_rows=on_rows) for each in (plain, plain / 2))
    picture = ErrorCurveDisplay(
        np.arange(1, 9), LONG[:3], *both, quantity="expected loss"
    ).plot(ax=Figure(figsize=(8, 4)).add_subplot())  # fmt: skip
    texts = [text for axes in picture.axes_ for text in axes.texts if "too few" in text.get_text()]
    (text,) = texts
    picture.figure_.draw_without_rendering()
    box, frame = text.get_window_extent(), picture.axes_[2].get_window_extent()
    assert frame.x0 < box.x0 < box.x1 < frame.x1
    assert frame.y0 < box.y0 < box.y1 < frame.y1


def picture(values, low, high, states):
    values, low, high = (np.array(each, dtype=float) for each in (values, low, high))
    models = {"PCA": Estimates.of(values, low, high, states)}
    return AuditPicture(("a", "b", "c"), models, ("PCA",), "expected loss")


@pytest.fixture(scope="module")
def audit():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4)) * [3, 2, 1, 1]
    X[100:] = X[100:, ::-1]
    groups = np.repeat(["a", "b", "few"], [100, 198, 2])
    return fs.audit(fs.FairPCA(2).fit(X, sensitive_features=groups), X, groups)


def test_what_is_not_known_is_grey_and_leaves_the_axes_as_they_are():
    drawn = picture(
        [1.0, 5.0, np.nan],
        [0.5, -1e6, np.nan],
        [1.5, 1e6, np.nan],
        ("harmed", "cannot tell", "cannot tell"),
    ).plot()
    start, end = drawn.ax_.get_xlim()
    assert -10 < start < 0
    assert 1.5 < end < 10
    told, unknown = (each.get_color()[0] for each in drawn.ax_.collections)
    from matplotlib.colors import to_rgba

    assert tuple(told) == to_rgba(PURPLE)
    assert tuple(unknown) == to_rgba(FAINT)
    arrows = [line.get_marker() for line in drawn.ax_.lines if line.get_marker() in "<>"]
    assert arrows == ["<", ">"]
    (text,) = (text for text in drawn.ax_.texts if "too few rows" in text.get_text())
    assert text.get_position()[1] == 2


def test_an_audit_shows_what_is_expected_where_it_is_known(audit):
    drawn = audit.picture()
    assert drawn.quantity == "expected loss"
    frame, records = drawn.frame(), audit.records()
    assert frame["state"].tolist() == [each["state"] for each in records]
    for ours, theirs in (("expected loss", "expected_loss"), ("low", "expected_loss_low")):
        known = [np.nan if each[theirs] is None else each[theirs] for each in records]
        assert frame[ours].to_numpy() == pytest.approx(np.array(known), nan_ok=True)
    assert audit.picture("error").quantity == "error"


def test_without_estimates_errors_on_the_rows_are_shown(audit):
    rng = np.random.default_rng(1)
    X, groups = rng.normal(size=(40, 3)), np.repeat(["a", "b"], 20)
    result = fs.audit(fs.FairPCA(1).fit(X, sensitive_features=groups), X, groups, folds=None)
    assert result.picture().quantity == "error"
    with pytest.raises(InvalidInput, match="no estimates for new rows"):
        result.picture("expected loss")


def test_curves_show_all_points_and_of_wide_bands_little():
    values = np.array([[1.0, 0.5, np.nan], [0.5, -2.0, np.nan]])
    low, high = values - 0.2, values + 0.2
    low[1, 1], high[1, 1] = -1e6, 1e6
    states = [["harmed", "minor", "cannot tell"], ["harmed", "cannot tell", "cannot tell"]]
    drawn = ErrorCurveDisplay(
        np.array([1, 2]),
        ("a", "b", "few"),
        Estimates.of(values, low, high, states, np.ones((2, 3))),
        Estimates.of(np.full((2, 3), np.nan), on_rows=np.zeros((2, 3))),
        quantity="expected loss",
    ).plot()
    start, end = drawn.axes_[0].get_ylim()
    assert -5 < start < -2
    assert 1.2 < end < 5
    grey = [line for line in drawn.axes_[1].lines if line.get_color() == FAINT]
    assert [line.get_ydata().tolist() for line in grey] == [[-2.0]]
    assert [text.get_text() for text in drawn.axes_[2].texts] == ["too few rows"]
    dotted = [line for line in drawn.axes_[2].lines if line.get_linestyle() == ":"]
    assert {line.get_color() for line in dotted} == {FAINT}
    frame = drawn.frame()
    assert frame["state"].tolist()[:6] == [state for row in states for state in row]
    assert frame["loss on the rows"].tolist() == [1.0] * 6 + [0.0] * 6


def test_what_is_not_known_of_estimates_is_filled_in_apart():
    estimates = Estimates.of(np.full(2, np.nan))
    for value, each in enumerate((estimates.values, estimates.low, estimates.high)):
        each[0] = value
    assert [each[0] for each in estimates[:3]] == [0, 1, 2]
    assert np.isnan(estimates.on_rows).all()
