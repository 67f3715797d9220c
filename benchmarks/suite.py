"""The benchmarks by name, and a function that runs some of them and writes the results."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from benchmarks.changes import Measurement, describe_changes
from benchmarks.effort import Effort, SkippedError
from benchmarks.measurement import log_progress
from benchmarks.report import (
    RESULTS,
    SectionContent,
    format_section,
    read_sections,
    write_figures,
    write_sections,
)

# Load per core above which a note says that times are unreliable.
_BUSY_LOAD = 0.4


@dataclass(frozen=True)
class Benchmark:
    """One section of the results, measured by the module of the same name.

    Attributes
    ----------
    name : str
        Name of a module whose function `measure` takes an Effort and returns a SectionContent.
    title : str
    """

    name: str
    title: str

    def measure(self, effort: Effort) -> SectionContent:
        """Run the benchmark.

        Raises
        ------
        SkippedError
            The benchmark cannot run on this machine.
        """
        try:
            module = import_module(f"benchmarks.{self.name}")
        except ModuleNotFoundError as error:
            if str(error.name).startswith(("fairspan", "benchmarks")):
                raise
            raise SkippedError(f"it needs {error.name}, which is not installed") from error
        measure: Callable[[Effort], SectionContent] = module.measure
        return measure(effort)


SUITE = (
    Benchmark("headline", "Fair PCA beside plain PCA"),
    Benchmark("papers", "The papers' algorithms"),
    Benchmark("worst_case", "The worst case of several groups"),
    Benchmark("two_tables", "Two tables"),
    Benchmark("conic", "The semidefinite program"),
    Benchmark("packages", "Other packages"),
    Benchmark("hiding", "Hiding the group"),
    Benchmark("watching", "Watching beside NannyML"),
    Benchmark("memory", "Peak memory"),
    Benchmark("traced_memory", "Memory beside the table"),
    Benchmark("limits", "Where the time goes"),
    Benchmark("scaling", "Scaling"),
    Benchmark("audits", "Audits beside fits"),
    Benchmark("growth", "One core, folds, and a cluster"),
    Benchmark("waiting", "Where a person waits"),
    Benchmark("sources", "Rows in files"),
    Benchmark("incomplete", "Rows with missing cells"),
    Benchmark("structure", "Structure of the code"),
    Benchmark("gpu", "Rows on a GPU"),
)


def run(selected: Sequence[Benchmark], effort: Effort, results: Path | None) -> None:
    """Run benchmarks, print their sections, and write them to a results file unless it is None.

    Sections of benchmarks that are not selected, or that cannot run here, stay as they were. Ratios
    that changed since the results in this folder are printed, but not written.
    """
    previous = read_sections(RESULTS)
    sections = {} if results is None else read_sections(results)
    load_note = describe_load()
    if load_note:
        log_progress(load_note)
    for benchmark in selected:
        log_progress(benchmark.title)
        try:
            content = benchmark.measure(effort)
        except SkippedError as error:
            body = f"Skipped: {error}."
            sections.setdefault(benchmark.title, body)
        else:
            body = format_section(content, load_note)
            sections[benchmark.title] = body
            if results is not None:
                write_figures(content, results)
        print(f"## {benchmark.title}\n\n{body}\n", flush=True)
        if benchmark.title in previous:
            before = Measurement.from_section(previous[benchmark.title])
            changes = describe_changes(before, Measurement.from_section(body))
            print(f"{changes}\n" if changes else "", end="", flush=True)
        if results is not None:
            titles = [benchmark.title for benchmark in SUITE if benchmark.title in sections]
            write_sections({title: sections[title] for title in titles}, results)


def describe_load() -> str:
    """Return a note if other programs keep this machine busy; an empty string if not."""
    load = os.getloadavg()[0]
    cores = os.cpu_count() or 1
    if load < _BUSY_LOAD * cores:
        return ""
    return (
        f"The machine was busy when this began (load {load:.1f} on {cores} cores): threads that "
        "wait for each other make even ratios unreliable."
    )
