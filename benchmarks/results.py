"""What every benchmark shares: medians in turns, the machine in words, tables."""

import os
import platform
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TypeVar

# A run that takes more than this times the best of its kind takes part in fewer turns.
_SLOW = 5.0

_Found = TypeVar("_Found")


def seconds_of(runs: dict[str, Callable[[], object]], repetitions: int) -> dict[str, float]:
    """Median time of each run, taken in turns so that noise of the machine falls on all alike."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repetitions):
        for name, run in runs.items():
            times[name].append(timed(run)[0])
    return {name: median(each) for name, each in times.items()}


def timed(run: Callable[[], _Found]) -> tuple[float, _Found]:
    """Seconds of one run, and what it returned."""
    start = perf_counter()
    found = run()
    return perf_counter() - start, found


def seconds_and_turns(
    runs: dict[str, Callable[[], object]], repetitions: int, spared: Sequence[str] = ()
) -> tuple[dict[str, float], dict[str, int]]:
    """Median time of each run in turns, and how many times count, after a warm-up.

    Runs whose names are in `spared` are compared after the warm-up: of those more than five times
    slower than the fastest of them, the warm-up counts, and one turn more.
    """
    first = {name: timed(run)[0] for name, run in runs.items()}
    fastest = min((first[name] for name in spared), default=0.0)
    slow = {name for name in spared if first[name] > _SLOW * fastest}
    times = {name: [first[name]] if name in slow else [] for name in runs}
    for turn in range(repetitions):
        for name, run in runs.items():
            if turn == 0 or name not in slow:
                times[name].append(timed(run)[0])
    return {name: median(each) for name, each in times.items()}, {
        name: len(each) for name, each in times.items()
    }


def machine(packages: Sequence[str]) -> str:
    """Processor, cores, memory, and versions of the packages that are installed."""
    versions = ", ".join(f"{name} {found}" for name in packages if (found := _version(name)))
    return (
        f"{_processor()}, {os.cpu_count()} cores, {_memory():.0f} GB, "
        f"Python {platform.python_version()}, {versions}"
    )


def table_of(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [header, ["--"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def shown_seconds(seconds: float) -> str:
    """Three digits, in the unit that suits: ms below a second."""
    return f"{1000 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def announce(what: str) -> None:
    """Say on stderr what is being measured, as some of it takes minutes."""
    print(f"{datetime.now():%H:%M:%S} {what}", file=sys.stderr, flush=True)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _memory() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
