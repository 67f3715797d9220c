"""Bounds and ascents within a limit of covariances, against conic programs, grids and formulas."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

from case_selection import mark_most_long
from different_groups import beyond, covariance_gap, figures, figures_of_equal_means, fit
from fairspan import CovarianceParity, MeanParity, TotalError
from fairspan.certificates.proofs import CovarianceDifferenceProof, CovarianceTraceProof
from fairspan.errors import IncompatibleParameters
from fairspan.problem.limits import CovarianceDifferenceLimit
from fairspan.solvers.covariance_ascent import best_feasible_subspace, local_ascent
from fairspan.solvers.covariance_bounds import scalar_dual_multiplier, solve_semidefinite_relaxation
from problems import build_problem, random_basis


def prove_bound(multipliers, S, D, limit, basis):
    """Return the upper bound on tr(V'SV); it must not depend on the subspace of evaluation."""
    problem = build_problem([S], basis.shape[1], TotalError())
    problem = replace(problem, limit=CovarianceDifferenceLimit(D, limit))
    proof = CovarianceDifferenceProof(problem.proportions, multipliers)
    gap, rounding = proof.gap(problem, basis, problem.errors(basis))
    other = np.eye(len(S))[:, : basis.shape[1]]
    at_other = np.trace(other.T @ S @ other) + proof.gap(problem, other, problem.errors(other))[0]
    bound = np.trace(basis.T @ S @ basis) + gap
    assert bound == pytest.approx(at_other, abs=1e-10 * np.trace(S))
    assert 0 <= rounding <= 1e-11 * np.trace(S)
    return bound


@pytest.mark.slow
@pytest.mark.parametrize("seed", mark_most_long(range(8), 3))
def test_the_bound_is_the_optimum_of_the_program_with_a_schur_complement(seed):
    """For a projector the limit is also PMM'P <= (phi + tau) P, twice as large but the same."""
    import cvxpy

    rng = np.random.default_rng(seed)
    p = 4 + seed % 3
    d = 1 + seed % 2
    S, D = (factor @ factor.T for factor in rng.standard_normal((2, p, p)))
    D -= np.trace(D) / p * np.eye(p)
    limit = 0.2 * np.linalg.norm(D, 2)
    P = cvxpy.Variable((p, p), PSD=True)
    limits = [np.eye(p) - P >> 0, cvxpy.trace(P) == d]
    for sign in (1, -1):
        values, vectors = np.linalg.eigh(sign * D)
        phi = -values[0]
        M = vectors[:, 1:] * np.sqrt(values[1:] + phi)
        block = cvxpy.bmat([[(phi + limit) * P, P @ M], [M.T @ P, np.eye(p - 1)]])
        limits.append(block >> 0)
    conic = cvxpy.Problem(cvxpy.Maximize(cvxpy.trace(S @ P)), limits)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        conic.solve(cvxpy.CLARABEL)
    multipliers, start = solve_semidefinite_relaxation(S, D, d, limit)
    bound = prove_bound(multipliers, S, D, limit, start)
    assert bound == pytest.approx(conic.value, abs=1e-5 * np.trace(S))
    best = best_feasible_subspace(S, D, limit, [start])
    np.testing.assert_allclose(best.T @ best, np.eye(d), atol=1e-12)
    assert beyond(best, D) <= limit + 2e-9 * np.linalg.norm(D, 2)
    assert np.trace(best.T @ S @ best) <= bound + 1e-8 * np.trace(S)


@pytest.mark.slow
@pytest.mark.parametrize("unit", mark_most_long([1e-8, 1e8], 2))
def test_the_best_feasible_subspace_does_not_depend_on_the_unit(unit):
    S, _, D = figures()
    limit = 0.1 * np.linalg.norm(D, 2)
    start = np.linalg.eigh(S)[1][:, -2:]
    basis, rescaled_basis = (
        best_feasible_subspace(u * S, u * D, u * limit, [start]) for u in (1.0, unit)
    )
    assert beyond(rescaled_basis, D) <= limit * (1 + 1e-7)
    assert np.trace(rescaled_basis.T @ S @ rescaled_basis) == pytest.approx(
        np.trace(basis.T @ S @ basis), rel=1e-6
    )


def test_other_solvers_and_too_many_features_are_refused():
    with pytest.raises(IncompatibleParameters, match="'auto' and 'semidefinite'"):
        fit(CovarianceParity(tolerance=0.1), solver="boundary")
    assert fit(MeanParity(0.1), solver="boundary").solver_ == "boundary"
    with pytest.raises(IncompatibleParameters, match="up to 60"):
        solve_semidefinite_relaxation(np.eye(61), np.eye(61), 2, 0.1)


@pytest.mark.slow
@pytest.mark.parametrize("share", mark_most_long([0.3, 0.8, 0.1], 3))
def test_no_other_start_of_an_ascent_ends_higher(share):
    limit = share * covariance_gap(fit(MeanParity(), 3))
    S, D, _ = figures_of_equal_means()
    fair = fit(CovarianceParity(tolerance=limit), 3)
    rng = np.random.default_rng(1)
    ascent_bases = [local_ascent(S, D, limit, random_basis(rng, len(S), 3)) for _ in range(6)]
    captured_variances = [
        np.vdot(V, S @ V) for V in ascent_bases if beyond(V, D) <= limit * (1 + 1e-6)
    ]
    assert np.trace(figures()[0]) - fair.solution_.objective >= max(captured_variances) * (1 - 1e-4)


@pytest.mark.parametrize("limit", [0.0, 0.3])
def test_the_scalar_bound_is_the_least_on_a_grid_and_above_every_subspace(limit):
    rng = np.random.default_rng(3)
    S, D = (factor @ factor.T for factor in rng.standard_normal((2, 8, 8)))
    D -= np.trace(D) / 8 * np.eye(8)
    limit *= np.linalg.norm(D, 2)

    def bound(nu):
        return np.linalg.eigvalsh(S - nu * D)[-2:].sum() + 2 * abs(nu) * limit

    nu = scalar_dual_multiplier(S, D, 2, limit)
    assert bound(nu) <= min(map(bound, np.linspace(-3, 3, 2001))) + 1e-6
    basis = local_ascent(S, D, limit, np.eye(8)[:, :2])
    np.testing.assert_allclose(basis.T @ basis, np.eye(2), atol=1e-12)
    assert beyond(basis, D) <= limit + 1e-9
    assert np.trace(basis.T @ S @ basis) <= bound(nu) + 1e-9


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_scalar_bound_is_found_far_from_zero(sign):
    # Eigenvalues 10 - nu / 10 and 1 + nu / 100 are the largest two, and equal at the optimum.
    S = np.diag([10.0, 1.0, 1.0])
    D = np.diag([0.1, -0.01, 1.0])
    nu = scalar_dual_multiplier(S, sign * D, 1, 0.0)
    assert nu == pytest.approx(sign * 9 / 0.11, rel=1e-4)
    assert np.linalg.eigvalsh(S - nu * sign * D)[-1] == pytest.approx(1 + 0.09 / 0.11, rel=1e-5)


@pytest.mark.parametrize("nu", [-0.4, 0.0, 0.7])
@pytest.mark.parametrize("trace", [-5.0, 0.0, 5.0])
def test_the_bound_of_a_scalar_multiplier_is_its_formula_at_any_trace(nu, trace):
    rng = np.random.default_rng(11)
    p = 6
    d = 2
    limit = 0.5
    S, D = (factor @ factor.T for factor in rng.standard_normal((2, p, p)))
    D += (trace - np.trace(D)) / p * np.eye(p)
    problem = replace(
        build_problem([S], d, TotalError()), limit=CovarianceDifferenceLimit(D, limit)
    )
    bound = np.linalg.eigvalsh(S - nu * D)[-d:].sum() + abs(nu) * d * limit
    for _ in range(5):
        V = random_basis(rng, p, d)
        proof = CovarianceTraceProof(problem.proportions, nu)
        gap, rounding = proof.gap(problem, V, problem.errors(V))
        assert np.trace(V.T @ S @ V) + gap == pytest.approx(bound, abs=1e-9)
        assert 0 <= rounding <= 1e-9
