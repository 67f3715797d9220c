"""Labels of models that were fitted in Python, and those of files: equal as text, one group."""

import numpy as np
import pandas as pd
import pytest

from fairspan import FairPCA, GroupMoments

# The command line prints warnings.
pytestmark = pytest.mark.filterwarnings("default::fairspan.errors.FairspanWarning")

N = 90
PLACE = np.arange(N) % 3
TABLE = pd.DataFrame(np.random.default_rng(0).standard_normal((N, 3)), columns=list("abc"))
CODES = np.array([1, 2, 10])[PLACE]
NOTICE = ["text in these rows", "integers in the model"]


@pytest.fixture
def model_and_rows(tmp_path):
    """A model of the groups 1, 2 and 10, and a CSV file of its rows."""
    model = tmp_path / "codes.model"
    rows = tmp_path / "rows.csv"
    FairPCA(1).fit(TABLE, sensitive_features=CODES).subspace_.save(model)
    TABLE.assign(g=CODES).to_csv(rows, index=False)
    return model, rows


def test_a_certificate_of_numbered_groups_holds_with_a_csv_file(run, model_and_rows):
    outcome = run("verify", *model_and_rows, "--group", "g", status=0, err=NOTICE)
    assert "The certificate holds." in outcome.out
    assert outcome.err.count("warning:") == 1


def test_labels_that_cannot_be_compared_are_bad_input(run, model_and_rows):
    model, rows = model_and_rows
    TABLE.assign(g=np.array(["x", "y", "z"])[PLACE]).to_csv(rows, index=False)
    message = ["'x', 'y', 'z' (text)", "1, 2, 10 (integer)"]
    assert "hold" not in run("verify", model, rows, "--group", "g", status=2, err=message).out


def test_saved_moments_match_as_rows_do(run, model_and_rows, tmp_path):
    model, _ = model_and_rows
    moments = tmp_path / "rows.moments"
    GroupMoments.from_rows(TABLE, CODES.astype(str)).save(moments)
    run("verify", model, moments, out="The certificate holds.", err="'1' is 1")
    blocks = [tmp_path / "0.moments", tmp_path / "1.moments"]
    for i, path in enumerate(blocks):
        GroupMoments.from_rows(TABLE[i::2], CODES.astype(str)[i::2]).save(path)
    facts = run("audit", *blocks, "--model", model, "--json", err="'1' is 1").facts
    assert [group["group"] for group in facts["models"][0]["groups"]] == [1, 2, 10]


@pytest.mark.parametrize("command", ["audit", pytest.param("report", marks=pytest.mark.long)])
def test_audits_and_reports_match_labels(run, model_and_rows, command):
    model, rows = model_and_rows
    arguments = ("--group", "g", "--model", model, "--folds", "none", "--json")
    facts = run(command, rows, *arguments, err=NOTICE).facts
    assert [group["group"] for group in facts["models"][0]["groups"]] == [1, 2, 10]


def test_held_out_rows_of_another_format_match(run, model_and_rows, tmp_path):
    _, rows = model_and_rows
    test_path = tmp_path / "test.parquet"
    TABLE.assign(g=CODES).to_parquet(test_path)
    words = ("audit", rows, "--group", "g", "-d", 1, "--test", test_path, "--json")
    facts = run(*words, err=["integers in these rows", "text in the model"]).facts
    # Groups of models that were fitted on text are text, in its order.
    assert [group["group"] for group in facts["models"][0]["groups"]] == ["1", "10", "2"]
