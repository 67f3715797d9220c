"""Parts read by the workers of a Dask cluster."""

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from socket import create_connection
from typing import Any, TypeVar

from fairspan.errors import InvalidParameter, MissingDependency
from fairspan.moments.engines.dask_tree import (
    RETRIES,
    literal,
    merged_in_pairs,
    survivors_only,
    task,
)
from fairspan.moments.engines.protocol import Part, result_in_worker
from fairspan.moments.sources.protocol import Fold

Result = TypeVar("Result")

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
        with survivors_only(), _connected(self.address) as client:
            try:
                for start in range(0, len(parts), _WAVE):
                    wave = parts[start : start + _WAVE]
                    running.append((len(wave), _submitted(client, fold, wave, start)))
                    if len(running) == _WAVES_AHEAD:
                        count, future = running.popleft()
                        yield count, future.result()
                while running:
                    count, future = running.popleft()
                    yield count, future.result()
            finally:
                client.cancel([future for _, future in running])


def _submitted(client: Any, fold: Fold[Result], parts: Sequence[Part], first: int) -> Any:
    to_all = literal(fold)
    results = [task(result_in_worker, to_all, literal(part)) for part in parts]
    root = merged_in_pairs(to_all, results, "part", first)
    return client.compute(root, retries=RETRIES)


@contextmanager
def _connected(address: str | None) -> Iterator[Any]:
    try:
        distributed: Any = import_module("distributed")
    except ImportError as error:
        raise MissingDependency.for_extra("distributed", "dask", "Reading on Dask") from error
    if address is None:
        try:
            present = distributed.default_client()
        except ValueError:  # none
            pass
        else:
            yield present
            return
        with (
            distributed.LocalCluster(threads_per_worker=1, dashboard_address=None) as cluster,
            distributed.Client(cluster, set_as_default=False) as client,
        ):
            yield client
        return
    with _client_of(distributed, address) as client:
        yield client


def _client_of(distributed: Any, address: str) -> Any:
    reason = _why_none_answers(distributed, address)
    if reason is None:
        try:
            return distributed.Client(address, timeout=_SECONDS_TO_CONNECT, set_as_default=False)
        except Exception as error:  # whatever another service on that port has sent
            reason = f"what is there is no scheduler: {error}"
    # Outside of the handler: the network layer's own errors would be shown above this one.
    raise InvalidParameter(
        f"No Dask scheduler answers at {address!r} ({reason.rstrip('.')})",
        "Allowed is the address of a running scheduler, such as tcp://host:8786",
        "Start one with: dask scheduler, and workers with: dask worker tcp://host:8786",
    )


def _why_none_answers(distributed: Any, address: str) -> str | None:
    """Try the address first: a client that failed to connect goes on trying for a while."""
    try:
        host, port = distributed.comm.get_address_host_port(address)
        create_connection((host, port), timeout=_SECONDS_TO_CONNECT).close()
    except (OSError, ValueError, OverflowError) as error:
        return str(error)
    return None
