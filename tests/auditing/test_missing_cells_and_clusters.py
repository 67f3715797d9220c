"""Findings about missing values, and about undeclared clusters of rows."""

import numpy as np
import pandas as pd
import pytest

from fairspan import FairPCA, audit

NAMES = list("uvwxy")


def table(n=800, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 5)), columns=NAMES)
    return frame.assign(g=np.array(["a", "b"])[(np.arange(n) % 4 == 0) * 1]), rng


def drop_cells(n=800, seed=0):
    """Drop a tenth of group a and six tenths of b in w, a twentieth of x, and one label."""
    frame, rng = table(n, seed)
    is_b = frame.g == "b"
    frame.loc[rng.random(n) < np.where(is_b, 0.6, 0.1), "w"] = np.nan
    frame.loc[rng.random(n) < 0.05, "x"] = np.nan
    frame.loc[3, "g"] = None
    return frame


def find(result):
    return {finding.code: finding for finding in result.findings}


MODEL = np.eye(5)[:2]


def test_every_count_is_that_of_the_table(tmp_path):
    frame = drop_cells()
    reference = frame.dropna(subset="g").groupby("g")
    complete_counts = frame.dropna().groupby("g").size()
    with_one = frame[frame[NAMES].isna().sum(axis=1).eq(1) & frame.g.notna()]
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=150)
    for X in (frame, tmp_path / "t.csv", tmp_path / "t.parquet"):
        missing = audit(MODEL, X, "g", on_missing="drop", folds=None).rows.missing
        assert missing.groups == ("a", "b")
        assert missing.n_rows == tuple(reference.size())
        assert missing.n_dropped == tuple(reference.size() - complete_counts)
        assert missing.n_without_group == 1
        assert [feature.name for feature in missing.features] == ["w", "x"]
        for feature in missing.features:
            shares = reference[feature.name].agg(lambda column: column.isna().mean())
            assert feature.shares == pytest.approx(tuple(shares))
            assert feature.n_sole_cause == with_one[feature.name].isna().sum()
            assert not feature.is_mean_imputed


def test_uneven_and_many_missing_values_are_found_with_the_features_that_cost_most():
    result = audit(MODEL, drop_cells(), "g", on_missing="drop", folds=None)
    uneven = find(result)["FS407"]
    frequent = find(result)["FS408"]
    assert uneven.columns == ("w",)
    assert frequent.groups == ("b",)
    assert "'w' (" in frequent.message
    assert "rows), 'x' (" in frequent.message
    assert "dropped" in repr(result).split("Shares of missing values")[1]


@pytest.mark.parametrize("share", [0.05, 0.2, 0.5])
def test_values_filled_in_with_the_mean_are_found(share):
    frame, rng = table(seed=1)
    frame.loc[(frame.g == "b") & (rng.random(800) < share), "w"] = np.nan
    imputed_rows = frame.fillna({"w": frame.w.mean()})
    result = audit(MODEL, imputed_rows, "g", folds=None)
    assert ("FS407" in find(result)) == (share > 0.1)
    assert ("FS408" in find(result)) == (share > 0.3)
    if share > 0.1:
        (column,) = result.rows.missing.features
        is_missing = frame.w.isna().groupby(frame.g).mean()
        assert (column.name, column.is_mean_imputed) == ("w", True)
        assert column.shares == pytest.approx(tuple(is_missing))


def test_complete_rows_give_no_finding_on_missing_cells():
    result = audit(MODEL, table()[0], "g", folds=None)
    assert result.rows.missing is None
    assert not {"FS407", "FS408", "FS409", "FS410"} & set(find(result))


def panel(correlation, seed=0, n_values=40, n_visits=10):
    """Return rows in clusters of ten that share a part of their values."""
    rng = np.random.default_rng(seed)
    person = np.repeat(np.arange(n_values), n_visits)
    rows = np.sqrt(1 - correlation) * rng.normal(size=(len(person), 5))
    rows += np.sqrt(correlation) * rng.normal(size=(n_values, 5))[person]
    frame = pd.DataFrame(rows, columns=NAMES)
    frame["g"] = np.array(["a", "b"])[rng.integers(0, 2, n_values)][person]
    return frame.assign(
        who=[f"p{i}" for i in person], number=rng.permutation(n_values)[person]
    ), rng


@pytest.mark.parametrize("order", ["sorted", "shuffled"])
def test_a_column_of_rows_that_belong_together_is_named(order, tmp_path):
    frame, rng = panel(0.8)
    if order == "shuffled":
        frame = frame.iloc[rng.permutation(len(frame))]
    frame.to_csv(tmp_path / "t.csv", index=False)
    model = FairPCA(2).fit(frame[NAMES], sensitive_features=frame.g).subspace_
    for X in (frame, tmp_path / "t.csv"):
        result = audit(model, X, "g", folds=None)
        columns = [finding.columns for finding in result.findings if finding.code == "FS409"]
        assert columns == [("number",), ("who",)] or columns == [("who",), ("number",)]
    assert not {"FS409", "FS410"} & set(find(audit(model, frame, "g", clusters="who", folds=5)))
    # Without such a column the order of rows is all that there is to see.
    without_numbers = frame[[*NAMES, "g"]]
    assert ("FS410" in find(audit(model, without_numbers, "g", folds=None))) == (order == "sorted")


def test_clusters_that_no_column_names_are_found_in_any_order():
    rng = np.random.default_rng(4)
    person = rng.permutation(np.repeat(np.arange(40), 10))
    rows = 2 * rng.normal(size=(40, 12))[person] + rng.normal(size=(400, 12))
    groups = np.array(["a", "b"])[person % 2]
    model = np.eye(12)[:2]
    finding = find(audit(model, rows, groups, folds=5))["FS414"]
    assert finding.groups == ("a", "b")
    assert finding.may_be_harmless
    assert "FS414" not in find(audit(model, rows, groups, clusters=person, folds=5))


def test_copies_of_rows_are_counted():
    frame, rng = table(seed=3)
    twice = pd.concat([frame, frame.iloc[:200]]).iloc[rng.permutation(1000)]
    message = find(audit(MODEL, twice, "g", folds=None))["FS410"].message
    assert "Of the first 1,000 rows, 200 duplicate" in message
    # Where every feature has few values, rows are equal by chance.
    rounded = frame.assign(**frame[NAMES].round())
    assert "FS410" not in find(audit(MODEL, rounded, "g", folds=None))


@pytest.mark.long
def test_independent_rows_are_rarely_reported_as_clustered():
    """Groups differ, tails are long, and errors depend smoothly on an integer column."""
    is_reported = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        n = 400
        rows = rng.standard_t(4, size=(n, 5)) if seed % 2 else rng.normal(size=(n, 5))
        age = rng.integers(20, 60, n)
        rows[:, 4] *= 1 + (age - 20) / 20
        frame = pd.DataFrame(rows, columns=NAMES).assign(
            g=np.array(["a", "b"])[rng.integers(0, 2, n)], age=age, who=rng.integers(0, 50, n)
        )
        frame.loc[frame.g == "b", "u"] *= 3
        model = FairPCA(2).fit(frame[NAMES], sensitive_features=frame.g).subspace_
        findings = find(audit(model, frame, "g", folds=None))
        is_reported.append(bool({"FS409", "FS410"} & set(findings)))
    assert np.mean(is_reported) <= 0.02
