"""Only the ratios of weights matter; sizes that double precision cannot hold are refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from scipy import sparse

import fairspan
from fairspan import FairPCA, GroupMoments, MeanParity
from fairspan.errors import InvalidInput
from fairspan.linalg import unit_of
from fairspan.registry import names_of

FloatArray = npt.NDArray[np.float64]

RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((90, 5)) * [3.0, 2.0, 1.0, 0.5, 0.2] + [0.0, 1e6, 0.0, 3.0, 0.0]
GROUPS = np.arange(90) % 2
WEIGHTS = RNG.uniform(0.1, 5.0, 90)
# The radius of the robust error gap is for a number of rows, which the weights say.
CRITERIA = [name for name in names_of("criterion") if name != "robust_error_gap"]
POWERS = [2.0, 2.0**-7, 2.0**300, 2.0**-300]


def fitted(weights: FloatArray, kind: str, criterion: str = "minimax_loss") -> FairPCA:
    rows: Any = ROWS
    settings: dict[str, Any] = {"criterion": criterion}
    groups = GROUPS
    if kind == "sparse":
        rows = sparse.csr_array(np.where(np.abs(ROWS) < 0.6, 0.0, ROWS))
    elif kind == "few rows":
        rows = np.random.default_rng(1).standard_normal((90, 700))
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


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("kind", ["dense", "sparse", "few rows", "missing", "parity"])
def test_weights_times_a_power_of_two_give_the_same_bytes(kind: str, power: float) -> None:
    one, other = fitted(WEIGHTS, kind), fitted(WEIGHTS * power, kind)
    assert np.array_equal(one.components_, other.components_)
    assert one.solution_.objective == other.solution_.objective
    assert one.solution_.lower_bound == other.solution_.lower_bound


@pytest.mark.parametrize("criterion", CRITERIA)
def test_for_every_criterion(criterion: str) -> None:
    one, other = (fitted(WEIGHTS * power, "dense", criterion) for power in (1.0, 2.0**-301))
    assert np.array_equal(one.components_, other.components_)
    assert one.solution_.lower_bound == other.solution_.lower_bound


@pytest.mark.parametrize("power", POWERS)
def test_moments_of_parts_scale_with_their_weights(power: float) -> None:
    one, other = parts(WEIGHTS), parts(WEIGHTS * power)
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


@pytest.mark.parametrize("factor", [3e40, 1e-95, 1e98])
def test_weights_times_any_constant_give_the_same_answer(factor: float) -> None:
    one, other = fitted(WEIGHTS, "dense"), fitted(WEIGHTS * factor, "dense")
    assert other.solution_.objective == pytest.approx(one.solution_.objective, rel=1e-9)
    assert other.solution_.status == "optimal"
    assert other.moments_.weights == pytest.approx(factor * one.moments_.weights)
    assert np.array_equal(other.moments_.counts, one.moments_.counts)


def test_parts_of_very_different_weights() -> None:
    first, second = ROWS[:40], ROWS[40:]
    moments = GroupMoments.from_rows(first, GROUPS[:40], np.full(40, 1e-90))
    whole = moments + GroupMoments.from_rows(second, GROUPS[40:], np.full(50, 1e90))
    alone = GroupMoments.from_rows(second, GROUPS[40:])
    assert whole.means == pytest.approx(alone.means, rel=1e-12)
    assert whole.second_moments("group") == pytest.approx(alone.second_moments("group"), rel=1e-9)


def test_tiny_rows_with_small_weights() -> None:
    model = FairPCA(2).fit(
        (ROWS - [0.0, 1e6, 0.0, 3.0, 0.0]) * 1e-60,
        sensitive_features=GROUPS,
        sample_weight=np.full(90, 1e-100),
    )
    plain = FairPCA(2).fit(ROWS - [0.0, 1e6, 0.0, 3.0, 0.0], sensitive_features=GROUPS)
    assert model.solution_.objective == pytest.approx(1e-120 * plain.solution_.objective, rel=1e-9)
    assert model.solution_.status == "optimal"


def fit(weights: FloatArray) -> Any:
    return FairPCA(2).fit(ROWS, sensitive_features=GROUPS, sample_weight=weights)


def audit(weights: FloatArray) -> Any:
    return fairspan.audit(None, ROWS, GROUPS, sample_weight=weights)


def of_a_column(weights: FloatArray) -> Any:
    frame = pd.DataFrame(ROWS, columns=list("abcde")).assign(g=GROUPS, w=weights)
    return GroupMoments.from_rows(frame, "g", "w")


def of_sparse_rows(weights: FloatArray) -> Any:
    return GroupMoments.from_rows(sparse.csr_array(ROWS), GROUPS, weights)


DOORS: list[Callable[[FloatArray], Any]] = [fit, audit, of_a_column, of_sparse_rows]


@pytest.mark.parametrize("size", [5e-324, 1e-312, 1e-300, 1e-101, 1e101, 1e300])
@pytest.mark.parametrize("door", DOORS)
def test_weights_beyond_the_range_are_refused(door: Callable[..., Any], size: float) -> None:
    weights = np.ones(90)
    weights[7] = size
    with pytest.raises(InvalidInput, match=r"the weight .*from 1e-100 to 1e\+100.*Divide all"):
        door(weights)


@pytest.mark.parametrize("size", [5e-324, 1e-300, 1e121])
def test_group_weights_beyond_the_range_are_refused(size: float) -> None:
    matrices = np.array([np.eye(3), np.diag([3.0, 2.0, 1.0])]) * 1e-30
    with pytest.raises(InvalidInput, match="weights are"):
        GroupMoments.from_covariances(matrices, weights=[size, 1.0])


def test_unit_of_weights() -> None:
    assert [unit_of(np.array(each)) for each in ([], [0.0], [1.0], [0.1, 0.75])] == [1, 1, 1, 0.5]
