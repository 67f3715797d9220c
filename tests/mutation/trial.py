"""One mutant tried: its tests run in a fork of a process that has imported the other libraries."""

import compileall
import gc
import importlib
import multiprocessing
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

from tests.mutation.mutants import Mutant
from tests.mutation.survey import Survey

# All but the library itself, of which each mutant has a copy of its own.
_LIBRARIES = (
    "array_api_compat.numpy",
    "hypothesis",
    "matplotlib.pyplot",
    "pandas",
    "pyarrow.parquet",
    "pytest",
    "scipy.linalg",
    "scipy.optimize",
    "scipy.sparse.linalg",
    "scipy.stats",
    "sklearn.datasets",
    "sklearn.linear_model",
    "sklearn.pipeline",
    "sklearn.preprocessing",
)
# Most faults show in the first few tests, which are collected sooner than all.
_FIRST_SECONDS = 4.0
# A mutant may keep a test from ending.
_SLOWER, _AT_LEAST = 5.0, 30.0
# What pytest returns if it does not know a test, and if it finds none.
_NOT_FOUND = (4, 5)
_FAILED = "failed"


def import_libraries() -> None:
    """What every trial would otherwise import anew."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    os.environ["MPLBACKEND"] = "agg"
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    for name in _LIBRARIES:
        importlib.import_module(name)
    # What is imported by now is not looked at again, by each fork, for what could be freed.
    gc.freeze()


@dataclass(frozen=True)
class Trial:
    """Where and how mutants are tried.

    Attributes
    ----------
    seen : Survey
        Which tests to choose from.
    folder : Path
        An empty folder, for a copy of the library and what its tests write.
    seconds : float
        For how long tests are tried on a mutant, by the time that they took in the survey.
    passing : dict of str to bool
        Whether a test that failed with a mutant passes without, for those seen so far.
    """

    seen: Survey
    folder: Path
    seconds: float
    passing: dict[str, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        shutil.copytree("src", self.folder / "src")
        compileall.compile_dir(self.folder, quiet=2)

    def of(self, mutant: Mutant) -> str:
        """What became of a mutant.

        Returns
        -------
        str
            "killed" if a test fails that passes without the mutant, "timed out" if the tests do
            not end, otherwise "survived".
        """
        tests = self.seen.of(mutant.path, mutant.line, mutant.around)
        until = list(accumulate(self.seen.seconds[test] for test in tests))
        n_first = sum(seconds <= _FIRST_SECONDS for seconds in until) or 1
        n_chosen = sum(seconds <= self.seconds for seconds in until) or 1
        for chosen in (tests[:n_first], tests[n_first:n_chosen]):
            while chosen:
                with self._changed(mutant):
                    end = self._end_of(chosen)
                    if end in _NOT_FOUND:
                        # The mutant changes how the tests are called.
                        chosen = sorted({test.partition("::")[0] for test in chosen})
                        end = self._end_of(chosen)
                failed = self._first_failure()
                if end in (None, 0):
                    break
                if not failed or self._passes_alone(failed):
                    return "killed"
                chosen = [
                    test for test in chosen if test not in (failed, failed.partition("::")[0])
                ]
            if chosen and end is None:
                return "timed out"
        return "survived"

    @contextmanager
    def _changed(self, mutant: Mutant) -> Iterator[None]:
        """Within this, the copy of the library has the change."""
        file = self.folder / "src" / mutant.path
        text, times = file.read_text(), file.stat()
        file.write_text(mutant.text)
        # What was compiled before would otherwise be taken for the mutant, if of the same size.
        os.utime(file, (0, 0))
        try:
            yield
        finally:
            file.write_text(text)
            os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))

    def _passes_alone(self, test: str) -> bool:
        """Whether a test passes without any mutant."""
        if test not in self.passing:
            self.passing[test] = self._end_of([test]) == 0
        return self.passing[test]

    def _first_failure(self) -> str:
        """The test that failed, or no text if pytest itself ended before one did."""
        file = self.folder / _FAILED
        return file.read_text() if file.exists() else ""

    def _end_of(self, tests: list[str]) -> int | None:
        """What pytest returns for these tests, or None if they do not end."""
        (self.folder / _FAILED).unlink(missing_ok=True)
        process = multiprocessing.get_context("fork").Process(
            target=_run, args=(tests, self.folder)
        )
        process.start()
        process.join(_AT_LEAST + _SLOWER * self.seconds)
        end = process.exitcode
        with suppress(ProcessLookupError):
            # Also what the tests left running.
            os.killpg(process.pid or 0, signal.SIGKILL)
        process.join()
        return end


@dataclass(frozen=True)
class _Failures:
    """A plugin of pytest that writes the name of the first test that fails."""

    file: Path

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Called by pytest for each part of each test."""
        if report.failed and not self.file.exists():
            self.file.write_text(report.nodeid)


def _run(tests: list[str], folder: Path) -> None:
    os.setsid()
    with (folder / "output").open("w") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    source = str(folder / "src")
    sys.path.insert(0, source)
    sys.dont_write_bytecode = True
    os.environ["PYTHONPATH"] = source
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    import pytest

    options = ["-x", "-q", "-p", "no:cacheprovider", f"--basetemp={folder / 'tmp'}"]
    os._exit(pytest.main([*options, *tests], plugins=[_Failures(folder / _FAILED)]))
