"""How much of a sweep is tried: a part by default, the whole with FAIRSPAN_TORTURE=1.

A test that asks here bears the marker `sweep`, so that `./run torture` runs it.
"""

import os
from collections.abc import Sequence
from typing import TypeVar

Case = TypeVar("Case")

WHOLE = os.environ.get("FAIRSPAN_TORTURE", "") not in ("", "0")


def part_of(cases: Sequence[Case], step: int, first: int = 0) -> Sequence[Case]:
    """Every case, or of many every `step`-th from the one numbered `first` on."""
    return cases if WHOLE else cases[first % step :: step]
