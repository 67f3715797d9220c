"""Selection of cases: a part in `./run test`, more in `./run long`, all with `--torture`.

A test that uses `select_cases` has the marker `sweep`: `./run long --torture`, which sets
FAIRSPAN_TORTURE=1, runs it with all cases. Cases that `mark_most_long` and `parametrize_diagonal`
mark as long run in `./run long`; those that `mark_most_slow` marks as slow in `./run test --all`.
"""

import os
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any, TypeVar

import pytest

Case = TypeVar("Case")

ALL_CASES = os.environ.get("FAIRSPAN_TORTURE", "") not in ("", "0")


def select_cases(cases: Sequence[Case], step: int, first: int = 0) -> Sequence[Case]:
    """Return every `step`-th case from number `first` on, or all under torture."""
    return cases if ALL_CASES else cases[first % step :: step]


def mark_most_long(cases: Sequence[Any], step: int) -> list[Any]:
    """Mark all but every `step`-th case as long. A case of several values is a tuple."""
    return [
        case if i % step == 0 else _mark(case, pytest.mark.long) for i, case in enumerate(cases)
    ]


def mark_most_slow(cases: Sequence[Any], step: int) -> list[Any]:
    """Mark all but every `step`-th case as slow. A case of several values is a tuple."""
    return [
        case if i % step == 0 else _mark(case, pytest.mark.slow) for i, case in enumerate(cases)
    ]


def _mark(case: Any, mark: pytest.MarkDecorator) -> Any:
    if hasattr(case, "marks"):  # of pytest.param
        return pytest.param(*case.values, id=case.id, marks=[*case.marks, mark])
    return pytest.param(*(case if isinstance(case, tuple) else [case]), marks=mark)


def parametrize_diagonal(
    off_diagonal: pytest.MarkDecorator = pytest.mark.long, **axes: Iterable[Any]
) -> pytest.MarkDecorator:
    """Parametrize with all combinations of values, and mark those off the diagonal.

    The diagonal has the first value of each axis, the second of each, and so on, so each value
    occurs once.
    """
    values = [list(axis_values) for axis_values in axes.values()]
    few = {
        tuple(i % len(axis_values) for axis_values in values) for i in range(max(map(len, values)))
    }
    cases = [
        pytest.param(
            *(axis_values[i] for axis_values, i in zip(values, place, strict=True)),
            marks=() if place in few else off_diagonal,
        )
        for place in product(*(range(len(axis_values)) for axis_values in values))
    ]
    return pytest.mark.parametrize(tuple(axes), cases, ids=str)
