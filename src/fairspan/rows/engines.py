"""Passes over rows that may be read in parts, and the engines that read the parts."""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from typing import Protocol, TypeVar

from threadpoolctl import threadpool_limits

from fairspan.errors import FairspanError
from fairspan.rows.protocol import Fold, PartedRows, Result, Rows, RowSource

Item = TypeVar("Item")


class Part(RowSource, Protocol):
    """Rows that are read at once; a plain value that can be sent to another process."""

    @property
    def where(self) -> str:
        """What the part is called in messages."""


class Engine(Protocol):
    """Reads parts and returns results."""

    def results(
        self, fold: Fold[Result], parts: Sequence[Part]
    ) -> Iterator[tuple[int, Result | None]]:
        """Results over consecutive parts, in their order: how many parts each is for, and it.

        The same parts give an identical result, wherever and in whichever order they are read.
        """


class InThisProcess:
    """Reads one part after the other."""

    def results(
        self, fold: Fold[Result], parts: Sequence[Part]
    ) -> Iterator[tuple[int, Result | None]]:
        """Results over each part."""
        for part in parts:
            with located(part.where):
                yield 1, fold.over(part)


def result_in_worker(fold: Fold[Result], part: Part) -> Result | None:
    """What a worker does with a part: one of several at work, so with one thread.

    Linear algebra that starts a thread for each core in each of several workers is many times
    slower.
    """
    with located(part.where), threadpool_limits(1):
        return fold.over(part)


def total(engine: Engine, fold: Fold[Result], parts: Sequence[Part]) -> Result | None:
    """The fold's result over all parts; None if there are no rows."""
    result: Result | None = None
    n_done = 0
    for count, more in engine.results(fold, parts):
        with located(parts[n_done].where):  # where it does not fit to what came before
            result = merged_in_order(fold, [more], result)
        n_done += count
    return result


@contextmanager
def located(where: str) -> Iterator[None]:
    """Say in errors where the rows are that they are about."""
    try:
        yield
    except FairspanError as error:
        received, *rest = error.args
        if where in received:
            raise
        raise type(error)(f"{where}: {received}", *rest) from error


def folded(rows: Rows, fold: Fold[Result]) -> Result | None:
    """Pass over all rows, wherever they are; None if there are none."""
    return rows.folded(fold) if isinstance(rows, PartedRows) else fold.over(rows)


def merged_in_order(
    fold: Fold[Result], results: Iterable[Result | None], start: Result | None = None
) -> Result | None:
    """Merge results from left to right, which is the same however they were computed."""
    total = start
    for result in results:
        if total is None or result is None:
            total = result if total is None else total
        else:
            total = fold.merged(total, result)
    return total


# Parts under way or waiting to be merged, for each process: their results are held in memory.
_AHEAD = 3


@dataclass(frozen=True)
class Processes:
    """Reads parts in several processes, and returns results in the order of the parts.

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
                    "Allowed: as many processes as fit into memory, each with a partial result "
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
    # Nothing else would tell a worker that its parent was killed.
    parent = multiprocessing.parent_process()
    assert parent is not None

    def end_with_parent() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()


@contextmanager
def interruption_held() -> Iterator[None]:
    """Hold Ctrl-C back for a moment, and for good in threads and processes that start meanwhile.

    A worker that it hit while starting would print a useless traceback.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    # It lets Ctrl-C through when it starts, so it starts before.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    # Another thread may take the signal, and Python tells the main thread whatever that blocks.
    came: list[int] = []
    handler = signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread() and handler is not None
    if is_main:
        signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        if is_main:
            signal.signal(signal.SIGINT, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if came:
            signal.raise_signal(signal.SIGINT)


def ahead(items: Iterable[Item]) -> Iterator[Item]:
    """The same items, of which the next is fetched by another thread in the meantime.

    Decoding a file and multiplying matrices both leave Python's lock to others, so that they share
    two cores well.

    Examples
    --------
    >>> list(ahead([1, 2, 3]))
    [1, 2, 3]
    """
    source = iter(items)
    with ThreadPoolExecutor(1) as thread:
        fetched = thread.submit(_next, source)
        while item := fetched.result():
            fetched = thread.submit(_next, source)
            yield item[0]


def _next(source: Iterator[Item]) -> tuple[Item] | None:
    for item in source:
        return (item,)
    return None
