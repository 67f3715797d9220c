"""Published fair canonical correlation, from its formulas, against FairCCA and its bound."""

import numpy as np
import pytest

from fairspan.cross_decomposition import FairCCA
from reproduction.fair_cca import (
    FAIR_CCA,
    N_COMPONENTS,
    canonical_pair,
    disparity_errors,
    fr_cca,
    make_rows,
    sf_cca,
    sf_gradient,
    sf_objective,
    with_shifted_means,
)


def table(result):
    return [dict(zip(result.columns, row, strict=True)) for row in result.rows]


@pytest.fixture(scope="module")
def tables():
    return make_rows(np.random.default_rng(0))


def test_columns_are_white_in_each_group_and_pairs_correlate_as_printed(tables):
    for group, first in enumerate((0.95, 0.8, 0.7)):
        in_group = tables.groups == group
        for rows in (tables.x[in_group], tables.y[in_group]):
            np.testing.assert_allclose(np.cov(rows.T, ddof=0), np.eye(rows.shape[1]), atol=1e-10)
        correlations = np.linalg.svd(
            tables.x[in_group].T @ tables.y[in_group] / in_group.sum(), compute_uv=False
        )
        assert correlations[0] == pytest.approx(first, abs=0.1)


def test_disparity_errors_are_losses_of_fair_cca(tables):
    model = FairCCA(N_COMPONENTS, scale=False).fit(
        tables.x, tables.y, sensitive_features=tables.groups
    )
    pair = model.x_weights_, model.y_weights_
    np.testing.assert_allclose(tables.disparity_errors(pair), model.group_losses_, atol=1e-10)
    errors = disparity_errors(tables.cross_covariances, pair)
    np.testing.assert_allclose(errors, model.group_losses_, atol=1e-10)


def test_the_gradient_of_sf_cca_is_that_of_its_objective(tables):
    rng = np.random.default_rng(1)
    covariances = tables.cross_covariances
    weights = np.array([0.5, 0.2, 0.3])
    pair = rng.normal(size=(12, 2)), rng.normal(size=(10, 2))
    gradients = sf_gradient(covariances, weights, 2.0, pair)
    for position, gradient in enumerate(gradients):
        direction = rng.normal(size=gradient.shape)
        values = []
        for sign in (1, -1):
            shifted = list(pair)
            shifted[position] = pair[position] + sign * 1e-5 * direction
            values.append(sf_objective(covariances, weights, 2.0, tuple(shifted)))
        slope = (values[0] - values[1]) / 2e-5
        assert slope == pytest.approx(float(np.vdot(gradient, direction)), rel=1e-6)


def test_sf_cca_lowers_its_objective_and_stays_above_the_bound(tables):
    covariances = tables.cross_covariances
    weights = np.bincount(tables.groups) / len(tables.groups)
    ordinary = canonical_pair(tables.x, tables.y, N_COMPONENTS)
    sf_pair = sf_cca(covariances, weights, 1.0, 40, ordinary)
    before, after = (sf_objective(covariances, weights, 1.0, pair) for pair in (ordinary, sf_pair))
    assert after < before
    for weight in sf_pair:
        np.testing.assert_allclose(weight.T @ weight, np.eye(N_COMPONENTS), atol=1e-12)
    model = FairCCA(N_COMPONENTS, scale=False).fit(
        tables.x, tables.y, sensitive_features=tables.groups
    )
    assert disparity_errors(covariances, sf_pair).max() > model.solution_.lower_bound


def test_fr_cca_is_fair_cca_with_mean_parity(tables):
    shifted = with_shifted_means(tables, np.random.default_rng(2))
    model = FairCCA(N_COMPONENTS, criterion="total_covariance", restriction="mean_parity")
    model.fit(shifted.x, shifted.y, sensitive_features=shifted.groups)
    pair = fr_cca(shifted, N_COMPONENTS)
    scores = model.transform(shifted.x, shifted.y)
    for ours, rows, weights in zip(scores, (shifted.x, shifted.y), pair, strict=True):
        theirs = (rows - rows.mean(axis=0)) @ weights
        signs = np.sign((ours * theirs).sum(axis=0))
        np.testing.assert_allclose(ours, theirs * signs, atol=1e-9)
        means = [theirs[shifted.groups == group].mean(axis=0) for group in (0, 1)]
        np.testing.assert_allclose(*means, atol=1e-12)


@pytest.mark.slow
def test_only_fair_cca_attains_the_bound(quick):
    rows = {row["method"]: row for row in table(quick(FAIR_CCA, []))}
    assert rows["FairCCA"]["above the bound"] == pytest.approx(0, abs=1e-8)
    assert 0.001 < rows["SF-CCA"]["above the bound"] < rows["CCA"]["above the bound"]
    assert rows["FairCCA, parity"]["above the bound"] == pytest.approx(0, abs=1e-8)
    published = rows["FR-CCA, parity"]
    assert published["above the bound"] > 0.1
    fair = rows["FairCCA total covariance, parity"]
    for column in ("correlation of all rows", "largest disparity error"):
        assert published[column] == pytest.approx(fair[column], abs=1e-10)
    assert published["covariance with the group"] < 1e-12
    assert rows["CCA without parity"]["covariance with the group"] > 1e-3
