"""Remedies for errors of rows, by the options of a command."""

import click

from fairspan.errors import Cause
from fairspan.rows.remedies import em_without_empty_rows, missing_remedies


def command_remedies(command: click.Command) -> dict[Cause, str]:
    """Return remedies that name only options of this command."""
    options = {name for parameter in command.params for name in parameter.opts}
    remedies = {
        Cause.INCOMPLETE_PARTS: "Read all rows together with fairspan moments --on-missing em, or "
        "leave incomplete rows out of each part with fairspan moments --on-missing drop"
    }
    if "--on-missing" in options:
        drop, em = "--on-missing drop", "--on-missing em"
        has_groups = "--missing-group" in options
        name_group = " (--missing-group unknown)" if has_groups else ""
        # Whether a saved model can take missing cells was decided by its fit.
        remedies |= missing_remedies(drop, em if has_groups else None, name_group)
        remedies[Cause.EMPTY_ROW] = f"Leave such rows out ({em_without_empty_rows(em)})"
    if "--max-groups" in options:
        remedies[Cause.MANY_GROUPS] = (
            "Name another column with --group, put numbers into bins with --bin COLUMN=EDGES, or "
            "allow that many groups with --max-groups {n_groups}"
        )
        remedies[Cause.OVER_MAX_GROUPS] = (
            "Choose a larger number, --max-groups {n_groups}, or name another column with --group"
        )
    if "--exclude" in options:
        remedies[Cause.EMPTY_COLUMN] = "Leave out {columns} with --exclude"
        remedies[Cause.TEXT_COLUMN] = (
            "Leave these columns out with --exclude, or encode text with --one-hot"
        )
        remedies[Cause.UNOBSERVED_COLUMN] = (
            "Leave the column out with --exclude, leave out the group, or join it with another"
        )
    if "--delimiter" in options:
        remedies[Cause.CSV_STYLE] = "{command}"
    if "--label" in options:
        remedies[Cause.MISSING_CLASSES] = "Name the column of the classes with --label COL"
    if "--max-memory" in options:
        remedies[Cause.TOO_LARGE] = (
            "Choose fewer features or groups, or allow more with --max-memory SIZE, such as 8GB"
        )
    if "--part" in options:
        remedies[Cause.UNKNOWN_PART] = "Name it with --part package.module:Object"
    if "--one-hot" in options:
        remedies[Cause.NO_INDICATORS] = "Leave out --one-hot"
    if "--unseen" in options:
        remedies[Cause.UNKNOWN_CATEGORY] = (
            "Fit again on rows with this category, or take such texts for none of the known ones "
            "with --unseen ignore"
        )
    return remedies
