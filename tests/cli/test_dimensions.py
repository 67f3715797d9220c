"""One meaning of a share: every group keeps it, on the command line as in Python."""

import json

import numpy as np
import pytest

import fairspan as fs

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
    kept = [group["variance_kept"] for group in facts["models"][1]["groups"]]
    assert min(kept) >= share - 1e-12
    said = f"-d {share:g}: {fair.n_components_} dimension"
    assert said in result.err
    assert f"of {len(features)}, the fewest with which" in result.err


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
