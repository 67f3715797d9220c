"""Only the ratios of weights matter, whatever their size."""

import inspect
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse

import fairspan
from fairspan import FairPCA, GroupMoments, MeanParity, MinimaxLoss
from fairspan.errors import FairspanWarning, InvalidInput
from fairspan.extending import Criterion

FloatArray = npt.NDArray[np.float64]


RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((90, 5)) * [3.0, 2.0, 1.0, 0.5, 0.2] + [0.0, 1e6, 0.0, 3.0, 0.0]
GROUPS = np.arange(90) % 2
WEIGHTS = RNG.uniform(0.1, 5.0, 90)
# The radius of the robust error gap is for a number of rows, which the weights say.
PUBLIC = [getattr(fairspan, name) for name in fairspan.__all__]
CRITERIA = [
    part
    for part in PUBLIC
    if inspect.isclass(part) and issubclass(part, Criterion) and part is not fairspan.RobustErrorGap
]
POWERS = [2.0, 2.0**-7, 2.0**300, 2.0**-300]


@cache
def fit_model(factor: float, kind: str, criterion: type[Criterion] = MinimaxLoss) -> FairPCA:
    """Fit to rows whose weights are multiplied by the factor."""
    rows: Any = ROWS
    settings: dict[str, Any] = {"criterion": criterion()}
    groups = GROUPS
    weights = WEIGHTS * factor
    if kind == "sparse":
        rows = sparse.csr_array(np.where(np.abs(ROWS) < 0.6, 0.0, ROWS))
    elif kind == "few rows":
        rows = np.random.default_rng(1).standard_normal((20, 520))
        groups, weights = groups[:20], weights[:20]
    elif kind == "missing":
        rows = ROWS.copy()
        rows[::9, 2] = np.nan
        settings["on_missing"] = "em"
    elif kind == "parity":
        settings["restriction"] = MeanParity()
    return FairPCA(2, **settings).fit(rows, sensitive_features=groups, sample_weight=weights)


def parts(weights: FloatArray) -> GroupMoments:
    halves = [slice(0, 40), slice(40, 90)]
    moments = [GroupMoments.from_rows(ROWS[s], GROUPS[s], weights[s]) for s in halves]
    return moments[0] + moments[1]


@pytest.mark.parametrize("power", [*POWERS, 2.0**900, 2.0**-900])
@pytest.mark.parametrize("kind", ["dense", "sparse", "few rows", "missing", "parity"])
def test_weights_times_a_power_of_two_give_the_same_bytes(kind: str, power: float) -> None:
    one = fit_model(1.0, kind)
    other = fit_model(power, kind)
    assert np.array_equal(one.components_, other.components_)
    assert one.solution_.objective == other.solution_.objective
    assert one.solution_.lower_bound == other.solution_.lower_bound
    assert other.solution_.status == "optimal"
    expected = one.singular_values_ * np.sqrt(power)
    assert other.singular_values_ == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_for_every_criterion(criterion: type[Criterion]) -> None:
    one, other = (fit_model(power, "dense", criterion) for power in (1.0, 2.0**-301))
    assert np.array_equal(one.components_, other.components_)
    assert one.solution_.lower_bound == other.solution_.lower_bound


@pytest.mark.parametrize("power", POWERS)
def test_moments_of_parts_scale_with_their_weights(power: float) -> None:
    one = parts(WEIGHTS)
    other = parts(WEIGHTS * power)
    assert np.array_equal(other.weights, power * one.weights)
    assert np.array_equal(other.scatters, power * one.scatters)
    assert np.array_equal(other.means, one.means)


def test_blocks_of_a_file_scale_with_their_weights(tmp_path: Path) -> None:
    frame = pd.DataFrame(ROWS, columns=list("abcde")).assign(g=GROUPS)
    moments = []
    for name, weights in (("one.parquet", WEIGHTS), ("other.parquet", WEIGHTS * 2.0**-101)):
        frame.assign(w=weights).to_parquet(tmp_path / name)
        moments.append(GroupMoments.from_rows(tmp_path / name, "g", "w"))
    assert np.array_equal(moments[0].scatters, 2.0**101 * moments[1].scatters)
    assert np.array_equal(moments[0].means, moments[1].means)


@pytest.mark.parametrize("factor", [3e40, 1e-95, 1e98, 1e200, 1e-200])
def test_weights_times_any_constant_give_the_same_answer(factor: float) -> None:
    one = fit_model(1.0, "dense")
    other = fit_model(factor, "dense")
    assert other.solution_.objective == pytest.approx(one.solution_.objective, rel=1e-9)
    assert other.solution_.status == "optimal"
    total = np.ldexp(other.moments_.weights, other.moments_.weight_exponent)
    assert total == pytest.approx(factor * one.moments_.weights)
    assert np.array_equal(other.moments_.counts, one.moments_.counts)


def test_parts_of_very_different_weights() -> None:
    first = ROWS[:40]
    second = ROWS[40:]
    moments = GroupMoments.from_rows(first, GROUPS[:40], np.full(40, 1e-90))
    total = moments + GroupMoments.from_rows(second, GROUPS[40:], np.full(50, 1e90))
    alone = GroupMoments.from_rows(second, GROUPS[40:])
    assert total.means == pytest.approx(alone.means, rel=1e-12)
    assert total.second_moments("group") == pytest.approx(alone.second_moments("group"), rel=1e-9)


def test_tiny_rows_with_small_weights() -> None:
    model = FairPCA(2).fit(
        (ROWS - [0.0, 1e6, 0.0, 3.0, 0.0]) * 1e-60,
        sensitive_features=GROUPS,
        sample_weight=np.full(90, 1e-100),
    )
    plain = FairPCA(2).fit(ROWS - [0.0, 1e6, 0.0, 3.0, 0.0], sensitive_features=GROUPS)
    assert model.solution_.objective == pytest.approx(1e-120 * plain.solution_.objective, rel=1e-9)
    assert model.solution_.status == "optimal"


def moments_of_column(weights: FloatArray) -> GroupMoments:
    frame = pd.DataFrame(ROWS, columns=list("abcde")).assign(g=GROUPS, w=weights)
    return GroupMoments.from_rows(frame, "g", "w")


def moments_of_array(weights: FloatArray) -> GroupMoments:
    return GroupMoments.from_rows(ROWS, GROUPS, weights)


def moments_of_sparse_matrix(weights: FloatArray) -> GroupMoments:
    return GroupMoments.from_rows(sparse.csr_array(ROWS), GROUPS, weights)


def moments_of_stream(weights: FloatArray) -> GroupMoments:
    frame = pd.DataFrame(ROWS, columns=list("abcde")).assign(g=GROUPS, w=weights)
    return GroupMoments.from_rows(pa.Table.from_pandas(frame), "g", "w")


def moments_of_dask_frame(weights: FloatArray) -> GroupMoments:
    frame = pd.DataFrame(ROWS, columns=list("abcde")).assign(g=GROUPS, w=weights)
    import dask.dataframe as dask_frame

    return GroupMoments.from_rows(dask_frame.from_pandas(frame, npartitions=3), "g", "w")


def moments_of_dask_array(weights: FloatArray) -> GroupMoments:
    import dask.array as dask_array

    return GroupMoments.from_rows(dask_array.from_array(ROWS, chunks=(40, 5)), GROUPS, weights)


def moments_of_parts(weights: FloatArray) -> GroupMoments:
    return parts(weights)


SOURCES: list[Callable[[FloatArray], GroupMoments]] = [
    moments_of_array,
    moments_of_column,
    moments_of_sparse_matrix,
    moments_of_stream,
    moments_of_dask_frame,
    moments_of_dask_array,
    moments_of_parts,
]


def pair_sources(values: list[float]) -> list[Any]:
    """Pair all sources with all values; with Dask all pairs but the first are slow."""
    return [
        pytest.param(
            source,
            value,
            marks=pytest.mark.slow if "dask" in source.__name__ and value != values[0] else (),
        )
        for source in SOURCES
        for value in values
    ]


def assert_same(actual: GroupMoments, expected: GroupMoments) -> None:
    """Check that moments are the same but for a constant factor of the weights."""
    assert actual.labels == expected.labels
    assert np.array_equal(actual.counts, expected.counts)
    assert actual.means == pytest.approx(expected.means, rel=1e-12, abs=1e-14)
    assert actual.proportions == pytest.approx(expected.proportions, rel=1e-12)
    second = expected.second_moments("group")
    assert actual.second_moments("group") == pytest.approx(second, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("source", "factor"), pair_sources([1e-300, 2.0**1000, 1e200, 1e-200]))
def test_every_source_takes_weights_of_any_size(
    source: Callable[[FloatArray], GroupMoments], factor: float
) -> None:
    moments = source(WEIGHTS * factor)
    assert_same(moments, source(WEIGHTS))
    total = np.ldexp(moments.weights, moments.weight_exponent)
    assert total == pytest.approx(factor * source(WEIGHTS).weights, rel=1e-12)


@pytest.mark.parametrize(("source", "size"), pair_sources([5e-324, 1e-312, 1e308]))
def test_equal_weights_at_the_ends_of_float64(
    source: Callable[[FloatArray], GroupMoments], size: float
) -> None:
    assert_same(source(np.full(90, size)), source(np.ones(90)))


def test_one_and_the_same_scale_for_all_blocks_of_files(tmp_path: Path) -> None:
    weights = np.where(np.arange(90) < 50, 1e-150, 1e-60)
    frame = pd.DataFrame(ROWS, columns=list("abcde")).assign(g=GROUPS, w=weights)
    for name, start, stop in (("1.csv", 0, 30), ("2.csv", 30, 60), ("3.csv", 60, 90)):
        frame[start:stop].to_csv(tmp_path / name, index=False)
    moments = GroupMoments.from_rows(tmp_path, "g", "w")
    assert_same(moments, GroupMoments.from_rows(ROWS, GROUPS.astype(str), weights))


def test_missing_cells_of_files(tmp_path: Path) -> None:
    rows = ROWS.copy()
    rows[::9, 2] = np.nan
    frame = pd.DataFrame(rows, columns=list("abcde")).assign(g=GROUPS)
    results = []
    for name, weights in (("one.csv", WEIGHTS), ("other.csv", WEIGHTS * 2.0**-900)):
        frame.assign(w=weights).to_csv(tmp_path / name, index=False)
        moments = GroupMoments.from_rows(tmp_path / name, "g", "w", on_missing="em")
        results.append(moments)
    assert np.array_equal(results[0].means, results[1].means)
    assert results[1].weight_exponent != 0


@pytest.mark.parametrize(
    "factor", [2.0**600, *(pytest.param(2.0**k, marks=pytest.mark.slow) for k in (-10, -700))]
)
def test_audits_depend_on_ratios_of_weights_alone(factor: float) -> None:
    model = fit_model(1.0, "dense")
    one = fairspan.audit(model, ROWS, GROUPS, sample_weight=WEIGHTS)
    other = fairspan.audit(model, ROWS, GROUPS, sample_weight=WEIGHTS * factor)
    assert str(one) == str(other)


def test_kurtosis_is_that_of_weighted_errors() -> None:
    model = FairPCA(2).fit(ROWS, sensitive_features=GROUPS)
    audit = fairspan.audit(model, ROWS, GROUPS, sample_weight=WEIGHTS)
    errors = ((ROWS - model.inverse_transform(model.transform(ROWS))) ** 2).sum(axis=1)
    for group in audit.models[0].groups:
        in_group = group.group == GROUPS
        mean = np.average(errors[in_group], weights=WEIGHTS[in_group])
        parts = WEIGHTS[in_group] * (errors[in_group] - mean)
        expected = in_group.sum() * (parts**4).sum() / (parts**2).sum() ** 2
        assert group.observed_kurtosis == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("factor", [1e300, 1e-300])
def test_verification_and_saved_moments(tmp_path: Path, factor: float) -> None:
    model = fit_model(factor, "dense")
    assert fairspan.verify(model, ROWS, GROUPS, sample_weight=WEIGHTS * factor).holds
    assert fairspan.verify(model, ROWS, GROUPS, sample_weight=WEIGHTS).holds
    moments = model.moments_
    assert isinstance(moments, GroupMoments)
    moments.save(tmp_path / "huge.moments")
    again = GroupMoments.load(tmp_path / "huge.moments")
    assert again.weight_exponent == moments.weight_exponent
    assert np.array_equal(again.scatters, moments.scatters)
    assert_same(again + moments_of_array(WEIGHTS * factor), moments + moments)


def test_the_largest_weights_decide_whichever_part_has_them() -> None:
    small, large = WEIGHTS * 1e-150, WEIGHTS * 1e-20
    expected = moments_of_array(np.where(np.arange(90) < 40, small, large))
    first = GroupMoments.from_rows(ROWS[:40], GROUPS[:40], small[:40])
    second = GroupMoments.from_rows(ROWS[40:], GROUPS[40:], large[40:])
    assert_same(first + second, expected)
    assert_same(second + first, expected)


def test_negligible_weights_count_as_zero_and_are_named() -> None:
    weights = WEIGHTS.copy()
    weights[:7] = 1e-250
    with pytest.warns(FairspanWarning, match="1e-200 of the largest"):
        moments = moments_of_array(weights)
    weights[:7] = 0.0
    assert_same(moments, moments_of_array(weights))


@pytest.mark.parametrize("source", SOURCES)
def test_a_group_without_other_weights_is_named(
    source: Callable[[FloatArray], GroupMoments],
) -> None:
    weights = np.where(GROUPS == 1, 1e-200, 1e200)
    with pytest.warns(FairspanWarning, match="group '1'"):
        assert source(weights).labels == [0]


def test_a_negligible_part_leaves_the_sum_and_is_named() -> None:
    tiny = GroupMoments.from_rows(ROWS[:40], GROUPS[:40], np.full(40, 1e-200))
    huge = GroupMoments.from_rows(ROWS[40:], np.zeros(50, dtype=int), np.full(50, 1e200))
    with pytest.warns(FairspanWarning, match="A part has weights.*group '1'"):
        total = tiny + huge
    assert total.labels == [0]
    assert np.array_equal(total.means, huge.means)


def test_tiny_features_next_to_weights_of_very_different_size() -> None:
    weights = np.where(GROUPS == 0, 1e-99, 1e99)
    rows = ROWS - [0.0, 1e6, 0.0, 3.0, 0.0]
    moments = GroupMoments.from_rows(rows * 2.0**-230, GROUPS, weights)
    plain = GroupMoments.from_rows(rows, GROUPS)
    second = moments.second_moments("group") * 2.0**460
    assert second == pytest.approx(plain.second_moments("group"), rel=1e-9)


def test_weights_of_covariances() -> None:
    matrices = np.array([np.eye(3), np.diag([3.0, 2.0, 1.0])])
    moments = GroupMoments.from_covariances(matrices, weights=[1e300, 3e300])
    assert moments.proportions == pytest.approx([0.25, 0.75])
    assert np.array_equal(moments.second_moments("group"), matrices)


def test_radius_of_the_robust_error_gap_is_for_so_many_rows() -> None:
    in_both_units = [
        GroupMoments.from_covariances([np.eye(3), np.eye(3)], weights=np.array([4.0, 9.0]) * unit)
        for unit in (1.0, 2.0**1000)
    ]
    criterion = fairspan.RobustErrorGap(radius=1.0)
    radii = []
    for moments in in_both_units:
        identity = np.eye(3)[:1]
        reach = fairspan.metrics.worst_case_error(identity, moments, radius=criterion.radius)
        radii.append(np.sqrt(list(reach.values())) - np.sqrt(2.0))
    assert radii[0] == pytest.approx(np.sqrt([1 / 2, 1 / 3]), rel=1e-12)
    assert radii[1] == pytest.approx(np.zeros(2), abs=1e-12)


@pytest.mark.parametrize("weight", [-1.0, np.nan, np.inf])
def test_weights_that_are_none(weight: float) -> None:
    with pytest.raises(InvalidInput, match="negative, NaN or infinite"):
        moments_of_array(np.append(WEIGHTS[:-1], weight))


@pytest.mark.parametrize("size", [5e-324, 1e-300, 1e221])
def test_group_weights_beyond_the_range_are_refused(size: float) -> None:
    matrices = np.array([np.eye(3), np.diag([3.0, 2.0, 1.0])]) * 1e-30
    with pytest.raises(InvalidInput, match="weights are"):
        GroupMoments.from_covariances(matrices, weights=[size, 1.0])
