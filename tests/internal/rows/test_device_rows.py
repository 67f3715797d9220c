"""Rows that are summed on their device, in blocks, with labels and weights there or here."""

from dataclasses import replace

import numpy as np
import pytest

from case_selection import parametrize_diagonal
from device_arrays import KINDS, device_of
from fairspan import FairPCA, GroupMoments
from fairspan.errors import InvalidInput
from fairspan.moments import accumulate as summing
from fairspan.moments.group_moments import compute_group_moments
from fairspan.rows.array_backend import to_numpy
from fairspan.rows.devices import DeviceRows
from fairspan.rows.opening import open_group_rows
from numpy_reference import assert_moments, random_rows, reference_moments

# Many blocks of few rows; a block for each group or two.
BLOCKS = [1, 20_000]

ROWS = random_rows(1, n=5000, p=6, groups=("a", "b", "c"))
CODES = np.unique(ROWS.labels, return_inverse=True)[1]


@pytest.fixture(params=KINDS)
def to_device(request):
    """Moves a numpy array to the device."""
    return device_of(request.param)


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@parametrize_diagonal(numbers=BLOCKS, weighted=[False, True], offset=[3.0, 1e6])
def test_moments_are_those_of_numpy(to_device, weighted, offset, numbers):
    rows = random_rows(2, n=5000, p=6, groups=("a", "b", "c"), offset=offset)
    weights = rows.weights if weighted else None
    source = open_group_rows(to_device(rows.X), rows.labels, weights)
    assert isinstance(source, DeviceRows)
    moments = compute_group_moments(replace(source, block_entries=numbers))
    assert_moments(moments, reference_moments(rows.X, rows.labels, weights))
    assert_moments(moments, GroupMoments.from_rows(rows.X, rows.labels, weights))


@parametrize_diagonal(
    labels=[
        CODES,
        (CODES * 120 - 128).astype(np.int8),
        (CODES * 300).astype(np.int16),
        (CODES - 1) * 2**62,
        CODES.astype(np.uint8),
        CODES.astype(np.uint16),
        CODES == 1,
        CODES / 2,
    ],
    numbers=[None, 1],
)
def test_labels_may_be_device_arrays(to_device, labels, numbers):
    source = open_group_rows(to_device(ROWS.X), to_device(labels))
    moments = compute_group_moments(
        source if numbers is None else replace(source, block_entries=numbers)
    )
    assert_moments(moments, reference_moments(ROWS.X, labels.tolist()))
    assert {type(label) for label in moments.labels} == {type(labels.tolist()[0])}


def test_moments_include_a_group_of_one_row_at_the_end(to_device):
    labels = np.sort(CODES)
    labels[-1] = 9
    for group_labels in (labels, to_device(labels)):
        source = replace(open_group_rows(to_device(ROWS.X), group_labels), block_entries=1)
        assert_moments(compute_group_moments(source), reference_moments(ROWS.X, labels.tolist()))


@pytest.mark.parametrize("weighted", [False, True])
def test_a_group_that_begins_with_outliers_loses_no_digits(to_device, weighted):
    X = np.random.default_rng(4).normal(size=(5000, 3))
    X[:2] = 1e8
    X[2500:] += 1e3
    # The outliers weigh nearly nothing, so that what they would spoil is not drowned by them.
    weights = np.where(np.arange(5000) < 2, 1e-30, 1.0) if weighted else None
    source = replace(open_group_rows(to_device(X), ["a"] * 5000, weights), block_entries=1)
    assert_moments(compute_group_moments(source), reference_moments(X, ["a"] * 5000, weights))


def test_a_column_that_is_constant_in_a_group_has_no_variance(to_device):
    X = np.where(np.arange(6) == 2, 0.1 + 1e6, ROWS.X)
    moments = compute_group_moments(replace(open_group_rows(to_device(X), CODES), block_entries=1))
    assert not moments.scatters[:, 2, :].any()


@parametrize_diagonal(value=[np.nan, np.inf, -np.inf], weighted=[False, True])
def test_non_finite_numbers_are_named_as_in_numpy(to_device, value, weighted):
    X = ROWS.X.copy()
    X[4321, 4] = X[4700, 1] = value
    weights = (np.arange(5000) != 4321).astype(float) if weighted else None
    with pytest.raises(InvalidInput) as expected:
        GroupMoments.from_rows(X, CODES, weights)
    for labels in (ROWS.labels, to_device(CODES)):
        with pytest.raises(
            InvalidInput, match=r"row 4322 \(index 4321\), column 5 \(index 4\)\."
        ) as error:
            compute_group_moments(
                replace(open_group_rows(to_device(X), labels, weights), block_entries=1)
            )
        assert error.value.args[:2] == expected.value.args[:2]
    model = FairPCA(2).fit(ROWS.X, sensitive_features=CODES)
    for use in (model.transform, model.score, model.subspace_.transform):
        with pytest.raises(InvalidInput, match=r"row 4322 \(index 4321\), column 5 \(index 4\)\."):
            use(to_device(X))
    with pytest.raises(InvalidInput, match=r"row 1 \(index 0\), column 2 \(index 1\)"):
        model.inverse_transform(to_device(np.array([[0.0, value]])))


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_with_missing_values_are_dropped_and_counted(to_device, weighted):
    X = ROWS.X.copy()
    labels = ROWS.labels.astype(object)
    X[[0, 17, 4999], [1, 2, 3]] = np.nan
    labels[[17, 30]] = None
    is_kept = ~np.isin(np.arange(5000), [0, 17, 30, 4999])
    weights = np.where(np.arange(5000) % 7 == 0, 0, ROWS.weights) if weighted else None
    source = open_group_rows(to_device(X), labels, weights, "drop")
    moments = compute_group_moments(replace(source, block_entries=1))
    kept_weights = None if weights is None else weights[is_kept]
    assert_moments(moments, reference_moments(X[is_kept], labels[is_kept].tolist(), kept_weights))
    assert moments.n_dropped == 4
    X[40, 5] = np.inf
    with pytest.raises(InvalidInput, match="infinity"):
        compute_group_moments(open_group_rows(to_device(X), labels, weights, "drop"))


def test_only_sums_leave_the_device(torch, monkeypatch):
    """No block of rows is copied to the host."""
    sizes = []

    def record_sizes(array):
        sizes.append(array.numel())
        return to_numpy(array)

    monkeypatch.setattr(summing, "to_numpy", record_sizes)
    monkeypatch.setattr(DeviceRows, "blocks", None)
    source = open_group_rows(torch.tensor(ROWS.X), torch.tensor(CODES))
    assert_moments(
        compute_group_moments(replace(source, block_numbers=1)), reference_moments(ROWS.X, CODES)
    )
    assert max(sizes) == 64 * 6  # the first rows of a group, whatever the number of rows
