"""Moments of the same rows from files, compared with NumPy on rows in memory and with Dask.

    ./run bench --only sources
    python -m benchmarks.sources [--rows 5000000] [--features 50] [--folder DIR]

Writes the rows as 20 Parquet files, unless the folder holds them already. Only ratios within one
run can be compared; GB/s are of float64 values.
"""

import argparse
import logging
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
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
from benchmarks.isolation import single_process_pool
from benchmarks.measurement import describe_machine, format_table, log_progress, median_seconds
from benchmarks.report import SectionContent
from fairspan import GroupMoments
from fairspan.moments.group_moments import compute_group_moments
from fairspan.rows.files.file_rows import FileRows

FILES = 20
GROUPS = ("a", "b", "c")
PACKAGES = ("fairspan", "numpy", "pyarrow", "dask")
# Dask has no type annotations.
distributed: Any = import_module("distributed")
dd: Any = import_module("dask.dataframe")

# A program that prints the peak memory of reading a folder, in GB.
_PEAK_PROGRAM = """
import re, sys
from fairspan import GroupMoments
GroupMoments.from_rows(sys.argv[1], "g")
print(int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1e6)
"""


def write_rows(folder: Path, n: int, p: int) -> None:
    """Write n correlated rows of p features with large means and three groups to 20 files."""
    rng = np.random.default_rng(0)
    for number in range(FILES):
        size = n // FILES
        X = rng.standard_normal((size, p)).cumsum(axis=1) * 0.3 + 5
        columns = {f"x{j}": X[:, j] for j in range(p)}
        columns["g"] = rng.choice(GROUPS, size, p=[0.6, 0.3, 0.1])
        parquet.write_table(pa.table(columns), folder / f"part-{number:02}.parquet")


def read_only(folder: Path) -> None:
    """Decode all rows without computing anything."""
    for path in sorted(folder.glob("*.parquet")):
        with parquet.ParquetFile(path, pre_buffer=False) as file:
            for _ in file.iter_batches(20_000):
                pass


def load_rows(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return all rows as an array (n, p), and the group of each."""
    table = parquet.read_table(folder)
    labels = table.column("g").to_numpy()
    X = np.empty((len(table), table.num_columns - 1))
    for j in range(X.shape[1]):
        X[:, j] = table.column(f"x{j}").to_numpy()
    return X, labels


# Rows and groups of the process that holds them in memory, which is measured call by call.
ROWS_IN_MEMORY: list[np.ndarray] = []


def hold_rows(folder: Path) -> int:
    """Load all rows into this process; return their size in bytes."""
    ROWS_IN_MEMORY[:] = load_rows(folder)
    return ROWS_IN_MEMORY[0].nbytes


def numpy_moments() -> list[np.ndarray]:
    """Compute scatter matrices as a user would: center each group's rows, and multiply."""
    X, labels = ROWS_IN_MEMORY
    scatters = []
    with threadpool_limits(1):
        for group in GROUPS:
            rows = X[labels == group]
            rows -= rows.mean(axis=0)
            scatters.append(rows.T @ rows)
    return scatters


def moments_in_memory() -> GroupMoments:
    """Compute the moments of the rows that this process holds, by fairspan."""
    with threadpool_limits(1):
        return GroupMoments.from_rows(*ROWS_IN_MEMORY)


def moments_of_files(rows: FileRows) -> GroupMoments:
    """Compute the moments of rows in files, by fairspan."""
    with threadpool_limits(1):
        return compute_group_moments(rows)


def end_workers() -> None:
    """End the workers of joblib.

    A process of multiprocessing waits for them before it ends: five minutes, after which idle
    workers end by themselves.
    """
    get_reusable_executor().shutdown()


def time_dask(folder: Path, repetitions: int) -> float:
    """Return the median seconds of the moments on a Dask cluster that is already running.

    Not in turns with the other runs, because its scheduler works in this process.
    """
    cluster = distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        dashboard_address="127.0.0.1:0",
        silence_logs=logging.CRITICAL,
    )
    with cluster, distributed.Client(cluster):
        table = dd.read_parquet(folder)
        run = partial(GroupMoments.from_rows, table, "g")
        run()  # a first call imports modules
        return median_seconds({"dask": run}, repetitions)["dask"]


def measure(effort: Effort) -> SectionContent:
    """Write rows to a temporary folder, and compare the ways to compute their moments."""
    n = 200_000 if effort.quick else 5_000_000
    with TemporaryDirectory() as temporary:
        log_progress("writing Parquet files")
        write_rows(Path(temporary), n, 50)
        text = compare(Path(temporary), min(effort.repetitions, 5))
    return SectionContent(text, PACKAGES)


def compare(folder: Path, repetitions: int) -> str:
    """Return a table of the times of all runs."""
    rows = FileRows.open(folder, ["g"])
    shape = f"{rows.n_rows:,} x {rows.n_features} float64, {len(GROUPS)} groups, {FILES} files."
    rows_for_two_jobs = replace(rows, n_jobs=2)
    with single_process_pool() as memory, single_process_pool() as files:
        n_bytes = memory.submit(hold_rows, folder).result()
        expected = memory.submit(numpy_moments).result()
        moments = files.submit(moments_of_files, rows).result()
        for scatter, numpy_scatter in zip(moments.scatters, expected, strict=True):
            error = np.linalg.norm(scatter - numpy_scatter)
            assert error <= 1e-9 * np.linalg.norm(numpy_scatter)
        runs: dict[str, Callable[[], object]] = {
            "bare read (pyarrow)": lambda: files.submit(read_only, folder).result(),
            "NumPy, rows in memory": lambda: memory.submit(numpy_moments).result(),
            "fairspan, rows in memory": lambda: memory.submit(moments_in_memory).result(),
            "fairspan, files (one process)": lambda: files.submit(moments_of_files, rows).result(),
            "fairspan, files, --jobs 2": lambda: files.submit(
                moments_of_files, rows_for_two_jobs
            ).result(),
        }
        seconds = median_seconds(runs, repetitions)
        files.submit(end_workers).result()
    dask_seconds = time_dask(folder, repetitions)
    seconds["fairspan, files, Dask (two workers)"] = dask_seconds
    gigabytes = n_bytes / 1e9
    # A user without fairspan reads the rows and then computes with NumPy.
    reference = seconds["bare read (pyarrow)"] + seconds["NumPy, rows in memory"]
    lines = [
        [name, f"{time:.2f}", f"{gigabytes / time:.2f}", f"{time / reference:.2f}"]
        for name, time in seconds.items()
    ]
    table = format_table(["what", "seconds", "GB/s", "over read + NumPy"], lines)
    dask_ratio = dask_seconds / seconds["fairspan, files (one process)"]
    peak = subprocess.run(
        [sys.executable, "-c", _PEAK_PROGRAM, str(folder)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    return (
        f"{shape}\n\n{table}\n\nDask over one process: {dask_ratio:.2f}. "
        f"Peak memory of the process that reads files: {float(peak):.2f} GB."
    )


def main() -> None:
    """Parse the arguments, measure, and print the table."""
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
        print(f"{describe_machine(PACKAGES)}\n\n{compare(folder, options.repetitions)}")


if __name__ == "__main__":
    main()
