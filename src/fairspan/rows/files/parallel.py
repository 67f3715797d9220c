"""Parallel reading: of parts in several processes, and of the next batch in a thread."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import cache
from multiprocessing import resource_tracker
from typing import TYPE_CHECKING, TypeVar, cast

from threadpoolctl import threadpool_limits

from fairspan.errors import FairspanError
from fairspan.rows.aggregation import Aggregator, Result
from fairspan.rows.files.part_errors import explain_part_errors

if TYPE_CHECKING:
    from fairspan.rows.files.file_table import FileTable

Item = TypeVar("Item")
# Parts dispatched ahead per process. No more than the pool's own queue holds, or joblib warns about
# canceled tasks on interruption.
_PREFETCHED_PARTS = 2
# Seconds between two checks of a worker whether its parent is alive.
_POLL_SECONDS = 0.5


def results_from_processes(
    aggregator: Aggregator[Result], parts: Sequence[FileTable], n_jobs: int
) -> Generator[Result | None, None, None]:
    """Aggregate parts in several processes, and yield the result of each in order.

    Each worker gets the id of this process, and exits when this process is killed.

    Raises
    ------
    FairspanError
        A process was killed.
    """
    from joblib import Parallel, delayed

    workers = Parallel(
        n_jobs=n_jobs,
        return_as="generator",
        pre_dispatch=_PREFETCHED_PARTS * n_jobs,
        batch_size=1,
        max_nbytes=None,  # no memory maps on disk
    )
    try:
        # Workers start with SIGINT blocked: they print no traceback on Ctrl-C, and exit with this
        # process.
        with block_sigint():
            results = workers(
                delayed(_aggregate_in_worker)(aggregator, part, os.getpid()) for part in parts
            )
        try:
            # Not `yield from`: joblib would warn about unused results.
            for result in results:  # noqa: UP028
                yield result
        finally:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                results.close()
    except BrokenProcessPool as error:
        raise FairspanError(
            f"One of the {n_jobs} reader processes was killed, probably for lack of memory",
            "Allowed: as many processes as fit into memory, each with a partial result and a few "
            "batches",
            "Use fewer jobs",
        ) from error


def _aggregate_in_worker(
    aggregator: Aggregator[Result], part: FileTable, parent: int
) -> Result | None:
    _exit_with_parent(parent)
    # Oversubscribed BLAS threads would be many times slower.
    with threadpool_limits(1), explain_part_errors(part):
        return aggregator.aggregate(part)


@cache
def _exit_with_parent(parent: int) -> None:
    """Exit this worker when its parent is killed; nothing else notifies it."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_POLL_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def block_sigint() -> Iterator[None]:
    """Block SIGINT in this process and in its new children; deliver it on exit."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    # Starting the resource tracker unblocks SIGINT, so start it first.
    resource_tracker.ensure_running()
    original_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, original_mask)


def prefetch(items: Iterable[Item]) -> Iterator[Item]:
    """Iterate while a thread fetches the next item.

    Decoding and matrix products both release the GIL, so they overlap.

    Examples
    --------
    >>> list(prefetch([1, 2, 3]))
    [1, 2, 3]
    """
    iterator = iter(items)
    end = cast("Item", object())
    with ThreadPoolExecutor(1) as thread:
        future = thread.submit(next, iterator, end)
        while (item := future.result()) is not end:
            future = thread.submit(next, iterator, end)
            yield item
