"""Which tests run each line of the library, and how long each test takes."""

import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from coverage import CoverageData

_DURATION = re.compile(r"^([\d.]+)s (?:call|setup) +(\S.*)$", re.M)
# Each has to be read before its first test can run.
_MOST_FILES = 30
# What needs a browser, an environment without the extras, or an hour.
_LEFT_OUT = ("tests/browser", "tests/without_extras", "tests/torture")
# Clusters do not start in a fork.
_NAMED = "not spark and not dask"
_IN_EVERY_PATH = {"tests", "test", "fairspan", "py", "init", "of", "and"}


@dataclass(frozen=True)
class Survey:
    """What was seen in one run of the tests.

    Attributes
    ----------
    tests : dict of str to dict of int to set of str
        For each file of the library, the tests that run each of its lines.
    seconds : dict of str to float
        How long each test takes.
    """

    tests: dict[str, dict[int, set[str]]]
    seconds: dict[str, float]

    def of(self, path: str, line: int, around: range) -> list[str]:
        """The tests that run a line, or the lines around it if it runs on import.

        A file that runs on import alone is tried with all tests.
        They are taken in turn from up to thirty files of tests, the fastest of each first; files
        that are named like the file of the line come first, and more often.
        """
        lines = self.tests.get(path, {})
        found = lines.get(line) or {test for near in around for test in lines.get(near, ())}
        found = found or set(self.seconds)
        by_file = defaultdict(list)
        for test in sorted(found, key=lambda test: (self.seconds[test], test)):
            by_file[test.partition("::")[0]].append(test)
        likeness = {file: len(_words(file) & _words(path)) for file in by_file}
        files = sorted(by_file, key=lambda file: (-likeness[file], self.seconds[by_file[file][0]]))
        order = {}
        for file in files[:_MOST_FILES]:
            for turn, test in enumerate(by_file[file], start=1):
                order[test] = turn / (1 + likeness[file]) ** 2
        return sorted(order, key=order.__getitem__)


def _words(path: str) -> set[str]:
    return set(re.split(r"[/_.]", path)) - _IN_EVERY_PATH


def survey(folder: Path, choice: list[str], *, with_long: bool = False) -> Survey:
    """Run the tests with coverage, unless neither they nor the library have changed since."""
    data, times, known = folder / "coverage", folder / "seconds.json", folder / "surveyed"
    options = [] if with_long else ["-m", "not long"]
    wanted = _hash_of_sources([*options, *choice])
    if not known.exists() or known.read_text() != wanted:
        times.write_text(json.dumps(_run(data, [*options, *choice])))
        known.write_text(wanted)
    seconds = json.loads(times.read_text())
    measured = CoverageData(str(data))
    measured.read()
    tests = {}
    for file in measured.measured_files():
        of_line = measured.contexts_by_lineno(file).items()
        tests[file.split("/src/")[-1]] = {
            line: {name for name in map(_test_of, contexts) if name in seconds}
            for line, contexts in of_line
        }
    return Survey(tests, seconds)


def _test_of(context: str) -> str:
    return context.rpartition("|")[0]


def _run(data: Path, choice: list[str]) -> dict[str, float]:
    """Run the tests, one at a time, so that none is slowed down by another."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += ["--cov=fairspan", "--cov-context=test", "--cov-report="]
    command += ["--durations=0", "--durations-min=0", "-k", _NAMED, *choice]
    command += [f"--ignore={folder}" for folder in _LEFT_OUT]
    surroundings = {**os.environ, "COVERAGE_FILE": str(data), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, env=surroundings, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"The tests fail without any mutant:\n{done.stdout[-3000:]}{done.stderr[-1000:]}")
    seconds: dict[str, float] = defaultdict(float)
    for time, name in _DURATION.findall(done.stdout):
        seconds[name] += float(time)
    return seconds


def _hash_of_sources(choice: list[str]) -> str:
    found = blake2b(repr(choice).encode())
    for folder in ("src", "tests"):
        for file in sorted(Path(folder).rglob("*.py")):
            if file.is_relative_to("tests/mutation"):
                continue
            found.update(str(file).encode() + file.read_bytes())
    return found.hexdigest()
