"""Output of the moments and merge commands."""

from collections.abc import Sequence
from pathlib import Path

from fairspan.cli.command import usage_error_if
from fairspan.cli.command_terminal import print_message
from fairspan.cli.group_warnings import warn_about_tiny_groups, warn_of_labels
from fairspan.cli.manifest import MANIFEST, MAX_NAMES, Manifest
from fairspan.cli.option_values import ReadOptions
from fairspan.cli.row_input import check_numeric_features, is_archive_file, open_row_source
from fairspan.errors import InvalidInput
from fairspan.formatting.names import join_truncated
from fairspan.moments.dropped_rows import no_rows_error
from fairspan.moments.group_moments import (
    GroupMoments,
    compute_group_moments,
    load_partial,
)
from fairspan.moments.merging import merge_moments
from fairspan.progress import track
from fairspan.registry import ExternalObject
from fairspan.rows.error_context import add_error_context
from fairspan.rows.labels import Label, format_list
from fairspan.rows.protocol import RowSource
from fairspan.storage.atomic import write_atomic


def write_moments(
    data: Path | ExternalObject, out: Path, read_options: ReadOptions, min_group_size: int
) -> tuple[GroupMoments, int]:
    """Write the moments of the rows to a file, which appears only when it is complete.

    Parameters
    ----------
    data : Path or ExternalObject
        File or folder of rows, or rows of another package.
    out : Path
    read_options : ReadOptions
    min_group_size : int
        Groups with fewer rows are dropped from the moments.

    Returns
    -------
    moments : GroupMoments
    n_groups_dropped : int
        Number of groups that were dropped.
    """
    all_groups = compute_group_moments(
        open_numeric_rows(data, read_options), read_options.resources.group_limit
    )
    moments = all_groups.drop_small_groups(min_group_size)
    write_atomic(out, moments.to_bytes())
    # Moments of one or two rows reveal these rows. With y, the file also has moments by group and
    # class, its finest ones, which have fewer rows than the group.
    group_counts = moments.finest
    warn_about_tiny_groups(
        zip(group_counts.labels, group_counts.counts.tolist(), strict=True),
        "use --min-group-size to drop such groups.",
    )
    warn_of_labels(moments)
    return moments, all_groups.n_groups - moments.n_groups


def open_numeric_rows(data: Path | ExternalObject, read_options: ReadOptions) -> RowSource:
    """Open rows, checking that all features are numeric."""
    usage_error_if(
        isinstance(data, Path) and is_archive_file(data),
        f"{data} already contains moments; merge files of moments with fairspan merge.",
    )
    rows = open_row_source(read_options, data)
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
    """
    files = expand_folders(paths)
    if len({file.resolve() for file in files}) < len(files):
        print_message("warning", "A file is given more than once; its rows are counted each time.")
    total: GroupMoments | None = None
    # Count dropped rows by site; the parts of one folder of moments are one site.
    folders = {file.parent for file in files}
    is_folder_of_parts = {folder: Manifest.read(folder) is not None for folder in folders}
    n_dropped_by_site: dict[Path, int] = {}
    for file in track("merging", files, "files"):
        moments = load_partial(file)
        site = file.parent if is_folder_of_parts[file.parent] else file
        n_dropped_by_site[site] = n_dropped_by_site.get(site, 0) + moments.n_dropped
        if labels_as_text:  # groups of this file that have the same text are merged as well
            moments = merge_moments([moments], _label_as_text)
        with add_error_context(str(file)):
            total = moments if total is None else total + moments
    assert total is not None
    if not total.n_groups:
        raise no_rows_error(total.n_dropped)
    warn_of_labels(total)
    complete_sites = [str(site) for site, n_dropped in n_dropped_by_site.items() if not n_dropped]
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
    """Convert a label, or each part of a tuple, to text; integral floats without a fraction.

    Examples
    --------
    >>> _label_as_text(1), _label_as_text(1.0), _label_as_text("1"), _label_as_text((True, 2.5))
    ('1', '1', '1', ('True', '2.5'))
    """
    if isinstance(label, tuple):
        return tuple(str(_label_as_text(part)) for part in label)
    if isinstance(label, float) and label.is_integer():
        label = int(label)
    return str(label)


def moments_record(moments: GroupMoments, out: Path) -> dict[str, object]:
    """Summarize moments that were written to a file, as JSON-serializable values."""
    names = moments.feature_names
    record: dict[str, object] = {}
    # Weights are in units of 2**weight_exponent, which is 1 unless they are very large or small.
    if moments.weight_exponent:
        record["weight_exponent"] = moments.weight_exponent
    return {
        **record,
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


def expand_folders(paths: Sequence[Path]) -> list[Path]:
    """Replace folders by the files of moments in them.

    A manifest is skipped, since `merge folder/*` includes it.

    Raises
    ------
    InvalidInput
        A folder has no manifest, or some but not all parts of a folder are given.
    """
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            manifest = Manifest.read(path)
            if manifest is None:
                raise InvalidInput(
                    f"The folder {path} has no {MANIFEST} of moments",
                    "Allowed: files of moments, and folders written by fairspan moments",
                    "Name the files of moments one by one",
                )
            files += map(manifest.moments_path, manifest.sources)
        elif path.name != MANIFEST or Manifest.read(path.parent) is None:
            files.append(path)
    _check_complete_folders(files)
    return files


def _check_complete_folders(files: Sequence[Path]) -> None:
    """Check that folders of moments are complete, also those whose files were named one by one.

    A folder of which no listed file is merged does not matter.

    Raises
    ------
    InvalidInput
    """
    for folder in dict.fromkeys(file.parent for file in files):
        manifest = Manifest.read(folder)
        if manifest is None:
            continue
        expected = list(map(manifest.moments_path, manifest.sources))
        missing = [path.name for path in expected if path not in files or not path.is_file()]
        if missing and set(expected).intersection(files):
            raise InvalidInput(
                f"{len(missing)} of {len(expected)} parts in {folder} are missing: "
                f"{join_truncated(missing, MAX_NAMES)}",
                f"Allowed: all parts that {folder / MANIFEST} lists",
                "Run fairspan moments again to compute the missing parts, and name the folder "
                "instead of the files in it",
            )
