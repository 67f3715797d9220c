"""fairspan watch: looks at a saved model, their history, and the exit status of an alarm."""

import json

import numpy as np
import pytest

import fairspan as fs
from cli.conftest import made_table


@pytest.fixture
def month(tmp_path):
    """Write rows that came after the fit, with the error of old people risen by a factor."""

    def write(number, factor=1.0):
        rng = np.random.default_rng(number)
        table = made_table().drop(columns="sex")
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


def test_repeated_rows_are_refused_unless_forced(run, model, month, tmp_path):
    history = tmp_path / "looks.json"
    command = ("watch", model, month(1), "--group", "age", "--history", history)
    run(*command, status=0)
    before = history.read_bytes()
    run(*command, status=2, out=None, err="or add them again with --force.")
    assert history.read_bytes() == before
    run(*command, "--force", status=0)


def test_what_cannot_be_watched_is_refused(run, refused, model, data, tmp_path):
    history = tmp_path / "looks.json"
    watch = ("watch", "{model}", "{data}", "--group", "age")
    refused(*watch, "--history", str(history), said="those of the fit")
    refused(*watch, "--history", str(tmp_path / "looks.csv"), said="looks.csv")
    refused(*watch, "--history", str(history), "--date", "May", said="'May'")
    moments = tmp_path / "age.moments"
    fs.GroupMoments.from_rows(made_table().drop(columns="sex"), "age").save(moments)
    run(
        *("watch", model, moments, "--history", history),
        status=2,
        out=None,
        err="moments, which have no intervals",
    )
