"""Parts read in several processes of this machine."""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from typing import TypeVar

from fairspan.errors import FairspanError
from fairspan.rows.engines import Part, result_in_worker
from fairspan.rows.protocol import Fold

Result = TypeVar("Result")

# Parts under way or waiting to be merged, for each process: their results are held in memory.
_AHEAD = 3


@dataclass(frozen=True)
class Processes:
    """Reads parts in several processes, and hands results back in the order of the parts.

    Attributes
    ----------
    jobs : int
        Number of processes.
    """

    jobs: int

    def results(
        self, fold: Fold[Result], parts: Sequence[Part]
    ) -> Iterator[tuple[int, Result | None]]:
        """Results over each part."""
        waiting = iter(parts)
        running: deque[Future[Result | None]] = deque()
        # Spawned, as a forked process inherits locks that threads of this one may hold.
        context = multiprocessing.get_context("spawn")
        n_workers = min(self.jobs, max(len(parts), 1))
        with ProcessPoolExecutor(n_workers, context, _begin_worker) as pool:
            try:
                for part in waiting:
                    with interruption_held():  # submitting may start a worker
                        running.append(pool.submit(result_in_worker, fold, part))
                    if len(running) >= _AHEAD * self.jobs:
                        yield 1, running.popleft().result()
                while running:
                    yield 1, running.popleft().result()
            except BrokenProcessPool as error:
                raise FairspanError(
                    f"One of the {self.jobs} processes that read files was killed, most likely "
                    "because memory ran out",
                    "Allowed are as many processes as fit into memory, each with a partial result "
                    "and some batches of rows",
                    "Use fewer jobs",
                ) from error
            finally:
                pool.shutdown(wait=True, cancel_futures=True)


def _begin_worker() -> None:
    # Ctrl-C reaches workers too: they end, and the traceback of each would tell nobody anything.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    _end_with_parent()


def _end_with_parent() -> None:
    """End a worker when its parent was killed, which nothing else would tell it."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


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
