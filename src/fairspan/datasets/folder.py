"""A folder of data files: which there are, and whether each is whole.

A file ``NAME.parquet`` or ``NAME.npz`` holds the set NAME. Where the folder has a
``manifest.json``, a JSON object by NAME with ``file`` and ``sha256``, files are checked against it.
"""

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairspan.errors import CorruptFile, InvalidInput, InvalidParameter
from fairspan.rows.groups import listed

_VARIABLE = "FAIRSPAN_DATA"
_ENDINGS = (".parquet", ".npz")
_MANIFEST = "manifest.json"


@dataclass(frozen=True)
class DataFile:
    """A file that is there and whole.

    Attributes
    ----------
    path : Path
    sha256 : str
        Of its contents.
    """

    path: Path
    sha256: str


def names(data: str | os.PathLike[str] | None = None) -> list[str]:
    """Names of the sets in a data folder, in alphabetical order.

    Parameters
    ----------
    data : path, optional
        The folder; without it, the one that the environment variable FAIRSPAN_DATA names.

    Raises
    ------
    InvalidParameter, InvalidInput
        No folder is named, or there is none of that name.
    """
    folder = _folder(data)
    return sorted(path.stem for path in folder.iterdir() if path.suffix in _ENDINGS)


def data_file(name: str, data: str | os.PathLike[str] | None = None) -> DataFile:
    """The file of a set, checked against the manifest.

    Raises
    ------
    InvalidParameter
        No set of this name; the message lists those there are.
    InvalidInput
        The file, or the folder, is missing.
    CorruptFile
        The contents are not those that the manifest promises, or it cannot be read itself.
    """
    folder = _folder(data)
    manifest = _manifest(folder)
    present, entry = names(folder), manifest.get(name)
    if entry is None and name not in present:
        raise InvalidParameter(
            f"There is no data set {name!r} in {folder}",
            f"Allowed: {listed(sorted({*present, *manifest}), most=40)}",
            "Choose one of these, or another folder",
        )
    unlisted = (folder / f"{name}{ending}" for ending in _ENDINGS)
    path = folder / entry["file"] if entry else next(path for path in unlisted if path.exists())
    if not path.is_file():
        raise InvalidInput(
            f"The file {path} is missing",
            f"The data set {name!r} is expected there",
            "Put the file there, or name another folder",
        )
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if entry and found != entry["sha256"]:
        raise CorruptFile(
            f"{path} has the sha256 checksum {found}",
            f"{folder / _MANIFEST} promises {entry['sha256']}",
            "Copy the file again; this one is truncated or altered",
        )
    return DataFile(path, found)


def _folder(data: str | os.PathLike[str] | None) -> Path:
    given = os.environ.get(_VARIABLE) if data is None else data
    if not given:
        raise InvalidParameter(
            "No data folder is named",
            f"It is the argument data, or the environment variable {_VARIABLE}",
            "Name the folder that holds the data files",
        )
    folder = Path(given)
    if not folder.is_dir():
        raise InvalidInput(
            f"There is no folder {folder}",
            "Allowed: the folder that holds the data files",
            f"Check the path (--data, or the environment variable {_VARIABLE})",
        )
    return folder


def _manifest(folder: Path) -> dict[str, dict[str, Any]]:
    path = folder / _MANIFEST
    if not path.exists():
        return {}
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        return {
            name: {"file": str(entry["file"]), "sha256": str(entry["sha256"])}
            for name, entry in manifest.items()
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptFile(
            f"{path} cannot be read ({type(error).__name__}: {error})",
            "Allowed: a JSON object by name of data set, with file and sha256",
            "Copy it again, or remove it to do without checksums",
        ) from error
