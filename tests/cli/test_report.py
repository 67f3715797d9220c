"""fairspan report and the demonstration: the page, its facts, its names, and what is refused."""

import hashlib
import importlib.util
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fairspan as fs
from cli.pca_reference import assert_agrees, reference_pca
from fairspan.datasets import load_adult_by_race
from report_cases import certificate_facts, generate_rows

# Of few features all criteria are solved soon.
FEW_FEATURES = ("--features", "pay_*", "--features", "height", "-d", 1)


def assert_close(one, other):
    if isinstance(one, dict):
        assert_close(sorted(one.items()), sorted(other.items()))
    elif isinstance(one, list | tuple):
        for item, other_item in zip(one, other, strict=True):
            assert_close(item, other_item)
    else:
        number = isinstance(one, float)
        assert one == (pytest.approx(other, rel=1e-6, abs=1e-9) if number else other)


@pytest.mark.long
def test_it_prints_the_messages_of_python(run, data, table, features, tmp_path):
    facts = run("report", data, "--group", "age", "-d", 2, "--standardize", "--json").facts
    page = tmp_path / "page.html"
    in_python = fs.write_report(
        page, table[features], table["age"], n_components=2, scale=True, name="data.csv"
    )
    # A table in memory and a file are read in other blocks, which moves rounding.
    assert_close(facts["models"], in_python["models"])
    assert_close(facts["slider"], in_python["slider"])
    assert facts["data"] == in_python["data"]
    certificate = certificate_facts(facts)
    fair = fs.FairPCA(2, scale=True).fit(table[features], sensitive_features=table["age"])
    assert certificate["objective"] == pytest.approx(fair.solution_.objective, rel=1e-9)


@pytest.mark.long
def test_the_page_is_the_same_whether_it_is_requested_facts_or_not(run, data, tmp_path):
    page = tmp_path / "report.html"
    command = ("report", data, "--group", "age", "-d", 2, "-o", page)
    result = run(*command, status=0)
    first = page.read_text(encoding="utf-8")
    assert first.startswith("<!DOCTYPE html>")
    assert (run(*command).out, page.read_text(encoding="utf-8")) == (result.out, first)
    # By their names: a page says nothing of the machine that made it.
    words = [word.name if isinstance(word, Path) else str(word) for word in command]
    command_line = shlex.join(["fairspan", *words])
    facts = run(*command, "--json").facts
    assert facts["provenance"]["command"] == f"{command_line} --json"
    assert facts["provenance"]["input_sha256"] == hashlib.sha256(data.read_bytes()).hexdigest()


@pytest.mark.slow
def test_the_summary_fits_80_columns_and_names_the_page(run, data, tmp_path):
    page = tmp_path / "a report.html"
    options = ("--compare", "nash_welfare")
    arguments = ("report", data, "--group", "age", "-d", 2, *options)
    lines = run(*arguments, "-o", page).out.splitlines()
    text = " ".join(" ".join(lines).split())
    verdict = run(*arguments, "--json").facts["verdict"]
    for sentence in (verdict["summary"], verdict["recommendation"]):
        assert " ".join(sentence.split()) in text
    assert "data.csv" in lines[0]
    assert lines[-1] == f"Written to {page}"
    assert max(map(len, lines[:-1])) <= 80
    message = "\n".join(lines)
    assert re.search("FS205 PCA: '(old|young)'", message)
    assert "FS302 minimax loss versus PCA" in message
    assert "Nash welfare versus" not in message


@pytest.mark.slow
def test_the_report_as_text_needs_no_page(run, data, tmp_path):
    arguments = ("report", data, "--group", "age", "-d", 2, "--compare", "nash_welfare")
    text = run(*arguments, "--format", "text", status=0).out
    verdict = run(*arguments, "--json").facts["verdict"]
    assert " ".join(verdict["summary"].split()) in " ".join(text.split())
    assert "Written" not in text
    page = tmp_path / "page.html"
    run(*arguments, "--format", "text", "-o", page, status=2, out=None, err="--format text")
    assert not page.exists()
    run(*arguments, status=2, out=None, err=["-o", "--format text", "--json"])


@pytest.mark.slow
def test_options_choose_rows_columns_and_the_criterion(run, table, tmp_path):
    path = tmp_path / "rows.parquet"
    table.assign(w=1.0 + (table.index % 3)).to_parquet(path)
    options = ("--group", "age", "--exclude", "sex", "--weight", "w", "--center", "group")
    cut = ("--group", "limit", "--bin", "limit=-5,12.5")
    criterion = ("--criterion", "disparity", "--param", "protected=old", "--param", "trade_off=0.8")
    comparison = ("--compare", "minimax_loss")
    facts = run("report", path, *options, *criterion, *comparison, "--json").facts
    assert facts["data"]["has_weights"]
    assert facts["rows"]["n_features"] == 5
    assert facts["settings"]["center"] == "group"
    assert facts["settings"]["parameters"] == {"trade_off": 0.8, "protected": "old"}
    assert certificate_facts(facts)["criterion"] == "disparity"
    assert facts["settings"]["dimension_choice"].startswith("smallest number")
    facts = run("report", path, *options[:4], *cut, *comparison, "--json").facts
    groups = [" ".join(group["group"]) for group in facts["models"][0]["groups"]]
    assert len(groups) > 2
    assert any("12.5" in group for group in groups)


def test_the_command_that_a_report_names_verifies_the_saved_model(run, data, model, tmp_path):
    moments = tmp_path / "people.moments"
    assert run("moments", data, "--group", "age", "-o", moments).status == 0
    of_rows = (data, "--group", "age")
    of_moments = (moments,)
    for source in (of_rows, of_moments):
        report_verification = run(
            "report", *source, "-d", 2, "--compare", "minimax_loss", "--json"
        ).facts
        report_verification = report_verification["verification"]
        assert report_verification["commands"][0] == "fairspan verify MODEL DATA"
        facts_of_verify = run("verify", model, *source, "--json", status=0).facts
        for name in ("objective", "lower_bound"):
            expected = pytest.approx(
                report_verification[name], abs=report_verification["absolute_tol"]
            )
            assert facts_of_verify[name] == expected


@pytest.mark.long
def test_facts_alone_need_neither_jinja2_nor_matplotlib(installed, data):
    code = (
        "import sys; sys.modules['jinja2'] = sys.modules['matplotlib'] = None\n"
        "from fairspan.cli import main; main(sys.argv[1:])"
    )
    arguments = ("report", "data.csv", "--group", "age", "-d", 2)
    facts = installed(*arguments, "--json", code=code).facts
    assert facts["provenance"]["command"] == "fairspan report data.csv --group age -d 2 --json"
    installed(
        *arguments,
        "-o",
        "page.html",
        code=code,
        status=2,
        out=None,
        err='pip install "fairspan[report]"',
    )


@pytest.mark.long
def test_names_of_groups_are_shown_without_what_a_terminal_obeys(run, table, features, tmp_path):
    path = tmp_path / "rows.parquet"
    page = tmp_path / "page.html"
    table[features].assign(age=np.where(table["age"] == "old", "a\x1b[31m", "b\n")).to_parquet(path)
    result = run("report", path, "--group", "age", *FEW_FEATURES, "-o", page, status=0)
    assert "\x1b" not in result.out
    assert "a?[31m" in result.out
    assert page.stat().st_size < 400_000


@pytest.mark.slow
def test_saved_models_are_evaluated_by_held_out_rows(run, data, model, table, tmp_path):
    half = len(table) // 2
    table[:half].to_csv(tmp_path / "half.csv", index=False)
    table[half:].to_csv(tmp_path / "rest.csv", index=False)
    arguments = ("--group", "age", "--model", model)
    options = ("--test", tmp_path / "rest.csv", "--compare", "minimax_loss")
    facts = run("report", tmp_path / "half.csv", *arguments, *options, "--json").facts
    user_facts = facts["user_models"]
    assert (user_facts["held_out"], user_facts["rows"]["n_rows"]) == (True, len(table) - half)
    assert facts["settings"]["n_components"] == 2
    audit_facts = run("audit", tmp_path / "rest.csv", *arguments, "--json").facts
    errors = [group["observed_error"] for group in user_facts["models"][0]["groups"]]
    expected = [group["observed_error"] for group in audit_facts["models"][0]["groups"]]
    assert errors == pytest.approx(expected)
    run("report", data, "--group", "age", "--test", data, "--json", status=2, err="--model")


@pytest.mark.slow
def test_a_report_on_a_saved_model_takes_over_its_settings(run, data, table, features, tmp_path):
    path = tmp_path / "scaled.model"
    fair = fs.FairPCA(2, center="none", scale=True)
    fair.fit(table[features], sensitive_features=table["age"]).subspace_.save(path)
    arguments = ("report", data, "--group", "age", "--model", path, "--compare", "minimax_loss")
    settings = run(*arguments, "--folds", "none", "--json").facts["settings"]
    in_python = fs.write_report(
        tmp_path / "page.html",
        table[features],
        table["age"],
        models=fair,
        compare=["minimax_loss"],
        folds=None,
    )["settings"]
    assert settings == in_python
    assert (settings["n_components"], settings["center"], settings["scale"]) == (2, "none", True)
    options = ("--center", "global", "-d", 1, "--folds", "none", "--json")
    settings = run(*arguments, *options).facts["settings"]
    assert (settings["n_components"], settings["center"]) == (1, "global")


BREAKING = "group\nimport os; os.abort()\n#"


@pytest.fixture
def odd_path(tmp_path):
    X, groups = generate_rows(2, 3)
    path = tmp_path / "rows\nimport os; os.abort()\n\x1b[31m\u202e.csv"
    pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], BREAKING: groups}).to_csv(
        path, index=False
    )
    return path


@pytest.mark.long
def test_the_command_is_one_printable_line_that_a_shell_reads_as_it_was_typed(
    run, odd_path, tmp_path
):
    page = tmp_path / os.fsdecode(b"page \xff.html")
    typed_words = ("report", str(odd_path), "--group", BREAKING, "-d", "1", "-o", str(page))
    result = run(*typed_words, status=0)
    assert all(line.isprintable() for line in result.out.splitlines())
    command = run(*typed_words, "--json").facts["provenance"]["command"]
    assert command.isprintable()
    words = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {command}"], capture_output=True, check=True
    ).stdout.split(b"\0")[:-1]
    # Paths by their names: a page says nothing of the machine that made it.
    recorded = [os.path.basename(word) if word.startswith("/") else word for word in typed_words]  # noqa: PTH119
    assert words == [os.fsencode(word) for word in ("fairspan", *recorded, "--json")]
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


HAS_REPORT = all(map(importlib.util.find_spec, ("jinja2", "matplotlib")))
NEXT_STEP = "fairspan audit DATA.csv --group COLUMN --standardize"


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def no_jinja(monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)


@pytest.mark.slow
def test_the_demo_agrees_with_the_rows_it_names(run, no_jinja):
    facts = run("demo", "--json").facts
    people = load_adult_by_race()
    X = pd.DataFrame(people.X)
    race = pd.Series(people.sensitive_features)
    plain, fair = facts["models"]
    assert_agrees(plain, reference_pca(X, race, 2, standardize=True))
    in_python = fs.FairPCA(2, scale=True).fit(X, sensitive_features=race)
    errors = [group["observed_error"] for group in fair["groups"]]
    assert errors == pytest.approx(in_python.group_errors_.tolist(), rel=1e-9)
    assert (facts["certificate"]["status"], facts["page"]) == ("optimal", None)
    assert facts["verdict"]["kind"] == "harm, repair helps"


@pytest.mark.long
def test_the_harm_of_the_demo_is_shown_on_held_out_rows():
    """Half of the people for the fits, the other half for the audit, in both directions."""
    data = load_adult_by_race()
    generator = np.random.default_rng(0)
    half = generator.permutation(len(data.X)) % 2 == 0
    for in_training in (half, ~half):
        models = {
            name: fs.FairPCA(2, criterion=criterion, scale=True).fit(
                data.X[in_training], sensitive_features=data.sensitive_features[in_training]
            )
            for name, criterion in (("fair", "minimax_loss"), ("PCA", "total_error"))
        }
        result = fs.audit(models, data.X[~in_training], data.sensitive_features[~in_training])
        (black, other), (black_in_pca, _) = (model.groups for model in result.models)
        assert black_in_pca.expected_loss.low > 0
        assert black.group == "Black"
        assert black.expected_change.high < 0 < other.expected_change.low


@pytest.mark.slow
@pytest.mark.skipif(not HAS_REPORT, reason="needs the extra report")
def test_the_demo_fits_one_screen_and_ends_by_naming_the_page_that_it_wrote(run, tmp_path):
    result = run("demo")
    lines = result.out.splitlines()
    assert result.status == 0
    # On a slow machine steps report their progress.
    assert all(line.startswith("fairspan: ") for line in result.err.splitlines())
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    assert lines[-2].endswith(NEXT_STEP)
    assert lines[-1].endswith(": fairspan-demo.html")
    assert [path.name for path in tmp_path.iterdir()] == ["fairspan-demo.html"]
    page = (tmp_path / "fairspan-demo.html").read_text(encoding="utf-8")
    for words in ("of Adult by race", "Black", "education-num", "fairspan demo"):
        assert words in page
    assert len(page) < 300_000


@pytest.mark.long
@pytest.mark.skipif(not HAS_REPORT, reason="needs the extra report")
def test_the_page_is_written_to_its_path_and_has_the_same_figures(run, monkeypatch, tmp_path):
    page_facts = {}
    monkeypatch.setattr(
        "fairspan.cli.reporting.write_page",
        lambda page, report: (page_facts.update(report.to_dict()), page.write_text("page")),
    )
    facts = run("demo", "-o", "other.html", "--json").facts
    assert (facts["page"], (tmp_path / "other.html").read_text()) == ("other.html", "page")
    on_screen = {model["name"]: model for model in facts["models"]}
    on_page = {model["name"]: model for model in page_facts["models"]}
    # The terminal and the page call a model by the same name.
    assert set(on_screen) == {"PCA", "minimax loss"} < set(on_page)
    for name, model in on_screen.items():
        for group, page_group in zip(model["groups"], on_page[name]["groups"], strict=True):
            assert page_group["observed_error"] == pytest.approx(group["observed_error"], rel=1e-9)
    for name in ("objective", "lower_bound"):
        assert page_facts["verification"][name] == pytest.approx(
            facts["certificate"][name], rel=1e-6
        )
    people = load_adult_by_race()
    fair = fs.FairPCA(2, scale=True).fit(people.X, sensitive_features=people.sensitive_features)
    verification = fs.verify(fair, people.X, people.sensitive_features)
    assert verification.holds
    assert page_facts["verification"]["objective"] == pytest.approx(
        verification.objective, rel=1e-9
    )


@pytest.mark.slow
def test_without_the_extra_the_demo_runs_and_tells_how_to_get_the_page(run, no_jinja, tmp_path):
    result = run("demo", status=0, err=None)
    *_, step, last = result.out.splitlines()
    assert step.endswith(NEXT_STEP)
    assert 'pip install "fairspan[report]"' in last
    assert len(last) <= 80
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("page", ["nowhere/page.html", "."])
def test_a_page_that_has_no_place_to_go_to_is_refused_before_anything_is_shown(run, page):
    result = run("demo", "-o", page, status=2, out=None)
    assert "nowhere" in result.err or "directory" in result.err
