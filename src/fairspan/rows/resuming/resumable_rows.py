"""A pass over files that goes on where it was interrupted, to the same bytes."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from threadpoolctl import threadpool_limits

from fairspan.errors import FairspanError
from fairspan.rows.engines import merged_in_order
from fairspan.rows.files.file_rows import FileRows
from fairspan.rows.protocol import Fold
from fairspan.rows.resuming.fingerprints import check_not_changed
from fairspan.rows.resuming.records import Plan, Record

Result = TypeVar("Result")

# Recording after each part may take this share of the time.
_SHARE_OF_RECORDING = 0.1


@dataclass(frozen=True)
class ResumableRows:
    """Rows of files whose pass is recorded part by part, for another process to go on with.

    Attributes
    ----------
    rows : FileRows
        Their engine reads the parts.
    path : Path
        Where to record what was absorbed.
    """

    rows: FileRows
    path: Path

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features."""
        return self.rows.feature_names

    @property
    def n_features(self) -> int:
        """p, the number of features."""
        return self.rows.n_features

    @property
    def n_rows(self) -> int | None:
        """Number of rows, if it is known before reading."""
        return self.rows.n_rows

    @property
    def group_columns(self) -> tuple[str, ...]:
        """Names of the columns that make the groups."""
        return self.rows.group_columns

    @property
    def n_parts(self) -> int:
        """Number of parts."""
        return self.rows.n_parts

    def selected(self, names: tuple[str, ...]) -> "ResumableRows":
        """The same rows with these features, in this order."""
        return replace(self, rows=self.rows.selected(names))

    def folded(self, fold: Fold[Result]) -> Result | None:
        """The fold's result over all parts; None if there are no rows.

        The same bits as without an interruption, however many processes read before and after.

        Raises
        ------
        InvalidInput
            The record belongs to other files or choices, or a file changed while it was read.
        CorruptFile
            The record is damaged.
        """
        plan = Plan.of(self.rows)
        record = Record(self.path, plan)
        saved = record.read(fold)
        n_done, result = saved
        parts = self.rows.parts
        due = time.monotonic()
        # In worker processes it is one thread each, and threads may share out sums differently.
        with threadpool_limits(1):
            for count, more in self._results(fold, parts[n_done:], plan):
                result = merged_in_order(fold, [more], result)
                n_done += count
                self._check_unchanged(parts[n_done - count : n_done], plan)
                if (started := time.monotonic()) >= due:
                    record.write(fold, n_done, result)
                    now = time.monotonic()
                    due = now + (now - started) * (1 / _SHARE_OF_RECORDING - 1)
        return result

    def _results(
        self, fold: Fold[Result], parts: Sequence[FileRows], plan: Plan
    ) -> Iterator[tuple[int, Result | None]]:
        try:
            yield from self.rows.engine.results(fold, parts)
        except FairspanError:
            # A file that is being written to breaks in many ways, all for one reason.
            self._check_unchanged(parts, plan)
            raise

    def _check_unchanged(self, parts: Sequence[FileRows], plan: Plan) -> None:
        for part in parts:
            for file in part.table.parts:
                check_not_changed(file.path, plan.fingerprint(file.path))
