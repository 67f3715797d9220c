"""One mutant tried: its tests run in a fork of a process that has imported the other libraries."""

import compileall
import gc
import importlib
import multiprocessing
import os
import shutil
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

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
    """

    seen: Survey
    folder: Path
    seconds: float

    def __post_init__(self) -> None:
        shutil.copytree("src", self.folder / "src")
        compileall.compile_dir(self.folder, quiet=2)

    def of(self, mutant: Mutant) -> str:
        """Whether the mutant is "killed", as a test fails or does not end, or "survived"."""
        tests = self.seen.of(mutant.path, mutant.line, mutant.around)
        until = list(accumulate(self.seen.seconds[test] for test in tests))
        n_first = sum(seconds <= _FIRST_SECONDS for seconds in until) or 1
        n_chosen = sum(seconds <= self.seconds for seconds in until) or 1
        file = self.folder / "src" / mutant.path
        text, times = file.read_text(), file.stat()
        file.write_text(mutant.text)
        # What was compiled before would otherwise be taken for the mutant, if of the same size.
        os.utime(file, (0, 0))
        try:
            for chosen in (tests[:n_first], tests[n_first:n_chosen]):
                if chosen and self._fails(chosen):
                    return "killed"
        finally:
            file.write_text(text)
            os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
        return "survived"

    def _fails(self, tests: list[str]) -> bool:
        process = multiprocessing.get_context("fork").Process(
            target=_run, args=(tests, self.folder)
        )
        process.start()
        process.join(_AT_LEAST + _SLOWER * self.seconds)
        ended = process.exitcode is not None
        with suppress(ProcessLookupError):
            # Also what the tests left running.
            os.killpg(process.pid or 0, signal.SIGKILL)
        process.join()
        return not ended or process.exitcode != 0


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
    os._exit(pytest.main([*options, *tests]))
