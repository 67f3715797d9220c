"""Looks at a model on new rows: their figures, levels and alarms, and the file of the history."""

import datetime
import json
from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA

import fairspan as fs
from fairspan.errors import (
    CorruptFile,
    IncompatibleParameters,
    InvalidInput,
    InvalidParameter,
    UnknownGroup,
)


def make_rows(seed, n=900, rise=1.0):
    rng = np.random.default_rng(seed)
    groups = rng.choice(["new", "old"], n, p=[0.6, 0.4])
    rows = rng.standard_normal((n, 12)) * np.r_[[3.0, 2.0], np.ones(10)]
    rows[groups == "old"] *= np.sqrt(rise)
    return rows, groups


@cache
def fit_model():
    X, groups = make_rows(0, n=3000)
    return fs.FairPCA(2).fit(X, sensitive_features=groups)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "looks.json"


def test_a_look_has_the_figures_of_an_audit_at_its_level():
    monitor = fs.Monitor(fit_model())
    for number in range(1, 4):
        X, groups = make_rows(number)
        look = monitor.add(X, groups, date="2026-01-31")
        level = 1 - 0.05 / (number * (number + 1))
        assert (look.number, look.date) == (number, "2026-01-31")
        assert look.level == pytest.approx(level, rel=1e-12)
        model = fs.audit(fit_model().subspace_, X, groups, folds=None, level=level).models[0]
        for look_group, audited_group in zip(look.groups, model.groups, strict=True):
            assert (look_group.group, look_group.n_rows) == (
                audited_group.group,
                audited_group.n_rows,
            )
            assert look_group.error == audited_group.observed_error
            assert look_group.drift == audited_group.drift
        assert look.relative_gap == model.refit_bound.relative_gap
        assert look.refit_may_help == model.refit_bound.refit_may_help
        assert look.objective == model.refit_bound.objective


def test_errors_are_those_of_the_rows_and_of_the_fit():
    fair = fit_model()
    X, groups = make_rows(5)
    look = fs.Monitor(fair).add(X, groups, date="2026-01-31")
    squares = ((X - fair.inverse_transform(fair.transform(X))) ** 2).sum(axis=1)
    errors_at_fit = dict(zip(fair.groups_, fair.group_errors_, strict=True))
    for group in look.groups:
        error = squares[groups == group.group].mean()
        assert group.error.value == pytest.approx(error, rel=1e-9)
        assert group.error_at_fit == pytest.approx(errors_at_fit[group.group], rel=1e-9)
        change = error / errors_at_fit[group.group] - 1
        assert group.relative_drift.value == pytest.approx(change, abs=1e-9)


def test_a_rise_in_one_group_is_an_alarm_for_it_and_a_fall_is_none():
    monitor = fs.Monitor(fit_model())
    assert monitor.add(*make_rows(1), date="2026-01-31").alarms == ()
    assert monitor.add(*make_rows(2, rise=1.5), date="2026-02-28").alarms == ("old",)
    assert "the error of 'old' has risen beyond chance" in monitor.history.conclusion
    assert monitor.add(*make_rows(3, rise=0.6), date="2026-03-31").alarms == ()
    assert "no error is known to have risen" in monitor.history.conclusion


def test_all_looks_together_never_spend_the_level():
    monitor = fs.Monitor(fit_model(), level=0.9)
    spent_levels = []
    for number in range(1, 6):
        monitor.add(*make_rows(number), date="2026-01-31")
        spent_levels.append(monitor.history.spent)
    # The sum of 1 / (t (t + 1)) up to t is t / (t + 1).
    np.testing.assert_allclose(spent_levels, [0.1 * t / (t + 1) for t in range(1, 6)], rtol=1e-9)


def test_the_history_goes_on_where_it_was(path):
    first = fs.Monitor(fit_model(), path)
    first.add(*make_rows(1), date="2026-01-31")
    second = fs.Monitor(fit_model().subspace_, path)
    assert second.history == first.history
    look = second.add(*make_rows(2), date=datetime.date(2026, 2, 28))
    assert (look.number, look.date) == (2, "2026-02-28")
    reloaded_history = fs.History.load(path)
    assert reloaded_history == second.history
    assert reloaded_history.looks[1] == look


def test_a_saved_model_and_a_file_of_rows_are_watched(path, tmp_path):
    fit_model().subspace_.save(tmp_path / "fair.model")
    X, groups = make_rows(1)
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(12)]).assign(g=groups)
    frame.to_parquet(tmp_path / "may.parquet")
    monitor = fs.Monitor(tmp_path / "fair.model", path)
    look = monitor.add(tmp_path / "may.parquet", "g", date="2026-05-31")
    look_of_model = fs.Monitor(fit_model()).add(X, groups, date="2026-05-31")
    for file_group, model_group in zip(look.groups, look_of_model.groups, strict=True):
        assert file_group.error.value == pytest.approx(model_group.error.value, rel=1e-9)


def test_clusters_widen_the_intervals():
    X, groups = make_rows(1, n=300)
    people = np.repeat(np.arange(300), 4)
    clusters = fs.Monitor(fit_model()).add(
        np.repeat(X, 4, axis=0), np.repeat(groups, 4), clusters=people, date="2026-01-31"
    )
    rows = fs.Monitor(fit_model()).add(X, groups, date="2026-01-31")
    for group_with_clusters, group_of_rows in zip(clusters.groups, rows.groups, strict=True):
        width, expected = (
            group.drift.high - group.drift.low for group in (group_with_clusters, group_of_rows)
        )
        # Four copies of each row say as much as the row.
        assert width == pytest.approx(expected, rel=0.25)


def refusals():
    X, groups = make_rows(1)
    return {
        "repeated": (lambda m: m.add(X, groups), InvalidInput, "same moments as those of look 1"),
        "reordered": (
            lambda m: m.add(X[::-1], groups[::-1]),
            InvalidInput,
            "same moments as those of look 1",
        ),
        "training rows": (lambda m: m.add(*make_rows(0, 3000)), InvalidInput, "those of the fit"),
        "missing cell": (
            lambda m: m.add(np.full((4, 12), np.nan), ["new"] * 4),
            InvalidInput,
            "NaN",
        ),
        "other features": (lambda m: m.add(X[:, :5], groups), InvalidInput, "features"),
        "unknown group": (lambda m: m.add(X, ["other"] * 900), UnknownGroup, "other"),
        "no date": (lambda m: m.add(*make_rows(2), date="May"), InvalidInput, "date is 'May'"),
        "no groups": (lambda m: m.add(X), InvalidInput, "sensitive_features is missing"),
    }


@pytest.mark.parametrize("name", refusals())
def test_bad_input_leaves_the_history_as_it_was(path, name):
    monitor = fs.Monitor(fit_model(), path)
    monitor.add(*make_rows(1), date="2026-01-31")
    original_bytes = path.read_bytes()
    history = monitor.history
    call, error, words = refusals()[name]
    with pytest.raises(error, match=words):
        call(monitor)
    assert path.read_bytes() == original_bytes
    assert monitor.history == history
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_repeated_rows_are_added_where_that_is_forced(path):
    monitor = fs.Monitor(fit_model(), path)
    monitor.add(*make_rows(1), date="2026-01-31")
    assert monitor.add(*make_rows(1), date="2026-02-28", force=True).number == 2


def test_a_history_that_another_process_has_changed_is_not_overwritten(path):
    first = fs.Monitor(fit_model(), path)
    second = fs.Monitor(fit_model(), path)
    first.add(*make_rows(1), date="2026-01-31")
    original_bytes = path.read_bytes()
    with pytest.raises(InvalidInput, match="has changed since it was read"):
        second.add(*make_rows(2), date="2026-02-28")
    assert path.read_bytes() == original_bytes


def test_the_history_of_another_model_or_level_is_refused(path):
    fs.Monitor(fit_model(), path).add(*make_rows(1), date="2026-01-31")
    X, groups = make_rows(0, n=3000)
    other = fs.FairPCA(3).fit(X, sensitive_features=groups)
    with pytest.raises(InvalidInput, match="history of another model, of minimax loss"):
        fs.Monitor(other, path)
    with pytest.raises(InvalidParameter, match=r"level is 0\.9, but"):
        fs.Monitor(fit_model(), path, level=0.9)
    fs.Monitor(fit_model(), path, level=0.95)


@pytest.mark.parametrize("level", [0.5, 1, "0.9", True, float("nan")])
def test_levels_out_of_range_are_refused(level):
    with pytest.raises(InvalidParameter, match="level is"):
        fs.Monitor(fit_model(), level=level)


def test_a_model_without_a_certificate_is_refused():
    X, _ = make_rows(0)
    with pytest.raises(IncompatibleParameters, match="has no certificate"):
        fs.Monitor(PCA(2).fit(X))


@pytest.mark.parametrize(
    "change",
    [
        {"level": 2},
        {"level": "0.95"},
        {"looks": [{}]},
        {"looks": "none"},
        {"unknown": 1},
        {"format": "fairspan.moments"},
    ],
)
def test_damaged_histories_are_refused(path, change):
    fs.Monitor(fit_model(), path).add(*make_rows(1), date="2026-01-31")
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, **change}))
    with pytest.raises(CorruptFile):
        fs.Monitor(fit_model(), path)


@pytest.mark.parametrize(
    ("name", "value"),
    [("date", "May"), ("number", 0), ("labels", ["new", "new"]), ("figures", []), ("level", 0.1)],
)
def test_damaged_looks_are_refused(path, name, value):
    fs.Monitor(fit_model(), path).add(*make_rows(1), date="2026-01-31")
    document = json.loads(path.read_text())
    document["looks"][0][name] = value
    path.write_text(json.dumps(document))
    with pytest.raises(CorruptFile):
        fs.History.load(path)


def test_histories_of_two_sites_merge_by_date(tmp_path):
    paths = [tmp_path / "north.json", tmp_path / "south.json"]
    for i, path in enumerate(paths):
        monitor = fs.Monitor(fit_model(), path)
        for month in (1, 2):
            monitor.add(*make_rows(10 * i + month), date=f"2026-0{month}-{15 + i}")
    north, south = map(fs.History.load, paths)
    history = north.merge(south)
    assert [look.date for look in history.looks] == [
        "2026-01-15",
        "2026-01-16",
        "2026-02-15",
        "2026-02-16",
    ]
    assert [look.number for look in history.looks] == [1, 2, 3, 4]
    assert history.spent == pytest.approx(north.spent + south.spent)
    assert history.merge(south).looks == history.looks
    other = fs.Monitor(fit_model(), level=0.9).history
    with pytest.raises(InvalidInput, match="histories of the same fitted model"):
        north.merge(other)


def test_the_frame_and_the_printed_table_show_the_looks():
    monitor = fs.Monitor(fit_model())
    assert "No look" in repr(monitor.history)
    monitor.add(*make_rows(1), date="2026-01-31")
    monitor.add(*make_rows(2, rise=1.5), date="2026-02-28")
    frame = monitor.history.frame()
    assert frame["number"].tolist() == [1, 1, 2, 2]
    assert frame["is_alarm"].tolist() == [False, False, False, True]
    text = repr(monitor.history)
    lines = [line.split() for line in text.splitlines()]
    assert ["2", "2026-02-28", "new"] in [line[:3] for line in lines]
    rows_with_rise = ["2", "2026-02-28", "old"]
    assert [line[:3] for line in lines if line[-1:] == ["risen"]] == [rows_with_rise]
    assert "(no name)" not in monitor.history._repr_html_()
    assert " ".join(text.split()).endswith(monitor.history.conclusion)
    assert "2026-02-28" in monitor.history._repr_html_()


def test_groups_whose_error_a_few_rows_dominate_are_reported_as_unknown():
    monitor = fs.Monitor(fit_model())
    X, groups = make_rows(1)
    # One row of old customers has most of their error, in a direction that the model leaves out.
    X[np.flatnonzero(groups == "old")[0], 5] = 200.0
    look = monitor.add(X, groups, date="2026-01-31")
    assert (look.alarms, look.unknown_groups) == ((), ("old",))
    conclusion = monitor.history.conclusion
    assert "no error is known to have risen. Nothing is known of 'old'" in conclusion
    lines = [line.split() for line in repr(monitor.history).splitlines()]
    assert [line[2] for line in lines if line[-1:] == ["unknown"]] == ["old"]
    picture = monitor.history.plot()
    hollow = [
        line
        for axes in picture.axes_
        for line in axes.lines
        if line.get_markerfacecolor() == "white" and len(line.get_xdata())
    ]
    assert [line.get_xdata().tolist() for line in hollow] == [[1]]


@pytest.mark.slow
def test_the_page_has_the_conclusion_a_chart_and_every_look(tmp_path):
    labels = ["new", "o<l>d"]

    def rows(number):
        X, groups = make_rows(number, n=900, rise=3.0 if number == 24 else 1.0)
        return X, np.where(groups == "new", *labels)

    monitor = fs.Monitor(fs.FairPCA(2).fit(rows(0)[0], sensitive_features=rows(0)[1]))
    for number in range(1, 25):
        monitor.add(*rows(number), date="2026-01-31")
    assert monitor.history.looks[-1].alarms == ("o<l>d",)
    page = tmp_path / "looks.html"
    monitor.history.write_report(page)
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!DOCTYPE html>")
    assert "the error of &#39;o&lt;l&gt;d&#39; has risen beyond chance" in text
    assert "<l>" not in text
    assert text.count("<svg") == 1
    # Every look has its mark and its rows: 24 of two groups, and one of the legend.
    assert text.count("<tr") == 1 + 2 * 24
    figure = text[text.index("<svg") : text.index("</svg>")]
    assert figure.count("<use") >= 2 * 24
    assert "Errors that have risen: o&lt;l&gt;d in look 24." in figure
    assert "http" not in text.replace("http://www.w3.org", "").replace("http-equiv", "")
    second_page = tmp_path / "again.html"
    monitor.history.write_report(second_page)
    assert second_page.read_bytes() == page.read_bytes()


@pytest.mark.slow
def test_the_chart_of_many_groups_has_those_with_an_alarm(tmp_path):
    rng = np.random.default_rng(2)
    groups = np.array([f"g{code:02}" for code in np.arange(2800) % 14])
    rows = rng.standard_normal((3, 2800, 6)) * [3, 2, 1, 1, 1, 1]
    rows[1][groups == "g13"] *= 2
    monitor = fs.Monitor(fs.FairPCA(2).fit(rows[0], sensitive_features=groups))
    monitor.add(rows[1], groups)
    monitor.history.write_report(tmp_path / "looks.html")
    text = (tmp_path / "looks.html").read_text(encoding="utf-8")
    assert "Errors of 12 of 14 groups, first those with an alarm" in text
    figure = text[text.index("<svg") : text.index("</svg>")]
    assert ">g13<" in figure
    assert ">g12<" not in figure
    assert ">g12<" in text


def test_a_page_without_looks_or_of_another_kind_is_refused(tmp_path):
    monitor = fs.Monitor(fit_model())
    with pytest.raises(InvalidInput, match="no look yet"):
        monitor.history.write_report(tmp_path / "looks.html")
    monitor.add(*make_rows(1))
    with pytest.raises(InvalidParameter, match=r"looks\.csv"):
        monitor.history.write_report(tmp_path / "looks.csv")
    assert not list(tmp_path.iterdir())
