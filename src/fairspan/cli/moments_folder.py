"""Folder of moments, one file for each file of rows.

An interrupted `fairspan moments` continues with the missing files.
"""

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import KW_ONLY, astuple, dataclass, fields, replace
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

from fairspan.cli.command import usage_error_if
from fairspan.cli.command_terminal import print_message
from fairspan.cli.group_warnings import warn_about_tiny_groups
from fairspan.cli.manifest import Manifest, check_unchanged, compute_file_fingerprint
from fairspan.cli.moments_files import open_numeric_rows
from fairspan.cli.option_values import ReadOptions
from fairspan.errors import FairspanError
from fairspan.moments.group_moments import GroupMoments, compute_group_moments, load_partial
from fairspan.registry import ExternalObject
from fairspan.rows.aggregation import Aggregator, merge_in_order
from fairspan.rows.blocks import keeps_missing
from fairspan.rows.error_context import add_error_context
from fairspan.rows.files.file_rows import FileRows
from fairspan.rows.labels import Label
from fairspan.rows.weights import WeightScale
from fairspan.storage.atomic import write_atomic


@dataclass(frozen=True)
class MomentsFolderRows(FileRows):
    """File rows that write the moments of each file to a folder as they are read.

    Files whose moments exist are skipped.

    Attributes
    ----------
    manifest : Manifest
    """

    _: KW_ONLY
    manifest: Manifest

    @classmethod
    def create(cls, rows: FileRows, folder: Path) -> "MomentsFolderRows":
        """Create from file rows, after checking that the folder is new or was begun with them.

        Parameters
        ----------
        rows : FileRows
            Rows of a folder of files.
        folder : Path
            Folder of moments; it is created with the first file of moments.

        Raises
        ------
        InvalidInput
            The folder holds other files, or was begun with other rows or options.
        """
        selection = rows.selection
        # Everything that changes the moments, so that a folder never mixes two kinds.
        options: dict[str, list[str]] = {
            "features": list(selection.feature_names),
            "groups": list(selection.roles.groups),
            "label": [],
            "weight": [],
            "on_missing": [selection.on_missing],
            "na_values": [],
            "format": [],
        }
        if selection.roles.classes is not None:
            options["label"] = [selection.roles.classes]
        if selection.roles.weights is not None:
            options["weight"] = [selection.roles.weights]
        # All parts are read with the same options, so the first one stands for them.
        if rows.parts:
            options["na_values"] = rows.parts[0].na_values.to_words()
            csv_format = rows.parts[0].csv_format
            if csv_format is not None:
                options["format"] = [*map(str, astuple(csv_format))]
        paths = dict.fromkeys(part.path for part in rows.parts)
        fingerprints = {
            path.relative_to(rows.path).as_posix(): compute_file_fingerprint(path) for path in paths
        }
        manifest = Manifest(folder, options, fingerprints)
        manifest.check_folder()
        values = {field.name: getattr(rows, field.name) for field in fields(FileRows)}
        return cls(**values, manifest=manifest)

    def with_raw_weights(self) -> FileRows:
        """Return the same rows as ordinary file rows, without scaling of their weights."""
        selection = replace(self.selection, weight_scale=WeightScale(is_raw=True))
        return FileRows(self.path, self.schema, self.parts, selection, n_jobs=self.n_jobs)

    def aggregate(self, aggregator: Aggregator[Any]) -> Any:
        """Write the moments of files that have none, and return those of all; None without rows.

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
                check_unchanged(rows.path, self.manifest.sources[name])
            raise

    def _write_and_merge(
        self, aggregator: Aggregator[Any], pending: Mapping[str, FileRows], results: Iterator[Any]
    ) -> GroupMoments | None:
        """Write new moments and merge all in file order.

        Tiny groups are counted among the finest that a file reveals: pairs of group and class if
        there are classes of y, else groups.

        Parameters
        ----------
        aggregator : Aggregator
            Merges moments.
        pending : mapping of str to FileRows
            Source files without moments, by name; the others are loaded from the folder.
        results : iterator
            Moments of the pending files, in their order.

        Returns
        -------
        GroupMoments or None
            None if there are no files.
        """
        total: GroupMoments | None = None
        counts: list[tuple[Label, int]] = []
        for name, fingerprint in self.manifest.sources.items():
            file = self.manifest.moments_path(name)
            rows = pending.get(name)
            moments = load_partial(file) if rows is None else next(results)
            with add_error_context(str(file) if rows is None else rows.location):
                total = merge_in_order(aggregator, (total, moments))
            counts += zip(moments.finest.labels, moments.finest.counts.tolist(), strict=True)
            if rows is not None:
                # Write only moments of files that did not change while they were read.
                check_unchanged(rows.path, fingerprint)
                # No folder has moments without a manifest; this writes it the first time only.
                self.manifest.write()
                write_atomic(file, moments.to_bytes())
        warn_about_tiny_groups(
            counts, "use -o NAME.moments with --min-group-size to drop such groups."
        )
        return total


def write_moments_folder(
    data: Path | ExternalObject, folder: Path, read_options: ReadOptions
) -> GroupMoments:
    """Write the moments of each file of a folder of rows to another folder.

    Existing moments are not recomputed, so the command can be resumed. No group is dropped: one
    that is small in one file may be large overall.

    Returns
    -------
    GroupMoments
        Moments of all files together.

    Raises
    ------
    click.UsageError
        The treatment of missing values requires all rows together, as EM does.
    InvalidInput, CorruptFile
    """
    usage_error_if(
        keeps_missing(read_options.cells.on_missing),
        f"--on-missing {read_options.cells.on_missing} requires all rows together: use an output "
        "NAME.moments.",
    )
    opened = open_numeric_rows(data, read_options)
    assert isinstance(opened, FileRows)
    rows = MomentsFolderRows.create(opened, folder)
    try:
        return compute_group_moments(rows, read_options.resources.group_limit)
    except KeyboardInterrupt:
        if folder.exists():
            print_message(
                "warning",
                f"Partial results are kept in {folder}; run the same command to continue.",
            )
        raise
