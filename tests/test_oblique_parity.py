"""Oblique mean parity, held against reduced-rank regression and a search that knows no formula."""

import numpy as np
import pytest

from case_selection import mark_most_long
from fairspan import FairPCA, FairSubspace, GroupMoments, MeanParity, audit, metrics, verify
from fairspan.errors import CorruptFile, IncompatibleParameters, InvalidInput, InvalidParameter
from fairspan.regression import principal_component_regression
from numpy_reference import random_rows
from real_data import load

OBLIQUE = MeanParity(oblique=True)
ROWS = random_rows(81, n=150, p=6, offset=1.0)
LABELS = {k: np.arange(150) * 7 % k for k in (2, 3, 4)}


def fit(X, labels, d=2, restriction=OBLIQUE, weights=None, **settings):
    model = FairPCA(d, criterion="total_error", restriction=restriction, **settings)
    return model.fit(X, sensitive_features=labels, sample_weight=weights)


def shares(n, weights=None):
    return np.full(n, 1 / n) if weights is None else weights / weights.sum()


def covariances(X, labels, weights=None):
    """S and the covariances of the features with every group's indicator."""
    w = shares(len(X), weights)
    Z = (labels[:, None] == np.unique(labels)).astype(float)
    X = X - w @ X
    return X.T @ (w[:, None] * X), X.T @ (w[:, None] * (Z - w @ Z))


def fit_by_regression(S, C, d):
    """Return the smallest error of d linear combinations uncorrelated with the indicators.

    Such combinations are those of Q'x, Q a basis of what is orthogonal to C, so they are found by
    reduced-rank regression of x on Q'x.
    """
    left, sizes, _ = np.linalg.svd(C)
    Q = left[:, int((sizes > 1e-9 * sizes.max(initial=1e-300)).sum()) :]
    explained = S @ Q @ np.linalg.pinv(Q.T @ S @ Q, rcond=1e-11) @ Q.T @ S
    return np.trace(S) - np.linalg.eigvalsh((explained + explained.T) / 2)[-d:].sum()


def fit_by_alternation(S, C, d, seed):
    """Return the same error by alternating least squares from a random start."""
    Q = np.linalg.svd(C)[0][:, np.linalg.matrix_rank(C, 1e-9) :]
    within = Q.T @ S @ Q
    across = S @ Q
    E = np.random.default_rng(seed).standard_normal((d, Q.shape[1]))
    for _ in range(1500):
        D = across @ E.T @ np.linalg.inv(E @ within @ E.T)
        E = np.linalg.solve(D.T @ D, D.T @ across) @ np.linalg.inv(within)
    return np.trace(S - 2 * D @ E @ across.T + D @ E @ within @ E.T @ D.T)


def means_of(Z, labels, weights=None):
    w = shares(len(Z), weights)
    members = [labels == label for label in np.unique(labels)]
    return np.array([w[rows] @ Z[rows] / w[rows].sum() for rows in members])


@pytest.mark.parametrize(
    ("seed", "k"), mark_most_long([(seed, k) for seed in range(3) for k in (2, 3, 4)], step=4)
)
def test_no_search_finds_less(seed, k):
    rng = np.random.default_rng(seed)
    labels = LABELS[k]
    X = (
        rng.standard_normal((150, 6)) @ rng.standard_normal((6, 6))
        + rng.standard_normal((k, 6))[labels]
    )
    model = fit(X, labels)
    S, C = covariances(X, labels)
    smallest = min(fit_by_alternation(S, C, 2, start) for start in range(2))
    assert model.solution_.objective == pytest.approx(smallest, rel=1e-8)
    assert model.solution_.objective == pytest.approx(fit_by_regression(S, C, 2), rel=1e-10)
    assert (model.solution_.status, model.solution_.n_eigenproblems) == ("optimal", 1)
    orthogonal = fit(X, labels, restriction=MeanParity())
    assert model.solution_.objective <= orthogonal.solution_.objective * (1 + 1e-12)


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("singular", [False, True])
@pytest.mark.parametrize("k", [2, 3, 4])
def test_means_agree_and_errors_are_those_of_the_rows(k, singular, weighted, scale):
    labels = LABELS[k]
    X = ROWS.X + 5
    if singular:  # sums of other columns, and a constant one
        X = np.hstack([X, X[:, :2] @ [[1.0], [-1]], X[:, 2:4] @ [[2.0], [1]], np.ones((150, 1))])
    weights = ROWS.weights if weighted else None
    if scale and singular:
        X = X[:, :-1]
    model = fit(X, labels, weights=weights, scale=scale)
    Z = model.transform(X)
    w = shares(len(X), weights)
    assert np.ptp(means_of(Z, labels, weights), axis=0).max() <= 1e-10
    scaled = (X - model.mean_) / (1 if model.scale_ is None else model.scale_)
    assert model.solution_.objective == pytest.approx(
        fit_by_regression(*covariances(scaled, labels, weights), 2), rel=1e-9
    )
    subspace = model.subspace_
    np.testing.assert_array_equal(model.components_, subspace.encoder)
    np.testing.assert_allclose(subspace.decoder.T @ subspace.decoder, np.eye(2), atol=1e-12)
    np.testing.assert_allclose(subspace.encoder @ subspace.decoder, np.eye(2), atol=1e-9)
    errors = ((scaled - scaled @ subspace.encoder.T @ subspace.decoder.T) ** 2).sum(axis=1)
    np.testing.assert_allclose(model.group_errors_, means_of(errors, labels, weights), rtol=1e-9)
    np.testing.assert_allclose(-model.score_samples(X), errors, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(model.explained_variance_, w @ Z**2, rtol=1e-8)
    np.testing.assert_allclose((Z * w[:, None]).T @ Z, np.diag(w @ Z**2), atol=1e-8)
    traces = means_of((scaled**2).sum(axis=1), labels, weights)
    ratios = model.group_explained_variance_ratio_.sum(axis=1)
    np.testing.assert_allclose(ratios, 1 - model.group_errors_ / traces, atol=1e-9)
    assert (model.group_losses_ >= 0).all()
    back = model.inverse_transform(Z)
    np.testing.assert_allclose(model.transform(back), Z, atol=1e-8)
    largest = np.abs(model.components_).argmax(axis=1)
    assert (model.components_[np.arange(2), largest] > 0).all()
    assert verify(model, X, labels, sample_weight=weights).holds


def test_several_attributes_each_on_its_own():
    attributes = np.column_stack([LABELS[2], (LABELS[2] + LABELS[3]) % 3])
    joint, marginal = (
        fit(ROWS.X, attributes, restriction=MeanParity(attributes=kind, oblique=True), d=1)
        for kind in ("intersections", "marginal")
    )
    for column in attributes.T:
        assert np.ptp(means_of(marginal.transform(ROWS.X), column), axis=0).max() <= 1e-10
    S, first = covariances(ROWS.X, attributes[:, 0])
    C = np.hstack([first, covariances(ROWS.X, attributes[:, 1])[1]])
    assert marginal.solution_.objective == pytest.approx(fit_by_regression(S, C, 1), rel=1e-10)
    assert marginal.solution_.objective < joint.solution_.objective


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_columns_of_currency_next_to_rates(offset):
    X = ROWS.X * [1e6, 1, 1, 1e-3, 1, 1] + offset
    model = fit(X, LABELS[3], 3)
    means = means_of(X - X.mean(axis=0), LABELS[3])
    size = np.abs(model.components_) @ np.abs(means - means[0]).max(axis=0)
    # Beside such an offset the rates keep six digits.
    rounding = 1e-12 if offset == 0 else 1e-6
    assert (np.ptp(means @ model.components_.T, axis=0) <= rounding * size).all()
    S, C = covariances(X / X.std(axis=0), LABELS[3])
    scaled = fit(X, LABELS[3], 3, scale=True)
    assert scaled.solution_.objective == pytest.approx(
        fit_by_regression(S, C, 3), rel=max(1e-9, rounding)
    )


@pytest.mark.parametrize("seed", range(4))
def test_dependent_columns_of_different_size(seed):
    """Columns that depend on others, up to rounding, are no part of the differences of means."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((120, 6)) @ rng.standard_normal((6, 6))
    X += [0.0, 1e4][seed % 2] * rng.standard_normal((3, 6))[LABELS[3][:120]]
    X = np.hstack([X, X[:, :1] - X[:, 1:2]]) * 10.0 ** rng.integers(-4, 5, 7)
    attributes = np.column_stack([LABELS[3][:120], rng.integers(2, size=120)])
    parity = MeanParity(attributes="marginal", oblique=True)
    model = fit(X, attributes, 2, restriction=parity)
    result = verify(model, X, attributes)
    assert result.holds, str(result)
    encoder, decoder = model.subspace_.encoder, model.subspace_.decoder
    size = np.abs(encoder) @ np.abs(decoder)
    assert (np.abs(encoder @ decoder - np.eye(2)) <= 1e-10 * size.max()).all()
    for column in attributes.T:
        means = means_of(X - X.mean(axis=0), column)
        size = np.abs(encoder) @ np.abs(means).max(axis=0)
        assert (np.ptp(means @ encoder.T, axis=0) <= 1e-8 * size).all()


def test_groups_of_equal_means_and_one_group_are_ordinary_pca():
    X = ROWS.X - means_of(ROWS.X, LABELS[2])[LABELS[2]]
    model = fit(X, LABELS[2])
    pca = fit(X, LABELS[2], restriction=None)
    assert model.solution_.objective == pytest.approx(pca.solution_.objective, rel=1e-12)
    np.testing.assert_allclose(model.components_, pca.components_, atol=1e-9)
    with pytest.warns(UserWarning, match="one group"):
        alone = fit(X, np.zeros(150, dtype=int))
    np.testing.assert_allclose(alone.components_, pca.components_, atol=1e-9)


@pytest.mark.parametrize(
    ("d", "scale"),
    [
        pytest.param(2, False, marks=pytest.mark.long),
        pytest.param(3, False, marks=pytest.mark.slow),
        pytest.param(2, True, marks=pytest.mark.slow),
        pytest.param(3, True, marks=pytest.mark.long),
    ],
)
def test_rows_fewer_than_their_features(d, scale):
    rng = np.random.default_rng(3)
    labels = np.arange(90) % 3
    X = rng.standard_normal((90, 20)) @ rng.standard_normal((20, 600)) + labels[:, None]
    thin = fit(X, labels, d, scale=scale)
    assert type(thin.moments_).__name__ == "WideMoments"
    dense = FairPCA(d, criterion="total_error", restriction=OBLIQUE, scale=scale)
    dense.fit_moments(thin.moments_.to_dense())
    assert thin.solution_.objective == pytest.approx(dense.solution_.objective, rel=1e-9)
    np.testing.assert_allclose(thin.transform(X), dense.transform(X), atol=1e-6)
    if scale:  # otherwise they differ where no row lies
        np.testing.assert_allclose(thin.components_, dense.components_, atol=1e-8)
    np.testing.assert_allclose(thin.subspace_.decoder, dense.subspace_.decoder, atol=1e-8)
    np.testing.assert_allclose(thin.group_errors_, dense.group_errors_, rtol=1e-8)
    figures = metrics.reconstruction_error(thin, X, labels)
    np.testing.assert_allclose(list(figures.values()), thin.group_errors_, rtol=1e-8)
    assert verify(thin, X, labels).holds
    table = audit(thin, X, labels).models[0]
    errors = [group.observed_error.value for group in table.groups]
    np.testing.assert_allclose(errors, thin.group_errors_, rtol=1e-8)


def test_an_orthogonal_decoder_is_the_encoder_transposed():
    model = fit(ROWS.X, LABELS[3], restriction=None)
    np.testing.assert_array_equal(model.subspace_.encoder, model.components_)
    np.testing.assert_array_equal(model.subspace_.decoder, model.components_.T)
    assert not model.subspace_.is_oblique


def alter(model, **changes):
    subspace = model.subspace_
    arrays = {"components": subspace.components, "oblique_decoder": subspace.oblique_decoder}
    return FairSubspace(
        mean=subspace.mean,
        certificate=subspace.certificate,
        **{**arrays, **changes},
    )


def test_a_model_that_was_changed_is_not_verified():
    model = fit(ROWS.X, LABELS[3])
    encoder = model.components_
    decoder = model.subspace_.decoder
    assert verify(alter(model), ROWS.X, LABELS[3]).holds
    C = covariances(ROWS.X, LABELS[3])[1]
    orthogonal = np.linalg.svd(np.hstack([C, decoder]))[0][:, -1]
    for components, message in (
        # It undoes the decoder as well, but shows the groups' means.
        (decoder.T.copy(), "means"),
        # Hides the means and undoes the decoder, but loses more than it need.
        (encoder + 0.1 * orthogonal, "best"),
        (2 * encoder, ""),
    ):
        result = verify(alter(model, components=components), ROWS.X, LABELS[3])
        assert not result.holds
        assert message in result.messages[0]


def test_encoders_and_decoders_that_do_not_fit_are_refused(tmp_path):
    model = fit(ROWS.X, LABELS[3])
    for changes in (
        {"components": 2 * model.components_},
        {"oblique_decoder": 2 * model.subspace_.decoder},
        {"components": np.full((2, 6), np.nan)},
        {"oblique_decoder": model.subspace_.decoder[:, :1]},
    ):
        subspace = alter(model, **changes)
        with pytest.raises(InvalidInput):
            FairSubspace.from_model(subspace)
        subspace.save(tmp_path / "out")
        with pytest.raises(CorruptFile):
            FairSubspace.load(tmp_path / "out")


def test_an_audit_expects_about_the_errors_of_the_oblique_model():
    model = fit(ROWS.X, LABELS[3], scale=True)
    mine = audit(model, ROWS.X, LABELS[3], folds=5).models[0]
    for group, error in zip(mine.groups, model.group_errors_, strict=True):
        assert 0.5 * error < group.expected_error.value < 2 * error


def test_a_share_of_every_groups_variance():
    model = fit(ROWS.X, LABELS[2], 0.7)
    assert (1 - model.group_errors_ / _traces(model) >= 0.7).all()
    fewer = fit(ROWS.X, LABELS[2], model.n_components_ - 1)
    assert (1 - fewer.group_errors_ / _traces(fewer) < 0.7).any()
    with pytest.raises(IncompatibleParameters, match="kept by a group"):
        fit(ROWS.X, LABELS[2], 0.999999)


def _traces(model):
    return model.moments_.second_moments().trace(axis1=1, axis2=2)


def test_regression_on_oblique_components_is_that_on_the_scores():
    y = ROWS.X @ np.arange(6.0) + ROWS.weights
    moments = GroupMoments.from_rows(np.column_stack([ROWS.X, y]), LABELS[2])
    model = fit(ROWS.X, LABELS[2])
    result = principal_component_regression(moments, 6, model)
    Z = np.column_stack([model.transform(ROWS.X), np.ones(150)])
    expected = np.linalg.lstsq(Z, y, rcond=None)[0]
    np.testing.assert_allclose(result.component_coefficients, expected[:2], rtol=1e-8)


def test_incompatible_options_are_refused():
    sums = ROWS.X[:, :2] + ROWS.X[:, 2:4]
    for settings, k, X, words in (
        ({"criterion": "minimax_loss"}, 2, ROWS.X, "'total_error'"),
        ({"center": "none"}, 2, ROWS.X, "center='global'"),
        ({"center": "group"}, 2, ROWS.X, "center='global'"),
        ({"n_components": 6}, 2, ROWS.X, "at most 5"),
        ({"n_components": 5}, 3, np.hstack([ROWS.X, sums]), "at most 4"),
    ):
        options = {"criterion": "total_error", "n_components": 2, **settings}
        with pytest.raises(IncompatibleParameters, match=words):
            FairPCA(restriction=OBLIQUE, **options).fit(X, sensitive_features=LABELS[k])
    with pytest.raises(InvalidParameter, match="oblique is 'yes'"):
        MeanParity(oblique="yes")
    with pytest.raises(IncompatibleParameters, match="oblique"):
        MeanParity(0.1, oblique=True)


@pytest.mark.parametrize(
    ("name", "d", "share"),
    [
        ("default_credit:group__education", 5, 0.6346),
        ("default_credit:group__education", 10, 0.8241),
        pytest.param("adult_train:group__sex", 10, 0.2058, marks=pytest.mark.slow),
    ],
)
def test_real_data(name, d, share):
    rows = load(name)
    X = rows.X[:, rows.X.std(axis=0) > 0]
    moments = GroupMoments.from_rows(X, rows.groups)
    model = FairPCA(d, criterion="total_error", restriction=OBLIQUE, scale=True)
    model.fit_moments(moments)
    assert model.explained_variance_ratio_.sum() == pytest.approx(share, abs=5e-5)
    assert model.solution_.status == "optimal"
    assert np.ptp(means_of(model.transform(X), rows.groups), axis=0).max() <= 1e-10


@pytest.mark.parametrize("condition", [1e5, 1e6])
def test_moments_of_nearly_dependent_rows_report_lost_digits(monkeypatch, condition):
    monkeypatch.setattr("fairspan.moments.compute.MIN_WIDE_FEATURES", 5)
    rng = np.random.default_rng(0)
    axes, _, others = np.linalg.svd(rng.standard_normal((42, 113)), full_matrices=False)
    X = (axes * np.geomspace(1.0, 1 / condition, 42)) @ others
    groups = np.arange(42) % 3
    model = fit(X, groups, d=3)
    moments = GroupMoments.from_rows(X, groups)
    of_rows = model.solution_
    model_of_moments = FairPCA(3, criterion="total_error", restriction=OBLIQUE)
    of_moments = model_of_moments.fit_moments(moments).solution_
    assert of_rows.status == "optimal"
    apart = abs(of_rows.objective - of_moments.objective)
    assert apart > of_rows.resolution
    assert apart <= of_moments.resolution
    assert of_moments.status == "unresolved"
    assert "hardly vary" in of_moments.unresolved_reason
    # It claims no more than its moments tell.
    assert verify(model_of_moments, moments)
    checked = verify(model, moments)
    assert "Pass the rows" in checked.messages[0]
    assert verify(model, X, sensitive_features=groups)


@pytest.mark.parametrize("shape", [(200, 6), (40, 45)])
@pytest.mark.parametrize("scale", [False, True])
def test_a_group_far_away_is_named_and_not_the_number_of_directions(shape, scale):
    rng = np.random.default_rng(0)
    X = rng.standard_normal(shape)
    groups = np.arange(shape[0]) % 2
    model = FairPCA(
        2, criterion="total_error", restriction=MeanParity(oblique=True), scale=scale
    ).fit(X, sensitive_features=groups)
    assert model.solution_.status == "optimal"
    X[groups == 1] += 1e12 * rng.uniform(0.5, 1, shape[1])
    with pytest.raises(IncompatibleParameters, match="means of the groups") as error:
        model.fit(X, sensitive_features=groups)
    assert "scale=True" not in str(error.value)


def test_rows_of_few_directions_are_refused_with_their_number():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 5))
    groups = np.arange(60) % 2
    X[groups == 1] += [3.0, 0.0, 0.0, 0.0, 0.0]
    model = FairPCA(3, criterion="total_error", restriction=MeanParity(oblique=True))
    with pytest.raises(IncompatibleParameters, match="no more directions"):
        model.fit(X, sensitive_features=groups)
