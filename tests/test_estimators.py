"""FairPCA's figures against numpy, fits that must agree, and data frames in and out."""

import inspect

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from fairspan import FairPCA, GroupMoments, MeanParity
from fairspan.errors import FairspanWarning, InvalidInput
from numpy_reference import assert_moments, projector_distance, random_rows, reference_errors

ROWS = random_rows(31, n=120, p=6)
THREE = random_rows(32, n=120, p=6, groups=("c", "a", "b"))
CENTERS = pytest.mark.parametrize("center", ["global", "group", "none"])
CRITERIA = pytest.mark.parametrize("criterion", ["minimax_loss", "minimax_error", "total_error"])
WEIGHTED = pytest.mark.parametrize("weighted", [False, True])


def fit(rows=ROWS, n_components=2, weights=None, **settings):
    estimator = FairPCA(n_components, **settings)
    return estimator.fit(rows.X, sensitive_features=rows.labels, sample_weight=weights)


@WEIGHTED
@CENTERS
@CRITERIA
def test_group_errors_are_those_of_the_rows(criterion, center, weighted):
    weights = ROWS.weights if weighted else np.ones(120)
    model = fit(weights=weights, criterion=criterion, center=center)
    mean = np.average(ROWS.X, axis=0, weights=weights)
    point = {"global": mean, "group": None, "none": np.zeros(6)}[center]
    np.testing.assert_allclose(model.mean_, point if center == "none" else mean, atol=1e-12)
    V = model.components_
    np.testing.assert_allclose(V @ V.T, np.eye(2), atol=1e-12)
    assert model.groups_.tolist() == ["a", "b"]
    errors = reference_errors(ROWS.X, ROWS.labels, V, point, weights)
    np.testing.assert_allclose(model.group_errors_, errors, rtol=1e-10)
    assert model.disparity_ == pytest.approx(errors[1] - errors[0])
    best = []
    centered = ROWS.X.copy()
    for i, label in enumerate("ab"):
        in_group = ROWS.labels == label
        centered[in_group] -= (
            np.average(centered[in_group], 0, weights[in_group]) if point is None else point
        )
        rows = centered[in_group] * np.sqrt(weights[in_group] / weights[in_group].sum())[:, None]
        best.append((np.linalg.svd(rows, compute_uv=False)[2:] ** 2).sum())
        ratios = ((rows @ V.T) ** 2).sum(axis=0) / (rows**2).sum()
        np.testing.assert_allclose(model.group_explained_variance_ratio_[i], ratios, rtol=1e-10)
    along = np.average((centered @ V.T) ** 2, axis=0, weights=weights)
    total = np.average((centered**2).sum(axis=1), weights=weights)
    np.testing.assert_allclose(model.explained_variance_, along)
    np.testing.assert_allclose(model.explained_variance_ratio_, along / total)
    assert (np.diff(along) <= 0).all()
    np.testing.assert_allclose(model.group_losses_, errors - best, rtol=1e-9, atol=1e-9)
    value = {"minimax_loss": max(errors - best), "minimax_error": max(errors)}.get(
        criterion,
        np.average(errors, weights=[weights[ROWS.labels == group].sum() for group in "ab"]),
    )
    assert model.solution_.objective == pytest.approx(value, rel=1e-9)
    assert model.solution_.status == "optimal"


def test_attributes_have_the_documented_shapes():
    model = fit(THREE, n_components=2, criterion="total_error")
    shapes = {
        "components_": (2, 6),
        "mean_": (6,),
        "explained_variance_": (2,),
        "explained_variance_ratio_": (2,),
        "groups_": (3,),
        "group_errors_": (3,),
        "group_losses_": (3,),
        "group_explained_variance_ratio_": (3, 2),
    }
    assert {name: getattr(model, name).shape for name in shapes} == shapes
    assert model.groups_.tolist() == ["a", "b", "c"]
    assert (model.n_components_, model.n_features_in_, model.scale_) == (2, 6, None)
    assert model.disparity_ == np.ptp(model.group_errors_)
    assert model.solver_ == model.solution_.solver == "boundary"
    assert_moments(model.moments_, GroupMoments.from_rows(THREE.X, THREE.labels), rtol=0)
    np.testing.assert_array_equal(model.subspace_.components, model.components_)


@pytest.mark.parametrize("scale", [False, True])
def test_transform_and_its_inverse_are_the_formulas(scale):
    model = fit(scale=scale)
    deviation = ROWS.X.std(axis=0) if scale else np.ones(6)
    standardized = (ROWS.X - ROWS.X.mean(axis=0)) / deviation
    Z = model.transform(ROWS.X)
    np.testing.assert_allclose(Z, standardized @ model.components_.T, atol=1e-10)
    back = model.inverse_transform(Z)
    expected = ROWS.X.mean(axis=0) + Z @ model.components_ * deviation
    np.testing.assert_allclose(back, expected, atol=1e-10)
    residual = standardized - Z @ model.components_
    np.testing.assert_allclose(model.score_samples(ROWS.X), -(residual**2).sum(axis=1), atol=1e-9)
    assert model.score(ROWS.X) == pytest.approx(-(residual**2).sum(axis=1).mean())
    assert model.score(ROWS.X) == pytest.approx(-model.group_errors_.mean())  # equal groups


def wide_rows():
    rows = random_rows(34, n=30, p=520)
    return rows.X, rows.labels


def sparse_rows():
    rng = np.random.default_rng(1)
    X = scipy.sparse.random(40, 1200, 0.2, format="csr", random_state=rng)
    return X, np.arange(40) % 2


@pytest.mark.parametrize(
    ("make_rows", "d"),
    [
        (lambda: (ROWS.X, ROWS.labels), 2),
        (wide_rows, 3),
        pytest.param(wide_rows, 20, marks=pytest.mark.slow),
        pytest.param(sparse_rows, 3, marks=pytest.mark.slow),
    ],
)
def test_the_same_input_gives_the_same_bytes(make_rows, d):
    X, labels = make_rows()
    one, other = (FairPCA(d, scale=True).fit(X, sensitive_features=labels) for _ in "ab")
    for name in ("components_", "mean_", "scale_", "group_errors_", "explained_variance_"):
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes()


@CRITERIA
def test_the_largest_loading_of_each_component_is_positive(criterion):
    components = fit(criterion=criterion, n_components=4).components_
    assert (components[np.arange(4), np.abs(components).argmax(axis=1)] > 0).all()


def test_transform_has_no_way_to_see_a_label():
    for method in (FairPCA.transform, FairPCA.inverse_transform, FairPCA.score_samples):
        assert len(inspect.signature(method).parameters) == 2
    assert list(inspect.signature(FairPCA.score).parameters) == ["self", "X", "y"]


def same_fit(one, other, tolerance=1e-9):
    assert projector_distance(one.components_, other.components_) <= tolerance
    np.testing.assert_allclose(one.group_errors_, other.group_errors_, rtol=tolerance)
    np.testing.assert_allclose(one.explained_variance_, other.explained_variance_, rtol=tolerance)
    np.testing.assert_allclose(one.mean_, other.mean_, rtol=tolerance, atol=tolerance)


@CRITERIA
def test_scaling_is_fitting_on_standardized_rows(criterion):
    scaler = StandardScaler().fit(ROWS.X)
    scaled = fit(criterion=criterion, scale=True)
    np.testing.assert_allclose(scaled.scale_, scaler.scale_)
    standardized = type(ROWS)(scaler.transform(ROWS.X), ROWS.labels, ROWS.weights)
    other = fit(standardized, criterion=criterion)
    assert projector_distance(scaled.components_, other.components_) <= 1e-8
    np.testing.assert_allclose(scaled.group_errors_, other.group_errors_, rtol=1e-8)
    np.testing.assert_allclose(
        scaled.transform(ROWS.X), other.transform(standardized.X), atol=1e-7, rtol=1e-7
    )


@pytest.mark.parametrize("d", [1, 3, 6])
def test_without_groups_on_purpose_it_is_pca(d):
    model = FairPCA(d, missing_groups="ignore").fit(ROWS.X)
    pca = PCA(d).fit(ROWS.X)
    assert projector_distance(model.components_, pca.components_) <= 1e-8
    np.testing.assert_allclose(model.explained_variance_, pca.explained_variance_ * 119 / 120)
    np.testing.assert_allclose(model.explained_variance_ratio_, pca.explained_variance_ratio_)
    np.testing.assert_allclose(np.abs(model.transform(ROWS.X)), np.abs(pca.transform(ROWS.X)))
    assert (model.groups_.tolist(), model.disparity_) == (["all"], 0)


def test_one_group_is_pca_with_a_warning():
    with pytest.warns(FairspanWarning, match=r"one group \('a'\).*ordinary PCA"):
        model = FairPCA(2).fit(ROWS.X, sensitive_features=["a"] * 120)
    assert projector_distance(model.components_, PCA(2).fit(ROWS.X).components_) <= 1e-8
    np.testing.assert_allclose(model.group_losses_, [0], atol=1e-9)


def test_rows_in_pieces_give_the_fit_of_all_rows():
    late = np.argsort(THREE.labels == "c", kind="stable")  # group c comes only at the end
    X, labels, weights = THREE.X[late], THREE.labels[late], THREE.weights[late]
    model = FairPCA(2, criterion="total_error")
    for start in range(0, 120, 30):
        part = slice(start, start + 30)
        result = model.partial_fit(
            X[part], sensitive_features=labels[part], sample_weight=weights[part]
        )
        assert result is model
        assert ("c" in model.groups_) == (start >= 60)
    same_fit(model, fit(THREE, criterion="total_error", weights=THREE.weights))
    assert model.moments_.counts.tolist() == [40, 40, 40]


def test_moments_are_enough():
    moments = GroupMoments.from_rows(ROWS.X, ROWS.labels)
    model = FairPCA(2)
    assert model.fit_moments(moments) is model
    assert model.components_.tobytes() == fit().components_.tobytes()
    np.testing.assert_array_equal(model.transform(ROWS.X), fit().transform(ROWS.X))
    assert model.n_features_in_ == 6
    assert not hasattr(model, "feature_names_in_")
    model.partial_fit(THREE.X, sensitive_features=np.where(THREE.labels == "a", "a", "b"))
    assert model.moments_.counts.sum() == 240


def test_rows_without_names_replace_those_with_names():
    X = np.random.default_rng(3).normal(size=(40, 3))
    groups = ["a", "b"] * 20
    estimator = FairPCA(1).fit(pd.DataFrame(X, columns=["u", "v", "w"]), sensitive_features=groups)
    assert list(estimator.feature_names_in_) == ["u", "v", "w"]
    estimator.fit(X, sensitive_features=groups)
    assert not hasattr(estimator, "feature_names_in_")
    assert estimator.n_features_in_ == 3


def test_moments_without_names_replace_those_with_names():
    frame = pd.DataFrame(ROWS.X, columns=list("uvwxyz"))
    model = FairPCA(2).fit_moments(GroupMoments.from_rows(frame, ROWS.labels))
    assert model.feature_names_in_.tolist() == list("uvwxyz")
    expected = fit().transform(ROWS.X)
    np.testing.assert_allclose(model.transform(frame), expected, rtol=1e-9, atol=1e-9)
    model.fit_moments(GroupMoments.from_rows(ROWS.X, ROWS.labels))
    assert not hasattr(model, "feature_names_in_")
    np.testing.assert_allclose(model.transform(ROWS.X), expected, rtol=1e-9, atol=1e-9)


def test_single_precision_is_centered_in_double():
    X = (ROWS.X + 1e6).astype(np.float32)
    fair = FairPCA(2).fit(X, sensitive_features=ROWS.labels)
    exact = (X.astype(np.float64) - fair.mean_) @ fair.components_.T
    reduced = fair.transform(X)
    assert reduced.dtype == np.float32
    np.testing.assert_allclose(reduced, exact, atol=1e-5)


def test_a_column_named_all_does_not_confuse_rows_without_groups():
    frame = pd.DataFrame([[1.0, 2.0]], columns=["all", "x"])
    assert FairPCA(1, missing_groups="ignore").fit(frame).groups_.tolist() == ["all"]


TABLE = random_rows(51, n=40, p=3)
FEATURES = dict(zip("xyz", TABLE.X.T, strict=True))
SEX = TABLE.labels.tolist()
AGE = (np.arange(40) % 2).tolist()


def polars_frame(columns):
    return pytest.importorskip("polars").DataFrame(columns)


def arrow_table(columns):
    return pytest.importorskip("pyarrow").table(columns)


KINDS = pytest.mark.parametrize("kind", [pd.DataFrame, polars_frame, arrow_table])


@pytest.fixture(scope="module")
def plain():
    return FairPCA(2).fit(TABLE.X, sensitive_features=SEX)


def with_groups(kind, **replaced):
    return kind({"sex": SEX, **FEATURES, "age": AGE} | replaced)


@KINDS
def test_a_frame_gives_the_fit_of_its_array(kind, plain):
    model = FairPCA(2).fit(kind(FEATURES), sensitive_features=SEX)
    # Columns that lie side by side are summed in another order than rows.
    np.testing.assert_allclose(model.components_, plain.components_, atol=1e-13)
    assert (model.feature_names_in_.tolist(), model.n_features_in_) == (["x", "y", "z"], 3)
    assert model.subspace_.feature_names == ("x", "y", "z")
    of_frame = kind(FEATURES)
    of_array = TABLE.X
    np.testing.assert_allclose(model.transform(of_frame), plain.transform(of_array), atol=1e-12)
    scores = plain.score_samples(of_array)
    np.testing.assert_allclose(model.score_samples(of_frame), scores, atol=1e-12)


@KINDS
def test_named_group_columns_are_excluded_from_the_fit_and_ignored_later(kind, plain):
    frame = kind({"sex": SEX, **FEATURES})
    model = FairPCA(2).fit(frame, sensitive_features="sex")
    # Columns that lie side by side are summed in another order than rows.
    np.testing.assert_allclose(model.components_, plain.components_, atol=1e-13)
    assert (model.feature_names_in_.tolist(), model.n_features_in_) == (["x", "y", "z"], 3)
    expected, score = plain.transform(TABLE.X), plain.score(TABLE.X)
    other_labels = ["never seen", None] * 20
    for table in (frame, kind(FEATURES), kind({"sex": other_labels, **FEATURES})):
        np.testing.assert_allclose(model.transform(table), expected, atol=1e-12)
        assert model.score(table) == pytest.approx(score, rel=1e-12)
    coordinates = FairPCA(2).fit_transform(frame, sensitive_features="sex")
    np.testing.assert_array_equal(coordinates, model.transform(frame))


@KINDS
@pytest.mark.parametrize("names", [["sex", "age"], ("sex", "age")])
def test_several_named_columns_make_intersections(kind, names):
    model = FairPCA(1, criterion="total_error")
    model.fit(with_groups(kind), sensitive_features=names)
    assert model.groups_.tolist() == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    assert model.feature_names_in_.tolist() == ["x", "y", "z"]
    by_labels = FairPCA(1, criterion="total_error").fit(
        kind(FEATURES), sensitive_features=list(zip(SEX, AGE, strict=True))
    )
    np.testing.assert_array_equal(model.group_errors_, by_labels.group_errors_)
    np.testing.assert_array_equal(
        model.transform(with_groups(kind)), by_labels.transform(kind(FEATURES))
    )


@KINDS
def test_a_column_that_is_not_named_is_a_feature(kind):
    model = FairPCA(2).fit(with_groups(kind), sensitive_features="sex")
    assert model.feature_names_in_.tolist() == ["x", "y", "z", "age"]
    with pytest.raises(
        InvalidInput,
        match=r"Column 'sex' is not numeric \((str|String|string)",
    ):
        FairPCA(2).fit(with_groups(kind), sensitive_features="age")


def test_fitting_again_without_the_column_forgets_it():
    frame = pd.DataFrame(FEATURES).assign(g=AGE)
    model = FairPCA(2).fit(frame, sensitive_features="g")
    model.fit(frame, sensitive_features=SEX)
    assert model.feature_names_in_.tolist() == ["x", "y", "z", "g"]
    assert model.transform(frame).shape == (40, 2)


def test_frames_are_returned_on_request():
    frame = pd.DataFrame(FEATURES, index=range(100, 140))
    model = FairPCA(2).set_output(transform="pandas").fit(frame, sensitive_features=SEX)
    coordinates = model.transform(frame)
    assert isinstance(coordinates, pd.DataFrame)
    assert coordinates.columns.tolist() == ["fairpca0", "fairpca1"]
    assert coordinates.index.tolist() == list(range(100, 140))
    assert model.get_feature_names_out().tolist() == ["fairpca0", "fairpca1"]
    expected = (
        clone(model).set_output(transform="default").fit_transform(frame, sensitive_features=SEX)
    )
    np.testing.assert_array_equal(coordinates.to_numpy(), expected)
    np.testing.assert_allclose(
        model.inverse_transform(coordinates), model.inverse_transform(expected)
    )
    in_polars = FairPCA(2).set_output(transform="polars")
    coordinates = in_polars.fit_transform(polars_frame(FEATURES), sensitive_features=SEX)
    assert isinstance(coordinates, type(polars_frame(FEATURES)))
    assert coordinates.columns == ["fairpca0", "fairpca1"]


def test_columns_in_another_order_are_refused_as_scikit_learn_does():
    frame = pd.DataFrame(FEATURES)
    reordered = frame[["z", "y", "x"]]
    model = FairPCA(2).fit(frame, sensitive_features=SEX)
    # The subspace alone matches by name.
    np.testing.assert_array_equal(model.subspace_.transform(reordered), model.transform(frame))
    for method in (model.transform, model.score_samples, model.score):
        for rows, message in (
            (reordered, "same order"),
            (frame.assign(sex=SEX), "unseen at fit time"),
            (frame[["x", "y"]], r"should match.*missing"),
        ):
            with pytest.raises(ValueError, match=f"(?s){message}"):
                method(rows)
    with pytest.raises(InvalidInput, match=r"NaN, first in row 2 \(index 1\), column 'y'"):
        model.transform(frame.mask(lambda frame: frame == frame["y"][1]))
    with pytest.raises(InvalidInput, match="3 coordinates"):
        model.inverse_transform(TABLE.X)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([[1.0, np.nan, 2.0]], r"NaN, first in row 1 \(index 0\), column 2 \(index 1\)"),
        (np.array([[1.0, np.inf, 2.0]], dtype=np.float32), "infinity, first in row 1 "),
        (TABLE.X[:, :2], "2 features, but FairPCA is expecting 3 features"),
        (np.ma.masked_equal([[1.0, 2.0, 3.0]], 2.0), "masked"),
        (TABLE.X[0], "1 dimension"),
        ([["a", "b", "c"]], "text"),
    ],
)
def test_unusable_rows_are_refused_at_transform_too(plain, rows, words):
    for method in (plain.transform, plain.score_samples, plain.score):
        with pytest.raises((InvalidInput, ValueError), match=words):
            method(rows)


def test_a_named_column_of_classes_is_ignored_later_too():
    numbers = pd.DataFrame(FEATURES)
    frame = numbers.assign(sex=SEX, hired=AGE)
    model = FairPCA(1, criterion="total_error", restriction=MeanParity(within_classes="all"))
    expected = clone(model).fit(numbers, AGE, sensitive_features=SEX).transform(numbers)
    model.fit(frame, "hired", sensitive_features="sex")
    for table in (frame, numbers, frame.assign(hired="unknown")):
        np.testing.assert_allclose(model.transform(table), expected, atol=1e-9)
