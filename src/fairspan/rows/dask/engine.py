"""Passes over rows as Dask graphs, and a Dask cluster as an engine that reads parts of files."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from threadpoolctl import threadpool_limits

from fairspan.errors import FairspanError, InvalidParameter, imported
from fairspan.rows.engines import (
    Part,
    interruption_held,
    located,
    merged_in_order,
    result_in_worker,
)
from fairspan.rows.protocol import Fold, Result

# A task that fails is run again: disks and networks fail for a moment. Only a cluster does so.
RETRIES = 2


def literal(value: Any) -> Any:
    """A value that Dask passes to tasks unchanged, once, without looking for graphs inside it."""
    from dask.delayed import delayed

    return delayed(value, traverse=False, pure=False)


def task(function: Callable[..., Any], *arguments: Any) -> Any:
    """A call that is made where the arguments are."""
    from dask.delayed import delayed

    return delayed(function, pure=False)(*arguments)


def merged_in_pairs(fold: Any, results: Sequence[Any], what: str, first: int = 0) -> Any:
    """Merge the delayed results of neighbours, in order, until one is left.

    The shape of the tree and the result depend on the number of parts alone.

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
        starts = [first + i * width for i in pairs]
        where = [f"{what}s {start} to {start + 2 * width - 1}" for start in starts]
        merged = [
            task(_merged, fold, told, *results[i : i + 2])
            for i, told in zip(pairs, where, strict=True)
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
            "Allowed: partitions that fit into the memory of a worker, beside one result",
            "Cut X into more partitions, or give each worker more memory",
        ) from None


def _merged(
    fold: Fold[Result], where: str, left: Result | None, right: Result | None
) -> Result | None:
    with located(where), threadpool_limits(1):
        return merged_in_order(fold, (left, right))


# Parts whose results are merged on the cluster before one comes here. Not a matter of the cluster's
# size, so that any cluster gives the same bits.
_WAVE = 64
# Waves under way, so that no worker waits for the last part of one.
_WAVES_AHEAD = 2
_SECONDS_TO_CONNECT = 5


@dataclass(frozen=True)
class OnDask:
    """Reads parts on a Dask cluster, all of whose workers see the same files.

    Attributes
    ----------
    address : str or None
        Of the scheduler, such as "tcp://host:8786". None: the cluster that this process is
        connected to, else processes of this machine.
    """

    address: str | None = None

    def results(
        self, fold: Fold[Result], parts: Sequence[Part]
    ) -> Iterator[tuple[int, Result | None]]:
        """Results over waves of consecutive parts.

        Raises
        ------
        MissingDependency
            The package distributed is not installed.
        InvalidParameter
            There is no scheduler at the address.
        """
        running: deque[tuple[int, Any]] = deque()
        to_all = literal(fold)
        with survivors_only(), _connected(self.address) as client:
            try:
                for start in range(0, len(parts), _WAVE):
                    wave = parts[start : start + _WAVE]
                    results = [task(result_in_worker, to_all, literal(part)) for part in wave]
                    root = merged_in_pairs(to_all, results, "part", start)
                    running.append((len(wave), client.compute(root, retries=RETRIES)))
                    if len(running) == _WAVES_AHEAD:
                        count, future = running.popleft()
                        yield count, future.result()
                while running:
                    count, future = running.popleft()
                    yield count, future.result()
            finally:
                client.cancel([future for _, future in running])


@contextmanager
def _connected(address: str | None) -> Iterator[Any]:
    distributed = imported("distributed", "dask", "Reading on Dask")
    if address is None:
        try:
            present = distributed.default_client()
        except ValueError:  # none
            pass
        else:
            yield present
            return
        with interruption_held():
            # Any free port will do for diagnostics. Workers that end may still log that their
            # scheduler has ended; what matters is raised.
            cluster = distributed.LocalCluster(
                threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL
            )
        with cluster, distributed.Client(cluster, set_as_default=False) as client:
            yield client
        return
    with _client_of(distributed, address) as client:
        yield client


def _client_of(distributed: Any, address: str) -> Any:
    # In a thread of its own, as the caller's may run an event loop already (notebooks do).
    with ThreadPoolExecutor(1) as thread:
        reason = thread.submit(asyncio.run, _why_none_answers(distributed, address)).result()
    if reason is None:
        return distributed.Client(address, timeout=_SECONDS_TO_CONNECT, set_as_default=False)
    raise InvalidParameter(
        f"No Dask scheduler answers at {address!r} ({reason.rstrip('.')})",
        "Allowed: the address of a running scheduler, such as tcp://host:8786",
        "Start one with: dask scheduler, and workers with: dask worker tcp://host:8786",
    )


async def _why_none_answers(distributed: Any, address: str) -> str | None:
    """Ask who is there; a client that failed to connect would go on trying in the background."""
    security = distributed.Security().get_connection_args("client")
    try:
        async with (
            asyncio.timeout(_SECONDS_TO_CONNECT),
            distributed.rpc(address, connection_args=security) as there,
        ):
            await there.identity()
    except Exception as error:  # also whatever another service on that port may send
        return str(error) or f"nothing within {_SECONDS_TO_CONNECT} s"
    return None
