"""How much of many cases is tried: a part by default.

A test that asks for `part_of` bears the marker `sweep`: `./run long --torture`, which sets
FAIRSPAN_TORTURE=1, runs it with all cases. What `mostly_long` leaves out, `./run long` runs.
"""

import os
from collections.abc import Sequence
from typing import Any, TypeVar

import pytest

Case = TypeVar("Case")

WHOLE = os.environ.get("FAIRSPAN_TORTURE", "") not in ("", "0")


def part_of(cases: Sequence[Case], step: int, first: int = 0) -> Sequence[Case]:
    """Every case, or of many every `step`-th from the one numbered `first` on."""
    return cases if WHOLE else cases[first % step :: step]


def mostly_long(cases: Sequence[Any], step: int) -> list[Any]:
    """Every case; all but every `step`-th are marked as long. One of several values is a tuple."""
    return [
        case
        if number % step == 0
        else pytest.param(*(case if isinstance(case, tuple) else [case]), marks=pytest.mark.long)
        for number, case in enumerate(cases)
    ]
