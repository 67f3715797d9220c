"""The rounding errors that a problem starts with are within its budget."""

from dataclasses import replace

import numpy as np
import pytest

from fairspan.moments.second_moments import DenseSecondMoments
from fairspan.problem.rounding_budget import RoundingBudget, RowRank
from problems import random_basis, random_moments

INEXACT = 1e-4


def _errors(matrices, basis):
    traces = np.einsum("gii->g", matrices)
    return traces - np.einsum("ij,gik,kj->g", basis, matrices, basis)


@pytest.mark.parametrize("seed", range(5))
def test_errors_in_inexact_coordinates_are_within_the_budget(seed):
    generator = np.random.default_rng(seed)
    matrices = random_moments(generator, 3, 6)
    basis = random_basis(generator, 6, 2)
    # Coordinates along axes that are not quite orthonormal: S becomes FSF', |FF' - I| <= defect.
    stretch = np.eye(6) + INEXACT * generator.standard_normal((6, 6)) / 10
    defect = float(np.linalg.norm(stretch @ stretch.T - np.eye(6), 2))
    budget = RoundingBudget(orthogonality_defect=defect)
    inexact = np.array([stretch @ matrix @ stretch.T for matrix in matrices])
    for weights in ([1.0, 1.0, 1.0], [0.2, 0.0, 2.0], [1.0, -0.5, 0.3]):
        # The sum of the smallest eigenvalues: the least w.e of a subspace.
        sums = [
            np.linalg.eigvalsh(np.tensordot(weights, group_matrices, axes=1))[:4].sum()
            for group_matrices in (matrices, inexact)
        ]
        bound = budget.bound_rounding(
            DenseSecondMoments(matrices), np.array(weights), _errors(matrices, basis)
        )
        assert abs(sums[1] - sums[0]) <= bound


@pytest.mark.parametrize("seed", range(5))
def test_errors_of_displaced_rows_are_within_the_budget(seed):
    generator = np.random.default_rng(seed)
    rows = generator.standard_normal((2, 50, 6))
    displaced_rows = rows + INEXACT * generator.standard_normal((2, 50, 6))
    second, displaced = (
        np.einsum("gni,gnj->gij", group_rows, group_rows) / 50
        for group_rows in (rows, displaced_rows)
    )
    distances = np.sqrt(((displaced_rows - rows) ** 2).sum(axis=2).mean(axis=1))
    budget = RoundingBudget(span_residuals=distances)
    basis = random_basis(generator, 6, 3)
    errors = _errors(second, basis)
    off = np.abs(_errors(displaced, basis) - errors)
    bounds = budget.coordinate_rounding(DenseSecondMoments(second), errors)
    assert (off <= bounds).all()
    # The bound is not idle: it is proportional to the distance.
    assert (bounds <= 20 * INEXACT * np.einsum("gii->g", second)).all()


def test_an_exact_problem_has_the_rounding_of_its_sums_alone():
    second = DenseSecondMoments(random_moments(np.random.default_rng(0), 2, 4))
    exact = RoundingBudget()
    errors = np.ones(2)
    assert not exact.coordinate_rounding(second, errors).any()
    assert exact.bound_rounding(second, errors, errors) == 0
    assert exact.variance_rounding(second) == pytest.approx(
        8 * np.finfo(np.float64).eps * second.traces
    )


def test_a_restriction_lowers_the_rank_and_rotates_with_the_coordinates():
    second = DenseSecondMoments(np.array([np.diag([3.0, 2.0, 1.0])]))
    rank = RowRank(3, second, np.ones(1), typical_variance=0.5)
    budget = RoundingBudget(orthogonality_defect=INEXACT, row_rank=rank)
    allowed = DenseSecondMoments(np.array([np.diag([3.0, 2.0])]))
    within = budget.within(allowed, n_forbidden=1, is_full=False)
    assert within.row_rank.maximum == 2
    assert within.row_rank.smallest_variance == 0.5
    assert within.forbidden_rotation == INEXACT
    errors = (
        rounding_budget.coordinate_rounding(allowed, np.ones(1))[0]
        for rounding_budget in (budget, within)
    )
    assert next(errors) < next(errors)
    # Without further directions, no row can be missed.
    full = budget.within(allowed, n_forbidden=1, is_full=True)
    assert full.row_rank.smallest_variance == pytest.approx(2.0)
    later = within.after_components(np.full(1, 1e-12), n_components=1)
    assert later.row_rank.n_deflated == 1
    assert later.fixed_errors == 1e-12
    assert replace(later, row_rank=None).after_components(np.zeros(1), 1).row_rank is None
