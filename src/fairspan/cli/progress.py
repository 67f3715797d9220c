"""Rows of files that tell on a terminal how many of them have been read, here or by an engine."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO, TypeVar, cast

from fairspan.cli.progress_line import ProgressLine
from fairspan.rows.engines import Engine, InThisProcess, Part
from fairspan.rows.files.file_rows import FileRows
from fairspan.rows.protocol import Fold, RowBlock

Result = TypeVar("Result")

# Bytes of a file whose lines are counted, and digits of the estimate: nobody takes it for a count.
_START, _DIGITS = 1 << 16, 2


def telling(
    rows: Any,
    what: str,
    stream: TextIO | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Any:
    """The same rows, telling how many have been read of files; others tell nothing.

    Parameters
    ----------
    rows : RowSource
    what : str
        What is being done, such as "reading".
    stream : text file, optional
        Standard error by default.
    clock : callable
        Seconds that have passed.
    """
    if not isinstance(rows, FileRows):
        return rows
    stream = sys.stderr if stream is None else stream
    engine = EngineWithProgress(rows.engine, what, rows.n_rows, stream, clock)
    return _TellingRows(rows.table, rows.chosen, engine)


@dataclass(frozen=True)
class _TellingRows(FileRows):
    """Rows that are counted where they are read one by one, as where they are read in parts."""

    def blocks(self) -> Iterator[RowBlock]:
        telling = cast(EngineWithProgress, self.engine)
        with telling.line(self.n_rows, [self]) as line:
            yield from _CountedRows(self.table, self.chosen, line=line).blocks()


@dataclass(frozen=True)
class _CountedRows(FileRows):
    """Rows that are read here, counted block by block."""

    line: ProgressLine | None = None

    def blocks(self) -> Iterator[RowBlock]:
        assert self.line is not None
        for block in super().blocks():
            yield block
            self.line.add(len(block.values) + block.n_dropped)


@dataclass(frozen=True)
class EngineWithProgress:
    """An engine that tells how many rows have been read, or parts where rows are not known.

    Attributes
    ----------
    engine : Engine
    what : str
    n_rows : int or None
        Of all parts, of which some may have been read before.
    stream : text file
    clock : callable
    """

    engine: Engine
    what: str
    n_rows: int | None
    stream: TextIO
    clock: Callable[[], float]

    def results(
        self, fold: Fold[Result], parts: Sequence[Part]
    ) -> Iterator[tuple[int, Result | None]]:
        """Results over consecutive parts, in their order."""
        files = cast(Sequence[FileRows], parts)
        known = [part.n_rows or 0 for part in parts]
        if isinstance(self.engine, InThisProcess):
            with self.line(self.n_rows, files, sum(known)) as line:
                counted = [_CountedRows(each.table, each.chosen, line=line) for each in files]
                yield from self.engine.results(fold, counted)
            return
        total, unit, done = self.n_rows, "rows", (self.n_rows or 0) - sum(known)
        if total is None:
            total, unit, done, known = len(parts), "parts", 0, [1] * len(parts)
        n_done = 0
        with ProgressLine(self.what, total, self.stream, self.clock, unit, done) as line:
            for count, result in self.engine.results(fold, parts):
                line.add(sum(known[n_done : n_done + count]))
                n_done += count
                yield count, result

    def line(
        self, n_rows: int | None, parts: Iterable[FileRows], n_left: int | None = None
    ) -> ProgressLine:
        """The line that counts rows; about how many there are where files do not tell."""
        done = 0 if n_rows is None or n_left is None else n_rows - n_left
        line = ProgressLine(self.what, n_rows, self.stream, self.clock, done=done)
        if n_rows is None and self.stream.isatty():
            line.total, line.is_estimate = estimated_rows(parts), True
        return line


def estimated_rows(sources: Iterable[FileRows]) -> int | None:
    """About how many rows there are, by the length of first lines; None where they do not tell."""
    total = 0.0
    for part in (part for source in sources for part in source.table.parts):
        n_rows = _of_lines(part.path) if part.n_rows is None else part.n_rows
        if n_rows is None:
            return None
        total += n_rows
    return int(round(total, _DIGITS - len(str(int(total)))))


def _of_lines(path: Path) -> float | None:
    try:
        with path.open("rb") as file:
            start = file.read(_START)
        size = path.stat().st_size
    except OSError:  # who reads it will say so
        return None
    n_lines = start.count(b"\n")
    if n_lines < 2 or path.suffix == ".gz":  # long lines, or no lines at all
        return None
    return size / len(start) * n_lines - 1  # without the heading
