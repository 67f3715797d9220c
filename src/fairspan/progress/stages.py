"""Long reading and computing reports its progress here, through one small protocol.

Without a listener, a stage only reads one variable.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

Item = TypeVar("Item")


@dataclass(eq=False)
class Stage:
    """Something that takes long, from `with` to its end; shown by :func:`fairspan.show_progress`.

    Attributes
    ----------
    what : str
        What is being done, such as "reading".
    total : int or None
        How many things there are, if it is known.
    unit : str
        What the things are called.
    done : int
        How many of them are done.
    is_estimate : bool
        Whether there are only about as many.
    n_eigenproblems : int
        Those that were solved in this stage and in no stage inside it.

    Examples
    --------
    >>> with Stage("fitting", 3, "criteria") as stage:
    ...     for criterion in ("a", "b", "c"):
    ...         stage.add()
    >>> stage.done
    3
    """

    what: str
    total: int | None = None
    unit: str = "steps"
    done: int = 0
    is_estimate: bool = False
    n_eigenproblems: int = field(default=0, init=False)
    _listener: "Listener | None" = field(default=None, init=False, repr=False)

    def __enter__(self) -> "Stage":
        self._listener = _LISTENER.get()
        if self._listener is not None:
            self._listener.begin(self)
        return self

    def __exit__(self, *_: object) -> None:
        if self._listener is not None:
            self._listener.end(self)

    def add(self, number: int = 1) -> None:
        """Count what was done since."""
        self.done += number
        if self._listener is not None:
            self._listener.changed()


def told(what: str, items: Sequence[Item], unit: str = "steps") -> Iterator[Item]:
    """Go through items, telling how many are done.

    Examples
    --------
    >>> list(told("fitting", ["a", "b"], "criteria"))
    ['a', 'b']
    """
    with Stage(what, len(items), unit) as stage:
        for item in items:
            yield item
            stage.add()


class Listener(Protocol):
    """Who shows stages; it may be called from several threads."""

    def begin(self, stage: Stage) -> None:
        """A stage begins, inside those that have not ended."""

    def end(self, stage: Stage) -> None:
        """A stage ends."""

    def changed(self, n_eigenproblems: int = 0) -> None:
        """Something was done, among it so many eigenproblems."""

    def hide(self) -> None:
        """Make place for a message."""


_LISTENER: ContextVar[Listener | None] = ContextVar("progress", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Report all stages inside to a listener."""
    before = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(before)


def is_listening() -> bool:
    """Whether anybody listens."""
    return _LISTENER.get() is not None


def eigenproblem_solved() -> None:
    """Report that an eigenproblem was solved, for the current stage."""
    listener = _LISTENER.get()
    if listener is not None:
        listener.changed(1)


def make_place() -> None:
    """Hide what is shown, before a message is written to the same place."""
    listener = _LISTENER.get()
    if listener is not None:
        listener.hide()
