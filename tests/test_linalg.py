import numpy as np
import pytest

from fairspan.errors import InvalidInput, InvalidParameter
from fairspan.linalg import eigh, eigvalsh, leading_subspace, with_positive_signs


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
    assert top.top_eigenvalue_sum == pytest.approx(spectrum[:d].sum())


@pytest.mark.parametrize(("p", "d"), [(9, 4), (90, 3), (90, 4)])
def test_a_tie_at_the_cut_gives_the_whole_eigenspace(p, d):
    spectrum = np.r_[7.0, 6.0, 4.0, 4.0, 4.0, np.linspace(3, 1, p - 5)]
    matrix = symmetric(spectrum)
    top = leading_subspace(matrix, d)
    assert top.n_fixed == 2
    assert top.tied.shape == (p, 3)
    np.testing.assert_allclose(matrix @ top.tied, 4 * top.tied, atol=1e-12)
    np.testing.assert_allclose(top.tied.T @ top.vectors[:, :2], 0, atol=1e-12)


def test_a_tie_above_or_below_the_cut_does_not_matter():
    matrix = symmetric([5.0, 5.0, 3.0, 1.0, 1.0])
    assert not leading_subspace(matrix, 2).is_tied
    assert not leading_subspace(matrix, 3).is_tied


def test_near_ties_count_within_the_tolerance_only():
    matrix = symmetric([5.0, 3.0, 3.0 - 1e-6, 1.0])
    assert not leading_subspace(matrix, 2).is_tied
    assert leading_subspace(matrix, 2, tie_tolerance=1e-5).tied.shape == (4, 2)


@pytest.mark.parametrize("p", [6, 60])
def test_rank_deficiency_is_completed_orthonormally(p):
    row = np.random.default_rng(1).standard_normal((1, p))
    top = leading_subspace(row.T @ row, 4)
    np.testing.assert_allclose(top.eigenvalues, [np.vdot(row, row), 0, 0, 0], atol=1e-12)
    np.testing.assert_allclose(top.vectors.T @ top.vectors, np.eye(4), atol=1e-12)
    assert top.n_fixed == 1
    assert top.tied.shape == (p, p - 1)


def test_zero_matrix_is_one_large_tie():
    top = leading_subspace(np.zeros((3, 3)), 2)
    assert top.n_fixed == 0
    assert top.tied.shape == (3, 3)


@pytest.mark.parametrize(("p", "d"), [(15, 6), (150, 6)])
def test_same_input_same_bytes_and_largest_loading_positive(p, d):
    matrix = symmetric(np.linspace(4, 1, p), seed=3)
    first, second = leading_subspace(matrix, d), leading_subspace(matrix.copy(), d)
    assert first.vectors.tobytes() == second.vectors.tobytes()
    largest = np.abs(first.vectors).argmax(axis=0)
    assert (first.vectors[largest, np.arange(d)] > 0).all()


def test_sign_of_equal_loadings_does_not_hang_on_the_last_bit():
    half = np.sqrt(0.5)
    for nudge in (-1e-16, 0, 1e-16):
        column = np.array([[-half], [half + nudge]])
        np.testing.assert_allclose(with_positive_signs(column), [[half], [-half]])


@pytest.mark.parametrize("d", [0, -1, 4])
def test_dimension_out_of_range(d):
    with pytest.raises(InvalidParameter, match="Allowed: 1 to the number of features, 3"):
        leading_subspace(np.eye(3), d)


@pytest.mark.parametrize("matrix", [np.ones((2, 3)), np.ones(3), np.empty((0, 0))])
def test_not_square(matrix):
    with pytest.raises(InvalidInput, match="square"):
        leading_subspace(matrix, 1)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_not_finite(bad):
    with pytest.raises(InvalidInput, match="NaN or infinity"):
        leading_subspace(np.array([[1.0, bad], [bad, 1.0]]), 1)


def test_stacks_are_decomposed_each_for_itself():
    matrices = np.array([np.diag([2.0, 1.0]), np.array([[0.0, 3.0], [3.0, 0.0]])])
    values, vectors = eigh(matrices)
    np.testing.assert_allclose(values, [[1, 2], [-3, 3]], atol=1e-14)
    np.testing.assert_allclose(eigvalsh(matrices), values, atol=1e-14)
    np.testing.assert_allclose(matrices @ vectors, vectors * values[:, None], atol=1e-14)
