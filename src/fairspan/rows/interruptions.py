"""Ctrl-C reaches every process of a terminal: held back where workers start."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker


@contextmanager
def interruption_held() -> Iterator[None]:
    """Hold Ctrl-C back for a moment, and for good in threads and processes that start meanwhile.

    A worker that it hit while starting would print a traceback that tells nobody anything.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    # It lets Ctrl-C through when it starts, so it starts before.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
