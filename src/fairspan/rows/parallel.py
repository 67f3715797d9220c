"""Passes over rows that are read in parts: one after the other, or by several processes."""

import os
import signal
import threading
import time
import warnings
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import cache, reduce
from multiprocessing import resource_tracker
from typing import Protocol, TypeVar, cast

from threadpoolctl import threadpool_limits

from fairspan.errors import FairspanError
from fairspan.rows.protocol import Fold, Result, RowSource

Item = TypeVar("Item")

# Parts that are handed to each process in advance, so that none of them waits. No more than wait in
# the pool's own queue, or it complains of those that are cancelled when it is interrupted.
_PARTS_IN_ADVANCE = 2
_SECONDS_BETWEEN_LOOKS = 0.5


class Part(RowSource, Protocol):
    """Rows that are read at once; a plain value that can be sent to another process."""

    @property
    def where(self) -> str:
        """What the part is called in messages."""


def results_of_parts(
    fold: Fold[Result], parts: Sequence[Part], jobs: int = 1
) -> Generator[Result | None, None, None]:
    """The fold's result over each part, in the order of the parts.

    The results are the same for any number of processes.

    Parameters
    ----------
    fold : Fold
    parts : sequence of Part
    jobs : int
        Number of processes that read; with one, parts are read in this process.

    Raises
    ------
    FairspanError
        A process was killed.
    """
    jobs = min(jobs, len(parts))
    if jobs > 1:
        yield from _results_of_processes(fold, parts, jobs)
    else:
        for part in parts:
            with error_context(part.where):
                yield fold.over(part)


def _results_of_processes(
    fold: Fold[Result], parts: Sequence[Part], jobs: int
) -> Iterator[Result | None]:
    from joblib import Parallel, delayed

    workers = Parallel(
        n_jobs=jobs,
        return_as="generator",
        pre_dispatch=_PARTS_IN_ADVANCE * jobs,
        batch_size=1,
        max_nbytes=None,
    )
    try:
        # Workers inherit this. They end with this process, and print no traceback of Ctrl-C.
        with sigint_blocked():
            results = workers(delayed(_result_in_worker)(fold, part, os.getpid()) for part in parts)
        try:
            # No `yield from`, which would let joblib warn of results that nobody takes.
            for result in results:  # noqa: UP028
                yield result
        finally:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                results.close()
    except BrokenProcessPool as error:
        raise FairspanError(
            f"One of the {jobs} processes that read files was killed, most likely because memory "
            "ran out",
            "Allowed: as many processes as fit into memory, each with a partial result and some "
            "batches of rows",
            "Use fewer jobs",
        ) from error


def _result_in_worker(fold: Fold[Result], part: Part, parent: int) -> Result | None:
    _end_with(parent)
    # Linear algebra that starts a thread for each core in each of several workers is many times
    # slower.
    with error_context(part.where), threadpool_limits(1):
        return fold.over(part)


@cache
def _end_with(parent: int) -> None:
    """End this worker once the process that started it was killed, which nothing else says."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def sigint_blocked() -> Iterator[None]:
    """Block SIGINT here and in processes started meanwhile; deliver it here on exit."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    # It lets SIGINT through when it starts, which it does before the first worker.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def error_context(where: str) -> Iterator[None]:
    """Say in errors where the rows are that they are about."""
    try:
        yield
    except FairspanError as error:
        received, *rest = error.args
        if where in received:
            raise
        raise type(error)(f"{where}: {received}", *rest) from error


def merged_in_order(fold: Fold[Result], results: Iterable[Result | None]) -> Result | None:
    """Merge results from left to right, which is the same however they were computed."""
    present = (result for result in results if result is not None)
    first = next(present, None)
    return None if first is None else reduce(fold.merged, present, first)


def prefetch(items: Iterable[Item]) -> Iterator[Item]:
    """The same items, of which another thread fetches the next one in the meantime.

    Decoding a file and multiplying matrices both leave Python's lock to others, so that they share
    two cores well.

    Examples
    --------
    >>> list(prefetch([1, 2, 3]))
    [1, 2, 3]
    """
    source, end = iter(items), cast("Item", object())
    with ThreadPoolExecutor(1) as thread:
        fetched = thread.submit(next, source, end)
        while (item := fetched.result()) is not end:
            fetched = thread.submit(next, source, end)
            yield item
