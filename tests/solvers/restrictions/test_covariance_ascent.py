"""Covariance parity of many features: the scalar bound, and subspaces within the limit."""

import numpy as np
import pytest

import fairspan
from fairspan import CovarianceParity, FairPCA, GroupMoments
from fairspan.errors import Incompatible
from fairspan.solvers.restrictions.covariance_ascent import ascended, scalar_multiplier
from real_data import load


@pytest.mark.parametrize(("d", "reached", "bound"), [(5, 0.1199, 0.1236), (10, 0.1952, 0.2029)])
def test_adult_by_sex_has_equal_covariances(d, reached, bound):
    rows = load("adult_train:group__sex")
    X = np.asarray(rows.X, dtype=float)
    moments = GroupMoments.from_rows(X[:, X.std(axis=0) > 0], rows.groups)
    parity = CovarianceParity(tolerance=0.0)
    settings = {"criterion": "total_error", "restriction": parity, "scale": True}
    model = FairPCA(d, **settings).fit_moments(moments)
    total, solution = model.subspace_.provenance.total_variance, model.solution_
    assert 1 - solution.objective / total == pytest.approx(reached, abs=1e-4)
    assert 1 - solution.lower_bound / total == pytest.approx(bound, abs=1e-4)
    assert solution.status == "open gap"
    scaled = moments.divided_by(moments.standard_deviations)
    first, second = scaled.second_moments("group")
    V = model.components_.T
    assert np.abs((scaled.means[0] - scaled.means[1]) @ V).max() <= 1e-10
    apart = np.linalg.norm(V.T @ (first - second) @ V)
    assert apart <= 1e-6 * np.linalg.norm(first - second)
    assert fairspan.verify(model, moments).holds
    # Of the 41 positive and 36 negative eigenvalues, 36 pairs: 37 only by padding.
    with pytest.raises(Incompatible, match="Allowed is at least"):
        FairPCA(37, **settings).fit_moments(moments)


@pytest.mark.parametrize("limit", [0.0, 0.3])
def test_the_scalar_bound_is_the_least_on_a_grid_and_above_every_subspace(limit):
    rng = np.random.default_rng(3)
    S, D = (each @ each.T for each in rng.standard_normal((2, 8, 8)))
    D -= np.trace(D) / 8 * np.eye(8)
    limit *= np.linalg.norm(D, 2)

    def bound(nu):
        return np.linalg.eigvalsh(S - nu * D)[-2:].sum() + 2 * abs(nu) * limit

    nu = scalar_multiplier(S, D, 2, limit)
    assert bound(nu) <= min(map(bound, np.linspace(-3, 3, 2001))) + 1e-6
    basis = ascended(S, D, limit, np.eye(8)[:, :2])
    np.testing.assert_allclose(basis.T @ basis, np.eye(2), atol=1e-12)
    assert np.abs(np.linalg.eigvalsh(basis.T @ D @ basis)).max() <= limit + 1e-9
    assert np.trace(basis.T @ S @ basis) <= bound(nu) + 1e-9
