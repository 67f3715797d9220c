"""Remedies for errors of rows, by the options of a command."""

from collections.abc import Mapping
from typing import Any

import click

from fairspan.cli.number_options import command_advice
from fairspan.errors import Cause, Remedy
from fairspan.rows.row_remedies import missing_remedies

_FORMAT_OPTIONS = "--delimiter, --decimal, --encoding, --comment"
# Remedies that every command can offer.
_OF_ALL_COMMANDS: dict[Cause, Remedy] = {
    Cause.INCOMPLETE_PARTS: "Read all rows together with fairspan moments --on-missing em, or "
    "drop incomplete rows from each part with fairspan moments --on-missing drop",
    Cause.DIFFERENT_MOMENTS: "Read both parts with the same columns, and with labels of one type; "
    "for saved moments, fairspan merge --label-type text converts labels to text",
    Cause.MIXED_FOLDER: "Check the path, or put files of each format into a separate folder; merge "
    "saved moments with fairspan merge",
}


def _number_remedy(details: Mapping[str, Any]) -> str:
    """Return how to read a column as numbers, from the advice in the details of an error."""
    return command_advice(details["advice"])


# Remedies by the option that they name.
_BY_OPTION: dict[str, dict[Cause, Remedy]] = {
    "--max-groups": {
        Cause.MANY_GROUPS: "Name another column with --group, put numbers into bins with --bin "
        "COLUMN=EDGES, or allow that many groups with --max-groups {n_groups}",
        Cause.OVER_MAX_GROUPS: "Choose a larger number, --max-groups {n_groups}, or name another "
        "column with --group",
    },
    "--exclude": {
        Cause.EMPTY_COLUMN: "Exclude {columns} with --exclude",
        Cause.TEXT_COLUMN: "Exclude these columns with --exclude, or encode text with --one-hot",
        Cause.IDENTIFIER_COLUMN: "Exclude it with --exclude: it looks like a name or an identifier",
        Cause.UNOBSERVED_COLUMN: "Exclude the column with --exclude, drop the group, or merge "
        "it with another",
    },
    "--delimiter": {
        Cause.CSV_FORMAT: f"{{check}} ({_FORMAT_OPTIONS})",
        Cause.CSV_ENCODING: "Specify it: --encoding {encoding}{alternative}",
        Cause.CSV_TITLE: "Skip the lines above the header with --skip-rows {n_above} or "
        "--comment, or specify the delimiter, --delimiter",
        Cause.CSV_COLUMNS_OF_A_ROW: "Add a header line; or add --no-header and name a group as "
        "column_3, for example",
        Cause.CSV_NAMES_IN_A_ROW: "If the first line is a row, add --no-header; otherwise rename "
        "them",
        Cause.DECIMAL_IS_DELIMITER: "Omit --decimal, or pass the delimiter, such as --delimiter "
        "';'",
        Cause.DECIMAL_IS_THOUSANDS: "Add --decimal , to the command, since the default decimal "
        "point is '.'",
        Cause.NUMBER_FORMAT: _number_remedy,
    },
    "--y": {Cause.MISSING_CLASSES: "Name the column of the classes with --y COL"},
    "--max-memory": {
        Cause.TOO_LARGE: "Choose fewer features or groups, or allow more with --max-memory SIZE, "
        "such as 8GB"
    },
    "--history": {
        Cause.REPEATED_ROWS: "Check which rows were passed, or add them again with --force"
    },
    "--custom-object": {Cause.UNKNOWN_PART: "Name it with --custom-object package.module:Object"},
    "--one-hot": {
        Cause.NO_INDICATORS: "Omit --one-hot",
        Cause.NO_NUMERIC_COLUMN: "Encode text with --one-hot, or use another table",
    },
    "--unseen": {
        Cause.UNKNOWN_CATEGORY: "Fit again on rows with this category, or take such texts for none "
        "of the known ones with --unseen ignore"
    },
}


# Remedies of warnings.
WARNING_REMEDIES = {
    Cause.CSV_COLUMNS_OF_A_ROW: "If there is no header, name the columns column_1, column_2 and so "
    "on with --no-header.",
}


def command_remedies(command: click.Command) -> dict[Cause, Remedy]:
    """Return the remedy for each cause of an error; remedies name only options of this command."""
    options = {name for parameter in command.params for name in parameter.opts}
    remedies = dict(_OF_ALL_COMMANDS)
    if "--on-missing" in options:
        has_groups = "--missing-group" in options
        remedies |= missing_remedies(
            "--on-missing {}",  # the remedies fill in the value
            # Commands without groups apply a saved model, whose fit decided whether cells may be
            # missing.
            allows_em=has_groups,
            name_group=" (--missing-group unknown)" if has_groups else "",
        )
    for option, option_remedies in _BY_OPTION.items():
        if option in options:
            remedies |= option_remedies
    return remedies
