"""Restrictions on rows that lie far from zero, evaluated from the rows in long double."""

import numpy as np
import pytest

import fairspan as fs


def _rows(offset, k):
    rng = np.random.default_rng(7)
    rows = rng.standard_normal((150, 5))
    groups = np.arange(150) % k
    for g in range(1, k):
        rows[groups == g, g] += 1.0
    return rows + offset * rng.standard_normal(5), groups


def _means(rows, groups):
    """Means of the groups about the first row, which rows of long double subtract exactly."""
    apart = rows.astype(np.longdouble) - rows[0]
    return np.array([apart[groups == g].mean(axis=0) for g in np.unique(groups)])


def _orthonormal(columns):
    """Orthonormalize columns by Gram-Schmidt, twice, in long double."""
    basis = []
    for column in columns.T:
        for _ in range(2):
            for direction in basis:
                column = column - direction * (direction @ column)
        basis.append(column / np.sqrt(column @ column))
    return np.array(basis).T


@pytest.mark.parametrize("offset", [1e8, 1e10])
def test_oblique_parity_far_from_zero_has_the_errors_of_the_rows(offset):
    rows, groups = _rows(offset, 2)
    parity = fs.MeanParity(oblique=True)
    model = fs.FairPCA(4, criterion="total_error", restriction=parity)
    model.fit(rows, sensitive_features=groups)
    apart = rows.astype(np.longdouble) - rows[0]
    apart = apart - apart.mean(axis=0)
    encoder = model.subspace_.encoder.astype(np.longdouble)
    decoder = model.subspace_.decoder.astype(np.longdouble)
    value = float(((apart - apart @ encoder.T @ decoder.T) ** 2).sum() / len(rows))
    assert model.solution_.status == "optimal"
    assert abs(model.solution_.objective - value) <= model.solution_.resolution
    near = fs.FairPCA(4, criterion="total_error", restriction=parity)
    near.fit(rows - rows[0], sensitive_features=groups)
    assert model.solution_.objective == pytest.approx(near.solution_.objective, rel=1e-12)


@pytest.mark.parametrize("offset", [1e6, 1e8, 1e10])
def test_bounds_about_the_origin_are_below_the_one_subspace_that_parity_leaves(offset):
    rows, groups = _rows(offset, 3)
    model = fs.FairPCA(3, criterion="minimax_error", restriction=fs.MeanParity(), center="none")
    model.fit(rows, sensitive_features=groups)
    means = _means(rows, groups)
    # All that is left of five directions, where two are taken.
    differences = (means[1:] - means[0]).T
    axes = np.hstack([differences, np.eye(5)[:, :3]])
    basis = _orthonormal(axes)[:, 2:]
    exactly = rows.astype(np.longdouble)
    errors = (exactly**2).sum(axis=1) - ((exactly @ basis) ** 2).sum(axis=1)
    optimum = max(float(errors[groups == g].mean()) for g in range(3))
    # In long double, squares of rows are rounded as well.
    room = model.solution_.resolution + 2.0**-60 * offset**2
    assert model.solution_.lower_bound <= optimum + room


@pytest.mark.parametrize("offset", [0.0, 1e6, 1e12])
def test_equal_means_far_from_zero(offset):
    rows, groups = _rows(offset, 3)
    model = fs.FairPCA(2, criterion="total_error", restriction=fs.MeanParity())
    model.fit(rows, sensitive_features=groups)
    means = _means(rows, groups) @ model.components_.T.astype(np.longdouble)
    assert np.ptp(means, axis=0).max() < 1e-13
    assert model.solution_.status == "optimal"


def test_an_oblique_encoder_that_rounding_decides_is_refused():
    # Its entries are large for small columns, which adds 2 % to the error that was called optimal.
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((48, 4))
    groups = np.arange(48) // 24
    rows[groups == 1] += rng.standard_normal(4)
    model = fs.FairPCA(1, criterion="total_error", restriction=fs.MeanParity(oblique=True))
    with pytest.raises(fs.errors.IncompatibleParameters, match="rounding of the encoder"):
        model.fit(rows * [5e14, 1.0, 1e16, 2.0], sensitive_features=groups)
    model.fit(rows * [5.0, 1.0, 10.0, 2.0], sensitive_features=groups)
    assert model.solution_.status == "optimal"


@pytest.mark.parametrize("restriction", [fs.MeanParity(), fs.CovarianceParity()])
@pytest.mark.parametrize("size", [1.0, 2e11, 2e12])
def test_a_column_that_varies_by_its_last_digits_is_not_constant_next_to_a_large_one(
    restriction, size
):
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((28, 5))
    groups = np.repeat(["a", "b"], 14)
    rows[:, 0] = -9.6e11 + np.spacing(9.6e11) * rng.integers(0, 8, 28)
    rows[:, 1] = size * (rows[:, 1] - 6e4)
    model = fs.FairPCA(2, criterion="least_variance", center="none", restriction=restriction)
    # Along the first component, rows vary by no more than a few roundings of the numbers.
    with pytest.raises(fs.errors.IncompatibleParameters, match="double precision misses it"):
        model.fit(rows, sensitive_features=groups)


@pytest.mark.parametrize(
    ("restriction", "n_components"),
    [(fs.MeanParity(), 3), (fs.MeanParity(), 4), (fs.CovarianceParity(), 2)],
)
def test_coordinates_without_variance_meet_a_restriction(restriction, n_components):
    rng = np.random.default_rng(4)
    rows = rng.standard_normal((40, 4))
    groups = np.repeat(["a", "b"], 20)
    rows[:, 2] = rows[:, 0] + rows[:, 1]
    table = np.column_stack([rows, np.full(40, 1.7e18)])
    model = fs.FairPCA(n_components, restriction=restriction)
    model.fit(table, sensitive_features=groups)
    assert model.solution_.status == "optimal"
    assert fs.verify(model, table, groups)
