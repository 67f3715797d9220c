"""Open rows of files and of other packages."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import click

from fairspan.cli.command import usage_error_if
from fairspan.cli.number_options import command_advice
from fairspan.cli.option_values import CsvOptions, ReadOptions
from fairspan.cli.options import MISSING_GROUP_OPTION
from fairspan.errors import InvalidInput, InvalidType, import_optional
from fairspan.formatting.messages import quoted_cell
from fairspan.registry import ExternalObject
from fairspan.rows.aggregation import Rows
from fairspan.rows.column_selection import ColumnRoles, ColumnSelection, is_text_type
from fairspan.rows.files.file_rows import FileRows
from fairspan.rows.files.text_columns import (
    advice_on_numbers,
    drop_features,
    first_non_numeric_text,
    non_numeric_features,
    one_hot_encode_text,
)
from fairspan.rows.labels import format_list
from fairspan.rows.protocol import RowSource
from fairspan.storage.archive import looks_like_archive

if TYPE_CHECKING:
    from fairspan.moments.normal_model import NormalModel
    from fairspan.rows.files.na_values import NaValues

# Options that also apply to external rows.
_OPTIONS_FOR_EXTERNAL_ROWS = {"features", "exclude", "max_groups", "max_memory", "unseen"}
_ALLOWED_FEATURES = "Allowed: numeric and boolean features; give group columns with --group"
_ALLOWED_WEIGHTS = "Allowed: finite weights, zero or above"
_NAME_WEIGHTS = "Correct such cells, or name a column of numbers with --weight"
# Allowed features and remedy in errors of rows for a saved model, which needs every feature.
NUMERIC_MODEL_FEATURES = (
    "Allowed: numbers in every feature of the model",
    "Write them as in the rows that the model was fitted on",
)
_EXCLUDE_REMEDY = (
    "Correct such cells, exclude the columns with --numeric-only or --exclude, or encode text "
    "with --one-hot"
)


def is_archive_file(path: Path) -> bool:
    """Whether a file is a saved model or moments."""
    return path.is_file() and looks_like_archive(path)


class ModelOfRows(Protocol):
    """Model that may impute missing cells of rows."""

    @property
    def imputation_model(self) -> "NormalModel | None":
        """Normal model of the rows; None if they must be complete."""


def read_options_for(
    models: Iterable[ModelOfRows], data: Path | ExternalObject, read_options: ReadOptions
) -> ReadOptions:
    """Return the options, with on_missing="em" if a model was fitted with EM and none is given."""
    is_table = isinstance(data, Path) and not is_archive_file(data)
    uses_em = any(model.imputation_model is not None for model in models)
    if is_table and uses_em and read_options.cells.on_missing == "error":
        return replace(read_options, cells=replace(read_options.cells, on_missing="em"))
    return read_options


def csv_format(options: CsvOptions) -> dict[str, str | bool | int] | None:
    """Return the CSV options for `FileRows.open`; None if none was given.

    The words "tab" and "space" stand for these characters, which are hard to type in a shell.
    """
    characters = {
        "delimiter": "\t" if options.delimiter in ("tab", "\\t") else options.delimiter,
        "decimal": options.decimal,
        "thousands": " " if options.thousands == "space" else options.thousands,
        "encoding": options.encoding,
        "comment": options.comment,
    }
    given: dict[str, str | bool | int] = {
        name: value for name, value in characters.items() if value is not None
    }
    if options.no_header:
        given["header"] = False
    if options.skip_rows:
        given["skip_rows"] = options.skip_rows
    return given or None


def na_values(read_options: ReadOptions) -> "NaValues | None":
    """Return the cells that stand for missing values, for `FileRows.open`."""
    if not read_options.cells.na_values:
        return None
    import_optional("pyarrow", "arrow", "Reading a file with --na-values")
    from fairspan.rows.files.na_values import parse_na_words  # slow to import

    return parse_na_words(read_options.cells.na_values)


def open_row_source(
    read_options: ReadOptions, path: Path | ExternalObject, clusters: str | None = None
) -> RowSource:
    """Open the rows of a file or folder, or external rows, without reading them.

    Parameters
    ----------
    read_options : ReadOptions
    path : Path or ExternalObject
    clusters : str, optional
        Cluster column.

    Returns
    -------
    RowSource

    Raises
    ------
    InvalidInput
        A column with bins holds text, or a text column looks like numbers with separators.
    """
    if isinstance(path, ExternalObject):
        return _open_external_rows(read_options, path)
    columns = read_options.columns
    cells = read_options.cells
    usage_error_if(not columns.groups, MISSING_GROUP_OPTION)
    roles = ColumnRoles(tuple(columns.groups), columns.y_column, clusters, columns.weight)
    rows = FileRows.open_with_roles(
        path,
        roles,
        columns.features,
        columns.exclude,
        on_missing=cells.on_missing,
        csv=csv_format(read_options.csv),
        na_values=na_values(read_options),
    )
    for column, _ in columns.bins:
        _check_can_be_binned(rows, column)
    if columns.numeric_only or columns.one_hot:
        rows = _encode_or_exclude_text(rows, one_hot=columns.one_hot)
    # Group that rows without one are assigned to, by group column.
    missing_labels: dict[str, str] = {}
    if cells.missing_group not in (None, "drop"):
        missing_labels = dict.fromkeys(columns.groups, cells.missing_group)
    # With "error", any missing cell is an error, so dropping rows without a group is a value of its
    # own. The other values of --on-missing drop these rows anyway.
    drops_without_group = cells.missing_group == "drop" and cells.on_missing == "error"
    selection = replace(
        rows.selection,
        ignore_unseen=cells.unseen == "ignore",
        bins=dict(columns.bins),
        missing_labels=missing_labels,
        on_missing="drop without group" if drops_without_group else cells.on_missing,
    )
    return replace(rows, n_jobs=read_options.resources.jobs or 1, selection=selection)


def _check_can_be_binned(rows: FileRows, column: str) -> None:
    """Check that a column with bins holds numbers.

    Raises
    ------
    InvalidInput
    """
    if not is_text_type(rows.schema.field(column).type):
        return
    remedy = "Omit --bin, and each text is a group"
    advice = advice_on_numbers(rows, [column]).get(column)
    if advice is not None:
        remedy = command_advice(advice)
    raise InvalidInput(
        f"{rows.location}: --bin cuts the column {column!r}, which holds text",
        "Allowed: group columns of numbers",
        remedy,
    )


def _open_external_rows(read_options: ReadOptions, source: ExternalObject) -> RowSource:
    """Open external rows, which include their groups, with the requested features.

    Options that apply to files only are rejected.
    """
    rows = external_rows(source)
    rejected = read_options.changed_options - _OPTIONS_FOR_EXTERNAL_ROWS
    read_options.reject_options(f"{source} provides rows with their own groups", rejected)
    if not (read_options.columns.features or read_options.columns.exclude):
        return rows
    selection = ColumnSelection.from_patterns(
        rows.feature_names or (),
        vector_lengths={},  # each feature of external rows is one number
        roles=ColumnRoles(),
        features=read_options.columns.features,
        exclude=read_options.columns.exclude,
    )
    return rows.select_features(selection.features)


def external_rows(source: ExternalObject) -> RowSource:
    """Return the row source that an external object is or creates.

    Raises
    ------
    InvalidType
        It does not provide rows that can be read in blocks.
    """
    rows = source.factory()
    if not isinstance(rows, RowSource):
        raise InvalidType(
            f"{source} makes an object of type {type(rows).__name__}",
            "Allowed: rows that are read in blocks, as fairspan.extending.RowSource describes them",
            "Name such an object, or a function without arguments that returns one",
        )
    return rows


def _encode_or_exclude_text(rows: FileRows, *, one_hot: bool) -> FileRows:
    """Return the rows with text columns one-hot encoded, or else without non-numeric columns.

    Columns that are excluded are named on standard error.

    Raises
    ------
    InvalidInput
        A text column looks like numbers with separators, which would be lost.
    """
    non_numeric = non_numeric_features(rows)
    _check_no_separators(rows, non_numeric)
    if one_hot:
        return one_hot_encode_text(rows)
    if not non_numeric:
        return rows
    remaining = drop_features(rows, non_numeric)
    click.echo(f"fairspan: --numeric-only leaves out {format_list(non_numeric)}.", err=True)
    return remaining


def _check_no_separators(rows: FileRows, non_numeric: tuple[str, ...]) -> None:
    """Check that no column of text looks like numbers with separators, such as "1,234".

    Raises
    ------
    InvalidInput
    """
    advice = advice_on_numbers(rows, non_numeric)
    separated = tuple(name for name in advice if advice[name].is_separated)
    if not separated:
        return
    name = separated[0]
    where, text = first_non_numeric_text(rows, name)
    of_column = f" of {name!r}" if len(separated) > 1 else ""
    raise InvalidInput(
        f"{rows.location}: {_columns_contain(separated)} numbers with separators, such as "
        f"{quoted_cell(text)} in {where}{of_column}",
        _ALLOWED_FEATURES,
        f"{command_advice(advice[name])}; or exclude these columns with --exclude",
    )


def check_numeric_features(
    rows: Rows, allowed: str = _ALLOWED_FEATURES, remedy: str = _EXCLUDE_REMEDY
) -> None:
    """Check that features and weights of a file are numeric, before reading rows.

    Rows of other sources are checked when they are read.

    Parameters
    ----------
    rows : Rows
    allowed, remedy : str
        Texts for the error about features; a remedy found in the file itself takes precedence.

    Raises
    ------
    InvalidInput
        There are text or date columns; the message suggests a remedy.
    """
    if not isinstance(rows, FileRows):
        return
    features = non_numeric_features(rows)
    weights = _text_in_weights(rows)
    if features:
        raise _non_numeric_error(rows, (*features, *weights), allowed, remedy)
    if weights:
        raise _non_numeric_error(rows, weights, _ALLOWED_WEIGHTS, _NAME_WEIGHTS)


def _text_in_weights(rows: FileRows) -> tuple[str, ...]:
    """Return the column of weights if it holds text, and none otherwise."""
    weight = rows.selection.roles.weights
    is_text_column = weight is not None and is_text_type(rows.schema.field(weight).type)
    if not is_text_column:
        return ()
    return (str(weight),)


def _non_numeric_error(
    rows: FileRows, columns: tuple[str, ...], allowed: str, default_remedy: str
) -> InvalidInput:
    """Return the error for non-numeric columns, with the most likely remedy.

    Parameters
    ----------
    rows : FileRows
    columns : tuple of str
        The columns, of which the message describes one.
    allowed, default_remedy : str
        Texts of the message; the remedy is used if the cells suggest no other.
    """
    part = rows.parts[0]
    dtypes = {name: str(rows.schema.field(name).type) for name in columns}
    # A column of a CSV file is read as binary if it cannot be decoded: the encoding is wrong.
    if part.csv_format is not None and "binary" in dtypes.values():
        from fairspan.rows.files.csv_errors import csv_read_error

        return csv_read_error(part.path, part.csv_format, UnicodeError())
    advice = advice_on_numbers(rows, columns)
    # Prefer a column that looks like numbers over one of names.
    column = next(iter(advice), columns[0])
    content = f"no numbers ({dtypes[column]})"
    if is_text_type(rows.schema.field(column).type):
        where, text = first_non_numeric_text(rows, column)
        if text is not None:
            of_column = f" of {column!r}" if len(columns) > 1 else ""
            content = f"text, such as {quoted_cell(text)} in {where}{of_column}"
    remedy = command_advice(advice[column]) if advice else default_remedy
    return InvalidInput(f"{rows.location}: {_columns_contain(columns)} {content}", allowed, remedy)


def _columns_contain(columns: tuple[str, ...]) -> str:
    """Return the start of a sentence that says what columns contain."""
    if len(columns) > 1:
        return f"the columns {format_list(columns)} hold"
    return f"the column {format_list(columns)} holds"
