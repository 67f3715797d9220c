"""Mean parity among the rows of each class of y, wherever the rows are."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fairspan import FairPCA, GroupMoments, MeanParity, audit, verify
from fairspan.errors import IncompatibleParameters, InvalidInput, InvalidParameter
from real_data import data_path

PARITY_WITHIN_CLASSES = MeanParity(within_classes="all")


def table(seed=0, n=240, p=8, k=2, m=2):
    """Rows whose means depend on group and class, and classes that depend on the group."""
    rng = np.random.default_rng(seed)
    groups = rng.integers(k, size=n)
    y = (groups * (rng.random(n) < 0.4) + rng.integers(m, size=n)) % m
    X = (
        rng.standard_normal((n, p)) * np.linspace(1, 3, p)
        + rng.standard_normal((k, m, p))[groups, y]
    )
    return X + 2, groups, y


def fit(
    X,
    groups,
    y,
    d=2,
    restriction=PARITY_WITHIN_CLASSES,
    criterion="total_error",
    weights=None,
    **settings,
):
    model = FairPCA(d, criterion=criterion, restriction=restriction, **settings)
    return model.fit(X, y, sensitive_features=groups, sample_weight=weights)


def reference_variance(X, groups, y, d, classes, weights=None):
    """Return the largest variance of d directions along which each class has equal means."""
    w = np.ones(len(X)) if weights is None else weights
    differences = []
    for label in classes:
        means = [
            np.average(X[in_cell], axis=0, weights=w[in_cell])
            for in_cell in ((groups == g) & (y == label) for g in np.unique(groups))
            if in_cell.any()
        ]
        differences += [mean - means[0] for mean in means[1:]]
    _, sizes, rows = np.linalg.svd(np.array(differences))
    free = rows[int((sizes > 1e-10).sum()) :].T
    X = X - np.average(X, axis=0, weights=w)
    S = X.T @ (w[:, None] * X) / w.sum()
    return np.trace(S) - np.linalg.eigvalsh(free.T @ S @ free)[-d:].sum()


def spread_of_means(Z, groups, y, label, weights=None):
    w = np.ones(len(Z)) if weights is None else weights
    rows = [(groups == g) & (y == label) for g in np.unique(groups)]
    return np.ptp(
        [np.average(Z[in_cell], axis=0, weights=w[in_cell]) for in_cell in rows], axis=0
    ).max()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("within_classes", ["all", [1], [0, 2]])
@pytest.mark.parametrize("k", [2, 3])
def test_the_optimum_over_all_rows_with_equal_means_in_each_class(k, within_classes, weighted):
    X, groups, y = table(k, p=10, k=k, m=3)
    weights = np.random.default_rng(1).uniform(0.5, 2, len(X)) if weighted else None
    model = fit(
        X, groups, y, restriction=MeanParity(within_classes=within_classes), weights=weights
    )
    classes = [0, 1, 2] if within_classes == "all" else within_classes
    expected = reference_variance(X, groups, y, 2, classes, weights)
    assert model.solution_.objective == pytest.approx(expected, rel=1e-10)
    assert model.solution_.status == "optimal"
    Z = model.transform(X)
    for label in range(3):
        differs = spread_of_means(Z, groups, y, label, weights)
        assert (differs <= 1e-10) == (label in classes)
    # Errors and moments are those of the groups, whatever their classes.
    plain = GroupMoments.from_rows(X, groups, weights)
    np.testing.assert_allclose(model.moments_.means, plain.means, rtol=1e-12)
    np.testing.assert_allclose(model.moments_.scatters, plain.scatters, rtol=1e-10)
    assert model.groups_.tolist() == list(range(k))
    assert verify(model, X, groups, sample_weight=weights, y=y).holds


@pytest.mark.parametrize("criterion", ["minimax_loss", "minimax_error", "error_gap"])
def test_any_criterion(criterion):
    X, groups, y = table(3)
    model = fit(X, groups, y, criterion=criterion)
    assert model.solution_.status == "optimal"
    assert max(spread_of_means(model.transform(X), groups, y, label) for label in (0, 1)) <= 1e-10
    errors = -model.score_samples(X)
    np.testing.assert_allclose(
        model.group_errors_, [errors[groups == g].mean() for g in (0, 1)], rtol=1e-9
    )


def test_several_attributes_and_oblique_parity():
    X, first, y = table(4, n=500, p=12)
    attributes = np.column_stack([first, np.random.default_rng(4).integers(3, size=500)])
    parity = MeanParity(within_classes="all", attributes="marginal", oblique=True)
    model = fit(X, attributes, y, restriction=parity)
    for column in attributes.T:
        for label in (0, 1):
            assert spread_of_means(model.transform(X), column, y, label) <= 1e-10
    assert verify(model, X, attributes, y=y).holds
    crossed = fit(X, attributes, y, restriction=MeanParity(within_classes=[0]))
    joint = attributes @ [3, 1]
    assert spread_of_means(crossed.transform(X), joint, y, 0) <= 1e-10


LABELS = {
    "array": (np.asarray, np.asarray),
    "texts": (
        lambda groups: [f"g{group}" for group in groups],
        lambda y: [f"c{label}" for label in y],
    ),
    "series": (pd.Series, pd.Series),
    "truth values": (np.asarray, lambda y: np.asarray(y) == 1),
}


@pytest.mark.parametrize("kind", LABELS)
def test_every_kind_of_labels(kind):
    X, groups, y = table(5)
    of_groups, of_classes = LABELS[kind]
    model = fit(X, of_groups(groups), of_classes(y))
    expected = fit(X, groups, y)
    np.testing.assert_allclose(model.components_, expected.components_, atol=1e-12)


def frame_of(X, groups, y):
    columns = {f"x{i}": column for i, column in enumerate(X.T)}
    return pd.DataFrame({**columns, "sex": groups, "hired": y})


@pytest.mark.slow
def test_rows_of_every_kind_have_the_same_answer(tmp_path):
    array_api_strict = pytest.importorskip("array_api_strict")
    pl = pytest.importorskip("polars")
    X, groups, y = table(6)
    frame = frame_of(X, groups, y)
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=50)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    expected = fit(X, groups, y).components_
    tables = (frame, pl.from_pandas(frame), tmp_path / "rows.parquet", tmp_path / "rows.csv")
    for rows, of_groups, of_classes in (
        *((table_or_rows, "sex", "hired") for table_or_rows in tables),
        *(
            (table_or_rows, groups, y)
            for table_or_rows in (array_api_strict.asarray(X), scipy.sparse.csr_array(X))
        ),
        (frame.drop(columns="hired"), "sex", frame["hired"]),
        (frame.drop(columns="sex"), groups, "hired"),
    ):
        model = fit(rows, of_groups, of_classes)
        np.testing.assert_allclose(model.components_, expected, atol=1e-10)
        assert model.n_features_in_ == 8
        assert verify(model, rows, of_groups, y=of_classes).holds
    reduced = fit(frame, "sex", "hired").transform(frame)
    np.testing.assert_allclose(reduced, fit(X, groups, y).transform(X), atol=1e-9)


@pytest.mark.slow
def test_a_dask_frame():
    dd = pytest.importorskip("dask.dataframe")
    X, groups, y = table(6)
    rows = dd.from_pandas(frame_of(X, groups, y), npartitions=3)
    model = fit(rows, "sex", "hired")
    np.testing.assert_allclose(model.components_, fit(X, groups, y).components_, atol=1e-10)
    with pytest.raises(InvalidInput, match=r"y contains values.*not in memory"):
        model.fit(rows[[f"x{i}" for i in range(8)] + ["sex"]], y, sensitive_features=["sex"])


def test_parts_merge_and_are_saved(tmp_path):
    X, groups, y = table(7, k=3)
    moments = GroupMoments.from_rows(X, groups, y=y)
    parts = [GroupMoments.from_rows(X[i::3], groups[i::3], y=y[i::3]) for i in range(3)]
    total = sum(parts)
    for one, other in ((moments, total), (moments.by_class, total.by_class)):
        assert one.labels == other.labels
        np.testing.assert_array_equal(one.counts, other.counts)
        np.testing.assert_allclose(one.means, other.means, rtol=1e-12)
        np.testing.assert_allclose(one.scatters, other.scatters, rtol=1e-9)
    pairs = sorted(set(zip(groups.tolist(), y.tolist(), strict=True)))
    assert moments.by_class.labels == pairs
    total.save(tmp_path / "out")
    copy = GroupMoments.load(tmp_path / "out")
    np.testing.assert_array_equal(copy.scatters, total.scatters)
    np.testing.assert_array_equal(copy.by_class.means, total.by_class.means)
    assert GroupMoments.from_bytes(copy.to_bytes()).by_class.labels == pairs
    model = FairPCA(2, criterion="total_error", restriction=PARITY_WITHIN_CLASSES).fit_moments(copy)
    expected = reference_variance(X, groups, y, 2, [0, 1])
    assert model.solution_.objective == pytest.approx(expected, rel=1e-9)
    assert verify(model, copy).holds
    with pytest.raises(InvalidInput, match="has classes of y"):
        total + GroupMoments.from_rows(X, groups)
    halves = copy.select_features([2, 0])
    np.testing.assert_array_equal(halves.by_class.means, copy.by_class.means[:, [2, 0]])


def test_small_classes_are_not_shown_to_others():
    X, groups, y = table(8, n=100)
    y[:] = 0
    y[:7] = 1
    moments = GroupMoments.from_rows(X, groups, y=y)
    assert moments.drop_small_groups(10).by_class is None
    assert moments.drop_small_groups(1).by_class.n_groups == moments.by_class.n_groups


def test_a_pipeline_passes_y_on():
    X, groups, y = table(11)
    steps = make_pipeline(
        StandardScaler(), FairPCA(2, criterion="total_error", restriction=PARITY_WITHIN_CLASSES)
    )
    Z = steps.fit(X, y, fairpca__sensitive_features=groups).transform(X)
    assert max(spread_of_means(Z, groups, y, label) for label in (0, 1)) <= 1e-10


@pytest.mark.parametrize("folds", [pytest.param(5, marks=pytest.mark.slow), None])
def test_an_audit_with_labels_fits_again_with_them(folds):
    X, groups, y = table(12)
    model = fit(X, groups, y)
    result = audit(model, X, groups, y=y, folds=folds)
    assert result.models[0].no_estimates_reason is None
    rows_alone = np.array(frame_of(X, groups, y).to_numpy()[:, :8], order="C")
    assert audit(model, rows_alone, groups, y=y, folds=folds).models == result.models
    without = audit(model, X, groups, folds=folds)
    if folds is not None:
        assert result.models[0].groups[0].is_estimated
        assert "y is missing" in without.models[0].no_estimates_reason
        clusters = np.arange(len(X)) // 2
        together = audit(model, X, groups, y=y, clusters=clusters, folds=5)
        assert together.models[0].no_estimates_reason is None
    frame = frame_of(X, groups, y)
    model = FairPCA(2, criterion="total_error", restriction=PARITY_WITHIN_CLASSES)
    model.fit(frame, "hired", sensitive_features="sex")
    model_audit = audit(model, frame, "sex", y="hired", folds=folds).models[0]
    errors = [group.observed_error.value for group in model_audit.groups]
    np.testing.assert_allclose(errors, model.group_errors_, rtol=1e-9)


def test_invalid_arguments_are_refused():
    X, groups, y = table(13)
    missing = np.where(np.arange(len(y)) == 3, np.nan, y)
    for classes, settings, kind, words in (
        (None, {}, InvalidInput, r"y is missing.*Pass y"),
        (
            y,
            {"restriction": MeanParity(within_classes=[1, 7])},
            InvalidInput,
            r"names 7, .*0, 1",
        ),
        (y[1:], {}, InvalidInput, r"240 rows.*239"),
        (missing, {}, InvalidInput, "missing"),
        (X[:, 0], {}, InvalidInput, "identifier or a continuous variable"),
        (y, {"d": 7}, IncompatibleParameters, "at most 6"),
        (y, {"max_groups": 1}, InvalidInput, "max_groups is 1"),
    ):
        with pytest.raises(kind, match=words):
            fit(X, groups, classes, **settings)
    with pytest.raises(InvalidInput, match="y to fit, audit, verify"):
        FairPCA(restriction=PARITY_WITHIN_CLASSES).fit_moments(GroupMoments.from_rows(X, groups))
    for wrong in ("some", [], 1):
        with pytest.raises(InvalidParameter, match="within_classes is"):
            MeanParity(within_classes=wrong)
    with pytest.raises(IncompatibleParameters, match=r"within_classes='all'.*tolerance=0"):
        MeanParity(0.1, within_classes="all")
    result = verify(fit(X, groups, y), X, groups)
    assert not result.holds
    assert "y is missing" in result.messages[0]


def test_one_group_and_groups_that_are_ignored():
    X, _, y = table(14)
    pca = FairPCA(2, criterion="total_error", missing_groups="ignore").fit(X)
    model = FairPCA(
        2, criterion="total_error", missing_groups="ignore", restriction=PARITY_WITHIN_CLASSES
    )
    np.testing.assert_allclose(model.fit(X, y).components_, pca.components_, atol=1e-10)
    with pytest.warns(UserWarning, match="one group"):
        fit(X, np.zeros(len(X), dtype=int), y)


def test_the_limit_of_groups_is_one_of_groups():
    assert fit(*table(15, k=2, m=3), max_groups=2).n_components_ == 2


def test_rows_fewer_than_their_features_are_fitted_with_matrices():
    X, groups, y = table(17, n=80, p=520)
    model = fit(X, groups, y)
    expected = reference_variance(X, groups, y, 2, [0, 1])
    assert model.solution_.objective == pytest.approx(expected, rel=1e-9)


@pytest.mark.slow
def test_adult_by_sex_given_income():
    frame = pd.read_parquet(data_path("adult_train.parquet"))
    X = frame[[name for name in frame.columns if "__" not in name]].to_numpy(dtype=np.float64)
    X = X[:, X.std(axis=0) > 0]
    groups = frame["group__sex"].to_numpy()
    y = frame["label__income_gt_50k"].to_numpy()
    model = fit(X, groups, y, d=10, scale=True)
    assert model.solution_.status == "optimal"
    Z = model.transform(X)
    assert max(spread_of_means(Z, groups, y, label) for label in np.unique(y)) <= 1e-10
    scaled = (X - model.mean_) / model.scale_
    expected = reference_variance(scaled, groups, y, 10, np.unique(y))
    assert model.solution_.objective == pytest.approx(expected, rel=1e-9)
