"""Passes over rows as Dask graphs: a task for each part, results merged in pairs where they are."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from threadpoolctl import threadpool_limits

from fairspan.errors import FairspanError
from fairspan.rows.engines import located, merged_in_order
from fairspan.rows.protocol import Fold

Result = TypeVar("Result")

# A task that fails is run again: disks and networks fail for a moment. Only a cluster does so.
RETRIES = 2


def literal(value: Any) -> Any:
    """A value that Dask hands to tasks as it is, once, without looking for graphs inside it."""
    from dask.delayed import delayed

    return delayed(value, traverse=False, pure=False)


def task(function: Callable[..., Any], *arguments: Any) -> Any:
    """A call that is made where the arguments are."""
    from dask.delayed import delayed

    return delayed(function, pure=False)(*arguments)


def merged_in_pairs(fold: Any, results: Sequence[Any], what: str, first: int = 0) -> Any:
    """Merge the delayed results of neighbours, in order, until one is left.

    The shape of the tree depends on the number of parts alone, and so do the bits of the result.

    Parameters
    ----------
    fold : delayed Fold
    results : sequence of delayed results
    what : str
        What one part is called in messages, such as "partition".
    first : int
        Number of the first part.
    """
    width = 1
    while len(results) > 1:
        pairs = range(0, len(results) - 1, 2)
        merged = [
            task(_merged, fold, _range(what, first + i * width, 2 * width), *results[i : i + 2])
            for i in pairs
        ]
        results = [*merged, *results[2 * len(pairs) :]]
        width *= 2
    return results[0]


def computed(result: Any) -> Any:
    """The value of a delayed result, by whichever scheduler is in use.

    Raises
    ------
    FairspanError
        Workers were killed over and over again.
    """
    # Held here too: where tasks are threads of this process, each of which sets and restores the
    # limit, the last one to end would restore what another had set, for good.
    with survivors_only(), threadpool_limits(1):
        return result.compute(retries=RETRIES)


@contextmanager
def survivors_only() -> Iterator[None]:
    """Say in plain words that a task has killed each worker that it was given to."""
    try:
        yield
    except Exception as error:
        if type(error).__name__ != "KilledWorker":  # of distributed, which need not be installed
            raise
        raise FairspanError(
            f"Workers of the Dask cluster were killed again and again ({error})",
            "Allowed are partitions that fit into the memory of a worker, beside one result",
            "Cut X into more partitions, or give each worker more memory",
        ) from None


def _merged(
    fold: Fold[Result], where: str, left: Result | None, right: Result | None
) -> Result | None:
    with located(where), threadpool_limits(1):
        return merged_in_order(fold, (left, right))


def _range(what: str, start: int, width: int) -> str:
    return f"{what}s {start} to {start + width - 1}"
