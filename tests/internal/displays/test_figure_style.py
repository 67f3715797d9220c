"""Colors and marks of displays, and figures as SVG: what looks alike and what must not."""

import re

import numpy as np
import pytest

from display_cases import HOSTILE, draw_case, draw_without_layout, make_displays, make_records
from fairspan.displays import AuditDisplay, ErrorCurveDisplay
from fairspan.displays.base_display import SAVE_METADATA, reproducible_svg
from fairspan.displays.style import FAIR_STYLE, GREEN, MUTED, PCA_STYLE, PURPLE, series_style
from fairspan.report.svg_figures import inline_svg

PAIR = ("a", "b")


@pytest.mark.long
@pytest.mark.parametrize("kind", ["errors", "rows", "frontier"])
def test_drawn_twice_the_bytes_are_the_same(kind, tmp_path):
    def draw_and_save():
        picture, _ = draw_case(make_displays(HOSTILE[:2])[kind])
        with reproducible_svg("fairspan"):
            picture.figure_.savefig(tmp_path / "one.svg", metadata=SAVE_METADATA["svg"])
        saved_bytes = (tmp_path / "one.svg").read_bytes()
        return saved_bytes, inline_svg(picture.figure_, "k", 'what "it" shows')

    assert draw_and_save() == draw_and_save()


def test_names_that_look_like_parts_of_a_figure_stay_as_they_are():
    names = ("#0072B2", 'id="x', 'url(#y href="#z')
    picture, _ = draw_case(make_displays(names)["kept"])
    svg = inline_svg(picture.figure_, "k", "kept")
    texts = "".join(re.findall(r">([^<>]*)<", svg))
    assert all(name in texts for name in names)
    assert 'id="k-' in svg
    assert "var(--blue)" in svg
    assert "var(" not in texts


def test_things_next_to_pca_look_different_and_only_pca_is_hollow():
    looks = [series_style(i) for i in range(55)]
    assert len({(look.color, look.marker) for look in looks}) == 55
    assert all(look.is_filled for look in (*looks, FAIR_STYLE))
    assert not PCA_STYLE.is_filled
    assert PCA_STYLE.line != FAIR_STYLE.line


def test_rows_of_losses_have_the_marker_of_the_model_and_the_color_and_word_of_the_state():
    from matplotlib.colors import to_hex

    states = np.array(["harmed", "no material harm"] * 3)
    models = dict.fromkeys(("PCA", "one", "two"), np.ones(2))
    ends = np.full((3, 2), 0.5), np.full((3, 2), 2.0)
    records = make_records(PAIR, models, "expected_loss", ends, state=states)
    axes = draw_without_layout(AuditDisplay(records))
    looks_of_points = [
        (line.get_marker(), to_hex(line.get_color()))
        for line in axes.lines
        if str(line.get_gid()).startswith("model")
    ]
    markers = [PCA_STYLE.marker, series_style(0).marker, series_style(1).marker]
    assert looks_of_points == [(marker, color) for color in (PURPLE, GREEN) for marker in markers]
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == [*models, *models]
    headings = [text.get_text() for text in axes.texts if text.get_text() in PAIR]
    assert headings == list(PAIR)
    descriptions = [text.get_text() for text in axes.texts if text.get_text() not in PAIR]
    assert [text.split(", ")[1] for text in descriptions] == [
        *["harmed"] * 3,
        *["no material harm"] * 3,
    ]
    # Every row is named where it is drawn, and the legend has nothing left to explain.
    rows = [line.get_ydata()[0] for line in axes.lines if str(line.get_gid()).startswith("model")]
    assert rows == axes.get_yticks().tolist()
    assert axes.get_legend().get_texts() == []
    assert any(list(line.get_xdata()) == [0, 0] for line in axes.lines)
    # What was seen on the rows themselves lies inside too, wherever it is.
    records_with_observed = [{**record, "observed_loss": 9.0} for record in records]
    low, high = draw_without_layout(
        AuditDisplay(records_with_observed, show_observed=True)
    ).get_xlim()
    assert low < 0 < 9 < high
    # Other figures have no states: colors are those of models.
    lines = (
        draw_without_layout(AuditDisplay(records_with_observed, "observed_loss"))
        .get_legend()
        .get_lines()
    )
    looks = [PCA_STYLE, series_style(0), series_style(1)]
    assert [to_hex(line.get_color()) for line in lines] == [look.color for look in looks]


def test_unknown_figures_are_gray_and_do_not_change_the_axes():
    from matplotlib.colors import to_hex

    ends = [0.5, -1e6, np.nan], [1.5, 1e6, np.nan]
    states = ("harmed", "inconclusive", "inconclusive")
    values = {"PCA": [1.0, 5.0, np.nan]}
    axes = draw_without_layout(
        AuditDisplay(make_records("abc", values, "expected_loss", ends, state=states))
    )
    start, end = axes.get_xlim()
    # Three times the range from zero to the largest value, and a margin.
    assert -20 < start < 0
    assert 5 < end < 25
    assert [to_hex(collection.get_color()[0]) for collection in axes.collections] == [PURPLE, MUTED]
    arrows = [line.get_marker() for line in axes.lines if line.get_marker() in "<>"]
    assert arrows == ["<", ">"]
    (text,) = (text for text in axes.texts if "too few rows" in text.get_text())
    assert text.xy[1] == 2


def test_inconclusive_intervals_are_cut_only_beyond_a_multiple_of_the_values():
    """The only conclusive interval is tiny."""
    ends = [0.001, -6.0, -6.0], [0.002, 21.0, 30.0]
    states = ("minor", "inconclusive", "inconclusive")
    records = make_records("abc", {"PCA": [0.001, 11.0, 7.0]}, "expected_loss", ends, state=states)
    axes = draw_without_layout(AuditDisplay(records))
    start, end = axes.get_xlim()
    assert start < -6 < 30 < end
    assert not [line for line in axes.lines if line.get_marker() in "<>"]


@pytest.mark.parametrize("value", [0.1, 1.3, 4.0, 9.0])
def test_the_line_at_zero_crosses_no_text(value):
    ends = [value - 5, 5.0], [value + 5, 20.0]
    records = make_records(
        "ab", {"PCA": [value, 8.0]}, "expected_loss", ends, state=("inconclusive", "harmed")
    )
    picture = AuditDisplay(records).plot()
    picture.figure_.draw_without_rendering()
    zero = picture.ax_.transData.transform((0, 0))[0]
    texts = [text for text in picture.ax_.texts if "inconclusive" in text.get_text()]
    for box in (text.get_window_extent() for text in texts):
        assert not box.x0 < zero < box.x1
    assert texts


@pytest.mark.slow
def test_curves_show_all_points_and_of_wide_bands_little():
    values = np.array([[1.0, 0.5, np.nan], [0.5, -2.0, np.nan]])
    low = values - 0.2
    high = values + 0.2
    low[1, 1] = -1e6
    high[1, 1] = 1e6
    states = [["harmed", "minor", "inconclusive"], ["harmed", "inconclusive", "inconclusive"]]
    nothing = np.full((2, 3), np.nan)
    picture = ErrorCurveDisplay(
        make_records(
            ("a", "b", "few"),
            {"PCA": values, "minimax_loss": nothing},
            "expected_loss",
            ([low, nothing], [high, nothing]),
            (1, 2),
            state=[states, np.full((2, 3), None)],
            observed_loss=[np.ones((2, 3)), np.zeros((2, 3))],
        ),
        show_observed=True,
    )
    draw_case(picture)
    start, end = picture.axes_[0].get_ylim()
    assert -5 < start < -2
    assert 1.2 < end < 5
    gray = [
        line
        for line in picture.axes_[1].lines
        if line.get_color() == MUTED and not str(line.get_gid()).startswith("threshold")
    ]
    assert [line.get_ydata().tolist() for line in gray] == [[-2.0]]
    (text,) = picture.axes_[2].texts
    assert text.get_text() == "too few rows"
    box = text.get_window_extent()
    frame = picture.axes_[2].get_window_extent()
    assert frame.x0 < box.x0 < box.x1 < frame.x1
    assert frame.y0 < box.y0 < box.y1 < frame.y1
    dotted = [line for line in picture.axes_[2].lines if line.get_linestyle() == ":"]
    assert {line.get_color() for line in dotted} == {MUTED}
    frame = picture.frame()
    assert frame["state"].tolist()[:6] == [state for row in states for state in row]
    assert frame["observed_loss"].tolist() == [1.0] * 6 + [0.0] * 6
