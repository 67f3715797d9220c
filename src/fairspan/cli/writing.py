"""What moments and merge write."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from fairspan.auditing.results import group_name
from fairspan.cli.moment_folders import RowsIntoFolder, files_to_merge, warn_of_tiny_groups
from fairspan.cli.options import Reading
from fairspan.cli.reading import check_numeric, opened
from fairspan.cli.terminal import complain
from fairspan.formatting.numbers import count, in_ascii
from fairspan.formatting.terminal_text import aligned, cut_names, wrapped
from fairspan.moments.accumulate import no_rows
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.group_statistics import GroupStatistics, joined, statistics_of_file
from fairspan.moments.of_rows import accumulate
from fairspan.progress import Stage
from fairspan.registry import Foreign
from fairspan.rows.files.file_rows import FileRows
from fairspan.rows.groups import Label, listed
from fairspan.rows.parallel import error_context
from fairspan.rows.protocol import RowSource
from fairspan.storage import is_archive, write_whole

_WIDTH = 80
# Longer names are cut, or stand above their figures where they would look the same.
_LONGEST_NAME = 30


def make_moments(
    data: Path | Foreign, out: Path, reading: Reading, min_group_size: int
) -> tuple[GroupMoments, int]:
    """Write the moments of the rows; return them, and the number of groups left out.

    A file of moments appears only when it is complete.
    """
    rows = _opened(data, reading)
    has_labels = reading.label is not None
    complete = accumulate(rows, reading.limit, has_labels=has_labels)
    kept = complete.without_small_groups(min_group_size)
    write_whole(out, kept.to_bytes())
    counted = kept.by_label or kept
    warn_of_tiny_groups(
        zip(counted.labels, counted.counts.tolist(), strict=True),
        "use --min-group-size to leave such groups out.",
    )
    return kept, complete.n_groups - kept.n_groups


def make_folder_of_moments(data: Path, folder: Path, reading: Reading) -> GroupMoments:
    """Write the moments of each file of rows into a folder; return those of all rows.

    Moments that are there are not made again, so that the same command continues after
    an interruption.
    """
    opened = _opened(data, reading)
    assert isinstance(opened, FileRows)
    rows = RowsIntoFolder.of(opened, folder, reading.label)
    try:
        return accumulate(rows, reading.limit, has_labels=reading.label is not None)
    except KeyboardInterrupt:
        if folder.exists():
            complain(
                "warning", f"{folder} keeps what was made; the same command continues from there."
            )
        raise


def _opened(data: Path | Foreign, reading: Reading) -> RowSource:
    if isinstance(data, Path) and data.is_file() and is_archive(data):
        raise click.UsageError(
            f"{data} holds moments already; merge files of moments with: fairspan merge."
        )
    rows = opened(reading, data)
    check_numeric(rows)
    return rows


def merge_moments(
    paths: Sequence[Path], out: Path, *, labels_as_text: bool = False
) -> tuple[GroupMoments, int]:
    """Write the moments of all rows; return them, and the number of files.

    Parameters
    ----------
    paths : sequence of Path
        Files of moments, and folders that `make_folder_of_moments` made.
    out : Path
    labels_as_text : bool
        Whether the labels 1 and "1" are one.

    Raises
    ------
    InvalidInput
        A part that is missing in a folder. Moments that do not fit together; the first file that
        does not fit is named.
    """
    files = files_to_merge(paths)
    if len({file.resolve() for file in files}) < len(files):
        complain(
            "warning", "The same file is given more than once: its rows are counted each time."
        )
    summed: GroupStatistics | None = None
    with Stage("merging", len(files), "files") as stage:
        for file in files:
            more = statistics_of_file(file)
            if labels_as_text:  # groups of one text are joined
                named = [replace(each, label=_as_text(each.label)) for each in more.groups]
                more = replace(more, groups=joined(named))
            with error_context(str(file)):
                summed = summed + more.in_order_of(summed.feature_names) if summed else more
            stage.add()
    assert summed is not None
    if not summed.groups:
        raise no_rows(summed.intake)
    total = GroupMoments.of(summed)
    for alike in _nearly_equal(total.labels):
        complain(
            "warning",
            f"The groups {listed(alike)} differ only by case or blanks, and stay separate; write "
            "them alike in the rows, and make the moments again, if they are one.",
        )
    write_whole(out, total.to_bytes())
    return total, len(files)


def _as_text(label: Label) -> Label:
    """A label as text: a whole number without a fraction.

    Examples
    --------
    >>> _as_text(1), _as_text(1.0), _as_text("1"), _as_text((True, 2.5))
    ('1', '1', '1', ('True', '2.5'))
    """
    if isinstance(label, tuple):
        return tuple(str(_as_text(each)) for each in label)
    return str(int(label) if isinstance(label, float) and label.is_integer() else label)


def _nearly_equal(labels: Iterable[Label]) -> list[tuple[Label, ...]]:
    """Labels that differ by case and blanks alone, together.

    Examples
    --------
    >>> _nearly_equal(["female", "Female ", "male"])
    [('Female ', 'female')]
    """
    alike: dict[str, list[Label]] = {}
    for label in labels:
        values = label if isinstance(label, tuple) else (label,)
        key = "\0".join("".join(str(each).casefold().split()) for each in values)
        alike.setdefault(key, []).append(label)
    return [tuple(sorted(each)) for each in alike.values() if len(each) > 1]


def facts_of(moments: GroupMoments, out: Path) -> dict[str, Any]:
    """What a file of moments holds, as plain values."""
    names = moments.feature_names
    return {
        "output": str(out),
        "n_rows": int(moments.counts.sum()),
        "n_dropped": moments.intake.n_dropped,
        "n_features": moments.n_features,
        "feature_names": None if names is None else list(names),
        "groups": [
            {"group": label, "n": n, "weight": weight}
            for label, n, weight in zip(
                moments.labels, moments.counts.tolist(), moments.weights.tolist(), strict=True
            )
        ],
    }


def in_words(moments: GroupMoments) -> str:
    """One line for each group under a heading, and what is not in."""
    whole = [group_name(label) for label in moments.labels]
    cut = cut_names(whole, _LONGEST_NAME)
    figures = [
        (f"{n:,}", f"{weight:,.10g}")
        for n, weight in zip(moments.counts.tolist(), moments.weights.tolist(), strict=True)
    ]
    lines = [("group", "rows", "weight")]
    lines += [(name, *each) for name, each in zip(cut or [""] * len(whole), figures, strict=True)]
    text: list[str] = []
    for above, line in zip(["", *whole], aligned(lines), strict=True):
        text += [] if cut else wrapped(above, _WIDTH, "  ")
        text.append(line)
    n_rows = int(moments.counts.sum())
    counted, features = count(n_rows, "row"), count(moments.n_features, "feature")
    intake = f"; {moments.intake}" if str(moments.intake) else ""
    return "\n".join([*text, "", *wrapped(in_ascii(f"{counted}, {features}") + intake, _WIDTH)])
