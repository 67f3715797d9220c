"""What an interrupted pass over files leaves behind: its plan, and what it has absorbed so far."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from fairspan.errors import CorruptFile, InvalidInput
from fairspan.rows.files.file_rows import FileRows
from fairspan.rows.groups import listed
from fairspan.rows.protocol import Fold
from fairspan.rows.resuming.fingerprints import Fingerprint, differences
from fairspan.storage import archive_bytes, read_archive, remove_abandoned, replacing, writing

Result = TypeVar("Result")

_KIND = "record"


@dataclass(frozen=True)
class Plan:
    """What is read, and how.

    Attributes
    ----------
    root : Path
        The file or folder; not compared, as it may be moved.
    files : mapping of str to Fingerprint
        By path relative to the root.
    n_parts : int
    options : mapping of str to lists of text
        Columns by what they are for, and what happens to missing values.
    """

    root: Path
    files: Mapping[str, Fingerprint]
    n_parts: int
    options: Mapping[str, Sequence[str]]

    @classmethod
    def of(cls, rows: FileRows) -> "Plan":
        """Plan to read these rows."""
        root, chosen = rows.table.path, rows.chosen
        paths = dict.fromkeys(part.path for part in rows.table.parts)
        return cls(
            root,
            {_name(path, root): Fingerprint.of(path) for path in paths},
            len(rows.table.parts),
            {
                "features": list(chosen.feature_names),
                "groups": list(chosen.groups),
                "weight": [] if chosen.weight is None else [chosen.weight],
                "on_missing": [chosen.on_missing],
                "everyone": [] if chosen.everyone is None else [chosen.everyone],
            },
        )

    def fingerprint(self, path: Path) -> Fingerprint:
        """What a file was when the plan was made."""
        return self.files[_name(path, self.root)]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {"files": self.files, "n_parts": self.n_parts, "options": self.options}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], root: Path) -> "Plan":
        """The plan again.

        Raises
        ------
        KeyError, TypeError, AttributeError
            These are not the values of a plan.
        """
        files = {name: Fingerprint(*each) for name, each in values["files"].items()}
        return cls(root, files, values["n_parts"], dict(values["options"]))

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
    path : Path
    plan : Plan
    """

    path: Path
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
        if not self.path.exists():
            return 0, None
        try:
            header, arrays = read_archive(self.path, _KIND)
            plan = Plan.from_dict(header["plan"], self.plan.root)
            n_done, contents = int(header["n_done"]), arrays["result"].tobytes()
            result = fold.from_bytes(contents) if contents else None
        except (CorruptFile, KeyError, TypeError, ValueError, AttributeError) as error:
            raise self._corrupt(error) from error
        if changes := list(plan.changes(self.plan)):
            raise InvalidInput(
                f"{self.path} was begun with other files or choices ({'; '.join(changes)})",
                "Allowed is to go on with the same files and choices",
                f"Delete {self.path} to start over",
            )
        if not 0 <= n_done <= self.plan.n_parts == plan.n_parts:
            raise self._corrupt(ValueError(f"{n_done} parts of {self.plan.n_parts}"))
        return n_done, result

    def write(self, fold: Fold[Result], n_done: int, result: Result | None) -> None:
        """Replace the record; what stood there stays until the new one is complete.

        Raises
        ------
        InvalidParameter
            It cannot be written: the disk is full, for example.
        """
        header = {"plan": self.plan.to_dict(), "n_done": n_done}
        contents = b"" if result is None else fold.to_bytes(result)
        array = np.frombuffer(contents, dtype=np.uint8)
        write_whole(self.path, archive_bytes(_KIND, header, {"result": array}))

    def _corrupt(self, reason: Exception) -> CorruptFile:
        said = reason.args[0] if isinstance(reason, CorruptFile) else f"{self.path}: {reason!r}"
        return CorruptFile(
            f"The record of an interrupted run is damaged: {said}",
            "Allowed is the file as fairspan wrote it",
            f"Delete {self.path} to start over",
        )


def write_whole(path: Path, contents: bytes) -> None:
    """Write a file that appears only when it is complete; several processes may do so at once.

    Raises
    ------
    InvalidParameter
        It cannot be written: the disk is full, for example.
    """
    with writing(path):
        remove_abandoned(path)
        with replacing(path, unique=True) as partial:
            partial.write_bytes(contents)


def _name(path: Path, root: Path) -> str:
    return path.name if path == root else path.relative_to(root).as_posix()
