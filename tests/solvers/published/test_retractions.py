"""What makes a map a retraction, on points and steps drawn at random."""

import numpy as np
import pytest

from fairspan.solvers.published.riemannian import (
    RETRACTIONS,
    horizontal,
    polar_retraction,
    qr_retraction,
)
from problems import random_basis

each_retraction = pytest.mark.parametrize("name", list(RETRACTIONS))
each_shape = pytest.mark.parametrize(("p", "d"), [(2, 1), (7, 3), (5, 5), (30, 12)])


def tangent(rng, basis, horizontal_only=False):
    """X with V'X antisymmetric, V'X = 0 if it is to turn the subspace only."""
    step = horizontal(basis, rng.standard_normal(basis.shape))
    if horizontal_only:
        return step
    turn = rng.standard_normal((basis.shape[1],) * 2)
    return step + basis @ (turn - turn.T)


@each_shape
@each_retraction
def test_columns_are_orthonormal_even_after_a_long_step(name, p, d):
    rng = np.random.default_rng(p)
    basis = random_basis(rng, p, d)
    for length in (1e-8, 1.0, 1e8):
        moved = RETRACTIONS[name](basis, length * tangent(rng, basis, horizontal_only=True))
        np.testing.assert_allclose(moved.T @ moved, np.eye(d), atol=1e-12)


@each_shape
@each_retraction
def test_no_step_stays(name, p, d):
    basis = random_basis(np.random.default_rng(p), p, d)
    np.testing.assert_allclose(RETRACTIONS[name](basis, np.zeros((p, d))), basis, atol=1e-14)


@each_shape
@each_retraction
def test_agrees_with_the_step_to_first_order(name, p, d):
    rng = np.random.default_rng(p)
    basis = random_basis(rng, p, d)
    step = tangent(rng, basis)
    lengths = np.array([1e-2, 1e-3, 1e-4])
    misses = [
        np.linalg.norm(RETRACTIONS[name](basis, t * step) - basis - t * step) for t in lengths
    ]
    # A miss of order t^2 shrinks a hundredfold with every tenth.
    assert (np.array(misses[:-1]) > 80 * np.array(misses[1:])).all() or max(misses) < 1e-12


@each_shape
def test_both_span_the_moved_columns(p, d):
    rng = np.random.default_rng(p)
    basis = random_basis(rng, p, d)
    step = tangent(rng, basis, horizontal_only=True)
    by_qr, by_polar = qr_retraction(basis, step), polar_retraction(basis, step)
    np.testing.assert_allclose(by_qr @ by_qr.T, by_polar @ by_polar.T, atol=1e-12)
    moved = basis + step
    np.testing.assert_allclose(by_qr @ (by_qr.T @ moved), moved, atol=1e-12)


def test_qr_is_the_factor_with_a_positive_diagonal():
    rng = np.random.default_rng(1)
    basis = random_basis(rng, 6, 3)
    step = tangent(rng, basis)
    triangle = qr_retraction(basis, step).T @ (basis + step)
    np.testing.assert_allclose(np.tril(triangle, -1), 0, atol=1e-13)
    assert (np.diag(triangle) > 0).all()


def test_polar_is_the_printed_formula():
    rng = np.random.default_rng(2)
    basis = random_basis(rng, 6, 3)
    step = tangent(rng, basis)
    values, vectors = np.linalg.eigh(np.eye(3) + step.T @ step)
    expected = (basis + step) @ (vectors / np.sqrt(values)) @ vectors.T
    np.testing.assert_allclose(polar_retraction(basis, step), expected, atol=1e-13)


@each_retraction
def test_a_stack_is_its_members_one_by_one(name):
    rng = np.random.default_rng(3)
    bases = np.array([random_basis(rng, 5, 2) for _ in range(4)])
    steps = np.array([tangent(rng, basis) for basis in bases])
    together = RETRACTIONS[name](bases, steps)
    alone = [RETRACTIONS[name](basis, step) for basis, step in zip(bases, steps, strict=True)]
    np.testing.assert_array_equal(together, alone)


def test_horizontal_directions_are_orthogonal_to_the_basis():
    rng = np.random.default_rng(4)
    basis = random_basis(rng, 6, 2)
    direction = rng.standard_normal((6, 2))
    part = horizontal(basis, direction)
    np.testing.assert_allclose(basis.T @ part, 0, atol=1e-14)
    np.testing.assert_allclose(horizontal(basis, part), part, atol=1e-14)
