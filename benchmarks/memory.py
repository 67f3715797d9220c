"""Peak memory of a fit on rows in memory, above what the process held before it."""

import gc
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.decomposition import PCA

from benchmarks.effort import Effort, SkippedError
from benchmarks.headline import Case, cases
from benchmarks.isolation import run_in_process
from benchmarks.measurement import format_table, log_progress
from benchmarks.report import SectionContent
from benchmarks.rows import explain_missing
from fairspan import FairPCA

FAIRSPAN = "fairspan"
# Solvers of scikit-learn to compare with; a quick run takes the first only.
_PCA_SOLVERS = ("auto", "arpack")
_GOALS = {"Faces (LFW)": "X + 200 MB", "wide": "process under 1,000 MB"}


@dataclass(frozen=True)
class Peak:
    """Memory in megabytes.

    Attributes
    ----------
    rows : float
        Size of the rows.
    added : float
        Memory at the peak of the fit less that just before.
    process : float
        Memory of the process at the peak.
    """

    rows: float
    added: float
    process: float


def measure(effort: Effort) -> SectionContent:
    """Measure every fit in a new process."""
    lines, skipped = [], []
    solvers = _PCA_SOLVERS[:1] if effort.quick else _PCA_SOLVERS
    for case in (case for case in cases(effort) if case.name in _GOALS):
        for method in (FAIRSPAN, *solvers):
            log_progress(f"memory, {case.name}, {method}")
            try:
                peak = run_in_process(effort.limit, measure_peak, case, method)
            except SkippedError as error:
                skipped.append(f"- {case.name}, {method}: {error}.")
            else:
                lines.append(_format_line(case, method, peak))
    explanation = (
        "Resident memory in MB, each fit in a fresh process that has imported its library, fitted "
        "a toy and loaded X: the peak during the fit less what was held just before, and the "
        "whole process at that peak."
    )
    table = format_table(["case", "by", "X", "added by the fit", "whole process", "goal"], lines)
    notes = ["Not measured:\n\n" + "\n".join(skipped)] if skipped else []
    return SectionContent("\n\n".join([explanation, table, *notes]))


def measure_peak(case: Case, method: str) -> Peak:
    """Fit once in this process, which should be a new one.

    Parameters
    ----------
    case : Case
    method : str
        "fairspan", or a solver of scikit-learn's PCA.

    Raises
    ------
    SkippedError
        The data set is not in the data folder, or the system does not report the peak.
    """
    if reason := explain_missing(case.file):
        raise SkippedError(reason)
    # A first fit allocates what every later fit uses again: threads and their buffers.
    toy = np.random.default_rng(0).standard_normal((20, 3))
    if method == FAIRSPAN:
        FairPCA(1).fit(toy, sensitive_features=np.arange(20) % 2)
    else:
        PCA(1, svd_solver=method).fit(toy)
    X, labels = case.load()
    gc.collect()
    _reset_peak()
    before = _process_status_in_mb("VmRSS")
    if method == FAIRSPAN:
        FairPCA(case.d, criterion=case.criterion).fit(X, sensitive_features=labels)
    else:
        PCA(case.d, svd_solver=method, random_state=0).fit(X)
    peak = _process_status_in_mb("VmHWM")
    return Peak(X.nbytes / 1e6, peak - before, peak)


def _format_line(case: Case, method: str, peak: Peak) -> list[str]:
    figures = [f"{megabytes:,.0f}" for megabytes in (peak.rows, peak.added, peak.process)]
    if method == FAIRSPAN:
        return [case.name, method, *figures, _GOALS[case.name]]
    return [case.name, f"PCA, {method}", *figures, ""]


def _reset_peak() -> None:
    """Make the kernel set the recorded peak of this process to its present memory."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError as error:
        raise SkippedError("only Linux tells a process its peak memory") from error


def _process_status_in_mb(field: str) -> float:
    """Return a field of /proc/self/status, which is in units of 1024 bytes, in megabytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024 / 1e6
    raise SkippedError(f"the system does not tell {field}")
