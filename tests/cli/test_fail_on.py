"""--fail-on: exit status 3 if a condition applies, with the results of every audit."""

import numpy as np
import pandas as pd
import pytest

import fairspan as fs
from known_verdicts import repairable_minority, same_distribution


def write_table(path, rows):
    X, groups = rows
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])
    frame.assign(g=groups).to_csv(path, index=False)
    return path


@pytest.fixture
def harmed_table(tmp_path):
    return write_table(tmp_path / "harmed.csv", repairable_minority())


@pytest.fixture
def unharmed_table(tmp_path):
    return write_table(tmp_path / "unharmed.csv", same_distribution())


def save_model(path, rows):
    X, groups = rows
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])
    fair = fs.FairPCA(2, criterion=fs.MinimaxLoss(relative=True))
    fair.fit(frame, sensitive_features=groups).subspace_.save(path)
    return path


@pytest.mark.parametrize("json", [[], ["--json"]])
def test_harm_by_pca_ends_with_status_3_and_the_usual_results(run, harmed_table, json):
    command = ("audit", harmed_table, "--group", "g", "-d", 2, *json)
    usual = run(*command, status=0)
    failed = run(*command, "--fail-on", "harm", status=3, err="check failed: harm: On new data")
    assert "'few'" in failed.err
    assert failed.out == usual.out


def test_without_harm_the_status_is_0(run, unharmed_table):
    command = ("audit", unharmed_table, "--group", "g", "-d", 2)
    run(*command, "--fail-on", "harm,inconclusive", "--fail-on", "FS101", status=0, err=None)


def test_fail_on_with_repair_checks_pca(run, harmed_table):
    command = ("audit", harmed_table, "--group", "g", "-d", 2, "--repair", "--fail-on", "harm")
    run(*command, status=3, out="Harm, repair helps", err="PCA with 2 components loses")


def test_a_saved_model_that_repairs_the_harm_passes(run, harmed_table, tmp_path):
    model = save_model(tmp_path / "fair.model", repairable_minority())
    command = ("audit", harmed_table, "--group", "g", "--model", model, "--fail-on", "harm")
    run(*command, status=0, out="repair helps", err=None)


@pytest.mark.parametrize(("factor", "status"), [(1.0, 0), (1.5, 3)])
def test_drift_of_a_saved_model_ends_with_status_3(run, tmp_path, factor, status):
    model = save_model(tmp_path / "fair.model", same_distribution())
    X, groups = same_distribution(seed=1)
    drifted_rows = X * np.where(groups == "men", factor, 1.0)[:, None]
    data = write_table(tmp_path / "new.csv", (drifted_rows, groups))
    command = ("audit", data, "--group", "g", "--model", model, "--fail-on", "drift")
    outcome = run(*command, status=status, err=None if status == 0 else "check failed: drift: ")
    assert ("FS210" in outcome.out) == (status == 3)


@pytest.mark.slow
def test_a_report_is_complete_and_ends_with_status_3(run, harmed_table, tmp_path):
    page = tmp_path / "page.html"
    command = ("report", harmed_table, "--group", "g", "-d", 2, "--compare", "minimax_loss")
    run(*command, "-o", page, "--fail-on", "harm", status=3, out="Written to", err="check failed")
    assert page.read_text(encoding="utf-8").rstrip().endswith("</html>")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--fail-on", "harms"], "--fail-on names the unknown condition 'harms'"),
        (["--fail-on", ","], "--fail-on names no condition"),
        (["--fail-on", "harm", "--folds", "none"], "cannot be combined with --folds none"),
        (["--fail-on", "drift"], "requires a saved model, --model, or held-out rows, --test"),
        (["--fail-on", "harm", "--by-dimension"], "cannot be combined with --fail-on"),
    ],
)
def test_conditions_that_are_unknown_or_can_never_apply_are_refused(
    assert_refused, options, message
):
    assert_refused("audit", "{data}", "--group", "age", *options, expected_text=message)


def test_drift_on_the_rows_of_the_fit_is_an_error_without_results(run, harmed_table, tmp_path):
    model = save_model(tmp_path / "fair.model", repairable_minority())
    command = ("audit", harmed_table, "--group", "g", "--model", model, "--fail-on", "drift")
    run(*command, status=2, out=None, err="no model with a certificate was fitted to other rows")
