"""Memory that fits hold beside the caller's rows; traced, so it is the same on every machine."""

import gc
import tracemalloc

import numpy as np
import pytest

import fairspan as fs
from tests.costs.cases import rows

_BYTES = 8  # of a float64 number


def peak_of_fit(X, groups, **settings):
    """Return the peak memory in bytes of a fit of two components, without X."""
    model = fs.FairPCA(2, **settings)
    model.fit(X[:20], sensitive_features=groups[:20])  # load what fits need
    gc.collect()
    tracemalloc.start()
    try:
        model.fit(X, sensitive_features=groups)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_tall_fit_holds_blocks_of_the_rows(dtype):
    X = rows(200_000, 20).X.astype(dtype)
    groups = rows(200_000, 20).groups
    # A block of 2 MB, its copy without the mean, and the code of each row's group.
    assert peak_of_fit(X, groups) < 5e6 + len(X)
    assert peak_of_fit(X, groups, scale=True, center="group") < 5e6 + len(X)


@pytest.mark.slow
def test_a_wide_fit_holds_the_rows_once():
    n, p = 200, 20_000
    X = np.random.default_rng(58).normal(size=(n, p))
    # The moments keep a copy. All else is blocks of 1 MB, matrices of n x n, and vectors of p
    # numbers: means, variances and components.
    beside = 20 * n**2 + 45 * p
    assert peak_of_fit(X, np.arange(n) % 2) < (n * p + beside) * _BYTES + 2e6


@pytest.mark.slow
def test_equal_rows_are_not_copied():
    n, p = 400, 5_000
    X = np.tile(np.linspace(1.0, 2.0, p), (n, 1))
    groups = np.arange(n) % 2
    assert peak_of_fit(X, groups) < X.nbytes / 4
    # A row of weight zero may differ, and is no row of the fit.
    X[0] = 0.0
    weights = np.ones(n)
    weights[0] = 0.0
    model = fs.FairPCA(2).fit(X, sensitive_features=groups, sample_weight=weights)
    np.testing.assert_array_equal(model.mean_, X[1])
    assert not model.group_errors_.any()
    # The last row alone differs: the same rows as anywhere else.
    X[-1] += 1.0
    model.fit(X[1:], sensitive_features=groups[1:])
    assert model.explained_variance_[0] == pytest.approx(p * (n - 2) / (n - 1) ** 2)


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_equal_rows_that_are_not_finite_are_refused(value):
    with pytest.raises(fs.errors.InvalidInput):
        fs.FairPCA(2).fit(np.full((40, 200), value), sensitive_features=np.arange(40) % 2)
