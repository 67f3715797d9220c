"""An engine that records what was read of files, so that another process can go on from there."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar, cast

from threadpoolctl import threadpool_limits

from fairspan.errors import FairspanError
from fairspan.rows.engines import Engine, Part, merged_in_order
from fairspan.rows.files.file_rows import FileRows
from fairspan.rows.protocol import Fold
from fairspan.rows.resuming.fingerprints import check_not_changed
from fairspan.rows.resuming.records import Plan, Record

Result = TypeVar("Result")

# Recording after each part may take this share of the time.
_SHARE_OF_RECORDING = 0.1


def recorded(rows: FileRows, path: Path) -> FileRows:
    """The same rows, whose passes are recorded at this path part by part.

    A pass raises InvalidInput where the record belongs to other files or choices, or where a file
    changed while it was read; CorruptFile where the record is damaged.
    """
    return replace(rows, engine=Recording(rows.engine, path))


@dataclass(frozen=True)
class Recording:
    """Reads parts with another engine, and records their merged result.

    Attributes
    ----------
    engine : Engine
        Reads the parts.
    path : Path
        Where to record what was absorbed.
    """

    engine: Engine
    path: Path

    def results(
        self, fold: Fold[Result], parts: Sequence[Part]
    ) -> Iterator[tuple[int, Result | None]]:
        """One result over all parts, of those too that were recorded before.

        The same bits as without an interruption, however many processes read before and after.
        """
        rows = cast(Sequence[FileRows], parts)
        if not rows:
            return
        files = tuple(file for part in rows for file in part.table.parts)
        plan = Plan.of(replace(rows[0], table=replace(rows[0].table, parts=files)))
        record = Record(self.path, plan)
        saved = record.read(fold)
        n_done, result = saved
        due = time.monotonic()
        # In worker processes it is one thread each, and threads may share out sums differently.
        with threadpool_limits(1):
            for count, more in self._remaining(fold, rows[n_done:], plan):
                result = merged_in_order(fold, [more], result)
                n_done += count
                _check_unchanged(rows[n_done - count : n_done], plan)
                if (started := time.monotonic()) >= due:
                    record.write(fold, n_done, result)
                    now = time.monotonic()
                    due = now + (now - started) * (1 / _SHARE_OF_RECORDING - 1)
        yield len(rows), result

    def _remaining(
        self, fold: Fold[Result], parts: Sequence[FileRows], plan: Plan
    ) -> Iterator[tuple[int, Result | None]]:
        try:
            yield from self.engine.results(fold, parts)
        except FairspanError:
            # A file that is being written to breaks in many ways, all for one reason.
            _check_unchanged(parts, plan)
            raise


def _check_unchanged(parts: Sequence[FileRows], plan: Plan) -> None:
    for part in parts:
        for file in part.table.parts:
            check_not_changed(file.path, plan.fingerprint(file.path))
