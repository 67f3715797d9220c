"""Draw small faults of the source, and record which of them the tests notice.

``python -m tests.mutants --seed 55 --n 150`` writes build/mutants/SUITE.csv. All faults are planted
at once in a copy of the source, each behind a switch. One run with all switches off records which
tests reach which fault. Each fault is then switched on in a process that is forked after the tests
were collected, and that runs the tests that reach it, the cheapest first, until one fails. A fault
in what is evaluated at import is switched on before anything is imported.
"""

import argparse
import contextlib
import csv
import importlib
import itertools
import json
import os
import signal
import sys
import traceback
from bisect import bisect
from collections import Counter
from pathlib import Path

import pytest

from . import faults
from .recorder import Recorder

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "mutants"
COPY = WORK / "src"
OUTCOME = WORK / "outcome.json"
TERMINAL = os.fdopen(os.dup(1), "w")
# Options of pytest, and what it collects.
SUITES = {
    "test": (["-m", "not long and not slow", "--ignore", "tests/docs"], ["tests"]),
    "ci": (
        ["-m", "not long", "--verify-all", "--doctest-modules"],
        ["tests", "reproduction", str(COPY)],
    ),
}
_OPTIONS = ["-q", "-p", "no:cacheprovider", "--basetemp", str(WORK / "tmp")]
# Tests in one range of CPU seconds run file by file, so that fixtures of a file are made once.
_COST_RANGES = (0.03, 0.3, 2.0)
# A test that takes so many times its CPU seconds, and so many more, has noticed a fault.
_MAX_SLOWDOWN = 10
_GRACE_SECONDS = 15


class Hunter:
    """A pytest plugin that runs tests in a new process for each fault until one fails.

    `hunts` holds the CPU seconds of the tests of each fault, by name, in the order of running.
    """

    def __init__(self, hunts, note):
        self.hunts = hunts
        self.note = note
        self.failed_in = ""

    def pytest_runtestloop(self, session):
        if session.testsfailed:
            return True  # some tests were not collected
        sys.modules["verified_fits"].failures()  # forgets the fits that were made at collection
        items = {item.nodeid: item for item in session.items}
        for fault, seconds in self.hunts.items():
            tests = [items[name] for name in seconds if name in items]
            self.note(fault, in_child(lambda: self._run(fault, tests, seconds)))  # noqa: B023
        return True

    def pytest_runtest_logreport(self, report):
        if report.failed and not self.failed_in:
            self.failed_in = report.when

    def _run(self, fault, items, seconds):
        switch_on(fault)
        for n_tests, (item, following) in enumerate(itertools.pairwise([*items, None]), start=1):
            limit = _MAX_SLOWDOWN * seconds[item.nodeid] + _GRACE_SECONDS
            signal.setitimer(signal.ITIMER_PROF, limit)
            # A test that waits for something computes nothing; on a busy machine others do so too.
            signal.setitimer(signal.ITIMER_REAL, _MAX_SLOWDOWN * limit)
            write_outcome(n_tests, item.nodeid, "time or crash")
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self.failed_in:
                write_outcome(n_tests, item.nodeid, self.failed_in)
                return
        write_outcome(len(items), "", "")


def write_outcome(n_tests, test, killed):
    OUTCOME.write_text(json.dumps({"n_tests": n_tests, "test": test, "killed": killed}))


def switch_on(fault):
    os.environ["FAIRSPAN_FAULT"] = fault  # for processes that tests start
    importlib.import_module("_fault_switch").active = fault


def in_child(function):
    """Run a function in a forked process; return the content of OUTCOME, and CPU seconds."""
    write_outcome(0, "", "collection")
    child = os.fork()
    if child == 0:
        os.setsid()
        log = os.open(WORK / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        try:
            function()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    _, _, usage = os.wait4(child, 0)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # what a test started and left
    return json.loads(OUTCOME.read_text()) | {"seconds": round(usage.ru_utime + usage.ru_stime, 2)}


def record(suite):
    """Run a suite with all faults switched off, and write which tests reach which of them."""
    options, paths = SUITES[suite]
    log = WORK / "reached-by-processes.txt"
    log.unlink(missing_ok=True)

    def run():
        os.environ["FAIRSPAN_FAULT_LOG"] = str(log)
        os.environ["FAIRSPAN_FAULT_PROCESS"] = str(os.getpid())
        recorder = Recorder(importlib.import_module("_fault_switch"))
        pytest.main([*_OPTIONS, *options, *paths], plugins=[recorder])
        (WORK / f"{suite}.json").write_text(json.dumps(recorder.result(log)))

    in_child(run)


def hunt(selection, suite, note):
    """Hunt faults with the tests that reach them, and pass each outcome to `note`."""
    tests = json.loads((WORK / f"{suite}.json").read_text())
    forked = {}
    for fault in selection:
        name = fault["fault"]
        reaching = [
            (test, entry["cpu"])
            for test, entry in tests.items()
            if name in entry["reached"] and not entry["failed"]
        ]
        seconds = dict(sorted(reaching, key=lambda entry: bisect(_COST_RANGES, entry[1])))
        if not fault["at_import"] or not seconds:
            forked[name] = seconds
            continue
        outcome = hunt_in_session({name: seconds}, suite, note, switched_on=name)
        if outcome["killed"] == "collection":
            note(name, outcome)
    if forked and hunt_in_session(forked, suite, note)["killed"] == "collection":
        sys.exit(f"The tests could not be collected: see {WORK / 'log.txt'}")


def hunt_in_session(hunts, suite, note, switched_on=None):
    """Collect the tests in a new process, and hunt there."""
    files = sorted({test.split("::")[0] for tests in hunts.values() for test in tests})

    def run():
        if switched_on:
            switch_on(switched_on)
        pytest.main([*_OPTIONS, *SUITES[suite][0], *files], plugins=[Hunter(hunts, note)])

    return in_child(run)


def read_outcomes(suite):
    """Return the last outcome of each fault."""
    path = WORK / f"{suite}.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return {outcome["fault"]: outcome for outcome in map(json.loads, lines)}


def choose(options):
    """Return drawn faults, or those of an earlier table that still exist."""
    candidates, n_statements = faults.find()
    if not options.table:
        return faults.draw(candidates, n_statements, options.seed, options.n)
    by_name = {fault["fault"]: fault for fault in candidates}
    with Path(options.table).open() as table:
        names = [row["fault"] for row in csv.DictReader(table)]
    print("no longer in the source:", [name for name in names if name not in by_name])
    return [by_name[name] for name in names if name in by_name]


def write_table(selection, suite):
    """Write the outcomes, and print how many faults of each room and kind were killed."""
    outcomes = read_outcomes(suite)
    rows = [fault | outcomes[fault["fault"]] for fault in selection if fault["fault"] in outcomes]
    for row in rows:
        unnoticed = "survived" if row["n_tests"] else "not reached"
        row["outcome"] = "killed" if row["killed"] else unnoticed
    with (WORK / f"{suite}.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, rows[0])
        table.writeheader()
        table.writerows(rows)
    for column in ("room", "kind"):
        print(f"\n| {column} | faults | killed | survived | not reached |\n|--|--|--|--|--|")
        for value in [*sorted({row[column] for row in rows}), "all"]:
            counts = Counter(row["outcome"] for row in rows if value in (row[column], "all"))
            figures = (counts[outcome] for outcome in ("killed", "survived", "not reached"))
            print(f"| {value} | {counts.total()} |", " | ".join(map(str, figures)), "|")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=55)
    parser.add_argument("--n", type=int, default=150, help="number of faults to draw")
    parser.add_argument("--table", help="hunt the faults of this table instead")
    parser.add_argument("--suite", choices=SUITES, default="test")
    parser.add_argument("--resume", action="store_true", help="go on with the last run")
    parser.add_argument("--only", nargs="+", help="hunt these faults again, as the last run did")
    options = parser.parse_args()
    os.chdir(ROOT)
    selection = choose(options)
    faults.plant(selection, COPY)
    os.environ["PYTHONPATH"] = str(COPY)
    sys.path.insert(0, str(COPY))
    results = WORK / f"{options.suite}.jsonl"
    if not options.resume and not options.only:
        results.unlink(missing_ok=True)
        record(options.suite)

    def note(fault, outcome):
        line = json.dumps({"fault": fault} | outcome)
        with results.open("a") as file:
            file.write(f"{line}\n")
        print(line, file=TERMINAL, flush=True)

    again = set(
        options.only or {fault["fault"] for fault in selection} - {*read_outcomes(options.suite)}
    )
    hunt([fault for fault in selection if fault["fault"] in again], options.suite, note)
    write_table(selection, options.suite)


if __name__ == "__main__":
    main()
