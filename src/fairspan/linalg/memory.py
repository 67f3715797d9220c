"""Memory for the matrices of the groups, computed from shapes before any matrix is allocated."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fairspan.errors import Cause, InvalidInput, warn
from fairspan.formatting.messages import counted

# p x p matrices per group in memory while moments are computed (measured: 2.3 to 2.9).
_MATRICES_PER_GROUP = 3
# Always allowed unless `max_memory` is set; querying the machine would take longer.
_ALWAYS_ALLOWED_BYTES = 2**30
# Operations of one eigendecomposition, divided by p^3.
_EIGH_OPERATIONS = 10
# Floating-point operations of one core per second, for rough estimates in messages.
_OPERATIONS_PER_SECOND = 2e10
# Duration from which a computation is announced by a warning.
_SLOW_SECONDS = 60.0
_CGROUP_MEMORY_FILE = Path("/sys/fs/cgroup/memory.max")


def moments_nbytes(n_groups: int, n_features: int) -> int:
    """Peak memory for computing the moments of k groups with p features, in bytes.

    Examples
    --------
    >>> moments_nbytes(2, 1000)
    48000000
    """
    return _MATRICES_PER_GROUP * 8 * n_groups * n_features**2


def warn_if_slow(n_rows: int | None, n_features: int) -> None:
    """Warn before moments are computed if this machine needs more than about a minute.

    There is no warning if the number of rows is unknown (None).
    """
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
    # None if the system does not report its memory.
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
        "0.8 p, which needs no matrices; or allow more memory",
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
