"""Reading the next batch while the one before is being worked on."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")


def ahead(items: Iterable[Item]) -> Iterator[Item]:
    """The same items, of which the next is fetched by another thread in the meantime.

    Decoding a file and multiplying matrices both leave Python's lock to others, so that they share
    two cores well.

    Examples
    --------
    >>> list(ahead([1, 2, 3]))
    [1, 2, 3]
    """
    source = iter(items)
    with ThreadPoolExecutor(1) as thread:
        fetched = thread.submit(_next, source)
        while item := fetched.result():
            fetched = thread.submit(_next, source)
            yield item[0]


def _next(source: Iterator[Item]) -> tuple[Item] | None:
    for item in source:
        return (item,)
    return None
