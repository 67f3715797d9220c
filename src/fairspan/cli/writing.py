"""Output of the moments, merge and transform commands.

An interrupted `fairspan moments` continues with the missing files. The manifest records the source
files and options, so that parts from other sources or options are never mixed, and nothing is
merged while a part is missing.
"""

import hashlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext, suppress
from dataclasses import astuple, dataclass, field, fields, replace
from itertools import chain, groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

import click

from fairspan.auditing.findings import label_findings
from fairspan.auditing.results import quote_group
from fairspan.cli.options import ReadOptions, usage_error_if
from fairspan.cli.row_input import (
    OF_MODEL,
    check_numeric_features,
    csv_format,
    external_rows,
    is_archive_file,
    na_values,
    open_row_source,
    read_options_for,
)
from fairspan.cli.terminal import print_message
from fairspan.errors import FairspanError, InvalidInput, InvalidParameter
from fairspan.formatting.names import join_truncated
from fairspan.model.subspace import FairSubspace
from fairspan.moments.dropped_rows import no_rows_error
from fairspan.moments.group_moments import (
    GroupMoments,
    compute_group_moments,
    load_partial,
    merge_moments,
)
from fairspan.progress import track
from fairspan.registry import ExternalObject
from fairspan.rows.aggregation import Aggregator, merge_in_order
from fairspan.rows.blocks import KEEPING_MISSING
from fairspan.rows.error_context import add_error_context
from fairspan.rows.files.file_rows import FileRows
from fairspan.rows.labels import Label, format_list
from fairspan.rows.protocol import RowSource
from fairspan.rows.validation import check_columns
from fairspan.rows.weights import WeightScale
from fairspan.storage.archive import read_json, write_json
from fairspan.storage.atomic import open_atomic, write_atomic
from fairspan.storage.schema import TEXT, Schema, list_of, mapping_of, record, scalar

MANIFEST = "manifest.json"
MANIFEST_SCHEMA = Schema(
    "parts",
    "the manifest of a folder of moments",
    record(
        {
            "options": mapping_of(list_of(TEXT)),
            # Size, modification time and hash.
            "parts": mapping_of(list_of(scalar((int, str), "text or an integer"), "3")),
        }
    ),
    "Delete the folder, and recompute the moments",
    "Delete the folder, and recompute the moments; folders of older versions are not read",
)
# Number of bytes hashed at each end of a file: Parquet keeps its index at the end, and edits shift
# the end of text files.
_HASHED_BYTES = 1 << 16
# The kind of a document appears within its first bytes.
_HEADER_BYTES = 64
_MAX_NAMES = 5


# Size, modification time in nanoseconds, and hash of the first and last 64 KiB of a file.
# distinguishes a file from another of the same name.
FileFingerprint = tuple[int, int, str]


def file_fingerprint(path: Path) -> FileFingerprint:
    """Compute the fingerprint of a file."""
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        ends = hashlib.sha256(file.read(_HASHED_BYTES))
        if status.st_size > _HASHED_BYTES:
            file.seek(max(status.st_size - _HASHED_BYTES, _HASHED_BYTES))
            ends.update(file.read(_HASHED_BYTES))
    return status.st_size, status.st_mtime_ns, ends.hexdigest()


def _check_unchanged(path: Path, state: FileFingerprint) -> None:
    """Raise InvalidInput if a file changed since its fingerprint was taken."""
    with suppress(OSError):  # there may be none
        status = path.stat()
        if (status.st_size, status.st_mtime_ns) == state[:2]:
            return
    raise InvalidInput(
        f"{path} changed while it was being read",
        "Allowed: files that stay as they are until all of them have been read",
        "Wait until nothing writes to them, then start over",
    )


@dataclass(frozen=True)
class Manifest:
    """Expected contents of a folder of moments.

    Attributes
    ----------
    folder : Path
    options : mapping of str to sequence of str
        Columns by role, and reading options.
    parts : mapping of str to FileFingerprint
        Fingerprints of the source files, by path relative to the source folder.
    """

    folder: Path
    options: Mapping[str, Sequence[str]]
    sources: Mapping[str, FileFingerprint]

    @classmethod
    def read(cls, folder: Path) -> "Manifest | None":
        """Read the manifest of a folder; None if there is none written by fairspan.

        Raises
        ------
        CorruptFile
        """
        path = folder / MANIFEST
        if (
            not path.is_file()
            or MANIFEST_SCHEMA.kind.encode() not in path.read_bytes()[:_HEADER_BYTES]
        ):
            return None
        stored = read_json(path, MANIFEST_SCHEMA)
        return cls(
            folder,
            stored["options"],
            {name: tuple(state) for name, state in stored["parts"].items()},
        )

    def moments_path(self, source: str) -> Path:
        """Path of the moments of a source file; path separators are percent-encoded."""
        return self.folder / f"{source.replace('%', '%25').replace('/', '%2F')}.moments"

    def check_folder(self) -> None:
        """Check that the folder is new, empty, or was started with the same files and options.

        Raises
        ------
        InvalidInput
        """
        existing = Manifest.read(self.folder)
        if existing is None:
            others = [each.name for each in self.folder.glob("[!.]*")]
            if others:
                raise InvalidInput(
                    f"The folder {self.folder} holds {join_truncated(sorted(others), _MAX_NAMES)},"
                    " and "
                    f"no {MANIFEST} of moments",
                    "Allowed: a new or an empty folder, or one that the same command began",
                    "Name another output",
                )
        elif changes := "; ".join(existing._changes(self)):
            raise InvalidInput(
                f"{self.folder} was begun with other files or choices ({changes})",
                "Allowed: to go on with the same files and choices",
                f"Delete {self.folder} to start over, or name another output",
            )

    def write(self) -> None:
        """Write the manifest if it does not exist; called before the first part is written."""
        path = self.folder / MANIFEST
        if not path.exists():
            self.folder.mkdir(exist_ok=True)
            write_json(path, MANIFEST_SCHEMA, {"options": self.options, "parts": self.sources})

    def _changes(self, now: "Manifest") -> Iterator[str]:
        """Describe how another manifest differs from this one."""
        existing = self.sources
        current = now.sources
        changes = {
            "changed": [
                name for name in existing if current.get(name, existing[name]) != existing[name]
            ],
            "missing": [name for name in existing if name not in current],
            "new": [name for name in current if name not in existing],
        }
        for kind, names in changes.items():
            if names:
                yield f"{kind}: {join_truncated(names, _MAX_NAMES)}"
        for name, current_values in now.options.items():
            previous_values = list(self.options.get(name, []))
            if previous_values != list(current_values):
                before = format_list(previous_values) or "none"
                after = format_list(current_values) or "none"
                yield f"{name}: was {before}, is {after}"


@dataclass(frozen=True)
class MomentsFolderRows(FileRows):
    """File rows that write the moments of each file to a folder as they are read.

    Files whose moments exist are skipped.

    Attributes
    ----------
    manifest : Manifest
    has_y : bool
        Whether the last group column is y.
    """

    manifest: Manifest = field(kw_only=True)
    has_y: bool = field(kw_only=True)

    @classmethod
    def create(cls, rows: FileRows, folder: Path, label: str | None) -> "MomentsFolderRows":
        """Create from file rows after checking the folder; raises InvalidInput."""
        chosen = rows.selection
        csv_format = rows.parts[0].csv_format if rows.parts else None
        options: dict[str, list[str]] = {
            "features": list(chosen.feature_names),
            "groups": list(chosen.group_columns if label is None else chosen.group_columns[:-1]),
            "label": [] if label is None else [label],
            "weight": [] if chosen.weight_column is None else [chosen.weight_column],
            "on_missing": [chosen.on_missing],
            "na_values": rows.parts[0].na_values.to_words() if rows.parts else [],
            "format": [] if csv_format is None else [*map(str, astuple(csv_format))],
        }
        paths = dict.fromkeys(part.path for part in rows.parts)
        fingerprints = {
            path.relative_to(rows.path).as_posix(): file_fingerprint(path) for path in paths
        }
        manifest = Manifest(folder, options, fingerprints)
        manifest.check_folder()
        inherited = {each.name: getattr(rows, each.name) for each in fields(FileRows)}
        return cls(**inherited, manifest=manifest, has_y=label is not None)

    def with_raw_weights(self) -> FileRows:
        """Return the same rows, which go into no folder, with their weights as they are stored."""
        chosen = replace(self.selection, weight_scale=WeightScale(is_raw=True))
        return FileRows(self.path, self.schema, self.parts, chosen, n_jobs=self.n_jobs)

    def aggregate(self, aggregator: Aggregator[Any]) -> Any:
        """Return the moments of all files; None if there are no rows.

        Raises
        ------
        InvalidInput
            A file changed while it was read, or the rows are invalid.
        CorruptFile
            Existing moments are corrupt.
        """
        files = [
            FileRows(path, self.schema, tuple(parts), self.selection)
            for path, parts in groupby(self.parts, attrgetter("path"))
        ]
        pending = {
            name: rows
            for name, rows in zip(self.manifest.sources, files, strict=True)
            if not self.manifest.moments_path(name).exists()
        }
        try:
            with closing(self.part_results(aggregator, list(pending.values()))) as results:
                return self._write_and_merge(aggregator, pending, results)
        except FairspanError:
            # A file that is being written to can fail in many ways; report the actual cause.
            for name, rows in pending.items():
                _check_unchanged(rows.path, self.manifest.sources[name])
            raise

    def _write_and_merge(
        self, tally: Aggregator[Any], pending: Mapping[str, FileRows], results: Iterator[Any]
    ) -> GroupMoments | None:
        """Write new moments and merge all in file order."""
        total: GroupMoments | None = None
        counts: list[tuple[Label, int]] = []
        for name, state in self.manifest.sources.items():
            file = self.manifest.moments_path(name)
            rows = pending.get(name)
            if rows is None:
                moments = load_partial(file)
            else:
                moments = next(results)
                moments = moments.sum_over_classes() if self.has_y else moments
            with add_error_context(str(file) if rows is None else rows.location):
                total = merge_in_order(tally, (total, moments))
            counts += zip(moments.finest.labels, moments.finest.counts.tolist(), strict=True)
            if rows is not None:
                _check_unchanged(rows.path, state)
                self.manifest.write()
                write_atomic(file, moments.to_bytes())
        warn_about_tiny_groups(
            counts, "use -o NAME.moments with --min-group-size to drop such groups."
        )
        return total


def warn_about_tiny_groups(counts: Iterable[tuple[Label, int]], remedy: str) -> None:
    """Warn about groups of 1 or 2 rows, which can be recovered from their moments.

    Parameters
    ----------
    counts : iterable of (label, number of rows)
    remedy : str
    """
    tiny = dict.fromkeys(quote_group(label) for label, n in counts if 0 < n <= 2)
    if tiny:
        print_message(
            "warning",
            f"Groups of 1 or 2 rows ({join_truncated(list(tiny), _MAX_NAMES)}): their rows can be "
            f"recovered from these moments; {remedy}",
        )


def expand_folders(paths: Sequence[Path]) -> list[Path]:
    """Replace folders by the files of moments in them.

    A manifest is skipped, since `merge folder/*` includes it.

    A manifest among them is no file of moments: `merge folder/*` names it too.

    Raises
    ------
    InvalidInput
        A folder has no manifest, or some but not all parts of a folder are given.
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
            files += map(manifest.moments_path, manifest.sources)
        elif path.name != MANIFEST or Manifest.read(path.parent) is None:
            files.append(path)
    for folder in dict.fromkeys(file.parent for file in files):
        manifest = Manifest.read(folder)
        expected = [] if manifest is None else list(map(manifest.moments_path, manifest.sources))
        missing = [each.name for each in expected if each not in files or not each.is_file()]
        if missing and set(expected).intersection(files):
            raise InvalidInput(
                f"{len(missing)} of {len(expected)} parts in {folder} are missing: "
                f"{join_truncated(missing, _MAX_NAMES)}",
                f"Allowed: all parts that {folder / MANIFEST} lists",
                "Start fairspan moments again, which makes the parts that are not there; and name "
                "the folder, not the files in it",
            )
    return files


def write_moments(
    data: Path | ExternalObject, out: Path, reading: ReadOptions, min_group_size: int
) -> tuple[GroupMoments, int]:
    """Write the moments of the rows atomically; return them and the number of dropped groups.

    A file of moments appears only when it is complete.
    """
    all_groups = compute_group_moments(
        _open_numeric_rows(data, reading), reading.limit, has_y=reading.y_column is not None
    )
    copied_fields = all_groups.drop_small_groups(min_group_size)
    write_atomic(out, copied_fields.to_bytes())
    group_counts = copied_fields.finest
    warn_about_tiny_groups(
        zip(group_counts.labels, group_counts.counts.tolist(), strict=True),
        "use --min-group-size to drop such groups.",
    )
    warn_of_labels(copied_fields)
    return copied_fields, all_groups.n_groups - copied_fields.n_groups


def warn_of_labels(moments: GroupMoments) -> None:
    """Warn on standard error of labels of groups that most likely are mistakes."""
    for found in label_findings(moments):
        print_message("warning", found.message)


def write_moments_folder(
    data: Path | ExternalObject, folder: Path, reading: ReadOptions, min_group_size: int
) -> tuple[GroupMoments, int]:
    """Write the moments of each file to a folder; return the merged moments and 0.

    A minimum group size is not supported: groups small in one file may be large overall. Existing
    moments are not recomputed, so the command can be resumed.
    """
    usage_error_if(
        reading.on_missing in KEEPING_MISSING,
        f"--on-missing {reading.on_missing} requires all rows together: use an output "
        "NAME.moments.",
    )
    opened = _open_numeric_rows(data, reading)
    assert isinstance(opened, FileRows)
    rows = MomentsFolderRows.create(opened, folder, reading.y_column)
    try:
        return compute_group_moments(rows, reading.limit, has_y=reading.y_column is not None), 0
    except KeyboardInterrupt:
        if folder.exists():
            print_message(
                "warning",
                f"Partial results are kept in {folder}; run the same command to continue.",
            )
        raise


def _open_numeric_rows(data: Path | ExternalObject, reading: ReadOptions) -> RowSource:
    usage_error_if(
        isinstance(data, Path) and is_archive_file(data),
        f"{data} already contains moments; merge files of moments with fairspan merge.",
    )
    rows = open_row_source(reading, data)
    check_numeric_features(rows)
    return rows


def merge_moments_files(
    paths: Sequence[Path], out: Path, *, labels_as_text: bool = False
) -> tuple[GroupMoments, int]:
    """Merge moments and write the result; return it and the number of files.

    Parameters
    ----------
    paths : sequence of Path
        Files of moments, and folders that `write_moments_folder` made.
    out : Path
    labels_as_text : bool
        Whether labels 1 and "1" are the same group.

    Raises
    ------
    InvalidInput
        A part of a folder is missing, or moments are incompatible; the message names the first
        incompatible file.
        does not fit is named.
    """
    files = expand_folders(paths)
    if len({file.resolve() for file in files}) < len(files):
        print_message("warning", "A file is given more than once; its rows are counted each time.")
    total: GroupMoments | None = None
    # Treat the parts of a folder as one site.
    is_folder_of_parts = {
        folder: Manifest.read(folder) is not None for folder in {each.parent for each in files}
    }
    dropped: dict[Path, int] = {}
    for file in track("merging", files, "files"):
        moments = load_partial(file)
        site = file.parent if is_folder_of_parts[file.parent] else file
        dropped[site] = dropped.get(site, 0) + moments.n_dropped
        if labels_as_text:  # groups of one text are joined
            moments = merge_moments([moments], _label_as_text)
        with add_error_context(str(file)):
            total = moments if total is None else total + moments
    assert total is not None
    if not total.n_groups:
        raise no_rows_error(total.n_dropped)
    warn_of_labels(total)
    complete_sites = [str(site) for site, n in dropped.items() if not n]
    if complete_sites and total.n_dropped:
        print_message(
            "warning",
            "Rows with missing values were left out at some sites, and none at "
            f"{format_list(complete_sites)}. "
            "If values were missing there too and were filled in, the sum mixes two rules: filled "
            "values vary less. Handle missing values in one way at all sites.",
        )
    write_atomic(out, total.to_bytes())
    return total, len(files)


def _label_as_text(label: Label) -> Label:
    """Convert a label to text; integral floats without a fraction.

    Examples
    --------
    >>> _label_as_text(1), _label_as_text(1.0), _label_as_text("1"), _label_as_text((True, 2.5))
    ('1', '1', '1', ('True', '2.5'))
    """
    if isinstance(label, tuple):
        return tuple(str(_label_as_text(each)) for each in label)
    return str(int(label) if isinstance(label, float) and label.is_integer() else label)


def moments_record(moments: GroupMoments, out: Path) -> dict[str, Any]:
    """Contents of a file of moments as JSON-serializable values."""
    names = moments.feature_names
    exponent = moments.weight_exponent
    return {
        **({"weight_exponent": exponent} if exponent else {}),
        "output": str(out),
        "n_rows": int(moments.counts.sum()),
        "n_dropped": moments.n_dropped,
        "n_features": moments.n_features,
        "feature_names": None if names is None else list(names),
        "groups": [
            {"group": label, "n_rows": n, "weight": weight}
            for label, n, weight in zip(
                moments.labels, moments.counts.tolist(), moments.weights.tolist(), strict=True
            )
        ],
    }


_FORMAT_BY_EXTENSION = {
    ".csv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}


def transform_file(
    model: Path, data: Path | ExternalObject, out: Path, reading: ReadOptions
) -> dict[str, Any]:
    """Transform rows and write them with the copied columns; return a summary.

    Rows are processed in blocks, and the output is written atomically.

    Reduced rows are written block by block, so that nothing need fit into memory. The output
    appears only when it is complete.
    """
    is_stdout = str(out) == "-"
    if not is_stdout and out.suffix.lower() not in _FORMAT_BY_EXTENSION:
        raise InvalidParameter(
            f"The output {out} has the ending {out.suffix!r}",
            f"Allowed: {', '.join(_FORMAT_BY_EXTENSION)}, or - for standard output",
            "Choose one of these endings",
        )
    subspace = FairSubspace.load(model)
    rows = _open_rows_for_model(data, subspace, reading)
    import pyarrow as pa
    from pyarrow import csv, parquet

    openers = {"csv": csv.CSVWriter, "parquet": parquet.ParquetWriter, "arrow": pa.ipc.new_file}
    opener = openers["csv" if is_stdout else _FORMAT_BY_EXTENSION[out.suffix.lower()]]
    n_rows = n_dropped = 0
    blocks = rows.blocks()
    # Read the first block before writing, since standard output cannot be undone.
    first = next(blocks, None)
    if first is None:
        raise InvalidInput(
            f"{data} contains no rows", "Allowed: at least one row", "Check the file"
        )
    copied_fields = [] if first.extra_columns is None else list(first.extra_columns.schema)
    schema = pa.schema(
        [*copied_fields, *((name, pa.float64()) for name in subspace.component_names)]
    )
    # Open the file here: Arrow accepts only UTF-8 paths.
    output = nullcontext(sys.stdout.buffer) if is_stdout else open_atomic(out)
    with output as file, opener(file, schema) as writer:
        for block in chain([first], blocks):
            n_dropped += block.n_dropped
            if len(block.values):
                reduced = subspace.transform(block.values)
                copied_columns = [] if block.extra_columns is None else block.extra_columns.columns
                writer.write(pa.table([*copied_columns, *reduced.T], schema=schema))
                n_rows += len(reduced)
    return {
        "output": str(out),
        "n_rows": n_rows,
        "n_dropped": n_dropped,
        "n_components": len(subspace.component_names),
        "columns": schema.names,
    }


def _open_rows_for_model(
    data: Path | ExternalObject, subspace: FairSubspace, reading: ReadOptions
) -> RowSource:
    """Open rows with the features of a model."""
    names = subspace.feature_names
    if isinstance(data, ExternalObject):
        usage_error_if(reading.changed_options, f"{data} is not a file: omit all options but -o.")
        made = external_rows(data)
        return made if names is None else made.select_features(names)
    usage_error_if(
        reading.on_missing in KEEPING_MISSING and subspace.imputation_model is None,
        f"--on-missing {reading.on_missing} is for models that were fitted so: this one was fitted "
        "on complete rows, and does not know what to expect of missing cells.",
    )
    reading = read_options_for([subspace], data, reading)
    rows = FileRows.open(
        data,
        on_missing=reading.on_missing,
        csv=csv_format(reading),
        na_values=na_values(reading),
    )
    available = rows.selection.available
    rows = replace(
        rows, selection=replace(rows.selection, ignore_unseen=reading.unseen == "ignore")
    )
    if names is not None:
        rows = rows.select_features(names)
    check_numeric_features(rows, *OF_MODEL)
    keep = available if reading.keep_all else reading.keep
    check_columns(keep, available)
    for conflict in sorted(set(keep).intersection(subspace.component_names)):
        raise click.UsageError(f"The column {conflict!r} would appear twice in the output.")
    return replace(
        rows, stage_name="transforming", selection=replace(rows.selection, extra_columns=keep)
    )
