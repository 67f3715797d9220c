"""Varimax against a published table, and against the iteration by singular values."""

import numpy as np
import pytest

from fairspan.linalg.varimax import varimax_rotation

# Harman's eight physical variables of 305 girls: unrotated loadings, and their quartimax rotation,
# as published by Bernaards and Jennrich (2005), Gradient Projection Algorithms and Software for
# Arbitrary Rotation Criteria in Factor Analysis, Educational and Psychological Measurement 65.
# Rotations of two columns are the same whether or not the columns have unit length, if it is the
# sum of fourth powers that is maximized.
UNROTATED = np.array(
    [
        [0.830, -0.396],
        [0.818, -0.469],
        [0.777, -0.470],
        [0.798, -0.401],
        [0.786, 0.500],
        [0.672, 0.458],
        [0.594, 0.444],
        [0.647, 0.333],
    ]
)
ROTATED = np.array(
    [
        [0.89876, 0.19482],
        [0.93394, 0.12974],
        [0.90213, 0.10386],
        [0.87651, 0.17128],
        [0.31558, 0.87647],
        [0.25113, 0.77349],
        [0.19801, 0.71468],
        [0.30786, 0.65933],
    ]
)


def varimax_by_singular_values(columns, n_steps=5000):
    """The usual iteration for varimax (Kaiser's criterion, with its term of column means)."""
    p, d = columns.shape
    rotation = np.eye(d)
    for _ in range(n_steps):
        rotated_columns = columns @ rotation
        gradient = rotated_columns**3 - rotated_columns * (rotated_columns**2).sum(axis=0) / p
        left, _, right = np.linalg.svd(columns.T @ gradient)
        rotation = left @ right
    return rotation


def criterion(columns):
    """Sum over columns of the variance of the squared entries."""
    return (columns**2).var(axis=0).sum()


def test_the_published_table_is_reproduced():
    rotated_loadings = UNROTATED @ varimax_rotation(UNROTATED)
    order = np.argsort(-np.abs(rotated_loadings[0]))
    sorted_loadings = np.abs(rotated_loadings[:, order])
    np.testing.assert_allclose(sorted_loadings, ROTATED, atol=2e-5)


@pytest.mark.parametrize(("p", "d"), [(6, 2), (12, 4), (40, 7)])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.slow
def test_no_other_implementation_finds_a_larger_value(p, d, seed):
    rng = np.random.default_rng(seed)
    simple = np.kron(np.eye(d), np.ones((p // d + 1, 1)))[:p]
    columns = np.linalg.qr(simple + 0.3 * rng.standard_normal((p, d)))[0]
    mixed = columns @ np.linalg.qr(rng.standard_normal((d, d)))[0]
    rotation = varimax_rotation(mixed)
    np.testing.assert_allclose(rotation.T @ rotation, np.eye(d), atol=1e-12)
    other = mixed @ varimax_by_singular_values(mixed)
    assert criterion(mixed @ rotation) >= criterion(other) - 1e-12
    # No rotation of two columns improves the result.
    rotated_columns = mixed @ rotation
    for i in range(d - 1):
        for angle in np.linspace(0.05, np.pi / 2, 20):
            perturbed_columns = rotated_columns.copy()
            perturbed_columns[:, i] = (
                np.cos(angle) * rotated_columns[:, i] + np.sin(angle) * rotated_columns[:, i + 1]
            )
            perturbed_columns[:, i + 1] = (
                np.cos(angle) * rotated_columns[:, i + 1] - np.sin(angle) * rotated_columns[:, i]
            )
            assert criterion(perturbed_columns) <= criterion(rotated_columns) + 1e-12


@pytest.mark.parametrize("columns", [np.eye(3)[:, :2], np.full((4, 1), 0.5), np.eye(2)])
def test_columns_that_are_simple_already_are_kept(columns):
    rotated_columns = columns @ varimax_rotation(columns)
    np.testing.assert_allclose(np.abs(rotated_columns), np.abs(columns), atol=1e-12)


def test_columns_for_which_every_rotation_is_alike_are_kept():
    angles = 2 * np.pi * np.arange(5) / 5
    columns = np.column_stack([np.cos(angles), np.sin(angles)]) * np.sqrt(2 / 5)
    np.testing.assert_array_equal(varimax_rotation(columns), np.eye(2))
