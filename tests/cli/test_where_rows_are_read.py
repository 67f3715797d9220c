"""Audits and fits of rows that are read in processes, on a cluster, or sampled."""

import os
import shutil

import numpy as np
import pytest

from by_hand import moments_by_hand
from cli.row_folders import COLUMNS, made_rows, write_folder


@pytest.fixture
def frame():
    return made_rows(6, 900)


@pytest.fixture
def folder(frame, tmp_path):
    write_folder(tmp_path / "rows", frame, 3, 100)
    return tmp_path / "rows"


def assert_same_figures(ours, expected):
    for model, other in zip(ours["models"], expected["models"], strict=True):
        for group, same in zip(model["groups"], other["groups"], strict=True):
            for name in ("value", "low", "high"):
                np.testing.assert_allclose(group["error"][name], same["error"][name], rtol=1e-9)
            assert (group["group"], group["n"]) == (same["group"], same["n"])
    assert ours["rows"] == expected["rows"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("command", "engine"),
    [
        ("fit", ["--jobs", 2]),
        ("fit", ["--engine", "dask"]),
        ("audit", ["--engine", "spark"]),
    ],
    ids=["processes", "dask", "spark"],
)
def test_any_engine_gives_the_same_figures(run, installed, folder, tmp_path, command, engine):
    if engine[-1] == "spark":
        pytest.importorskip(
            "pyspark", reason="the extra 'spark' is not installed; run: ./run spark"
        )
        if not has_java():
            pytest.skip("there is no Java")
    if engine[-1] == "dask":
        pytest.importorskip("distributed")
    out = ["-o", tmp_path / "model"] if command == "fit" else []
    arguments = (command, folder, "--group", "sex", "--weight", "w", "-d", 2, *out, "--json")
    here = run(*arguments).facts
    there = installed(*arguments, *engine, timeout=300)
    assert_same_figures(there.facts, here)


def has_java():
    return bool(os.environ.get("JAVA_HOME") or shutil.which("java"))


def test_weights_are_those_of_the_column(run, folder, frame):
    facts = run("audit", folder, "--group", "sex", "--weight", "w", "-d", 2, "--json").facts
    expected = moments_by_hand(frame[[*COLUMNS, "age"]], frame["sex"], frame["w"])
    total = sum(weight for _, weight, *_ in expected.values())
    for group in facts["models"][0]["groups"]:
        np.testing.assert_allclose(group["proportion"], expected[group["group"]][1] / total)


@pytest.mark.parametrize("command", ["audit", "fit"])
def test_a_sample_is_marked_in_every_output(run, folder, tmp_path, command):
    out = ["-o", tmp_path / "model"] if command == "fit" else []
    arguments = (command, folder, "--group", "sex", "-d", 2, *out, "--sample", 200)
    result = run(*arguments)
    assert "\n\n200 rows: a random sample of 900 rows\n\n" in result.out
    facts = run(*arguments, "--json").facts
    assert (facts["rows"]["n"], facts["rows"]["sampled_from"]) == (200, 900)
    assert facts["models"][0]["groups"][0]["error"]["low"] is not None
    other = run(*arguments, "--seed", 1, "--json").facts
    assert other["models"] != facts["models"]
    assert run(*arguments, "--seed", 0, "--json").facts == facts


def test_a_sample_audits_a_saved_model(run, folder, tmp_path):
    model = tmp_path / "model"
    run("fit", folder, "--group", "sex", "--features", "[xyz]", "-d", 2, "-o", model)
    arguments = ("audit", folder, "--group", "sex", "--model", model, "--sample", 100)
    assert run(*arguments, "--json").facts["rows"]["n_features"] == 3


def test_a_sample_of_all_rows_is_none(run, folder):
    arguments = ("audit", folder, "--group", "sex", "-d", 2, "--json")
    facts = run(*arguments, "--sample", 5000).facts
    assert facts["rows"]["sampled_from"] is None
    assert_same_figures(facts, run(*arguments).facts)


@pytest.mark.parametrize("command", ["audit", "fit"])
@pytest.mark.parametrize("options", [[], ["--sample", 300]], ids=str)
def test_dropped_rows_are_counted_in_every_output(run, frame, tmp_path, command, options):
    frame.loc[[1, 450, 899], "x"] = np.nan
    write_folder(tmp_path / "rows", frame, 3, 100)
    out = ["-o", tmp_path / "model"] if command == "fit" else []
    arguments = [command, tmp_path / "rows", "--group", "sex", "-d", 2, *out, *options]
    assert "X contains NaN" in run(*arguments).err
    arguments += ["--on-missing", "drop"]
    result = run(*arguments)
    assert "3 rows with missing values left out" in result.out.split("\n\n")[1]
    rows = run(*arguments, "--json").facts["rows"]
    sample = "--sample" in options
    assert (rows["n"], rows["n_dropped"]) == (300 if sample else 897, 3)
    assert rows["sampled_from"] == (897 if sample else None)


def test_a_scheduler_that_is_not_there(refused, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("fairspan.rows.dask.engine._SECONDS_TO_CONNECT", 1)
    command = ("moments", "{data}", "--group", "age", "-o", "{out}")
    message = refused(*command, "--engine", "dask", "--scheduler", "tcp://127.0.0.1:1")
    assert "No Dask scheduler answers at 'tcp://127.0.0.1:1'" in message
