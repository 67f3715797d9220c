"""Audits of any fitted object with transform and inverse_transform, by its reconstructions."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator
from sklearn.cluster import FeatureAgglomeration
from sklearn.decomposition import NMF, PCA, FastICA, KernelPCA, TruncatedSVD
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    QuantileTransformer,
    StandardScaler,
)
from sklearn.random_projection import GaussianRandomProjection

import fairspan as fs
from fairspan.errors import IncompatibleParameters, InvalidInput, InvalidType
from numpy_reference import random_rows

ROWS = random_rows(5, n=90, p=5)
# Units that differ, far from the origin.
X = ROWS.X * [1, 30, 0.1, 1, 5] + [1000, 3, -2, 0, 40]
GROUPS = ROWS.labels
Y = (ROWS.X[:, 0] > 0).astype(int)
OTHERS = random_rows(6, n=70, p=5).X * [1, 30, 0.1, 1, 5] + [1000, 3, -2, 0, 40]


class Halves:
    """A projection onto the first features, without attributes of PCA."""

    def transform(self, rows):
        return rows[:, :2]

    def inverse_transform(self, coordinates):
        return np.hstack([coordinates, np.zeros((len(coordinates), 3))])


class Oblique(Halves):
    """The second coordinate is moved by the third feature."""

    def transform(self, rows):
        return rows[:, :2] + rows[:, 2:3] * [0.0, 0.5]


class OneWay(StandardScaler):
    """A scaler whose inverse transform does not undo its transform."""

    def inverse_transform(self, X, copy=None):
        return 1.1 * super().inverse_transform(X, copy)


MODELS = {
    "PCA": PCA(2),
    "one way": make_pipeline(OneWay(), PCA(2)),
    "whitened": PCA(3, whiten=True),
    "svd": TruncatedSVD(2),
    "ica": FastICA(2, random_state=0),
    "agglomeration": FeatureAgglomeration(2),
    "random": GaussianRandomProjection(2, compute_inverse_components=True, random_state=0),
    "kernel": KernelPCA(2, kernel="rbf", gamma=1e-3, fit_inverse_transform=True),
    "nmf": make_pipeline(MinMaxScaler(), NMF(2, random_state=0, max_iter=2000, tol=1e-3)),
    "scaled": make_pipeline(StandardScaler(), PCA(2)),
    "twice": make_pipeline(MinMaxScaler(), StandardScaler(), PCA(2, whiten=True)),
    "clipped": make_pipeline(MinMaxScaler(clip=True), PCA(2)),
    "quantiles": make_pipeline(QuantileTransformer(n_quantiles=20), PCA(2)),
}
BY_ROWS = {"kernel", "nmf", "clipped", "quantiles", "one way"}
STANDARDIZED = {"scaled", "twice", "nmf"}


def reference_errors(model, rows, groups, unit=1.0):
    """Return the mean squared distance of each group's rows to their reconstructions."""
    residual = (rows - model.inverse_transform(model.transform(rows))) / unit
    squared = (residual**2).sum(axis=1)
    return [squared[np.asarray(groups) == group].mean() for group in sorted(set(groups))]


def scaler_divisors(name, model):
    """Return the divisors of the features by the first scalers, from their attributes."""
    if name == "twice":
        return model[1].scale_ / model[0].scale_  # MinMaxScaler multiplies
    return 1 / model[0].scale_ if name == "nmf" else model[0].scale_


def errors_of(result, name):
    model = next(model for model in result.models if model.name == name)
    return [group.observed_error.value for group in model.groups]


@pytest.mark.parametrize("name", MODELS)
def test_errors_are_those_of_the_rows(name):
    model = MODELS[name].fit(X)
    # Outside the range that it was fitted on NMF would meet negative numbers.
    rows, groups = (X, GROUPS) if name == "nmf" else (OTHERS, GROUPS[:70])
    result = fs.audit({name: model}, rows, groups, folds=2)
    unit = scaler_divisors(name, model) if name in STANDARDIZED else 1.0
    expected = reference_errors(model, rows, groups, unit)
    # NMF stops where all rows of a block are done, to its own tolerance.
    tolerance = 1e-4 if name == "nmf" else 1e-6
    np.testing.assert_allclose(errors_of(result, name), expected, rtol=tolerance)
    audited = result.models[0]
    assert (audited.no_estimates_reason is not None) == (name in BY_ROWS)
    if name in BY_ROWS:
        with pytest.raises(IncompatibleParameters, match="not a projection"):
            fs.FairSubspace.from_model(model)
    assert audited.is_scaled == (name in STANDARDIZED)


def test_a_scaler_before_pca_is_pca_of_scaled_features():
    pipeline = make_pipeline(StandardScaler(), PCA(2)).fit(X)
    plain = fs.FairPCA(2, criterion="total_error", scale=True).fit(X, sensitive_features=GROUPS)
    result = fs.audit({"pipeline": pipeline, "own": plain}, X, GROUPS, folds=5)
    ours, fair_audit = result.models
    for mine, theirs in zip(ours.groups, fair_audit.groups, strict=True):
        assert mine.observed_error.value == pytest.approx(theirs.observed_error.value, rel=1e-9)
        assert mine.expected_loss.value == pytest.approx(theirs.expected_loss.value, rel=1e-9)
        assert mine.expected_loss.low == pytest.approx(theirs.expected_loss.low, rel=1e-9)
        assert mine.state == theirs.state
    assert ours.in_sample


@pytest.mark.parametrize("tail", [(), pytest.param((StandardScaler(),), marks=pytest.mark.slow)])
def test_a_fair_step_before_a_classifier_is_evaluated_as_the_model_that_it_is(tail):
    names = [f"x{i}" for i in range(5)]
    frame = pd.DataFrame(X, columns=names)
    model = make_pipeline(StandardScaler(), fs.FairPCA(2), *tail, LogisticRegression())
    model.fit(frame, Y, fairpca__sensitive_features=GROUPS)
    alone = fs.FairPCA(2, scale=True).fit(frame, sensitive_features=GROUPS)
    of_pipeline, of_model = (
        fs.audit({"it": pipeline}, frame, GROUPS, folds=5) for pipeline in (model, alone)
    )
    assert [model_audit.name for model_audit in of_pipeline.models] == ["it", "PCA"]
    pairs = zip(of_pipeline.to_records(), of_model.to_records(), strict=True)
    for mine, theirs in pairs:
        for figure in ("observed_error", "expected_loss", "expected_loss_low"):
            assert mine[figure] == pytest.approx(theirs[figure], rel=1e-5, abs=1e-6)
    assert of_pipeline.verdict.kind == of_model.verdict.kind
    np.testing.assert_allclose(
        fs.metrics.reconstruction_error(model, frame, GROUPS)["a"],
        of_pipeline.models[0].groups[0].observed_error.value,
    )


def test_a_fair_pipeline_keeps_its_certificate():
    model = make_pipeline(StandardScaler(), fs.FairPCA(2), LogisticRegression())
    model.fit(X, Y, fairpca__sensitive_features=GROUPS)
    subspace = fs.FairSubspace.from_model(model)
    assert subspace.certificate.status == "optimal"
    np.testing.assert_allclose(subspace.transform(X), model[:-1].transform(X), atol=1e-9)


def test_a_search_is_its_best_pipeline():
    search = GridSearchCV(
        make_pipeline(StandardScaler(), PCA(), LogisticRegression()), {"pca__n_components": [1, 2]}
    ).fit(X, Y)
    by_search, best = (
        fs.FairSubspace.from_model(searched) for searched in (search, search.best_estimator_)
    )
    np.testing.assert_array_equal(by_search.components, best.components)


@pytest.mark.parametrize(("kind", "is_oblique"), [(Halves, False), (Oblique, True)])
def test_an_object_with_two_methods_alone(kind, is_oblique):
    model = kind()
    result = fs.audit({"mine": model}, X, GROUPS, folds=None)
    np.testing.assert_allclose(
        errors_of(result, "mine"), reference_errors(model, X, GROUPS), rtol=1e-9
    )
    moments = fs.GroupMoments.from_rows(X, GROUPS)
    of_moments = fs.audit({"mine": model}, moments=moments)
    np.testing.assert_allclose(
        errors_of(of_moments, "mine"), reference_errors(model, X, GROUPS), rtol=1e-9
    )
    with pytest.raises(InvalidInput, match="number of features"):
        fs.FairSubspace.from_model(model)
    model.n_features_in_ = 5
    assert fs.FairSubspace.from_model(model).is_oblique == is_oblique


def test_a_model_whose_fit_is_not_known_is_not_fitted_again():
    model = make_pipeline(StandardScaler(), TruncatedSVD(2)).fit(X)
    audited = fs.audit({"svd": model}, X, GROUPS, folds=5).models[0]
    assert audited.in_sample
    assert "is unknown" in audited.no_estimates_reason


def test_models_by_rows_stand_next_to_projections_in_their_order():
    kernel = MODELS["kernel"].fit(X)
    fair = fs.FairPCA(2).fit(X, sensitive_features=GROUPS)
    result = fs.audit({"kernel": kernel, "fair": fair}, X, GROUPS, folds=5)
    assert [model.name for model in result.models] == ["kernel", "fair", "PCA"]
    alone = fs.audit({"fair": fair}, X, GROUPS, folds=5)
    assert result.models[1] == alone.models[0]
    assert "kernel" in str(result)
    spread = result.models[0].groups[0].observed_error
    assert spread.low < spread.value < spread.high


def test_a_saved_model_is_read_from_its_name(tmp_path):
    fair = fs.FairPCA(2).fit(X, sensitive_features=GROUPS)
    fair.subspace_.save(tmp_path / "m.model")
    result = fs.audit(tmp_path / "m.model", X, GROUPS, folds=None)
    assert errors_of(result, "minimax loss") == fair.group_errors_.tolist()


def test_models_that_cannot_be_evaluated_are_refused():
    kernel = MODELS["kernel"].fit(X)
    with pytest.raises(IncompatibleParameters, match="is not a projection"):
        fs.audit(kernel, moments=fs.GroupMoments.from_rows(X, GROUPS))
    with pytest.raises(IncompatibleParameters, match="not a projection onto a subspace"):
        fs.FairSubspace.from_model(kernel)
    with pytest.raises(IncompatibleParameters, match="clusters was given"):
        fs.audit(kernel, X, GROUPS, clusters=np.arange(90) // 3)
    one_way = make_pipeline(OneHotEncoder(), PCA(2))
    with pytest.raises(InvalidType, match="Pipeline is not fitted"):
        fs.audit(one_way, X, GROUPS)
    moments = fs.GroupMoments.from_rows(X, GROUPS)
    with pytest.raises(InvalidInput, match="first step of"):
        fs.audit(make_pipeline(Normalizer(), PCA(2)).fit(X), moments=moments)
    with pytest.raises(InvalidType, match=r"nope\.model.*no such file"):
        fs.audit("nope.model", X, GROUPS)


@pytest.mark.parametrize(
    "scaler", [StandardScaler(with_std=False), StandardScaler(), MinMaxScaler()]
)
def test_ordinary_pca_stands_next_to_a_pipeline_in_the_same_units(scaler):
    model = make_pipeline(scaler, fs.FairPCA(2)).fit(X, fairpca__sensitive_features=GROUPS)
    fair, pca = fs.audit({"it": model}, X, GROUPS, folds=None).models
    assert (fair.name, pca.name, fair.baseline) == ("it", "PCA", "PCA")
    scaled_rows = scaler.transform(X)
    residuals = scaled_rows - PCA(2).fit(scaled_rows).inverse_transform(
        PCA(2).fit_transform(scaled_rows)
    )
    for group in pca.groups:
        expected = (residuals[group.group == GROUPS] ** 2).sum(axis=1).mean()
        assert group.observed_error.value == pytest.approx(expected)


TABLE = random_rows(21, n=50, p=4)
BASIS = np.linalg.qr(np.random.default_rng(5).standard_normal((4, 2)))[0].T


def test_other_models_are_refused():
    with pytest.raises(InvalidType, match="The PCA is not fitted"):
        fs.FairSubspace.from_model(PCA(2))
    with pytest.raises(InvalidType, match="The FairPCA is not fitted"):
        fs.FairSubspace.from_model(fs.FairPCA(2))
    with pytest.raises(InvalidType, match="type set"):
        fs.FairSubspace.from_model({"model"})
    with pytest.raises(InvalidInput, match="not orthonormal"):
        fs.FairSubspace.from_model(2 * BASIS)
    with pytest.raises(InvalidInput, match="1 <= d <= p"):
        fs.FairSubspace.from_model(np.ones(4))


def test_models_that_are_subspaces_are_taken_as_they_are():
    bare = fs.FairSubspace(BASIS, np.zeros(4))
    assert fs.FairSubspace.from_model(bare) is bare
    estimator = fs.FairPCA(1).fit(TABLE.X, sensitive_features=TABLE.labels)
    assert fs.FairSubspace.from_model(estimator) is estimator.subspace_
    np.testing.assert_array_equal(fs.FairSubspace.from_model(BASIS).components, BASIS)


class Sampler(BaseEstimator):
    """Draws other rows in a fit, and has no transform, as the samplers of imbalanced-learn."""

    def fit_resample(self, rows, classes):
        return rows[::2], classes[::2]


def with_samplers(pipeline, *places):
    """Insert samplers before steps of a fitted pipeline, which bypasses them when reducing."""
    steps = [*pipeline.steps]
    for place in sorted(places, reverse=True):
        steps.insert(place, (f"sampler{place}", Sampler()))
    return Pipeline(steps)


@pytest.mark.parametrize("places", [(0,), (0, 0)])
def test_a_pipeline_that_begins_with_a_sampler_is_evaluated_without_it(places):
    steps = make_pipeline(StandardScaler(), PCA(2)).fit(X)
    model = with_samplers(steps, *places)
    advice = rf"'sampler0' \(Sampler\).*model\[{len(places)}:\]"
    for judge in (
        lambda it: fs.audit(it, X, GROUPS, folds=None),
        lambda it: fs.metrics.excess_loss(it, X, GROUPS),
        fs.FairSubspace.from_model,
    ):
        with pytest.raises(InvalidInput, match=advice):
            judge(model)
    errors = fs.metrics.reconstruction_error(model[len(places) :], X, GROUPS)
    assert errors == pytest.approx(fs.metrics.reconstruction_error(steps, X, GROUPS))


def test_a_sampler_between_other_steps_leaves_rows_as_they_are():
    steps = make_pipeline(StandardScaler(), PCA(2)).fit(X)
    model = with_samplers(steps, 1)
    expected = fs.audit({"it": steps}, X, GROUPS, folds=None).to_records()
    records = fs.audit({"it": model}, X, GROUPS, folds=None).to_records()
    assert [record["observed_error"] for record in records] == [
        record["observed_error"] for record in expected
    ]
