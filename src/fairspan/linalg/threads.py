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


class _Limits:
    """The limits of each thread of Python that computes here, innermost last."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._wanted: dict[int, list[Package | None]] = {}
        # How many threads each library had before any of our limits.
        self._before: list[int] = []

    @contextmanager
    def inside(self, package: Package | None) -> Iterator[int]:
        """One more limit of this thread; gives how many threads may compute, 1 if others do."""
        own = get_ident()
        with self._lock:
            if not self._wanted:
                self._before = [each.num_threads for each in _libraries()]
            self._wanted.setdefault(own, []).append(package)
            is_first = len(self._wanted) == 1 and len(self._wanted[own]) == 1
            self._apply()
        try:
            yield max(self._before, default=1) if is_first else 1
        finally:
            with self._lock:
                self._wanted[own].pop()
                if not self._wanted[own]:
                    del self._wanted[own]
                self._apply()

    def _apply(self) -> None:
        most = max(self._before, default=1)
        if most == 1:
            return
        free: tuple[Any, ...] = ()
        if len(self._wanted) == 1:
            ((*_, innermost),) = self._wanted.values()
            free = () if innermost is None else _libraries_of(innermost)
        for library, before in zip(_libraries(), self._before, strict=True):
            wanted = most if library in free else 1
            # Recent versions let one thread alone set limits; the lock sees to that here.
            release = getattr(library, "clear_controlling_thread", _nothing)
            release(force=True)
            library.set_num_threads(wanted if self._wanted else before)
            release(force=True)


def _nothing(*, force: bool) -> None:
    pass


_LIMITS = _Limits()


def in_threads(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """The function of each item, in order; in as many threads as linear algebra may use.

    Meanwhile each of them computes alone, so that together they take no more cores than allowed.

    Examples
    --------
    >>> in_threads(abs, [-1, 2, -3])
    [1, 2, 3]
    """
    if len(items) < 2:
        return [function(item) for item in items]
    with _LIMITS.inside(None) as allowed:
        workers = min(allowed, len(items))
        if workers < 2:
            return [function(item) for item in items]
        with ThreadPoolExecutor(workers) as pool:
            # Each thread tells whoever listens to this one how far it has come.
            contexts = [copy_context() for _ in items]
            return list(
                pool.map(lambda context, item: context.run(function, item), contexts, items)
            )


@contextmanager
def threads_of(package: Package | None) -> Iterator[None]:
    """Inside, only the library of this package uses threads, where it has one of its own; or none.

    Many small steps are best done by one thread: where cores are shared with others, a step that
    waits for its second thread may wait for milliseconds.
    """
    with _LIMITS.inside(package):
        yield


def threads_for(n_features: int) -> AbstractContextManager[None]:
    """Inside, one thread where products of rows with so few features are bound by memory."""
    return threads_of(None) if n_features <= FEW_FEATURES else nullcontext()


@cache
def _libraries() -> tuple[Any, ...]:
    # Looking for libraries takes milliseconds; numpy's and scipy's are there once they are used.
    found = threadpoolctl.ThreadpoolController().select(user_api="blas")
    return tuple(found.lib_controllers)


@cache
def _libraries_of(package: Package) -> tuple[Any, ...]:
    """Its own; all, if numpy and scipy share one, or the paths are unknown."""
    own: dict[str, list[Any]] = {"numpy": [], "scipy": []}
    for library in _libraries():
        # .../numpy.libs/libscipy_openblas64_.so, .../scipy/.dylibs/libscipy_openblas.dylib
        folders = Path(library.filepath).parts[-3:-1]
        for owner, found in own.items():
            if any(folder.startswith(owner) for folder in folders):
                found.append(library)
    if not all(own.values()):
        return _libraries()
    return tuple(own[package])
