"""Rows of files and of other packages, read as options say."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairspan.cli.options import NO_GROUP, Reading, refuse_if
from fairspan.errors import InvalidInput, InvalidType, imported
from fairspan.formatting.text import quoted_cell
from fairspan.registry import Foreign
from fairspan.rows.columns import ChosenColumns, is_text
from fairspan.rows.files.file_rows import (
    FileRows,
    advice_on_numbers,
    encode_text,
    first_text,
    not_numeric,
    without_features,
)
from fairspan.rows.groups import listed
from fairspan.rows.protocol import Rows, RowSource
from fairspan.storage import is_archive

if TYPE_CHECKING:
    from fairspan.rows.files.na_values import NaValues

# Options that also concern rows of another package.
_OF_ANY_ROWS = {"features", "exclude", "max_groups", "max_memory", "unseen"}
_ALLOWED = "Allowed: numbers and truth values; a group column is named with --group"
_ALLOWED_WEIGHTS = "Allowed: finite weights, zero or above"
_NAME_WEIGHTS = "Correct such cells, or name a column of numbers with --weight"
# What is allowed, and the remedy, where a saved model needs every feature.
OF_MODEL = (
    "Allowed: numbers in every feature of the model",
    "Write them as in the rows that the model was fitted on",
)
_LEAVE_OUT = (
    "Correct such cells, leave the columns out with --numeric-only or --exclude, or encode text "
    "with --one-hot"
)


def holds_archive(path: Path) -> bool:
    """Whether a file is a model or moments."""
    return path.is_file() and is_archive(path)


def reading_for(models: Iterable[Any], data: Path | Foreign, reading: Reading) -> Reading:
    """How rows are read for models: missing cells are kept if one was fitted to rows with some."""
    is_table = isinstance(data, Path) and not holds_archive(data)
    keeps = any(each.normal is not None for each in models)
    if is_table and keeps and reading.on_missing == "error":
        return replace(reading, on_missing="em")
    return reading


def csv_format(reading: Reading) -> dict[str, Any] | None:
    """How CSV files are written, for `FileRows.open`; None where nothing was said."""
    names = ("delimiter", "decimal", "thousands", "encoding", "comment")
    said = {name: getattr(reading, name) for name in names if getattr(reading, name) is not None}
    if said.get("delimiter") in ("tab", "\\t"):
        said["delimiter"] = "\t"
    if said.get("thousands") == "space":
        said["thousands"] = " "
    if reading.no_header:
        said["header"] = False
    return said or None


def na_values(reading: Reading) -> "NaValues | None":
    """Return the cells that stand for missing values, for `FileRows.open`."""
    if not reading.na_values:
        return None
    imported("pyarrow", "arrow", "Reading a file with --na-values")
    from fairspan.rows.files.na_values import na_values_of_words  # takes its time

    return na_values_of_words(reading.na_values)


def opened(reading: Reading, path: Path | Foreign, clusters: str | None = None) -> RowSource:
    """The rows of a file or folder, or of another package.

    The last columns of their labels are the class in y and the cluster, where these were requested.
    """
    if isinstance(path, Foreign):
        return _opened_foreign(reading, path)
    refuse_if(not reading.groups, NO_GROUP)
    rows = FileRows.open(
        path,
        (*reading.groups, *[name for name in (reading.label, clusters) if name is not None]),
        reading.features,
        reading.exclude,
        weight=reading.weight,
        on_missing=reading.on_missing,
        csv=csv_format(reading),
        na_values=na_values(reading),
    )
    for column, _ in reading.bins:
        if is_text(rows.schema.field(column).type):
            advice = advice_on_numbers(rows, [column]).get(column)
            raise InvalidInput(
                f"{rows.where}: --bin cuts the column {column!r}, which holds text",
                "Allowed: group columns of numbers",
                "Leave out --bin, and each text is a group" if advice is None else advice.command,
            )
    if reading.numeric_only or reading.one_hot:
        rows = _prepared(rows, one_hot=reading.one_hot)
    ignores = reading.unseen == "ignore"
    name = reading.missing_group
    drops = name == "drop" and reading.on_missing == "error"
    chosen = replace(
        rows.chosen,
        ignores_unseen=ignores,
        bins=dict(reading.bins),
        unknown={} if name in (None, "drop") else dict.fromkeys(reading.groups, name),
        on_missing="drop without group" if drops else reading.on_missing,
    )
    return replace(rows, jobs=reading.jobs or 1, chosen=chosen)


def _opened_foreign(reading: Reading, source: Foreign) -> RowSource:
    """Rows of another package, which bring their groups, with the features requested."""
    rows = foreign_rows(source)
    asked = reading.requested - _OF_ANY_ROWS
    reading.refuse(f"{source} makes rows that bring their groups and are no file", asked)
    if not (reading.features or reading.exclude):
        return rows
    return rows.selected(
        ChosenColumns.of(
            rows.feature_names or (), {}, features=reading.features, exclude=reading.exclude
        ).features
    )


def foreign_rows(source: Foreign) -> RowSource:
    """The rows that an object of another package is, or that a class or function there makes.

    Raises
    ------
    InvalidType
        It is not, or does not make, rows that can be read in blocks.
    """
    rows = source.factory()
    if not isinstance(rows, RowSource):
        raise InvalidType(
            f"{source} makes an object of type {type(rows).__name__}",
            "Allowed: rows that are read in blocks, as fairspan.extending.RowSource describes them",
            "Name such an object, or a function without arguments that returns one",
        )
    return rows


def _prepared(rows: FileRows, *, one_hot: bool) -> FileRows:
    """Rows whose columns of text are encoded, or left out.

    Raises
    ------
    InvalidInput
        A column of text looks like numbers with commas, which would be lost.
    """
    others = not_numeric(rows)
    advice = advice_on_numbers(rows, others)
    separated = tuple(name for name in advice if advice[name].is_separated)
    if separated:
        name = separated[0]
        where, text = first_text(rows, name)
        of_column = f" of {name!r}" if len(separated) > 1 else ""
        raise InvalidInput(
            f"{rows.where}: {_held(separated)} numbers with separators, such as "
            f"{quoted_cell(text)} in {where}{of_column}",
            _ALLOWED,
            f"{advice[name].command}; or leave these columns out with --exclude",
        )
    if one_hot or not others:
        return encode_text(rows) if one_hot else rows
    left = without_features(rows, others)
    click.echo(f"fairspan: --numeric-only leaves out {listed(others)}.", err=True)
    return left


def check_numeric(rows: Rows, allowed: str = _ALLOWED, remedy: str = _LEAVE_OUT) -> None:
    """Make sure that the features of files are numbers, before any row is read.

    Parameters
    ----------
    rows : Rows
    allowed, remedy : str
        What an error says of columns that were not meant as numbers, either.

    Raises
    ------
    InvalidInput
        Columns of text or dates, with what most likely helps.
    """
    if not isinstance(rows, FileRows):
        return
    features = not_numeric(rows)
    weights = _text_in_weights(rows)
    if features:
        raise _refusal(rows, (*features, *weights), allowed, remedy)
    if weights:
        raise _refusal(rows, weights, _ALLOWED_WEIGHTS, _NAME_WEIGHTS)


def _text_in_weights(rows: FileRows) -> tuple[str, ...]:
    """Return the column of weights if it holds text, and none otherwise."""
    weight = rows.chosen.weight
    is_text_column = weight is not None and is_text(rows.schema.field(weight).type)
    return (str(weight),) if is_text_column else ()


def _refusal(rows: FileRows, columns: tuple[str, ...], allowed: str, usual: str) -> InvalidInput:
    """What to raise of columns that are no numbers, with what most likely helps."""
    part = rows.parts[0]
    kinds = {name: str(rows.schema.field(name).type) for name in columns}
    if part.form is not None and "binary" in kinds.values():  # as what cannot be decoded is
        from fairspan.rows.files.csv_errors import unreadable

        return unreadable(part.path, part.form, UnicodeError())
    advice = advice_on_numbers(rows, columns)
    # A column that was meant as numbers tells more than one of names.
    column = next(iter(advice), columns[0])
    held = f"no numbers ({kinds[column]})"
    if is_text(rows.schema.field(column).type):
        where, text = first_text(rows, column)
        if text is not None:
            of_column = f" of {column!r}" if len(columns) > 1 else ""
            held = f"text, such as {quoted_cell(text)} in {where}{of_column}"
    remedy = advice[column].command if advice else usual
    return InvalidInput(f"{rows.where}: {_held(columns)} {held}", allowed, remedy)


def _held(columns: tuple[str, ...]) -> str:
    """Columns, and that they hold what follows."""
    several = len(columns) > 1
    return f"the column{'s' * several} {listed(columns)} hold{'s' * (not several)}"
