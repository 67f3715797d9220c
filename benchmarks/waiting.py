"""Where a person waits: commands, unusual rows, many groups, a restriction, fits side by side."""

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
from benchmarks.isolation import alone
from benchmarks.racing import plain_runs
from benchmarks.report import Measured
from benchmarks.results import announce, seconds_of, shown_seconds, table_of
from benchmarks.rows import FOLDER, Labeled, faces, made, missing, table
from fairspan import FairPCA, GroupMoments, MeanParity

_IMPORTS = "import numpy, scipy.linalg, pyarrow"
_CRITERIA = ("minimax_loss", "minimax_error", "error_gap", "total_error", "nash_welfare")
_FITS = 8
# 81 features, standardized, five groups.
_OTHERS = ("meta__*", "group__*", "label__*")
_ADULT = ["--group", "meta__race", "--standardize", "-d", "10"]
_ADULT += [word for pattern in _OTHERS for word in ("--exclude", pattern)]


@dataclass(frozen=True)
class Wait:
    """Two medians of the same turns.

    Attributes
    ----------
    case, rival : str
    seconds, beside : float
        Of the case and of its rival.
    goal : float
        For the ratio.
    """

    case: str
    rival: str
    seconds: float
    beside: float
    goal: float

    @property
    def line(self) -> list[str]:
        """Cells of the table."""
        ratio = self.seconds / self.beside
        return [
            self.case,
            shown_seconds(self.seconds),
            self.rival,
            shown_seconds(self.beside),
            f"**{ratio:.2f}**",
            f"{self.goal:g}",
            "yes" if ratio <= self.goal else "no",
        ]


def measure(effort: Effort) -> Measured:
    """Each case in a process of its own."""
    waits, left_out = [], []
    for name, case in _cases(effort).items():
        announce(name)
        try:
            waits += alone(effort.limit, case)
        except SkippedError as error:
            left_out.append(f"- {name}: {error}.")
    header = ["case", "median", "beside", "median", "ratio", "goal", "reached"]
    parts = [
        f"Medians of up to {effort.repetitions} turns. *PCA* is the fastest of scikit-learn's "
        "solvers on the same rows.",
        table_of(header, [wait.line for wait in waits]),
    ]
    announce("many groups")
    parts += [_MANY_GROUPS, alone(effort.limit, many_groups, effort)]
    if left_out:
        parts.append("Not measured:\n\n" + "\n".join(left_out))
    return Measured("\n\n".join(parts))


def _cases(effort: Effort) -> dict[str, Callable[[], list[Wait]]]:
    turns = effort.repetitions
    lfw = partial(faces, 2000 if effort.quick else None)
    wide = 2000 if effort.quick else 20_000
    rows = 5000 if effort.quick else 50_000
    return {
        "commands": partial(commands, turns),
        "Adult by sex": partial(
            beside_pca, "Adult by sex, d = 5", partial(real, "adult_train", "sex"), 5, 1.3, turns
        ),
        "32 groups": partial(
            beside_pca, "32 groups, 50 features, d = 5", partial(made, rows, 50, 32), 5, 10, turns
        ),
        "float32": partial(
            beside_pca, f"500 x {wide:,} float32, d = 10", partial(single, wide), 10, 1.5, turns
        ),
        "noise": partial(
            beside_pca, f"500 x {wide:,} pure noise, d = 10", partial(noise, wide), 10, 1.5, turns
        ),
        "mean parity": partial(mean_parity, lfw, turns),
        "threads": partial(side_by_side, turns),
    }


def real(name: str, group: str) -> Labeled:
    """Standardized rows of a data set.

    Raises
    ------
    SkippedError
        It is not there.
    """
    if reason := missing(f"{name}.parquet"):
        raise SkippedError(reason)
    return table(name, group)


def single(n_features: int) -> Labeled:
    """Few made rows in single precision."""
    X, labels = made(500, n_features)
    return X.astype(np.float32), labels


def noise(n_features: int) -> Labeled:
    """Few rows without any structure."""
    rng = np.random.default_rng(0)
    return rng.standard_normal((500, n_features)), rng.integers(0, 2, 500)


def beside_pca(
    case: str, rows: Callable[[], Labeled], d: int, goal: float, turns: int
) -> list[Wait]:
    """A fair fit over the fastest plain PCA."""
    X, labels = rows()
    fit = partial(FairPCA(d).fit, X, sensitive_features=labels)
    runs = {"fair": fit} | plain_runs(X, d)
    for run in runs.values():
        run()
    seconds = seconds_of(runs, turns)
    best = min((name for name in seconds if name != "fair"), key=lambda name: seconds[name])
    return [Wait(case, f"PCA, {best}", seconds["fair"], seconds[best], goal)]


def mean_parity(rows: Callable[[], Labeled], turns: int) -> list[Wait]:
    """Faces with equal group means over the same fit without, from moments and from rows."""
    if reason := missing("lfw.npz"):
        raise SkippedError(reason)
    X, labels = rows()
    moments = GroupMoments.from_rows(X, labels)
    free, equal = FairPCA(20), FairPCA(20, restriction=MeanParity())
    runs: dict[str, Callable[[], object]] = {
        "free, moments": lambda: free.fit_moments(moments),
        "equal, moments": lambda: equal.fit_moments(moments),
        "free, rows": lambda: free.fit(X, sensitive_features=labels),
        "equal, rows": lambda: equal.fit(X, sensitive_features=labels),
    }
    for run in runs.values():
        run()
    seconds = seconds_of(runs, turns)
    return [
        Wait(
            f"Faces with `MeanParity()`, d = 20, from {kind}",
            "without",
            seconds[f"equal, {kind}"],
            seconds[f"free, {kind}"],
            1.3,
        )
        for kind in ("moments", "rows")
    ]


def side_by_side(turns: int) -> list[Wait]:
    """Processor time of eight fits in eight threads over one after the other."""
    tables = [made(20_000, 100, seed=seed) for seed in range(_FITS)]

    def fit(rows: Labeled) -> object:
        return FairPCA(10).fit(rows[0], sensitive_features=rows[1])

    def in_threads() -> None:
        with ThreadPoolExecutor(_FITS) as pool:
            list(pool.map(fit, tables))

    def in_turn() -> None:
        for rows in tables:
            fit(rows)

    in_turn()
    times: list[tuple[float, float]] = []
    for _ in range(turns):
        before = process_time()
        in_threads()
        between = process_time()
        in_turn()
        times.append((between - before, process_time() - between))
    threads, turn = (median(each) for each in zip(*times, strict=True))
    return [Wait("eight fits in eight threads, processor time", "in turn", threads, turn, 1.1)]


def commands(turns: int) -> list[Wait]:
    """Whole programs: audits, and a report."""
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        small, adult = _diabetes(folder), FOLDER / "adult_train.parquet"
        program = _program()
        audit = [program, "audit", str(small), "--group", "sex", "-d", "3"]
        runs = {"audit": audit, "imports": [sys.executable, "-c", _IMPORTS]}
        pairs = [("`fairspan audit`, 442 rows", "imports alone", "audit", "imports", 1.4)]
        if not missing(adult.name):
            settings = [str(adult), *_ADULT]
            page = ["-o", str(folder / "page.html")]
            runs["folds"] = [program, "audit", *settings]
            runs["whole"] = [program, "audit", *settings, "--folds", "none"]
            runs["report"] = [program, "report", *settings, *page]
            pairs += [
                ("`fairspan audit`, Adult by race, 10 folds", "without", "folds", "whole", 2.0),
                ("`fairspan report`, Adult by race", "`audit`", "report", "folds", 2.5),
            ]
        calls = {name: partial(_finished, line) for name, line in runs.items()}
        for call in calls.values():
            call()
        seconds = seconds_of(calls, turns)
    return [
        Wait(case, rival, seconds[ours], seconds[other], goal)
        for case, rival, ours, other, goal in pairs
    ]


def _finished(line: list[str]) -> None:
    subprocess.run(line, check=True, capture_output=True)


def _program() -> str:
    found = shutil.which("fairspan", path=str(Path(sys.executable).parent))
    if found is None:
        raise SkippedError("the program fairspan is not beside Python")
    return found


def _diabetes(folder: Path) -> Path:
    X, _ = load_diabetes(return_X_y=True)
    columns = {f"x{j}": X[:, j] for j in range(X.shape[1]) if j != 1}
    columns["sex"] = np.where(X[:, 1] > 0, "a", "b")
    parquet.write_table(pa.table(columns), folder / "diabetes.parquet")
    return folder / "diabetes.parquet"


_MANY_GROUPS = """**Many groups**: from moments of made rows, d = 5, default `tol`, in seconds.
The goals are 2 s for 100 groups and 30 s for 1,000."""


def many_groups(effort: Effort) -> str:
    """Seconds by criterion."""
    lines = []
    for k in (20, 50) if effort.quick else (100, 1000):
        for p in (30, 50):
            moments = GroupMoments.from_rows(*made(40 * k, p, k), max_groups=k)
            cells = []
            for criterion in _CRITERIA:
                model = FairPCA(5, criterion=criterion)
                seconds = seconds_of({"": partial(model.fit_moments, moments)}, 1)[""]
                cells.append(f"{shown_seconds(seconds)}, {model.solution_.status.value}")
            lines.append([f"{k:,}", str(p), *cells])
    return table_of(["groups", "p", *(f"`{name}`" for name in _CRITERIA)], lines)
