"""Moments of sparse rows of every kind and density."""

import numpy as np
import pytest
import scipy.sparse

from fairspan import GroupMoments
from fairspan.errors import InvalidInput, InvalidType
from numpy_reference import assert_moments, reference_moments, thin_rows

KINDS = [
    scipy.sparse.csr_matrix,
    scipy.sparse.csc_matrix,
    scipy.sparse.coo_matrix,
    scipy.sparse.csr_array,
    scipy.sparse.csc_array,
    scipy.sparse.coo_array,
    scipy.sparse.lil_array,
]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [0.02, 0.06, 0.5, 1.0])
def test_every_kind_and_density(kind, share, weighted):
    X, labels, weights = thin_rows(share=share)
    weights = weights if weighted else None
    moments = GroupMoments.from_rows(kind(X), labels, weights)
    assert_moments(moments, reference_moments(X, labels, weights))


@pytest.mark.parametrize("offset", [1.0, 1e6, -1e8])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("share", [0.4, 0.9, 1.0])
def test_columns_that_are_mostly_stored_may_have_a_large_offset(offset, weighted, share):
    rng = np.random.default_rng(3)
    X, labels, weights = thin_rows(n=400, p=60, share=0.01)
    X[:, 7] = np.where(rng.random(400) < share, offset + X[:, 7], 0.0)
    X[:, 30] = offset + 0.5 * np.arange(400) % 7
    weights = weights if weighted else None
    moments = GroupMoments.from_rows(scipy.sparse.csr_array(X), labels, weights)
    reference = reference_moments(X, labels, weights)
    assert_moments(moments, reference)
    # In each column's own units, so that large ones do not hide the others.
    for g, (_, weight, mean, scatter) in enumerate(reference.values()):
        unit = np.sqrt(np.diag(scatter)) + 1e-12 * np.abs(mean) * np.sqrt(weight) + 1e-100
        error = np.abs(moments.scatters[g] - scatter) / np.outer(unit, unit)
        assert error.max() <= 1e-7


def test_duplicates_add_up_and_stored_zeros_count_as_zeros_and_nothing_is_changed():
    rows, columns = np.array([0, 0, 1, 2, 3, 3]), np.array([1, 1, 0, 2, 2, 2])
    numbers = np.array([1.0, 2.0, 0.0, 4.0, 5.0, -5.0])
    X = scipy.sparse.coo_array((numbers, (rows, columns)), shape=(4, 50))
    moments = GroupMoments.from_rows(X, list("aabb"))
    assert_moments(moments, reference_moments(X.toarray(), list("aabb")))
    csr = scipy.sparse.csr_array((numbers, columns, [0, 2, 3, 4, 6]), shape=(4, 50))
    before = [array.copy() for array in (csr.data, csr.indices, csr.indptr)]
    assert_moments(GroupMoments.from_rows(csr, list("aabb")), moments)
    np.testing.assert_equal([csr.data, csr.indices, csr.indptr], before)


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint16, bool, np.float32])
def test_every_type_of_number(dtype):
    X, labels, _ = thin_rows(share=0.06)
    X = np.abs(10 * X).astype(dtype)
    moments = GroupMoments.from_rows(scipy.sparse.csr_array(X), labels)
    assert_moments(moments, reference_moments(X, labels))


def test_groups_of_one_row_of_nothing_but_zeros_and_constant_columns():
    X = np.zeros((8, 30))
    X[1, 3] = 7.0
    X[4:, 5] = 0.1
    labels = list("abccdddd")
    for share in (1, 30):  # few stored cells, and more
        wide = np.hstack([X, np.zeros((8, 30 * share))])
        moments = GroupMoments.from_rows(scipy.sparse.csr_array(wide), labels)
        assert_moments(moments, reference_moments(wide, labels))
        assert (moments.scatters == 0).all()


@pytest.mark.parametrize("seed", range(5))
def test_a_row_far_away_that_weighs_nearly_nothing_makes_no_variance_negative(seed):
    """The other cells are all the same, so that the variance is a difference of equal numbers."""
    X = np.zeros((40, 30))
    X[:39, 0], X[39, 0] = 0.3, 1e17
    weights = np.append(np.random.default_rng(seed).uniform(0.1, 3, 39), 1e-80)
    moments = GroupMoments.from_rows(scipy.sparse.csr_array(X), ["a"] * 40, weights)
    assert 0 <= moments.standard_deviations[0] <= 1e-7


@pytest.mark.parametrize("word", ["NaN", "infinity"])
def test_missing_cells_are_named_by_row_and_column(word):
    X, labels, _ = thin_rows()
    X[17, 5] = np.nan if word == "NaN" else -np.inf
    for kind in (scipy.sparse.csr_array, scipy.sparse.csc_array):
        with pytest.raises(
            InvalidInput, match=rf"{word}, first in row 18 \(index 17\), column 6 \(index 5\)"
        ):
            GroupMoments.from_rows(kind(X), labels)


@pytest.mark.parametrize(
    ("X", "kind", "message"),
    [
        (scipy.sparse.csr_array((0, 3)), InvalidInput, "0 row"),
        (scipy.sparse.csr_array((3, 0)), InvalidInput, "0 feature"),
        (scipy.sparse.csr_array(np.eye(3) * 1j), InvalidInput, "complex"),
        pytest.param(
            scipy.sparse.coo_array(np.arange(3.0)),
            InvalidInput,
            "1 dimension",
            marks=pytest.mark.skipif(
                len(scipy.sparse.coo_array(np.arange(3.0)).shape) == 2,
                reason="older scipy makes a single row of it",
            ),
        ),
        (scipy.sparse.csr_array(np.eye(4)), InvalidInput, "Inconsistent lengths"),
        (scipy.sparse.csr_array(np.eye(3) * 1e200), InvalidInput, "Divide the column"),
    ],
)
def test_what_cannot_be_used(X, kind, message):
    with pytest.raises(kind, match=message):
        GroupMoments.from_rows(X, list("aab"))


@pytest.mark.parametrize(
    ("labels", "kind", "expected_text"),
    [
        ("sex", InvalidInput, "X has no column names"),
        (np.zeros(3, "M8[s]"), InvalidType, "dates"),
    ],
)
def test_invalid_labels_are_refused(labels, kind, expected_text):
    with pytest.raises(kind, match=expected_text):
        GroupMoments.from_rows(scipy.sparse.csr_array(np.eye(3)), labels)
