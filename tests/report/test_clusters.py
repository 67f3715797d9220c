"""A report of rows that belong together, made in Python and on the command line."""

import json

import numpy as np
import pandas as pd
import pytest

import fairspan as fs
from fairspan import cli

NAMES = list("uvwx")


def persons(seed=0):
    rng = np.random.default_rng(seed)
    person = np.repeat(np.arange(30), 8)
    rows = 0.5 * rng.normal(size=(240, 4)) + rng.normal(size=(30, 4))[person] * [3, 2, 1, 1]
    frame = pd.DataFrame(rows, columns=NAMES)
    return frame.assign(g=np.array(["a", "b"])[person % 2], who=person)


@pytest.fixture(scope="module")
def frame():
    return persons()


SETTINGS = {"n_components": 2, "compare": [], "folds": 5}
# As the command is called.
COMPARISON_SETTINGS = {"n_components": 2, "compare": ["error_gap"]}


@pytest.mark.slow
def test_intervals_of_a_report_are_those_of_an_audit_with_clusters(frame, tmp_path, no_figures):
    page = tmp_path / "page.html"
    facts = fs.write_report(page, frame, "g", clusters="who", **SETTINGS)
    facts_of_separate_clusters = fs.write_report(
        page, frame[[*NAMES, "g"]], "g", clusters=frame.who, **SETTINGS
    )
    assert facts["models"] == facts_of_separate_clusters["models"]
    assert facts["rows"]["has_clusters"]
    assert facts["rows"]["n_features"] == 4
    assert "counted as one observation" in page.read_text()
    pca = fs.FairPCA(2, criterion="total_error").fit(frame[NAMES], sensitive_features=frame.g)
    (audit_record,) = fs.audit(pca, frame, "g", clusters="who", folds=5).to_dict()["models"]
    plain = fs.write_report(page, frame[[*NAMES, "g"]], "g", **SETTINGS)
    for with_them, without, reference in zip(
        facts["models"][0]["groups"],
        plain["models"][0]["groups"],
        audit_record["groups"],
        strict=True,
    ):
        ends = [with_them[f"observed_error_{end}"] for end in ("low", "high")]
        assert ends == pytest.approx(
            [reference[f"observed_error_{end}"] for end in ("low", "high")]
        )
        # Eight rows of a person are hardly more than one.
        assert ends[1] - ends[0] > 1.5 * (
            without["observed_error_high"] - without["observed_error_low"]
        )


@pytest.mark.slow
def test_the_command_writes_the_same_report_and_evaluates_held_out_rows(
    frame, tmp_path, capsys, no_figures
):
    paths = tmp_path / "t.csv", tmp_path / "more.csv", tmp_path / "m"
    frame.to_csv(paths[0], index=False)
    persons(1).to_csv(paths[1], index=False)
    words = ["report", str(paths[0]), "--group", "g", "-d", "2", "--compare", "error_gap"]
    words += ["--clusters", "who"]
    assert cli.run([*words, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    expected = fs.write_report(
        tmp_path / "page.html", paths[0], "g", clusters="who", **COMPARISON_SETTINGS
    )
    assert facts["models"] == json.loads(json.dumps(expected["models"]))
    model = fs.FairPCA(2).fit(frame[NAMES], sensitive_features=frame.g)
    model.subspace_.save(paths[2])
    assert cli.run([*words, "--model", str(paths[2]), "--test", str(paths[1]), "--json"]) == 0
    user_facts = json.loads(capsys.readouterr().out)["user_models"]
    other_rows = persons(1)
    reference = fs.audit(model.subspace_, other_rows, "g", clusters="who").models[0]
    assert [
        group["observed_error_high"] for group in user_facts["models"][0]["groups"]
    ] == pytest.approx([group.observed_error.high for group in reference.groups])
    assert cli.run([*words, "--folds", "none", "--json"]) == 2


def test_held_out_rows_need_clusters_of_their_own(frame, tmp_path):
    model = fs.FairPCA(2).fit(frame[NAMES], sensitive_features=frame.g)
    options = {**SETTINGS, "models": model, "clusters": frame.who, "test": (frame[NAMES], frame.g)}
    with pytest.raises(fs.errors.InvalidType, match="groups_test, clusters_test"):
        fs.write_report(tmp_path / "page.html", frame[NAMES], frame.g, **options)


@pytest.mark.slow
def test_held_out_rows_with_clusters_are_audited_with_them(frame, tmp_path, no_figures):
    model = fs.FairPCA(2).fit(frame[NAMES], sensitive_features=frame.g)
    options = {**SETTINGS, "models": model, "clusters": frame.who}
    options["test"] = (frame[NAMES], frame.g, frame.who)
    facts = fs.write_report(tmp_path / "page.html", frame[NAMES], frame.g, **options)
    assert facts["user_models"]["rows"]["has_clusters"]
