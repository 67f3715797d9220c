"""Whitened coordinates: only variance that double precision resolves becomes variance one."""

import numpy as np
import pytest

from fairspan import FairPCA, MeanParity
from fairspan.errors import IncompatibleParameters

HIDDEN = {"criterion": "total_error", "restriction": MeanParity(), "whiten": True}


def rows_of_rank(rank, *, seed=0, n=60, p=4):
    rng = np.random.default_rng(seed)
    factors = rng.standard_normal((n, rank))
    factors[::2] += 1
    return factors @ rng.standard_normal((rank, p)), np.array(["a", "b"] * (n // 2))


@pytest.mark.parametrize("n_components", [1, 2])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("reverse", [False, True])
def test_rounding_does_not_become_variance_one(seed, n_components, reverse):
    X, groups = rows_of_rank(1, seed=seed)
    if reverse:
        X, groups = X[::-1].copy(), groups[::-1].copy()
    with pytest.raises(IncompatibleParameters, match=r"component 1 of \d is negligible"):
        FairPCA(n_components, **HIDDEN).fit(X, sensitive_features=groups)


def test_the_first_component_without_variance_is_named():
    X, groups = rows_of_rank(3)
    FairPCA(2, **HIDDEN).fit(X, sensitive_features=groups)
    with pytest.raises(IncompatibleParameters, match="component 3 of 3"):
        FairPCA(3, **HIDDEN).fit(X, sensitive_features=groups)


def test_few_rows_have_no_more_components_than_they_vary_along():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((10, 600))
    groups = np.array(["a", "b"] * 5)
    FairPCA(8, **HIDDEN).fit(X, sensitive_features=groups)
    with pytest.raises(IncompatibleParameters, match="component 9 of 9"):
        FairPCA(9, **HIDDEN).fit(X, sensitive_features=groups)


@pytest.mark.parametrize("large", [1e3, 1e6, 1e7])
def test_small_columns_next_to_a_large_one_are_not_rounding(large):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((200, 4)) * [large, 1, 2, 3]
    groups = np.array(["a", "b"] * 100)
    white = FairPCA(3, **HIDDEN).fit(X, sensitive_features=groups)
    deviations = white.transform(X).std(axis=0)
    np.testing.assert_allclose(deviations, 1, rtol=1e-6)
    scaled = FairPCA(3, scale=True, **HIDDEN).fit(X, sensitive_features=groups)
    np.testing.assert_allclose(scaled.transform(X).std(axis=0), 1, rtol=1e-9)
