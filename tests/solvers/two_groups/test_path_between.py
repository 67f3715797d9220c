"""The path between two subspaces: its ends, what it keeps, and zeros met on it."""

import numpy as np
import pytest
import scipy.linalg

from fairspan.solvers.two_groups.root_search import PathBetween
from problems import random_basis

SIZES = pytest.mark.parametrize(("p", "d"), [(2, 1), (5, 2), (6, 5), (9, 4), (4, 4)])
SHARES = np.linspace(0, 1, 11)


def projector(basis):
    return basis @ basis.T


def ends(p, d):
    rng = np.random.default_rng(10 * p + d)
    return random_basis(rng, p, d), random_basis(rng, p, d)


@SIZES
def test_it_leads_from_one_to_the_other_through_orthonormal_bases(p, d):
    first, last = ends(p, d)
    path = PathBetween(first, last)
    np.testing.assert_allclose(projector(path.at(0.0)), projector(first), atol=1e-14)
    np.testing.assert_allclose(projector(path.at(1.0)), projector(last), atol=1e-14)
    for share in SHARES:
        basis = path.at(share)
        np.testing.assert_allclose(basis.T @ basis, np.eye(d), atol=1e-14)


@SIZES
def test_principal_angles_grow_in_proportion(p, d):
    first, last = ends(p, d)
    path = PathBetween(first, last)
    angles = np.sort(scipy.linalg.subspace_angles(first, last))
    np.testing.assert_allclose(np.sort(path.angles), angles, atol=1e-7)
    for share in SHARES:
        here = np.sort(scipy.linalg.subspace_angles(first, path.at(share)))
        np.testing.assert_allclose(here, share * angles, atol=1e-7)


@pytest.mark.parametrize("angle", [0.0, 1e-12, 1e-6, 1.0, np.pi / 2])
def test_small_and_right_angles(angle):
    turn = random_basis(np.random.default_rng(0), 5, 5)
    first = turn[:, :2]
    last = np.column_stack([turn[:, 0], np.cos(angle) * turn[:, 1] + np.sin(angle) * turn[:, 2]])
    path = PathBetween(first, last)
    assert path.angles.max() == pytest.approx(angle, rel=1e-3, abs=1e-15)
    for share in SHARES:
        basis = path.at(share)
        np.testing.assert_allclose(basis.T @ basis, np.eye(2), atol=1e-14)
        moved = np.sin(share * angle)
        np.testing.assert_allclose(np.linalg.norm(turn[:, 2] @ basis), moved, rtol=1e-3, atol=1e-15)


@pytest.mark.parametrize(("n_fixed", "n_tied", "n_free"), [(0, 2, 1), (2, 4, 2), (1, 5, 4)])
def test_it_stays_in_a_tied_eigenspace(n_fixed, n_tied, n_free):
    rng = np.random.default_rng(n_tied)
    p = n_fixed + n_tied + 2
    turn = random_basis(rng, p, p)
    values = np.r_[np.linspace(9, 7, n_fixed), np.full(n_tied, 4.0), 2.0, 1.0]
    matrix = (turn * values) @ turn.T
    tied = turn[:, n_fixed : n_fixed + n_tied]
    first, last = (
        np.hstack([turn[:, :n_fixed], tied @ random_basis(rng, n_tied, n_free)]) for _ in range(2)
    )
    path = PathBetween(first @ random_basis(rng, n_fixed + n_free, n_fixed + n_free), last)
    best = values[: n_fixed + n_free].sum()
    for share in SHARES:
        basis = path.at(share)
        assert np.vdot(basis, matrix @ basis) == pytest.approx(best, rel=1e-14)


@SIZES
@pytest.mark.parametrize("seed", range(5))
def test_a_zero_is_found(p, d, seed):
    first, last = ends(p, d)
    half = np.random.default_rng(seed).standard_normal((p, p))
    difference = half + half.T
    if d == p:
        return

    def captured(basis):
        return float(np.vdot(basis, difference @ basis))

    low, high = captured(first), captured(last)
    for share in (1e-6, 0.2, 0.9):
        level = low + share * (high - low)
        basis = PathBetween(first, last).where_zero(lambda b, level=level: captured(b) - level, 0.0)
        np.testing.assert_allclose(basis.T @ basis, np.eye(d), atol=1e-14)
        assert captured(basis) == pytest.approx(level, abs=1e-13 * np.abs(difference).sum())


def test_what_is_enough_ends_the_search():
    first, last = np.eye(2)[:, :1], np.eye(2)[:, 1:]
    calls = []

    def function(basis):
        calls.append(basis)
        return float(basis[0, 0] ** 2 - 0.3)

    for enough, most in ((0.5, 3), (1e-3, 12), (0.0, 60)):
        calls.clear()
        basis = PathBetween(first, last).where_zero(function, enough)
        assert abs(function(basis)) <= enough + 1e-15
        assert len(calls) <= most + 1


def test_rounding_may_leave_no_difference_between_the_ends():
    first, last = np.eye(2)[:, :1], np.eye(2)[:, 1:]
    for nothing in (0.0, 1e-300):
        basis = PathBetween(first, last).where_zero(lambda _, value=nothing: value, 0.0)
        np.testing.assert_allclose(basis.T @ basis, np.eye(1), atol=1e-14)
