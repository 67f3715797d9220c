"""Limits on what linear algebra uses: BLAS threads, and memory for the groups' matrices.

numpy and scipy often bundle separate BLAS libraries, each with its own thread pool. An idle BLAS
thread spins for about 20 ms before it sleeps, so alternating calls of the two libraries slow each
other down by half or more. In such code one of the two is limited to a single thread.

Limits apply to the whole process. While several Python threads hold limits (parallel fits, for
example), every BLAS library is limited to one thread; the last thread to leave restores the
original settings.

Memory needs are computed from shapes, before any matrix is allocated.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import copy_context
from functools import cache
from pathlib import Path
from threading import Lock, get_ident
from typing import Any, Literal, TypeVar

import threadpoolctl

from fairspan.errors import Cause, InvalidInput, warn
from fairspan.formatting.text import counted

Item = TypeVar("Item")
Result = TypeVar("Result")
BlasPackage = Literal["numpy", "scipy"]

# Number of features up to which products with blocks of rows are limited by memory bandwidth.
MAX_MEMORY_BOUND_FEATURES = 128
_LOCK = Lock()
# Active limits, oldest first: the Python thread that set each, and the package it leaves unlimited.
_ACTIVE_LIMITS: dict[object, tuple[int, BlasPackage | None]] = {}
# Thread count of each library before the first limit.
_ORIGINAL_THREADS: list[int] = []
# p x p matrices held per group while moments are computed (measured: 2.3 to 2.9).
_MATRICES_HELD = 3
# Always allowed unless `max_memory` is set; querying the machine would take longer.
_ALWAYS_ALLOWED_BYTES = 2**30
# Operations of one eigendecomposition, divided by p^3.
_EIGH_OPERATIONS = 10
# Floating-point operations of one core per second, for rough estimates in messages.
_OPERATIONS_PER_SECOND = 2e10
# Duration from which a computation is announced by a warning.
_SLOW_SECONDS = 60.0
_CGROUP_MEMORY_FILE = Path("/sys/fs/cgroup/memory.max")


@contextmanager
def limit_blas_threads(package: BlasPackage | None) -> Iterator[int]:
    """Limit BLAS threads: inside, only the library of `package` is multithreaded (none if None).

    Many small operations run best on one thread: on shared cores, waiting for a second thread can
    take milliseconds. Yields the number of Python threads that may compute inside; 1 if a limit was
    already active.
    """
    limit = object()
    with _LOCK:
        is_outermost = not _ACTIVE_LIMITS
        if is_outermost:
            _ORIGINAL_THREADS[:] = [library.num_threads for library in _blas_libraries()]
        _ACTIVE_LIMITS[limit] = get_ident(), package
        _apply_limits()
    try:
        yield max(_ORIGINAL_THREADS, default=1) if is_outermost else 1
    finally:
        with _LOCK:
            del _ACTIVE_LIMITS[limit]
            _apply_limits()


def _apply_limits() -> None:
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
            # Recent OpenBLAS controllers accept limits from one thread only; the lock ensures that.
            release = getattr(library, "clear_controlling_thread", lambda *, force: None)
            release(force=True)
            library.set_num_threads(n_threads)
            release(force=True)


def _unlimited_libraries() -> tuple[Any, ...]:
    """Libraries of the innermost limit; none while several Python threads hold limits."""
    threads = {thread for thread, _ in _ACTIVE_LIMITS.values()}
    if len(threads) != 1:
        return ()
    _, package = list(_ACTIVE_LIMITS.values())[-1]
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
    with limit_blas_threads(None) as max_workers:
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
def _blas_libraries() -> tuple[Any, ...]:
    # Discovery takes milliseconds; numpy's and scipy's libraries are loaded by now.
    return tuple(threadpoolctl.ThreadpoolController().select(user_api="blas").lib_controllers)


@cache
def _blas_libraries_of(package: BlasPackage) -> tuple[Any, ...]:
    """BLAS libraries of a package; all if numpy and scipy share one or paths are unknown."""
    libraries = _blas_libraries()
    by_package = {
        owner: tuple(library for library in libraries if _is_bundled_with(owner, library))
        for owner in ("numpy", "scipy")
    }
    return by_package[package] if all(by_package.values()) else libraries


def _is_bundled_with(package: str, library: Any) -> bool:
    # .../numpy.libs/libscipy_openblas64_.so, .../scipy/.dylibs/libscipy_openblas.dylib
    folders = Path(library.filepath).parts[-3:-1]
    return any(folder.startswith(package) for folder in folders)


def moments_nbytes(n_groups: int, n_features: int) -> int:
    """Peak memory for computing the moments of k groups with p features, in bytes.

    Examples
    --------
    >>> moments_nbytes(2, 1000)
    48000000
    """
    return _MATRICES_HELD * 8 * n_groups * n_features**2


def warn_if_slow(n_rows: int | None, n_features: int) -> None:
    """Warn before moments are computed if this machine needs more than about a minute."""
    # 2 n p^2 operations, shared by all cores; counting cores takes longer than a small table.
    seconds = 2.0 * (n_rows or 0) * n_features**2 / _OPERATIONS_PER_SECOND
    if seconds > _SLOW_SECONDS:
        seconds /= os.cpu_count() or 1
    if seconds > _SLOW_SECONDS:
        warn(
            f"Computing the moments of {n_rows:,} rows and {n_features:,} features takes about "
            f"{_format_duration(seconds)} on this machine; the time grows with the square of the "
            "number of features. Fewer features, sparse rows, a sample of the rows, or a cluster "
            "(docs/scale.md) are faster."
        )


def memory_limit() -> int | None:
    """Memory available to this process in bytes; None if the system does not report it."""
    limits = []
    with suppress(OSError, ValueError, AttributeError):  # Windows has no sysconf
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    with suppress(OSError, ValueError):  # no container, or no limit
        limits.append(int(_CGROUP_MEMORY_FILE.read_text()))
    return min(limits, default=None)


@contextmanager
def explain_memory_errors() -> Iterator[None]:
    """Raise InvalidInput with a remedy in place of MemoryError.

    Raises
    ------
    InvalidInput
    """
    try:
        yield
    except MemoryError as error:
        reason = " ".join(str(error).split()) or "the allocation failed"
        raise InvalidInput(
            f"Out of memory ({reason})",
            "Allowed: groups and features whose matrices fit into memory, about 24 k p^2 bytes",
            "Choose fewer features or groups, or pass sparse rows",
        ) from error


def check_memory(n_groups: int, n_features: int, max_memory: int | None = None) -> None:
    """Check that the matrices of k groups and p features fit into memory.

    Parameters
    ----------
    n_groups, n_features : int
    max_memory : int, optional
        In bytes; by default all memory available to this process.

    Raises
    ------
    InvalidInput
        They do not fit; the message states the memory and time needed.
    """
    needed_bytes = moments_nbytes(n_groups, n_features)
    if max_memory is None and needed_bytes <= _ALWAYS_ALLOWED_BYTES:
        return
    allowed_bytes = memory_limit() if max_memory is None else max_memory
    if allowed_bytes is None or needed_bytes <= allowed_bytes:
        return
    seconds = _EIGH_OPERATIONS * float(n_features) ** 3 / _OPERATIONS_PER_SECOND
    source = "available on this machine" if max_memory is None else "max_memory"
    raise InvalidInput(
        f"The matrices of {counted(n_groups, 'group')} and {counted(n_features, 'feature')} need "
        f"about {format_bytes(needed_bytes)} while they are computed, and one eigendecomposition "
        f"of that size takes about {_format_duration(seconds)} on one core",
        f"Allowed: {format_bytes(allowed_bytes)} ({source})",
        "Choose fewer features or groups; fit the rows themselves if they are sparse or fewer than "
        "0.8 p, which needs no matrices; or raise the limit with "
        "GroupMoments.from_rows(max_memory=BYTES) and FairPCA.fit_moments",
        cause=Cause.TOO_LARGE,
    )


def format_bytes(n_bytes: int) -> str:
    """Format a number of bytes, such as 1.5 GB."""
    return f"{n_bytes / 1e9:,.1f} GB" if n_bytes >= 1e8 else f"{n_bytes / 1e6:,.1f} MB"


def _format_duration(seconds: float) -> str:
    for unit, length in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.0f} {unit}"
    return f"{seconds:,.2g} seconds"
