"""Processes that save to one file, are killed at random, and read the file."""

import multiprocessing
import os
import signal
import sys
import time

import numpy as np

from fairspan.moments.group_moments import load_partial
from fairspan.storage.archive import write_archive

# Large enough that a file is not written at once.
N_FEATURES = 300


def save(path, number):
    """Save a file of which every number tells who wrote it."""
    p = N_FEATURES
    header = {"groups": ["a"], "feature_names": None, "n_dropped": 0}
    arrays = {
        "counts": np.array([number + 1]),
        "weights": np.full(1, number + 1.0),
        "means": np.full((1, p), float(number)),
        "triangles": np.full((1, p * (p + 1) // 2), float(number)),
    }
    write_archive(path, "moments", header, arrays)


def check_complete(path):
    """Read the file, and make sure that one process wrote all of it."""
    moments = load_partial(path)
    number = moments.counts[0] - 1
    assert (moments.scatters == number).all()
    assert (moments.means == number).all()


def save_repeatedly(path, number, how_often):
    """Save so often, and read after each time."""
    for _ in range(how_often):
        save(path, number)
        check_complete(path)


def save_forever(path, number):
    """Save until killed."""
    while True:
        save(path, number)


def race(path, n_processes, how_often):
    """Let processes save to one name, so often each; raise where one of them failed."""
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    arguments = [(path, number, how_often) for number in range(n_processes)]
    processes = [context.Process(target=save_repeatedly, args=each) for each in arguments]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * n_processes


def kill_after(path, number, seconds):
    """Let a process save until it is killed."""
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    process = context.Process(target=save_forever, args=(path, number))
    process.start()
    time.sleep(seconds)
    os.kill(process.pid, signal.SIGKILL)
    process.join()


def file_names(folder):
    """What stands in a folder, hidden files too."""
    return sorted(path.name for path in folder.iterdir())
