"""Commands on rows with missing cells, with `--on-missing em`."""

import numpy as np
import pandas as pd
import pytest

import fairspan as fs

EM = ("--on-missing", "em")


@pytest.fixture
def holes(tmp_path):
    """A file of rows in which a fifth of the cells of one group is missing."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((300, 4)) @ rng.standard_normal((4, 4)))
    frame = frame.set_axis(list("wxyz"), axis=1).assign(group=np.arange(300) % 2)
    missing = (rng.random((300, 3)) < 0.2) & (frame[["group"]].to_numpy() == 1)
    frame[list("xyz")] = frame[list("xyz")].mask(missing)
    path = tmp_path / "holes.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.mark.slow
def test_a_fit_is_that_of_python_and_can_be_verified_and_used(run, holes, tmp_path):
    model = tmp_path / "fair.model"
    out = tmp_path / "reduced.csv"
    arguments = ("--group", "group", "-d", 2, *EM, "--folds", "none")
    facts = run("fit", holes, *arguments, "-o", model, "--json").facts
    frame = pd.read_csv(holes)
    fair = fs.FairPCA(2, on_missing="em").fit(frame, sensitive_features="group")
    subspace = fs.FairSubspace.load(model)
    np.testing.assert_allclose(subspace.components, fair.components_, atol=1e-7)
    assert "FS411" in {finding["code"] for finding in facts["findings"]}
    assert run("verify", model, holes, "--group", "group", *EM, "--json").facts["holds"]
    run("transform", model, holes, *EM, "-o", out)
    np.testing.assert_allclose(pd.read_csv(out), subspace.transform(frame[list("wxyz")]), atol=1e-9)


@pytest.mark.slow
def test_a_model_says_how_its_rows_are_read(run, holes, tmp_path):
    model = tmp_path / "fair.model"
    out = tmp_path / "reduced.csv"
    arguments = ("--group", "group", "-d", 2, *EM, "--folds", "none")
    run("fit", holes, *arguments, "-o", model)
    run("transform", model, holes, *EM, "-o", out)
    command = ("audit", holes, "--group", "group", "--model", model, "--folds", "none", "--json")
    assert run(*command).facts == run(*command, *EM).facts
    assert run("verify", model, holes, "--group", "group", "--json").facts["holds"]
    run("transform", model, holes, "-o", tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_bytes() == out.read_bytes()


def test_moments_of_incomplete_rows_are_saved_but_not_merged(run, holes, tmp_path):
    moments = tmp_path / "some.moments"
    run("moments", holes, "--group", "group", *EM, "-o", moments)
    assert fs.GroupMoments.load(moments).em_summary.n_missing_cells[1] > 0
    error = run("merge", moments, moments, "-o", tmp_path / "both.moments", status=2).err
    assert "incomplete rows by EM" in error


@pytest.mark.slow
def test_pages_say_that_moments_were_estimated_from_incomplete_rows(run, holes, tmp_path):
    page = tmp_path / "page.html"
    arguments = ("--group", "group", "-d", 2, "--compare", "minimax_loss")
    run("report", holes, *arguments, *EM, "-o", page, status=0, err=None)
    assert "estimated from incomplete rows" in page.read_text(encoding="utf-8")


def test_unsupported_requests_are_refused(run, holes, tmp_path):
    folder = tmp_path / "rows"
    model = tmp_path / "plain.model"
    folder.mkdir()
    holes.rename(folder / "holes.csv")
    command = ("moments", folder, "--group", "group", "-o", tmp_path / "parts")
    assert "requires all rows together" in " ".join(run(*command, *EM, status=2).err.split())
    source = folder / "holes.csv"
    run("fit", source, "--group", "group", "-d", 2, "--on-missing", "drop", "-o", model)
    command = ("transform", model, source, *EM, "-o", tmp_path / "out.csv")
    assert "fitted on complete rows" in " ".join(run(*command, status=2).err.split())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:2 rows were dropped")
def test_rows_without_observed_cells_are_dropped_by_every_command(run, holes, tmp_path):
    frame = pd.read_csv(holes)
    frame.loc[[6, 9], list("wxyz")] = np.nan
    all_rows = tmp_path / "some.csv"
    remaining_rows = tmp_path / "rest.csv"
    frame.to_csv(all_rows, index=False)
    frame.drop(index=[6, 9]).to_csv(remaining_rows, index=False)
    model = tmp_path / "fair.model"
    out = tmp_path / "reduced.csv"
    arguments = ("--group", "group", "-d", 2, "--folds", "none", "-o", model)
    message = " ".join(run("fit", all_rows, *arguments, *EM, status=2).err.split())
    assert "Drop such rows (--on-missing em-drop-empty)" in message
    leave_out = ("--on-missing", "em-drop-empty")
    facts = run("fit", all_rows, *arguments, *leave_out, "--json", err=None).facts
    of_remaining_rows = run("fit", remaining_rows, *arguments, *EM, "--force", "--json").facts
    objectives = [
        command_facts["certificate"]["objective"] for command_facts in (facts, of_remaining_rows)
    ]
    assert objectives[0] == pytest.approx(objectives[1], rel=1e-9)
    verification = run(
        "verify", model, all_rows, "--group", "group", *leave_out, "--json", err=None
    )
    assert verification.facts["holds"]
    run("transform", model, all_rows, *leave_out, "-o", out)
    assert len(pd.read_csv(out)) == len(frame) - 2
