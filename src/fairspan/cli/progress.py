"""Progress on standard error: only on a terminal, and only when it takes over two seconds."""

import sys
import time
from collections.abc import Callable, Iterator
from typing import TextIO

from fairspan.moments.sources.protocol import RowBlock, RowSource

_PATIENCE, _EVERY = 2.0, 0.2


class WithProgress:
    """The same rows, telling how many have been read.

    Parameters
    ----------
    source : RowSource
    what : str
        What is being done, such as "reading".
    """

    def __init__(
        self,
        source: RowSource,
        what: str,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.source = source
        self.what = what
        self._stream = stream
        self._clock = clock

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features, if they have any."""
        return self.source.feature_names

    @property
    def n_features(self) -> int:
        """p, the number of features."""
        return self.source.n_features

    @property
    def n_rows(self) -> int | None:
        """Number of rows, if it is known before reading."""
        return self.source.n_rows

    def selected(self, names: tuple[str, ...]) -> "WithProgress":
        """The same rows with these features, in this order."""
        return WithProgress(self.source.selected(names), self.what, self._stream, self._clock)

    def blocks(self) -> Iterator[RowBlock]:
        """Read all rows from the beginning."""
        stream = sys.stderr if self._stream is None else self._stream
        if not stream.isatty():
            yield from self.source.blocks()
            return
        shown = ""
        due = self._clock() + _PATIENCE
        try:
            for block in self.source.blocks():
                yield block
                if self._clock() >= due:
                    due = self._clock() + _EVERY
                    line = self._line(block.first_row + len(block.values))
                    stream.write("\r" + line.ljust(len(shown)))
                    stream.flush()
                    shown = line
        finally:
            if shown:
                stream.write("\r" + " " * len(shown) + "\r")
                stream.flush()

    def _line(self, done: int) -> str:
        if self.n_rows is None:
            return f"{self.what}: {done:,} rows"
        return f"{self.what}: {done:,} of {self.n_rows:,} rows ({done / self.n_rows:.0%})"
