"""`fairspan verify`: what it prints, and its exit status."""

import json
from dataclasses import replace

import pandas as pd
import pytest

from fairspan import FairSubspace
from fairspan.cli import inputs

GROUP = ("--group", "age")


def changed(model, **figures):
    """The model in its place, with other figures."""
    own = FairSubspace.load(model)
    replace(own, provenance=replace(own.provenance, **figures)).save(model)
    return own


def test_a_certificate_that_holds(run, model, data):
    result = run("verify", model, data, *GROUP)
    assert (result.status, result.err) == (0, "")
    first, *others = result.out.splitlines()
    assert first == "The certificate holds."
    assert "minimax_loss is" in others[0]
    assert "lower bound" in others[0]


def test_the_same_as_records(run, model, data):
    facts = run("verify", model, data, *GROUP, "--json").facts
    made = FairSubspace.load(model).provenance
    assert set(facts) == {
        "version",
        "model",
        "holds",
        "objective",
        "lower_bound",
        "gap",
        "messages",
    }
    assert facts["model"] == str(model)
    assert facts["holds"] is True
    assert facts["objective"] == pytest.approx(made.objective)
    assert facts["lower_bound"] == pytest.approx(made.lower_bound)
    assert facts["gap"] <= made.tol * made.objective


@pytest.mark.parametrize(
    "options", [(), ("--standardize",), ("--center", "group"), ("--criterion", "robust_error_gap")]
)
def test_moments_in_place_of_rows(run, data, tmp_path, options):
    model, moments = tmp_path / "a.model", tmp_path / "a.moments"
    run("fit", data, *GROUP, "-d", 2, *options, "-o", model)
    run("moments", data, *GROUP, "-o", moments)
    assert run("verify", model, moments).status == 0
    assert run("verify", model, data, *GROUP).status == 0


def test_columns_are_matched_by_name(run, model, table, features, tmp_path):
    other = tmp_path / "other.parquet"
    table[["age", *reversed(features)]].assign(more=1.0).to_parquet(other)
    result = run("verify", model, other, *GROUP)
    assert (result.status, result.err) == (0, "")


@pytest.mark.parametrize("as_json", [False, True])
def test_other_rows_do_not_hold(run, model, table, features, tmp_path, as_json):
    other = tmp_path / "other.csv"
    (table[features] * 2).assign(age=table["age"]).to_csv(other, index=False)
    result = run("verify", model, other, *GROUP, *["--json"] * as_json)
    assert (result.status, result.err) == (1, "")
    if as_json:
        assert json.loads(result.out)["holds"] is False
    else:
        assert result.out.startswith("The certificate does not hold.\n- The mean of the model")


def test_other_moments_do_not_hold(run, model, data, tmp_path):
    moments = tmp_path / "a.moments"
    run("moments", data, *GROUP, "-o", moments)
    run("merge", moments, moments, "-o", tmp_path / "twice.moments")
    result = run("verify", model, tmp_path / "twice.moments")
    assert result.status == 1
    assert "other numbers of rows" in result.out


@pytest.mark.parametrize(
    ("figures", "said"),
    [
        ({"objective": 0.0}, "The objective is"),
        ({"lower_bound": 1e9}, "and not 1e+09 as the model says"),
        ({"groups": ("old", "very young")}, "fitted on the groups"),
        ({"criterion": "equal_luck"}, "cannot be posed"),
    ],
)
def test_a_model_that_was_changed_does_not_hold(run, model, data, figures, said):
    changed(model, **figures)
    result = run("verify", model, data, *GROUP)
    assert (result.status, result.err) == (1, "")
    assert said in result.out


def test_figures_that_do_not_exist_are_null(run, model, data):
    own = FairSubspace.load(model)
    replace(own, provenance=None, evidence=None).save(model)
    result = run("verify", model, data, *GROUP, "--json")
    assert result.status == 1
    found = json.loads(result.out, parse_constant=pytest.fail)
    assert found["objective"] is None
    assert found["lower_bound"] is None


def test_an_internal_failure_is_neither(run, model, data, monkeypatch):
    def fail(*_):
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(inputs, "verify", fail)
    result = run("verify", model, data, *GROUP)
    assert result.status == 3
    assert result.out == ""
    assert "a fault of ours" in result.err


@pytest.mark.long
def test_a_process_of_its_own(installed, model, data):
    result = installed("verify", model, data, *GROUP)
    assert (result.status, result.err) == (0, "")
    assert result.out.startswith("The certificate holds.")
    pd.read_csv(data).iloc[:-1].to_csv(data, index=False)
    assert installed("verify", model, data, *GROUP).status == 1
