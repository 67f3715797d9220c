"""Throughput of one core by the number of features, cost of folds, estimate for a cluster."""

from collections.abc import Callable
from functools import partial

from threadpoolctl import threadpool_limits

from benchmarks.effort import Effort
from benchmarks.isolation import run_in_process
from benchmarks.measurement import format_seconds, format_table, log_progress, median_seconds
from benchmarks.report import SectionContent
from benchmarks.rows import make_rows
from fairspan import FairPCA, GroupMoments, audit

# Numbers of features and of rows, enough of them for at least a tenth of a second.
_SHAPES = ((50, 400_000), (100, 200_000), (300, 60_000), (1000, 20_000), (2000, 8000))
_FOLDS = (5, 10, 20)
# The data and cores for which the time of a cluster is calculated.
_CLUSTER_ROWS = 10**9
_CLUSTER_FEATURES = 1000
_CLUSTER_CORES = 100
_BYTES_OF_A_FLOAT = 8


def measure(effort: Effort) -> SectionContent:
    """Measure moments, solve and folds with a single thread."""
    log_progress("one core")
    throughput_table, cluster_rate = run_in_process(effort.limit, measure_throughput, effort)
    log_progress("folds")
    fold_table = run_in_process(effort.limit, measure_folds, effort)
    return SectionContent(
        "\n\n".join(
            [
                "One thread; two groups, d = 10. *Moments* is a pass over rows in memory, *solve* "
                "is what follows, which does not depend on the number of rows. Arithmetic is "
                "counted as p (p + 1) operations a row.",
                throughput_table,
                "An audit of ordinary PCA and three groups in K folds, over one without estimates "
                "for new rows.",
                fold_table,
                _estimate_cluster(cluster_rate),
            ]
        )
    )


def measure_throughput(effort: Effort) -> tuple[str, float]:
    """Measure moments and solve by the number of features.

    Returns
    -------
    table : str
        In Markdown.
    cluster_rate : float
        Rows a second at the number of features of the cluster.
    """
    lines = []
    cluster_rate = 0.0
    for p, full_n in _SHAPES:
        rows, labels = make_rows(full_n // 10 if effort.quick else full_n, p)
        n = len(rows)
        with threadpool_limits(1):
            moments = GroupMoments.from_rows(rows, labels)
            runs: dict[str, Callable[[], object]] = {
                "moments": partial(GroupMoments.from_rows, rows, labels),
                "solve": partial(FairPCA(10).fit_moments, moments),
            }
            seconds = median_seconds(runs, effort.repetitions)
        moment_seconds = seconds["moments"]
        if p == _CLUSTER_FEATURES:
            cluster_rate = n / moment_seconds
        lines.append(
            [
                f"{p:,}",
                f"{n:,}",
                format_seconds(moment_seconds),
                f"{n / moment_seconds:,.0f}",
                f"{rows.nbytes / moment_seconds / 1e9:.2f}",
                f"{n * p * (p + 1) / moment_seconds / 1e9:.1f}",
                format_seconds(seconds["solve"]),
            ]
        )
    header = ["p", "n", "moments", "rows a second", "GB/s", "billion operations a second", "solve"]
    return format_table(header, lines), cluster_rate


def measure_folds(effort: Effort) -> str:
    """Return a table of the time of an audit by the number of folds."""
    rows, labels = make_rows(20_000 if effort.quick else 200_000, 50, 3)
    pca = FairPCA(5, criterion="total_error").fit(rows, sensitive_features=labels)
    with threadpool_limits(1):
        runs = {
            str(folds): partial(audit, pca, rows, sensitive_features=labels, folds=folds)
            for folds in (None, *_FOLDS)
        }
        seconds = median_seconds(runs, effort.repetitions)
    without_folds = seconds.pop("None")
    lines = [["none", format_seconds(without_folds), ""]]
    for folds, with_folds in seconds.items():
        lines.append([folds, format_seconds(with_folds), f"{with_folds / without_folds:.2f}"])
    return format_table(["folds", "audit", "over none"], lines)


def _estimate_cluster(rate: float) -> str:
    """Describe how long a cluster takes if each of its cores reads `rate` rows a second."""
    n_bytes = _BYTES_OF_A_FLOAT * _CLUSTER_ROWS * _CLUSTER_FEATURES
    core_seconds = _CLUSTER_ROWS / rate
    cluster_seconds = core_seconds / _CLUSTER_CORES
    return (
        f"**A calculation, not a measurement**: {_CLUSTER_ROWS:,} rows of {_CLUSTER_FEATURES:,} "
        f"features are {n_bytes / 1e12:.0f} TB. At {rate:,.0f} rows a second and core the moments "
        f"take {core_seconds / 3600:.1f} core hours, which is {cluster_seconds / 60:.1f} "
        f"minutes of {_CLUSTER_CORES} cores, if their storage delivers "
        f"{n_bytes / cluster_seconds / 1e9:.0f} GB/s to all of them "
        "together. The solve is that of the table, on one machine."
    )
