"""Warnings about the groups of saved moments."""

from collections.abc import Iterable

from fairspan.auditing.findings.label_rules import label_findings
from fairspan.auditing.group_names import quote_group
from fairspan.cli.command_terminal import print_message
from fairspan.cli.finding_hints import with_command_hint
from fairspan.cli.manifest import MAX_NAMES
from fairspan.formatting.names import join_truncated
from fairspan.moments.group_moments import GroupMoments
from fairspan.rows.labels import Label

# A group of one row is its mean, and two rows follow from their mean and covariance.
_MAX_REVEALED_ROWS = 2


def warn_about_tiny_groups(counts: Iterable[tuple[Label, int]], remedy: str) -> None:
    """Warn about groups of 1 or 2 rows, which can be recovered from their moments.

    Parameters
    ----------
    counts : iterable of (label, number of rows)
    remedy : str
        What to do, with which the warning ends.
    """
    tiny = dict.fromkeys(
        quote_group(label) for label, n_rows in counts if 0 < n_rows <= _MAX_REVEALED_ROWS
    )
    if tiny:
        print_message(
            "warning",
            f"Groups of 1 or 2 rows ({join_truncated(list(tiny), MAX_NAMES)}): their rows can be "
            f"recovered from these moments; {remedy}",
        )


def warn_of_labels(moments: GroupMoments) -> None:
    """Warn on standard error of labels of groups that most likely are mistakes."""
    for finding in label_findings(moments):
        print_message("warning", with_command_hint(finding).message)
