"""fairspan audit: its figures, its choices, numbers of dimensions, and estimates for new rows."""

import hashlib
import io
import json
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fairspan as fs
import real_data
from case_selection import parametrize_diagonal
from cli.pca_reference import assert_agrees, reference_figures, reference_pca
from fairspan.datasets import load_adult_by_sex


@parametrize_diagonal(center=["global", "group", "none"], standardize=[False, True])
def test_every_figure_is_that_of_the_rows(run, data, table, features, center, standardize):
    flags = ["--standardize"] if standardize else []
    result = run("audit", data, "--group", "age", "-d", 2, "--center", center, *flags, "--json")
    facts = result.facts
    (plain,) = facts["models"]
    every_row = {"n_dropped": 0, "missing": None, "has_clusters": False}
    every_row |= {"n_features": 5, "has_intervals": True, "group_columns": ["age"]}
    assert facts["rows"] == {"n_rows": 240, **every_row}
    assert (plain["name"], plain["n_components"], plain["center"]) == ("PCA", 2, center)
    assert plain["is_scaled"] is standardize
    expected = reference_pca(
        table[features], table["age"], 2, center=center, standardize=standardize
    )
    assert_agrees(plain, expected)
    reference = sum(
        group_figures.error * group_figures.n for group_figures in expected.values()
    ) / len(table)
    assert (plain["observed_total_error"], result.err) == (pytest.approx(reference, rel=1e-9), "")


def test_the_table_shows_the_figures_of_the_json(run, data):
    arguments = ("audit", data, "--group", "age", "-d", 2)
    facts = run(*arguments, "--json").facts
    lines = run(*arguments).out.splitlines()
    for group in facts["models"][0]["groups"]:
        (i,) = (i for i, line in enumerate(lines) if line.split()[:1] == [group["group"]])
        n, *figures, state = re.split(r" %\s+|\s{2,}", lines[i].strip())[1:]
        assert (n, state) == (str(group["n_rows"]), group["state"])
        error, value, interval, in_sample = figures
        displayed = [float(text) for text in (error, value, *interval.split(" to "), in_sample)]
        loss = [group[f"expected_loss{end}"] for end in ("", "_low", "_high")]
        figures = np.array([group["expected_error"], *loss, group["observed_loss"]])
        shares = 100 * figures / group["observed_total_variance"]
        assert displayed == pytest.approx(shares.tolist(), abs=0.05)
    assert " ".join(" ".join(lines).split()).startswith(
        f"Groups: age Verdict: {facts['verdict']['kind'][:1].upper()}"
    )
    assert facts["verdict"]["summary"] in " ".join(" ".join(lines).split())
    for finding in facts["findings"]:
        assert finding["message"] in " ".join(" ".join(lines).split())


def test_repeated_groups_make_their_intersections(run, table, features, tmp_path):
    path = tmp_path / "both.csv"
    table.to_csv(path, index=False)
    arguments = ("audit", path, "--group", "sex", "--group", "age", "-d", 2, "--folds", "none")
    facts = run(*arguments, "--json").facts
    labels = table["sex"] + "/" + table["age"]
    reference = reference_pca(table[features], labels, 2)
    groups = {"/".join(group["group"]): group for group in facts["models"][0]["groups"]}
    assert list(groups) == list(reference) == ["f/old", "f/young", "m/old", "m/young"]
    for label, group in groups.items():
        assert group["n_rows"] == reference[label].n
        assert group["observed_error"] == pytest.approx(reference[label].error, rel=1e-9)
    errors = [group_figures.error for group_figures in reference.values()]
    disparity = facts["models"][0]["observed_disparity"]
    assert disparity == pytest.approx(max(errors) - min(errors), rel=1e-9)


@pytest.mark.parametrize(
    ("patterns", "selected"),
    [
        (["--features", "pay_*"], ["pay_1", "pay_2"]),
        (["--features", "pay_*", "--features", "weight"], ["pay_1", "pay_2", "weight"]),
        (["--exclude", "pay_?"], ["limit", "height", "weight"]),
        (["--features", "*ei*", "--exclude", "w*", "--features", "limit"], ["limit", "height"]),
    ],
)
def test_patterns_choose_features(run, data, table, patterns, selected):
    arguments = ("audit", data, "--group", "age", "-d", 1, "--folds", "none", "--json")
    facts = run(*arguments, *patterns).facts
    assert facts["rows"]["n_features"] == len(selected)
    assert_agrees(facts["models"][0], reference_pca(table[selected], table["age"], 1))


def test_a_model_is_evaluated_on_held_out_rows(run, table, features, tmp_path):
    train = tmp_path / "train.csv"
    test = tmp_path / "test.csv"
    model = tmp_path / "m"
    columns = [*features, "age"]
    table.loc[:119, columns].to_csv(train, index=False)
    # Other columns, and the model's in another order.
    test_rows = table.loc[120:, [*columns[::-1], "sex"]]
    test_rows.to_csv(test, index=False)
    quick = ("--folds", "none", "-o", model)
    run("fit", train, "--group", "age", "-d", 2, "--standardize", *quick, status=0)
    result = run("audit", test, "--group", "age", "--model", model, "--json")
    subspace = fs.FairSubspace.load(model)
    reference = reference_figures(
        test_rows[features],
        test_rows["age"],
        subspace.components,
        table.loc[:119, features].mean().to_numpy(),
        table.loc[:119, features].std(ddof=0).to_numpy(),
        center="global",
    )
    model_facts, plain = result.facts["models"]
    assert (model_facts["name"], model_facts["in_sample"]) == ("m", False)
    assert_agrees(model_facts, reference)
    # Ordinary PCA of these rows, in the units of the model.
    units = table.loc[:119, features].std(ddof=0)
    assert (plain["name"], plain["is_scaled"], plain["in_sample"]) == ("PCA", True, True)
    assert_agrees(plain, reference_pca(test_rows[features] / units, test_rows["age"], 2))
    assert result.facts["verdict"]["kind"] != "harm, no repair tried"


@pytest.mark.slow
def test_a_saved_model_is_compared_with_ordinary_pca_as_when_it_was_fitted(run, data, model):
    at_fit = run("fit", data, "--group", "age", "-d", 2, "-o", model, "--force", "--json").facts
    later_facts = run("audit", data, "--group", "age", "--model", model, "--json").facts
    assert [model_record["name"] for model_record in later_facts["models"]] == [model.name, "PCA"]
    for fact in ("kind", "groups"):
        assert later_facts["verdict"][fact] == at_fit["verdict"][fact]
    changes = [
        [{**change, "model": None} for change in facts["changes"]]
        for facts in (later_facts, at_fit)
    ]
    assert changes[0] == changes[1] != []


@pytest.mark.slow
def test_the_group_column_may_be_a_feature_of_the_model(run, table, features, tmp_path):
    path = tmp_path / "coded.csv"
    model = tmp_path / "m"
    table.assign(old=(table["age"] == "old").astype(int)).to_csv(path, index=False)
    run("fit", path, "--group", "sex", "--exclude", "age", "-d", 2, "--folds", "none", "-o", model)
    run(
        "audit",
        path,
        "--group",
        "old",
        "--model",
        model,
        "--json",
        status=2,
        err="was not fitted on: 0.0, 1.0",
    )
    plain = fs.FairSubspace(np.eye(6)[:2], np.zeros(6), feature_names=(*features, "old"))
    plain.save(model)
    arguments = ("audit", path, "--group", "old", "--model", model, "--folds", "none")
    (model_facts,) = run(*arguments, "--json").facts["models"]
    is_old = (table["age"] == "old").to_numpy()
    row_errors = (table[features[2:]].to_numpy() ** 2).sum(axis=1) + is_old
    assert [(group["group"], group["observed_error"]) for group in model_facts["groups"]] == [
        (0, pytest.approx(row_errors[~is_old].mean())),
        (1, pytest.approx(row_errors[is_old].mean())),
    ]


@pytest.mark.slow
def test_models_side_by_side_keep_their_order_and_names(run, data, tmp_path):
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder, d in zip(folders, (1, 3), strict=True):
        folder.mkdir()
        run("fit", data, "--group", "age", "-d", d, "--folds", "none", "-o", folder / "m")
    paths = [folder / "m" for folder in folders]
    arguments = ("audit", data, "--group", "age", "--folds", "none", "--json")
    result = run(*arguments, "--model", paths[1], "--model", paths[0])
    names_and_dimensions = [
        (model_facts["name"], model_facts["n_components"]) for model_facts in result.facts["models"]
    ]
    assert names_and_dimensions == [
        (str(paths[1]), 3),
        (str(paths[0]), 1),
        ("PCA d=3", 3),
        ("PCA d=1", 1),
    ]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_numbers_are_cut_into_groups_whose_lower_edge_belongs_to_them(
    run, table, features, tmp_path, ending
):
    path = tmp_path / f"ages.{ending}"
    years = np.arange(len(table)) % 70 + 15.5
    years[:4] = 30, 60, 29, 60.5
    frame = table[features].assign(years=years, sex=table["sex"])
    frame.to_csv(path, index=False) if ending == "csv" else frame.to_parquet(path)
    reference = np.where(
        years < 30, "below 30", np.where(years < 60, "30 to below 60", "60 or more")
    )
    words = ("audit", path, "--group", "years", "--group", "sex", "--bin", "years=30,60", "-d", 1)
    words += ("--folds", "none")
    facts = run(*words, "--json", status=0).facts
    expected = (pd.Series(reference) + "/" + table["sex"]).value_counts()
    groups = facts["models"][0]["groups"]
    assert {"/".join(group["group"]): group["n_rows"] for group in groups} == dict(expected)
    assert facts["rows"]["n_features"] == len(features)
    frame.loc[7, "years"] = np.nan
    frame.to_csv(path, index=False) if ending == "csv" else frame.to_parquet(path)
    row = "line 9" if ending == "csv" else "row 8 (index 7)"
    run(*words, status=2, err=f"{row} is missing")
    assert run(*words, "--on-missing", "drop", "--json").facts["rows"]["n_dropped"] == 1


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_rows_without_a_group_are_dropped_or_get_one(run, table, features, tmp_path, ending):
    path = tmp_path / f"t.{ending}"
    frame = table[[*features, "age"]].copy()
    frame.loc[:9, "age"] = None
    frame.to_csv(path, index=False) if ending == "csv" else frame.to_parquet(path)
    words = ("audit", path, "--group", "age", "-d", 1, "--folds", "none", "--json")
    run(*words, status=2, err="--missing-group unknown")
    with_unknown = run(*words, "--missing-group", "unknown").facts
    counts = {group["group"]: group["n_rows"] for group in with_unknown["models"][0]["groups"]}
    assert counts == {**frame.age.value_counts(), "unknown": 10}
    without_unlabeled = run(*words, "--missing-group", "drop").facts
    assert (
        without_unlabeled["rows"]["n_dropped"]
        == without_unlabeled["rows"]["missing"]["n_without_group"]
        == 10
    )
    frame.loc[20, "limit"] = np.nan
    frame.to_csv(path, index=False) if ending == "csv" else frame.to_parquet(path)
    # Features are still checked, and the row is named as it stands in the table.
    row = "line 22" if ending == "csv" else "row 21 (index 20)"
    run(*words, "--missing-group", "drop", status=2, err=f"{row}, column 'limit'")
    rows = run(*words, "--missing-group", "unknown", "--on-missing", "drop").facts["rows"]
    assert (rows["n_dropped"], rows["missing"]["groups"]) == (1, ["old", "unknown", "young"])


@pytest.mark.parametrize(
    ("bins", "expected_text"),
    [
        (["age=30"], "holds text"),
        (["limit=0"], "add --group limit"),
        (["age=1,2", "age=3"], "given twice"),
        *[
            ([f"age={edges}"], "increasing numbers")
            for edges in ("", "30,20", "5,5", "nan", "1,inf")
        ],
        (["30,60"], "increasing numbers"),
    ],
)
def test_bins_that_cannot_be_are_refused(run, data, bins, expected_text):
    options = [word for column_edges in bins for word in ("--bin", column_edges)]
    run("audit", data, "--group", "age", *options, status=2, out="", err=expected_text)


@pytest.mark.parametrize(
    "setting",
    [["-d", "1"], ["--center", "group"], ["--standardize"]],
    ids=lambda setting: setting[0],
)
def test_a_setting_that_contradicts_the_model_is_refused(run, data, model, setting):
    run(
        "audit",
        data,
        "--group",
        "age",
        "--model",
        model,
        *setting,
        status=2,
        out=None,
        err=[setting[0], "2 dimensions, center 'global' and unscaled"],
    )


def test_settings_that_agree_with_the_model_are_accepted(run, data, tmp_path):
    settings = ["-d", 2, "--center", "group", "--standardize"]
    model = tmp_path / "m"
    quick = ("--group", "age", "--folds", "none")
    run("fit", data, *quick, *settings, "-o", model)
    bare = run("audit", data, *quick, "--model", model, "--json").facts
    repeated = run("audit", data, *quick, "--model", model, *settings, "--json").facts
    assert repeated == bare


@pytest.mark.filterwarnings("default::fairspan.errors.FairspanWarning")
def test_a_constant_column_is_named_in_a_warning_and_leaves_the_figures_alone(
    run, table, features, tmp_path
):
    path = tmp_path / "constant.csv"
    table[[*features, "age"]].assign(flat=3.5).to_csv(path, index=False)
    arguments = ("audit", path, "--group", "age", "-d", 2, "--standardize", "--folds", "none")
    result = run(*arguments, "--json")
    assert result.err.startswith("fairspan: warning:")
    assert "'flat'" in result.err
    expected = reference_pca(table[features], table["age"], 2, standardize=True)
    assert_agrees(result.facts["models"][0], expected)


@pytest.mark.slow
def test_credit_data_match_the_published_table(run):
    path = real_data.data_path("default_credit.parquet")
    published_table = dict(real_data.published_pca_errors())[3]
    facts = run(
        *("audit", path, "--group", "group__education", "--exclude", "*__*"),
        *("--center", "group", "--standardize", "-d", 3, "--json"),
    ).facts
    n = facts["rows"]["n_rows"]
    assert (n, facts["rows"]["n_features"]) == (30000, 22)
    # The table standardizes with ddof 1, the command with ddof 0.
    errors = {g["group"]: g["observed_error"] * (n - 1) / n for g in facts["models"][0]["groups"]}
    assert errors["lower"] == pytest.approx(published_table["lower"], abs=6e-5)
    assert errors["higher"] == pytest.approx(published_table["higher"], abs=6e-5)


@pytest.fixture
def visits(table, features, tmp_path):
    """Every row four times, with small changes: the visits of one person."""
    several = pd.concat([table.drop(columns="sex")] * 4, ignore_index=True)
    noise = np.random.default_rng(1).normal(size=(len(several), len(features)))
    several[features] += 0.1 * noise
    several["person"] = np.tile([f"p{i}" for i in range(len(table))], 4)
    several.to_csv(tmp_path / "visits.csv", index=False)
    return several


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        (
            ["--folds", "5", "--level", "0.8", "--materiality", "0.3"],
            {"folds": 5, "level": 0.8, "materiality": 0.3},
        ),
        (["--folds", "5", "--clusters", "person"], {"folds": 5, "clusters": "person"}),
    ],
)
def test_options_are_those_of_python(run, visits, features, tmp_path, options, settings):
    words = ("audit", tmp_path / "visits.csv", "--group", "age", "-d", "2", *options)
    words = words if "clusters" in settings else (*words, "--exclude", "person")
    facts = run(*words, "--json").facts
    if "clusters" in settings:
        settings = {**settings, "clusters": visits["person"]}
    X = visits[features]
    groups = visits["age"]
    pca = fs.FairPCA(2, criterion="total_error").fit(X, sensitive_features=groups)
    python_audit = fs.audit(pca, X, groups, **settings)
    assert (facts["rows"]["n_rows"], facts["rows"]["n_features"]) == (len(visits), 5)
    assert (facts["level"], facts["materiality"]) == (python_audit.level, python_audit.materiality)
    for command_group, python_group in zip(
        facts["models"][0]["groups"], python_audit.models[0].groups, strict=True
    ):
        assert (command_group["n_rows"], command_group["state"]) == (
            python_group.n_rows,
            python_group.state,
        )
        assert command_group["cross_fitted_loss"] == pytest.approx(
            python_group.cross_fitted_loss, rel=1e-6
        )
        for name, value in python_group.expected_loss.to_record("expected_loss").items():
            assert command_group[name] == pytest.approx(value, rel=1e-6)


def test_rows_of_one_person_count_as_one(run, visits, tmp_path):
    arguments = ("audit", tmp_path / "visits.csv", "--group", "age", "-d", "2", "--json")
    by_person, by_row = (
        [
            g["observed_error_high"] - g["observed_error_low"]
            for g in result.facts["models"][0]["groups"]
        ]
        for result in (
            run(*arguments, "--clusters", "person"),
            run(*arguments, "--exclude", "person"),
        )
    )
    assert (np.array(by_person) > 1.7 * np.array(by_row)).all()


@pytest.mark.parametrize("none", ["none", "0"])
def test_without_folds_there_are_figures_on_the_rows_alone(run, data, none):
    facts = run("audit", data, "--group", "age", "-d", "2", "--folds", none, "--json").facts
    assert facts["verdict"] is None
    assert all(group["expected_loss"] is None for group in facts["models"][0]["groups"])


@pytest.mark.slow
def test_few_rows_have_estimates_at_as_many_dimensions_as_they_determine(run, table, tmp_path):
    """Folds of four rows have three, which determine two dimensions."""
    rows = table.drop(columns="sex")
    rows["age"] = np.where(np.arange(len(rows)) < 4, "few", "many")
    path = tmp_path / "few.csv"
    rows.to_csv(path, index=False)
    facts = run("audit", path, "--group", "age", "--by-dimension", "--json").facts
    records = [record for record in facts["by_dimension"] if record["group"] == "few"]
    has_estimate = {
        record["n_components"]: record["expected_loss"] is not None for record in records
    }
    assert has_estimate == {1: True, 2: True, 3: False, 4: False}
    words = run("audit", path, "--group", "age", "--by-dimension").out
    assert "Inconclusive for 'few' at 2 numbers" in words


CASES = [
    ((), {}),
    (("--standardize",), {"scale": True}),
    (("--center", "group"), {"center": "group"}),
    (("--criterion", "minimax_error"), {"criterion": "minimax_error"}),
    (("--criterion", "total_error"), {"criterion": "total_error"}),
    (("--restriction", "mean_parity"), {"restriction": "mean_parity"}),
    (("--nested",), {"nested": True}),
]


@parametrize_diagonal(share=[0.6, 0.9], case=CASES)
def test_a_share_is_that_of_every_group(run, table, features, data, tmp_path, case, share):
    options = ("--folds", "none", *case[0])
    settings = case[1]
    if "restriction" in settings:  # little is left here where the means agree
        share /= 40
    words = ("fit", data, "--group", "age", "-d", share, *options, "-o", tmp_path / "m")
    result = run(*words, "--json")
    fair = fs.FairPCA(share, **settings).fit(table[features], sensitive_features=table["age"])
    facts = result.facts
    assert facts["certificate"]["n_components"] == fair.n_components_
    assert facts["certificate"]["objective"] == pytest.approx(fair.solution_.objective, rel=1e-9)
    kept_shares = [group["observed_variance_kept"] for group in facts["models"][1]["groups"]]
    assert min(kept_shares) >= share - 1e-12
    message = f"-d {share:g}: {fair.n_components_} dimension"
    assert all(
        part in result.err for part in (message, f"of {len(features)}, the fewest with which")
    )


@pytest.mark.parametrize(
    "command", ["audit", "fit", pytest.param("report", marks=pytest.mark.slow)]
)
def test_without_dimensions_it_is_nine_tenths(run, data, tmp_path, command):
    output_options = {"audit": (), "fit": ("-o", tmp_path / "m"), "report": ()}[command]
    words = (command, data, "--group", "age", "--folds", "none", "--json", *output_options)
    bare = run(*words)
    with_share = run(*words, "-d", "0.9")
    facts, expected = (
        json.loads(result.out.replace(" -d 0.9", "")) for result in (bare, with_share)
    )
    assert facts == expected
    if command != "report":
        assert "; change it with -d" in bare.err
        assert "; change it with -d" not in with_share.err


@parametrize_diagonal(standardize=[False, True], share=[None, 0.8])
def test_an_audit_takes_the_fewest_that_keep_the_share_in_every_group(
    run, table, features, data, share, standardize
):
    options = [*(["-d", share] if share else []), *["--standardize"] * standardize]
    options += ["--folds", "none"]
    (model_facts,) = run("audit", data, "--group", "age", *options, "--json").facts["models"]
    min_shares = []
    for d in range(1, len(features) + 1):
        reference = reference_pca(table[features], table["age"], d, standardize=standardize)
        min_shares.append(
            min(
                1 - group_figures.error / group_figures.total_variance
                for group_figures in reference.values()
            )
        )
    assert model_facts["n_components"] == 1 + np.argmax(np.array(min_shares) >= (share or 0.9))


def test_each_dimension_is_that_of_an_audit_with_its_share_of_the_level(run, data):
    facts = run("audit", data, "--group", "age", "--by-dimension", "--json").facts
    dimensions = sorted({record["n_components"] for record in facts["by_dimension"]})
    assert dimensions == [1, 2, 3, 4]  # of five features
    share = ["--level", 1 - 0.05 / len(dimensions)]
    for d in (1, 3):
        single = run("audit", data, "--group", "age", "-d", d, *share, "--json").facts["models"][0]
        records = [record for record in facts["by_dimension"] if record["n_components"] == d]
        for record, group in zip(records, single["groups"], strict=True):
            assert (record["group"], record["state"]) == (group["group"], group["state"])
            for name in ("expected_loss", "expected_loss_low", "expected_loss_high"):
                assert record[name] == pytest.approx(group[name], rel=1e-6, abs=1e-9)


@pytest.mark.long
def test_a_dimension_that_moves_with_the_folds_moves_no_other(run, data, table):
    """The best subspace of few rows is unstable, so its error is averaged over several folds."""
    rows = table.drop(columns="sex").iloc[:70]
    rows.to_csv(data, index=False)
    single = {
        d: run("audit", data, "--group", "age", "-d", d, "--json").facts["models"][0]["groups"]
        for d in (1, 2, 3, 4)
    }
    moving = [
        d
        for d, model_groups in single.items()
        if max(g["relative_optimism"] for g in model_groups) > 0.1
    ]
    assert 0 < len(moving) < 4
    facts = run("audit", data, "--group", "age", "--by-dimension", "--json").facts
    for d, groups in single.items():
        records = [record for record in facts["by_dimension"] if record["n_components"] == d]
        for record, group in zip(records, groups, strict=True):
            expected = group["expected_loss"]
            assert record["expected_loss"] == pytest.approx(expected, rel=1e-6, abs=1e-9)


@pytest.mark.slow
def test_the_page_of_the_docs_shows_what_is_printed(run, tmp_path):
    people = load_adult_by_sex()
    frame = pd.DataFrame(people.X, columns=people.feature_names)
    frame["sex"] = people.sensitive_features
    frame.to_csv(tmp_path / "people.csv", index=False)
    page = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text(encoding="utf-8")
    command = re.search(r"^fairspan (audit .*--by-dimension)$", page, re.M)[1]
    words = [word.replace("people.csv", f"{tmp_path}/people.csv") for word in command.split()]
    documented = re.search(r"```text\n( d  group.*?)```", page, re.S)[1]
    assert documented in run(*words).out


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet", "moments"])
def test_a_dash_is_standard_input(run, table, tmp_path, monkeypatch, ending):
    path = tmp_path / f"rows.{ending}"
    options = ("--group", "age")
    rows = table.drop(columns="sex")
    if ending == "moments":
        fs.GroupMoments.from_rows(rows, "age").save(path)
        options = ()
    else:
        (rows.to_parquet if ending == "parquet" else rows.to_csv)(path, index=False)
    options += ("--folds", "none") if options else ()
    facts = run("audit", path, *options, "-d", 2, "--json").facts
    stdin = io.TextIOWrapper(io.BytesIO(path.read_bytes()))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert run("audit", "-", *options, "-d", 2, "--json").facts == facts
    stdin.isatty = lambda: True
    run("audit", "-", *options, status=2, out=None, err="is a terminal: pipe a table into it")


def test_held_out_rows_evaluate_the_models_of_the_first_file(run, table, features, tmp_path):
    table = table.drop(columns="sex")
    half = len(table) // 2
    parts = {name: tmp_path / f"{name}.csv" for name in ("train", "rest")}
    table[:half].to_csv(parts["train"], index=False)
    table[half:].to_csv(parts["rest"], index=False)
    path = tmp_path / "fair.model"
    groups = table["age"].to_numpy()
    fair = fs.FairPCA(2).fit(table[:half][features], sensitive_features=groups[:half])
    fair.subspace_.save(path)
    arguments = ("audit", parts["train"], "--group", "age", "--test", parts["rest"], "--json")
    facts = run(*arguments, "--model", path).facts
    assert facts["rows"]["n_rows"] == len(table) - half
    assert [model_record["name"] for model_record in facts["models"]] == ["fair.model", "PCA"]
    reference = fs.audit({"fair.model": fair}, table[half:][features], groups[half:])
    for model_facts, expected_model in zip(facts["models"], reference.models, strict=True):
        assert not model_facts["in_sample"]
        for group, expected in zip(model_facts["groups"], expected_model.groups, strict=True):
            assert group["observed_error"] == pytest.approx(expected.observed_error.value)
            assert group["expected_loss_low"] == pytest.approx(expected.expected_loss.low)
    run(*arguments, "--by-dimension", status=2, err=["--by-dimension", "--test"])


@pytest.mark.slow
def test_held_out_rows_evaluate_ordinary_pca_as_with_a_model(run, table, model, tmp_path):
    parts = {name: tmp_path / f"{name}.csv" for name in ("train", "rest")}
    for path, rows in zip(parts.values(), (table[:120], table[120:]), strict=True):
        rows.drop(columns="sex").to_csv(path, index=False)
    arguments = ("audit", parts["train"], "--group", "age", "--test", parts["rest"], "--json")
    models = run(*arguments, "--model", model).facts["models"]
    assert run(*arguments, "-d", 2).facts["models"] == models[1:]


def test_several_files_of_moments_are_audited_together(run, table, features, tmp_path):
    X = table[features].to_numpy()
    groups = table["age"].to_numpy()
    parts = np.array_split(np.random.default_rng(0).permutation(len(X)), 6)
    blocks = [fs.GroupMoments.from_rows(X[i], groups[i]) for i in parts]
    paths = [tmp_path / f"site-{number}.moments" for number in range(6)]
    for path, block in zip(paths, blocks, strict=True):
        block.save(path)
    facts = run("audit", *paths, "-d", 2, "--json").facts
    plain = fs.FairPCA(2, criterion="total_error").fit_moments(sum(blocks[1:], blocks[0]))
    reference = fs.audit({"PCA": plain}, moments=blocks)
    assert facts["verdict"]["kind"] == reference.verdict.kind
    for group, expected in zip(
        facts["models"][0]["groups"], reference.models[0].groups, strict=True
    ):
        assert group["expected_loss_low"] == pytest.approx(expected.expected_loss.low)
    table.to_csv(tmp_path / "rows.csv")
    arguments = ("audit", paths[0], tmp_path / "rows.csv", "-d", 2)
    run(*arguments, status=2, err=["rows.csv is not", "fairspan moments"])


def test_squared_units_are_printed_on_request(run, data):
    arguments = ("audit", data, "--group", "age", "-d", 2)
    group = run(*arguments, "--json").facts["models"][0]["groups"][0]
    lines = run(*arguments, "--unit", "squared").out.splitlines()
    (row,) = (line for line in lines if line.split()[:1] == [group["group"]])
    assert float(row.split()[2]) == pytest.approx(group["expected_error"], rel=0.005)


def test_formats_are_those_of_the_library(run, data, table, tmp_path):
    command = ("audit", data, "--group", "age", "-d", 2)
    text = run(*command, status=0).out
    as_json = run(*command, "--json", status=0).out
    assert run(*command, "--format", "text").out == text
    assert run(*command, "--format", "json").out == as_json
    markdown = run(*command, "--format", "markdown", status=0, err=None).out
    pca = fs.FairPCA(2, criterion="total_error")
    pca.fit(table.drop(columns="sex"), sensitive_features="age")
    result = fs.audit({"PCA": pca}, table.drop(columns="sex"), "age")
    origin = markdown.rpartition("### Provenance")[::2]
    facts = json.loads(as_json)
    tables = re.findall(r"^[|].*$", result.to_markdown(), re.M)
    assert re.findall(r"^[|].*$", origin[0], re.M) == tables
    assert facts["verdict"]["kind"].capitalize() in markdown
    assert "- Data: `data.csv`" in markdown
    assert "- Command: `fairspan audit data.csv --group age -d 2 --format markdown`" in markdown
    digest = hashlib.sha256(data.read_bytes()).hexdigest()
    assert f"- SHA-256: `{digest}`" in markdown


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--json", "--format", "markdown"], "--json cannot be combined with --format markdown"),
        (["--by-dimension", "--format", "markdown"], "cannot be combined with --format markdown"),
    ],
)
def test_formats_that_exclude_each_other_are_refused(run, data, options, message):
    run(
        "audit",
        data,
        "--group",
        "age",
        *options,
        status=2,
        out=None if "--json" not in options else "error",
        err=message,
    )


def test_an_error_is_printed_as_json_in_that_format(run, data):
    outcome = run("audit", data, "--group", "nobody", "--format", "json", status=2)
    assert "nobody" in json.loads(outcome.out)["error"]["message"]
