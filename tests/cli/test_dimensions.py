"""Numbers and shares of dimensions on the command line, and all of them at once."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fairspan as fs
from fairspan.datasets import tumours_by_diagnosis

CASES = [
    ((), {}),
    (("--standardize",), {"scale": True}),
    (("--center", "group"), {"center": "group"}),
    (("--criterion", "minimax_error"), {"criterion": "minimax_error"}),
    (("--criterion", "total_error"), {"criterion": "total_error"}),
    (("--restriction", "mean_parity"), {"restriction": "mean_parity"}),
    (("--nested",), {"nested": True}),
]


@pytest.mark.parametrize("share", [0.6, 0.9])
@pytest.mark.parametrize(("options", "settings"), CASES, ids=str)
def test_a_share_is_that_of_every_group(
    run, table, features, data, tmp_path, options, settings, share
):
    if "restriction" in settings:  # little is left here where the means agree
        share /= 40
    result = run(
        "fit",
        data,
        "--group",
        "age",
        "-d",
        share,
        *options,
        "-o",
        tmp_path / "m",
        "--json",
    )
    fair = fs.FairPCA(share, **settings).fit(table[features], sensitive_features=table["age"])
    facts = result.facts
    assert facts["certificate"]["n_components"] == fair.n_components_
    assert facts["certificate"]["objective"] == pytest.approx(fair.solution_.objective, rel=1e-9)
    kept = [group["kept_here"] for group in facts["models"][1]["groups"]]
    assert min(kept) >= share - 1e-12
    said = f"-d {share:g}: {fair.n_components_} dimension"
    assert all(each in result.err for each in (said, f"of {len(features)}, the fewest with which"))


@pytest.mark.parametrize("command", ["audit", "fit", "report"])
def test_without_dimensions_it_is_nine_tenths(run, data, tmp_path, command):
    where = {"audit": (), "fit": ("-o", tmp_path / "m"), "report": ()}[command]
    words = (command, data, "--group", "age", "--json", *where)
    bare, asked = run(*words), run(*words, "-d", "0.9")
    told, known = (json.loads(result.out.replace(" -d 0.9", "")) for result in (bare, asked))
    assert told == known
    if command != "report":
        assert "; choose others with -d" in bare.err
        assert "; choose others with -d" not in asked.err


def test_an_audit_takes_as_many_as_pca_needs(run, table, features, data):
    facts = run("audit", data, "--group", "age", "-d", "0.8", "--json").facts
    X = table[features].to_numpy()
    centred = X - X.mean(axis=0)
    axes = np.linalg.svd(centred, full_matrices=False)[2]
    for d in range(1, len(features) + 1):
        left = centred - centred @ axes[:d].T @ axes[:d]
        kept = [
            1 - (left[own] ** 2).sum() / (centred[own] ** 2).sum()
            for own in (table["age"] == "old", table["age"] == "young")
        ]
        if min(kept) >= 0.8:
            break
    assert facts["models"][0]["n_components"] == d


def test_each_dimension_is_that_of_an_audit(run, data):
    found = run("audit", data, "--group", "age", "--by-dimension", "--json").facts
    dimensions = sorted({each["n_components"] for each in found["by_dimension"]})
    assert dimensions == [1, 2, 3, 4]  # of five features
    for d in (1, 3):
        alone = run("audit", data, "--group", "age", "-d", d, "--json").facts["models"][0]
        ours = [each for each in found["by_dimension"] if each["n_components"] == d]
        for here, there in zip(ours, alone["groups"], strict=True):
            assert (here["group"], here["state"]) == (there["group"], there["state"])
            for name in ("expected_loss", "expected_loss_low", "expected_loss_high"):
                assert here[name] == pytest.approx(there[name], rel=1e-6, abs=1e-9)


@pytest.mark.long
def test_a_dimension_that_moves_with_the_folds_moves_no_other(run, data, table):
    """Of few rows a best subspace is poorly known, and its error is averaged over several folds."""
    rows = table.drop(columns="sex").iloc[:70]
    rows.to_csv(data, index=False)
    alone = {
        d: run("audit", data, "--group", "age", "-d", d, "--json").facts["models"][0]["groups"]
        for d in (1, 2, 3, 4)
    }
    moving = [
        d for d, each in alone.items() if max(g["cross_fitted_instability"] for g in each) > 0.1
    ]
    assert 0 < len(moving) < 4
    found = run("audit", data, "--group", "age", "--by-dimension", "--json").facts
    for d, groups in alone.items():
        ours = [each for each in found["by_dimension"] if each["n_components"] == d]
        for here, there in zip(ours, groups, strict=True):
            known = there["expected_loss"]
            assert here["expected_loss"] == pytest.approx(known, rel=1e-6, abs=1e-9)


def test_the_page_of_the_docs_shows_what_is_printed(run, tmp_path):
    patients = tumours_by_diagnosis()
    frame = pd.DataFrame(patients.X, columns=patients.feature_names)
    frame["tumour"] = patients.sensitive_features
    frame.to_csv(tmp_path / "patients.csv", index=False)
    page = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text(encoding="utf-8")
    command = re.search(r"^fairspan (audit .*--by-dimension)$", page, re.M)[1]
    words = [each.replace("patients.csv", f"{tmp_path}/patients.csv") for each in command.split()]
    shown = re.search(r"```text\n( d  group.*?)```", page, re.S)[1]
    assert shown in run(*words).out


def test_long_names_of_groups_leave_room_for_the_figures(run, table, tmp_path):
    names = {"old": "o" * 60, "young": "y" * 60}
    table.assign(age=table["age"].map(names)).to_csv(tmp_path / "long.csv", index=False)
    words = ("audit", tmp_path / "long.csv", "--group", "age", "--exclude", "sex", "--by-dimension")
    lines = run(*words).out.splitlines()
    assert max(map(len, lines)) <= 80
    assert any("oooo" in line for line in lines)
