"""Figures and formulas with which a report proves its answer; and models given to it."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA, KernelPCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fairspan as fs
import real_data
from certificate_formulas import reference_bound, reference_objective
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
from fairspan.extending import LinearDecoder
from page_tree import parse_page
from report_cases import certificate_facts, generate_rows, group_column, model_facts, report_facts

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


SETTINGS = [(2, 2, "global", False), (2, 1, "group", True), (3, 2, "none", False)]
# Positions of a criterion and of a setting, of the cases that ./run test tries.
QUICK = [(0, 1), (3, 0), (5, 0), (8, 2)]


def cases():
    """Return each criterion with all settings in which it has a solution."""
    return [
        pytest.param(criterion, *setting, marks=() if (i, j) in QUICK else pytest.mark.slow)
        for i, criterion in enumerate(CRITERIA)
        for j, setting in enumerate(SETTINGS)
        # Of three groups these have no solution.
        if setting[0] == 2
        or not (isinstance(criterion, Disparity | EqualError) or criterion == "equal_error")
    ]


@pytest.mark.parametrize(("criterion", "k", "d", "center", "scale"), cases(), ids=str)
def test_the_formulas_give_objective_and_bound(criterion, k, d, center, scale):
    X, labels = generate_rows(k, 5)
    settings = {"criterion": criterion, "compare": [], "center": center, "scale": scale}
    facts = report_facts(X, labels, d, **settings)
    verification = facts["verification"]
    certificate = certificate_facts(facts)
    moments = GroupMoments.from_rows(X / X.std(axis=0) if scale else X, labels)
    S = moments.second_moments(center)
    counts = moments.counts
    errors = group_column(model_facts(facts, facts["main_model"]), "observed_error")
    within = verification["absolute_tol"]
    objective = reference_objective(criterion, errors, S, d, counts)
    assert objective == pytest.approx(verification["objective"], abs=within, rel=1e-9)
    assert verification["objective"] == certificate["objective"]
    assert verification["lower_bound"] == certificate["lower_bound"]
    # Two groups' robust error gap is bounded by supporting lines, not by one mixture.
    if not (k == 2 and isinstance(criterion, RobustErrorGap)):
        lower_bound = reference_bound(criterion, np.array(certificate["weights"]), S, d, counts)
        assert lower_bound == pytest.approx(verification["lower_bound"], abs=within, rel=1e-9)


@pytest.mark.parametrize(
    "criterion",
    [
        pytest.param(criterion, marks=() if i % 6 == 0 else pytest.mark.slow)
        for i, criterion in enumerate(
            criterion for criterion in CRITERIA if criterion != "equal_error"
        )
    ],
    ids=str,
)
def test_no_subspace_is_below_the_bound(criterion):
    X, labels = generate_rows(2, 5)
    certificate = certificate_facts(report_facts(X, labels, 2, criterion=criterion, compare=[]))
    moments = GroupMoments.from_rows(X, labels)
    S = moments.second_moments()
    counts = moments.counts
    rng = np.random.default_rng(5)
    for _ in range(300):
        basis = np.linalg.qr(rng.normal(size=(5, 2)))[0]
        errors = np.trace(S - basis @ basis.T @ S, axis1=1, axis2=2)
        if isinstance(criterion, EqualError) and abs(errors[0] - errors[1]) > criterion.tolerance:
            continue
        value = reference_objective(criterion, errors, S, 2, counts)
        assert value >= certificate["lower_bound"] - 1e-9 * np.trace(S[0] + S[1])


@pytest.mark.long
def test_the_bound_of_many_groups_is_recomputed_also_where_a_gap_stays_open():
    X, labels = generate_rows(12, 8)
    certificate = certificate_facts(report_facts(X, labels, 3, compare=[]))
    moments = GroupMoments.from_rows(X, labels)
    S = moments.second_moments()
    weights = np.array(certificate["weights"])
    assert certificate["status"] == "open gap"
    lower_bound = reference_bound("minimax_loss", weights, S, 3, moments.counts)
    assert certificate["lower_bound"] == pytest.approx(lower_bound, rel=1e-9)


@pytest.mark.slow
def test_verification_of_arrays_and_moments_works_as_the_page_says(tmp_path, no_figures):
    X, labels = generate_rows(2, 5)
    moments = GroupMoments.from_rows(X, labels)
    path = tmp_path / "page.html"
    fair = fs.FairPCA(2).fit(X, sensitive_features=labels)
    verifications = [fs.verify(fair, moments), fs.verify(fair, X, labels)]
    for data in ({"X": X, "sensitive_features": labels}, {"moments": moments}):
        facts = fs.write_report(path, **data, n_components=2, compare=[], folds=None)
        verification = facts["verification"]
        text = parse_page(path.read_text(encoding="utf-8")).text
        assert "fairspan.verify(model, moments)" in verification["commands"]
        assert "fairspan.verify(model, X, sensitive_features)" in verification["commands_note"]
        assert all(
            words in text for words in (*verification["commands"], verification["commands_note"])
        )
        for result in verifications:
            assert result.holds
            within = verification["absolute_tol"]
            assert result.objective == pytest.approx(verification["objective"], abs=within)
            assert result.lower_bound == pytest.approx(verification["lower_bound"], abs=within)


def test_an_unknown_group_is_reported_and_not_passed_over():
    with pytest.raises(UnknownGroup):
        report_facts(*generate_rows(2, 3), 1, criterion=Disparity(0.5, "group 99"))


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "d"), [("default_credit:group__education", 5), ("compas:group__race", 3)]
)
def test_on_real_rows_everything_is_proven_and_recomputed(name, d):
    rows = real_data.load(name)
    facts = report_facts(rows.X, rows.groups, d, scale=True)
    assert {record["status"] for record in facts["certificates"]} == {"optimal"}
    certificate = certificate_facts(facts)
    moments = GroupMoments.from_rows(rows.z_scored(0), rows.groups)
    S = moments.second_moments()
    counts = moments.counts
    weights = certificate["weights"]
    errors = group_column(model_facts(facts, facts["main_model"]), "observed_error")
    objective = reference_objective("minimax_loss", errors, S, d, counts)
    assert objective == pytest.approx(certificate["objective"], rel=1e-8)
    lower_bound = reference_bound("minimax_loss", np.array(weights), S, d, counts)
    assert lower_bound == pytest.approx(certificate["lower_bound"], rel=1e-8)
    pca = PCA(d).fit(rows.z_scored(0))
    residuals = rows.z_scored(0) - pca.inverse_transform(pca.transform(rows.z_scored(0)))
    total = (residuals**2).sum(axis=1).mean()
    assert facts["models"][0]["observed_total_error"] == pytest.approx(total, rel=1e-8)


@pytest.mark.parametrize(
    ("k", "expected_text"),
    [(2, "supporting line"), pytest.param(3, "weighted sum", marks=pytest.mark.slow)],
)
def test_the_proof_of_the_robust_error_gap_is_explained(k, expected_text):
    X, labels = generate_rows(k, 4)
    facts = report_facts(X, labels, 1, criterion=RobustErrorGap(0.7, 0.4), compare=[])
    assert expected_text in " ".join(facts["verification"]["explanation"])


@pytest.mark.slow
def test_rounding_of_a_logarithm_is_the_same_in_any_unit():
    X, labels = generate_rows(2, 5)
    near, far = (
        report_facts(unit * X, labels, 2, criterion="nash_welfare", compare=[])["verification"]
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


def fit_model(**settings):
    return fs.FairPCA(2, **settings).fit(X, Y, sensitive_features=PEOPLE)


@cache
def fitted_models():
    return {
        "oblique": fit_model(criterion="total_error", restriction=fs.MeanParity(oblique=True)),
        "nested": fit_model(nested=True),
        "marginal": fit_model(
            criterion="total_error", restriction=fs.MeanParity(attributes="marginal")
        ),
        "by class": fit_model(
            criterion="total_error", restriction=fs.MeanParity(within_classes="all")
        ),
        "pipeline": make_pipeline(StandardScaler(), PCA(3)).fit(X),
        "kernel": KernelPCA(2, kernel="rbf", gamma=0.1, fit_inverse_transform=True).fit(X),
    }


@pytest.fixture(scope="module")
def facts_and_page(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "page.html"
    facts = fs.write_report(
        path, X, PEOPLE, models=fitted_models(), y=Y, criterion="total_error", compare=[], folds=5
    )
    return facts, path.read_text(encoding="utf-8")


@pytest.mark.slow
def test_figures_are_those_of_an_audit(facts_and_page):
    facts, page = facts_and_page
    audit = fs.audit(fitted_models(), X, PEOPLE, y=Y, folds=5)
    expected = {model.name: model for model in audit.models}
    models_by_name = {model["name"]: model for model in facts["user_models"]["models"]}
    assert set(fitted_models()) <= set(models_by_name)
    for name in fitted_models():
        for group_record, group in zip(
            models_by_name[name]["groups"], expected[name].groups, strict=True
        ):
            assert group_record["observed_error"] == pytest.approx(group.observed_error.value)
            if group.is_estimated:
                assert group_record["expected_loss"] == pytest.approx(group.expected_loss.value)
                assert group_record["state"] == group.state
        assert f">{name}<" in page or name in page


@pytest.mark.slow
def test_each_restricted_model_is_called_what_it_is(facts_and_page):
    facts, page = facts_and_page
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


@pytest.mark.slow
def test_held_out_rows_evaluate_the_models(tmp_path, no_figures):
    half = N // 2
    fair = fs.FairPCA(2).fit(X[:half], sensitive_features=PEOPLE["sex"][:half])
    facts = fs.write_report(
        tmp_path / "page.html",
        X[:half],
        PEOPLE["sex"][:half],
        models=fair,
        test=(X[half:], PEOPLE["sex"][half:]),
        compare=[],
        folds=None,
    )
    user_facts = facts["user_models"]
    assert (user_facts["held_out"], user_facts["rows"]["n_rows"], facts["rows"]["n_rows"]) == (
        True,
        half,
        half,
    )
    expected = fs.metrics.reconstruction_error(fair, X[half:], PEOPLE["sex"][half:])
    assert [
        group["observed_error"] for group in user_facts["models"][0]["groups"]
    ] == pytest.approx(list(expected.values()))
    assert not user_facts["models"][0]["in_sample"]
    assert facts["settings"]["n_components"] == 2
    refit_bound = user_facts["models"][0]["refit_bound"]
    page = (tmp_path / "page.html").read_text()
    assert refit_bound["lower_bound"] <= refit_bound["objective"]
    assert "drift since the fit" in page
    assert "<p>FS209 minimax loss: " in page


@pytest.mark.slow
def test_models_of_other_packages_are_reported_with_the_bound_of_their_rank(tmp_path, no_figures):
    path = tmp_path / "page.html"
    sex = PEOPLE["sex"]
    decoder_model = LinearDecoder(lambda rows: np.maximum(rows[:, :2], 0), np.eye(X.shape[1])[:2])
    facts = fs.write_report(path, X, sex, models={"kept": decoder_model}, compare=[], folds=None)
    rank_bound = facts["user_models"]["models"][0]["rank_bound"]
    assert rank_bound["largest_error"] > rank_bound["bound"] > 0
    assert "<p>FS211 kept: " in path.read_text()


def test_the_page_has_the_scale_and_dimension_of_the_first_model(tmp_path, no_figures):
    path = tmp_path / "page.html"
    sex = PEOPLE["sex"]
    models = {
        name: fs.FairPCA(2, scale=name == "scaled").fit(X, sensitive_features=sex)
        for name in ("scaled", "plain")
    }
    facts = fs.write_report(path, X, sex, models=models, compare=[], folds=None)
    assert facts["settings"]["scale"] is True
    assert facts["settings"]["n_components"] == 2
    main = model_facts(facts, facts["main_model"])
    errors = [
        [g["observed_error"] for g in model_record["groups"]]
        for model_record in (main, model_facts(facts["user_models"], "scaled"))
    ]
    assert errors[0] == pytest.approx(errors[1])
    assert {model["name"]: model["is_scaled"] for model in facts["user_models"]["models"]} == {
        "scaled": True,
        "plain": False,
        "PCA scaled": True,
        "PCA unscaled": False,
    }
    table = next(
        table
        for table in parse_page(path.read_text(encoding="utf-8")).all("table")
        if next(table.all("caption")).text == "Your models"
    )
    rows = [[cell.text for cell in row.all("th", "td")] for row in table.all("tr")]
    assert [row[3] for row in rows[1:3]] == ["standardized", "unscaled"]


def test_a_relative_criterion_is_called_by_its_name(tmp_path, no_figures):
    path = tmp_path / "page.html"
    relative = fs.MinimaxLoss(relative=True)
    facts = fs.write_report(
        path, X, PEOPLE["sex"], n_components=2, criterion=relative, compare=[], folds=None
    )
    names = [model["name"] for model in facts["models"]]
    assert names[:2] == ["PCA", "relative minimax loss"]
    page = " ".join(path.read_text(encoding="utf-8").split())
    assert "objective of relative minimax" in page
    assert "Under relative minimax loss" in page
    assert "Under minimax loss" not in page


def test_incompatible_inputs_are_refused(tmp_path):
    page = tmp_path / "page.html"
    nested = fitted_models()["nested"]
    with pytest.raises(InvalidInput, match="without models"):
        fs.write_report(page, X, PEOPLE, test=(X, PEOPLE))
    with pytest.raises(InvalidType, match="Allowed: a tuple"):
        fs.write_report(page, X, PEOPLE, models=nested, test=X)
    with pytest.raises(InvalidInput):
        fs.write_report(page, X[:, :3], PEOPLE, models=nested, compare=[], folds=None)
    assert not page.exists()
