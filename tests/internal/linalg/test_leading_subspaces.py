"""Leading subspaces: ties, few rows, and eigenvalues far apart in size, against 60 digits."""

import numpy as np
import pytest

from case_selection import ALL_CASES
from extended_precision import KINDS, draw_problem, exact_eigenvalues
from fairspan.errors import InvalidInput
from fairspan.linalg import (
    graded_eigh,
    leading_subspace,
    leading_subspace_krylov,
    normalize_signs,
)
from fairspan.moments.second_moments import DenseSecondMoments

SEEDS = range(120 if ALL_CASES else 40)


@pytest.mark.parametrize("kind", KINDS)
def test_every_eigenvalue_is_known_to_a_share_of_its_size(kind):
    for case in (case for case in map(draw_problem, SEEDS) if case.kind == kind):
        mixture = np.tensordot(case.weights, case.matrices, axes=1)
        values, vectors, sizes = graded_eigh(mixture, case.n_leading)
        truth = exact_eigenvalues(mixture[None], np.ones(1))
        p = len(mixture)
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(p), atol=1e-14)
        assert (np.diff(values) >= -1e-13 * sizes[1:]).all()
        largest = np.abs(values).max()
        for value, size, exact in zip(values, sizes, truth, strict=True):
            assert abs(value - exact) <= min(1e-13 * size, 1e-14 * largest) + 1e-50
        assert (sizes >= np.abs(values) * (1 - 1e-14)).all()


@pytest.mark.parametrize("column", range(4))
def test_digits_that_lapack_loses_are_kept(column):
    factor = np.random.default_rng(3).standard_normal((4, 4))
    factor[column] *= 1e8
    matrix = factor @ factor.T
    truth = [float(value) for value in exact_eigenvalues(matrix[None], np.ones(1))]
    values, _, sizes = graded_eigh(matrix, 1)
    np.testing.assert_allclose(values, truth, rtol=1e-13)
    assert sizes[3] == pytest.approx(truth[3])
    assert (sizes[:3] <= 100 * truth[2]).all()
    if column == 2:
        assert abs(np.linalg.eigvalsh(matrix)[0] - truth[0]) > 0.1 * truth[0]


def test_three_orders_of_columns_are_split_off_one_after_the_other():
    rng = np.random.default_rng(0)
    scale = np.array([1e16, 1e8, 1.0, 1.0])
    factor = rng.standard_normal((4, 4))
    matrix = (factor @ factor.T) * np.outer(scale, scale)
    truth = [float(value) for value in exact_eigenvalues(matrix[None], np.ones(1))]
    values, vectors, sizes = graded_eigh(matrix, 2)
    np.testing.assert_allclose(values, truth, rtol=1e-12)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(4), atol=1e-14)
    assert (sizes[1:] / sizes[:-1] >= [1, 1e12, 1e12]).all()


def test_nothing_is_split_off_where_no_digits_are_lost():
    factor = np.random.default_rng(1).standard_normal((6, 6))
    matrix = factor @ factor.T
    values, vectors = np.linalg.eigh(matrix)
    expected = values, vectors, np.full(6, values[-1])
    for actual_part, expected_part in zip(graded_eigh(matrix, 3), expected, strict=True):
        np.testing.assert_array_equal(actual_part, expected_part)


@pytest.mark.parametrize(
    ("d", "sizes"), [(0, [1e16] * 3), (1, [1e8, 1e8, 1e16]), (2, [1.0, 1e8, 1e16])]
)
def test_only_the_leading_ones_are_split_off(d, sizes):
    assert graded_eigh(np.diag([1e16, 1e8, 1.0]), d)[2].tolist() == sizes


def test_a_leading_subspace_knows_ties_below_a_large_column():
    """A tie at 1 differs from 1 + 1e-6 although the largest eigenvalue is 1e16."""
    turn = np.linalg.qr(np.random.default_rng(2).standard_normal((3, 3)))[0]
    for apart, tied in ((0.0, True), (1e-6, False)):
        matrix = np.zeros((4, 4))
        matrix[0, 0] = 1e16
        matrix[1:, 1:] = (turn * [1 + apart, 1.0, 0.5]) @ turn.T
        assert leading_subspace((matrix + matrix.T) / 2, 2).is_tied is tied


def test_a_null_space_is_found_below_eigenvalues_that_fall_step_by_step():
    """The largest ratio is that to the null space, but digits are lost at every step before it."""
    spreads = np.array([1e5, 1e4, 400, 10, 1, 1, 1, 1 / 64, 10, 1, 1, 1])
    for seed in range(12):
        rng = np.random.default_rng(seed)
        factor = np.zeros((12, 8))
        factor[:8] = np.eye(8) + rng.integers(-1, 2, (8, 8)) / 8
        factor[8:] = factor[3:7] + factor[4:8]
        factor = (factor * spreads[:, None])[rng.permutation(12)]
        second = DenseSecondMoments((factor @ factor.T)[None])
        basis = second.leading(np.ones(1), 8).vectors
        assert second.inner_errors(basis)[0] <= 1e-14


def test_a_feature_without_variance_is_tied_with_the_rest_of_a_null_space():
    row = np.random.default_rng(1).standard_normal((1, 6)) * [1, 1, 0, 1, 1, 1]
    tops = [leading_subspace(row.T @ row, d) for d in (2, 3, 5)]
    assert [(top.n_untied, top.tied_vectors.shape) for top in tops] == [(1, (6, 5))] * 3


def test_few_components_of_many_features_keep_the_digits_that_lapack_loses():
    factor = np.random.default_rng(5).standard_normal((60, 60))
    first = factor[30] / np.linalg.norm(factor[30])
    remaining_factor = np.delete(factor, 30, axis=0)
    remaining_factor -= np.outer(remaining_factor @ first, first)
    # Eigenvalues without the large row, up to a share of 1e-10.
    truth = np.linalg.eigvalsh(remaining_factor @ remaining_factor.T)[::-1]
    factor[30] *= 1e5
    subspace = leading_subspace(factor @ factor.T, 3)
    np.testing.assert_allclose(subspace.eigenvalues[1:], truth[:2], rtol=1e-9)


def symmetric(eigenvalues, seed=0):
    eigenvalues = np.asarray(eigenvalues, dtype=float)
    turn = np.linalg.qr(np.random.default_rng(seed).standard_normal((len(eigenvalues),) * 2))[0]
    return (turn * eigenvalues) @ turn.T


# p = 12 takes the full decomposition, p = 120 with few vectors the partial one.
@pytest.mark.parametrize(("p", "d"), [(12, 1), (12, 5), (12, 12), (120, 1), (120, 7), (120, 100)])
def test_known_spectrum_is_found(p, d):
    spectrum = np.linspace(9, -3, p)
    matrix = symmetric(spectrum)
    top = leading_subspace(matrix, d)
    np.testing.assert_allclose(top.eigenvalues, spectrum[:d], atol=1e-12)
    np.testing.assert_allclose(top.vectors.T @ top.vectors, np.eye(d), atol=1e-12)
    np.testing.assert_allclose(matrix @ top.vectors, top.vectors * spectrum[:d], atol=1e-11)
    assert not top.is_tied
    assert top.eigenvalue_sum == pytest.approx(spectrum[:d].sum())


@pytest.mark.parametrize(("p", "d"), [(9, 4), (90, 3), (90, 4)])
def test_a_tie_at_the_cut_gives_the_entire_eigenspace(p, d):
    spectrum = np.r_[7.0, 6.0, 4.0, 4.0, 4.0, np.linspace(3, 1, p - 5)]
    matrix = symmetric(spectrum)
    top = leading_subspace(matrix, d)
    assert top.n_untied == 2
    assert top.tied_vectors.shape == (p, 3)
    np.testing.assert_allclose(matrix @ top.tied_vectors, 4 * top.tied_vectors, atol=1e-12)
    np.testing.assert_allclose(top.tied_vectors.T @ top.vectors[:, :2], 0, atol=1e-12)


NEARLY = symmetric([5.0, 3.0, 3.0 - 1e-6, 1.0])
TIED_MATRIX = symmetric([5.0, 5.0, 3.0, 1.0, 1.0])


@pytest.mark.parametrize(
    ("matrix", "d", "tolerance", "n_fixed", "n_tied"),
    [
        # Ties above or below the cut do not matter; nor do near ones outside the tolerance.
        (TIED_MATRIX, 2, {}, 2, 0),
        (TIED_MATRIX, 3, {}, 3, 0),
        (NEARLY, 2, {}, 2, 0),
        (NEARLY, 2, {"tie_tol": 1e-5}, 1, 2),
        (np.zeros((3, 3)), 2, {}, 0, 3),
        *(
            (np.outer(np.arange(1.0, p + 1), np.arange(1.0, p + 1)), 4, {}, 1, p - 1)
            for p in (6, 60)
        ),
    ],
)
def test_ties_at_the_cut_are_counted(matrix, d, tolerance, n_fixed, n_tied):
    top = leading_subspace(matrix, d, **tolerance)
    assert top.is_tied == (n_tied > 0)
    assert not top.is_tied or (top.n_untied, top.tied_vectors.shape[1]) == (n_fixed, n_tied)
    expected = np.linalg.eigvalsh(matrix)[::-1][:d]
    np.testing.assert_allclose(top.eigenvalues, expected, atol=1e-12 * max(1.0, expected[0]))
    np.testing.assert_allclose(top.vectors.T @ top.vectors, np.eye(d), atol=1e-12)


@pytest.mark.parametrize(("p", "d"), [(15, 6), (150, 6)])
def test_equal_input_gives_equal_bytes_with_the_largest_loading_positive(p, d):
    matrix = symmetric(np.linspace(4, 1, p), seed=3)
    first = leading_subspace(matrix, d)
    second = leading_subspace(matrix.copy(), d)
    assert first.vectors.tobytes() == second.vectors.tobytes()
    signed = normalize_signs(first.vectors)
    largest = np.abs(signed).argmax(axis=0)
    assert (signed[largest, np.arange(d)] > 0).all()
    np.testing.assert_array_equal(np.abs(signed), np.abs(first.vectors))


def test_sign_of_equal_loadings_does_not_hang_on_the_last_bit():
    half = np.sqrt(0.5)
    for nudge in (-1e-16, 0, 1e-16):
        column = np.array([[-half], [half + nudge]])
        np.testing.assert_allclose(normalize_signs(column), [[half], [-half]])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_matrices_that_are_not_finite_are_refused(bad):
    with pytest.raises(InvalidInput, match="NaN or infinity"):
        leading_subspace(np.array([[1.0, bad], [bad, 1.0]]), 1)


@pytest.mark.parametrize(("p", "d"), [(2, 1), (20, 4)])
def test_a_start_in_few_features_ends_in_the_space_of_all_of_them(p, d):
    values = np.arange(p, 0.0, -1.0)
    products = []
    start = np.linalg.qr(np.random.default_rng(0).standard_normal((p, d)))[0]

    def operator(block):
        products.append(block.shape[1])
        return values[:, None] * block

    result = leading_subspace_krylov(operator, p, d, float(p), start=start, sum_tol=1e-12)
    np.testing.assert_allclose(result.leading.eigenvalues, values[:d], rtol=1e-12)
    assert sum(products) <= p  # no direction is multiplied twice
