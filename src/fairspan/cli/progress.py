"""Rows that tell on a terminal how many of them have been read, here or by an engine."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TextIO, TypeVar

from fairspan.cli.progress_line import ProgressLine
from fairspan.cli.row_estimate import estimated_rows
from fairspan.rows.engines import Engine, InThisProcess, Part
from fairspan.rows.files.file_rows import FileRows
from fairspan.rows.protocol import Fold, RowBlock, RowSource

Result = TypeVar("Result")


class _SameRows:
    """The features and the number of rows that a source has."""

    source: RowSource

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


@dataclass(frozen=True)
class WithProgress(_SameRows):
    """The same rows, telling how many have been read.

    Attributes
    ----------
    source : RowSource
    what : str
        What is being done, such as "reading".
    """

    source: RowSource
    what: str
    stream: TextIO | None = None
    clock: Callable[[], float] = time.monotonic

    @property
    def group_columns(self) -> tuple[Any, ...]:
        """Names of the columns that make the groups; none where they have no names."""
        return tuple(getattr(self.source, "group_columns", ()))

    @property
    def n_parts(self) -> int:
        """Number of parts."""
        return int(getattr(self.source, "n_parts", 1))

    def selected(self, names: tuple[str, ...]) -> "WithProgress":
        """The same rows with these features, in this order."""
        return replace(self, source=self.source.selected(names))

    def blocks(self) -> Iterator[RowBlock]:
        """Read all rows from the beginning, here."""
        stream = _terminal(self.stream)
        total, is_estimate = self.n_rows, False
        if total is None and stream.isatty() and isinstance(self.source, FileRows):
            total, is_estimate = estimated_rows([self.source]), True
        line = ProgressLine(self.what, total, stream, self.clock, is_estimate=is_estimate)
        with line:
            yield from _counted(self.source.blocks(), line)

    def folded(self, fold: Fold[Result]) -> Result | None:
        """The fold's result over all rows, read where they are; None if there are none."""
        if isinstance(self.source, FileRows):
            return replace(self.source, engine=self.engine(self.source)).folded(fold)
        return fold.over(self)

    def engine(self, rows: FileRows) -> "EngineWithProgress":
        """The engine of these rows, telling the same."""
        return EngineWithProgress(rows.engine, self.what, rows.n_rows, self.stream, self.clock)


@dataclass(frozen=True)
class EngineWithProgress:
    """An engine that tells how many rows have been read, or parts where rows are not known.

    Attributes
    ----------
    engine : Engine
    what : str
    n_rows : int or None
        Of all parts, of which some may have been read before.
    """

    engine: Engine
    what: str
    n_rows: int | None
    stream: TextIO | None = None
    clock: Callable[[], float] = field(default=time.monotonic)

    def results(
        self, fold: Fold[Result], parts: Sequence[Part]
    ) -> Iterator[tuple[int, Result | None]]:
        """Results over consecutive parts, in their order."""
        is_here = isinstance(self.engine, InThisProcess)
        known = [part.n_rows or 0 for part in parts]
        if self.n_rows is not None:
            line = self._line(self.n_rows, "rows", self.n_rows - sum(known))
        elif is_here:
            is_seen = _terminal(self.stream).isatty()
            line = self._line(estimated_rows(parts) if is_seen else None, "rows", 0)
            line.is_estimate = True
        else:
            line, known = self._line(len(parts), "parts", 0), [1] * len(parts)
        with line:
            if is_here:
                yield from self.engine.results(fold, [_CountedPart(part, line) for part in parts])
                return
            n_done = 0
            for count, result in self.engine.results(fold, parts):
                line.add(sum(known[n_done : n_done + count]))
                n_done += count
                yield count, result

    def _line(self, total: int | None, unit: str, done: int) -> ProgressLine:
        return ProgressLine(self.what, total, _terminal(self.stream), self.clock, unit, done)


@dataclass(frozen=True)
class _CountedPart(_SameRows):
    """A part that is read here, counted block by block."""

    source: Part
    line: ProgressLine

    @property
    def where(self) -> str:
        return self.source.where

    def selected(self, names: tuple[str, ...]) -> RowSource:
        return self.source.selected(names)

    def blocks(self) -> Iterator[RowBlock]:
        return _counted(self.source.blocks(), self.line)


def _counted(blocks: Iterator[RowBlock], line: ProgressLine) -> Iterator[RowBlock]:
    for block in blocks:
        yield block
        line.add(len(block.values) + block.n_dropped)


def _terminal(stream: TextIO | None) -> TextIO:
    return sys.stderr if stream is None else stream
