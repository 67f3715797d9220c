"""Files by path: one file, or a folder of them with columns in the names of sub-folders (hive)."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from fairspan.errors import InvalidInput, MissingDependency, warn
from fairspan.rows.files.formats import TableFile, kind_by_name, open_file
from fairspan.rows.files.parts import Constants
from fairspan.rows.groups import listed

_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


def open_table(path: Path) -> TableFile:
    """Open a file by its name, or by its first bytes where the name does not tell; or a folder.

    Raises
    ------
    InvalidInput
        Not a table that can be read: missing, empty, damaged, of another kind, or with two columns
        of the same name.
    MissingDependency
        pyarrow is not installed.
    """
    if not path.exists():
        raise InvalidInput(
            f"There is no file {path}", "Allowed is a file or folder that exists", "Check the path"
        )
    if not (path.is_dir() or path.is_file()):
        raise InvalidInput(
            f"{path} is a pipe or a device",
            "Allowed are files and folders, since rows are read more than once",
            "Write the rows to a file first",
        )
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise MissingDependency.for_extra("pyarrow", "arrow", f"Reading {path}") from error
    return open_folder(path) if path.is_dir() else open_file(path)


def open_folder(folder: Path) -> TableFile:
    """Open all files of a folder and its sub-folders, in the order of their names.

    A sub-folder named ``year=2024`` gives its files the column ``year``: whole numbers if all its
    values are, else text. Names that begin with a dot or an underscore are passed over, as writers
    keep their notes there.

    Raises
    ------
    InvalidInput
        No files, files of several kinds, or files that differ in columns or in their types.
    """
    found = sorted(path for path in folder.rglob("*") if _is_data(path.relative_to(folder)))
    found = [path for path in found if path.is_file()]
    files = [path for path in found if kind_by_name(path) is not None]
    if files and len(files) < len(found):
        others = [path.name for path in found if path not in files]
        warn(
            f"{folder}: files are passed over whose names end like no file of rows: "
            f"{listed(others)}. Rename them if they hold rows."
        )
    kinds = sorted({str(kind_by_name(path)) for path in files})
    if len(kinds) != 1:
        raise InvalidInput(
            f"The folder {folder} holds "
            + (f"files of several kinds: {', '.join(kinds)}" if kinds else "no file of rows"),
            "Allowed are Parquet files, or CSV files, or Arrow files, at least one",
            "Check the path, or sort the files into folders",
        )
    tables = [
        open_file(file, kinds[0], constants)
        for file, constants in zip(files, _constants(folder, files), strict=True)
    ]
    for table in tables[1:]:
        _check_alike(tables[0], table)
    return replace(
        tables[0], path=folder, parts=tuple(part for table in tables for part in table.parts)
    )


def _is_data(relative: Path) -> bool:
    return not any(name.startswith((".", "_")) and "=" not in name for name in relative.parts)


def _constants(folder: Path, files: Sequence[Path]) -> list[Constants]:
    """Columns and values of each file's sub-folders, numbers where a column has only numbers."""
    texts: list[dict[str, str | None]] = []
    for file in files:
        pairs = [name.split("=", 1) for name in file.relative_to(folder).parts[:-1] if "=" in name]
        texts.append({unquote(key): _value(text) for key, text in pairs})
        if set(texts[-1]) != set(texts[0]):
            raise InvalidInput(
                f"{file} lies under {listed(sorted(texts[-1]))}, but {files[0]} under "
                f"{listed(sorted(texts[0]))}",
                "Allowed are files under sub-folders of the same columns, as in year=2024",
                "Move the files that do not belong here",
            )
    numbers = {
        name
        for name in texts[0]
        if all(each[name] is None or _is_whole(str(each[name])) for each in texts)
    }
    return [
        tuple(
            (name, int(value) if name in numbers and value is not None else value)
            for name, value in each.items()
        )
        for each in texts
    ]


def _value(text: str) -> str | None:
    return None if text == _NO_VALUE else unquote(text)


def _is_whole(text: str) -> bool:
    # "01" is a name: as a number it would become 1. Arrow has no room for 19 digits or more.
    return text.removeprefix("-").isdecimal() and text == str(int(text)) and len(text) < 19


def _check_alike(first: TableFile, other: TableFile) -> None:
    """Make sure that two files have the same columns, and that these hold the same kind."""
    missing = [name for name in first.columns if name not in other.columns]
    extra = [name for name in other.columns if name not in first.columns]
    if missing or extra:
        differences = [f"it lacks {listed(missing)}"] if missing else []
        differences += [f"it has {listed(extra)} besides"] if extra else []
        raise InvalidInput(
            f"{other.path} has other columns than {first.path}: {' and '.join(differences)}",
            "Allowed are files of the same columns",
            "Put files of another kind into another folder",
        )
    for name in first.columns:
        left, right = (table.schema.field(name).type for table in (first, other))
        kinds = {_kind_of_type(left), _kind_of_type(right)} - {"nothing"}
        if len(kinds) > 1:
            raise InvalidInput(
                f"{other.path} holds {right} in column {name!r}, but {first.path} holds {left}",
                "Allowed are files whose columns hold the same kind of values",
                "Write one of the files again, with the types of the other",
            )


def _kind_of_type(kind: Any) -> str:
    import pyarrow as pa

    types = pa.types
    if types.is_dictionary(kind):
        return _kind_of_type(kind.value_type)
    if types.is_null(kind):
        return "nothing"
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "numbers"
    if types.is_string(kind) or types.is_large_string(kind) or str(kind) == "string_view":
        return "text"
    return str(kind)
