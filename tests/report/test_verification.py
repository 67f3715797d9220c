"""The program that a report prints recomputes the certificate; and models given to it."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA, KernelPCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fairspan as fs
import real_data
from cli.by_hand import figures_by_hand
from fairspan import (
    Disparity,
    EqualError,
    ErrorGap,
    GroupMoments,
    MinimaxError,
    MinimaxLoss,
    RobustErrorGap,
)
from fairspan.errors import InvalidInput, InvalidType, UnknownGroup
from fairspan.estimator.fit import fit_moments
from page_tree import tree_of
from report_rows import ORIGIN, certificate_of, facts_by, made_rows, model_of
from sweeps import mostly_long

CRITERIA = (
    "minimax_loss",
    "minimax_error",
    "total_error",
    Disparity(0.3, "group 00"),
    "equal_error",
    EqualError(0.1),
    ErrorGap(2.0),
    RobustErrorGap(0.7, 0.4),
    "nash_welfare",
    "least_variance",
    MinimaxLoss(relative=True),
    MinimaxError(relative=True),
)


def run(facts, moments):
    """What the program sets, where nothing but these moments is at hand."""
    program = facts["verification"]["program"]
    imported = set(re.findall(r"^(?:from|import) (\S+)", program, re.M))
    assert imported <= {"numpy", "fairspan", "base64"}
    names = {"moments": moments}
    exec(compile(program, "the program of a report", "exec"), names)
    return names


@pytest.mark.long
@pytest.mark.parametrize("criterion", CRITERIA, ids=str)
@pytest.mark.parametrize(
    ("k", "d", "center", "scale"),
    [(2, 2, "global", False), (2, 1, "group", True), (3, 2, "none", False)],
)
def test_it_finds_what_the_certificate_says(criterion, k, d, center, scale, capsys):
    if k == 3 and (isinstance(criterion, Disparity | EqualError) or criterion == "equal_error"):
        return
    X, labels = made_rows(k, 5)
    settings = {"criterion": criterion, "compare": [], "center": center, "scale": scale}
    facts = facts_by(X, labels, d, **settings)
    moments, certificate = GroupMoments.from_rows(X, labels), certificate_of(facts)
    found = run(facts, moments)
    within = facts["verification"]["absolute_tol"]
    assert found["objective"] == pytest.approx(certificate["objective"], abs=within)
    # The sides of the polygon are cut into parts, and not as finely as in the certificate.
    coarser = 1e-7 * certificate["objective"] if isinstance(criterion, RobustErrorGap) else 0.0
    assert found["lower_bound"] == pytest.approx(certificate["lower_bound"], abs=within + coarser)
    printed = [found["objective"], found["lower_bound"]]
    assert capsys.readouterr().out.split() == [str(each) for each in printed]


@pytest.mark.parametrize(
    "criterion", mostly_long([c for c in CRITERIA if c != "equal_error"], step=4), ids=str
)
def test_no_subspace_is_below_the_bound(criterion):
    X, labels = made_rows(2, 5)
    certificate = certificate_of(facts_by(X, labels, 2, criterion=criterion, compare=[]))
    problem = fit_moments(GroupMoments.from_rows(X, labels), 2, criterion=criterion)[1]
    rng = np.random.default_rng(5)
    for _ in range(300):
        basis = np.linalg.qr(rng.normal(size=(5, 2)))[0]
        figures = figures_by_hand(X, labels, basis.T, X.mean(axis=0), 1.0, center="global")
        errors = np.array([each.error for each in figures.values()])
        value = problem.criterion.value(errors, problem)
        assert value >= certificate["lower_bound"] - 1e-9 * problem.total_variance


@pytest.mark.long
def test_the_bound_of_many_groups_is_recomputed_also_where_a_gap_stays_open():
    X, labels = made_rows(12, 8)
    facts = facts_by(X, labels, 3, compare=[])
    certificate = certificate_of(facts)
    found = run(facts, GroupMoments.from_rows(X, labels))
    assert certificate["status"] == "open gap"
    assert found["lower_bound"] == pytest.approx(certificate["lower_bound"], rel=1e-9)
    assert found["objective"] == pytest.approx(certificate["objective"], rel=1e-9)


def test_components_are_written_down_only_where_the_mixture_does_not_tell_them(monkeypatch):
    # Every direction is as good for the mixture, but not for both groups.
    rows = np.vstack([np.diag([2.0, 1.0]), -np.diag([2.0, 1.0])])
    X, labels = np.vstack([rows, rows[:, ::-1]]), ["a"] * 4 + ["b"] * 4
    facts = facts_by(X, labels, 1, compare=[])
    moments = GroupMoments.from_rows(X, labels)
    assert "V = np.array([" in facts["verification"]["program"]
    assert run(facts, moments)["objective"] == pytest.approx(certificate_of(facts)["objective"])
    monkeypatch.setattr("fairspan.report.program._MAX_COMPONENT_ENTRIES", 0)
    without = facts_by(X, labels, 1, compare=[])
    found = run(without, moments)
    assert "objective" not in found
    assert found["lower_bound"] == pytest.approx(certificate_of(facts)["lower_bound"])
    assert "too many entries" in " ".join(without["verification"]["explanation"])


def test_it_begins_with_the_moments_that_are_meant():
    origin = replace(ORIGIN, moments_code="moments_code = GroupMoments.from_rows(X, 'sex')")
    X, labels = made_rows(2, 3)
    assert origin.moments_code in facts_by(X, labels, 1, origin=origin)["verification"]["program"]


def test_an_unknown_group_is_reported_and_not_passed_over():
    with pytest.raises(UnknownGroup):
        facts_by(*made_rows(2, 3), 1, criterion=Disparity(0.5, "group 99"))


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "d"), [("default_credit:group__education", 5), ("compas:group__race", 3)]
)
def test_on_real_rows_everything_is_proven_and_recomputed(name, d):
    rows = real_data.load(name)
    facts = facts_by(rows.X, rows.groups, d, scale=True)
    assert {each["status"] for each in facts["certificates"]} == {"optimal"}
    certificate = certificate_of(facts)
    found = run(facts, GroupMoments.from_rows(rows.X, rows.groups))
    assert found["objective"] == pytest.approx(certificate["objective"], rel=1e-8)
    assert found["lower_bound"] == pytest.approx(certificate["lower_bound"], rel=1e-8)
    pca = PCA(d).fit(rows.z_scored(0))
    left = rows.z_scored(0) - pca.inverse_transform(pca.transform(rows.z_scored(0)))
    total = (left**2).sum(axis=1).mean()
    assert facts["models"][0]["observed_total_error"] == pytest.approx(total, rel=1e-8)


@pytest.mark.parametrize(
    ("k", "said"), mostly_long([(2, "supporting line"), (3, "at least this weighted sum")], 2)
)
def test_the_proof_of_the_robust_error_gap_is_explained(k, said):
    X, labels = made_rows(k, 4)
    facts = facts_by(X, labels, 1, criterion=RobustErrorGap(0.7, 0.4), compare=[])
    assert said in " ".join(facts["verification"]["explanation"])


def test_what_rounding_does_to_a_logarithm_is_the_same_in_any_unit():
    X, labels = made_rows(2, 5)
    near, far = (
        facts_by(unit * X, labels, 2, criterion="nash_welfare", compare=[])["verification"]
        for unit in (2.0**-12, 2.0**12)
    )
    assert 0.1 < far["absolute_tol"] / near["absolute_tol"] < 10


RNG = np.random.default_rng(8)
N = 240
PEOPLE = pd.DataFrame(
    {
        "sex": np.array(["f", "m"])[RNG.integers(0, 2, N)],
        "site": np.array(["x", "y"])[RNG.integers(0, 2, N)],
    }
)
WIDE = np.where(PEOPLE[["sex"]] == "f", [3, 2, 1, 1, 1, 1, 1, 1, 2], [1, 1, 1, 2, 3, 1, 1, 1, 1])
X = RNG.standard_normal((N, 9)) * WIDE
X = X + (PEOPLE[["site"]] == "x").to_numpy() * [1.0, 0, 0, 1.0, 0, 0, 0, 0, 0]
Y = np.array(["no", "yes"])[(X[:, 0] + RNG.standard_normal(N) > 0).astype(int)]


def fitted(**settings):
    return fs.FairPCA(2, **settings).fit(X, Y, sensitive_features=PEOPLE)


MODELS = {
    "oblique": fitted(criterion="total_error", restriction=fs.MeanParity(oblique=True)),
    "nested": fitted(nested=True),
    "marginal": fitted(criterion="total_error", restriction=fs.MeanParity(attributes="marginal")),
    "by class": fitted(criterion="total_error", restriction=fs.MeanParity(within_classes="all")),
    "pipeline": make_pipeline(StandardScaler(), PCA(3)).fit(X),
    "kernel": KernelPCA(2, kernel="rbf", gamma=0.1, fit_inverse_transform=True).fit(X),
}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "page.html"
    facts = fs.write_report(
        path, X, PEOPLE, models=MODELS, y=Y, criterion="total_error", compare=[], folds=5
    )
    return facts, path.read_text(encoding="utf-8")


def test_figures_are_those_of_an_audit(written):
    facts, page = written
    audit = fs.audit(MODELS, X, PEOPLE, y=Y, folds=5)
    expected = {model.name: model for model in audit.models}
    given = {model["name"]: model for model in facts["user_models"]["models"]}
    assert set(MODELS) <= set(given)
    for name in MODELS:
        for mine, theirs in zip(given[name]["groups"], expected[name].groups, strict=True):
            assert mine["observed_error"] == pytest.approx(theirs.observed_error.value)
            if theirs.is_estimated:
                assert mine["expected_loss"] == pytest.approx(theirs.expected_loss.value)
                assert mine["state"] == theirs.state
        assert f">{name}<" in page or name in page


def test_each_restricted_model_is_called_what_it_is(written):
    facts, page = written
    names = [model["name"] for model in facts["user_models"]["models"]]
    kinds = dict(zip(names, facts["user_models"]["descriptions"], strict=True))
    assert kinds["oblique"].startswith("oblique, total error")
    assert kinds["nested"].startswith("nested, minimax loss")
    assert "attributes='marginal'" in kinds["marginal"]
    assert "within_classes='all'" in kinds["by class"]
    assert kinds["kernel"].startswith("not a projection")
    assert {verdict["model"] for verdict in facts["user_models"]["verdicts"]} >= {
        "oblique",
        "nested",
    }
    assert "it is not a projection" in page


def test_held_out_rows_judge_the_models(tmp_path):
    half = N // 2
    fair = fs.FairPCA(2).fit(X[:half], sensitive_features=PEOPLE["sex"][:half])
    facts = fs.write_report(
        tmp_path / "page.html",
        X[:half],
        PEOPLE["sex"][:half],
        models=fair,
        test=(X[half:], PEOPLE["sex"][half:]),
        compare=[],
        folds=5,
    )
    given = facts["user_models"]
    assert (given["held_out"], given["rows"]["n_rows"], facts["rows"]["n_rows"]) == (
        True,
        half,
        half,
    )
    expected = fs.metrics.reconstruction_error(fair, X[half:], PEOPLE["sex"][half:])
    assert [group["observed_error"] for group in given["models"][0]["groups"]] == pytest.approx(
        list(expected.values())
    )
    assert not given["models"][0]["in_sample"]
    assert facts["settings"]["n_components"] == 2
    here, page = given["models"][0]["refit_bound"], (tmp_path / "page.html").read_text()
    assert here["lower_bound"] <= here["objective"]
    assert "drift since the fit" in page
    assert "<p>FS209 minimax_loss: on the audited rows, minimax_loss is " in page


def test_the_page_has_the_scale_and_dimension_of_the_first_model(tmp_path):
    path, sex = tmp_path / "page.html", PEOPLE["sex"]
    models = {
        name: fs.FairPCA(2, scale=name == "scaled").fit(X, sensitive_features=sex)
        for name in ("scaled", "plain")
    }
    facts = fs.write_report(path, X, sex, models=models, compare=[], folds=5)
    assert facts["settings"]["scale"] is True
    assert facts["settings"]["n_components"] == 2
    main = model_of(facts, facts["main_model"])
    errors = [
        [g["observed_error"] for g in each["groups"]]
        for each in (main, model_of(facts["user_models"], "scaled"))
    ]
    assert errors[0] == pytest.approx(errors[1])
    assert {model["name"]: model["is_scaled"] for model in facts["user_models"]["models"]} == {
        "scaled": True,
        "plain": False,
        "PCA scaled": True,
        "PCA unscaled": False,
    }
    table = next(
        each
        for each in tree_of(path.read_text(encoding="utf-8")).all("table")
        if next(each.all("caption")).text == "Your models"
    )
    rows = [[cell.text for cell in row.all("th", "td")] for row in table.all("tr")]
    assert [row[3] for row in rows[1:3]] == ["standardized", "unscaled"]


def test_a_relative_criterion_is_called_by_its_name(tmp_path):
    path = tmp_path / "page.html"
    relative = fs.MinimaxLoss(relative=True)
    facts = fs.write_report(
        path, X, PEOPLE["sex"], n_components=2, criterion=relative, compare=[], folds=5
    )
    names = [model["name"] for model in facts["models"]]
    assert names[:2] == ["PCA", "relative minimax loss"]
    page = " ".join(path.read_text(encoding="utf-8").split())
    assert "the objective of relative minimax loss" in page
    assert "Under relative minimax loss" in page
    assert "Under minimax loss" not in page


def test_incompatible_inputs_are_refused(tmp_path):
    page = tmp_path / "page.html"
    with pytest.raises(InvalidInput, match="test was given without models"):
        fs.write_report(page, X, PEOPLE, test=(X, PEOPLE))
    with pytest.raises(InvalidType, match="Allowed: a tuple"):
        fs.write_report(page, X, PEOPLE, models=MODELS["nested"], test=X)
    with pytest.raises(InvalidInput):
        fs.write_report(page, X[:, :3], PEOPLE, models=MODELS["nested"])
    assert not page.exists()
