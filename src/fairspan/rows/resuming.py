"""Passes over files that continue where they were interrupted.

A pass leaves a record behind: its plan (which files, which columns), and what it has absorbed so
far. An engine that records can then continue from there, in another process.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np
from threadpoolctl import threadpool_limits

from fairspan.errors import FairspanError, InvalidInput
from fairspan.rows.engines import Engine, Part, merged_in_order
from fairspan.rows.files.file_rows import FileRows
from fairspan.rows.fingerprint import FileState, differences
from fairspan.rows.groups import listed
from fairspan.rows.protocol import Fold, Result
from fairspan.storage import RECORD, HeldFile, NotAllowed, archive_bytes, read_archive

# Recording after each part may take this share of the time.
_SHARE_OF_RECORDING = 0.1


@dataclass(frozen=True)
class Plan:
    """What is read, and how.

    Attributes
    ----------
    root : Path
        The file or folder; not compared, as it may be moved.
    files : mapping of str to FileState
        By path relative to the root.
    n_parts : int
    options : mapping of str to lists of text
        Columns by what they are for, and what happens to missing values.
    """

    root: Path
    files: Mapping[str, FileState]
    n_parts: int
    options: Mapping[str, Sequence[str]]

    @classmethod
    def of(cls, rows: FileRows) -> "Plan":
        """Plan to read these rows."""
        root, chosen = rows.table.path, rows.chosen
        paths = dict.fromkeys(part.path for part in rows.table.parts)
        return cls(
            root,
            {_name(path, root): FileState.of(path) for path in paths},
            len(rows.table.parts),
            {
                "features": list(chosen.feature_names),
                "groups": list(chosen.groups),
                "weight": [] if chosen.weight is None else [chosen.weight],
                "on_missing": [chosen.on_missing],
                "format": rows.table.parts[0].choices,
                "everyone": [] if chosen.everyone is None else [chosen.everyone],
            },
        )

    def state(self, path: Path) -> FileState:
        """What a file was when the plan was made."""
        return self.files[_name(path, self.root)]

    def changes(self, now: "Plan") -> Iterator[str]:
        """In words, how another plan differs from this one."""
        yield from differences(self.files, now.files)
        for name, chosen in now.options.items():
            before = self.options.get(name, [])
            if list(before) != list(chosen):
                yield f"{name}: was {listed(before) or 'none'}, is {listed(chosen) or 'none'}"


@dataclass(frozen=True)
class Record:
    """A file that holds a plan, the number of parts absorbed, and their result.

    Attributes
    ----------
    file : HeldFile
    plan : Plan
    """

    file: HeldFile
    plan: Plan

    def read(self, fold: Fold[Result]) -> tuple[int, Result | None]:
        """Parts done and the fold's result over them; zero and None where there is no record.

        Raises
        ------
        InvalidInput
            It belongs to another plan; what differs is named.
        CorruptFile
            It is damaged or of another kind.
        """
        path = self.file.path
        if self.file.is_empty():
            return 0, None
        header, arrays = read_archive(path, RECORD)
        stored, n_done = header["plan"], header["n_done"]
        files = {name: FileState(*each) for name, each in stored["files"].items()}
        plan = Plan(self.plan.root, files, stored["n_parts"], stored["options"])
        if changes := list(plan.changes(self.plan)):
            raise InvalidInput(
                f"{path} was begun with other files or choices ({'; '.join(changes)})",
                "Allowed: to go on with the same files and choices",
                f"Delete {path} to start over",
            )
        if not n_done <= self.plan.n_parts == plan.n_parts:
            many = NotAllowed("n_done", f"is {n_done} parts of {plan.n_parts}", "a part of them")
            raise RECORD.refusal(str(path), many)
        try:
            contents = arrays["result"].tobytes()
            return n_done, fold.from_bytes(contents) if contents else None
        except (ValueError, TypeError, IndexError, KeyError) as error:
            wrong = NotAllowed("result", f"is damaged ({error})", "what was absorbed")
            raise RECORD.refusal(str(path), wrong) from error

    def write(self, fold: Fold[Result], n_done: int, result: Result | None) -> None:
        """Replace the record; what stood there stays until the new one is complete.

        Raises
        ------
        InvalidParameter
            It cannot be written: the disk is full, for example.
        """
        own = self.plan
        plan = {"files": own.files, "n_parts": own.n_parts, "options": own.options}
        header = {"plan": plan, "n_done": n_done}
        contents = b"" if result is None else fold.to_bytes(result)
        array = np.frombuffer(contents, dtype=np.uint8)
        self.file.replace(archive_bytes(RECORD.kind, header, {"result": array}))


def recorded(rows: FileRows, file: HeldFile) -> FileRows:
    """The same rows, whose passes are recorded in this file part by part.

    A pass raises InvalidInput where another run holds the record, where it belongs to other files
    or choices, or where a file changed while it was read; CorruptFile where the record is damaged.
    """
    return replace(rows, engine=Recording(rows.engine, file))


@dataclass(frozen=True)
class Recording:
    """Reads parts with another engine, and records their merged result.

    Attributes
    ----------
    engine : Engine
        Reads the parts.
    file : HeldFile
        Where to record what was absorbed.
    """

    engine: Engine
    file: HeldFile

    def results(
        self, fold: Fold[Result], parts: Sequence[Part]
    ) -> Iterator[tuple[int, Result | None]]:
        """One result over all parts, of those too that were recorded before.

        The same result as without an interruption, however many processes read before and after.
        """
        rows = cast(Sequence[FileRows], parts)
        if not rows:
            return
        files = tuple(file for part in rows for file in part.table.parts)
        plan = Plan.of(replace(rows[0], table=replace(rows[0].table, parts=files)))
        record = Record(self.file, plan)
        due = time.monotonic()
        # In worker processes it is one thread each, and threads may share out sums differently.
        with self.file, threadpool_limits(1):
            saved = record.read(fold)
            n_done, result = saved
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
            plan.state(file.path).check(file.path)


def _name(path: Path, root: Path) -> str:
    return path.name if path == root else path.relative_to(root).as_posix()
