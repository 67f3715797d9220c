"""Moments of rows with missing cells, beside the pass over complete rows.

./run bench --only incomplete
"""

import time

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.effort import Effort
from benchmarks.report import Measured
from benchmarks.results import announce, table_of
from benchmarks.rows import made
from fairspan import GroupMoments

_FEATURES, _PATTERNS, _SHARE = 50, 100, 0.1


def measure(effort: Effort) -> Measured:
    """Seconds of a pass of the EM algorithm, and how many there are."""
    n = 5_000 if effort.quick else 100_000
    X, groups = made(n, _FEATURES)
    rng = np.random.default_rng(0)
    patterns = rng.random((_PATTERNS, _FEATURES)) < _SHARE
    holes = {
        f"{_PATTERNS} patterns": patterns[rng.integers(0, _PATTERNS, n)],
        "a pattern a row": rng.random(X.shape) < _SHARE,
    }
    lines = []
    with threadpool_limits(1):
        for name, missing in holes.items():
            announce(f"the EM algorithm, {name}")
            some = np.where(missing, np.nan, X)
            one = min(_seconds(X, groups)[0] for _ in range(effort.repetitions))
            seconds, moments = _seconds(some, groups, on_missing="em")
            assert moments.em_summary is not None
            # The pass before the first step shows which groups there are.
            n_passes = moments.em_summary.n_passes + 1
            ratio = f"{seconds / n_passes / one:.1f}"
            lines.append([name, f"{one:.3f}", f"{seconds / n_passes:.3f}", ratio, f"{n_passes}"])
    head = ["rows", "complete pass, s", "pass, s", "ratio", "passes"]
    shape = f"{n:,} x {_FEATURES} float64, 2 groups, {_SHARE:.0%} of the cells missing, one thread."
    return Measured(f"{shape}\n\n{table_of(head, lines)}", ("fairspan", "numpy"))


def _seconds(rows: np.ndarray, groups: np.ndarray, **settings: str) -> tuple[float, GroupMoments]:
    start = time.perf_counter()
    moments = GroupMoments.from_rows(rows, groups, **settings)
    return time.perf_counter() - start, moments
