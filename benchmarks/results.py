"""What every benchmark shares: the machine in words, a table, and the file of results."""

import os
import platform
from collections.abc import Callable, Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path
from statistics import median
from time import perf_counter

RESULTS = Path(__file__).with_name("RESULTS.md")


def seconds_of(runs: dict[str, Callable[[], object]], repetitions: int) -> dict[str, float]:
    """Median time of each run, taken in turns so that noise of the machine falls on all alike."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repetitions):
        for name, run in runs.items():
            start = perf_counter()
            run()
            times[name].append(perf_counter() - start)
    return {name: median(each) for name, each in times.items()}


def machine(packages: Sequence[str]) -> str:
    """Processor, cores, and versions."""
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    return f"{_processor()}, {os.cpu_count()} cores, Python {platform.python_version()}, {versions}"


def table_of(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [header, ["--"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def append(title: str, text: str, path: Path = RESULTS) -> None:
    """Add a dated section to the file of results."""
    before = path.read_text() if path.exists() else "# Measured\n"
    path.write_text(f"{before.rstrip()}\n\n## {title}, {date.today()}\n\n{text.rstrip()}\n")


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
