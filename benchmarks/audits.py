"""Audits compared with the fits of the models that they audit, in processor time of a thread."""

import resource
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from threadpoolctl import threadpool_limits

from benchmarks.effort import Effort, SkippedError
from benchmarks.isolation import run_in_process
from benchmarks.measurement import format_seconds, format_table, log_progress
from benchmarks.report import SectionContent
from benchmarks.rows import LabeledRows, explain_missing, load_table, make_embeddings
from fairspan import FairPCA, audit

# The least of this many runs counts: other programs only ever add to the time.
_TURNS = 3


@dataclass(frozen=True)
class _Case:
    """Rows to fit and to audit.

    Attributes
    ----------
    title : str
    load : callable
        Returns rows and labels.
    n_components : int
    file : str or None
        File of the data folder that it needs.
    """

    title: str
    load: Callable[[], LabeledRows]
    n_components: int
    file: str | None = None


def _cases(effort: Effort) -> list[_Case]:
    n_rows = 2_000 if effort.quick else 20_000
    embeddings = [
        _Case(
            f"embeddings, {n_rows:,} x 768, {k} groups",
            partial(make_embeddings, n_rows, 768, k),
            10,
        )
        for k in (2, 4)
    ]
    tables = [
        _Case(f"{name} by {group}", partial(load_table, file, group), d, file=f"{file}.parquet")
        for name, file, group, d in (
            ("Adult", "adult_train", "sex", 5),
            ("Adult", "adult_train", "race", 5),
            ("German credit", "german_credit", "sex", 5),
        )
    ]
    return embeddings + tables


def measure(effort: Effort) -> SectionContent:
    """Measure each case in its own process."""
    lines, skipped = [], []
    for case in _cases(effort):
        log_progress(case.title)
        try:
            lines.append(run_in_process(effort.limit, compare_with_fit, case))
        except SkippedError as error:
            skipped.append(f"- {case.title}: {error}.")
    header = ["case", "d", "fit", "audit", "audit over fit"]
    parts = [
        "A fit with minimax loss, and the audit of it and of ordinary PCA on the same rows, with "
        f"ten folds. Processor time of one thread, the least of {_TURNS} runs in turns.",
        format_table(header, lines),
    ]
    if skipped:
        parts.append("Not measured:\n\n" + "\n".join(skipped))
    return SectionContent("\n\n".join(parts))


def compare_with_fit(case: _Case) -> list[str]:
    """Return the cells of a line of the table.

    Raises
    ------
    SkippedError
        The data set is not in the data folder.
    """
    if reason := explain_missing(case.file):
        raise SkippedError(reason)
    rows, labels = case.load()
    estimator = FairPCA(case.n_components)
    fit = partial(estimator.fit, rows, sensitive_features=labels)
    # Audits the estimator as it was fitted by the run before.
    runs: dict[str, Callable[[], object]] = {
        "fit": fit,
        "audit": partial(audit, estimator, rows, labels),
    }
    with threadpool_limits(1):
        seconds = least_processor_seconds(runs)
    return [
        case.title,
        str(case.n_components),
        format_seconds(seconds["fit"]),
        format_seconds(seconds["audit"]),
        f"{seconds['audit'] / seconds['fit']:.1f}",
    ]


def least_processor_seconds(runs: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Return the least processor time of each run, without that of the system, in turns."""
    least = dict.fromkeys(runs, float("inf"))
    for _ in range(_TURNS):
        for name, run in runs.items():
            start = _user_seconds()
            run()
            least[name] = min(least[name], _user_seconds() - start)
    return least


def _user_seconds() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime
