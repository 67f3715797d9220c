"""Put faults into a copy of the library, one at a time, and see whether a test fails.

``./run mutate --seed 0 --count 300`` draws that many mutants of the core and of the rest. Tests
that run the line of a mutant are tried until one fails or they would take longer than
``--seconds``. What survives is printed. Those listed in equivalent.txt are counted apart.
"""

import argparse
import random
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.mutation.mutants import Mutant, mutants_of
from tests.mutation.survey import survey
from tests.mutation.trial import Trial, import_libraries

FOLDER = Path("build/mutation")
CORE = ("linalg", "moments", "problem", "certificates", "solvers", "metrics", "auditing")
# Tests of these need Java, or a cluster of processes.
UNTRIED = ("fairspan/rows/dask/", "fairspan/rows/spark/")
EQUIVALENT = Path(__file__).with_name("equivalent.txt")


def main() -> int:
    """Draw mutants, try them one after the other, and print what survived."""
    asked = _arguments()
    FOLDER.mkdir(parents=True, exist_ok=True)
    seen = survey(FOLDER.resolve(), asked.tests, with_long=asked.long)
    import_libraries()
    mutants = list(_all_mutants(asked.under))
    equivalent = _known_equivalent()
    if not asked.under:
        for key in sorted(equivalent - {mutant.key for mutant in mutants}):
            print(f"listed, but not found  {key}", flush=True)
    with TemporaryDirectory() as folder:
        trial = Trial(seen, Path(folder), asked.seconds)
        for name in ("core", "rest"):
            if asked.only in (None, name):
                _try(
                    _drawn(asked, [each for each in mutants if _is_of(each, name)]),
                    equivalent,
                    trial,
                    name,
                )
    return 0


def _try(mutants: list[Mutant], equivalent: set[str], trial: Trial, name: str) -> None:
    """Try mutants one after the other, and print what survived and how many did."""
    tally = {"killed": 0, "timed out": 0, "survived": 0, "equivalent": 0}
    # An interruption ends the trials, and tells what was found so far.
    with suppress(KeyboardInterrupt):
        for mutant in mutants:
            found = "equivalent" if mutant.key in equivalent else trial.of(mutant)
            tally[found] += 1
            if found in ("survived", "timed out"):
                print(f"{found}  {mutant.key}  (line {mutant.line})", flush=True)
    found_out = tally["killed"] + tally["timed out"]
    share = found_out / max(found_out + tally["survived"], 1)
    counts = ", ".join(f"{count} {found}" for found, count in tally.items())
    print(f"{name}: {counts}; {share:.1%} of those that are not equivalent found")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./run mutate", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--count", type=int, default=300, help="mutants of the core, and of the rest"
    )
    parser.add_argument("--skip", type=int, default=0, help="so many of them, tried before")
    parser.add_argument("--only", choices=["core", "rest"], help="one of the two")
    parser.add_argument("--again", type=Path, help="what survived according to this output")
    parser.add_argument("--under", default="", help="files whose path below src/fairspan begins so")
    parser.add_argument("--seconds", type=float, default=40.0, help="of tests for one mutant")
    parser.add_argument("--long", action="store_true", help="choose from the long tests as well")
    parser.add_argument("tests", nargs="*", default=["tests"], help="tests to choose from")
    return parser.parse_args()


def _known_equivalent() -> set[str]:
    """Keys of mutants that no test can kill; the reason for each is on the line below it."""
    return {line for line in EQUIVALENT.read_text().splitlines() if line.startswith("fairspan/")}


def _drawn(asked: argparse.Namespace, mutants: list[Mutant]) -> list[Mutant]:
    """As many of the mutants as asked for, drawn with a seed; the same for the same sources."""
    if asked.again is not None:
        text = asked.again.read_text()
        return [mutant for mutant in mutants if f"  {mutant.key}  (" in text]
    random.Random(asked.seed).shuffle(mutants)
    return mutants[asked.skip : asked.count]


def _all_mutants(under: str) -> Iterator[Mutant]:
    for file in sorted(Path("src/fairspan").rglob("*.py")):
        path = file.relative_to("src").as_posix()
        wanted = path.removeprefix("fairspan/").startswith(under)
        if wanted and not path.startswith(UNTRIED):
            yield from mutants_of(path, file.read_text())


def _is_of(mutant: Mutant, name: str) -> bool:
    return (mutant.path.split("/")[1] in CORE) == (name == "core")


if __name__ == "__main__":
    sys.exit(main())
