"""Fitted attributes and parameters, against scikit-learn's PCA where both are the same."""

import numpy as np
import pandas as pd
import pytest

import fairspan as fs
from fairspan.errors import IncompatibleParameters, InvalidParameter
from numpy_reference import random_rows

ROWS = random_rows(3, n=80, p=5)
X = ROWS.X + np.array([100.0, 0, -3, 0, 7])
# Ours are divided by n, theirs by n - 1.
FEWER = 79 / 80


def fit_model(X=X, d=2, **settings):
    return fs.FairPCA(d, **settings).fit(X, sensitive_features=ROWS.labels)


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("whiten", [False, True])
def test_total_error_is_scikit_learns_pca(d, whiten):
    from sklearn.decomposition import PCA

    ours = fit_model(d=d, criterion="total_error", whiten=whiten)
    theirs = PCA(d, svd_solver="full", whiten=whiten).fit(X)
    np.testing.assert_allclose(ours.singular_values_, theirs.singular_values_)
    np.testing.assert_allclose(ours.explained_variance_, theirs.explained_variance_ * FEWER)
    assert ours.noise_variance_ == pytest.approx(theirs.noise_variance_ * FEWER, abs=1e-12)
    assert ours.n_samples_seen_ == theirs.n_samples_
    # Whitening changes no covariance of the rows, while scikit-learn's takes it for a change.
    plain = PCA(d, svd_solver="full").fit(X)
    np.testing.assert_allclose(ours.get_covariance(), plain.get_covariance() * FEWER, atol=1e-12)
    np.testing.assert_allclose(ours.get_precision(), plain.get_precision() / FEWER, rtol=1e-8)
    signs = np.sign((ours.components_ * theirs.components_).sum(axis=1))
    reduced = theirs.transform(X) * signs / (np.sqrt(FEWER) if whiten else 1.0)
    np.testing.assert_allclose(ours.transform(X), reduced, atol=1e-10)
    np.testing.assert_allclose(
        ours.inverse_transform(ours.transform(X)), theirs.inverse_transform(theirs.transform(X))
    )


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"scale": True},
        {"center": "none"},
        {"center": "group"},
        {"nested": True},
        {"restriction": "mean_parity"},
        {"criterion": "nash_welfare"},
    ],
)
def test_the_covariance_of_a_fair_fit_is_that_of_its_model(settings):
    fair = fit_model(**settings)
    moments = fair.moments_ if fair.scale_ is None else fair.moments_.divided_by(fair.scale_)
    pooled = np.tensordot(moments.proportions, moments.second_moments(fair.center), axes=1)
    within = fair.components_
    covariance = fair.get_covariance()
    outside = np.linalg.svd(within)[2][2:]
    rounding = 1e-12 * np.trace(pooled)
    inner_covariance = within @ covariance @ within.T
    np.testing.assert_allclose(inner_covariance, within @ pooled @ within.T, atol=rounding)
    noise = np.trace(outside @ pooled @ outside.T) / 3
    assert fair.noise_variance_ == pytest.approx(noise)
    np.testing.assert_allclose(outside @ covariance @ outside.T, noise * np.eye(3), atol=rounding)
    np.testing.assert_allclose(outside @ covariance @ within.T, 0, atol=rounding)
    np.testing.assert_allclose(fair.get_precision() @ covariance, np.eye(5), atol=1e-8)


def test_whitened_coordinates_have_variance_one_and_change_no_figure():
    plain = fit_model()
    white = fit_model(whiten=True)
    np.testing.assert_allclose(np.cov(white.transform(X).T, ddof=0), np.eye(2), atol=1e-10)
    np.testing.assert_array_equal(white.group_errors_, plain.group_errors_)
    np.testing.assert_allclose(
        white.inverse_transform(white.transform(X)), plain.inverse_transform(plain.transform(X))
    )
    assert fs.verify(white, X, ROWS.labels).holds
    records = [
        fs.audit({"it": fair}, X, ROWS.labels, folds=None).to_records() for fair in (plain, white)
    ]
    assert records[0] == records[1]
    nested = fit_model(nested=True, whiten=True)
    np.testing.assert_allclose(
        nested.subspace_.truncate(1).transform(X), nested.transform(X)[:, :1]
    )
    # A component without variance stays at zero.
    flat = np.hstack([X[:, :2], np.zeros((80, 1))])
    flattened = fit_model(flat, d=3, criterion="total_error", whiten=True).transform(flat)
    np.testing.assert_allclose(flattened.std(axis=0), [1, 1, 0], atol=1e-10)


@pytest.mark.parametrize(
    "kind", ["sparse", pytest.param("dask", marks=pytest.mark.slow), "array-api"]
)
def test_whitening_wherever_rows_lie(kind):
    white = fit_model(whiten=True)
    expected = white.transform(X)
    if kind == "sparse":
        from scipy import sparse

        reduced = white.transform(sparse.csr_matrix(X))
    elif kind == "dask":
        reduced = white.transform(pytest.importorskip("dask.array").from_array(X, chunks=30))
        reduced = reduced.compute()
    else:
        xp = pytest.importorskip("array_api_strict")
        xp_reduced = white.transform(xp.asarray(X))
        reduced = np.asarray(xp_reduced)
        np.testing.assert_allclose(
            np.asarray(white.inverse_transform(xp_reduced)), white.inverse_transform(expected)
        )
    np.testing.assert_allclose(reduced, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize(
    "kind", ["array", "pandas", "polars", "arrow", "sparse", "pandas and a group column"]
)
def test_output_has_the_precision_of_the_rows(kind, dtype):
    import polars as pl
    import pyarrow as pa
    from scipy import sparse

    values = X.round().astype(dtype)
    names = [f"x{i}" for i in range(5)]
    frame = pd.DataFrame(values, columns=names)
    rows = {
        "array": values,
        "pandas": frame,
        "pandas and a group column": frame.assign(team=ROWS.labels),
        "polars": pl.DataFrame(values, schema=names),
        "arrow": pa.table(frame),
        "sparse": sparse.csr_matrix(values),
    }[kind]
    groups = "team" if "group" in kind else ROWS.labels
    fair = fs.FairPCA(2).fit(rows, sensitive_features=groups)
    precision = np.float32 if dtype == np.float32 else np.float64
    subspace = fs.FairSubspace.from_model(fair)
    for reducer in (fair, subspace):
        reduced = reducer.transform(rows)
        assert reduced.dtype == precision
        assert reducer.inverse_transform(reduced).dtype == precision
    assert fair.set_output(transform="pandas").transform(rows).dtypes.unique() == [precision]


def test_one_wide_column_makes_double_precision():
    frame = pd.DataFrame(X.astype(np.float32), columns=list("abcde")).astype({"b": np.float64})
    fair = fs.FairPCA(2).fit(frame, sensitive_features=ROWS.labels)
    assert fair.transform(frame).dtype == np.float64


def test_rows_without_a_covariance_are_refused():
    oblique = {"criterion": "total_error", "restriction": fs.MeanParity(oblique=True)}
    flat = np.hstack([X[:, :2], np.ones((80, 1))])
    for call, kind, message in (
        (lambda: fit_model(**oblique).get_covariance(), IncompatibleParameters, "oblique"),
        (
            lambda: fit_model(**oblique, whiten=True),
            IncompatibleParameters,
            "whiten=True .* oblique",
        ),
        (
            lambda: fit_model(flat, criterion="total_error").get_precision(),
            IncompatibleParameters,
            "covariance is singular",
        ),
        (lambda: fit_model(whiten="yes"), InvalidParameter, "whiten"),
    ):
        with pytest.raises(kind, match=message):
            call()
