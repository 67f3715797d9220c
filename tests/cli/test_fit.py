import os

import numpy as np
import pandas as pd
import pytest

import fairspan as fs
import real_data
from cli.by_hand import assert_agrees, figures_by_hand, plain_pca_by_hand


def by_group(figures, name):
    return [getattr(each, name) for each in figures.values()]


def losses_of(figures):
    return [each.error - each.best_error for each in figures.values()]


@pytest.mark.parametrize("center", ["global", "group", "none"])
@pytest.mark.parametrize("standardize", [False, True])
def test_the_saved_model_does_to_the_rows_what_was_printed(
    run, data, table, features, tmp_path, center, standardize
):
    model = tmp_path / "m"
    flags = ["--standardize"] if standardize else []
    settings = ("--group", "age", "-d", 2, "--center", center, *flags)
    facts = run("fit", data, *settings, "-o", model, "--json").facts
    X, saved = table[features].to_numpy(dtype=float), fs.FairSubspace.load(model)
    mean = np.zeros(5) if center == "none" else X.mean(axis=0)
    scale = X.std(axis=0) if standardize else np.ones(5)
    np.testing.assert_allclose(saved.mean, mean, rtol=1e-12, atol=1e-12)
    expected = figures_by_hand(X, table["age"], saved.components, mean, scale, center=center)
    plain, fair = facts["models"]
    assert [plain["name"], fair["name"]] == ["PCA", "fair"]
    assert_agrees(fair, expected)
    by_hand = plain_pca_by_hand(X, table["age"], 2, center=center, standardize=standardize)
    assert_agrees(plain, by_hand)
    assert facts["model"] == str(model)
    assert facts["certificate"]["objective"] == pytest.approx(max(losses_of(expected)), rel=1e-9)
    assert max(losses_of(expected)) <= max(losses_of(by_hand))


def test_nested_components_are_those_of_python_with_a_record_of_each(
    run, data, table, features, tmp_path
):
    model = tmp_path / "m"
    settings = ("--group", "age", "-d", 3, "--nested", "-o", model)
    certificate = run("fit", data, *settings, "--json").facts["certificate"]
    fair = fs.FairPCA(3, nested=True).fit(table[features], sensitive_features=table["age"])
    np.testing.assert_allclose(fs.FairSubspace.load(model).components, fair.components_, atol=1e-9)
    steps = fair.solution_.steps
    for d, (told, step) in enumerate(zip(certificate["nested"], steps, strict=True), start=1):
        first = fair.subspace_.first(d).provenance
        assert (told["n_components"], told["objective"]) == (d, pytest.approx(first.objective))
        assert told["step"]["objective"] == pytest.approx(step.objective, rel=1e-9)
        assert told["step"]["status"] == "optimal"
    assert run("verify", model, data, "--group", "age").status == 0
    words = " ".join(run("fit", data, *settings).out.split())
    assert "Certificate: nested minimax loss is" in words
    refused = run("fit", data, *settings, "--criterion", "error_gap")
    assert refused.status == 2
    assert "nested" in refused.err


@pytest.mark.parametrize("criterion", ["minimax_loss", "minimax_error", "total_error"])
def test_it_is_the_projection_that_python_fits(run, data, table, features, tmp_path, criterion):
    model = tmp_path / "m"
    settings = ("--group", "age", "-d", 2, "--criterion", criterion)
    facts = run("fit", data, *settings, "-o", model, "--json").facts
    in_python = fs.FairPCA(2, criterion=criterion).fit(
        table[features], sensitive_features=table["age"]
    )
    ours, theirs = fs.FairSubspace.load(model).components, in_python.components_
    np.testing.assert_allclose(ours.T @ ours, theirs.T @ theirs, atol=1e-9)
    certificate = facts["certificate"]
    assert (certificate["criterion"], certificate["status"]) == (criterion, "optimal")
    assert certificate["gap"] == certificate["objective"] - certificate["lower_bound"]
    assert certificate["objective"] == pytest.approx(in_python.solution_.objective, rel=1e-9)


def test_no_other_plane_is_fairer(run, data, table, features, tmp_path):
    model = tmp_path / "m"
    certificate = run("fit", data, "--group", "age", "-d", 2, "-o", model, "--json").facts[
        "certificate"
    ]
    X, labels = table[features].to_numpy(dtype=float), table["age"]
    rng, best = np.random.default_rng(0), fs.FairSubspace.load(model).components
    for size in (1e-4, 1e-2, 1.0):
        for _ in range(30):
            near = np.linalg.qr(best.T + size * rng.normal(size=(5, 2)))[0].T
            others = figures_by_hand(X, labels, near, X.mean(axis=0), np.ones(5), center="global")
            assert max(losses_of(others)) >= certificate["lower_bound"] - 1e-9


def test_total_error_is_plain_pca_also_for_three_groups(run, table, features, tmp_path):
    path = tmp_path / "three.csv"
    table[features].assign(g=np.arange(240) % 3).to_csv(path, index=False)
    facts = run(
        *("fit", path, "--group", "g", "--criterion", "total_error", "-d", 3),
        *("-o", tmp_path / "m", "--json"),
    ).facts
    plain, fair = facts["models"]
    expected = by_group(plain_pca_by_hand(table[features], np.arange(240) % 3, 3), "error")
    for model in (plain, fair):
        errors = [group["error"]["value"] for group in model["groups"]]
        assert errors == pytest.approx(expected, rel=1e-9)


def test_without_d_as_many_dimensions_as_the_audit_takes(run, data, tmp_path):
    (audited,) = run("audit", data, "--group", "age", "--json").facts["models"]
    facts = run("fit", data, "--group", "age", "-o", tmp_path / "m", "--json").facts
    assert facts["certificate"]["n_components"] == audited["n_components"]


def test_saved_moments_give_the_same_model_without_intervals(run, data, table, features, tmp_path):
    moments, models = tmp_path / "table.moments", (tmp_path / "a", tmp_path / "b")
    fs.GroupMoments.from_rows(table[features], table["age"]).save(moments)
    rows = run("fit", data, "--group", "age", "-d", 2, "-o", models[0], "--json").facts
    alone = run("fit", moments, "-d", 2, "-o", models[1], "--json").facts
    first, second = map(fs.FairSubspace.load, models)
    np.testing.assert_allclose(first.components, second.components, atol=1e-9)
    assert second.feature_names == tuple(features)
    assert alone["rows"] == {**rows["rows"], "has_intervals": False}
    assert {each["error"]["low"] for each in alone["models"][1]["groups"]} == {None}
    assert "FS106" in [finding["code"] for finding in alone["findings"]]


def test_the_same_data_give_the_same_bytes(run, data, tmp_path):
    for name in ("a", "b"):
        run("fit", data, "--group", "age", "-d", 2, "-o", tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_an_earlier_model_is_replaced_and_nothing_else_is_left(run, data, model, tmp_path):
    before = model.read_bytes()
    run("fit", data, "--group", "age", "-d", 3, "-o", model, "--force")
    assert model.read_bytes() != before
    assert {path.name for path in tmp_path.iterdir()} == {"data.csv", "fair.model"}


def test_the_words_say_what_the_json_says(run, data, tmp_path):
    arguments = ("fit", data, "--group", "age", "-d", 2, "-o", tmp_path / "m")
    facts, result = run(*arguments, "--json").facts, run(*arguments)
    certificate = facts["certificate"]
    assert f"minimax loss is {certificate['objective']:.6g}" in result.out
    assert "Status: optimal" in result.out
    assert result.out.rstrip().endswith(f"Saved to {tmp_path / 'm'}")
    assert result.err == ""


def test_credit_data_lose_equally_in_both_groups(run, tmp_path):
    path, model = real_data.path_of("default_credit.parquet"), tmp_path / "m"
    facts = run(
        *("fit", path, "--group", "group__education", "--exclude", "*__*"),
        *("--center", "group", "--standardize", "-d", 3, "-o", model, "--json"),
    ).facts
    plain, fair = facts["models"]
    losses = [group["excess_loss"] for group in fair["groups"]]
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    assert losses[0] < max(group["excess_loss"] for group in plain["groups"])
    rows = real_data.load("default_credit:group__education")
    saved = fs.FairSubspace.load(model)
    Z = rows.z_scored(ddof=0)
    by_hand = figures_by_hand(
        Z, rows.groups, saved.components, np.zeros(22), np.ones(22), center="group"
    )
    assert losses == pytest.approx(losses_of(by_hand), rel=1e-6)


@pytest.mark.long
def test_labels_that_the_terminal_cannot_show_stop_nothing(installed, table, features, tmp_path):
    path = tmp_path / "named.csv"
    named = table[[*features, "age"]].replace({"age": {"old": "\u00e9\u6f22"}})
    named.to_csv(path, index=False, encoding="utf-8")
    settings = {**os.environ, "PYTHONIOENCODING": "cp1252"}
    words = installed("audit", path, "--group", "age", "-d", 2, env=settings, encoding="cp1252")
    assert (words.status, words.err) == (0, "")
    assert "\u00e9\\u6f22" in words.out
    facts = installed("audit", path, "--group", "age", "--json", env=settings).facts
    labels = [group["group"] for group in facts["models"][0]["groups"]]
    assert labels == sorted(pd.unique(named["age"]))


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (["-d", 3], "dimensions: 2, now 3"),
        (["-d", 2, "--standardize"], "standardize: False, now True"),
        (["-d", 2, "--center", "group"], "center: global, now group"),
        (["-d", 2, "--criterion", "total_error"], "criterion: minimax_loss, now total_error"),
    ],
)
def test_a_model_of_other_settings_is_replaced_by_force_alone(run, data, tmp_path, other, said):
    model = tmp_path / "fair.model"
    first = ("fit", data, "--group", "age", "-o", model)
    assert run(*first, "-d", 2).status == 0
    before = model.read_bytes()
    assert run(*first, "-d", 2).status == 0  # the same again
    refused = run(*first, *other)
    assert refused.status == 2
    assert said in refused.err
    assert model.read_bytes() == before
    assert run(*first, *other, "--force").status == 0
    assert model.read_bytes() != before


def test_a_file_that_is_no_model_is_replaced_by_force_alone(run, data, tmp_path):
    path = tmp_path / "notes"
    path.write_text("do not lose this")
    command = ("fit", data, "--group", "age", "-d", 2, "-o", path)
    assert "is not a model" in run(*command).err
    assert path.read_text() == "do not lose this"
    moments = tmp_path / "age.moments"
    run("moments", data, "--group", "age", "-o", moments)
    assert "not a readable model" in run(*command[:-1], moments).err
    assert run(*command, "--force").status == 0
    assert fs.FairSubspace.load(path).n_components == 2
