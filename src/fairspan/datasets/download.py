"""One file of OpenML: from the cache, or over the network with its checksum verified."""

import hashlib
import http.client
import json
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from fairspan.datasets.arff import Column, parse_arff
from fairspan.errors import CorruptFile, InvalidInput
from fairspan.storage import replacing

OPENML = "https://api.openml.org"
_VARIABLE = "FAIRSPAN_CACHE"
_PATIENCE = 60.0


def fetched(
    number: int, cache: str | os.PathLike[str] | None = None, base_url: str = OPENML
) -> list[Column]:
    """Columns of an OpenML data set.

    Parameters
    ----------
    number : int
        Its id.
    cache : path, optional
        Folder for the file; without it the one that FAIRSPAN_CACHE names, or the platform's.
    base_url : str
        The server.

    Raises
    ------
    InvalidInput
        The server cannot be reached, or does not have it.
    CorruptFile
        What came is incomplete, not what the server's checksum promises, or no ARFF.
    """
    folder = cache_folder(cache) / "openml"
    path, record = folder / f"{number}.arff", folder / f"{number}.json"
    content = _kept(path, record)
    if content is None:
        content = _downloaded(number, base_url)
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(path) as partial:
            partial.write_bytes(content)
        # Written last: a file without its record is fetched again.
        with replacing(record) as partial:
            partial.write_text(json.dumps({"sha256": hashlib.sha256(content).hexdigest()}))
    try:
        return parse_arff(content.decode("utf-8"))
    except ValueError as error:
        raise CorruptFile(
            f"OpenML {number} cannot be read ({error})",
            "Expected is a table in the format ARFF, one value for each column in every row",
            f"Remove {path} to fetch it again",
        ) from error


def cache_folder(cache: str | os.PathLike[str] | None = None) -> Path:
    """The folder for files that can be fetched again."""
    given = os.environ.get(_VARIABLE) if cache is None else cache
    if given:
        return Path(given)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home())) / "fairspan"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "fairspan"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fairspan"


def _kept(path: Path, record: Path) -> bytes | None:
    """The file in the cache, unless it is missing or has been altered."""
    try:
        content = path.read_bytes()
        promised = json.loads(record.read_text())["sha256"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return content if hashlib.sha256(content).hexdigest() == promised else None


def _downloaded(number: int, base_url: str) -> bytes:
    where = f"{base_url.rstrip('/')}/api/v1/json/data/{number}"
    description = _description(_read(where), where)
    content = _read(str(description["url"]))
    found, promised = hashlib.md5(content).hexdigest(), description.get("md5_checksum")
    if promised and found != promised:
        raise CorruptFile(
            f"{description['url']} has the md5 checksum {found}",
            f"OpenML promises {promised}",
            "Try again; if it stays so, the file has been altered on its way or at its source",
        )
    return content


def _description(content: bytes, where: str) -> dict[str, Any]:
    try:
        description = json.loads(content)["data_set_description"]
        if not str(description["url"]).startswith(("https://", "http://")):
            raise ValueError(f"its file is at {description['url']}")
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptFile(
            f"{where} is no description of a data set ({type(error).__name__}: {error})",
            "Expected is OpenML's JSON with the address of a file",
            "Check the server's address",
        ) from error
    found: dict[str, Any] = description
    return found


def _read(where: str) -> bytes:
    remedy = (
        "Check the connection and try again; offline, load the same set from a data folder "
        "with fairspan.datasets.load"
    )
    try:
        with urllib.request.urlopen(where, timeout=_PATIENCE) as answer:
            content: bytes = answer.read()
            return content
    except http.client.IncompleteRead as error:
        raise CorruptFile(
            f"{where} ended early, after {len(error.partial)} bytes",
            "Expected is the whole file",
            "Try again; nothing was kept of it",
        ) from error
    except urllib.error.HTTPError as error:
        with error:
            raise InvalidInput(
                f"{where} answers {error.code} {error.reason}",
                "Expected is the data set",
                "Try again later; if it stays so, OpenML no longer has it",
            ) from error
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise InvalidInput(
            f"{where} cannot be reached ({reason})", "Fetching needs a network", remedy
        ) from error
