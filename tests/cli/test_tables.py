"""Realistic tables: file formats, text columns, and missing numbers."""

import numpy as np
import pandas as pd
import pytest

import fairspan as fs
from cli.conftest import TRANSFORM
from fairspan import FileRows
from fairspan.errors import InvalidParameter

JOBS = ["clerk", "smith", "cook", "été"]


@pytest.fixture
def people():
    rng = np.random.default_rng(4)
    n = 90
    return pd.DataFrame(
        {
            "id": [f"{i:05d}" for i in range(n)],
            "age": rng.integers(18, 80, n),
            "height": rng.normal(170, 9, n).round(2),
            "job": rng.choice(JOBS, n),
            "sex": rng.choice(["f", "m"], n),
        }
    )


def pca_error(X, d):
    """Mean squared distance to the best plane, from the eigenvalues of the covariance."""
    return np.linalg.eigvalsh(np.cov(X.to_numpy(float).T, ddof=0))[:-d].sum()


def total_error(run, *words):
    return run("audit", *words, "--json", "--folds", "none").facts["models"][0][
        "observed_total_error"
    ]


@pytest.mark.parametrize("chunk", [7, 1 << 16])
def test_comments_are_passed_over_wherever_they_stand(run, people, tmp_path, monkeypatch, chunk):
    lines = people.to_csv(index=False).splitlines()
    lines[0:0] = ["# made today", "#"]
    lines[40:40] = ["#1,2,3,4,5"]
    path = tmp_path / "rows.csv"
    path.write_text("\r\n".join([*lines, "# the end"]), encoding="utf-8")
    rows = FileRows.open(path, ["sex"], ["age"], csv={"comment": "#"})
    assert sum(len(block.values) for block in rows.blocks()) == len(people)
    error = total_error(
        run, path, "--group", "sex", "-d", 1, "--numeric-only", "--exclude", "id", "--comment", "#"
    )
    assert error == pytest.approx(pca_error(people[["age", "height"]], 1), rel=1e-9)


def test_only_numeric_columns_are_used_and_the_others_are_named(run, people, tmp_path):
    people.to_csv(tmp_path / "rows.csv", index=False)
    words = ("audit", tmp_path / "rows.csv", "--group", "sex", "--numeric-only", "--json")
    result = run(*words, err="--numeric-only leaves out 'job'.")
    assert result.facts["rows"]["n_features"] == 3  # digits alone are a number, even an id


def encode_jobs(frame, jobs=None):
    """Numbers and indicators of these people, and the names of all; also of other jobs.

    As in scikit-learn, categories are sorted, and an unknown one has no indicator.
    """
    categories = sorted(set(frame["job"]))
    encoded = 1.0 * np.equal.outer(list(frame["job"] if jobs is None else jobs), categories)
    names = [f"job={name}" for name in categories]
    return np.hstack([frame[["age", "height"]][: len(encoded)], encoded]), ["age", "height", *names]


@pytest.fixture
def fit_model(run, people, tmp_path):
    """Rows of people in a file of any kind, and a model of their numbers and indicators."""

    def fit(rows, ending="csv", *options):
        path = tmp_path / f"rows.{ending}"
        model = tmp_path / "m"
        getattr(rows.drop(columns="id"), f"to_{ending}")(path, index=False)
        arguments = ("--group", "sex", "--one-hot", "--folds", "none", *options)
        run("fit", path, *arguments, "-d", 2, "-o", model, status=0)
        return path, model, fs.FairSubspace.load(model)

    return fit


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_categories_become_indicators(run, people, fit_model, tmp_path, ending):
    _, model, subspace = fit_model(people, ending)
    X, names = encode_jobs(people)
    frame = pd.DataFrame(X, columns=names)
    expected = fs.FairPCA(2).fit(frame, sensitive_features=people["sex"])
    assert subspace.feature_names == tuple(names)
    np.testing.assert_allclose(subspace.components, expected.components_, atol=1e-9)
    # New rows bring the categories themselves, in other columns' order.
    new = people.iloc[:20, ::-1].drop(columns=["sex", "id"]).assign(note="text")
    getattr(new, f"to_{ending}")(tmp_path / f"new.{ending}", index=False)
    run("transform", model, tmp_path / f"new.{ending}", "-o", tmp_path / "out.csv")
    output = pd.read_csv(tmp_path / "out.csv")
    np.testing.assert_allclose(output, expected.subspace_.transform(X[:20]), atol=1e-9)


def test_a_category_that_the_model_does_not_know(run, assert_refused, people, fit_model, tmp_path):
    _, model, subspace = fit_model(people)
    new = tmp_path / "new.csv"
    out = tmp_path / "out.csv"
    unknown = people[["age", "height", "job"]][:5].assign(job=["pilot", *people["job"][1:5]])
    unknown.to_csv(new, index=False)
    message = ("'job'", "'pilot'", "'clerk'", "--unseen ignore")
    assert_refused(*TRANSFORM, model=model, data=new, expected_text=message)
    run("transform", model, new, "-o", out, "--unseen", "ignore")
    X, _ = encode_jobs(people, unknown["job"])
    np.testing.assert_allclose(pd.read_csv(out), subspace.transform(X), atol=1e-9)


@pytest.mark.slow
def test_one_hot_models_are_verified_and_audited_on_the_categories_themselves(
    run, assert_refused, people, fit_model, tmp_path
):
    rows, model, subspace = fit_model(people, "csv", "--standardize")
    new = tmp_path / "new.csv"
    for words in ([], ["--one-hot"]):  # as it was fitted, or not
        assert run("verify", model, rows, "--group", "sex", *words).status == 0
    people.drop(columns=["job", "id"]).to_csv(new, index=False)
    for words in (
        ("verify", model, new, "--group", "sex"),
        ("transform", model, new, "-o", "{out}"),
    ):
        assert "no column 'job'. Its columns" in assert_refused(*words)
    pilot = people.drop(columns="id").assign(job=["pilot", *people["job"][1:]])
    pilot.to_csv(new, index=False)
    arguments = ("audit", new, "--group", "sex", "--model", model, "--folds", "none")
    assert "--unseen ignore" in assert_refused(*arguments)
    X, _ = encode_jobs(people, pd.read_csv(new)["job"])
    away = (X - subspace.inverse_transform(subspace.transform(X))) / subspace.scale
    errors = (away**2).sum(axis=1)
    model_facts = run(*arguments, "--unseen", "ignore", "--json").facts["models"][0]
    assert model_facts["observed_total_error"] == pytest.approx(errors.mean(), rel=1e-9)
    page = ("report", rows, "--group", "sex", "--model", model, "--folds", "none", "--json")
    assert "'pilot'" in assert_refused(*page, "--test", new)
    for words in (["--features", "age"], ["--exclude", "age"], ["--numeric-only"], ["--one-hot"]):
        for command in (page, arguments):
            assert f"fixes the features; omit {words[0]}." in assert_refused(*command, *words)
    assert "--unseen requires saved models" in assert_refused(*arguments[:4], "--unseen", "ignore")


@pytest.mark.slow
def test_unknown_categories_of_held_out_rows_are_ignored_in_a_report(
    run, people, fit_model, tmp_path
):
    rows, model, _ = fit_model(people)
    new = tmp_path / "new.csv"
    people.drop(columns="id").assign(job=["pilot", *people["job"][1:]]).to_csv(new, index=False)
    page = ("report", rows, "--group", "sex", "--model", model, "--folds", "none", "--json")
    run(*page, "--compare", "minimax_loss", "--test", new, "--unseen", "ignore", status=0)


@pytest.mark.parametrize("command", ["audit", pytest.param("report", marks=pytest.mark.slow)])
def test_models_without_names_of_features_take_the_columns_that_are_chosen(
    run, people, tmp_path, command
):
    X = people[["age", "height"]]
    rows = tmp_path / "rows.csv"
    model = tmp_path / "m"
    people.to_csv(rows, index=False)
    fair = fs.FairPCA(1).fit(X.to_numpy(), sensitive_features=people["sex"])
    fair.subspace_.save(model)
    errors = ((X - fair.inverse_transform(fair.transform(X.to_numpy()))) ** 2).sum(axis=1)
    for words in (["--numeric-only", "--exclude", "id"], ["--features", "[ah]*e*"]):
        table_options = (rows, "--group", "sex", *words)
        assert run("verify", model, *table_options).status == 0
        arguments = (command, *table_options, "--model", model, "--folds", "none", "--json")
        comparison = ["--compare", "minimax_loss"] * (command == "report")
        facts = run(*arguments, *comparison).facts
        models = facts.get("user_models", facts)["models"]
        (total,) = (
            model_facts["observed_total_error"]
            for model_facts in models
            if model_facts["name"] == "m"
        )
        assert total == pytest.approx(errors.mean(), rel=1e-9)


KEEPING = {
    "one column": (["--keep", "id"], ["id"]),
    "several": (["--keep", "sex", "--keep", "id"], ["sex", "id"]),
    "a feature": (["--keep", "age"], ["age"]),
    "all": (["--keep-all"], ["id", "age", "height", "job", "sex"]),
}


@pytest.mark.parametrize("ending", ["csv", "parquet", "feather"])
@pytest.mark.parametrize(("options", "kept_columns"), KEEPING.values(), ids=KEEPING)
def test_columns_are_kept_next_to_the_components(
    run, people, tmp_path, ending, options, kept_columns
):
    frame = people.astype({"height": float})
    frame.loc[[3, 50], "height"] = np.nan
    frame.to_csv(tmp_path / "rows.csv", index=False)
    model = tmp_path / "m"
    expected = frame.drop(index=[3, 50])
    fair = fs.FairPCA(1).fit(expected[["age", "height"]], sensitive_features=expected["sex"])
    fair.subspace_.save(model)
    out = tmp_path / f"out.{ending}"
    run(
        "transform",
        model,
        tmp_path / "rows.csv",
        "-o",
        out,
        "--on-missing",
        "drop",
        *options,
        out="(dropped 2 rows with missing features)",
    )
    reader = {"csv": pd.read_csv, "parquet": pd.read_parquet, "feather": pd.read_feather}[ending]
    output = reader(out, dtype={"id": str}) if ending == "csv" else reader(out)
    assert list(output.columns) == [*kept_columns, "fairpca0"]
    for name in kept_columns:
        assert output[name].tolist() == expected[name].tolist()
    reduced = fs.FairSubspace.load(model).transform(expected[["age", "height"]])
    np.testing.assert_allclose(output[["fairpca0"]], reduced, atol=1e-9)


@pytest.mark.parametrize(
    "wrong",
    [
        {"delimiter": "ab"},
        {"delimiter": "é"},
        {"delimiter": "\ud800"},
        {"decimal": ";"},
        {"delimiter": ",", "decimal": ","},
        {"encoding": "klingon"},
        {"comment": ""},
        {"quote": "'"},
    ],
)
def test_formats_that_cannot_be(wrong, tmp_path):
    (tmp_path / "rows.csv").write_text("a,g\n1,x\n")
    with pytest.raises(InvalidParameter):
        FileRows.open(tmp_path / "rows.csv", ["g"], csv=wrong)


def test_a_file_that_is_not_in_the_encoding_named(assert_refused, people, tmp_path):
    people.to_csv(tmp_path / "rows.csv", index=False, encoding="latin-1")
    command = ("audit", "{data}", "--group", "sex", "--one-hot", "--exclude", "id")
    places = {"data": tmp_path / "rows.csv"}
    line = 2 + people["job"].eq("été").idxmax()
    assert_refused(
        *command,
        **places,
        expected_text=[
            "not encoded as utf-8",
            f"line {line} has the byte 0xe9",
            "--encoding latin-1",
        ],
    )
    assert "not encoded as utf-16" in assert_refused(*command, "--encoding", "utf-16", **places)
    assert "not encoded as ascii" in assert_refused(*command, "--encoding", "ascii", **places)


def test_a_column_of_text_that_is_empty_has_no_indicators(people, fit_model):
    empty = people.assign(note=pd.Series([None] * len(people), dtype="str"))
    *_, subspace = fit_model(empty, "parquet")
    assert subspace.feature_names == tuple(encode_jobs(people)[1])


def test_a_column_whose_indicators_are_missing_is_named_once(
    assert_refused, people, fit_model, tmp_path
):
    _, model, _ = fit_model(people)
    people.drop(columns=["job", "id"]).to_csv(tmp_path / "new.csv", index=False)
    message = assert_refused(
        *TRANSFORM, model=model, data=tmp_path / "new.csv", expected_text="no column 'job'"
    )
    assert "job=" not in message.partition(". ")[0]
