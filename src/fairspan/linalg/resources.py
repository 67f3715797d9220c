"""What linear algebra may use of the machine: threads, and memory for the groups' matrices.

numpy and scipy often bring a library each, with threads each. A thread that has nothing left to do
still takes its core for some 20 ms, waiting for more. So where calls of both follow each other,
either slows down the other, by half and more; one of them is then kept to a single thread.

Such limits hold for the whole process. While several threads of Python compute here at once, as
where somebody fits side by side, each of them computes alone; the last one undoes the limits.

The memory that matrices take is computed from their shape before any of them is made.
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

# Up to so many features a product of rows is bound by memory.
MAX_MEMORY_BOUND_FEATURES = 128
_LOCK = Lock()
# The limits that hold now, in the order of their beginning: the thread of Python, and the package.
_ACTIVE_LIMITS: dict[object, tuple[int, BlasPackage | None]] = {}
# How many threads each library had before the first of them.
_ORIGINAL_THREADS: list[int] = []
# Matrices of each group that are held at once while moments are made: measured, 2.3 to 2.9.
_MATRICES_HELD = 3
# So much is never refused unless a limit is given: looking at the machine would take longer.
_ALWAYS_ALLOWED_BYTES = 2**30
# Steps of one eigenproblem for p^3, and what a core does of them in a second.
_EIGH_OPERATIONS, _OPERATIONS_PER_SECOND = 10, 2e10
_SLOW_SECONDS = 60.0
_CGROUP_MEMORY_FILE = Path("/sys/fs/cgroup/memory.max")


@contextmanager
def limit_blas_threads(package: BlasPackage | None) -> Iterator[int]:
    """Inside, only the library of this package uses threads, where it has one of its own; or none.

    Many small steps are best done by one thread: where cores are shared with others, a step that
    waits for its second thread may wait for milliseconds. Gives how many threads of Python may
    compute inside: 1 if a limit held before.
    """
    limit = object()
    with _LOCK:
        is_outermost = not _ACTIVE_LIMITS
        if is_outermost:
            _ORIGINAL_THREADS[:] = [each.num_threads for each in _blas_libraries()]
        _ACTIVE_LIMITS[limit] = get_ident(), package
        _apply_limits()
    try:
        yield max(_ORIGINAL_THREADS, default=1) if is_outermost else 1
    finally:
        with _LOCK:
            del _ACTIVE_LIMITS[limit]
            _apply_limits()


def _apply_limits() -> None:
    most = max(_ORIGINAL_THREADS, default=1)
    is_alone = len({thread for thread, _ in _ACTIVE_LIMITS.values()}) == 1
    package = list(_ACTIVE_LIMITS.values())[-1][1] if is_alone else None
    unlimited = _blas_libraries_of(package) if package else ()
    for i, library in enumerate(_blas_libraries()):
        n_threads = (
            (most if library in unlimited else 1) if _ACTIVE_LIMITS else _ORIGINAL_THREADS[i]
        )
        if n_threads != library.num_threads:  # to ask is quicker, and limits are often nested
            # Recent versions let one thread alone set limits; the lock sees to that here.
            release = getattr(library, "clear_controlling_thread", lambda *, force: None)
            release(force=True)
            library.set_num_threads(n_threads)
            release(force=True)


def map_in_threads(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """The function of each item, in order; in as many threads as linear algebra may use.

    Meanwhile each of them computes alone, so that together they take no more cores than allowed.

    Examples
    --------
    >>> in_threads(abs, [-1, 2, -3])
    [1, 2, 3]
    """
    with limit_blas_threads(None) if len(items) > 1 else nullcontext(1) as allowed:
        workers = min(allowed, len(items))
        if workers < 2:
            return [function(item) for item in items]
        with ThreadPoolExecutor(workers) as pool:
            # Each thread tells whoever listens to this one how far it has come.
            contexts = [copy_context() for _ in items]
            return list(
                pool.map(lambda context, item: context.run(function, item), contexts, items)
            )


def single_thread_if_small(n_features: int) -> AbstractContextManager[object]:
    """Inside, one thread where products of rows with so few features are bound by memory."""
    return limit_blas_threads(None) if n_features <= MAX_MEMORY_BOUND_FEATURES else nullcontext()


@cache
def _blas_libraries() -> tuple[Any, ...]:
    # Looking for libraries takes milliseconds; numpy's and scipy's are there once they are used.
    return tuple(threadpoolctl.ThreadpoolController().select(user_api="blas").lib_controllers)


@cache
def _blas_libraries_of(package: BlasPackage) -> tuple[Any, ...]:
    """Its own; all, if numpy and scipy share one, or the paths are unknown."""
    by_package = {
        owner: tuple(
            library
            for library in _blas_libraries()
            # .../numpy.libs/libscipy_openblas64_.so, .../scipy/.dylibs/libscipy_openblas.dylib
            if any(folder.startswith(owner) for folder in Path(library.filepath).parts[-3:-1])
        )
        for owner in ("numpy", "scipy")
    }
    return by_package[package] if all(by_package.values()) else _blas_libraries()


def moments_nbytes(n_groups: int, n_features: int) -> int:
    """Memory that making k matrices of p x p numbers takes.

    Examples
    --------
    >>> moments_nbytes(2, 1000)
    48000000
    """
    return _MATRICES_HELD * 8 * n_groups * n_features**2  # a number of float64 takes 8 bytes


def warn_if_slow(n_rows: int | None, n_features: int) -> None:
    """Warn beforehand where a machine like this makes the moments of rows for over a minute."""
    # n p^2 multiplications and as many additions, shared by all cores.
    seconds = 2.0 * (n_rows or 0) * n_features**2 / _OPERATIONS_PER_SECOND
    if seconds > _SLOW_SECONDS:  # to look for the cores takes longer than a small table
        seconds /= os.cpu_count() or 1
    if seconds > _SLOW_SECONDS:
        warn(
            f"Moments of {n_rows:,} rows and {n_features:,} features take a machine like this "
            f"about {_format_duration(seconds)}: the time grows with the square of the number of features. "
            "Fewer features, sparse rows, a sample of the rows, or a cluster (docs/scale.md) take "
            "less."
        )


def memory_limit() -> int | None:
    """Bytes that this process may use; None if the system does not say."""
    limits = []
    with suppress(OSError, ValueError, AttributeError):  # Windows has no sysconf
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    with suppress(OSError, ValueError):  # no container, or one without a limit
        limits.append(int(_CGROUP_MEMORY_FILE.read_text()))
    return min(limits, default=None)


@contextmanager
def explain_memory_errors() -> Iterator[None]:
    """Turn a MemoryError into an error that says what to do.

    Raises
    ------
    InvalidInput
    """
    try:
        yield
    except MemoryError as error:
        raise InvalidInput(
            f"Memory ran out ({' '.join(str(error).split()) or 'the system gave no more'})",
            "Allowed: groups and features whose matrices fit: about 24 k p^2 bytes of memory",
            "Choose fewer features or groups, or pass sparse rows",
        ) from error


def check_memory(n_groups: int, n_features: int, max_memory: int | None = None) -> None:
    """Make sure that matrices of so many groups and features fit into memory.

    Parameters
    ----------
    n_groups, n_features : int
    max_memory : int, optional
        Bytes; by default all that this process may use.

    Raises
    ------
    InvalidInput
        Says what they would take, memory and time.
    """
    needed_bytes = moments_nbytes(n_groups, n_features)
    if max_memory is None and needed_bytes <= _ALWAYS_ALLOWED_BYTES:
        return
    most = memory_limit() if max_memory is None else max_memory
    if most is None or needed_bytes <= most:
        return
    seconds = _EIGH_OPERATIONS * float(n_features) ** 3 / _OPERATIONS_PER_SECOND
    raise InvalidInput(
        f"Matrices of {counted(n_groups, 'group')} and {counted(n_features, 'feature')} take about "
        f"{format_bytes(needed_bytes)} while they are made, and one eigenproblem of that size takes a core "
        f"about {_format_duration(seconds)}",
        f"Allowed: {format_bytes(most)}: "
        + ("what this machine has" if max_memory is None else "max_memory"),
        "Choose fewer features or groups; or fit the rows themselves, sparse or fewer than 0.8 p, "
        "which needs no matrices; or allow more with GroupMoments.from_rows(max_memory=BYTES) "
        "and FairPCA.fit_moments",
        cause=Cause.TOO_LARGE,
    )


def format_bytes(n_bytes: int) -> str:
    """Bytes in words, such as 1.5 GB."""
    return f"{n_bytes / 1e9:,.1f} GB" if n_bytes >= 1e8 else f"{n_bytes / 1e6:,.1f} MB"


def _format_duration(seconds: float) -> str:
    for unit, length in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.0f} {unit}"
    return f"{seconds:,.2g} seconds"
