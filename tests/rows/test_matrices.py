"""Matrices that are no arrays of numpy: those of other packages, on any device, and sparse ones."""

import itertools
import warnings
from functools import cache

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from corruption import accept_or_refuse
from device_arrays import KINDS, device_of
from fairspan import FairPCA, FairSubspace, GroupMoments, audit, metrics
from fairspan.errors import InvalidInput, InvalidParameter, InvalidType
from fairspan.rows.array_backend import to_numpy
from numpy_reference import assert_moments, projector_distance, random_rows, reference_moments
from rows.source_cases import CASES

ROWS = random_rows(1, n=5000, p=6, groups=("a", "b", "c"))
CODES = np.unique(ROWS.labels, return_inverse=True)[1]


@pytest.fixture(params=KINDS)
def to_device(request):
    """Return a function that moves a numpy array to the device."""
    return device_of(request.param)


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def same_place(one, other):
    return type(one) is type(other) and getattr(one, "device", None) == other.device


@pytest.mark.parametrize("case", CASES)
def test_the_contract_of_every_source(to_device, case):
    rows = CASES[case]
    weights = None if rows.weights is None else to_device(rows.weights)
    rows.check(to_device(rows.X), list(rows.labels), weights)


def test_two_columns_of_labels_are_crossed(to_device):
    both = np.stack([CODES, CODES % 2], axis=1)
    moments = GroupMoments.from_rows(to_device(ROWS.X), to_device(both))
    assert_moments(moments, reference_moments(ROWS.X, map(tuple, both.tolist())))


def test_weights_may_lie_there_too_and_zero_counts_as_absent(to_device):
    weights = np.where(np.arange(5000) % 3 == 0, 0.0, ROWS.weights)
    weights[CODES == 2] = 0
    moments = GroupMoments.from_rows(to_device(ROWS.X), to_device(CODES), to_device(weights))
    assert_moments(moments, reference_moments(ROWS.X, CODES.tolist(), weights))
    assert moments.labels == [0, 1]


@pytest.mark.parametrize("kind", ["float32", "int16", "uint8", "bool"])
def test_other_numbers_are_accumulated_in_double_precision(to_device, kind):
    X = np.random.default_rng(5).integers(0, 200, (5000, 4))
    X = (X > 99 if kind == "bool" else X % 100).astype(kind)
    moments = GroupMoments.from_rows(to_device(X), CODES)
    assert_moments(moments, reference_moments(X, CODES.tolist()))


def test_rows_are_dropped_also_where_the_labels_lie_there(to_device):
    X = ROWS.X.copy()
    X[[0, 4999], [1, 3]] = np.nan
    moments = GroupMoments.from_rows(to_device(X), to_device(CODES), on_missing="drop")
    assert_moments(moments, reference_moments(X[1:-1], CODES[1:-1].tolist()))
    assert moments.n_dropped == 2


def test_rows_that_are_all_dropped_are_refused(to_device):
    with pytest.raises(InvalidInput, match=r"no rows \(2 rows .*dropped\)"):
        GroupMoments.from_rows(to_device(np.full((2, 2), np.nan)), ["a", "b"], on_missing="drop")


def test_numbers_whose_squares_overflow(to_device):
    with pytest.raises(InvalidInput, match="overflow float64"):
        GroupMoments.from_rows(to_device(ROWS.X * 1e200), CODES)
    model = FairSubspace(np.eye(6)[:1], None)
    assert np.isfinite(to_numpy(model.transform(to_device(ROWS.X * 1e306 / 50)))).all()


@pytest.mark.parametrize(
    ("X", "error", "match"),
    [
        (np.ones(3), InvalidInput, r"1 dimension, shape \(3,\)"),
        (np.ones(()), InvalidInput, r"0 dimensions"),
        (np.ones((0, 2)), InvalidInput, r"0 row\(s\)"),
        (np.ones((2, 0)), InvalidInput, r"0 feature\(s\)"),
        (np.ones((2, 2), dtype=complex), InvalidInput, "Complex data not supported"),
    ],
)
def test_tables_that_are_refused(to_device, X, error, match):
    for use in (
        lambda X: GroupMoments.from_rows(X, ["a", "b"]),
        FairSubspace(np.eye(2), None).transform,
    ):
        with pytest.raises(error, match=match):
            use(to_device(X))


def test_labels_and_weights_that_do_not_fit(to_device):
    X = to_device(ROWS.X)
    with pytest.raises(InvalidInput, match="5,000 rows in X, 3 labels"):
        GroupMoments.from_rows(X, to_device(np.arange(3)))
    with pytest.raises(InvalidInput, match="has no column names"):
        GroupMoments.from_rows(X, "sex")
    with pytest.raises(InvalidInput, match=r"sample_weight has shape \(3,\)"):
        GroupMoments.from_rows(X, CODES, to_device(np.ones(3)))
    with pytest.raises(InvalidInput, match="negative, NaN or infinite weight"):
        GroupMoments.from_rows(X, CODES, to_device(-ROWS.weights))
    with pytest.raises(InvalidParameter, match="missing"):
        GroupMoments.from_rows(X, CODES, on_missing="fill")
    with pytest.raises(InvalidInput, match=r"label in row 8 \(index 7\) is missing"):
        GroupMoments.from_rows(X, [*"abcabca", None, *ROWS.labels[8:]])


def test_devices_without_double_precision_are_refused():
    strict = pytest.importorskip("array_api_strict")
    try:
        device = strict.Device("no_float64")
    except ValueError:
        pytest.skip("no such device in this array-api-strict")
    X = strict.ones((3, 2), dtype=strict.float32, device=device)
    with pytest.raises(InvalidType, match="does not support float64"):
        GroupMoments.from_rows(X, ["a", "b", "a"])


@pytest.mark.parametrize("dtype", ["float64", "float32", "int32"])
@pytest.mark.parametrize("scale", [False, True])
def test_transform_keeps_kind_device_and_single_precision(to_device, dtype, scale):
    X = (ROWS.X * 10 + 1e3).astype(dtype)
    model = FairPCA(2, scale=scale).fit(X, sensitive_features=CODES)
    expected = model.transform(X)
    reduced = model.transform(to_device(X))
    precision = "float32" if dtype == "float32" else "float64"
    assert same_place(reduced, to_device(X))
    assert str(reduced.dtype).endswith(precision)
    tolerance = 1e-5 if precision == "float32" else 1e-10
    np.testing.assert_allclose(to_numpy(reduced), expected, rtol=tolerance, atol=tolerance)
    again = model.inverse_transform(reduced)
    assert same_place(again, to_device(X))
    assert str(again.dtype).endswith(precision)
    np.testing.assert_allclose(to_numpy(again), model.inverse_transform(expected), rtol=1e-6)


def test_a_subspace_without_a_mean_projects_the_rows_themselves(to_device):
    line = FairSubspace(np.array([[0.6, 0.8]]), None)
    assert to_numpy(line.transform(to_device(np.array([[3.0, 4.0]])))).tolist() == [[5.0]]
    assert to_numpy(line.inverse_transform(to_device(np.array([[5.0]])))).tolist() == [[3.0, 4.0]]


def test_another_width_is_refused(to_device):
    model = FairPCA(2).fit(ROWS.X, sensitive_features=CODES)
    for use in (model.transform, model.subspace_.transform, model.score_samples):
        with pytest.raises(InvalidInput, match="X has 5 features, but the model expects 6"):
            use(to_device(ROWS.X[:, :5]))
    with pytest.raises(InvalidInput, match="X has 3 coordinates"):
        model.inverse_transform(to_device(np.ones((4, 3))))
    with pytest.raises(InvalidInput, match="X has 5 features"):
        model.partial_fit(to_device(ROWS.X[:, :5]), sensitive_features=CODES)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_model_is_that_of_numpy(to_device, weighted):
    weights = ROWS.weights if weighted else None
    device_weights = None if weights is None else to_device(weights)
    expected = FairPCA(2).fit(ROWS.X, sensitive_features=CODES, sample_weight=weights)
    model = FairPCA(2).fit(
        to_device(ROWS.X), sensitive_features=to_device(CODES), sample_weight=device_weights
    )
    assert projector_distance(model.components_, expected.components_) <= 1e-7
    assert model.n_features_in_ == 6
    np.testing.assert_allclose(model.score_samples(to_device(ROWS.X)), model.score_samples(ROWS.X))
    np.testing.assert_allclose(model.score(to_device(ROWS.X)), expected.score(ROWS.X), rtol=1e-9)


def test_partial_fit_and_rows_without_groups(to_device):
    parts = FairPCA(2).partial_fit(
        to_device(ROWS.X[:2000]), sensitive_features=to_device(CODES[:2000])
    )
    parts.partial_fit(to_device(ROWS.X[2000:]), sensitive_features=to_device(CODES[2000:]))
    batch = FairPCA(2).fit(ROWS.X, sensitive_features=CODES)
    assert_moments(parts.moments_, batch.moments_)
    assert projector_distance(parts.components_, batch.components_) <= 1e-7
    plain = FairPCA(2, missing_groups="ignore")
    expected = plain.fit(ROWS.X).components_
    assert projector_distance(plain.fit(to_device(ROWS.X)).components_, expected) <= 1e-7


@cache
def audit_of_arrays(weighted):
    """Return a model and its audit from arrays of numpy."""
    model = FairPCA(2).fit(ROWS.X, sensitive_features=ROWS.labels)
    weights = ROWS.weights if weighted else None
    return model, audit(model, ROWS.X, ROWS.labels, sample_weight=weights)


@pytest.mark.parametrize("weighted", [False, True])
def test_audits_and_metrics_are_those_of_numpy(to_device, weighted):
    weights = ROWS.weights if weighted else None
    model, expected = audit_of_arrays(weighted)
    result = audit(model, to_device(ROWS.X), ROWS.labels, sample_weight=weights)
    for one, other in zip(result.models, expected.models, strict=True):
        for group, expected_group in zip(one.groups, other.groups, strict=True):
            np.testing.assert_allclose(
                [group.observed_error.value, group.observed_error.low, group.observed_error.high],
                [
                    expected_group.observed_error.value,
                    expected_group.observed_error.low,
                    expected_group.observed_error.high,
                ],
                rtol=1e-9,
            )
    there_error = metrics.reconstruction_error(model, to_device(ROWS.X), to_device(CODES))
    here_error = metrics.reconstruction_error(model, ROWS.X, CODES)
    np.testing.assert_allclose(list(there_error.values()), list(here_error.values()), rtol=1e-9)


def test_torch_views_derivatives_and_short_floats(torch):
    X = torch.tensor(ROWS.X)
    expected = reference_moments(ROWS.X, ROWS.labels)
    wide = torch.stack([X, -X], dim=2)
    for view in (wide[:, :, 0], X.T.contiguous().T, X.clone().requires_grad_()):
        assert_moments(GroupMoments.from_rows(view, ROWS.labels), expected)
    model = FairPCA(2).fit(X.clone().requires_grad_(), sensitive_features=ROWS.labels)
    assert not model.transform(X.clone().requires_grad_()).requires_grad
    for kind in (torch.bfloat16, torch.float16):
        short = X.to(kind)
        double = short.to(torch.float64).numpy()
        moments = GroupMoments.from_rows(short, torch.tensor(CODES))
        assert_moments(moments, reference_moments(double, CODES.tolist()))
        assert model.transform(short).dtype == torch.float64
        np.testing.assert_allclose(model.score(short), model.score(double), rtol=1e-12)


def test_sparse_tensors_and_things_that_are_no_arrays(torch):
    with pytest.raises(InvalidType, match="sparse"):
        GroupMoments.from_rows(torch.eye(3).to_sparse(), ["a", "b", "a"])
    with pytest.raises(InvalidType, match="not an array"):
        GroupMoments.from_rows(torch.nn.Linear(2, 2), ["a", "b", "a"])


GROUPS = ["a", "b"] * 10
WIDTH = 6


def sound(kind):
    rng = np.random.default_rng(1)
    dense = np.where(rng.random((20, WIDTH)) < 0.4, rng.standard_normal((20, WIDTH)), 0.0)
    dense[0, 0] = dense[19, WIDTH - 1] = 1.0
    if kind.startswith("dia"):
        return getattr(scipy.sparse, kind)(scipy.sparse.coo_array(dense))
    return getattr(scipy.sparse, kind)(dense)


def set_last_entry(name, value):
    """Return a function that changes the last number of an array of a matrix."""

    def corrupt(matrix):
        getattr(matrix, name)[-1] = value

    return corrupt


def remove_last_entries(name):
    """Return a function that removes the last numbers of an array of a matrix."""

    def corrupt(matrix):
        setattr(matrix, name, getattr(matrix, name)[:-3])

    return corrupt


def reverse(matrix):
    matrix.indptr[1] = matrix.indptr[-1]


def spoilt_list(column):
    def corrupt(matrix):
        matrix.rows[3] = [column]
        matrix.data[3] = [1.0]

    return corrupt


def unequal_lists(matrix):
    matrix.data[3] = [1.0] * 500


def other_offsets(matrix):
    matrix.offsets = matrix.offsets[:-1]


COMPRESSED = {
    "beyond": set_last_entry("indices", 10**9),
    "the shape itself": set_last_entry("indices", 20),
    "negative": set_last_entry("indices", -1),
    "fewer indices": remove_last_entries("indices"),
    "fewer values": remove_last_entries("data"),
    "pointers beyond": set_last_entry("indptr", 10**6),
    "negative pointers": set_last_entry("indptr", -5),
    "pointers that go back": reverse,
}
COORDINATES = {
    "rows beyond": lambda matrix: matrix.row.__setitem__(-1, 20),
    "columns beyond": lambda matrix: matrix.col.__setitem__(0, 10**9),
    "negative rows": lambda matrix: matrix.row.__setitem__(0, -1),
    "fewer values": remove_last_entries("data"),
}
SPARSE_KINDS = ("csr_array", "csr_matrix", "csc_array", "csc_matrix", "bsr_array")
ATTACKS = [(kind, name, COMPRESSED) for kind in SPARSE_KINDS for name in COMPRESSED]
ATTACKS += [
    (kind, name, COORDINATES) for kind in ("coo_array", "coo_matrix") for name in COORDINATES
]
OTHERS = {
    "lil beyond": ("lil_array", spoilt_list(10**9)),
    "lil negative": ("lil_matrix", spoilt_list(-1)),
    "lil unequal": ("lil_array", unequal_lists),
    "dia": ("dia_array", other_offsets),
}


def check_refused(matrix):
    fair = FairPCA(1).fit(sound("csr_array"), sensitive_features=GROUPS)
    for attempt in (
        lambda: GroupMoments.from_rows(matrix, GROUPS),
        lambda: FairPCA(1).fit(matrix, sensitive_features=GROUPS),
        lambda: fair.transform(matrix),
        lambda: fair.score_samples(matrix),
    ):
        with pytest.raises(InvalidInput, match="invalid indices"):
            attempt()


@pytest.mark.parametrize(("kind", "name", "attacks"), ATTACKS, ids=lambda value: str(value)[:24])
def test_wrong_indices_are_refused(kind, name, attacks):
    matrix = sound(kind)
    attacks[name](matrix)
    check_refused(matrix)


@pytest.mark.parametrize("case", OTHERS)
def test_wrong_lists_and_diagonals_are_refused(case):
    kind, corrupt = OTHERS[case]
    matrix = sound(kind)
    corrupt(matrix)
    check_refused(matrix)


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "dia", "dok", "lil"])
@pytest.mark.parametrize("type_name", ["array", "matrix"])
def test_looking_changes_nothing(kind, type_name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scipy's, of slow diagonals
        matrix = sound(f"{kind}_{type_name}")
    if kind == "csr":  # room for more, which scipy would cut off
        matrix.data, matrix.indices = (
            np.append(array, array) for array in (matrix.data, matrix.indices)
        )
    before = {
        name: np.copy(array)
        for name, array in vars(matrix).items()
        if isinstance(array, np.ndarray)
    }
    moments = GroupMoments.from_rows(matrix, GROUPS)
    expected = GroupMoments.from_rows(sound("csr_array").toarray(), GROUPS)
    np.testing.assert_allclose(moments.scatters, expected.scatters, rtol=1e-12, atol=1e-12)
    for name, array in before.items():
        np.testing.assert_array_equal(getattr(matrix, name), array)


ODD_INDICES = [-1, 0, 1, 4, 5, WIDTH, 19, 20, 21, 10**9, -(2**31), 2**31 - 1]


@pytest.mark.parametrize(
    "kind",
    [
        *("csr_array", "csc_array", "coo_array"),
        *(
            pytest.param(kind, marks=pytest.mark.slow)
            for kind in ("csr_matrix", "csc_matrix", "bsr_array")
        ),
    ],
)
@given(
    changes=st.lists(st.tuples(st.booleans(), st.integers(0, 999), st.sampled_from(ODD_INDICES)))
)
def test_a_changed_structure_is_refused_or_read_as_it_stands(kind, changes):
    matrix = sound(kind)
    names = ("row", "col") if kind == "coo_array" else ("indices", "indptr")
    for index, place, value in changes:
        array = getattr(matrix, names[index])
        array[place % len(array)] = value
    with accept_or_refuse():
        FairSubspace(np.eye(2, WIDTH), np.zeros(WIDTH)).transform(matrix)
        FairPCA(2).fit(matrix, sensitive_features=GROUPS)
        moments = GroupMoments.from_rows(matrix, GROUPS)
        if kind == "csr_array":
            dense = np.zeros(matrix.shape)
            for row, (start, end) in enumerate(itertools.pairwise(matrix.indptr)):
                np.add.at(dense[row], matrix.indices[start:end], matrix.data[start:end])
            expected = GroupMoments.from_rows(dense, GROUPS)
            np.testing.assert_allclose(moments.scatters, expected.scatters, atol=1e-9)
            np.testing.assert_allclose(moments.means, expected.means, atol=1e-12)
