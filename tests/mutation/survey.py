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

_DURATION = re.compile(r"^([\d.]+)s call +(\S.*)$", re.M)


@dataclass(frozen=True)
class Survey:
    """What was seen in one run of the tests.

    Attributes
    ----------
    tests : dict of (path, line) to list of str
        The tests that run a line, the fastest first.
    seconds : dict of str to float
        How long each test takes.
    """

    tests: dict[tuple[str, int], list[str]]
    seconds: dict[str, float]

    def of(self, path: str, line: int) -> list[str]:
        """The tests that run a line; those that run its file, where it runs on import."""
        own = self.tests.get((path, line))
        if own:
            return own
        of_file = (tests for (other, _), tests in self.tests.items() if other == path)
        return sorted({test for tests in of_file for test in tests}, key=self.seconds.__getitem__)


def survey(folder: Path, choice: list[str]) -> Survey:
    """Run the tests with coverage, unless neither they nor the library have changed since."""
    data, times, known = folder / "coverage", folder / "seconds.json", folder / "surveyed"
    wanted = _hash_of_sources(choice)
    if not known.exists() or known.read_text() != wanted:
        seconds = _run(data, choice)
        times.write_text(json.dumps(seconds))
        known.write_text(wanted)
    seconds = json.loads(times.read_text())
    measured = CoverageData(str(data))
    measured.read()
    tests: dict[tuple[str, int], list[str]] = defaultdict(list)
    for file in measured.measured_files():
        path = file.split("/src/")[-1]
        for line, contexts in measured.contexts_by_lineno(file).items():
            names = {context.partition("|")[0] for context in contexts}
            own = [name for name in names if name in seconds]
            tests[path, line] = sorted(own, key=lambda name: seconds[name])
    return Survey(dict(tests), seconds)


def _run(data: Path, choice: list[str]) -> dict[str, float]:
    command = [sys.executable, "-m", "pytest", "-n", "auto", "--dist", "worksteal", "-q"]
    command += ["--cov=fairspan", "--cov-context=test", "--cov-report="]
    command += ["--durations=0", "--durations-min=0", "-m", "", "-k", "not spark", *choice]
    surroundings = {**os.environ, "COVERAGE_FILE": str(data), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, env=surroundings, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"The tests fail without any mutant:\n{done.stdout[-3000:]}{done.stderr[-1000:]}")
    return {name: float(seconds) for seconds, name in _DURATION.findall(done.stdout)}


def _hash_of_sources(choice: list[str]) -> str:
    found = blake2b(repr(choice).encode())
    for folder in ("src", "tests"):
        for file in sorted(Path(folder).rglob("*.py")):
            found.update(str(file).encode() + file.read_bytes())
    return found.hexdigest()
