"""Cases in which users wait: commands, unusual rows, many groups, a restriction, parallel fits."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from sklearn.datasets import load_diabetes

from benchmarks.effort import Effort, SkippedError
from benchmarks.isolation import run_in_process
from benchmarks.measurement import (
    format_seconds,
    format_table,
    log_progress,
    median_seconds,
    time_call,
)
from benchmarks.pca_comparison import pca_runs
from benchmarks.report import SectionContent
from benchmarks.rows import (
    DATA_FOLDER,
    LabeledRows,
    explain_missing,
    load_faces_by_gender,
    load_table,
    make_rows,
)
from fairspan import FairPCA, GroupMoments, MeanParity

_IMPORTS = "import numpy, scipy.linalg, pyarrow"
_CRITERIA = ("minimax_loss", "minimax_error", "error_gap", "total_error", "nash_welfare")
_PARALLEL_FITS = 8
# Options for the file of Adult: 81 features, standardized, five groups.
_ADULT_OPTIONS = ["--group", "meta__race", "--standardize", "-d", "10"]
for _pattern in ("meta__*", "group__*", "label__*"):
    _ADULT_OPTIONS += ["--exclude", _pattern]


@dataclass(frozen=True)
class Comparison:
    """Times of a case and of a reference, run in turns.

    Attributes
    ----------
    case, reference : str
        Their names.
    seconds, reference_seconds : float
        Medians.
    goal : float
        Largest wanted ratio of the two.
    """

    case: str
    reference: str
    seconds: float
    reference_seconds: float
    goal: float

    @property
    def line(self) -> list[str]:
        """Cells of a line of the table."""
        ratio = self.seconds / self.reference_seconds
        return [
            self.case,
            format_seconds(self.seconds),
            self.reference,
            format_seconds(self.reference_seconds),
            f"**{ratio:.2f}**",
            f"{self.goal:g}",
            "yes" if ratio <= self.goal else "no",
        ]


def measure(effort: Effort) -> SectionContent:
    """Measure each case in its own process."""
    comparisons, skipped = [], []
    for name, measure_case in _cases(effort).items():
        log_progress(name)
        try:
            comparisons += run_in_process(effort.limit, measure_case)
        except SkippedError as error:
            skipped.append(f"- {name}: {error}.")
    header = ["case", "median", "beside", "median", "ratio", "goal", "reached"]
    parts = [
        f"Medians of up to {effort.repetitions} turns. *PCA* is the fastest of scikit-learn's "
        "solvers on the same rows.",
        format_table(header, [comparison.line for comparison in comparisons]),
    ]
    log_progress("many groups")
    parts += [_MANY_GROUPS, run_in_process(effort.limit, many_groups, effort)]
    if skipped:
        parts.append("Not measured:\n\n" + "\n".join(skipped))
    return SectionContent("\n\n".join(parts))


def _cases(effort: Effort) -> dict[str, Callable[[], list[Comparison]]]:
    turns = effort.repetitions
    lfw = partial(load_faces_by_gender, 2000 if effort.quick else None)
    wide = 2000 if effort.quick else 20_000
    rows = 5000 if effort.quick else 50_000
    return {
        "commands": partial(compare_commands, turns),
        "Adult by sex": partial(
            compare_fit_with_pca,
            "Adult by sex, d = 5",
            partial(load_real_table, "adult_train", "sex"),
            5,
            1.3,
            turns,
        ),
        "32 groups": partial(
            compare_fit_with_pca,
            "32 groups, 50 features, d = 5",
            partial(make_rows, rows, 50, 32),
            5,
            10,
            turns,
        ),
        "float32": partial(
            compare_fit_with_pca,
            f"500 x {wide:,} float32, d = 10",
            partial(make_float32_rows, wide),
            10,
            1.5,
            turns,
        ),
        "noise": partial(
            compare_fit_with_pca,
            f"500 x {wide:,} pure noise, d = 10",
            partial(make_noise, wide),
            10,
            1.5,
            turns,
        ),
        "mean parity": partial(compare_mean_parity, lfw, turns),
        "threads": partial(compare_parallel_fits, turns),
    }


def load_real_table(name: str, group: str) -> LabeledRows:
    """Load standardized rows of a data set.

    Raises
    ------
    SkippedError
        The data set is not in the data folder.
    """
    if reason := explain_missing(f"{name}.parquet"):
        raise SkippedError(reason)
    return load_table(name, group)


def make_float32_rows(n_features: int) -> LabeledRows:
    """Draw 500 synthetic rows in single precision."""
    X, labels = make_rows(500, n_features)
    return X.astype(np.float32), labels


def make_noise(n_features: int) -> LabeledRows:
    """Draw 500 rows of independent noise."""
    rng = np.random.default_rng(0)
    return rng.standard_normal((500, n_features)), rng.integers(0, 2, 500)


def compare_fit_with_pca(
    case: str, load: Callable[[], LabeledRows], d: int, goal: float, turns: int
) -> list[Comparison]:
    """Compare a fair fit with the fastest PCA solver of scikit-learn."""
    X, labels = load()
    fit = partial(FairPCA(d).fit, X, sensitive_features=labels)
    runs = {"fair": fit} | pca_runs(X, d)
    for run in runs.values():
        run()
    seconds = median_seconds(runs, turns)
    fair_seconds = seconds.pop("fair")
    fastest = min(seconds, key=lambda name: seconds[name])
    return [Comparison(case, f"PCA, {fastest}", fair_seconds, seconds[fastest], goal)]


def compare_mean_parity(load: Callable[[], LabeledRows], turns: int) -> list[Comparison]:
    """Compare fits to faces with and without equal group means, from moments and from rows."""
    if reason := explain_missing("lfw.npz"):
        raise SkippedError(reason)
    X, labels = load()
    moments = GroupMoments.from_rows(X, labels)
    unrestricted = FairPCA(20)
    restricted = FairPCA(20, restriction=MeanParity())
    runs: dict[str, Callable[[], object]] = {
        "unrestricted, moments": lambda: unrestricted.fit_moments(moments),
        "restricted, moments": lambda: restricted.fit_moments(moments),
        "unrestricted, rows": lambda: unrestricted.fit(X, sensitive_features=labels),
        "restricted, rows": lambda: restricted.fit(X, sensitive_features=labels),
    }
    for run in runs.values():
        run()
    seconds = median_seconds(runs, turns)
    return [
        Comparison(
            f"Faces with `MeanParity()`, d = 20, from {kind}",
            "without",
            seconds[f"restricted, {kind}"],
            seconds[f"unrestricted, {kind}"],
            1.3,
        )
        for kind in ("moments", "rows")
    ]


def compare_parallel_fits(turns: int) -> list[Comparison]:
    """Compare the processor time of eight fits in eight threads with that of one after another."""
    tables = [make_rows(20_000, 100, seed=seed) for seed in range(_PARALLEL_FITS)]

    def fit(rows: LabeledRows) -> object:
        return FairPCA(10).fit(rows[0], sensitive_features=rows[1])

    def fit_in_threads() -> None:
        with ThreadPoolExecutor(_PARALLEL_FITS) as pool:
            list(pool.map(fit, tables))

    def fit_in_turn() -> None:
        for rows in tables:
            fit(rows)

    fit_in_turn()  # warm-up
    in_threads, in_turn = [], []
    for _ in range(turns):
        start = process_time()
        fit_in_threads()
        middle = process_time()
        fit_in_turn()
        in_threads.append(middle - start)
        in_turn.append(process_time() - middle)
    return [
        Comparison(
            "eight fits in eight threads, processor time",
            "in turn",
            median(in_threads),
            median(in_turn),
            goal=1.1,
        )
    ]


def compare_commands(turns: int) -> list[Comparison]:
    """Compare audits and a report, run as commands, with each other and with the imports."""
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        diabetes = _write_diabetes(folder)
        adult = DATA_FOLDER / "adult_train.parquet"
        program = _find_command()
        audit = [program, "audit", str(diabetes), "--group", "sex", "-d", "3"]
        runs = {"audit": audit, "imports": [sys.executable, "-c", _IMPORTS]}
        # Case, reference, their runs, and the goal.
        pairs = [("`fairspan audit`, 442 rows", "imports alone", "audit", "imports", 1.4)]
        if not explain_missing(adult.name):
            arguments = [str(adult), *_ADULT_OPTIONS]
            output = ["-o", str(folder / "page.html")]
            runs["folds"] = [program, "audit", *arguments]
            runs["no folds"] = [program, "audit", *arguments, "--folds", "none"]
            runs["report"] = [program, "report", *arguments, *output]
            pairs += [
                ("`fairspan audit`, Adult by race, 10 folds", "without", "folds", "no folds", 2.0),
                ("`fairspan report`, Adult by race", "`audit`", "report", "folds", 2.5),
            ]
        calls = {name: partial(_run_command, command) for name, command in runs.items()}
        for call in calls.values():
            call()
        seconds = median_seconds(calls, turns)
    return [
        Comparison(case, reference, seconds[run], seconds[reference_run], goal)
        for case, reference, run, reference_run, goal in pairs
    ]


def _run_command(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True)


def _find_command() -> str:
    """Return the path of the command `fairspan` in the folder of this Python."""
    command = shutil.which("fairspan", path=str(Path(sys.executable).parent))
    if command is None:
        raise SkippedError("the command fairspan is not in the folder of Python")
    return command


def _write_diabetes(folder: Path) -> Path:
    """Write the table of diabetes of scikit-learn, 442 rows, with the column `sex` as a and b."""
    X, _ = load_diabetes(return_X_y=True)
    columns = {f"x{j}": X[:, j] for j in range(X.shape[1]) if j != 1}
    columns["sex"] = np.where(X[:, 1] > 0, "a", "b")
    parquet.write_table(pa.table(columns), folder / "diabetes.parquet")
    return folder / "diabetes.parquet"


_MANY_GROUPS = """**Many groups**: from moments of synthetic rows, d = 5, default `tol`, in seconds.
The goals are 2 s for 100 groups and 30 s for 1,000."""


def many_groups(effort: Effort) -> str:
    """Return a table of the seconds of a fit by the number of groups and the criterion."""
    lines = []
    for k in (20, 50) if effort.quick else (100, 1000):
        for p in (30, 50):
            moments = GroupMoments.from_rows(*make_rows(40 * k, p, k), max_groups=k)
            cells = []
            for criterion in _CRITERIA:
                model = FairPCA(5, criterion=criterion)
                seconds, _ = time_call(partial(model.fit_moments, moments))
                cells.append(f"{format_seconds(seconds)}, {model.solution_.status.value}")
            lines.append([f"{k:,}", str(p), *cells])
    return format_table(["groups", "p", *(f"`{name}`" for name in _CRITERIA)], lines)
