"""Memory that fits hold in addition to the rows; traced, so it is the same on every machine."""

import gc
import tracemalloc

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from threadpoolctl import threadpool_limits

import fairspan as fs
from tests.costs.cases import rows

_BYTES = 8  # of a float64 number


def peak_of_fit(X, groups, **settings):
    """Return the peak memory in bytes of a fit of two components, without X."""
    model = fs.FairPCA(2, **settings)
    few = X.iloc[:20] if isinstance(X, pd.DataFrame) else X[:20]
    model.fit(few, sensitive_features=groups[:20])  # load what fits need
    gc.collect()
    tracemalloc.start()
    try:
        with threadpool_limits(1):  # each thread holds blocks of its own
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


# Matrices of n x n that a wide fit holds at once, and vectors of p numbers: means, variances,
# components, and random probes of the axes.
_SQUARE_MATRICES = 12
_VECTORS = 50
# Blocks of a wide fit: one of the rows, its copy in the order of the groups, its checksum.
_BLOCK_BYTES = 3e6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("convert", "settings"),
    [
        (np.asarray, {}),
        (np.asarray, {"scale": True, "center": "group"}),
        (np.asarray, {"on_missing": "drop"}),
        (np.float32, {}),
        (np.asfortranarray, {}),
        (pd.DataFrame, {}),
    ],
    ids=["plain", "scaled", "drop", "float32", "Fortran order", "data frame"],
)
def test_a_wide_fit_holds_blocks_of_the_rows(convert, settings):
    n, p = 200, 20_000
    X = convert(np.random.default_rng(58).normal(size=(n, p)))
    extra = (_SQUARE_MATRICES * n**2 + _VECTORS * p) * _BYTES + _BLOCK_BYTES
    assert extra < n * p * _BYTES / 2
    if convert is pd.DataFrame:
        extra += 120 * p  # names of the columns, and the type of each
    assert peak_of_fit(X, np.arange(n) % 2, **settings) < extra


@pytest.mark.slow
def test_nearly_dependent_rows_have_axes_of_the_size_of_the_table():
    n, p = 200, 20_000
    rng = np.random.default_rng(58)
    X = rng.normal(size=(n, 10)) @ rng.normal(size=(10, p)) + 1e-5 * rng.normal(size=(n, p))
    extra = (_SQUARE_MATRICES * n**2 + _VECTORS * p) * _BYTES + _BLOCK_BYTES
    assert peak_of_fit(X, np.arange(n) % 2) < X.nbytes + extra


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


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Constant columns")
@pytest.mark.parametrize("settings", [{}, {"scale": True}], ids=["plain", "scaled"])
@pytest.mark.parametrize("rank", [None, 60], ids=["independent", "dependent"])
def test_a_fit_of_few_sparse_rows_holds_blocks_of_them(rank, settings):
    n, p, density = 200, 60_000, 0.005
    rng = np.random.default_rng(58)
    X = scipy.sparse.random_array((rank or n, p), density=density, rng=rng, format="csr")
    if rank is not None:
        X = scipy.sparse.csr_array(scipy.sparse.random_array((n, rank), density=0.05, rng=rng) @ X)
    # Copies of the stored cells, with their positions: by group, by column, and in transit.
    copies = 4 * 12 * X.nnz
    limit = (_SQUARE_MATRICES * n**2 + _VECTORS * p) * _BYTES + _BLOCK_BYTES + copies
    assert limit < n * p * _BYTES / 2
    assert peak_of_fit(X, np.arange(n) % 2, **settings) < limit
