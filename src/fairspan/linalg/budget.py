"""The memory of the groups' matrices, computed from their shape before any of them is made."""

import os
from contextlib import suppress
from pathlib import Path

from fairspan.errors import InvalidInput, warn

# Matrices of each group that are held at once while moments are made: measured, 2.3 to 2.9.
_AT_ONCE = 3
_BYTES_OF_A_NUMBER = 8
# So much is never refused unless a limit is given: looking at the machine would take longer.
_NEVER_REFUSED = 2**30
# Steps of one eigenproblem for p^3, and what a core does of them in a second.
_STEPS, _STEPS_A_SECOND = 10, 2e10
_LONG_SECONDS = 60.0
_CGROUP = Path("/sys/fs/cgroup/memory.max")


def bytes_of_moments(n_groups: int, n_features: int) -> int:
    """Memory that making k matrices of p x p numbers takes.

    Examples
    --------
    >>> bytes_of_moments(2, 1000)
    48000000
    """
    return _AT_ONCE * _BYTES_OF_A_NUMBER * n_groups * n_features**2


def tell_if_long(n_rows: int | None, n_features: int) -> None:
    """Warn beforehand where a machine like this makes the moments of rows for over a minute."""
    # n p^2 multiplications and as many additions, shared by all cores.
    n_steps = 2.0 * (n_rows or 0) * float(n_features) ** 2
    seconds = n_steps / _STEPS_A_SECOND / (os.cpu_count() or 1)
    if seconds > _LONG_SECONDS:
        warn(
            f"Moments of {n_rows:,} rows and {n_features:,} features take a machine like this "
            f"about {_in_time(seconds)}: the time grows with the square of the number of features. "
            "Fewer features, sparse rows, a sample of the rows, or a cluster (docs/scale.md) take "
            "less."
        )


def memory_of_machine() -> int | None:
    """Bytes that this process may use; None if the system does not say."""
    found = []
    with suppress(OSError, ValueError, AttributeError):  # Windows has no sysconf
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    with suppress(OSError, ValueError):  # no container, or one without a limit
        found.append(int(_CGROUP.read_text()))
    return min(found, default=None)


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
    needed = bytes_of_moments(n_groups, n_features)
    if max_memory is None and needed <= _NEVER_REFUSED:
        return
    most = memory_of_machine() if max_memory is None else max_memory
    if most is None or needed <= most:
        return
    seconds = _STEPS * float(n_features) ** 3 / _STEPS_A_SECOND
    raise InvalidInput(
        f"Matrices of {n_groups:,} group(s) and {n_features:,} features take about "
        f"{in_units(needed)} while they are made, and one eigenproblem of that size takes a core "
        f"about {_in_time(seconds)}",
        f"Allowed: {in_units(most)}: "
        + ("what this machine has" if max_memory is None else "max_memory"),
        "Choose fewer features or groups; or fit the rows themselves, sparse or fewer than 0.8 p, "
        "which needs no matrices; or allow more with GroupMoments.from_rows(max_memory=BYTES) "
        "and FairPCA.fit_moments, or with --max-memory on the command line",
    )


def in_units(n_bytes: int) -> str:
    """Bytes in words, such as 1.5 GB."""
    return f"{n_bytes / 1e9:,.1f} GB" if n_bytes >= 1e8 else f"{n_bytes / 1e6:,.1f} MB"


def _in_time(seconds: float) -> str:
    for unit, length in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.0f} {unit}"
    return f"{seconds:,.2g} seconds"
