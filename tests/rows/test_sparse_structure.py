"""Sparse matrices whose arrays were changed after scipy looked at them: refused, and never read."""

import itertools
import warnings

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from fairspan import FairPCA, FairSubspace, GroupMoments
from fairspan.errors import InvalidInput
from spoiling import answered_or_refused

GROUPS = ["a", "b"] * 10
P = 6


def sound(kind):
    rng = np.random.default_rng(1)
    dense = np.where(rng.random((20, P)) < 0.4, rng.standard_normal((20, P)), 0.0)
    dense[0, 0] = dense[19, P - 1] = 1.0
    if kind.startswith("dia"):
        return getattr(scipy.sparse, kind)(scipy.sparse.coo_array(dense))
    return getattr(scipy.sparse, kind)(dense)


def with_entry(name, value):
    """What spoils one number of an array of a matrix."""

    def spoil(matrix):
        getattr(matrix, name)[-1] = value

    return spoil


def cut(name):
    """What takes the last numbers of an array away."""

    def spoil(matrix):
        setattr(matrix, name, getattr(matrix, name)[:-3])

    return spoil


def backwards(matrix):
    matrix.indptr[1] = matrix.indptr[-1]


def spoilt_list(column):
    def spoil(matrix):
        matrix.rows[3] = [column]
        matrix.data[3] = [1.0]

    return spoil


def unequal_lists(matrix):
    matrix.data[3] = [1.0] * 500


def other_offsets(matrix):
    matrix.offsets = matrix.offsets[:-1]


COMPRESSED = {
    "beyond": with_entry("indices", 10**9),
    "the shape itself": with_entry("indices", 20),
    "negative": with_entry("indices", -1),
    "fewer indices": cut("indices"),
    "fewer values": cut("data"),
    "pointers beyond": with_entry("indptr", 10**6),
    "negative pointers": with_entry("indptr", -5),
    "pointers that go back": backwards,
}
COORDINATES = {
    "rows beyond": lambda matrix: matrix.row.__setitem__(-1, 20),
    "columns beyond": lambda matrix: matrix.col.__setitem__(0, 10**9),
    "negative rows": lambda matrix: matrix.row.__setitem__(0, -1),
    "fewer values": cut("data"),
}
KINDS = ("csr_array", "csr_matrix", "csc_array", "csc_matrix", "bsr_array")
CASES = [(kind, name, COMPRESSED) for kind in KINDS for name in COMPRESSED]
CASES += [(kind, name, COORDINATES) for kind in ("coo_array", "coo_matrix") for name in COORDINATES]
OTHERS = {
    "lil beyond": ("lil_array", spoilt_list(10**9)),
    "lil negative": ("lil_matrix", spoilt_list(-1)),
    "lil unequal": ("lil_array", unequal_lists),
    "dia": ("dia_array", other_offsets),
}


def check_refused(matrix):
    fitted = FairPCA(1).fit(sound("csr_array"), sensitive_features=GROUPS)
    for attempt in (
        lambda: GroupMoments.from_rows(matrix, GROUPS),
        lambda: FairPCA(1).fit(matrix, sensitive_features=GROUPS),
        lambda: fitted.transform(matrix),
        lambda: fitted.score_samples(matrix),
    ):
        with pytest.raises(InvalidInput, match="sparse matrix whose indices are wrong"):
            attempt()


@pytest.mark.parametrize(("kind", "name", "attacks"), CASES, ids=lambda each: str(each)[:24])
def test_wrong_indices_are_refused(kind, name, attacks):
    matrix = sound(kind)
    attacks[name](matrix)
    check_refused(matrix)


@pytest.mark.parametrize("case", OTHERS)
def test_wrong_lists_and_diagonals_are_refused(case):
    kind, spoil = OTHERS[case]
    matrix = sound(kind)
    spoil(matrix)
    check_refused(matrix)


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "dia", "dok", "lil"])
@pytest.mark.parametrize("what", ["array", "matrix"])
def test_looking_changes_nothing(kind, what):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scipy's, of slow diagonals
        matrix = sound(f"{kind}_{what}")
    if kind == "csr":  # room for more, which scipy would cut off
        matrix.data, matrix.indices = (
            np.append(each, each) for each in (matrix.data, matrix.indices)
        )
    before = {
        name: np.copy(each) for name, each in vars(matrix).items() if isinstance(each, np.ndarray)
    }
    moments = GroupMoments.from_rows(matrix, GROUPS)
    expected = GroupMoments.from_rows(sound("csr_array").toarray(), GROUPS)
    np.testing.assert_allclose(moments.scatters, expected.scatters, rtol=1e-12, atol=1e-12)
    for name, array in before.items():
        np.testing.assert_array_equal(getattr(matrix, name), array)


ODD = [-1, 0, 1, 4, 5, P, 19, 20, 21, 10**9, -(2**31), 2**31 - 1]


@pytest.mark.parametrize("kind", [*KINDS, "coo_array"])
@given(spoil=st.lists(st.tuples(st.booleans(), st.integers(0, 999), st.sampled_from(ODD))))
def test_a_changed_structure_is_refused_or_read_as_it_stands(kind, spoil):
    matrix = sound(kind)
    names = ("row", "col") if kind == "coo_array" else ("indices", "indptr")
    for which, place, value in spoil:
        array = getattr(matrix, names[which])
        array[place % len(array)] = value
    with answered_or_refused():
        FairSubspace(np.eye(2, P), np.zeros(P)).transform(matrix)
        FairPCA(2).fit(matrix, sensitive_features=GROUPS)
        found = GroupMoments.from_rows(matrix, GROUPS)
        if kind == "csr_array":
            dense = np.zeros(matrix.shape)
            for row, (start, end) in enumerate(itertools.pairwise(matrix.indptr)):
                np.add.at(dense[row], matrix.indices[start:end], matrix.data[start:end])
            expected = GroupMoments.from_rows(dense, GROUPS)
            np.testing.assert_allclose(found.scatters, expected.scatters, atol=1e-9)
            np.testing.assert_allclose(found.means, expected.means, atol=1e-12)
