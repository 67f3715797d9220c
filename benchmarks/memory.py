"""Peak memory of a fit on rows in memory, beyond what the process held before it."""

import gc
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.decomposition import PCA

from benchmarks.effort import Effort, SkippedError
from benchmarks.headline import Case, cases
from benchmarks.isolation import alone
from benchmarks.report import Measured
from benchmarks.results import announce, table_of
from benchmarks.rows import missing
from fairspan import FairPCA

FAIR = "fairspan"
# The solvers of scikit-learn that are worth a look beside ours.
_PLAIN = ("auto", "arpack")
_NAMES = ("Faces (LFW)", "wide")
_GOALS = {"Faces (LFW)": "X + 200 MB", "wide": "process under 1,000 MB"}


@dataclass(frozen=True)
class Peak:
    """Megabytes: the rows, what a fit adds at its peak, and the whole process then."""

    rows: float
    added: float
    whole: float


def measure(effort: Effort) -> Measured:
    """Every fit in a fresh process."""
    lines, left_out = [], []
    for case in (each for each in cases(effort) if each.name in _NAMES):
        for name in (FAIR, *_PLAIN[: 1 if effort.quick else None]):
            announce(f"memory, {case.name}, {name}")
            try:
                lines.append(_line(case, name, alone(effort.limit, peak_of, case, name)))
            except SkippedError as error:
                left_out.append(f"- {case.name}, {name}: {error}.")
    explained = (
        "Resident memory in MB, each fit in a fresh process that has imported its library, fitted "
        "a toy and loaded X: the peak during the fit less what was held just before, and the "
        "whole process at that peak."
    )
    table = table_of(["case", "by", "X", "added by the fit", "whole process", "goal"], lines)
    notes = ["Not measured:\n\n" + "\n".join(left_out)] if left_out else []
    return Measured("\n\n".join([explained, table, *notes]))


def peak_of(case: Case, name: str) -> Peak:
    """Fit once in this process, which should be a fresh one.

    Raises
    ------
    SkippedError
        The data set is not there, or the system does not tell.
    """
    if reason := missing(case.file):
        raise SkippedError(reason)
    toy = np.random.default_rng(0).standard_normal((20, 3))
    if name == FAIR:
        FairPCA(1).fit(toy, sensitive_features=np.arange(20) % 2)
    else:
        PCA(1, svd_solver=name).fit(toy)
    X, labels = case.rows()
    gc.collect()
    _forget_peak()
    before = _status("VmRSS")
    if name == FAIR:
        FairPCA(case.d, criterion=case.criterion).fit(X, sensitive_features=labels)
    else:
        PCA(case.d, svd_solver=name, random_state=0).fit(X)
    peak = _status("VmHWM")
    return Peak(X.nbytes / 1e6, peak - before, peak)


def _line(case: Case, name: str, peak: Peak) -> list[str]:
    by = name if name == FAIR else f"PCA, {name}"
    goal = _GOALS[case.name] if name == FAIR else ""
    figures = [f"{each:,.0f}" for each in (peak.rows, peak.added, peak.whole)]
    return [case.name, by, *figures, goal]


def _forget_peak() -> None:
    """Start the kernel's record of the peak anew."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError as error:
        raise SkippedError("only Linux tells a process its peak memory") from error


def _status(field: str) -> float:
    """A field of this process in MB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024 / 1e6
    raise SkippedError(f"the system does not tell {field}")
