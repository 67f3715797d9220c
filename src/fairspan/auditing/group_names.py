"""Names of groups and shares in messages and tables."""

from collections.abc import Sequence

from fairspan.auditing.results import GroupResult
from fairspan.formatting.names import join_alternatives, join_truncated
from fairspan.formatting.numbers import format_count, format_share, to_ascii
from fairspan.rows.labels import Label, format_label, printable, table_name


def format_group(label: Label) -> str:
    """Display name of a group."""
    return table_name(label)


def quote_group(label: Label) -> str:
    """Quoted display name of a group."""
    return f"'{printable(format_label(label))}'"


def quote_groups(groups: Sequence[GroupResult]) -> str:
    """Quoted names of the groups, comma-separated."""
    return quote_labels([group.group for group in groups])


def quote_labels(labels: Sequence[Label]) -> str:
    """Quoted display names of groups, comma-separated."""
    return join_truncated([quote_group(label) for label in labels])


def names_with_counts(groups: Sequence[GroupResult]) -> str:
    """Quoted names of the groups, followed by their total number of rows in parentheses.

    Clusters are counted instead, where there are any.
    """
    return f"{quote_groups(groups)} ({_total_count(groups)})"


def alternatives_with_counts(groups: Sequence[GroupResult]) -> str:
    """Quoted names of the groups joined by "or", followed by their total number of rows."""
    names = join_alternatives([quote_group(group.group) for group in groups])
    return f"{names} ({_total_count(groups)})"


def _total_count(groups: Sequence[GroupResult]) -> str:
    """Return "120 rows", "120 rows together" of several groups, or the number of clusters."""
    unit = "row"
    counts = [group.n_rows for group in groups]
    if all(group.n_clusters is not None for group in groups):
        unit = "cluster"
        counts = [group.n_clusters or 0 for group in groups]
    count = to_ascii(format_count(sum(counts), unit))
    return f"{count} together" if len(groups) > 1 else count


def count_needed(group: GroupResult) -> str:
    """Return how many rows would settle the state of a group, or clusters where there are any.

    Only for a group for which the number is known, such as "1,400 rows of 'a'".
    """
    unit = "row"
    count = group.n_rows_needed
    if group.n_clusters_needed is not None:
        unit = "cluster"
        count = group.n_clusters_needed
    return f"{to_ascii(format_count(count or 0, unit))} of {quote_group(group.group)}"


def ascii_share(share: float, threshold: float | None = None) -> str:
    """Format a share in ASCII characters, never rounded to the threshold it is compared with."""
    return to_ascii(format_share(share, threshold))
