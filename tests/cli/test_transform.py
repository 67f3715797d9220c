"""`fairspan transform` and `fairspan verify`: what a saved model does to rows and moments."""

import io
import json
import os
import re
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import fairspan as fs
from case_selection import parametrize_diagonal
from certificate_claims import replace_claims
from cli.conftest import TRANSFORM
from fairspan import FairSubspace
from fairspan.model.serialization import UnresolvedObject

GROUP = ("--group", "age")
# No figures for new rows are estimated.
QUICK = ("--folds", "none")


@pytest.fixture
def python_model(table, features):
    return fs.FairPCA(2).fit(table[features], sensitive_features=table["age"])


def assert_written(frame, model, X):
    """The columns are the coordinates of these rows."""
    np.testing.assert_allclose(frame, model.transform(X), rtol=0, atol=1e-9)


READERS = {
    "out.csv": pd.read_csv,
    "out.parquet": pd.read_parquet,
    "out.pq": pd.read_parquet,
    "out.arrow": pd.read_feather,
    "out.feather": pd.read_feather,
    "OUT.CSV": pd.read_csv,
}


@pytest.mark.parametrize("name", READERS)
def test_the_output_is_what_python_computes(
    run, model, data, table, features, python_model, tmp_path, name
):
    result = run("transform", model, data, "-o", tmp_path / name, status=0, err=None)
    assert result.out == f"Wrote 240 rows with 2 components to {tmp_path / name}\n"
    output = READERS[name](tmp_path / name)
    assert list(output.columns) == ["fairpca0", "fairpca1"]
    assert_written(output, python_model, table[features])


def test_a_dash_writes_csv_to_standard_output(run, model, data, table, features, python_model):
    result = run("transform", model, data, "-o", "-", status=0, err=None)
    assert_written(pd.read_csv(io.StringIO(result.out)), python_model, table[features])


def test_columns_are_matched_by_name_and_no_group_is_needed(
    run, model, table, features, python_model, tmp_path
):
    other = table[features[::-1]].assign(id=range(240), note="text", empty=np.nan)
    other.insert(2, "when", pd.Timestamp("2020-01-01"))
    other.to_parquet(tmp_path / "other.parquet")
    run("transform", model, tmp_path / "other.parquet", "-o", tmp_path / "out.csv")
    assert_written(pd.read_csv(tmp_path / "out.csv"), python_model, table[features])
    table[["age", *reversed(features)]].assign(more=1.0).to_parquet(tmp_path / "other.parquet")
    run("verify", model, tmp_path / "other.parquet", *GROUP, status=0, err=None)


def test_column_names_that_look_like_patterns(run, table, features, tmp_path):
    odd = table[features].set_axis(["a[1]", "b*", "c?", "[d]", "e.f"], axis=1)
    odd.assign(age=table["age"]).to_csv(tmp_path / "odd.csv", index=False)
    run("fit", tmp_path / "odd.csv", *GROUP, "-d", 2, *QUICK, "-o", tmp_path / "m")
    result = run("transform", tmp_path / "m", tmp_path / "odd.csv", "-o", "-", status=0)
    assert len(result.out.splitlines()) == 241


def test_a_folder_of_many_rows_keeps_their_number_and_order(run, model, features, tmp_path):
    rng = np.random.default_rng(1)
    frames = [pd.DataFrame(rng.normal(size=(n, 5)), columns=features) for n in (90_000, 1, 700)]
    (tmp_path / "parts").mkdir()
    for number, frame in enumerate(frames):
        frame.to_parquet(tmp_path / "parts" / f"{number}.parquet", row_group_size=20_000)
    out = tmp_path / "out.arrow"
    assert run("transform", model, tmp_path / "parts", "-o", out, "--json").facts == {
        "version": 2,
        "output": str(out),
        "n_rows": 90_701,
        "n_dropped": 0,
        "n_components": 2,
        "columns": ["fairpca0", "fairpca1"],
    }
    X = pd.concat(frames).to_numpy()
    assert_written(pd.read_feather(out), fs.FairSubspace.load(model), X)


def test_an_earlier_output_is_replaced(run, model, data, tmp_path):
    (tmp_path / "out.csv").write_text("old\n")
    remnant = tmp_path / f".out.csv.{'0' * 16}.tmp"
    remnant.write_text("left by a crash")
    os.utime(remnant, (0, 0))
    assert run("transform", model, data, "-o", tmp_path / "out.csv").status == 0
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 241
    assert not remnant.exists()


def test_an_interruption_leaves_no_output(run, model, data, tmp_path, monkeypatch):
    def raise_interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(fs.FairSubspace, "transform", raise_interrupt)
    original_files = sorted(tmp_path.iterdir())
    run(
        "transform",
        model,
        data,
        "-o",
        tmp_path / "out.csv",
        status=130,
        out=None,
        err="interrupted",
    )
    assert sorted(tmp_path.iterdir()) == original_files


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
def test_a_reader_that_stops_early_is_no_error_message(installed, model, features, tmp_path):
    rows = pd.DataFrame(np.ones((20_000, 5)), columns=features)
    rows.to_parquet(tmp_path / "many.parquet")
    code = (
        "import subprocess, sys; from pathlib import Path\n"
        "command = Path(sys.executable).with_name('fairspan')\n"
        "arguments = [command, 'transform', 'fair.model', 'many.parquet', '-o', '-']\n"
        "writer = subprocess.Popen(arguments, stdout=subprocess.PIPE)\n"
        "print(writer.stdout.readline().decode().strip()); writer.stdout.close()\n"
        "sys.exit(writer.wait())"
    )
    result = installed(code=code)
    assert (result.status, result.out, result.err) == (0, '"fairpca0","fairpca1"\n', "")


@pytest.mark.slow
def test_a_query_computes_indicators_from_text(run, tmp_path):
    import duckdb

    jobs = np.array(["clerk", "nurse", "it's", "clerk"] * 10)
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"sex": ["f", "m"] * 20, "job": jobs, "age": rng.normal(40, 9, 40)})
    table.to_csv(tmp_path / "t.csv", index=False)
    table.to_parquet(tmp_path / "t.parquet")
    model = tmp_path / "m.model"
    run("fit", tmp_path / "t.csv", "--group", "sex", "--one-hot", "-d", "2", *QUICK, "-o", model)
    run("transform", model, tmp_path / "t.parquet", "-o", tmp_path / "z.parquet")
    query = run("transform", model, "--as", "sql", "--one-hot", status=0, err=None)
    unseen = pd.DataFrame({"job": ["pilot", None], "age": [40.0, 40.0]})
    database = duckdb.connect()
    database.register("data", pd.concat([table, unseen]))
    components = database.sql(query.out).df().to_numpy()
    np.testing.assert_allclose(components[:40], pd.read_parquet(tmp_path / "z.parquet"), atol=1e-9)
    python_model = FairSubspace.load(model).transform(table)  # a frame with the text itself
    np.testing.assert_allclose(python_model, components[:40], atol=1e-9)
    unseen.iloc[:1].to_csv(tmp_path / "new.csv", index=False)
    run("transform", model, tmp_path / "new.csv", "--unseen", "ignore", "-o", tmp_path / "n.csv")
    np.testing.assert_allclose(components[40:41], pd.read_csv(tmp_path / "n.csv"), atol=1e-9)
    assert np.isnan(components[41]).all()


@parametrize_diagonal(out=["out.csv", "out.parquet", "out.arrow"], ending=["csv", "parquet"])
def test_a_bad_last_row_in_transform_takes_the_output_back(
    assert_refused, features, tmp_path, ending, out
):
    # Several batches of CSV, which has a megabyte in each, or several blocks of Parquet.
    n = 20_000 if ending == "csv" else 70_000
    path = tmp_path / f"late.{ending}"
    if ending == "csv":
        path.write_text(
            ",".join(features)
            + "\n"
            + n * f"{'1.250000000,' * 5}\n".replace(",\n", "\n")
            + "1,2,1,,1\n"
        )
    else:
        frame = pd.DataFrame(np.full((n + 1, 5), 1.25), columns=features)
        frame.loc[n, "height"] = np.nan
        frame.to_parquet(path)
    row = "line 20002" if ending == "csv" else "row 70001 (index 70000)"
    assert_refused(
        *TRANSFORM, data=path, out=out, expected_text=f"NaN, first in {row}, column 'height'"
    )


@pytest.mark.parametrize("as_json", [False, True])
def test_a_certificate_that_holds(run, model, data, as_json):
    result = run("verify", model, data, *GROUP, *["--json"] * as_json, status=0, err=None)
    certificate = FairSubspace.load(model).certificate
    if not as_json:
        first, second, *_ = result.out.splitlines()
        assert first == "The certificate holds."
        assert re.search("minimax_loss is .*lower bound", second)
        return
    facts = result.facts
    assert facts.pop("gap") <= certificate.tol * certificate.objective
    assert facts == {
        "version": 2,
        "model": str(model),
        "holds": True,
        "objective": pytest.approx(certificate.objective),
        "lower_bound": pytest.approx(certificate.lower_bound),
        "messages": facts["messages"],
    }


@pytest.mark.parametrize(
    "options",
    [
        (),
        pytest.param(("--standardize",), marks=pytest.mark.slow),
        ("--center", "group"),
        pytest.param(("--criterion", "robust_error_gap"), marks=pytest.mark.slow),
    ],
)
def test_moments_verify_a_model_in_place_of_rows(run, data, tmp_path, options):
    model = tmp_path / "a.model"
    moments = tmp_path / "a.moments"
    run("fit", data, *GROUP, "-d", 2, *QUICK, *options, "-o", model)
    run("moments", data, *GROUP, "-o", moments)
    run("verify", model, moments, status=0)
    run("verify", model, data, *GROUP, status=0)
    run("merge", moments, moments, "-o", tmp_path / "twice.moments")
    run("verify", model, tmp_path / "twice.moments", status=1, out="counts =")


@pytest.mark.parametrize("as_json", [False, True])
def test_other_rows_do_not_hold(run, model, table, features, tmp_path, as_json):
    other = tmp_path / "other.csv"
    (table[features] * 2).assign(age=table["age"]).to_csv(other, index=False)
    result = run("verify", model, other, *GROUP, *["--json"] * as_json, status=1, err=None)
    if as_json:
        assert json.loads(result.out)["holds"] is False
    else:
        assert result.out.startswith("The certificate does not hold.\n- mean = [")


@pytest.mark.parametrize(
    ("figures", "expected_text"),
    [
        ({"objective": 0.0}, "objective ="),
        ({"lower_bound": 1e9}, "but the model says 1e+09"),
        ({"groups": ("old", "very young")}, "fitted on the groups"),
        ({"criterion": UnresolvedObject("criterion", "equal_luck", {})}, "cannot be posed"),
    ],
)
def test_a_model_that_was_changed_does_not_hold(run, model, data, figures, expected_text):
    subspace = FairSubspace.load(model)
    replace(subspace, certificate=replace_claims(subspace.certificate, **figures)).save(model)
    run("verify", model, data, *GROUP, status=1, err=None, out=expected_text)


def test_figures_that_do_not_exist_are_null(run, model, data):
    replace(FairSubspace.load(model), certificate=None).save(model)
    result = run("verify", model, data, *GROUP, "--json", status=1)
    facts = json.loads(result.out, parse_constant=pytest.fail)
    assert (facts["objective"], facts["lower_bound"]) == (None, None)


def test_an_internal_failure_is_neither(run, model, data, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(FairSubspace, "load", fail)
    run("verify", model, data, *GROUP, status=3, out=None, err="a fault of ours")
