"""Processes that save to one file, are killed at random, and read the file."""

import multiprocessing
import os
import signal
import sys
import time

import numpy as np

from fairspan import GroupMoments

# Large enough that a file is not written at once.
N_FEATURES = 300


def save(path, number):
    """Save a file in which every number identifies its writer."""
    make_moments(number).save(path)


def make_moments(number):
    """Make moments whose means and covariances are the number."""
    p = N_FEATURES
    covariances = np.full((1, p, p), float(number))
    means = np.full((1, p), float(number))
    return GroupMoments.from_covariances(covariances, means, groups=["a"])


def check_complete(path):
    """Read the file, and make sure that one process wrote all of it."""
    moments = GroupMoments.load(path)
    number = moments.means[0, 0]
    assert (moments.means == number).all()
    assert (moments.scatters == number).all()


def save_repeatedly(path, number, how_often):
    """Save so often, and read after each time."""
    moments = make_moments(number)
    for _ in range(how_often):
        moments.save(path)
        check_complete(path)


def save_forever(path, number):
    """Save until killed."""
    moments = make_moments(number)
    while True:
        moments.save(path)


def race(path, n_processes, how_often):
    """Let processes save to one name, so often each; raise where one of them failed."""
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    arguments = [(path, number, how_often) for number in range(n_processes)]
    processes = [context.Process(target=save_repeatedly, args=args) for args in arguments]
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
    """Return the names of the files in a folder, hidden ones included."""
    return sorted(path.name for path in folder.iterdir())
