"""Folders of moments: a complete file for each file of rows, and a manifest of all of them.

A run that was interrupted continues with the files that are missing. The manifest records which
files of rows the moments are of, and with which choices: so parts of other rows or other choices
are never mixed, and nothing is merged as long as a part is missing.
"""

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fairspan.auditing.results import group_name
from fairspan.cli.terminal import complain
from fairspan.errors import FairspanError, InvalidInput
from fairspan.formatting.names import first_of
from fairspan.moments.group_statistics import GroupStatistics, statistics_of_file, to_bytes
from fairspan.rows.files.file_rows import FileRows
from fairspan.rows.files.parts import FilePart
from fairspan.rows.groups import Label, listed
from fairspan.rows.parallel import error_context, merged_in_order
from fairspan.rows.protocol import Fold
from fairspan.storage import PARTS, read_document, write_document, write_whole, writing

MANIFEST = "manifest.json"
# Of the first and the last bytes: where Parquet keeps its index, and where an edit moves others to.
_HASHED_BYTES = 1 << 16
# Where the format of a document of ours is named.
_FIRST_BYTES = 64
_MOST_NAMED = 5


# Size in bytes, time of the last change in nanoseconds, and hash of the first and last 64 KiB: what
# distinguishes a file from another of the same name.
FileState = tuple[int, int, str]


def file_state(path: Path) -> FileState:
    """Read it from the file."""
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        ends = hashlib.sha256(file.read(_HASHED_BYTES))
        if status.st_size > _HASHED_BYTES:
            file.seek(max(status.st_size - _HASHED_BYTES, _HASHED_BYTES))
            ends.update(file.read(_HASHED_BYTES))
    return status.st_size, status.st_mtime_ns, ends.hexdigest()


def _check_unchanged(path: Path, state: FileState) -> None:
    """Make sure that a file is what it was before it was read; raises InvalidInput."""
    try:
        status = path.stat()
        is_same = (status.st_size, status.st_mtime_ns) == state[:2]
    except OSError:  # there is none
        is_same = False
    if not is_same:
        raise InvalidInput(
            f"{path} changed while it was being read",
            "Allowed: files that stay as they are until all of them have been read",
            "Wait until nothing writes to them, then start over",
        )


@dataclass(frozen=True)
class Manifest:
    """What a folder of moments holds when it is complete.

    Attributes
    ----------
    folder : Path
    options : mapping of str to sequence of str
        Columns by what they are for, and how files are read.
    parts : mapping of str to FileState
        The files of rows, by their paths in the folder that is read.
    """

    folder: Path
    options: Mapping[str, Sequence[str]]
    parts: Mapping[str, FileState]

    @classmethod
    def read(cls, folder: Path) -> "Manifest | None":
        """The manifest in a folder; None where there is none of ours.

        Raises
        ------
        CorruptFile
        """
        path = folder / MANIFEST
        if not path.is_file():
            return None
        with path.open("rb") as file:
            if PARTS.kind.encode() not in file.read(_FIRST_BYTES):
                return None
        stored = read_document(path, PARTS)
        parts = {name: tuple(state) for name, state in stored["parts"].items()}
        return cls(folder, stored["options"], parts)

    def file_of(self, part: str) -> Path:
        """Where the moments of a part are; names of sub-folders become a part of its name."""
        return self.folder / f"{part.replace('%', '%25').replace('/', '%2F')}.moments"

    def check_folder(self) -> None:
        """Make sure that the folder is new or empty, or was begun with the same files and choices.

        Raises
        ------
        InvalidInput
        """
        before = Manifest.read(self.folder)
        if before is None:
            others = [each.name for each in self.folder.glob("[!.]*")]
            if others:
                raise InvalidInput(
                    f"The folder {self.folder} holds {first_of(sorted(others), _MOST_NAMED)}, and "
                    f"no {MANIFEST} of moments",
                    "Allowed: a new or an empty folder, or one that the same command began",
                    "Name another output",
                )
        elif changes := "; ".join(before._changes(self)):
            raise InvalidInput(
                f"{self.folder} was begun with other files or choices ({changes})",
                "Allowed: to go on with the same files and choices",
                f"Delete {self.folder} to start over, or name another output",
            )

    def write(self) -> None:
        """Write the manifest unless it is there, before the first part is."""
        path = self.folder / MANIFEST
        if not path.exists():
            with writing(path):
                self.folder.mkdir(exist_ok=True)
                write_document(path, PARTS, {"options": self.options, "parts": self.parts})

    def _changes(self, now: "Manifest") -> Iterator[str]:
        """In words, how another manifest differs from this one."""
        before, after = self.parts, now.parts
        for names, what in (
            ([name for name in before if after.get(name, before[name]) != before[name]], "changed"),
            ([name for name in before if name not in after], "missing"),
            ([name for name in after if name not in before], "new"),
        ):
            if names:
                yield f"{what}: {first_of(names, _MOST_NAMED)}"
        for name, chosen in now.options.items():
            own = self.options.get(name, [])
            if list(own) != list(chosen):
                yield f"{name}: was {listed(own) or 'none'}, is {listed(chosen) or 'none'}"


@dataclass(frozen=True)
class RowsIntoFolder(FileRows):
    """Rows of files whose moments are written to a folder, file by file, as they are read.

    A file of rows whose moments are there is not read again.

    Attributes
    ----------
    manifest : Manifest or None
    has_labels : bool
        Whether the last group column is the class of each row in y.
    """

    manifest: Manifest | None = None
    has_labels: bool = False

    @classmethod
    def of(cls, rows: FileRows, folder: Path, label: str | None) -> "RowsIntoFolder":
        """The same rows, with a folder that is checked; raises InvalidInput."""
        table, chosen = rows.table, rows.chosen
        options: dict[str, list[str]] = {
            "features": list(chosen.feature_names),
            "groups": list(chosen.groups if label is None else chosen.groups[:-1]),
            "label": [] if label is None else [label],
            "weight": [] if chosen.weight is None else [chosen.weight],
            "on_missing": [chosen.on_missing],
            "format": [choice for part in table.parts[:1] for choice in part.choices],
        }
        paths = dict.fromkeys(part.path for part in table.parts)
        states = {path.relative_to(table.path).as_posix(): file_state(path) for path in paths}
        manifest = Manifest(folder, options, states)
        manifest.check_folder()
        return cls(table, chosen, rows.jobs, manifest=manifest, has_labels=label is not None)

    def folded(self, fold: Fold[Any]) -> Any:
        """The moments of all files; None if there are no rows.

        Raises
        ------
        InvalidInput
            A file of rows changed while it was read; whatever is wrong with the rows.
        CorruptFile
            Moments that were there are damaged.
        """
        assert self.manifest is not None
        by_path: dict[Path, list[FilePart]] = {}
        for part in self.table.parts:
            by_path.setdefault(part.path, []).append(part)
        files = [
            FileRows(replace(self.table, path=path, parts=tuple(parts)), self.chosen)
            for path, parts in by_path.items()
        ]
        names = dict(zip(self.manifest.parts, files, strict=True))
        waiting = {
            name: rows for name, rows in names.items() if not self.manifest.file_of(name).exists()
        }
        try:
            with closing(self.results(fold, list(waiting.values()))) as results:
                return self._total(fold, waiting, results)
        except FairspanError:
            # A file that is being written to breaks in many ways, all for one reason.
            for name, rows in waiting.items():
                _check_unchanged(rows.table.path, self.manifest.parts[name])
            raise

    def _total(
        self, fold: Fold[Any], waiting: Mapping[str, FileRows], results: Iterator[Any]
    ) -> GroupStatistics | None:
        """Write what is made, and merge it with what was there, in the order of the files."""
        assert self.manifest is not None
        total: GroupStatistics | None = None
        counts: list[tuple[Label, int]] = []
        for name, state in self.manifest.parts.items():
            file, rows = self.manifest.file_of(name), waiting.get(name)
            if rows is None:
                found = statistics_of_file(file)
            else:
                nothing = GroupStatistics([], self.n_features, self.feature_names)
                found = replace(next(results) or nothing, has_labels=self.has_labels)
            with error_context(str(file) if rows is None else rows.where):
                total = merged_in_order(fold, (total, found))
            counts += [(group.label, group.count) for group in found.groups]
            if rows is not None:
                _check_unchanged(rows.table.path, state)
                self.manifest.write()
                write_whole(file, to_bytes(found))
        warn_of_tiny_groups(counts, "-o NAME.moments with --min-group-size leaves such groups out.")
        return total


def warn_of_tiny_groups(counts: Iterable[tuple[Label, int]], remedy: str) -> None:
    """Warn of groups of 1 or 2 rows: their moments show the rows themselves.

    Parameters
    ----------
    counts : iterable of (label, number of rows)
    remedy : str
    """
    tiny = dict.fromkeys(f"'{group_name(label)}'" for label, n in counts if n <= 2)
    if tiny:
        complain(
            "warning",
            f"Groups of 1 or 2 rows ({first_of(list(tiny), _MOST_NAMED)}): their rows can be "
            f"recovered from these moments; {remedy}",
        )


def files_to_merge(paths: Sequence[Path]) -> list[Path]:
    """Files of moments, with all those of a folder in place of the folder.

    Raises
    ------
    InvalidInput
        A folder without a manifest; a part that is missing, from a folder or beside other parts of
        the same folder.
    """
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            manifest = Manifest.read(path)
            if manifest is None:
                raise InvalidInput(
                    f"The folder {path} has no {MANIFEST} of moments",
                    "Allowed: files of moments, and folders that fairspan moments made",
                    "Name the files of moments one by one",
                )
            files += map(manifest.file_of, manifest.parts)
        else:
            files.append(path)
    for folder in dict.fromkeys(file.parent for file in files):
        manifest = Manifest.read(folder)
        expected = [] if manifest is None else list(map(manifest.file_of, manifest.parts))
        missing = [each.name for each in expected if each not in files or not each.is_file()]
        if missing and set(expected).intersection(files):
            raise InvalidInput(
                f"{len(missing)} of {len(expected)} parts in {folder} are missing: "
                f"{first_of(missing, _MOST_NAMED)}",
                f"Allowed: all parts that {folder / MANIFEST} lists",
                "Start fairspan moments again, which makes the parts that are not there; and name "
                "the folder, not the files in it",
            )
    return files
