"""The picture of a history: errors relative to the fit, intervals, and alarms that are marked."""

import numpy as np
import pytest

import fairspan as fs
from display_cases import display_texts, drawn_texts, find_overlaps
from fairspan.displays import MonitorDisplay
from fairspan.errors import InvalidInput, InvalidType


def make_monitor(groups=("new", "old"), n_looks=4, rise=2.0):
    rng = np.random.default_rng(0)
    labels = np.resize(np.array(groups), 120 * len(groups))

    def rows():
        return rng.standard_normal((len(labels), 8)) * np.r_[3.0, 2.0, np.ones(6)]

    monitor = fs.Monitor(fs.FairPCA(1).fit(rows(), sensitive_features=labels))
    for number in range(1, n_looks + 1):
        X = rows()
        if number == 3:
            X[labels == groups[-1]] *= np.sqrt(rise)
        monitor.add(X, labels, date=f"2026-0{number}-28")
    return monitor


@pytest.fixture(scope="module")
def history():
    return make_monitor().history


def test_values_and_intervals_are_those_of_the_history(history):
    display = MonitorDisplay.compute(history)
    frame = history.frame()
    for g, name in enumerate(display.groups):
        rows = frame[frame["group"] == name]
        errors = display.relative_errors(g)
        at_fit = rows["error"] - rows["drift"]
        np.testing.assert_allclose(errors.looks, [1, 2, 3, 4])
        np.testing.assert_allclose(errors.values, rows["error"] / at_fit)
        np.testing.assert_allclose(errors.low, 1 + rows["drift_low"] / at_fit)
        np.testing.assert_allclose(errors.high, 1 + rows["drift_high"] / at_fit)
        np.testing.assert_array_equal(errors.is_alarm, rows["is_alarm"])


def test_the_picture_marks_alarms_in_the_panel_of_their_group(history):
    picture = history.plot()
    assert isinstance(picture, MonitorDisplay)
    new, old = picture.axes_
    assert [axes.get_title(loc="left") for axes in (new, old)] == ["new", "old"]
    marks = {
        axes: [line for line in axes.lines if line.get_marker() == "D" and len(line.get_xdata())]
        for axes in (new, old)
    }
    assert marks[new] == []
    (mark,) = marks[old]
    assert mark.get_xdata().tolist() == [3]
    assert mark.get_ydata().tolist() == [picture.relative_errors(1).values[2]]
    assert "risen beyond chance" in display_texts(picture)
    low, high = old.get_ylim()
    assert low <= 1 <= high
    assert find_overlaps(drawn_texts(picture.figure_)) == []


def test_without_an_alarm_there_is_no_mark_to_explain():
    picture = make_monitor(rise=1.0).history.plot()
    assert "risen beyond chance" not in display_texts(picture)


@pytest.mark.slow
def test_twelve_groups_with_odd_names_have_a_panel_each():
    groups = tuple(sorted(f"people of group {i}, at $work$" for i in range(12)))
    picture = make_monitor(groups, n_looks=2).history.plot()
    assert len(picture.axes_) == 12
    assert find_overlaps(drawn_texts(picture.figure_)) == []


def test_only_histories_with_a_look_are_drawn():
    with pytest.raises(InvalidType, match="for MonitorDisplay is"):
        MonitorDisplay.from_history([1, 2])
    with pytest.raises(InvalidInput, match="no look yet"):
        make_monitor(n_looks=0).history.plot()
