"""The benchmarks by name, and how some or all of them are run and written down."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from benchmarks.effort import Effort, SkippedError
from benchmarks.report import Measured, section_of, sections_in, write_figures, write_sections
from benchmarks.results import announce

# Load per core above which times are not to be trusted.
_BUSY = 0.4


@dataclass(frozen=True)
class Benchmark:
    """One section of the results, measured by the module of the same name.

    Attributes
    ----------
    name : str
        Of a module with a function `measure` from Effort to Measured.
    title : str
    """

    name: str
    title: str

    def measure(self, effort: Effort) -> Measured:
        """Run it.

        Raises
        ------
        SkippedError
            It cannot run here.
        """
        try:
            run: Callable[[Effort], Measured] = import_module(f"benchmarks.{self.name}").measure
        except ModuleNotFoundError as error:
            if str(error.name).startswith(("fairspan", "benchmarks")):
                raise
            raise SkippedError(f"it needs {error.name}, which is not installed") from error
        return run(effort)


SUITE = (
    Benchmark("headline", "Fair PCA beside plain PCA"),
    Benchmark("papers", "The papers' algorithms"),
    Benchmark("worst_case", "The worst case of several groups"),
    Benchmark("conic", "The semidefinite program"),
    Benchmark("packages", "Other packages"),
    Benchmark("hiding", "Hiding the group"),
    Benchmark("memory", "Peak memory"),
    Benchmark("scaling", "Scaling"),
    Benchmark("growth", "One core, folds, and a cluster"),
    Benchmark("waiting", "Where a person waits"),
    Benchmark("sources", "Rows in files"),
    Benchmark("incomplete", "Rows with missing cells"),
    Benchmark("structure", "Structure of the code"),
    Benchmark("gpu", "Rows on a GPU"),
)


def run(chosen: Sequence[Benchmark], effort: Effort, results: Path | None) -> None:
    """Measure, print, and write to a file of results if one is named.

    Sections of benchmarks that were not chosen, or that cannot run here, stay as they were.
    """
    before, busy = {} if results is None else sections_in(results), busy_note()
    if busy:
        announce(busy)
    sections = {each.title: before[each.title] for each in SUITE if each.title in before}
    for benchmark in chosen:
        announce(benchmark.title)
        try:
            measured = benchmark.measure(effort)
        except SkippedError as error:
            body = f"Skipped: {error}."
            sections.setdefault(benchmark.title, body)
        else:
            body = section_of(measured, busy)
            sections[benchmark.title] = body
            if results is not None:
                write_figures(measured, results)
        print(f"## {benchmark.title}\n\n{body}\n", flush=True)
        if results is not None:
            ordered = {each.title: sections[each.title] for each in SUITE if each.title in sections}
            write_sections(ordered, results)


def busy_note() -> str:
    """What to say where other programs keep this machine busy; empty where they do not."""
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load < _BUSY * cores:
        return ""
    return (
        f"The machine was busy when this began (load {load:.1f} on {cores} cores): threads that "
        "wait for each other make even ratios unreliable."
    )
