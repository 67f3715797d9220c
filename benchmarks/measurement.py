"""Shared helpers: run times, a description of the machine, and tables in Markdown."""

import os
import platform
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TypeVar

# A run that takes more than this multiple of the fastest time is repeated less often.
_SLOW = 5.0

_Result = TypeVar("_Result")


def median_seconds(runs: Mapping[str, Callable[[], object]], repetitions: int) -> dict[str, float]:
    """Return the median time of each run.

    The runs take turns, so that a slower moment of the machine affects all of them alike.
    """
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repetitions):
        for name, run in runs.items():
            seconds, _result = time_call(run)
            times[name].append(seconds)
    return {name: median(seconds) for name, seconds in times.items()}


def time_call(run: Callable[[], _Result]) -> tuple[float, _Result]:
    """Call a function; return the seconds it took and its result."""
    start = perf_counter()
    result = run()
    return perf_counter() - start, result


def median_seconds_and_counts(
    runs: Mapping[str, Callable[[], object]],
    repetitions: int,
    may_be_cut: Collection[str] = (),
) -> tuple[dict[str, float], dict[str, int]]:
    """Return the median time of each run, and the number of times that the median is of.

    Every run is called once to warm up, then `repetitions` times in turns. A run of `may_be_cut`
    whose first call took over five times as long as the fastest of `may_be_cut` is called once
    more only, and its first call counts.
    """
    first = {name: time_call(run)[0] for name, run in runs.items()}
    fastest = min((first[name] for name in may_be_cut), default=0.0)
    slow = {name for name in may_be_cut if first[name] > _SLOW * fastest}
    times = {name: [first[name]] if name in slow else [] for name in runs}
    for turn in range(repetitions):
        for name, run in runs.items():
            if turn == 0 or name not in slow:
                times[name].append(time_call(run)[0])
    medians = {name: median(seconds) for name, seconds in times.items()}
    counts = {name: len(seconds) for name, seconds in times.items()}
    return medians, counts


def describe_machine(packages: Sequence[str]) -> str:
    """Name the processor, cores, memory, and the versions of those packages that are installed."""
    installed = [(name, _version(name)) for name in packages]
    versions = ", ".join(f"{name} {number}" for name, number in installed if number)
    return (
        f"{_processor()}, {os.cpu_count()} cores, {_memory_in_gb():.0f} GB, "
        f"Python {platform.python_version()}, {versions}"
    )


def format_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [header, ["--"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def format_seconds(seconds: float) -> str:
    """Return three significant digits with a unit: ms below one second, s above."""
    return f"{1000 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def log_progress(step: str) -> None:
    """Print the current step with the time to stderr, as some steps take minutes."""
    print(f"{datetime.now():%H:%M:%S} {step}", file=sys.stderr, flush=True)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _memory_in_gb() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
