"""Remedies for errors of rows, by the options of a command."""

import click

from fairspan.errors import Cause
from fairspan.rows.remedies import missing_remedies

# Remedies that every command can offer.
_OF_ALL_COMMANDS = {
    Cause.INCOMPLETE_PARTS: "Read all rows together with fairspan moments --on-missing em, or "
    "drop incomplete rows from each part with fairspan moments --on-missing drop",
}

# Remedies by the option that they name.
_BY_OPTION = {
    "--max-groups": {
        Cause.MANY_GROUPS: "Name another column with --group, put numbers into bins with --bin "
        "COLUMN=EDGES, or allow that many groups with --max-groups {n_groups}",
        Cause.OVER_MAX_GROUPS: "Choose a larger number, --max-groups {n_groups}, or name another "
        "column with --group",
    },
    "--exclude": {
        Cause.EMPTY_COLUMN: "Exclude {columns} with --exclude",
        Cause.TEXT_COLUMN: "Exclude these columns with --exclude, or encode text with --one-hot",
        Cause.UNOBSERVED_COLUMN: "Exclude the column with --exclude, drop the group, or merge "
        "it with another",
    },
    # The error says which of several options to add.
    "--delimiter": {Cause.CSV_STYLE: "{command}"},
    "--y": {Cause.MISSING_CLASSES: "Name the column of the classes with --y COL"},
    "--max-memory": {
        Cause.TOO_LARGE: "Choose fewer features or groups, or allow more with --max-memory SIZE, "
        "such as 8GB"
    },
    "--custom-object": {Cause.UNKNOWN_PART: "Name it with --custom-object package.module:Object"},
    "--one-hot": {Cause.NO_INDICATORS: "Omit --one-hot"},
    "--unseen": {
        Cause.UNKNOWN_CATEGORY: "Fit again on rows with this category, or take such texts for none "
        "of the known ones with --unseen ignore"
    },
}


def command_remedies(command: click.Command) -> dict[Cause, str]:
    """Return the remedy for each cause of an error; remedies name only options of this command."""
    options = {name for parameter in command.params for name in parameter.opts}
    remedies = dict(_OF_ALL_COMMANDS)
    if "--on-missing" in options:
        has_groups = "--missing-group" in options
        remedies |= missing_remedies(
            "--on-missing {}",
            # Commands without groups apply a saved model, whose fit decided whether cells may be
            # missing.
            allows_em=has_groups,
            name_group=" (--missing-group unknown)" if has_groups else "",
        )
    for option, option_remedies in _BY_OPTION.items():
        if option in options:
            remedies |= option_remedies
    return remedies
