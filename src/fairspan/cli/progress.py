"""Rows of files that report how many of them have been read, here or by an engine."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

from fairspan.progress import Stage, is_shown
from fairspan.rows.engines import Engine, InThisProcess, Part
from fairspan.rows.files.file_rows import FileRows
from fairspan.rows.protocol import Fold, RowBlock

Result = TypeVar("Result")

# Bytes of a file whose lines are counted, and digits of the estimate: nobody takes it for a count.
_START, _DIGITS = 1 << 16, 2


def telling(rows: Any, what: str) -> Any:
    """The same rows, with reports of how many have been read from files; other rows report nothing.

    Parameters
    ----------
    rows : RowSource
    what : str
        What is being done, such as "reading".
    """
    if not isinstance(rows, FileRows):
        return rows
    engine = EngineWithProgress(rows.engine, what, rows.n_rows)
    return _TellingRows(rows.table, rows.chosen, engine)


@dataclass(frozen=True)
class _TellingRows(FileRows):
    """Rows that are counted where they are read one by one, as where they are read in parts."""

    def blocks(self) -> Iterator[RowBlock]:
        telling = cast(EngineWithProgress, self.engine)
        with telling.stage(self.n_rows, [self]) as stage:
            yield from _CountedRows(self.table, self.chosen, stage=stage).blocks()


@dataclass(frozen=True)
class _CountedRows(FileRows):
    """Rows that are read here, counted block by block."""

    stage: Stage | None = None

    def blocks(self) -> Iterator[RowBlock]:
        assert self.stage is not None
        for block in super().blocks():
            yield block
            self.stage.add(len(block.values) + block.n_dropped)


@dataclass(frozen=True)
class EngineWithProgress:
    """An engine that reports how many rows have been read, or parts if rows are not known.

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

    def results(
        self, fold: Fold[Result], parts: Sequence[Part]
    ) -> Iterator[tuple[int, Result | None]]:
        """Results over consecutive parts, in their order."""
        files = cast(Sequence[FileRows], parts)
        known = [part.n_rows or 0 for part in parts]
        if isinstance(self.engine, InThisProcess):
            with self.stage(self.n_rows, files, sum(known)) as stage:
                counted = [_CountedRows(each.table, each.chosen, stage=stage) for each in files]
                yield from self.engine.results(fold, counted)
            return
        total, unit, done = self.n_rows, "rows", (self.n_rows or 0) - sum(known)
        if total is None:
            total, unit, done, known = len(parts), "parts", 0, [1] * len(parts)
        n_done = 0
        with Stage(self.what, total, unit, done) as stage:
            for count, result in self.engine.results(fold, parts):
                stage.add(sum(known[n_done : n_done + count]))
                n_done += count
                yield count, result

    def stage(
        self, n_rows: int | None, parts: Iterable[FileRows], n_left: int | None = None
    ) -> Stage:
        """The stage that counts rows; an estimate of their number if files do not store it."""
        done = 0 if n_rows is None or n_left is None else n_rows - n_left
        stage = Stage(self.what, n_rows, "rows", done)
        if n_rows is None and is_shown():
            stage.total = estimated_rows(parts)
        return stage


def estimated_rows(sources: Iterable[FileRows]) -> int | None:
    """About how many rows there are, by the length of first lines; None if this is not known."""
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
