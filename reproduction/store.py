"""Finished steps of a long computation, kept in a file, so that it can be interrupted.

The file holds one JSON document a line: first what the values belong to, then one key with its
value for each step. A line is on the disk before the next step begins; what a kill leaves of a
half-written one is dropped.
"""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, TypeVar, cast

from fairspan.errors import InvalidInput

_Value = TypeVar("_Value")


class Store:
    """Values of finished steps by key.

    Parameters
    ----------
    path : Path or None
        The file; None keeps values in memory only.
    header : mapping
        What the values belong to, anything JSON can hold. A file with another header is started
        over.
    tell : callable, optional
        Told if that happens.

    Examples
    --------
    >>> store = Store()
    >>> store.get_or_compute("sum", lambda: 1 + 1)
    2
    >>> store.get_or_compute("sum", lambda: 1 / 0)
    2
    """

    def __init__(
        self,
        path: Path | None = None,
        header: Mapping[str, Any] | None = None,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self.path = path
        self._values: dict[str, Any] = {}
        self._file: BinaryIO | None = None
        if path is not None:
            self._open(path, json.loads(json.dumps(dict(header or {}))), tell)
        self.n_resumed = len(self._values)

    def __enter__(self) -> "Store":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._values:
            self.close()
        else:  # nothing to go on from
            self.remove()

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def __len__(self) -> int:
        return len(self._values)

    def get_or_compute(self, key: str, function: Callable[[], _Value]) -> _Value:
        """Return the stored value of a step; compute and store it first if there is none.

        Parameters
        ----------
        key : str
            Names the step and all that its value depends on beside the header.
        function : callable
            Its value must be something JSON can hold, in lists instead of tuples and with text as
            keys: what comes back is what JSON reads.

        Returns
        -------
        The value.
        """
        if key not in self._values:
            line = json.dumps({"key": key, "value": function()})
            if self._file is not None:
                self._append(line)
            # As it will be read, so that a resumed run sees the very same.
            self._values[key] = json.loads(line)["value"]
        return cast(_Value, self._values[key])

    def close(self) -> None:
        """Close the file and leave it where it is."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def remove(self) -> None:
        """Close the file and delete it after the computation is complete."""
        self.close()
        if self.path is not None:
            self.path.unlink(missing_ok=True)

    def _open(self, path: Path, header: Any, tell: Callable[[str], None] | None) -> None:
        if not path.parent.is_dir():
            raise InvalidInput(
                f"There is no folder {path.parent}", "Allowed: a folder that exists", "Make it"
            )
        self._file = path.open("ab+")
        self._file.seek(0)
        documents, length = _read_documents(self._file)
        if documents and documents[0] == header:
            self._values = {line["key"]: line["value"] for line in documents[1:]}
        else:
            if self._file.tell() and tell is not None:
                tell(f"{path} is of another version, setting or data; starting over")
            length = 0
        self._file.truncate(length)
        if length == 0:
            self._append(json.dumps(header))

    def _append(self, line: str) -> None:
        assert self._file is not None
        self._file.write(line.encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())


def _read_documents(file: BinaryIO) -> tuple[list[Any], int]:
    """Read the documents up to the first incomplete line, and the position where it begins."""
    documents: list[Any] = []
    length = 0
    for line in file:
        try:
            document = json.loads(line) if line.endswith(b"\n") else None
        except ValueError:
            document = None
        if document is None or (documents and not {"key", "value"} <= set(document)):
            break
        documents.append(document)
        length += len(line)
    return documents, length
