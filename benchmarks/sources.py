"""Moments of the same rows from files, beside NumPy on rows in memory, and Dask.

    ./run bench --only sources
    python -m benchmarks.sources [--rows 5000000] [--features 50] [--folder DIR]

Writes the rows as Parquet (20 files) unless the folder holds them already. Ratios within one run
are what counts; GB/s are of float64 values.
"""

import argparse
import logging
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
from joblib.externals.loky import get_reusable_executor
from pyarrow import parquet
from threadpoolctl import threadpool_limits

from benchmarks.effort import Effort
from benchmarks.isolation import process
from benchmarks.report import Measured
from benchmarks.results import announce, machine, seconds_of, table_of
from fairspan import GroupMoments
from fairspan.moments.group_moments import compute_group_moments
from fairspan.rows.files.file_rows import FileRows

FILES, GROUPS = 20, ("a", "b", "c")
PACKAGES = ("fairspan", "numpy", "pyarrow", "dask")
# It has no types.
distributed: Any = import_module("distributed")
dd: Any = import_module("dask.dataframe")

_PEAK = """
import re, sys
from fairspan import GroupMoments
GroupMoments.from_rows(sys.argv[1], "g")
print(int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1e6)
"""


def write_rows(folder: Path, n: int, p: int) -> None:
    """Correlated rows with large means, three groups, in 20 files."""
    rng = np.random.default_rng(0)
    for number in range(FILES):
        size = n // FILES
        X = rng.standard_normal((size, p)).cumsum(axis=1) * 0.3 + 5
        columns = {f"x{j}": X[:, j] for j in range(p)}
        columns["g"] = rng.choice(GROUPS, size, p=[0.6, 0.3, 0.1])
        parquet.write_table(pa.table(columns), folder / f"part-{number:02}.parquet")


def bare_read(folder: Path) -> None:
    """Decode everything, and do nothing with it."""
    for file in sorted(folder.glob("*.parquet")):
        with parquet.ParquetFile(file, pre_buffer=False) as opened:
            for _ in opened.iter_batches(20_000):
                pass


def in_memory(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """All rows as an array, and their groups."""
    table = parquet.read_table(folder)
    labels = table.column("g").to_numpy()
    X = np.empty((len(table), table.num_columns - 1))
    for j in range(X.shape[1]):
        X[:, j] = table.column(f"x{j}").to_numpy()
    return X, labels


# What the process that holds rows in memory works on.
HELD: list[np.ndarray] = []


def hold(folder: Path) -> int:
    """Read all rows into this process; return their size in bytes."""
    HELD[:] = in_memory(folder)
    return HELD[0].nbytes


def numpy_moments() -> list[np.ndarray]:
    """What a user would write: each group's rows, centered, and their product."""
    X, labels = HELD
    scatters = []
    with threadpool_limits(1):
        for group in GROUPS:
            rows = X[labels == group]
            rows -= rows.mean(axis=0)
            scatters.append(rows.T @ rows)
    return scatters


def moments_in_memory() -> GroupMoments:
    """Our moments of the rows that this process holds."""
    with threadpool_limits(1):
        return GroupMoments.from_rows(*HELD)


def moments_of_files(rows: FileRows) -> GroupMoments:
    """Our moments of the files."""
    with threadpool_limits(1):
        return compute_group_moments(rows)


def end_workers() -> None:
    """End joblib's workers, for which a process of multiprocessing waits at its end: five minutes,
    after which idle ones end by themselves."""
    get_reusable_executor().shutdown()


def seconds_on_dask(folder: Path, repetitions: int) -> float:
    """On a cluster that is there before, as it is where people use one; apart from the other runs,
    as its scheduler works in this process."""
    cluster = distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        dashboard_address="127.0.0.1:0",
        silence_logs=logging.CRITICAL,
    )
    with cluster, distributed.Client(cluster):
        people = dd.read_parquet(folder)
        GroupMoments.from_rows(people, "g")  # imports
        return seconds_of({"dask": lambda: GroupMoments.from_rows(people, "g")}, repetitions)[
            "dask"
        ]


def measure(effort: Effort) -> Measured:
    """Write rows to a folder that is removed afterwards, and compare."""
    n, p = (200_000 if effort.quick else 5_000_000), 50
    with TemporaryDirectory() as temporary:
        announce("writing Parquet files")
        write_rows(Path(temporary), n, p)
        text = compare(Path(temporary), min(effort.repetitions, 5))
    return Measured(text, PACKAGES)


def compare(folder: Path, repetitions: int) -> str:
    """All runs, as a table."""
    rows = FileRows.open(folder, ["g"])
    shape = f"{rows.n_rows:,} x {rows.n_features} float64, {len(GROUPS)} groups, {FILES} files."
    by_two = replace(rows, n_jobs=2)
    with process() as memory, process() as files:
        n_bytes = memory.submit(hold, folder).result()
        expected = memory.submit(numpy_moments).result()
        moments = files.submit(moments_of_files, rows).result()
        for scatter, wanted in zip(moments.scatters, expected, strict=True):
            assert np.linalg.norm(scatter - wanted) <= 1e-9 * np.linalg.norm(wanted)
        runs: dict[str, Callable[[], object]] = {
            "bare read (pyarrow)": lambda: files.submit(bare_read, folder).result(),
            "NumPy, rows in memory": lambda: memory.submit(numpy_moments).result(),
            "fairspan, rows in memory": lambda: memory.submit(moments_in_memory).result(),
            "fairspan, files (one process)": lambda: files.submit(moments_of_files, rows).result(),
            "fairspan, files, --jobs 2": lambda: files.submit(moments_of_files, by_two).result(),
        }
        seconds = seconds_of(runs, repetitions)
        files.submit(end_workers).result()
    seconds["fairspan, files, Dask (two workers)"] = seconds_on_dask(folder, repetitions)
    gigabytes = n_bytes / 1e9
    reference = seconds["bare read (pyarrow)"] + seconds["NumPy, rows in memory"]
    stream = seconds["fairspan, files (one process)"]
    lines = [
        [name, f"{each:.2f}", f"{gigabytes / each:.2f}", f"{each / reference:.2f}"]
        for name, each in seconds.items()
    ]
    table = table_of(["what", "seconds", "GB/s", "over read + NumPy"], lines)
    dask = seconds["fairspan, files, Dask (two workers)"] / stream
    peak = subprocess.run(
        [sys.executable, "-c", _PEAK, str(folder)], check=True, capture_output=True, text=True
    ).stdout.strip()
    return (
        f"{shape}\n\n{table}\n\nDask over one process: {dask:.2f}. "
        f"Peak memory of the process that reads files: {float(peak):.2f} GB."
    )


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--features", type=int, default=50)
    parser.add_argument("--folder", type=Path, help="where the rows are, or are to be written")
    parser.add_argument("--repetitions", type=int, default=5)
    options = parser.parse_args()
    with TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if not any(folder.glob("*.parquet")):
            write_rows(folder, options.rows, options.features)
        print(f"{machine(PACKAGES)}\n\n{compare(folder, options.repetitions)}")


if __name__ == "__main__":
    main()
