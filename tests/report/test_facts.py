"""The facts and steps of a report are those of the audit, the fits, numpy and sklearn."""

import json
from itertools import pairwise

import numpy as np
import pytest
from sklearn.decomposition import PCA

import fairspan as fs
from cli.pca_reference import reference_figures, reference_pca
from fairspan import ErrorGap, FairPCA, GroupMoments, audit
from fairspan.errors import IncompatibleParameters, InvalidInput, InvalidParameter, InvalidType
from report_cases import (
    certificate_facts,
    dimension_curve,
    generate_rows,
    group_column,
    group_names,
    model_facts,
    report_dimensions,
    report_facts,
)

# All but ordinary PCA, in the order of the page.
CRITERIA = (
    "minimax_loss",
    "minimax_error",
    "least_variance",
    "disparity",
    "equal_error",
    "error_gap",
    "robust_error_gap",
    "nash_welfare",
)


def readable_name(criterion):
    return criterion.replace("nash", "Nash").replace("_", " ")


@pytest.mark.long
@pytest.mark.parametrize(("k", "p", "d"), [(2, 1, 1), (2, 4, 4), (2, 6, 2), (3, 5, 2), (6, 4, 1)])
def test_facts_are_plain_and_the_same_twice(k, p, d):
    X, labels = generate_rows(k, p)
    facts = report_facts(X, labels, d)
    text = json.dumps(facts, allow_nan=False)
    assert json.loads(text) == facts  # so no tuples, arrays or numbers of numpy
    assert json.dumps(report_facts(X, labels, d), allow_nan=False) == text
    assert group_names(facts) == sorted(set(labels))


@pytest.mark.long
@pytest.mark.parametrize("center", ["global", "group", "none"])
@pytest.mark.parametrize("scale", [False, True])
def test_plain_pca_is_that_of_singular_vectors(center, scale):
    X, labels = generate_rows(3, 5)
    facts = report_facts(X, labels, 2, center=center, scale=scale, compare=[])
    reference = reference_pca(X, labels, 2, center=center, standardize=scale)
    pca = facts["models"][0]
    assert (pca["name"], pca["is_pca"]) == ("PCA", True)
    for key, compute in (
        ("observed_error", lambda group: group.error),
        ("observed_error_low", lambda group: group.low),
        ("observed_error_high", lambda group: group.high),
        ("observed_best_error", lambda group: group.best_error),
        ("observed_loss", lambda group: group.error - group.best_error),
        ("observed_variance_kept", lambda group: 1 - group.error / group.total_variance),
    ):
        expected = [compute(group_figures) for group_figures in reference.values()]
        np.testing.assert_allclose(group_column(pca, key), expected, rtol=1e-8, atol=1e-8)
    for group, group_figures in zip(pca["groups"], reference.values(), strict=True):
        assert group["n_rows"] == group_figures.n
        assert group["observed_total_variance"] == pytest.approx(
            group_figures.total_variance, rel=1e-9
        )


@pytest.mark.long
def test_every_criterion_says_what_its_estimator_and_the_audit_say():
    X, labels = generate_rows(2, 6)
    facts = report_facts(X, labels, 2)
    names = [model["name"] for model in facts["models"]]
    assert names == ["PCA", *map(readable_name, CRITERIA)]
    assert facts["main_model"] == names[1]
    fits = {
        readable_name(name): FairPCA(2, criterion=name).fit(X, sensitive_features=labels)
        for name in CRITERIA
    }
    models_by_name = {
        audited_model.name: audited_model for audited_model in audit(fits, X, labels).models
    }
    for name in names:
        model = model_facts(facts, name)
        expected = models_by_name[name]
        values = [group.observed_error.value for group in expected.groups]
        np.testing.assert_allclose(group_column(model, "observed_error"), values, rtol=1e-9)
        assert model["observed_total_error"] == pytest.approx(
            expected.observed_total_error, rel=1e-9
        )
        assert model["observed_disparity_low"] == pytest.approx(
            expected.observed_disparity.low, rel=1e-7
        )
    for name, fit in fits.items():
        certificate = certificate_facts(facts, name)
        assert certificate["objective"] == pytest.approx(fit.solution_.objective, rel=1e-9)
        assert certificate["status"] == str(fit.solution_.status)
        assert certificate["lower_bound"] <= certificate["objective"]
        assert certificate["gap"] <= certificate["absolute_tol"]


def test_findings_are_those_of_the_audit():
    X, labels = generate_rows(2, 5)
    facts = report_facts(X, labels, 2, compare=[], folds=5)
    fair = FairPCA(2).fit(X, sensitive_features=labels)
    expected = audit({"PCA": PCA(2).fit(X), "minimax_loss": fair}, X, labels, folds=5)
    codes = {finding["code"] for finding in facts["findings"]}
    assert codes == {finding.code for finding in expected.findings}


def test_without_rows_there_are_no_intervals_and_a_finding_says_so():
    X, labels = generate_rows(2, 5)
    moments = GroupMoments.from_rows(X, labels)
    compare = ["nash_welfare"]
    facts = report_facts(None, None, 2, moments=moments, compare=compare)
    with_rows = report_facts(X, labels, 2, compare=compare)
    assert "FS106" in [finding["code"] for finding in facts["findings"]]
    assert not facts["rows"]["has_intervals"]
    for model, model_with_rows in zip(facts["models"], with_rows["models"], strict=True):
        np.testing.assert_allclose(
            group_column(model, "observed_error"),
            group_column(model_with_rows, "observed_error"),
            rtol=1e-9,
        )
        assert {group["observed_error_low"] for group in model["groups"]} == {None}
        assert model["observed_disparity_low"] is None


def test_fits_by_dimension_are_between_the_best_possible_and_no_fit():
    X, labels = generate_rows(3, 7)
    facts = report_facts(X, labels, 3, compare=[])
    assert report_dimensions(facts) == list(range(1, 8))
    best, plain = (
        dimension_curve(facts, "PCA", key) for key in ("observed_best_error", "observed_error")
    )
    fair, losses = (
        dimension_curve(facts, "minimax loss", key) for key in ("observed_error", "observed_loss")
    )
    slack = 1e-9 * best.max()
    for d, errors in enumerate(plain, start=1):
        pca = PCA(d).fit(X)
        rows = (X - pca.inverse_transform(pca.transform(X))) ** 2
        by_group = [rows[labels == label].sum(axis=1).mean() for label in sorted(set(labels))]
        np.testing.assert_allclose(errors, by_group, rtol=1e-9, atol=1e-9)
        figures = reference_figures(X, labels, pca.components_, pca.mean_, 1.0, center="global")
        expected = [group_figures.best_error for group_figures in figures.values()]
        np.testing.assert_allclose(best[d - 1], expected, rtol=1e-8, atol=1e-8)
    assert (best <= fair + slack).all()
    assert (best <= plain + slack).all()
    np.testing.assert_allclose(losses, fair - best, atol=slack)
    worst = dimension_curve(facts, "PCA", "observed_loss").max(axis=1)
    assert (losses.max(axis=1) <= worst + slack).all()
    assert set(dimension_curve(facts, "minimax loss", "status").ravel()) == {"optimal"}


@pytest.mark.long
def test_the_frontier_holds_every_answer_and_bounds_what_can_be_reached():
    X, labels = generate_rows(2, 6)
    facts = report_facts(X, labels, 2)
    curve = facts["frontier"]
    errors = np.array(curve["observed_errors"])
    slack = curve["max_deviation"] + 1e-9
    assert (np.diff(errors[:, 0]) > 0).all()
    assert (np.diff(errors[:, 1]) < 0).all()
    for model in facts["models"]:
        # No vertex is worse in both.
        assert not (errors > group_column(model, "observed_error") + slack).all(axis=1).any()
    low = np.min(curve["observed_region"], axis=0)
    high = np.max(curve["observed_region"], axis=0)
    rng = np.random.default_rng(1)
    for _ in range(200):
        basis = np.linalg.qr(rng.normal(size=(6, 2)))[0]
        figures = reference_figures(X, labels, basis.T, X.mean(axis=0), 1.0, center="global")
        answer = np.array([group_figures.error for group_figures in figures.values()])
        assert (answer >= low - slack).all()
        assert (answer <= high + 1e-2 * high).all()
        # Below the curve nothing is reached: no vertex is worse in both.
        assert not (errors > answer + slack).all(axis=1).any()
    assert report_facts(*generate_rows(3, 4), 2, compare=[])["frontier"] is None


def test_without_a_dimension_it_is_the_fewest_that_keep_nine_tenths_of_every_group():
    X, labels = generate_rows(2, 4)
    facts = report_facts(X, labels, compare=[])
    d = facts["settings"]["n_components"]
    assert FairPCA(0.9).fit(X, sensitive_features=labels).n_components_ == d
    fewer = FairPCA(d - 1).fit(X, sensitive_features=labels)
    kept_shares = 1 - fewer.group_errors_ / [
        X[labels == g].var(axis=0).sum()
        + ((X[labels == g].mean(axis=0) - X.mean(axis=0)) ** 2).sum()
        for g in fewer.groups_
    ]
    assert (
        kept_shares.min()
        < 0.9
        <= min(group_column(model_facts(facts, "minimax loss"), "observed_variance_kept"))
    )
    assert "90 %" in facts["settings"]["dimension_choice"]
    assert report_facts(X, labels, 0.9, compare=[])["settings"] == facts["settings"]
    assert report_facts(X, labels, 1, compare=[])["settings"]["dimension_choice"] == "requested"


@pytest.mark.long
def test_weights_count_as_copies_of_rows_do():
    X, labels = generate_rows(2, 4)
    weights = np.tile([1.0, 2.0], len(X))[: len(X)]
    row_copies = np.repeat(np.arange(len(X)), weights.astype(int))
    facts = report_facts(X, labels, 2, sample_weight=weights)
    copies = report_facts(X[row_copies], labels[row_copies], 2)
    assert facts["data"]["has_weights"]
    assert not copies["data"]["has_weights"]
    for one, other in zip(facts["models"], copies["models"], strict=True):
        if one["name"] != "robust error gap":  # whose radius depends on the number of rows
            np.testing.assert_allclose(
                group_column(one, "observed_error"),
                group_column(other, "observed_error"),
                rtol=1e-6,
            )


def test_an_infeasible_criterion_is_reported_and_not_drawn():
    compare = ["disparity", "minimax_error", "equal_error"]
    facts = report_facts(*generate_rows(3, 4), 2, compare=compare)
    skipped_names = [criterion_record["name"] for criterion_record in facts["skipped_criteria"]]
    assert skipped_names == ["disparity", "equal error"]
    assert "3 groups" in facts["skipped_criteria"][0]["reason"]
    assert "disparity" not in [model["name"] for model in facts["models"]]


def test_settings_of_the_criterion_are_reported_as_used():
    X, labels = generate_rows(2, 4)
    facts = report_facts(X, labels, 2, criterion=ErrorGap(2.0), compare=["error_gap", "disparity"])
    names = [model["name"] for model in facts["models"]]
    assert names == ["PCA", "error gap (penalty=2.0)", "error gap (penalty=0.5)", "disparity"]
    assert facts["settings"]["parameters"] == {"penalty": 2.0}
    worse = np.argmax(group_column(facts["models"][0], "observed_error"))
    protected = certificate_facts(facts, "disparity")["parameters"]["protected"]
    assert protected == group_names(facts)[worse]


def test_ordinary_pca_may_be_the_main_criterion():
    facts = report_facts(*generate_rows(2, 4), 2, criterion="total_error", compare=[])
    assert facts["main_model"] == "PCA"
    assert facts["slider"]["main_step"] == facts["slider"]["pca_step"]
    by_group = report_facts(
        *generate_rows(2, 4), 2, criterion="total_error", compare=[], center="group"
    )
    assert by_group["main_model"] == by_group["models"][1]["name"] == "total error"


@pytest.mark.parametrize(
    ("settings", "error", "expected_text"),
    [
        ({"criterion": "fairest"}, InvalidParameter, "fairest"),
        ({"compare": "error_gap"}, InvalidType, "compare is"),
        ({"n_components": 0}, InvalidParameter, "n_components is 0"),
        ({"n_components": 2.5}, InvalidType, "n_components is 2.5"),
        ({"n_components": 5}, InvalidParameter, "n_components is 5"),
        ({"center": "middle"}, InvalidParameter, "middle"),
    ],
)
def test_settings_out_of_range_are_reported(settings, error, expected_text):
    with pytest.raises(error, match=expected_text):
        report_facts(*generate_rows(2, 4), **settings)


def test_a_fit_without_any_solution_is_an_error():
    X, labels = generate_rows(3, 4)
    with pytest.raises(IncompatibleParameters, match="3 groups"):
        report_facts(X, labels, 2, criterion="disparity")
    with pytest.raises(InvalidInput, match="one group"):
        report_facts(X, np.repeat("all", len(X)), 2)


@pytest.mark.long
def test_the_list_of_many_feature_names_is_cut_and_the_report_is_not(tmp_path):
    X = np.random.default_rng(0).normal(size=(24, 1_001))
    page = tmp_path / "page.html"
    options = {"n_components": 2, "criterion": "total_error", "compare": [], "folds": None}
    facts = fs.write_report(page, X, [*"ab"] * 12, **options)
    assert len(facts["data"]["feature_names"]) == 1_001
    assert 2 in report_dimensions(facts)
    assert len(report_dimensions(facts)) <= 5
    text = page.read_text(encoding="utf-8")
    names = text.partition('<ul class="names">')[2].partition("</ul>")[0]
    assert names.count("<li>") == 1_000
    assert "1,001 features" in text


@pytest.mark.parametrize("k", [2, 3])
def test_more_dimensions_are_compared_with_two_groups(k):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40 * k, 18))
    labels = np.repeat([*"abc"[:k]], 40)
    facts = report_facts(X, labels, 2, criterion="total_error", compare=[])
    n_dimensions = len(report_dimensions(facts))
    assert n_dimensions == 18 if k == 2 else 8 <= n_dimensions <= 16


def test_very_few_rows_have_no_estimates_at_any_dimension():
    X = np.random.default_rng(0).normal(size=(4, 3))
    facts = report_facts(X, [*"aabb"], 1, compare=[], folds=10)
    assert {group["expected_loss"] for group in facts["models"][0]["groups"]} == {None}
    assert {record["expected_loss"] for record in facts["by_dimension"]} == {None}


COMPARED = ["minimax_error"]


@pytest.mark.long
@pytest.mark.parametrize(("k", "p", "d"), [(2, 30, 8), (2, 2, 1), (3, 30, 8), (12, 6, 2)])
def test_it_is_never_larger_than_a_page_can_show(k, p, d):
    slider = report_facts(*generate_rows(k, p), d, compare=COMPARED)["slider"]
    assert 1 <= len(slider["steps"]) <= 40
    assert len(slider["features"]) == min(p, 20)
    for point in slider["steps"]:
        loadings = np.array(point["components"])
        assert loadings.shape == (min(point["n_components"], 5), min(p, 20))
        assert len(point["observed_variances"]) == len(loadings)
        assert (
            len(point["observed_errors"])
            == len(point["observed_losses"])
            == len(point["observed_variance_kept"])
            == k
        )


def test_each_step_of_the_frontier_has_the_errors_of_its_components():
    X, labels = generate_rows(2, 6)
    facts = report_facts(X, labels, 2, compare=COMPARED)
    slider = facts["slider"]
    assert slider["features"] == [f"feature {i}" for i in range(6)]
    for point in slider["steps"]:
        components = np.array(point["components"])
        reference = reference_figures(X, labels, components, X.mean(axis=0), 1.0, center="global")
        errors = [group_figures.error for group_figures in reference.values()]
        np.testing.assert_allclose(point["observed_errors"], errors, rtol=2e-3)
        kept_shares = [
            1 - group_figures.error / group_figures.total_variance
            for group_figures in reference.values()
        ]
        np.testing.assert_allclose(point["observed_variance_kept"], kept_shares, atol=2e-3)
        best = [group_figures.best_error for group_figures in reference.values()]
        np.testing.assert_allclose(
            point["observed_losses"], np.array(point["observed_errors"]) - best, atol=1e-8
        )
        variances = ((X - X.mean(axis=0)) @ components.T).var(axis=0)
        np.testing.assert_allclose(point["observed_variances"], variances, rtol=2e-3)
    first = np.array([point["observed_errors"] for point in slider["steps"]])
    assert (np.diff(first[:, 0] - first[:, 1]) > 0).all()


@pytest.mark.parametrize(
    "criterion",
    [
        "minimax_loss",
        pytest.param("equal_error", marks=pytest.mark.slow),
        "disparity",
        pytest.param("total_error", marks=pytest.mark.slow),
    ],
)
def test_pca_and_the_main_answer_are_steps_of_their_own(criterion):
    facts = report_facts(*generate_rows(2, 5), 2, criterion=criterion, compare=[])
    slider = facts["slider"]
    points = facts["slider"]["steps"]
    main = model_facts(facts, facts["main_model"])
    assert (
        points[slider["main_step"]]["observed_errors"]
        == group_column(main, "observed_error").tolist()
    )
    np.testing.assert_allclose(
        points[slider["pca_step"]]["observed_errors"],
        group_column(facts["models"][0], "observed_error"),
        rtol=1e-9,
    )
    assert points[slider["main_step"]]["label"] == main["name"]
    assert points[slider["pca_step"]]["label"].startswith("PCA")


def test_equal_answers_share_one_step():
    rows = np.vstack([np.eye(3), np.eye(3)]) * [3, 2, 1]
    slider = report_facts(rows, ["a"] * 3 + ["b"] * 3, 1, compare=[])["slider"]
    assert [point["label"] for point in slider["steps"]] == ["PCA, minimax loss"]
    assert (slider["main_step"], slider["pca_step"]) == (0, 0)


def test_over_the_dimension_it_starts_at_the_one_that_was_requested():
    facts = report_facts(*generate_rows(3, 6), 4, compare=COMPARED)
    slider = facts["slider"]
    assert [point["n_components"] for point in slider["steps"]] == report_dimensions(facts)
    assert slider["steps"][slider["main_step"]]["n_components"] == 4
    fair = dimension_curve(facts, "minimax loss", "observed_error").tolist()
    assert [point["observed_errors"] for point in slider["steps"]] == fair
    assert slider["pca_step"] is None


@pytest.mark.parametrize("k", [2, 3])
def test_neighboring_steps_have_components_of_the_same_sign_and_order(k):
    points = report_facts(*generate_rows(k, 6, seed=3), 3, compare=COMPARED)["slider"]["steps"]
    for step, next_step in pairwise(points):
        m = min(len(step["components"]), len(next_step["components"]))
        agreement = np.array(step["components"][:m]) @ np.array(next_step["components"][:m]).T
        assert (np.diag(agreement) >= -1e-3).all()
