"""Limits on the number of BLAS threads, and threads of Python for products with few features.

numpy and scipy often bundle separate BLAS libraries, each with its own thread pool. An idle BLAS
thread spins for about 20 ms before it sleeps, so alternating calls of the two libraries slow each
other down by half or more. In such code one of the two is limited to a single thread.

Limits apply to the whole process. While several Python threads hold limits (parallel fits, for
example), every BLAS library is limited to one thread; the last thread to leave restores the
original settings.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import copy_context
from functools import cache
from pathlib import Path
from threading import Lock, get_ident
from typing import Literal, NamedTuple, Protocol, TypeVar

import threadpoolctl

Item = TypeVar("Item")
Result = TypeVar("Result")
BlasPackage = Literal["numpy", "scipy"]

# Number of features up to which products with blocks of rows are limited by memory bandwidth.
MAX_MEMORY_BOUND_FEATURES = 128
_LOCK = Lock()


class _Limit(NamedTuple):
    """Limit on the number of BLAS threads.

    Attributes
    ----------
    python_thread : int
        Identifier of the Python thread that set the limit.
    package : {"numpy", "scipy"} or None
        Package whose BLAS library is not limited.
    """

    python_thread: int
    package: BlasPackage | None


# Active limits, oldest first, by a key of each.
_ACTIVE_LIMITS: dict[object, _Limit] = {}
# Thread count of each library before the first limit.
_ORIGINAL_THREADS: list[int] = []


@contextmanager
def limit_blas_threads(package: BlasPackage | None) -> Iterator[int]:
    """Limit BLAS threads: inside, only the library of `package` is multithreaded (none if None).

    Many small operations run best on one thread: on shared cores, waiting for a second thread can
    take milliseconds. Yields the number of Python threads that may compute inside; 1 if a limit was
    already active, whose holder may use the other cores.
    """
    key = object()  # key of this limit among the active ones
    limit = _Limit(get_ident(), package)
    with _LOCK:
        is_outermost = not _ACTIVE_LIMITS
        if is_outermost:
            _ORIGINAL_THREADS[:] = [library.num_threads for library in _blas_libraries()]
        # A limit within an equal one of the same Python thread changes nothing, in or out.
        innermost = next(reversed(_ACTIVE_LIMITS.values()), None)
        is_repeated = limit == innermost
        _ACTIVE_LIMITS[key] = limit
        # Every library gets one thread while several Python threads have limits.
        if not is_repeated:
            _apply_limits()
    try:
        yield max(_ORIGINAL_THREADS, default=1) if is_outermost else 1
    finally:
        with _LOCK:
            del _ACTIVE_LIMITS[key]
            if not is_repeated:
                _apply_limits()


def _apply_limits() -> None:
    """Set the thread count of each BLAS library by the active limits; without any, restore it.

    The caller holds the lock.
    """
    unlimited = _unlimited_libraries()
    max_threads = max(_ORIGINAL_THREADS, default=1)
    for original, library in zip(_ORIGINAL_THREADS, _blas_libraries(), strict=True):
        if not _ACTIVE_LIMITS:
            n_threads = original
        elif library in unlimited:
            n_threads = max_threads
        else:
            n_threads = 1
        # Reading is cheaper than setting, and limits are often nested.
        if n_threads != library.num_threads:
            # Recent OpenBLAS controllers accept further limits only from the thread that set one,
            # unless it is released: before, since another thread may have set one, and after.
            release = getattr(library, "clear_controlling_thread", lambda *, force: None)
            release(force=True)
            library.set_num_threads(n_threads)
            release(force=True)


class _BlasLibrary(Protocol):
    """Controller of a loaded BLAS library, as threadpoolctl returns them."""

    filepath: str

    @property
    def num_threads(self) -> int:
        """Number of threads that the library uses."""

    def set_num_threads(self, num_threads: int) -> None:
        """Limit the library to a number of threads."""


def _unlimited_libraries() -> tuple[_BlasLibrary, ...]:
    """Libraries of the innermost limit; none while several Python threads hold limits."""
    limits = list(_ACTIVE_LIMITS.values())
    python_threads = {limit.python_thread for limit in limits}
    if len(python_threads) != 1:
        return ()
    package = limits[-1].package
    return () if package is None else _blas_libraries_of(package)


def map_in_threads(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Apply a function to each item in a thread pool, and return the results in order.

    Each worker runs BLAS single-threaded, so that together they use no more cores than linear
    algebra is allowed.

    Examples
    --------
    >>> map_in_threads(abs, [-1, 2, -3])
    [1, 2, 3]
    """
    if len(items) < 2:
        return [function(item) for item in items]
    with limit_blas_threads(package=None) as max_workers:  # no BLAS library is multithreaded
        n_workers = min(max_workers, len(items))
        if n_workers < 2:
            return [function(item) for item in items]
        # Copy the context so that workers report progress to the caller's stage.
        contexts = [copy_context() for _ in items]
        with ThreadPoolExecutor(n_workers) as pool:
            results = pool.map(lambda context, item: context.run(function, item), contexts, items)
            return list(results)


def single_thread_if_small(n_features: int) -> AbstractContextManager[object]:
    """Limit BLAS to one thread if products of rows with this few features are memory-bound."""
    if n_features > MAX_MEMORY_BOUND_FEATURES:
        return nullcontext()
    return limit_blas_threads(None)


@cache
def _blas_libraries() -> tuple[_BlasLibrary, ...]:
    # Discovery takes milliseconds; numpy's and scipy's libraries are loaded by now.
    return tuple(threadpoolctl.ThreadpoolController().select(user_api="blas").lib_controllers)


@cache
def _blas_libraries_of(package: BlasPackage) -> tuple[_BlasLibrary, ...]:
    """BLAS libraries of a package; all if numpy and scipy share one or paths are unknown."""
    libraries = _blas_libraries()
    by_package = {
        owner: tuple(library for library in libraries if _is_bundled_with(owner, library))
        for owner in ("numpy", "scipy")
    }
    return by_package[package] if all(by_package.values()) else libraries


def _is_bundled_with(package: str, library: _BlasLibrary) -> bool:
    # .../numpy.libs/libscipy_openblas64_.so, .../scipy/.dylibs/libscipy_openblas.dylib
    folders = Path(library.filepath).parts[-3:-1]
    return any(folder.startswith(package) for folder in folders)
