"""No model with a linear decoder falls below the bound of its rank."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.decomposition import NMF, PCA, MiniBatchDictionaryLearning, SparsePCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fairspan import FairPCA, GroupMoments, MinimaxError, audit
from fairspan.errors import IncompatibleParameters, InvalidInput
from fairspan.extending import LinearDecoder
from fairspan.metrics import rank_bound, reconstruction_error


@pytest.fixture(scope="module")
def digits():
    X, labels = load_digits(return_X_y=True)
    return X[:600], np.where(labels[:600] >= 5, "large", "small")


def errors_by_definition(model, X, groups, offset=0.0):
    """Share of each group's mean square about the offset that is lost."""
    residuals = X - model.inverse_transform(model.transform(X))
    return np.array(
        [
            (residuals[groups == label] ** 2).sum() / ((X[groups == label] - offset) ** 2).sum()
            for label in sorted(set(groups))
        ]
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        NMF(4, init="nndsvda", max_iter=400, tol=1e-3),
        SparsePCA(4, random_state=0, max_iter=30),
        MiniBatchDictionaryLearning(4, random_state=0, max_iter=30, transform_algorithm="lars"),
        PCA(4),
    ],
)
def test_models_of_scikit_learn_are_above_the_bound(digits, model):
    X, groups = digits
    model.fit(X)
    result = rank_bound(model, X, groups)
    offset = model.inverse_transform(np.zeros((1, 4)))
    np.testing.assert_allclose(result.errors, errors_by_definition(model, X, groups, offset))
    assert result.n_components == 4
    assert result.largest_error >= result.bound > 0
    # The bound is that of the fair subspace about the same offset, which attains it.
    shifted = GroupMoments.from_rows(X - offset, groups)
    fair = FairPCA(4, criterion=MinimaxError(relative=True), center="none").fit_moments(shifted)
    assert result.bound == pytest.approx(fair.solution_.objective, rel=1e-6)
    assert f"below {100 * result.bound:.1f} %" in str(result)


def test_the_fair_subspace_attains_it(digits):
    X, groups = digits
    fair = FairPCA(5, criterion="minimax_error").fit(X, sensitive_features=groups)
    result = rank_bound(fair, X, groups, relative=False)
    assert result.largest_error == pytest.approx(fair.solution_.objective, rel=1e-9)
    assert abs(result.excess) <= 1e-6
    errors = reconstruction_error(fair, X, groups)
    np.testing.assert_allclose(result.errors, list(errors.values()), rtol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_random_decoders_with_their_best_codes_are_above_it(digits, seed):
    X, groups = digits
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(3, 64)) @ np.diag(X.std(axis=0) + 0.1)
    best = LinearDecoder(lambda rows: np.linalg.lstsq(matrix.T, rows.T, rcond=None)[0].T, matrix)
    positive = LinearDecoder(lambda rows: np.maximum(best.encode(rows), 0), matrix)
    for model in (best, positive):
        result = rank_bound(model, X, groups)
        assert result.largest_error > result.bound
    assert audit(positive, X, groups).models[0].groups[0].observed_error.value > 0


def test_weights_count_and_standardized_units_are_those_of_the_model(digits):
    X, groups = digits
    X = X[:, X.std(axis=0) > 1]
    weights = np.arange(len(X)) % 3
    pipeline = make_pipeline(StandardScaler(), PCA(3)).fit(X)
    weighted = rank_bound(pipeline, X, groups, sample_weight=weights)
    unweighted = rank_bound(pipeline, np.repeat(X, weights, axis=0), np.repeat(groups, weights))
    np.testing.assert_allclose(weighted.errors, unweighted.errors, rtol=1e-9)
    assert weighted.bound == pytest.approx(unweighted.bound, rel=1e-6)
    scaled = rank_bound(PCA(3).fit(pipeline[0].transform(X)), pipeline[0].transform(X), groups)
    np.testing.assert_allclose(rank_bound(pipeline, X, groups).errors, scaled.errors, rtol=1e-9)


def test_other_decoders_and_centers_are_refused(digits):
    X, groups = digits

    class Squares:
        n_features_in_ = 64

        def transform(self, rows):
            return rows[:, :3]

        def inverse_transform(self, codes):
            return np.repeat(codes, 64, axis=1)[:, :64] ** 2

    with pytest.raises(IncompatibleParameters, match="not linear"):
        rank_bound(Squares(), X, groups)
    by_group = FairPCA(3, center="group").fit(X, sensitive_features=groups)
    with pytest.raises(IncompatibleParameters, match="mean of each group"):
        rank_bound(by_group, X, groups)


def test_shares_of_a_group_without_variance_are_refused():
    X = np.vstack([np.random.default_rng(0).normal(size=(20, 3)), np.zeros((5, 3))])
    groups = ["many"] * 20 + ["constant"] * 5
    model = FairPCA(2, center="none").fit(X, sensitive_features=groups)
    with pytest.raises(InvalidInput, match=r"'constant' do not vary.*Use relative=False"):
        rank_bound(model, X, groups, relative=True)
    assert rank_bound(model, X, groups, relative=False).errors.min() == 0.0


def test_decoders_that_are_linear_at_random_codes_only_are_refused():
    rng = np.random.default_rng(0)
    codes = rng.normal(size=(200, 2))
    X = np.hstack([codes, np.abs(codes)])

    class Kinked:
        n_features_in_ = 4

        def transform(self, rows):
            return np.asarray(rows)[:, :2]

        def inverse_transform(self, codes):
            return np.hstack([codes, np.abs(codes)])

    with pytest.raises(IncompatibleParameters, match="not linear"):
        rank_bound(Kinked(), X, np.arange(200) % 2)
