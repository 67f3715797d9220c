"""Run the benchmarks: ``./run bench [--quick] [--only NAME] [--output FILE]``."""

import argparse
from pathlib import Path

from benchmarks.effort import FULL, QUICK
from benchmarks.report import RESULTS
from benchmarks.suite import SUITE, run


def main() -> None:
    """Parse the arguments, run the selected benchmarks, and write the results."""
    parser = argparse.ArgumentParser(
        prog="./run bench", description="Measure, print tables, and write benchmarks/RESULTS.md."
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="fewer rows and repetitions; writes nothing unless --output",
    )
    names = [benchmark.name for benchmark in SUITE]
    parser.add_argument(
        "--only",
        action="append",
        choices=names,
        metavar="NAME",
        help=f"one of {', '.join(names)}; may be repeated; other sections stay as they are",
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="another file of results")
    options = parser.parse_args()
    selected = [
        benchmark for benchmark in SUITE if options.only is None or benchmark.name in options.only
    ]
    results = options.output or (None if options.quick else RESULTS)
    run(selected, QUICK if options.quick else FULL, results)


if __name__ == "__main__":
    main()
