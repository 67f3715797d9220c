"""The estimated optimism of a fit, compared with simulated fits to known distributions."""

import numpy as np
import pytest
from scipy import sparse

import fairspan as fs
from fairspan.auditing.optimism import ErrorOptimism
from fairspan.moments.row_moments import SparseMoments
from fairspan.rows.opening import open_group_rows

SPECTRA = {"a": np.array([5, 4, 1, 1, 0.5, 0.5]), "b": np.array([3, 6, 2, 0.5, 0.5, 0.2])}
COUNTS = {"a": 150, "b": 50}
CENTERS = ["global", "group", "none"]


def draw_rows(rng, counts, df=np.inf):
    """Rows of a multivariate t distribution, normal by default."""
    parts = [rng.normal(size=(counts[g], 6)) * np.sqrt(SPECTRA[g]) for g in counts]
    rows = np.vstack(parts)
    if np.isfinite(df):
        rows *= np.sqrt((df - 2) / rng.chisquare(df, size=(len(rows), 1)))
    return rows, np.repeat(list(counts), list(counts.values()))


def fit(rng, center, df=np.inf):
    rows, groups = draw_rows(rng, COUNTS, df)
    model = fs.FairPCA(2, criterion="total_error", center=center)
    return model.fit(rows, sensitive_features=groups)


def true_errors(subspace):
    """Errors on infinitely many rows, which are centered at zero."""
    outside = np.eye(6) - subspace.components.T @ subspace.components
    offset = 0.0 if subspace.center != "global" else subspace.mean @ outside @ subspace.mean
    return np.array([np.diag(outside) @ SPECTRA[g] for g in "ab"]) + offset


@pytest.mark.slow
@pytest.mark.parametrize(("center", "df"), [*((center, np.inf) for center in CENTERS), ("none", 6)])
def test_optimism_is_that_of_simulated_fits(center, df):
    rng = np.random.default_rng(0)
    optimisms = []
    for _ in range(400):
        subspace = fit(rng, center, df).subspace_
        optimisms.append(true_errors(subspace) - subspace.certificate.errors)
    standard_errors = np.std(optimisms, axis=0) / np.sqrt(len(optimisms))
    rows, groups = draw_rows(rng, {"a": 20_000, "b": 20_000}, df)
    moments = fs.GroupMoments.from_rows(rows, groups)
    residuals = rows - rows @ subspace.components.T @ subspace.components
    squares = (residuals**2).sum(axis=1)
    estimate = ErrorOptimism.from_moments(
        subspace,
        moments,
        true_errors(subspace),
        np.array([squares[groups == g].std() / np.sqrt(20_000) for g in "ab"]),
    )
    expected = estimate.at_counts(np.array([150.0, 50.0]))
    difference = np.abs(np.mean(optimisms, axis=0) - expected)
    assert (difference <= 3 * standard_errors + 0.15 * expected).all()


def test_nothing_is_left_to_choose_with_all_components():
    rows, groups = draw_rows(np.random.default_rng(0), COUNTS)
    subspace = fs.FairPCA(6, criterion="total_error", center="none").fit(
        rows, sensitive_features=groups
    )
    moments = fs.GroupMoments.from_rows(rows, groups)
    estimate = ErrorOptimism.from_moments(subspace.subspace_, moments, np.zeros(2))
    assert estimate.at_counts(np.array([150.0, 50.0])).tolist() == [0, 0]


def test_without_matrices_optimism_is_an_upper_bound():
    rng = np.random.default_rng(1)
    subspace = fit(rng, "global").subspace_
    rows, groups = draw_rows(rng, COUNTS)
    moments = fs.GroupMoments.from_rows(rows, groups)
    matrix_free = SparseMoments.from_rows(open_group_rows(sparse.csr_array(rows), groups))
    errors = true_errors(subspace)
    exact, bound = (
        ErrorOptimism.from_moments(subspace, second_moments, errors).selection_rates
        for second_moments in (moments, matrix_free)
    )
    assert (bound >= exact).all()
    assert (exact > 0).all()
