"""Errors at most so far apart, where two groups are nearly identical."""

import numpy as np
import numpy.typing as npt
import pytest

from fairspan import EqualError, FairPCA, GroupMoments

FloatArray = npt.NDArray[np.float64]


def make_alike_groups(seed: int, p: int, share: float) -> FloatArray:
    """Return second moments of two groups; the second varies more in every direction."""
    rng = np.random.default_rng(seed)
    rows, more = rng.standard_normal((2, p, p))
    second = rows @ rows.T / p
    return np.array([second, second + share * (more @ more.T) / p])


@pytest.mark.parametrize("factor", [1.1, 1.5])
@pytest.mark.parametrize("share", [1e-3, 1e-6])
@pytest.mark.parametrize("seed", range(3))
def test_the_answer_is_that_of_all_angles(seed: int, share: float, factor: float) -> None:
    matrices = make_alike_groups(seed, 2, share)
    tolerance = factor * float(np.linalg.eigvalsh(matrices[1] - matrices[0])[0])
    moments = GroupMoments.from_covariances(matrices)
    solution = FairPCA(1, criterion=EqualError(tolerance)).fit_moments(moments).solution_
    angles = np.linspace(0, np.pi, 200_001)
    axes = np.array([np.cos(angles), np.sin(angles)])
    captured = np.einsum("in,gij,jn->gn", axes, matrices, axes)
    errors = np.trace(matrices, axis1=1, axis2=2)[:, None] - captured
    is_feasible = np.abs(errors[1] - errors[0]) <= tolerance
    best = float(errors.mean(axis=0)[is_feasible].min())
    assert solution.status != "open gap"
    assert solution.objective == pytest.approx(best, rel=1e-4)
    assert solution.constraint_violation <= 1e-9 * solution.objective


@pytest.mark.parametrize("seed", range(8))
def test_a_tolerance_near_the_least_gap_leaves_no_gap_open(seed: int) -> None:
    # Of 2,820 such fits, 178 took the subspace of the least gap, up to 15 % worse.
    rng = np.random.default_rng(seed)
    p = int(rng.integers(3, 7))
    d = int(rng.integers(1, p))
    matrices = make_alike_groups(seed, p, float(10.0 ** rng.uniform(-8, -3)))
    least = float(np.linalg.eigvalsh(matrices[1] - matrices[0])[: p - d].sum())
    moments = GroupMoments.from_covariances(matrices)
    for factor in (1.00001, 1.01, 1.1):
        criterion = EqualError(least * factor)
        solution = FairPCA(d, criterion=criterion).fit_moments(moments).solution_
        assert solution.status != "open gap"
        assert solution.constraint_violation <= 1e-9 * solution.objective
