"""Verification allows for rounding: honest claims of other methods pass, others are refused."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from certificate_claims import replace_claims
from fairspan import FairPCA, GroupMoments, verify
from numpy_reference import generate_group_rows

pytestmark = pytest.mark.unverified


@cache
def _small_losses():
    """Losses of 1e-6 of the errors: their rounding is 8e-8 of them, between both tolerances."""
    rng = np.random.default_rng(0)
    axes = np.vstack([np.eye(5), -np.eye(5)]) * np.sqrt(5)
    factors = rng.standard_normal((2, 5, 5))
    X = np.vstack([axes @ np.linalg.cholesky(1e6 * np.eye(5) + f @ f.T).T for f in factors])
    groups = np.repeat(["a", "b"], 10)
    return X, groups, FairPCA(2).fit(X, sensitive_features=groups).subspace_


def _verify_claims(case, **claims):
    X, groups, subspace = case
    certificate = replace_claims(subspace.certificate, **claims)
    return verify(replace(subspace, certificate=certificate), X, groups).holds


def test_the_rounding_of_the_case_is_what_decides():
    certificate = _small_losses()[-1].certificate
    assert 1e-8 < certificate.resolution / certificate.scale < 1e-7


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("n_resolutions", "expected"), [(1.0, True), (3.9, True), (4.5, False)])
def test_figures_may_differ_by_four_resolutions(sign, n_resolutions, expected):
    case = _small_losses()
    certificate = case[-1].certificate
    change = sign * n_resolutions * certificate.resolution
    both = {
        "objective": certificate.objective + change,
        "lower_bound": certificate.lower_bound + change,
    }
    assert _verify_claims(case, **both) is expected
    if sign > 0:  # a lower one leaves a gap that is called closed
        assert _verify_claims(case, lower_bound=both["lower_bound"]) is expected


def test_figures_of_rows_in_another_order_differ_by_less():
    X, groups, subspace = _small_losses()
    certificate = subspace.certificate
    rng = np.random.default_rng(1)
    for _ in range(5):
        order = rng.permutation(len(X))
        columns = rng.permutation(X.shape[1])
        other = FairPCA(2).fit(X[order][:, columns], sensitive_features=groups[order])
        other_certificate = other.subspace_.certificate
        # Both are optimal up to a resolution of their own.
        assert (
            abs(other_certificate.objective - certificate.objective) <= 2 * certificate.resolution
        )
        assert other_certificate.resolution == pytest.approx(certificate.resolution, rel=0.5)
        assert verify(other, X[:, columns], groups).holds


@pytest.mark.parametrize(
    ("factor", "expected"), [(1 / 600, False), (1 / 400, True), (400.0, True), (600.0, False)]
)
def test_a_resolution_is_known_up_to_a_factor(factor, expected):
    X, groups = generate_group_rows()
    subspace = FairPCA(2).fit(X, sensitive_features=groups).subspace_
    resolution = factor * subspace.certificate.resolution
    assert _verify_claims((X, groups, subspace), resolution=resolution) is expected


@pytest.mark.slow
def test_the_resolution_of_few_rows_is_that_of_their_matrices_up_to_the_factor():
    X = np.random.default_rng(0).standard_normal((6, 900))
    groups = np.repeat(["a", "b"], 3)
    moments = GroupMoments.from_rows(X, groups)
    model = FairPCA(2, criterion="minimax_error")
    of_rows = model.fit(X, sensitive_features=groups).subspace_
    of_matrices = FairPCA(2, criterion="minimax_error").fit_moments(moments).subspace_
    ratio = of_matrices.certificate.resolution / of_rows.certificate.resolution
    # The bounds count 900 terms and 5; with 2,400 features, the ratio is 106.
    assert 30 < ratio < 500
    assert verify(of_rows, moments).holds
    assert verify(of_matrices, X, groups).holds


def test_errors_of_few_rows_and_of_their_matrices_differ_by_less_than_is_allowed():
    rng = np.random.default_rng(3)
    for spread in (0.0, 1.0):
        X = rng.standard_normal((20, 600)) * 10.0 ** rng.uniform(-spread, spread, 600)
        groups = np.repeat(["a", "b"], 10)
        subspace = FairPCA(3).fit(X, sensitive_features=groups).subspace_
        moments = GroupMoments.from_rows(X, groups)
        second = moments.second_moments_about(moments.mean)
        basis = np.linalg.qr(subspace.components.T)[0]
        off = np.abs(second.residual_variances(basis) - subspace.certificate.errors)
        unit = 2 * 600 * np.finfo(np.float64).eps * second.traces
        assert (off <= 10 * unit).all()
