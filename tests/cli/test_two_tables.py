"""`fairspan fit --targets`: partial least squares and canonical correlation of two tables."""

import numpy as np
import pandas as pd
import pytest

from cross_decomposition.paired_tables import draw_tables
from fairspan.cross_decomposition import FairCCA, FairPLS, PairedSubspace

NAMES = ["u", "v", "w", "x", "y"]
TARGETS = ["t_a", "t_b", "t_c", "t_d"]


@pytest.fixture(scope="module")
def rows():
    X, Y, groups = draw_tables(n=240)
    return pd.DataFrame(np.hstack([X, Y]), columns=NAMES + TARGETS).assign(g=groups)


@pytest.fixture
def csv(rows, tmp_path):
    path = tmp_path / "rows.csv"
    rows.to_csv(path, index=False)
    return path


def test_the_model_is_that_of_python(run, csv, rows, tmp_path):
    path = tmp_path / "pair.model"
    command = ("fit", csv, "--group", "g", "--targets", "t_*", "-d", "1", "-o", path)
    result = run(*command, "--json", status=0).facts
    model = PairedSubspace.load(path)
    expected = FairPLS(1, scale=False).fit(rows, TARGETS, sensitive_features="g")
    np.testing.assert_allclose(model.x.rotations, expected.x_weights_, atol=1e-7)
    assert (result["x"], result["y"]) == (NAMES, TARGETS)
    assert result["certificate"]["status"] == "optimal"
    assert [loss["model"] for loss in result["losses"]] == ["PLS"] * 2 + ["PLS, minimax loss"] * 2
    output = run(*command, status=0).out
    assert "Covariance lost by each group" in output
    assert f"Saved to {path}" in output
    assert max(map(len, output.splitlines()[:-1])) <= 80


def test_canonical_correlation_with_relative_losses_and_parity_agrees_with_python(
    run, csv, rows, tmp_path
):
    path = tmp_path / "pair.model"
    run(
        *("fit", csv, "--group", "g", "--targets", "t_*", "-d", "2", "-o", path),
        *("--method", "cca", "--regularization", "0.1", "--standardize", "--param", "relative=yes"),
        *("--restriction", "mean_parity", "--folds", "none"),
        status=0,
    )
    expected = FairCCA(
        2, criterion="minimax_relative_loss", regularization=0.1, restriction="mean_parity"
    ).fit(rows, TARGETS, sensitive_features="g")
    subspace = PairedSubspace.load(path)
    np.testing.assert_allclose(subspace.y.rotations, expected.y_weights_, atol=1e-6)
    assert subspace.certificate.statement.restriction == expected.solution_.statement.restriction


def test_models_are_verified_and_transform(run, csv, rows, tmp_path):
    path = tmp_path / "pair.model"
    out = tmp_path / "scores.csv"
    fit = ("--group", "g", "--targets", "t_*", "-d", "1", "--folds", "none")
    run("fit", csv, *fit, "-o", path, status=0)
    assert run("verify", path, csv, "--group", "g", "--json", status=0).facts["holds"]
    run("transform", path, csv, "-o", out, "--keep", "g", status=0)
    scores = pd.read_csv(out)
    assert scores.columns.tolist() == ["g", "fairpls0", "fairpls_y0"]
    x_scores, y_scores = PairedSubspace.load(path).transform(rows, rows)
    np.testing.assert_allclose(scores.iloc[:, 1:], np.hstack([x_scores, y_scores]), atol=1e-9)
    # Without the second table only its scores are missing.
    rows[NAMES].to_csv(tmp_path / "x.csv", index=False)
    run("transform", path, tmp_path / "x.csv", "-o", out, status=0)
    assert pd.read_csv(out).columns.tolist() == ["fairpls0"]
    rows.assign(u=rows.u + rows.v).to_csv(csv, index=False)
    assert "does not hold" in run("verify", path, csv, "--group", "g", status=1).out


def test_moments_are_fitted_without_estimates(run, csv, tmp_path):
    moments = tmp_path / "rows.moments"
    path = tmp_path / "pair.model"
    run("moments", csv, "--group", "g", "-o", moments, status=0)
    command = ("fit", moments, "--targets", "t_*", "-d", "1", "-o", path, "--json")
    losses = run(*command, status=0).facts["losses"]
    assert {loss["expected_loss"] for loss in losses} == {None}
    assert run("verify", path, moments, status=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--targets", "q*"), "--targets q* matches no column"),
        (("--targets", "*"), "--targets * matches every column"),
        (("--method", "cca"), "require --targets"),
        (("--targets", "t_*", "-d", "0.9"), "not a share"),
        (("--targets", "t_*", "--nested"), "--nested does not apply"),
        (("--targets", "t_*", "--criterion", "error_gap"), "minimax_loss, total_error"),
        (("--targets", "t_*", "--regularization", "0.1"), "requires --method cca"),
        (("--targets", "t_*", "-d", "4"), "from 1 to 3"),
        (("--targets", "t_*", "--param", "penalty=2"), "relative=yes"),
    ],
)
def test_options_of_one_table_are_refused(run, csv, tmp_path, options, message):
    path = tmp_path / "pair.model"
    result = run("fit", csv, "--group", "g", "-o", path, *options, status=2)
    assert message in " ".join(result.err.split())
    assert not path.exists()


def test_other_models_are_not_overwritten(run, csv, tmp_path):
    path = tmp_path / "a.model"
    run("fit", csv, "--group", "g", "-d", "1", "--folds", "none", "-o", path, status=0)
    command = ("fit", csv, "--group", "g", "--targets", "t_*", "--folds", "none", "-o", path)
    assert "--force" in run(*command, status=2).err
    run(*command, "--force", status=0)
