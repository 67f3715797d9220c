"""Options of what new rows would show: as in Python, and errors that name the option."""

import numpy as np
import pandas as pd
import pytest

import fairspan as fs

FIGURES = ("state", "cross_fitted_loss", "best_error")


@pytest.fixture
def visits(table, tmp_path):
    """Every row four times, with small changes: the visits of one person."""
    rng = np.random.default_rng(1)
    own = table.drop(columns="sex")
    several = pd.concat([own] * 4, ignore_index=True)
    numbers = [name for name in several if name != "age"]
    several[numbers] = several[numbers] + rng.normal(size=(len(several), len(numbers))) * 0.1
    several["person"] = np.tile([f"p{i}" for i in range(len(own))], 4)
    path = tmp_path / "visits.csv"
    several.to_csv(path, index=False)
    return several, path


def expected_of(groups):
    return [
        {name: group["expected"][name] for name in ("loss", "error", *FIGURES)} for group in groups
    ]


def in_python(rows, clusters=None, **settings):
    features = rows.drop(columns=["age", *([clusters] if clusters else [])])
    pca = fs.FairPCA(2, criterion="total_error").fit(features, sensitive_features=rows["age"])
    beside = None if clusters is None else rows[clusters]
    return fs.audit(pca, features, rows["age"], clusters=beside, **settings)


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        (["--folds", "5"], {"folds": 5}),
        (["--level", "0.8"], {"level": 0.8}),
        (["--material", "0.3"], {"material": 0.3}),
    ],
)
def test_options_are_those_of_python(run, data, options, settings):
    found = run("audit", data, "--group", "age", "-d", "2", *options, "--json").facts
    theirs = in_python(pd.read_csv(data), **settings)
    assert found["level"] == settings.get("level", 0.95)
    assert found["material"] == settings.get("material", 0.01)
    ours = expected_of(found["models"][0]["groups"])
    for here, there in zip(ours, theirs.models[0].groups, strict=True):
        assert here["state"] == there.state
        assert here["cross_fitted_loss"] == pytest.approx(there.expected.cross_fitted_loss)
        for end in ("value", "low", "high"):
            assert here["loss"][end] == pytest.approx(getattr(there.expected.loss, end))


def test_rows_of_one_person_count_as_one(run, visits):
    rows, path = visits
    alone = ["audit", path, "--group", "age", "-d", "2", "--json"]
    found = run(*alone, "--clusters", "person").facts
    assert found["rows"]["n"] == len(rows)
    assert found["rows"]["n_features"] == 5
    theirs = in_python(rows, "person")
    for here, there in zip(found["models"][0]["groups"], theirs.models[0].groups, strict=True):
        assert here["n"] == there.n
        for end in ("value", "low", "high"):
            ours = here["expected"]["loss"][end]
            assert ours == pytest.approx(getattr(there.expected.loss, end), rel=1e-6)
    apart = run(*alone, "--exclude", "person").facts
    widths = [
        [g["error"]["high"] - g["error"]["low"] for g in each["models"][0]["groups"]]
        for each in (found, apart)
    ]
    assert (np.array(widths[0]) > 1.7 * np.array(widths[1])).all()


@pytest.mark.parametrize("none", ["none", "0"])
def test_without_folds_there_are_figures_on_the_rows_alone(run, data, none):
    found = run("audit", data, "--group", "age", "-d", "2", "--folds", none, "--json").facts
    assert found["verdict"] is None
    assert all(group["expected"] is None for group in found["models"][0]["groups"])


def test_of_few_rows_as_many_dimensions_are_known_as_they_tell(run, table, tmp_path):
    """Three of four rows tell something of two dimensions, whatever else is looked at."""
    rows = table.drop(columns="sex")
    rows["age"] = np.where(np.arange(len(rows)) < 4, "few", "many")
    path = tmp_path / "few.csv"
    rows.to_csv(path, index=False)
    facts = run("audit", path, "--group", "age", "--by-dimension", "--json").facts
    few = [each for each in facts["by_dimension"] if each["group"] == "few"]
    known = {each["n_components"]: each["expected_loss"] is not None for each in few}
    assert known == {1: True, 2: True, 3: False, 4: False}
