"""Random inputs, all from one seed: ./run fuzz [--minutes N] [--seed S] [--only TARGET].

Asserts of each: no crash, no hang over 10 s, no memory over 1 GB, no file outside the folder that
was given, and every refusal one of our errors. A find is told with its number: --example NUMBER
repeats it.
"""

import argparse
import multiprocessing
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

import numpy as np
from targets import SLOW, TARGETS, Honest, attempt

LONGEST_SECONDS, MOST_BYTES = 10, 2**30
# Examples of one process, so that a crash costs few.
IN_A_ROW = 500


class HangError(BaseException):
    """Nothing of ours catches it."""


def hang(*_):
    raise HangError


def examples(arguments, first, told):
    """Try some examples, and tell of each before and after."""
    signal.signal(signal.SIGALRM, hang)
    root = Path(tempfile.mkdtemp(prefix="fuzz-"))
    try:
        (root / "honest").mkdir()
        honest = Honest(root / "honest")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        folder = root / "own"
        for number in range(first, first + (1 if arguments.example is not None else IN_A_ROW)):
            targets = [each for each in [*TARGETS, *SLOW] if each.__name__ == arguments.only]
            targets = targets or TARGETS
            target = targets[number % len(targets)]
            told.send((number, target.__name__, "begun", ""))
            folder.mkdir()
            outside = sorted(root.rglob("*"))
            signal.alarm(LONGEST_SECONDS * (10 if target in SLOW else 1))
            try:
                random = np.random.default_rng([arguments.seed, number])
                outcome, said = attempt(target, honest, random, folder), ""
            except (Exception, HangError):
                outcome, said = "FOUND", traceback.format_exc()[-1500:]
            signal.alarm(0)
            if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before > MOST_BYTES:
                outcome, said = "FOUND", "more than 1 GB"
            shutil.rmtree(folder)
            if sorted(root.rglob("*")) != [path for path in outside if path != folder]:
                outcome, said = "FOUND", "a file outside the folder"
            told.send((number, target.__name__, outcome, said))
    finally:
        shutil.rmtree(root, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(prog="./run fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=[each.__name__ for each in [*TARGETS, *SLOW]])
    parser.add_argument("--example", type=int)
    arguments = parser.parse_args()
    end = time.monotonic() + 60 * arguments.minutes
    counted, finds, number = Counter(), [], arguments.example or 0
    context = multiprocessing.get_context("fork")
    while time.monotonic() < end:
        mine, theirs = context.Pipe(duplex=False)
        process = context.Process(target=examples, args=(arguments, number, theirs))
        process.start()
        theirs.close()
        running = None
        while time.monotonic() < end:
            try:
                if not mine.poll(3 * LONGEST_SECONDS):
                    process.kill()  # it hangs where no signal reaches
                number, name, outcome, said = mine.recv()
            except EOFError:
                break
            running = None if outcome != "begun" else (number, name)
            if outcome != "begun":
                counted[name, outcome] += 1
                if outcome == "FOUND":
                    finds.append((number, name, said))
        else:
            process.terminate()
            running = None
        process.join()
        if running is not None:
            counted[running[1], "FOUND"] += 1
            finds.append((*running, f"the process ended ({process.exitcode})"))
        number += 1
        if arguments.example is not None:
            break
    for number, name, said in finds[:20]:
        print(f"--- example {number}, {name}, seed {arguments.seed}\n{said}")
    for (name, outcome), count in sorted(counted.items()):
        print(f"{name:12} {outcome:9} {count:9,}")
    print(f"{counted.total():,} examples from seed {arguments.seed}, {len(finds)} finds")
    return 1 if finds else 0


if __name__ == "__main__":
    sys.exit(main())
