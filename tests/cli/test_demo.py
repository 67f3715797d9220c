"""The demonstration: one screen, and a page of the same rows where one can be made."""

import importlib.util
import sys

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

import fairspan as fs
from cli.by_hand import assert_agrees, plain_pca_by_hand
from fairspan import GroupMoments
from fairspan.cli.reporting import demo_facts, demo_screen
from fairspan.datasets import tumours_by_diagnosis

REPORT = all(map(importlib.util.find_spec, ("jinja2", "matplotlib")))
NEXT_STEP = "Try it on your data: fairspan audit DATA.csv --group COLUMN --standardize"


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def without_pages(monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)


def test_the_demo_agrees_with_the_rows_it_names(run, without_pages):
    facts = run("demo", "--json").facts
    table = load_breast_cancer(as_frame=True)
    X, diagnosis = table.data, table.target.map({0: "malignant", 1: "benign"})
    plain, fair = facts["models"]
    assert_agrees(plain, plain_pca_by_hand(X, diagnosis, 3, standardize=True))
    in_python = fs.FairPCA(3, scale=True).fit(X, sensitive_features=diagnosis)
    errors = [group["error_here"] for group in fair["groups"]]
    assert errors == pytest.approx(in_python.group_errors_.tolist(), rel=1e-9)
    assert (facts["certificate"]["status"], facts["page"]) == ("optimal", None)


def test_the_harm_that_the_demo_tells_of_is_seen_on_rows_that_were_held_out(run, without_pages):
    """Half of the rows for the fits, the other half for the audit, in both directions."""
    assert run("demo", "--json").facts["verdict"]["kind"] == "harm, and repair helps"
    data = tumours_by_diagnosis()
    generator = np.random.default_rng(0)
    half = generator.permutation(len(data.X)) % 2 == 0
    for fitted in (half, ~half):
        models = {
            name: fs.FairPCA(3, criterion=criterion, scale=True).fit(
                data.X[fitted], sensitive_features=data.sensitive_features[fitted]
            )
            for name, criterion in (("fair", "minimax_loss"), ("PCA", "total_error"))
        }
        held_out = fs.audit(models, data.X[~fitted], data.sensitive_features[~fitted])
        fair, plain = held_out.models
        assert plain.groups[0].cross_fitted_loss > 0
        assert fair.groups[0].group == "benign"
        assert fair.groups[0].expected_change.high < 0


@pytest.mark.skipif(not REPORT, reason="needs the extra report")
def test_the_demo_fits_one_screen_and_ends_by_naming_the_page_that_it_wrote(run, tmp_path):
    result = run("demo")
    lines = result.out.splitlines()
    assert (result.status, result.err) == (0, "")
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    assert lines[-2:] == [NEXT_STEP, "The whole audit as a page: fairspan-demo.html"]
    assert [path.name for path in tmp_path.iterdir()] == ["fairspan-demo.html"]
    page = (tmp_path / "fairspan-demo.html").read_text(encoding="utf-8")
    for words in ("of breast tumours", "benign", "mean radius", "fairspan demo"):
        assert words in page
    assert len(page) < 300_000


@pytest.mark.long
@pytest.mark.skipif(not REPORT, reason="needs the extra report")
def test_the_page_goes_where_it_is_told_to_and_holds_the_same_figures(run, monkeypatch, tmp_path):
    shown = {}
    monkeypatch.setattr(
        "fairspan.cli.reporting.write_page",
        lambda page, facts: (shown.update(facts), page.write_text("page")),
    )
    facts = run("demo", "-o", "other.html", "--json").facts
    assert (facts["page"], (tmp_path / "other.html").read_text()) == ("other.html", "page")
    on_screen = {model["name"]: model for model in facts["models"]}
    on_page = {model["name"]: model for model in shown["models"]}
    for ours, theirs in (("PCA", "PCA"), ("fair", "minimax_loss")):
        for here, there in zip(on_screen[ours]["groups"], on_page[theirs]["groups"], strict=True):
            assert there["error_here"] == pytest.approx(here["error_here"], rel=1e-9)
    verified = {"GroupMoments": GroupMoments, "np": np}
    exec(compile(shown["verification"]["snippet"], "snippet", "exec"), verified)
    assert verified["objective"] == pytest.approx(facts["certificate"]["objective"], rel=1e-9)
    assert verified["lower_bound"] == pytest.approx(facts["certificate"]["lower_bound"], rel=1e-6)


def test_without_the_extra_the_demo_runs_and_tells_how_to_get_the_page(
    run, without_pages, tmp_path
):
    result = run("demo", status=0, err=None)
    *_, step, last = result.out.splitlines()
    assert step == NEXT_STEP
    assert 'pip install "fairspan[report]"' in last
    assert len(last) <= 80
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("page", ["nowhere/page.html", "."])
def test_a_page_that_has_no_place_to_go_to_is_refused_before_anything_is_shown(run, page):
    result = run("demo", "-o", page, status=2, out=None)
    assert "nowhere" in result.err or "directory" in result.err


@pytest.mark.parametrize("columns", [80, 60])
def test_the_screen_is_as_wide_as_the_terminal(monkeypatch, columns):
    for module in ("reporting", "output"):
        monkeypatch.setattr(f"fairspan.cli.{module}.width_of", lambda stream: columns)
    *lines, step = demo_screen(*demo_facts()).splitlines()
    assert step == NEXT_STEP
    assert max(map(len, lines)) <= columns
    assert max(map(len, lines)) > columns - 12
