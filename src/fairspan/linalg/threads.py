"""Threads of linear algebra: how many at once, and of which library.

numpy and scipy often bring a library each, with threads each. A thread that has nothing left to do
still takes its core for some 20 ms, waiting for more. So where calls of both follow each other,
either slows down the other, by half and more; one of them is then kept to a single thread.

Such limits hold for the whole process. While several threads of Python compute here at once, as
where somebody fits side by side, each of them computes alone; the last one undoes the limits.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import copy_context
from functools import cache
from pathlib import Path
from threading import Lock, get_ident
from typing import Any, Literal, TypeVar

import threadpoolctl

Item = TypeVar("Item")
Result = TypeVar("Result")
Package = Literal["numpy", "scipy"]

# Up to so many features a product of rows is bound by memory.
FEW_FEATURES = 128
_LOCK = Lock()
# The limits that hold now, in the order of their beginning: the thread of Python, and the package.
_LIMITS: dict[object, tuple[int, Package | None]] = {}
# How many threads each library had before the first of them.
_BEFORE: list[int] = []


@contextmanager
def threads_of(package: Package | None) -> Iterator[int]:
    """Inside, only the library of this package uses threads, where it has one of its own; or none.

    Many small steps are best done by one thread: where cores are shared with others, a step that
    waits for its second thread may wait for milliseconds. Gives how many threads of Python may
    compute inside: 1 if a limit held before.
    """
    limit = object()
    with _LOCK:
        is_first = not _LIMITS
        if is_first:
            _BEFORE[:] = [each.num_threads for each in _libraries()]
        _LIMITS[limit] = get_ident(), package
        _apply()
    try:
        yield max(_BEFORE, default=1) if is_first else 1
    finally:
        with _LOCK:
            del _LIMITS[limit]
            _apply()


def _apply() -> None:
    most = max(_BEFORE, default=1)
    if most == 1:
        return
    is_alone = len({thread for thread, _ in _LIMITS.values()}) == 1
    package = list(_LIMITS.values())[-1][1] if is_alone else None
    free = () if package is None else _libraries_of(package)
    for library, before in zip(_libraries(), _BEFORE, strict=True):
        # Recent versions let one thread alone set limits; the lock sees to that here.
        release = getattr(library, "clear_controlling_thread", lambda *, force: None)
        release(force=True)
        library.set_num_threads((most if library in free else 1) if _LIMITS else before)
        release(force=True)


def in_threads(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """The function of each item, in order; in as many threads as linear algebra may use.

    Meanwhile each of them computes alone, so that together they take no more cores than allowed.

    Examples
    --------
    >>> in_threads(abs, [-1, 2, -3])
    [1, 2, 3]
    """
    with threads_of(None) if len(items) > 1 else nullcontext(1) as allowed:
        workers = min(allowed, len(items))
        if workers < 2:
            return [function(item) for item in items]
        with ThreadPoolExecutor(workers) as pool:
            # Each thread tells whoever listens to this one how far it has come.
            contexts = [copy_context() for _ in items]
            return list(
                pool.map(lambda context, item: context.run(function, item), contexts, items)
            )


def threads_for(n_features: int) -> AbstractContextManager[object]:
    """Inside, one thread where products of rows with so few features are bound by memory."""
    return threads_of(None) if n_features <= FEW_FEATURES else nullcontext()


@cache
def _libraries() -> tuple[Any, ...]:
    # Looking for libraries takes milliseconds; numpy's and scipy's are there once they are used.
    return tuple(threadpoolctl.ThreadpoolController().select(user_api="blas").lib_controllers)


@cache
def _libraries_of(package: Package) -> tuple[Any, ...]:
    """Its own; all, if numpy and scipy share one, or the paths are unknown."""
    own = {
        owner: tuple(
            library
            for library in _libraries()
            # .../numpy.libs/libscipy_openblas64_.so, .../scipy/.dylibs/libscipy_openblas.dylib
            if any(folder.startswith(owner) for folder in Path(library.filepath).parts[-3:-1])
        )
        for owner in ("numpy", "scipy")
    }
    return own[package] if all(own.values()) else _libraries()
