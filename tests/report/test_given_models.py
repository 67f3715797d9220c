"""Models that somebody brings to the page: restricted, oblique, nested, or no projection at all."""

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA, KernelPCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fairspan as fs
from fairspan.errors import InvalidInput, InvalidType
from fairspan.report.page.tables import of_given

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
    "by class": fitted(criterion="total_error", restriction=fs.MeanParity(given_labels="all")),
    "pipeline": make_pipeline(StandardScaler(), PCA(3)).fit(X),
    "kernel": KernelPCA(2, kernel="rbf", gamma=0.1, fit_inverse_transform=True).fit(X),
}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "page.html"
    facts = fs.write_report(
        path, X, PEOPLE, models=MODELS, labels=Y, criterion="total_error", criteria=[]
    )
    return facts, path.read_text(encoding="utf-8")


def test_figures_are_those_of_an_audit(written):
    facts, page = written
    audit = fs.audit(MODELS, X, PEOPLE, labels=Y)
    expected = {model.name: model for model in audit.models}
    given = {model["name"]: model for model in facts["given"]["models"]}
    assert set(MODELS) <= set(given)
    for name in MODELS:
        for mine, theirs in zip(given[name]["groups"], expected[name].groups, strict=True):
            assert mine["error"] == pytest.approx(theirs.error.value)
            if theirs.expected is not None:
                assert mine["expected_loss"] == pytest.approx(theirs.expected.loss.value)
                assert mine["state"] == theirs.state
        assert f">{name}<" in page or name in page


def test_each_restricted_model_is_called_what_it_is(written):
    facts, page = written
    kinds = {model["name"]: model["kind"] for model in facts["given"]["models"]}
    assert kinds["oblique"].startswith("oblique, total error")
    assert kinds["nested"].startswith("nested, minimax loss")
    assert "attributes='marginal'" in kinds["marginal"]
    assert "given_labels='all'" in kinds["by class"]
    assert kinds["kernel"].startswith("no projection")
    assert {verdict["model"] for verdict in facts["given"]["verdicts"]} >= {"oblique", "nested"}
    assert "it is no projection" in page


def test_held_out_rows_judge_the_models(tmp_path):
    half = N // 2
    fair = fs.FairPCA(2).fit(X[:half], sensitive_features=PEOPLE["sex"][:half])
    facts = fs.write_report(
        tmp_path / "page.html",
        X[:half],
        PEOPLE["sex"][:half],
        models=fair,
        test=(X[half:], PEOPLE["sex"][half:]),
        criteria=[],
    )
    given = facts["given"]
    assert (given["held_out"], given["n_rows"], facts["data"]["n_rows"]) == (True, half, half)
    expected = fs.metrics.reconstruction_error(fair, X[half:], PEOPLE["sex"][half:])
    assert [group["error"] for group in given["models"][0]["groups"]] == pytest.approx(
        list(expected.values())
    )
    assert not given["models"][0]["fitted_here"]
    assert facts["settings"]["n_components"] == 2


def test_the_page_has_the_scale_and_dimension_of_the_first_model(tmp_path):
    scaled = fs.FairPCA(2, scale=True).fit(X, sensitive_features=PEOPLE["sex"])
    other = fs.FairPCA(3).fit(X, sensitive_features=PEOPLE["sex"])
    page, models = tmp_path / "page.html", {"scaled": scaled, "other": other}
    facts = fs.write_report(page, X, PEOPLE["sex"], models=models, criteria=[])
    assert facts["settings"]["standardize"] is True
    assert facts["settings"]["n_components"] == 2
    main = next(model for model in facts["models"] if model["is_main"])
    errors = [[g["error"] for g in each["groups"]] for each in (main, facts["given"]["models"][0])]
    assert errors[0] == pytest.approx(errors[1])


def test_a_relative_criterion_is_called_by_its_name(tmp_path):
    path = tmp_path / "page.html"
    relative = fs.MinimaxLoss(relative=True)
    facts = fs.write_report(path, X, PEOPLE["sex"], n_components=2, criterion=relative, criteria=[])
    names = [model["name"] for model in facts["models"]]
    assert names[:2] == ["PCA", "relative_minimax_loss"]
    page = " ".join(path.read_text(encoding="utf-8").split())
    assert "the objective of relative minimax loss" in page
    assert "Under relative minimax loss" in page
    assert "Under minimax loss" not in page


def test_what_does_not_fit_together_is_refused(tmp_path):
    page = tmp_path / "page.html"
    with pytest.raises(InvalidInput, match="test was given without models"):
        fs.write_report(page, X, PEOPLE, test=(X, PEOPLE))
    with pytest.raises(InvalidType, match="Allowed: a tuple"):
        fs.write_report(page, X, PEOPLE, models=MODELS["nested"], test=X)
    with pytest.raises(InvalidInput):
        fs.write_report(page, X[:, :3], PEOPLE, models=MODELS["nested"])
    assert not page.exists()


def test_the_table_of_models_says_which_are_standardized(tmp_path):
    scaled = {"scaled": fitted(scale=True), "plain": fitted()}
    path = tmp_path / "page.html"
    facts = fs.write_report(path, X, PEOPLE, models=scaled, criterion="total_error", criteria=[])
    rows = {first.text: [cell.text for cell in row] for first, *row in of_given(facts).rows}
    assert "standardized" in rows["scaled"]
    assert "as they came" in rows["plain"]
    features = next(column for column in of_given(facts).columns if column.heading == "features")
    assert features.is_text
