"""Hiding the group from the command line: which restriction, with which settings, given which y."""

import numpy as np
import pandas as pd
import pytest

import fairspan as fs
from fairspan.cli.fitting import with_classes
from fairspan.moments.of_rows import accumulate
from fairspan.rows.registry import rows_beside
from sweeps import mostly_long


@pytest.fixture
def people(tmp_path):
    rng = np.random.default_rng(0)
    sex, race, hired = (rng.integers(count, size=120) for count in (2, 3, 2))
    means = rng.standard_normal((2, 3, 2, 8))[sex, race, hired]
    X = rng.standard_normal((120, 8)) * np.linspace(1, 3, 8) + means
    table = pd.DataFrame(X, columns=[f"x{i}" for i in range(8)])
    table["sex"] = np.where(sex == 1, "f", "m")
    table["race"], table["hired"] = race, np.where(hired == 1, "yes", "no")
    table.to_csv(tmp_path / "people.csv", index=False)
    return tmp_path / "people.csv", table


FEATURES = [f"x{i}" for i in range(8)]
TOTAL = ("--criterion", "total_error", "-d", 2)
LABEL = ("--label", "hired")


@pytest.mark.parametrize(
    ("groups", "given", "restriction"),
    mostly_long(
        [
            (["sex"], [], fs.MeanParity()),
            (["sex"], ["tolerance=0.2"], fs.MeanParity(0.2)),
            (["sex"], ["oblique=yes"], fs.MeanParity(oblique=True)),
            (["sex", "race"], ["attributes=marginal"], fs.MeanParity(attributes="marginal")),
            (["sex"], ["given_labels=all"], fs.MeanParity(given_labels="all")),
            (
                ["sex"],
                ["given_labels=yes", "oblique=true"],
                fs.MeanParity(given_labels=["yes"], oblique=True),
            ),
            (["sex"], ["given_labels=no,yes"], fs.MeanParity(given_labels=["no", "yes"])),
        ],
        step=3,
    ),
    ids=str,
)
def test_a_fit_is_that_of_python_and_is_verified(run, people, tmp_path, groups, given, restriction):
    data, table = people
    reading = [word for group in groups for word in ("--group", group)]
    reading += LABEL if restriction.needs_labels else ["--exclude", "hired"]
    reading += [] if len(groups) == 2 else ["--exclude", "race"]
    settings = [word for each in given for word in ("--restriction-param", each)]
    model = tmp_path / "m"
    facts = run(
        "fit", data, *reading, *TOTAL, "--restriction", "mean_parity", *settings, "-o", model,
        "--json",
    ).facts  # fmt: skip
    assert facts["certificate"]["restriction"] == repr(restriction)
    expected = fs.FairPCA(2, criterion="total_error", restriction=restriction)
    expected.fit(table[FEATURES], table["hired"], sensitive_features=table[groups])
    saved = fs.FairSubspace.load(model)
    np.testing.assert_allclose(saved.encoder, expected.components_, atol=1e-8)
    np.testing.assert_allclose(saved.decoder, expected.subspace_.decoder, atol=1e-8)
    assert facts["models"][1]["why_no_estimates"] is None
    assert run("verify", model, data, *reading).status == 0
    audited = run("audit", data, *reading[: -2 if len(groups) == 1 else None], "--model", model)
    if restriction.needs_labels:
        assert audited.status == 0
        assert run("verify", model, data, "--group", "sex", "--exclude", "hired").status == 1
    out = tmp_path / "out.csv"
    assert run("transform", model, data, "-o", out).status == 0
    np.testing.assert_allclose(pd.read_csv(out), expected.transform(table[FEATURES]), atol=1e-8)


def test_words_say_what_was_hidden(run, people, tmp_path):
    data, _ = people
    words = run(
        "fit", data, "--group", "sex", "--exclude", "race", "--exclude", "hired", *TOTAL,
        "--restriction", "mean_parity", "-o", tmp_path / "m",
    ).out  # fmt: skip
    assert "total error with MeanParity(tolerance=0.0)" in " ".join(words.split())


def test_moments_with_labels_merge_and_are_fitted(run, people, tmp_path):
    data, table = people
    for i in range(2):
        table[i::2].to_csv(tmp_path / f"{i}.csv", index=False)
        part = (tmp_path / f"{i}.csv", "--group", "sex", "--exclude", "race", *LABEL)
        assert run("moments", *part, "-o", tmp_path / f"{i}.moments").status == 0
    both = tmp_path / "both.moments"
    run("merge", tmp_path / "0.moments", tmp_path / "1.moments", "-o", both)
    assert fs.GroupMoments.load(both).by_label.n_groups == 4
    model = tmp_path / "m"
    hide = ("--restriction", "mean_parity", "--restriction-param", "given_labels=all")
    assert run("fit", both, *TOTAL, *hide, "-o", model).status == 0
    assert run("verify", model, both).status == 0
    reading = ("--group", "sex", "--exclude", "race", *LABEL)
    assert run("verify", model, data, *reading).status == 0
    clusters = ("--clusters", "race", "--group", "sex", *LABEL)
    assert run("audit", data, *clusters, "--model", model).status == 0


@pytest.mark.long
def test_a_report_takes_the_column_aside(run, people, tmp_path):
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    data, table = people
    reading = ("--group", "sex", "--exclude", "race", *LABEL, "-d", 2)
    facts = run("report", data, *reading, "--json").facts
    assert facts["data"]["feature_names"] == FEATURES
    assert facts["data"]["n_rows"] == len(table)
    page = fs.write_report(
        tmp_path / "page.html",
        table.drop(columns="race"),
        "sex",
        labels="hired",
        n_components=2,
        criteria=["total_error"],
    )
    assert page["data"]["feature_names"] == FEATURES


def test_classes_are_named_beside_several_groups(run, people, tmp_path):
    data, table = people
    model = tmp_path / "m"
    hide = ("--restriction", "mean_parity", "--restriction-param", "given_labels=yes")
    both = ("--group", "sex", "--group", "race", *LABEL)
    found = run("fit", data, *both, *TOTAL, *hide, "-o", model)
    assert found.status == 0, found.err
    expected = fs.FairPCA(
        2, criterion="total_error", restriction=fs.MeanParity(given_labels=["yes"])
    ).fit(table[FEATURES], table["hired"], sensitive_features=table[["sex", "race"]])
    saved = fs.FairSubspace.load(model)
    np.testing.assert_allclose(saved.encoder, expected.components_, atol=1e-8)


def test_classes_are_known_by_their_texts_beside_several_attributes():
    X = np.arange(8.0)[:, None] ** [1, 2]
    groups = np.column_stack([np.tile(["a", "b"], 4), np.repeat(["x", "y"], 4)])
    rows = rows_beside(X, groups, {"labels": [0, 0, 1, 1] * 2})
    moments = accumulate(rows, has_labels=True)
    found = with_classes({"given_labels": ["1", "x"], "tolerance": 0}, moments)
    assert found == {"given_labels": [1, "x"], "tolerance": 0}
