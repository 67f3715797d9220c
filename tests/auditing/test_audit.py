import json
from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA, IncrementalPCA, TruncatedSVD

from fairspan import FairPCA, GroupMoments, audit
from fairspan.errors import (
    IncompatibleParameters,
    InvalidInput,
    InvalidParameter,
    InvalidType,
    UnknownGroup,
)

RNG = np.random.default_rng(0)
X = np.vstack(
    [
        RNG.standard_normal((90, 5)) * [3, 1, 1, 0.5, 0.2] + 4,
        RNG.standard_normal((60, 5)) * [0.5, 2, 1, 1, 0.2] + 3,
    ]
)
GROUPS = np.repeat(["a", "b"], [90, 60])


def reconstruction_errors(model, rows=X, groups=GROUPS):
    """Return errors of the reconstructions by the model's own transforms."""
    squares = ((rows - model.inverse_transform(model.transform(rows))) ** 2).sum(axis=1)
    return {label: squares[groups == label].mean() for label in np.unique(groups)}


@cache
def fit_model(n_components=2, **settings):
    return FairPCA(n_components, **settings).fit(X, sensitive_features=GROUPS)


MODELS = {
    "pca": PCA(2),
    "whitened": PCA(2, whiten=True),
    "incremental": IncrementalPCA(2, batch_size=50),
    "svd": TruncatedSVD(2, algorithm="arpack"),
    "fair": FairPCA(2),
    "error": FairPCA(2, criterion="minimax_error"),
    "uncentred": FairPCA(2, center="none"),
}


@pytest.fixture(scope="module")
def fitted_models():
    """Every model by name, fitted to the same rows."""
    return {
        name: clone(model).fit(
            X, **({"sensitive_features": GROUPS} if isinstance(model, FairPCA) else {})
        )
        for name, model in MODELS.items()
    }


@pytest.fixture(scope="module")
def audited_models(fitted_models):
    """One audit of all of them."""
    return {model.name: model for model in audit(fitted_models, X, GROUPS, folds=None).models}


@pytest.mark.parametrize("name", MODELS)
def test_errors_are_those_of_the_models_own_reconstruction(name, fitted_models, audited_models):
    expected = reconstruction_errors(fitted_models[name])
    for group in audited_models[name].groups:
        assert group.observed_error.value == pytest.approx(expected[group.group], rel=1e-9)


@pytest.mark.parametrize(
    ("models", "names"),
    [
        (
            lambda: {"2": fit_model(), "3": fit_model(n_components=3)},
            ["2", "3", "PCA d=2", "PCA d=3"],
        ),
        (
            lambda: {"a": fit_model(scale=True), "b": fit_model()},
            ["a", "b", "PCA scaled", "PCA unscaled"],
        ),
        (lambda: fit_model(criterion="total_error"), ["PCA"]),
        (lambda: fit_model().components_, ["array"]),
        (lambda: fit_model().subspace_, ["minimax loss", "PCA"]),
    ],
    ids=["dimensions", "scales", "PCA itself", "array", "subspace"],
)
def test_plain_pca_is_added_for_fair_models_and_named_by_what_differs(models, names):
    assert [model.name for model in audit(models(), X, GROUPS, folds=None).models] == names


def test_a_saved_model_is_compared_with_plain_pca_of_the_audited_rows(tmp_path):
    held_out = np.arange(150) % 3 == 0
    saved = tmp_path / "fair.model"
    fair = FairPCA(2).fit(X[~held_out], sensitive_features=GROUPS[~held_out])
    fair.subspace_.save(saved)
    rows, labels = X[held_out], GROUPS[held_out]
    result = audit(saved, rows, labels)
    assert result.verdict.kind != "harm, no repair tried"
    moments = GroupMoments.from_rows(rows, labels)
    for audited in (result, audit(saved, moments=moments)):
        _, pca = audited.models
        expected = PCA(2).fit(rows)
        residuals = rows - expected.inverse_transform(expected.transform(rows))
        for group in pca.groups:
            error = (residuals[group.group == labels] ** 2).sum(axis=1).mean()
            assert group.observed_error.value == pytest.approx(error)


def test_plain_pca_is_added_once_for_each_center(audited_models):
    assert list(audited_models) == [*MODELS, "PCA center=global", "PCA center=none"]


def test_figures_agree_with_numpy():
    fair = fit_model()
    model = audit(fair, X, GROUPS, folds=None).models[0]
    for group in model.groups:
        centered_rows = X[group.group == GROUPS] - X.mean(axis=0)
        eigenvalues = np.linalg.svd(centered_rows, compute_uv=False) ** 2 / len(centered_rows)
        assert group.n_rows == len(centered_rows)
        assert group.proportion == pytest.approx(len(centered_rows) / 150)
        assert group.observed_total_variance == pytest.approx(eigenvalues.sum())
        assert group.observed_best_error == pytest.approx(eigenvalues[2:].sum())
        assert group.observed_loss == pytest.approx(
            group.observed_error.value - eigenvalues[2:].sum()
        )
        assert group.observed_variance_kept == pytest.approx(
            1 - group.observed_error.value / eigenvalues.sum()
        )
    assert model.observed_disparity.value == pytest.approx(fair.disparity_)
    assert [group.observed_loss for group in model.groups] == pytest.approx(
        fair.group_losses_.tolist()
    )


def test_group_center_is_evaluated_about_each_groups_own_mean():
    fair = fit_model(center="group")
    fair_model, plain = audit(fair, X, GROUPS, folds=None).models
    assert [group.observed_error.value for group in fair_model.groups] == pytest.approx(
        fair.group_errors_.tolist()
    )
    # Plain PCA is still what scikit-learn fits on all rows, evaluated about the same points.
    basis = PCA(2).fit(X).components_
    for group in plain.groups:
        rows = X[group.group == GROUPS]
        rows = rows - rows.mean(axis=0)
        expected = ((rows - rows @ basis.T @ basis) ** 2).sum(axis=1).mean()
        assert group.observed_error.value == pytest.approx(expected)


def test_scaled_model_is_evaluated_in_scaled_units():
    fair = fit_model(scale=True)
    fair_model, plain = audit(fair, X, GROUPS, folds=None).models
    assert [group.observed_error.value for group in fair_model.groups] == pytest.approx(
        fair.group_errors_.tolist()
    )
    standardized = (X - X.mean(axis=0)) / X.std(axis=0)
    expected = reconstruction_errors(PCA(2).fit(standardized), standardized)
    assert {g.group: g.observed_error.value for g in plain.groups} == pytest.approx(expected)


def test_held_out_rows_use_the_training_mean():
    fair = fit_model()
    test = X[::3] + 0.5
    model = audit(fair, test, GROUPS[::3], folds=None).models[0]
    expected = reconstruction_errors(fair, test, GROUPS[::3])
    assert {g.group: g.observed_error.value for g in model.groups} == pytest.approx(expected)
    assert not model.in_sample
    assert audit(fair, X, GROUPS, folds=None).models[0].in_sample


def test_moments_stand_in_for_rows_without_intervals():
    moments = GroupMoments.from_rows(X, GROUPS)
    by_rows = audit(fit_model(), X, GROUPS, folds=None).to_records()
    by_moments = audit(fit_model(), moments=moments).to_records()
    for row, moment in zip(by_rows, by_moments, strict=True):
        assert moment["observed_error_low"] is None
        for name in (
            "observed_error",
            "observed_best_error",
            "observed_loss",
            "observed_disparity",
        ):
            assert moment[name] == pytest.approx(row[name], rel=1e-9)


def test_frame_is_the_data_and_printing_shows_one_table():
    result = audit({"fair": fit_model(), "sklearn": PCA(2).fit(X)}, X, GROUPS, folds=5)
    frame = result.frame()
    assert isinstance(frame, pd.DataFrame)
    assert frame[["model", "group"]].to_numpy().tolist() == [
        [m, g] for m in ("fair", "sklearn", "PCA") for g in ("a", "b")
    ]
    assert frame["n_rows"].tolist() == [90, 60] * 3
    text = str(result)
    assert text.count("variance") >= 1
    assert all(name in text for name in ("fair:", "sklearn:", "PCA:", "larger than of"))
    assert max(map(len, text.splitlines())) <= 80
    json.dumps(result.to_dict(), allow_nan=False)


def test_rounding_is_printed_as_zero():
    equal = fit_model(criterion="equal_error")
    text = audit({"equal": equal}, X, GROUPS, folds=None).table().to_text(80)
    model = text[text.index("equal:") : text.index("PCA:")]
    sentence = "largest difference in error between groups 0.0 % of the variance of all rows ("
    assert sentence in " ".join(model.split())


def test_groups_of_two_columns_are_their_intersections():
    second = np.tile(["x", "y", "y"], 50)
    table = np.column_stack([GROUPS, second])
    model = audit(PCA(1).fit(X), X, table, folds=None).models[0]
    assert [group.group for group in model.groups] == [
        ("a", "x"), ("a", "y"), ("b", "x"), ("b", "y"),
    ]  # fmt: skip


def test_any_number_of_groups_is_audited():
    labels = np.array([f"g{i % 7}" for i in range(150)])
    total = FairPCA(2, criterion="total_error").fit(X, sensitive_features=labels)
    model = audit(total, X, labels, folds=None).models[0]
    expected = reconstruction_errors(PCA(2).fit(X), X, labels)
    assert {g.group: g.observed_error.value for g in model.groups} == pytest.approx(expected)
    values = list(expected.values())
    assert model.observed_disparity.value == pytest.approx(max(values) - min(values))


def broken_rows():
    broken = X.copy()
    broken[7, 3] = np.nan
    return broken


def moments_of(*labels):
    is_selected = np.isin(GROUPS, labels)
    return GroupMoments.from_rows(X[is_selected], GROUPS[is_selected])


@cache
def plain_pca():
    return PCA(2).fit(X)


@pytest.mark.parametrize(
    ("call", "error", "expected_text"),
    [
        (
            lambda: audit(fit_model(), X, np.where(GROUPS == "a", "a", "c")),
            UnknownGroup,
            r"'c'.*'a', 'b'",
        ),
        (lambda: audit(fit_model(), X, np.repeat([1, 2], 75)), UnknownGroup, "'a', 'b'"),
        (lambda: audit(fit_model()), InvalidInput, "neither"),
        (lambda: audit(fit_model(), X, moments=moments_of("a", "b")), InvalidInput, "both"),
        (lambda: audit(plain_pca(), X), InvalidInput, "sensitive_features is missing"),
        *(
            (lambda model=model: audit(model, X, GROUPS), InvalidType, "fitted models")
            for model in (PCA(2), FairPCA(2), object(), None, "pca")
        ),
        (lambda: audit({}, X, GROUPS), InvalidInput, "empty mapping"),
        (lambda: audit(np.ones((2, 5)), X, GROUPS), InvalidInput, "orthonormal"),
        (
            lambda: audit({"1": plain_pca(), "2": np.eye(3)[:1]}, X, GROUPS),
            InvalidInput,
            "different features",
        ),
        (lambda: audit(fit_model(), X[:, :4], GROUPS), InvalidInput, "4 features"),
        (
            lambda: audit(fit_model(), broken_rows(), GROUPS),
            InvalidInput,
            r"row 8 \(index 7\), column 4 \(index 3\)",
        ),
        (lambda: audit(fit_model(), moments={}), InvalidType, "moments is a dict"),
        (
            lambda: audit(fit_model(), moments=[moments_of("a"), moments_of("b")]),
            InvalidInput,
            "only one of the 2 blocks",
        ),
    ],
)
def test_models_that_cannot_be_audited_are_refused(call, error, expected_text):
    with pytest.raises(error, match=expected_text):
        call()


def test_a_model_may_have_the_group_among_its_features():
    frame = pd.DataFrame(X, columns=list("vwxyz")).assign(sex=(GROUPS == "b").astype(float))
    model = PCA(2).fit(frame)
    by_name = audit(model, frame, "sex", folds=None).to_records()
    by_labels = audit(model, frame, frame["sex"].to_numpy(), folds=None).to_records()
    assert by_name == by_labels


def test_pca_about_each_groups_own_mean_is_not_ordinary_pca():
    within = fit_model(criterion="total_error", center="group")
    within_model, plain = audit(within, X, GROUPS, folds=None).models
    assert (within_model.name, plain.name, within_model.baseline) == ("total error", "PCA", "PCA")
    assert within_model.observed_total_error < plain.observed_total_error


@pytest.mark.slow
def test_the_verdict_of_most_fold_assignments_is_reported():
    rows = X[::3]
    groups = GROUPS[::3]
    axes = np.eye(5)[1:3]
    result = audit(axes, rows, groups, folds=5, repeats=3)
    single_results = [audit(axes, rows, groups, folds=5, random_state=5 * i) for i in range(3)]
    kinds = [single.verdict.kind for single in single_results]
    majority = max(kinds, key=kinds.count)
    verdict = result.verdict
    assert (verdict.kind, verdict.n_agreeing, verdict.n_repeats) == (
        majority,
        kinds.count(majority),
        3,
    )
    assert result.to_records() == single_results[kinds.index(majority)].to_records()


@pytest.mark.slow
def test_a_verdict_counts_the_agreeing_fold_assignments():
    X = np.random.default_rng(0).normal(size=(360, 6)) * np.sqrt([4.0, 2, 0.9, 0.4, 0.4, 0.4])
    X[:60] = X[:60][:, [0, 2, 1, 3, 4, 5]]
    groups = np.repeat(["few", "many"], [60, 300])
    model = FairPCA(2).fit(X, sensitive_features=groups)
    result = audit(model, X, groups, repeats=6)
    # Seeds between are those of further assignments of one audit.
    single_results = [audit(model, X, groups, random_state=10 * number) for number in range(6)]
    kinds = [single.verdict.kind for single in single_results]
    assert len(set(kinds)) > 1
    majority = max(kinds, key=kinds.count)
    assert (result.verdict.kind, result.verdict.n_agreeing, result.verdict.n_repeats) == (
        majority,
        kinds.count(majority),
        6,
    )
    assert result.to_records() == single_results[kinds.index(majority)].to_records()
    assert f"(in {kinds.count(majority)} of 6 fold assignments)" in str(result.verdict)
    single_result = audit(model, X, groups)
    assert "assignments" not in str(single_result)


def test_repeats_need_rows_and_folds():
    X = np.eye(12)
    groups = ["a", "b"] * 6
    model = FairPCA(2).fit(X, sensitive_features=groups)
    with pytest.raises(IncompatibleParameters, match="repeats is 2, but folds is None"):
        audit(model, X, groups, folds=None, repeats=2)
    with pytest.raises(InvalidInput, match="repeats is 2, but moments were given"):
        audit(model, moments=model.moments_, repeats=2)
    with pytest.raises(InvalidParameter, match="repeats"):
        audit(model, X, groups, repeats=0)
