"""What one core does, by the number of features; what folds add; and what follows for a cluster."""

from functools import partial

from threadpoolctl import threadpool_limits

from benchmarks.effort import Effort
from benchmarks.isolation import alone
from benchmarks.report import Measured
from benchmarks.results import announce, seconds_of, shown_seconds, table_of
from benchmarks.rows import made
from fairspan import FairPCA, GroupMoments, audit

# Features, and rows enough for a tenth of a second and more.
_SHAPES = ((50, 400_000), (100, 200_000), (300, 60_000), (1000, 20_000), (2000, 8000))
_FOLDS = (5, 10, 20)
# The cluster of the calculation.
_ROWS, _FEATURES, _CORES = 10**9, 1000, 100


def measure(effort: Effort) -> Measured:
    """All of it with a single thread."""
    announce("one core")
    rates, at_features = alone(effort.limit, rates_of_a_core, effort)
    announce("folds")
    folds = alone(effort.limit, folds_added, effort)
    return Measured(
        "\n\n".join(
            [
                "One thread; two groups, d = 10. *Moments* is a pass over rows in memory, *solve* "
                "is what follows, which does not depend on the number of rows. Arithmetic is "
                "counted as p (p + 1) operations a row.",
                rates,
                "An audit of ordinary PCA and three groups in K folds, over one without estimates "
                "for new rows.",
                folds,
                _calculated(at_features),
            ]
        )
    )


def rates_of_a_core(effort: Effort) -> tuple[str, float]:
    """A table by the number of features; rows a second at the features of the calculation."""
    lines, wanted = [], 0.0
    for p, n in _SHAPES:
        rows, labels = made(n // 10 if effort.quick else n, p)
        n = len(rows)
        with threadpool_limits(1):
            moments = GroupMoments.from_rows(rows, labels)
            runs = {
                "pass": partial(GroupMoments.from_rows, rows, labels),
                "solve": partial(FairPCA(10).fit_moments, moments),
            }
            seconds = seconds_of(runs, effort.repetitions)
        one = seconds["pass"]
        if p == _FEATURES:
            wanted = n / one
        lines.append(
            [
                f"{p:,}",
                f"{n:,}",
                shown_seconds(one),
                f"{n / one:,.0f}",
                f"{rows.nbytes / one / 1e9:.2f}",
                f"{n * p * (p + 1) / one / 1e9:.1f}",
                shown_seconds(seconds["solve"]),
            ]
        )
    header = ["p", "n", "moments", "rows a second", "GB/s", "billion operations a second", "solve"]
    return table_of(header, lines), wanted


def folds_added(effort: Effort) -> str:
    """A table by the number of folds."""
    rows, labels = made(20_000 if effort.quick else 200_000, 50, 3)
    pca = FairPCA(5, criterion="total_error").fit(rows, sensitive_features=labels)
    with threadpool_limits(1):
        runs = {
            folds: partial(audit, pca, rows, sensitive_features=labels, folds=folds)
            for folds in (None, *_FOLDS)
        }
        seconds = seconds_of({str(folds): run for folds, run in runs.items()}, effort.repetitions)
    alone_, *others = seconds.items()
    lines = [["none", shown_seconds(alone_[1]), ""]]
    lines += [[folds, shown_seconds(each), f"{each / alone_[1]:.2f}"] for folds, each in others]
    return table_of(["folds", "audit", "over none"], lines)


def _calculated(rate: float) -> str:
    core_seconds = _ROWS / rate
    return (
        f"**A calculation, not a measurement**: {_ROWS:,} rows of {_FEATURES:,} features are "
        f"{8 * _ROWS * _FEATURES / 1e12:.0f} TB. At {rate:,.0f} rows a second and core the moments "
        f"take {core_seconds / 3600:.1f} core hours, which is {core_seconds / _CORES / 60:.1f} "
        f"minutes of {_CORES} cores, if their storage delivers "
        f"{8 * _ROWS * _FEATURES / (core_seconds / _CORES) / 1e9:.0f} GB/s to all of them "
        "together. The solve is that of the table, on one machine."
    )
