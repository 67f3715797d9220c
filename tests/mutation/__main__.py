"""Put faults into a copy of the library, one at a time, and see whether a test fails.

``./run mutate --seed 0 --count 300`` draws that many mutants of the core and of the rest. The tests
that run the line of a mutant are tried, the fastest first, until one fails or they would take
longer than ``--seconds``. What survives is printed, and known equivalent mutants are counted apart.
"""

import argparse
import compileall
import os
import random
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue

from tests.mutation.mutants import Mutant, mutants_of
from tests.mutation.survey import Survey, survey

FOLDER = Path("build/mutation")
CORE = ("linalg", "moments", "problem", "certificates", "solvers", "metrics", "auditing")
EQUIVALENT = Path(__file__).with_name("equivalent.txt")
# A mutant may keep a test from ending.
_SLOWER, _AT_LEAST = 5.0, 120.0


def main() -> int:
    """Draw mutants, try them, and print what survived."""
    asked = _arguments()
    FOLDER.mkdir(parents=True, exist_ok=True)
    seen = survey(FOLDER.resolve(), asked.tests)
    drawn = _drawn(asked, seen)
    known = set(EQUIVALENT.read_text().splitlines()) if EQUIVALENT.exists() else set()
    copies: Queue[Path] = Queue()
    for number in range(asked.jobs):
        copies.put(_copy_of_sources(number))

    def tried(mutant: Mutant) -> bool:
        place = copies.get()
        try:
            return _is_killed(mutant, place, seen, asked.seconds)
        finally:
            copies.put(place)

    tally = {True: [0, 0, 0], False: [0, 0, 0]}
    with ThreadPoolExecutor(asked.jobs) as threads:
        for mutant, killed in zip(drawn, threads.map(tried, drawn), strict=True):
            column = 0 if killed else 1 if mutant.key in known else 2
            tally[_is_core(mutant.path)][column] += 1
            if column == 2:
                print(f"survived  {mutant.path}:{mutant.line}  {mutant.key}", flush=True)
    for is_core, (killed, equivalent, survived) in tally.items():
        share = killed / max(killed + survived, 1)
        print(
            f"{'core' if is_core else 'rest'}: {killed} killed, {survived} survived, "
            f"{equivalent} equivalent; {share:.1%} of those that are not equivalent killed"
        )
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./run mutate", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--count", type=int, default=300, help="mutants of the core, and of the rest"
    )
    parser.add_argument("--only", choices=["core", "rest"], help="one of the two")
    parser.add_argument("--under", default="", help="files whose path below src/fairspan begins so")
    parser.add_argument("--seconds", type=float, default=120.0, help="of tests for one mutant")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("tests", nargs="*", default=["tests"], help="tests to choose from")
    return parser.parse_args()


def _is_core(path: str) -> bool:
    return path.split("/")[1] in CORE


def _drawn(asked: argparse.Namespace, seen: Survey) -> list[Mutant]:
    """Mutants of lines that some test runs, drawn with a seed; the same for the same sources."""
    found = []
    for file in sorted(Path("src/fairspan").rglob("*.py")):
        path = file.relative_to("src").as_posix()
        if path.removeprefix("fairspan/").startswith(asked.under):
            found += mutants_of(path, file.read_text())
    rng = random.Random(asked.seed)
    drawn = []
    for is_core, name in ((True, "core"), (False, "rest")):
        own = [each for each in found if _is_core(each.path) == is_core]
        if asked.only in (None, name):
            drawn += rng.sample(own, min(asked.count, len(own)))
    return drawn


def _copy_of_sources(number: int) -> Path:
    place = (FOLDER / f"sources {number}").resolve()
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree("src", place)
    compileall.compile_dir(place, quiet=2)
    return place


def _is_killed(mutant: Mutant, place: Path, seen: Survey, most: float) -> bool:
    """Whether a test fails, or does not end."""
    chosen, seconds = [], 0.0
    for test in seen.of(mutant.path, mutant.line):
        seconds += seen.seconds[test]
        if seconds > most and chosen:
            break
        chosen.append(test)
    if not chosen:
        return False
    file = place / mutant.path
    text = file.read_text()
    # What was compiled before would be taken for the mutant.
    for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*"):
        compiled.unlink()
    file.write_text(mutant.text)
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *chosen]
    surroundings = {
        **os.environ,
        "PYTHONPATH": str(place),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    limit = _AT_LEAST + _SLOWER * seconds
    try:
        done = subprocess.run(
            command, env=surroundings, capture_output=True, timeout=limit, check=False
        )
        return done.returncode != 0
    except subprocess.TimeoutExpired:
        return True
    finally:
        file.write_text(text)


if __name__ == "__main__":
    sys.exit(main())
