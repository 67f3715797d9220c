"""Whole numbers that double precision cannot tell apart are refused, not fitted."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from fairspan import FairPCA, GroupMoments
from fairspan.errors import FairspanWarning, InvalidInput

RNG = np.random.default_rng(0)
SMALL = RNG.integers(-3, 4, (60, 4))
GROUPS = np.arange(60) % 2
KINDS: dict[str, Any] = {
    "array": np.asarray,
    "pandas": lambda rows: pd.DataFrame(rows, columns=list("abcd")),
    "pandas with NA": lambda rows: pd.DataFrame(rows, columns=list("abcd")).astype("Int64"),
    "polars": lambda rows: pl.DataFrame(dict(zip("abcd", rows.T, strict=True))),
}


def make_large_column(base: int) -> Any:
    return SMALL + np.array([0, base, 0, 0])


@pytest.mark.filterwarnings("ignore:Integers beyond:fairspan.errors.FairspanWarning")
@pytest.mark.parametrize("base", [2**53, -(2**53), 2**60, 2**62])
@pytest.mark.parametrize("kind", KINDS)
def test_differences_that_are_rounding_are_refused(kind: str, base: int) -> None:
    with pytest.raises(InvalidInput, match=r"integers from .*column.*Subtract one"):
        FairPCA(2).fit(KINDS[kind](make_large_column(base)), sensitive_features=GROUPS)


@pytest.mark.filterwarnings("ignore:Integers beyond:fairspan.errors.FairspanWarning")
def test_unsigned_and_wide_tables_too() -> None:
    with pytest.raises(InvalidInput, match="integers from"):
        FairPCA(1).fit(
            make_large_column(2**62).astype(np.uint64)[:, [1]] + 2**63, sensitive_features=GROUPS
        )
    wide = RNG.integers(-3, 4, (30, 700)) + 2**53
    with pytest.raises(InvalidInput, match="integers from"):
        FairPCA(2).fit(wide, sensitive_features=GROUPS[:30])


@pytest.mark.parametrize("kind", KINDS)
def test_the_advice_gives_the_exact_answer(kind: str) -> None:
    large = make_large_column(2**60)
    exact = FairPCA(2).fit(SMALL, sensitive_features=GROUPS)
    fair = FairPCA(2).fit(KINDS[kind](large - large[0]), sensitive_features=GROUPS)
    assert fair.solution_.objective == pytest.approx(exact.solution_.objective, rel=1e-9)


@pytest.mark.parametrize("base", [2**30, 2**52, -(2**52)])
def test_integers_up_to_the_limit_are_exact(base: int) -> None:
    exact = FairPCA(2).fit(SMALL, sensitive_features=GROUPS)
    fair = FairPCA(2).fit(make_large_column(base), sensitive_features=GROUPS)
    assert fair.solution_.objective == pytest.approx(exact.solution_.objective, rel=1e-9)


def test_large_numbers_that_differ_by_more_are_taken_with_a_warning() -> None:
    rows = SMALL.astype(np.int64)
    rows[:, 1] = 1_700_000_000_000_000_000 + 86_400_000_000_000 * np.arange(60)
    with pytest.warns(FairspanWarning, match="beyond 2\\^53"):
        moments = GroupMoments.from_rows(rows, GROUPS)
    exact = float(np.var(86_400_000_000_000.0 * np.arange(60)[GROUPS == 0]))
    assert moments.variances[0, 1] == pytest.approx(exact, rel=1e-9)


def test_a_constant_column_of_large_numbers_has_no_differences_to_lose() -> None:
    rows = SMALL.astype(np.int64)
    rows[:, 1] = 2**60 + 1
    with pytest.warns(FairspanWarning, match="beyond 2\\^53"):
        fair = FairPCA(2).fit(rows, sensitive_features=GROUPS)
    exact = FairPCA(2).fit(SMALL * [1, 0, 1, 1], sensitive_features=GROUPS)
    assert fair.solution_.objective == pytest.approx(exact.solution_.objective, rel=1e-9)


def test_numbers_of_double_precision_are_what_they_are() -> None:
    rows = SMALL * np.array([1.0, 2.0, 1.0, 1.0]) + [0.0, 2.0**53, 0.0, 0.0]
    exact = FairPCA(2).fit(SMALL * [1, 2, 1, 1], sensitive_features=GROUPS)
    fair = FairPCA(2).fit(rows, sensitive_features=GROUPS)
    assert fair.solution_.objective == pytest.approx(exact.solution_.objective, rel=1e-9)
