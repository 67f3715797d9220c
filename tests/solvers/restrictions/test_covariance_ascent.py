"""Covariance parity of many features: the scalar bound, and subspaces within the limit."""

from dataclasses import replace

import numpy as np
import pytest

import fairspan
from fairspan import CovarianceParity, FairPCA, GroupMoments
from fairspan.certificates.proof import CovarianceTraceProof
from fairspan.errors import Incompatible
from fairspan.problem.criteria import TotalError
from fairspan.problem.problem import CovariancesWithin
from fairspan.solvers.restrictions.covariances import ascended, scalar_multiplier
from problems import problem_of
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
    with pytest.raises(Incompatible, match="Allowed: at least"):
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


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_scalar_bound_is_found_far_from_zero(sign):
    # Eigenvalues 10 - nu / 10 and 1 + nu / 100 are the largest two, and equal at the optimum.
    S, D = np.diag([10.0, 1.0, 1.0]), np.diag([0.1, -0.01, 1.0])
    nu = scalar_multiplier(S, sign * D, 1, 0.0)
    assert nu == pytest.approx(sign * 9 / 0.11, rel=1e-4)
    assert np.linalg.eigvalsh(S - nu * sign * D)[-1] == pytest.approx(1 + 0.09 / 0.11, rel=1e-5)


@pytest.mark.parametrize("nu", [-0.4, 0.0, 0.7])
@pytest.mark.parametrize("trace", [-5.0, 0.0, 5.0])
def test_what_a_number_proves_is_its_formula_whatever_the_difference_sums_to(nu, trace):
    rng = np.random.default_rng(11)
    p, d, limit = 6, 2, 0.5
    S, D = (each @ each.T for each in rng.standard_normal((2, p, p)))
    D += (trace - np.trace(D)) / p * np.eye(p)
    problem = replace(problem_of([S], d, TotalError()), limit=CovariancesWithin(D, limit))
    bound = np.linalg.eigvalsh(S - nu * D)[-d:].sum() + abs(nu) * d * limit
    for _ in range(5):
        V = np.linalg.qr(rng.standard_normal((p, d)))[0]
        proof = CovarianceTraceProof(problem.proportions, nu)
        gap, rounding = proof.gap(problem, V, problem.errors(V))
        assert np.trace(V.T @ S @ V) + gap == pytest.approx(bound, abs=1e-9)
        assert 0 <= rounding <= 1e-9


def test_where_one_group_varies_more_everywhere_equal_covariances_are_those_of_no_difference():
    """Nothing cancels, so V lies in the null space of C_1 - C_2, and PCA there is the optimum."""
    rng = np.random.default_rng(4)
    apart = rng.standard_normal((200, 6))
    uncorrelated = np.linalg.qr(apart - apart.mean(axis=0))[0] * np.sqrt(200)
    narrow, wide = uncorrelated * [1, 2, 3, 1, 1, 2], uncorrelated * [1, 2, 3, 2, 4, 8]
    X = np.vstack([narrow, wide]) @ np.linalg.qr(rng.standard_normal((6, 6)))[0]
    groups = np.repeat(["a", "b"], 200)
    settings = {"criterion": "total_error", "restriction": CovarianceParity(tolerance=0.0)}
    model = FairPCA(2, **settings).fit(X, sensitive_features=groups)
    assert model.solution_.status == "optimal"
    total = (narrow.var(axis=0).sum() + wide.var(axis=0).sum()) / 2
    assert model.solution_.objective == pytest.approx(total - 4 - 9, rel=1e-9)
    assert fairspan.verify(model, X, groups).holds
    with pytest.raises(Incompatible, match=r"up to 3 components: .* 0 positive and 3 negative"):
        FairPCA(4, **settings).fit(X, sensitive_features=groups)
