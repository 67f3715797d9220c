"""How audits name groups."""

from collections.abc import Sequence

from fairspan.auditing.results import GroupAudit
from fairspan.formatting.names import first_of
from fairspan.rows.groups import Label, printable, spelled


def labels(groups: Sequence[GroupAudit]) -> tuple[Label, ...]:
    """Of each group its label."""
    return tuple(group.group for group in groups)


def names(groups: Sequence[GroupAudit]) -> str:
    """The groups' names in a row."""
    return first_of([quoted(group.group) for group in groups])


def group_name(label: Label) -> str:
    """A group's name as tables, pages and figures print it."""
    return printable(spelled(label))


def quoted(label: Label) -> str:
    """A group's name in quotes."""
    return f"'{group_name(label)}'"


def counts(groups: Sequence[GroupAudit]) -> str:
    """The groups' numbers of rows in a row."""
    return first_of([str(group.n) for group in groups])
