"""What moments and merge write: moments that survive an interruption."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from fairspan.auditing.results import group_name
from fairspan.cli.progress import telling
from fairspan.cli.reading import Reading
from fairspan.cli.terminal import complain
from fairspan.cli.text_columns import check_numeric
from fairspan.errors import FairspanError
from fairspan.formatting.names import first_of
from fairspan.formatting.numbers import count, in_ascii
from fairspan.formatting.terminal_text import cut_names, terminal_width, wrapped
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.group_statistics import joined
from fairspan.moments.of_rows import accumulate
from fairspan.progress import Stage
from fairspan.registry import Foreign
from fairspan.rows.engines import located
from fairspan.rows.files.file_rows import FileRows
from fairspan.rows.group_limit import GroupLimit
from fairspan.rows.groups import Label, listed
from fairspan.rows.resuming import recorded
from fairspan.storage import HeldFile, is_archive, write_whole

# Mean and scatter of one row are the row itself, and of two rows both of them.
_ROWS_THAT_SHOW = 2
_MOST_NAMED = 5
_WIDTH = 80
# Longer names are cut, or stand above their figures where they would look the same.
_LONGEST_NAME = 30


def make_moments(
    data: Path | Foreign, out: Path, reading: Reading, min_group_size: int
) -> tuple[GroupMoments, int]:
    """Write the moments of the rows; return them, and the number of groups left out.

    The output appears only when it is complete. Until then `out`.partial holds what was absorbed
    of files.
    """
    if isinstance(data, Path) and data.is_file() and is_archive(data):
        raise click.UsageError(
            f"{data} holds moments already; merge files of moments with: fairspan merge."
        )
    rows, limit = reading.opened(data), reading.limit
    check_numeric(rows)
    has_labels = reading.label is not None
    partial = out.with_name(out.name + ".partial")
    if not isinstance(rows, FileRows):
        complete = accumulate(rows, limit, has_labels=has_labels)
    else:
        return _resumable(rows, limit, out, partial, min_group_size, has_labels=has_labels)
    return _written(complete, complete.without_small_groups(min_group_size), out)


def _resumable(
    rows: FileRows,
    limit: GroupLimit,
    out: Path,
    partial: Path,
    min_group_size: int,
    *,
    has_labels: bool,
) -> tuple[GroupMoments, int]:
    """Write the moments of files, and continue where an interrupted run stopped."""
    try:
        with HeldFile(partial) as file:
            recorded_rows = recorded(telling(rows, "reading"), file)
            complete = accumulate(recorded_rows, limit, has_labels=has_labels)
            try:
                kept = complete.without_small_groups(min_group_size)
            except FairspanError:
                file.remove()  # it holds the small groups, which nobody is to see
                raise
            made = _written(complete, kept, out)
            file.remove()
            return made
    except KeyboardInterrupt:
        if partial.exists():
            complain(
                "warning",
                f"{partial} keeps what was read; the same command continues from there.",
            )
        raise


def _written(complete: GroupMoments, kept: GroupMoments, out: Path) -> tuple[GroupMoments, int]:
    """Write the moments that are kept; return them, and the number of groups left out."""
    write_whole(out, kept.to_bytes())
    _warn_of_tiny_groups(kept.by_label or kept)
    return kept, complete.n_groups - kept.n_groups


def merge_moments(
    files: Sequence[Path], out: Path, *, labels_as_text: bool = False
) -> GroupMoments:
    """Write the moments of all rows, and return them.

    Parameters
    ----------
    files : sequence of Path
    out : Path
    labels_as_text : bool
        Whether the labels 1 and "1" are one.

    Raises
    ------
    InvalidInput
        Moments that do not fit together; the first file that does not fit is named.
    """
    seen = {file.resolve() for file in files}
    if len(seen) < len(files):
        complain(
            "warning", "The same file is given more than once: its rows are counted each time."
        )
    labelled = _labelled_by_text if labels_as_text else GroupMoments.load
    total = labelled(files[0])
    with Stage("merging", len(files), "files", 1) as stage:
        for file in files[1:]:
            more = labelled(file)
            with located(str(file)):
                total = total + more
            stage.add()
    for alike in _nearly_equal(total.labels):
        complain(
            "warning",
            f"The groups {listed(alike)} differ only by case or blanks, and stay separate; write "
            "them alike in the rows, and make the moments again, if they are one.",
        )
    write_whole(out, total.to_bytes())
    return total


def _labelled_by_text(file: Path) -> GroupMoments:
    """Moments whose labels are texts; groups of one text are joined."""
    statistics = GroupMoments.load(file).statistics
    groups = joined(replace(group, label=_as_text(group.label)) for group in statistics.groups)
    return GroupMoments.of(replace(statistics, groups=groups))


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
    widths = [max(terminal_width(line[i]) for line in lines) for i in range(3)]
    text: list[str] = []
    for above, (name, rows, weight) in zip(["", *whole], lines, strict=True):
        if cut is None:
            text += wrapped(above, _WIDTH, "  ")
        padded = name + " " * (widths[0] - terminal_width(name))
        text.append(f"{padded}  {rows:>{widths[1]}}  {weight:>{widths[2]}}")
    n_rows = int(moments.counts.sum())
    counted, features = count(n_rows, "row"), count(moments.n_features, "feature")
    intake = f"; {moments.intake}" if str(moments.intake) else ""
    return "\n".join([*text, "", *wrapped(in_ascii(f"{counted}, {features}") + intake, _WIDTH)])


def _warn_of_tiny_groups(moments: GroupMoments) -> None:
    tiny = [
        group_name(label)
        for label, n in zip(moments.labels, moments.counts.tolist(), strict=True)
        if n <= _ROWS_THAT_SHOW
    ]
    if not tiny:
        return
    named = first_of([f"'{name}'" for name in tiny], _MOST_NAMED)
    complain(
        "warning",
        f"Groups of 1 or 2 rows ({named}): their rows can be recovered from these moments; "
        "use --min-group-size to leave such groups out.",
    )
