"""Time of the EM algorithm on rows with missing cells, over that of a pass over complete rows.

./run bench --only incomplete
"""

import time

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.effort import Effort
from benchmarks.measurement import format_table, log_progress
from benchmarks.report import SectionContent
from benchmarks.rows import FloatArray, make_rows
from fairspan import GroupMoments
from fairspan.rows.blocks import OnMissing

_FEATURES, _PATTERNS = 50, 100
_MISSING_SHARE = 0.1


def measure(effort: Effort) -> SectionContent:
    """Measure the seconds of a pass of the EM algorithm, and count the passes."""
    n = 5_000 if effort.quick else 100_000
    X, groups = make_rows(n, _FEATURES)
    rng = np.random.default_rng(0)
    patterns = rng.random((_PATTERNS, _FEATURES)) < _MISSING_SHARE
    masks = {
        f"{_PATTERNS} patterns": patterns[rng.integers(0, _PATTERNS, n)],
        "a pattern a row": rng.random(X.shape) < _MISSING_SHARE,
    }
    lines = []
    with threadpool_limits(1):
        for name, is_missing in masks.items():
            log_progress(f"the EM algorithm, {name}")
            incomplete = np.where(is_missing, np.nan, X)
            complete_seconds = min(_time_moments(X, groups)[0] for _ in range(effort.repetitions))
            em_seconds, moments = _time_moments(incomplete, groups, on_missing="em")
            assert moments.em_summary is not None
            # One more pass, before the first step, finds the groups.
            n_passes = moments.em_summary.n_passes + 1
            pass_seconds = em_seconds / n_passes
            lines.append(
                [
                    name,
                    f"{complete_seconds:.3f}",
                    f"{pass_seconds:.3f}",
                    f"{pass_seconds / complete_seconds:.1f}",
                    f"{n_passes}",
                ]
            )
    header = ["rows", "complete pass, s", "pass, s", "ratio", "passes"]
    explanation = (
        f"{n:,} x {_FEATURES} float64, 2 groups, {_MISSING_SHARE:.0%} of the cells missing, "
        "one thread."
    )
    return SectionContent(f"{explanation}\n\n{format_table(header, lines)}", ("fairspan", "numpy"))


def _time_moments(
    rows: FloatArray, groups: np.ndarray, on_missing: OnMissing = "error"
) -> tuple[float, GroupMoments]:
    """Return the seconds that the moments of the rows take, and the moments."""
    start = time.perf_counter()
    moments = GroupMoments.from_rows(rows, groups, on_missing=on_missing)
    return time.perf_counter() - start, moments
