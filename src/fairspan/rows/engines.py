"""Passes over rows that may be read in parts, and the engines that read the parts."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, TypeVar

from threadpoolctl import threadpool_limits

from fairspan.errors import FairspanError
from fairspan.rows.protocol import Fold, PartedRows, Rows, RowSource

Result = TypeVar("Result")


class Part(RowSource, Protocol):
    """Rows that are read at once; a plain value that can be sent to another process."""

    @property
    def where(self) -> str:
        """What the part is called in messages."""


class Engine(Protocol):
    """Reads parts and hands back results."""

    def results(
        self, fold: Fold[Result], parts: Sequence[Part]
    ) -> Iterator[tuple[int, Result | None]]:
        """Results over consecutive parts, in their order: how many parts each is for, and it.

        The same parts give the same bits, wherever and in whichever order they are read.
        """


class InThisProcess:
    """Reads one part after the other."""

    def results(
        self, fold: Fold[Result], parts: Sequence[Part]
    ) -> Iterator[tuple[int, Result | None]]:
        """Results over each part."""
        for part in parts:
            with located(part.where):
                yield 1, fold.over(part)


def result_in_worker(fold: Fold[Result], part: Part) -> Result | None:
    """What a worker does with a part: one of several at work, so with one thread.

    Linear algebra that starts a thread for each core in each of several workers is many times
    slower.
    """
    with located(part.where), threadpool_limits(1):
        return fold.over(part)


def total(engine: Engine, fold: Fold[Result], parts: Sequence[Part]) -> Result | None:
    """The fold's result over all parts; None if there are no rows."""
    result: Result | None = None
    n_done = 0
    for count, more in engine.results(fold, parts):
        with located(parts[n_done].where):  # where it does not fit to what came before
            result = merged_in_order(fold, [more], result)
        n_done += count
    return result


@contextmanager
def located(where: str) -> Iterator[None]:
    """Say in errors where the rows are that they are about."""
    try:
        yield
    except FairspanError as error:
        received, *rest = error.args
        if where in received:
            raise
        raise type(error)(f"{where}: {received}", *rest) from error


def folded(rows: Rows, fold: Fold[Result]) -> Result | None:
    """Pass over all rows, wherever they are; None if there are none."""
    return rows.folded(fold) if isinstance(rows, PartedRows) else fold.over(rows)


def merged_in_order(
    fold: Fold[Result], results: Iterable[Result | None], start: Result | None = None
) -> Result | None:
    """Merge results from left to right, which is the same however they were computed."""
    total = start
    for result in results:
        if total is None or result is None:
            total = result if total is None else total
        else:
            total = fold.merged(total, result)
    return total
