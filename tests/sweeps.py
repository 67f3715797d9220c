"""How much of many cases is tried: a part by default.

A test that asks for `part_of` bears the marker `sweep`: `./run long --torture`, which sets
FAIRSPAN_TORTURE=1, runs it with all cases. What `mostly_long` and `each_once` mark as long,
`./run long` runs.
"""

import os
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any, TypeVar

import pytest

Case = TypeVar("Case")

WHOLE = os.environ.get("FAIRSPAN_TORTURE", "") not in ("", "0")


def part_of(cases: Sequence[Case], step: int, first: int = 0) -> Sequence[Case]:
    """Every case, or of many every `step`-th from the one numbered `first` on."""
    return cases if WHOLE else cases[first % step :: step]


def mostly_long(cases: Sequence[Any], step: int) -> list[Any]:
    """Every case; all but every `step`-th are marked as long. One of several values is a tuple."""
    return [case if i % step == 0 else _long(case) for i, case in enumerate(cases)]


def _long(case: Any) -> Any:
    if hasattr(case, "marks"):  # of pytest.param
        return pytest.param(*case.values, id=case.id, marks=[*case.marks, pytest.mark.long])
    return pytest.param(*(case if isinstance(case, tuple) else [case]), marks=pytest.mark.long)


def each_once(**axes: Iterable[Any]) -> pytest.MarkDecorator:
    """Every combination of some values; all but as few as have each value once are marked as long.

    Those are the diagonal: the first value of each axis, the second of each, and so on.
    """
    values = [list(each) for each in axes.values()]
    few = {tuple(i % len(each) for each in values) for i in range(max(map(len, values)))}
    cases = [
        pytest.param(
            *(each[i] for each, i in zip(values, place, strict=True)),
            marks=() if place in few else pytest.mark.long,
        )
        for place in product(*(range(len(each)) for each in values))
    ]
    return pytest.mark.parametrize(tuple(axes), cases, ids=str)
