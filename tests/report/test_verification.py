"""Figures and formulas with which a report proves its answer; and models given to it."""

import itertools

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA, KernelPCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fairspan as fs
import real_data
from case_selection import mark_most_long
from cli.pca_reference import reference_figures
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
from fairspan.estimator.fit_settings import FitSettings
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


def smallest(matrix, d):
    """L(M), the sum of all eigenvalues but the d largest."""
    return np.linalg.eigvalsh(matrix)[: len(matrix) - d].sum()


def worst_case(errors, q, criterion, counts):
    """The robust error gap of two or more groups, pair by pair."""
    radii = criterion.radius / np.sqrt(counts)
    values = []
    for a, b in itertools.permutations(range(len(q)), 2):
        v = q.copy()
        v[a] += criterion.penalty
        v[b] -= criterion.penalty
        roots = np.sqrt(errors) + np.where(v >= 0, 1, -1) * np.sqrt(radii)
        values.append(v @ np.maximum(roots, 0) ** 2)
    return max(values)


def objective_by_hand(criterion, errors, S, d, counts):
    """What the page calls the objective, from the errors of the groups."""
    q, traces = counts / counts.sum(), np.trace(S, axis1=1, axis2=2)
    losses = errors - [smallest(each, d) for each in S]
    match criterion:
        case "minimax_loss":
            return losses.max()
        case MinimaxLoss():
            return (losses / traces).max()
        case "minimax_error":
            return errors.max()
        case MinimaxError():
            return (errors / traces).max()
        case "least_variance":
            return (errors - traces).max()
        case "nash_welfare":
            return -np.log(traces - errors).mean()
        case Disparity(trade_off=share):
            return share * q @ errors + (1 - share) * (errors[0] - errors[1])
        case RobustErrorGap():
            return worst_case(errors, q, criterion, counts)
        case ErrorGap(penalty=penalty):
            return q @ errors + penalty * np.ptp(errors)
    return q @ errors


def bound_by_hand(criterion, weights, S, d, counts):
    """What the page says follows from the weights of the certificate, M and L(M)."""
    mixture = np.tensordot(weights, S, axes=1)
    least, traces = smallest(mixture, d), np.trace(S, axis1=1, axis2=2)
    match criterion:
        case "minimax_loss" | MinimaxLoss():
            return least - sum(w * smallest(each, d) for w, each in zip(weights, S, strict=True))
        case "equal_error":
            return least / weights.sum()
        case EqualError(tolerance=tolerance):
            share = weights[0] / weights.sum() - counts[0] / counts.sum()
            return least / weights.sum() - tolerance * abs(share)
        case "least_variance":
            return least - weights @ traces
        case "nash_welfare":
            kept = np.trace(mixture) - least
            return np.log(weights * len(weights)).mean() - np.log(kept)
    return least


@pytest.mark.parametrize("criterion", mark_most_long(CRITERIA, step=4), ids=str)
@pytest.mark.parametrize(
    ("k", "d", "center", "scale"),
    [(2, 2, "global", False), (2, 1, "group", True), (3, 2, "none", False)],
)
def test_the_formulas_give_objective_and_bound(criterion, k, d, center, scale):
    if k == 3 and (isinstance(criterion, Disparity | EqualError) or criterion == "equal_error"):
        return
    X, labels = generate_rows(k, 5)
    settings = {"criterion": criterion, "compare": [], "center": center, "scale": scale}
    facts = report_facts(X, labels, d, **settings)
    printed, certificate = facts["verification"], certificate_facts(facts)
    moments = GroupMoments.from_rows(X / X.std(axis=0) if scale else X, labels)
    S, counts = moments.second_moments(center), moments.counts
    errors = group_column(model_facts(facts, facts["main_model"]), "observed_error")
    within = printed["absolute_tol"]
    found = objective_by_hand(criterion, errors, S, d, counts)
    assert found == pytest.approx(printed["objective"], abs=within, rel=1e-9)
    assert printed["objective"] == certificate["objective"]
    assert printed["lower_bound"] == certificate["lower_bound"]
    # Two groups' robust error gap is bounded by supporting lines, not by one mixture.
    if not (k == 2 and isinstance(criterion, RobustErrorGap)):
        found = bound_by_hand(criterion, np.array(certificate["weights"]), S, d, counts)
        assert found == pytest.approx(printed["lower_bound"], abs=within, rel=1e-9)


@pytest.mark.parametrize(
    "criterion", mark_most_long([c for c in CRITERIA if c != "equal_error"], step=4), ids=str
)
def test_no_subspace_is_below_the_bound(criterion):
    X, labels = generate_rows(2, 5)
    certificate = certificate_facts(report_facts(X, labels, 2, criterion=criterion, compare=[]))
    problem = fit_moments(
        GroupMoments.from_rows(X, labels), FitSettings.parse(2, criterion)
    ).problem
    rng = np.random.default_rng(5)
    for _ in range(300):
        basis = np.linalg.qr(rng.normal(size=(5, 2)))[0]
        figures = reference_figures(X, labels, basis.T, X.mean(axis=0), 1.0, center="global")
        errors = np.array([each.error for each in figures.values()])
        value = problem.criterion.value(errors, problem)
        assert value >= certificate["lower_bound"] - 1e-9 * problem.total_variance


@pytest.mark.long
def test_the_bound_of_many_groups_is_recomputed_also_where_a_gap_stays_open():
    X, labels = generate_rows(12, 8)
    certificate = certificate_facts(report_facts(X, labels, 3, compare=[]))
    moments = GroupMoments.from_rows(X, labels)
    S, weights = moments.second_moments(), np.array(certificate["weights"])
    assert certificate["status"] == "open gap"
    found = bound_by_hand("minimax_loss", weights, S, 3, moments.counts)
    assert certificate["lower_bound"] == pytest.approx(found, rel=1e-9)


def test_what_the_page_says_about_verifying_is_true_of_arrays_and_of_moments(tmp_path):
    X, labels = generate_rows(2, 5)
    moments, path = GroupMoments.from_rows(X, labels), tmp_path / "page.html"
    fair = fs.FairPCA(2).fit(X, sensitive_features=labels)
    for given in ({"X": X, "sensitive_features": labels}, {"moments": moments}):
        facts = fs.write_report(path, **given, n_components=2, compare=[], folds=None)
        printed, text = facts["verification"], parse_page(path.read_text(encoding="utf-8")).text
        assert "fairspan.verify(model, moments)" in printed["commands"]
        assert "fairspan.verify(model, X, sensitive_features)" in printed["commands_note"]
        assert all(each in text for each in (*printed["commands"], printed["commands_note"]))
        for verified in (fs.verify(fair, moments), fs.verify(fair, X, labels)):
            assert verified.holds
            within = printed["absolute_tol"]
            assert verified.objective == pytest.approx(printed["objective"], abs=within)
            assert verified.lower_bound == pytest.approx(printed["lower_bound"], abs=within)


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
    assert {each["status"] for each in facts["certificates"]} == {"optimal"}
    certificate = certificate_facts(facts)
    moments = GroupMoments.from_rows(rows.z_scored(0), rows.groups)
    S, counts, weights = moments.second_moments(), moments.counts, certificate["weights"]
    errors = group_column(model_facts(facts, facts["main_model"]), "observed_error")
    found = objective_by_hand("minimax_loss", errors, S, d, counts)
    assert found == pytest.approx(certificate["objective"], rel=1e-8)
    found = bound_by_hand("minimax_loss", np.array(weights), S, d, counts)
    assert found == pytest.approx(certificate["lower_bound"], rel=1e-8)
    pca = PCA(d).fit(rows.z_scored(0))
    left = rows.z_scored(0) - pca.inverse_transform(pca.transform(rows.z_scored(0)))
    total = (left**2).sum(axis=1).mean()
    assert facts["models"][0]["observed_total_error"] == pytest.approx(total, rel=1e-8)


@pytest.mark.parametrize(
    ("k", "said"), mark_most_long([(2, "supporting line"), (3, "at least this weighted sum")], 2)
)
def test_the_proof_of_the_robust_error_gap_is_explained(k, said):
    X, labels = generate_rows(k, 4)
    facts = report_facts(X, labels, 1, criterion=RobustErrorGap(0.7, 0.4), compare=[])
    assert said in " ".join(facts["verification"]["explanation"])


def test_what_rounding_does_to_a_logarithm_is_the_same_in_any_unit():
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


MODELS = {
    "oblique": fit_model(criterion="total_error", restriction=fs.MeanParity(oblique=True)),
    "nested": fit_model(nested=True),
    "marginal": fit_model(
        criterion="total_error", restriction=fs.MeanParity(attributes="marginal")
    ),
    "by class": fit_model(criterion="total_error", restriction=fs.MeanParity(within_classes="all")),
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
    main = model_facts(facts, facts["main_model"])
    errors = [
        [g["observed_error"] for g in each["groups"]]
        for each in (main, model_facts(facts["user_models"], "scaled"))
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
        for each in parse_page(path.read_text(encoding="utf-8")).all("table")
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
