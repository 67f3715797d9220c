"""fairspan watch: the history of audits of a saved model, and the exit status of an alarm."""

import json

import numpy as np
import pandas as pd
import pytest

import fairspan as fs
from cli.conftest import make_table


@pytest.fixture
def month(tmp_path):
    """Write rows that came after the fit, with the error of old people risen by a factor."""

    def write(number, factor=1.0):
        rng = np.random.default_rng(number)
        table = make_table().drop(columns="sex")
        for name in table.columns.drop("age"):
            values = table[name].to_numpy(dtype=float, copy=True)
            for group in ("old", "young"):
                rows = (table["age"] == group).to_numpy()
                values[rows] = rng.choice(values[rows], rows.sum())
            table[name] = values
        old = table["age"] == "old"
        features = table.columns.drop("age")
        means = table.loc[old, features].mean()
        table.loc[old, features] = means + (table.loc[old, features] - means) * np.sqrt(factor)
        path = tmp_path / f"month{number}.csv"
        table.to_csv(path, index=False)
        return path

    return write


def test_looks_are_those_of_the_monitor(run, model, month, tmp_path):
    history = tmp_path / "looks.json"
    monitor = fs.Monitor(model)
    for number in (1, 2):
        command = ("watch", model, month(number), "--group", "age", "--history", history)
        facts = run(*command, "--date", f"2026-0{number}-28", "--json").facts
        look = monitor.add(tmp_path / f"month{number}.csv", "age", date=f"2026-0{number}-28")
        assert facts["look"] == json.loads(json.dumps(look.to_dict()))
        assert facts["n_looks"] == number
        assert facts["conclusion"] == monitor.history.conclusion
    assert fs.History.load(history) == monitor.history


def test_an_alarm_ends_with_status_3_after_the_look_is_added(run, model, month, tmp_path):
    history = tmp_path / "looks.json"
    command = ("--group", "age", "--history", history, "--fail-on", "drift", "--date", "2026-01-31")
    run(
        "watch",
        model,
        month(1),
        *command,
        status=0,
        out="no error is known to have risen",
        err=None,
    )
    run("watch", model, month(2, 6.0), *command, status=3, out="risen", err="drift: the error of")
    assert [look.alarms for look in fs.History.load(history).looks] == [(), ("old",)]


def test_groups_of_which_nothing_is_known_fail_only_where_that_is_a_condition(
    run, model, month, tmp_path
):
    table = pd.read_csv(month(1))
    # One row dominates the error of young people.
    row = np.flatnonzero(table["age"] == "young")[0]
    table.loc[row, table.columns.drop("age")] *= 1e4
    table.to_csv(tmp_path / "month.csv", index=False)
    command = ("watch", model, tmp_path / "month.csv", "--group", "age", "--history")
    drift = ("--fail-on", "drift")
    unknown = "Nothing is known of"
    run(*command, tmp_path / "a.json", *drift, status=0, out=unknown, err=None)
    run(
        *(*command, tmp_path / "b.json", "--fail-on", "drift,inconclusive"),
        status=3,
        out=unknown,
        err="check failed: inconclusive: nothing is known of 'young'",
    )
    assert fs.History.load(tmp_path / "b.json").looks[0].unknown_groups == ("young",)
    # Conditions are checked before a look is added.
    run(
        *(*command, tmp_path / "c.json", "--fail-on", "harm"),
        status=2,
        out=None,
        err="--fail-on names the unknown condition 'harm'. Allowed: 'drift', 'inconclusive'.",
    )
    assert not (tmp_path / "c.json").exists()


@pytest.mark.slow
def test_a_page_of_all_looks_is_written(run, model, month, tmp_path):
    history = tmp_path / "looks.json"
    page = tmp_path / "looks.html"
    command = ("watch", model, month(1), "--group", "age", "--history", history)
    # The path is checked before a look is added.
    run(*command, "-o", tmp_path / "looks.csv", status=2, out=None, err="looks.csv")
    run(*command, "-o", tmp_path / "none" / "a.html", status=2, out=None, err="does not exist")
    assert not history.exists()
    facts = run(*command, "-o", page, "--json").facts
    assert facts["page"] == str(page)
    assert "1 look" in page.read_text(encoding="utf-8")
    command = ("watch", model, month(2), "--group", "age", "--history", history)
    run(*command, "-o", page, status=0, out=f"Written to {page}", err=None)
    assert "2 looks" in page.read_text(encoding="utf-8")
    fs.History.load(history).write_report(tmp_path / "again.html")
    assert (tmp_path / "again.html").read_bytes() == page.read_bytes()


def test_repeated_rows_are_refused_unless_forced(run, model, month, tmp_path):
    history = tmp_path / "looks.json"
    command = ("watch", model, month(1), "--group", "age", "--history", history)
    run(*command, status=0)
    original_bytes = history.read_bytes()
    run(*command, status=2, out=None, err="or add them again with --force.")
    assert history.read_bytes() == original_bytes
    run(*command, "--force", status=0)


def test_models_and_rows_that_cannot_be_watched_are_refused(
    run, assert_refused, model, data, tmp_path
):
    history = tmp_path / "looks.json"
    watch = ("watch", "{model}", "{data}", "--group", "age")
    assert_refused(*watch, "--history", str(history), expected_text="those of the fit")
    assert_refused(*watch, "--history", str(tmp_path / "looks.csv"), expected_text="looks.csv")
    assert_refused(*watch, "--history", str(history), "--date", "May", expected_text="'May'")
    moments = tmp_path / "age.moments"
    fs.GroupMoments.from_rows(make_table().drop(columns="sex"), "age").save(moments)
    run(
        *("watch", model, moments, "--history", history),
        status=2,
        out=None,
        err="moments, which have no intervals",
    )
