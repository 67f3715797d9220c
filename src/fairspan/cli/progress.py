"""How far reading has come, in one line on standard error: rows of files, here or by an engine."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO, TypeVar, cast

from fairspan.cli.terminal import width_of
from fairspan.rows.engines import Engine, InThisProcess, Part
from fairspan.rows.files.file_rows import FileRows
from fairspan.rows.protocol import Fold, RowBlock

_PERIODS = ((1, "s"), (60, "min"), (3600, "h"))
_UNITS = ((1e9, " G"), (1e6, " M"), (1e3, " k"))


@dataclass
class ProgressLine:
    """A line that is rewritten as things get done, and cleared in the end.

    Attributes
    ----------
    what : str
        What is being done, such as "reading".
    total : int or None
        How many things there are, if it is known.
    stream : text file
        Nothing is written where it is no terminal.
    clock : callable
        Seconds that have passed.
    unit : str
        What the things are called.
    done : int
        How many of them were done before.
    is_estimate : bool
        Whether there are only about as many.
    """

    what: str
    total: int | None
    stream: TextIO
    clock: Callable[[], float] = time.monotonic
    unit: str = "rows"
    done: int = 0
    is_estimate: bool = False
    _shown: str = field(default="", init=False)

    def __enter__(self) -> "ProgressLine":
        self._is_seen = self.stream.isatty()
        if self._is_seen:
            self._before, self._begun = self.done, self.clock()
            self._due = self._begun + _PATIENCE
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            self.stream.write("\r" + " " * len(self._shown) + "\r")
            self.stream.flush()

    def add(self, number: int) -> None:
        """Count what was done since."""
        self.done += number
        if not self._is_seen:
            return
        now = self.clock()
        if now >= self._due:
            self._due = now + _EVERY
            line = self._text(now - self._begun, width_of(self.stream) - 1)
            self.stream.write("\r" + line.ljust(len(self._shown)))
            self.stream.flush()
            self._shown = line

    def _text(self, seconds: float, width: int) -> str:
        """The most that fits: the time left is the last to go."""
        rate = (self.done - self._before) / seconds if seconds > 0 else 0.0
        speed = [_per_time(rate, self.unit)] if rate else []
        if not self.total or (self.is_estimate and self.done > self.total):
            counted, brief, left = f"{self.done:,} {self.unit}", f"{self.done:,} {self.unit}", []
        else:
            about = "about " if self.is_estimate else ""
            brief = f"{100 * min(self.done / self.total, 1.0):.0f} %"
            counted = f"{self.done:,} of {about}{self.total:,} {self.unit} ({brief})"
            left = [f"{duration((self.total - self.done) / rate)} left"] if rate else []
        for parts in ([counted, *speed, *left], [brief, *speed, *left], [brief, *left]):
            text = f"{self.what}: {', '.join(parts)}"
            if len(text) <= width:
                return text
        return text[:width]


def _per_time(rate: float, unit: str) -> str:
    """How many there are in a second, or where they are few in a minute or an hour.

    Examples
    --------
    >>> _per_time(730.0, "rows"), _per_time(0.1, "parts"), _per_time(0.01, "files")
    ('730 rows/s', '6 parts/min', '36 files/h')
    """
    number, period = next(
        ((rate * seconds, name) for seconds, name in _PERIODS if rate * seconds >= 1),
        (rate * _PERIODS[-1][0], _PERIODS[-1][1]),
    )
    return f"{_shortened(number)} {unit}/{period}"


def _shortened(number: float) -> str:
    """At most three digits, and a unit.

    Examples
    --------
    >>> _shortened(2_130_000.0), _shortened(750_000.0), _shortened(730.0)
    ('2.1 M', '750 k', '730')
    """
    for size, name in _UNITS:
        if number >= size:
            return f"{number / size:.{1 if number < 10 * size else 0}f}{name}"
    return f"{number:.0f}"


def duration(seconds: float) -> str:
    """Seconds, minutes or hours.

    Examples
    --------
    >>> duration(12.6), duration(100), duration(9000)
    ('13 s', '2 min', '2.5 h')
    """
    if seconds < 90:
        return f"{max(seconds, 0):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


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


# Seconds before the line appears, and between two of its states.
_PATIENCE, _EVERY = 2.0, 0.2
