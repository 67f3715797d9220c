"""Threads of linear algebra: how many at once, and of which library.

numpy and scipy often bring a library each, with threads each. A thread that has nothing left to do
still takes its core for some 20 ms, waiting for more. So where calls of both follow each other,
either slows down the other, by half and more; one of them is then kept to a single thread.

Such limits hold for the whole process. Only one thread at a time sets them, and undoes them.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from contextvars import copy_context
from functools import cache
from pathlib import Path
from threading import RLock
from typing import Literal, TypeVar

import threadpoolctl

Item = TypeVar("Item")
Result = TypeVar("Result")

_LIMITING = RLock()
# How many threads there were before any of our limits.
_ALLOWED: list[int] = []


def in_threads(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """The function of each item, in order; in as many threads as linear algebra may use.

    Meanwhile each of them computes alone, so that together they take no more cores than allowed.

    Examples
    --------
    >>> in_threads(abs, [-1, 2, -3])
    [1, 2, 3]
    """
    if len(items) < 2 or not _LIMITING.acquire(blocking=False):
        return [function(item) for item in items]
    with ExitStack() as stack:
        stack.callback(_LIMITING.release)
        libraries = _libraries()
        allowed = max((each["num_threads"] for each in libraries.info()), default=1)
        workers = min(allowed, len(items))
        if workers < 2:
            return [function(item) for item in items]
        stack.enter_context(libraries.limit(limits=1))
        pool = stack.enter_context(ThreadPoolExecutor(workers))
        # Each thread tells whoever listens to this one how far it has come.
        contexts = [copy_context() for _ in items]
        return list(pool.map(lambda context, item: context.run(function, item), contexts, items))


@contextmanager
def threads_of(package: Literal["numpy", "scipy"] | None) -> Iterator[None]:
    """Inside, only the library of this package uses threads, where it has one of its own; or none.

    Many small steps are best done by one thread: where cores are shared with others, a step that
    waits for its second thread may wait for milliseconds.
    """
    if not _LIMITING.acquire(blocking=False):
        yield
        return
    with ExitStack() as stack:
        stack.callback(_LIMITING.release)
        own, others = _libraries_of(package)
        if not _ALLOWED:
            counts = [each["num_threads"] for each in _libraries().info()]
            _ALLOWED.append(max(counts, default=1))
            stack.callback(_ALLOWED.clear)
        if _ALLOWED[0] > 1:
            stack.enter_context(others.limit(limits=1))
            # Further out, these may have been kept to one.
            stack.enter_context(own.limit(limits=_ALLOWED[0]))
        yield


@cache
def _libraries() -> threadpoolctl.ThreadpoolController:
    # Looking for libraries takes milliseconds; numpy's and scipy's are there once they are used.
    return threadpoolctl.ThreadpoolController().select(user_api="blas")


@cache
def _libraries_of(
    package: str | None,
) -> tuple[threadpoolctl.ThreadpoolController, threadpoolctl.ThreadpoolController]:
    """Its own, and all others; all are its own if both share one, or paths do not tell."""
    every, none = _libraries(), _libraries().select(filepath=[])
    if package is None:
        return none, every
    paths: dict[str, list[str]] = {"numpy": [], "scipy": []}
    for library in _libraries().info():
        # .../numpy.libs/libscipy_openblas64_.so, .../scipy/.dylibs/libscipy_openblas.dylib
        folders = Path(library["filepath"]).parts[-3:-1]
        for owner, found in paths.items():
            if any(folder.startswith(owner) for folder in folders):
                found.append(library["filepath"])
    other = "scipy" if package == "numpy" else "numpy"
    if not (paths[package] and paths[other]):
        return every, none
    return every.select(filepath=paths[package]), every.select(filepath=paths[other])
