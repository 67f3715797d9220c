"""Bytes of files that may be compressed, as streams."""

import zipfile
from pathlib import Path

import pyarrow as pa

COMPRESSED_SUFFIXES = (".gz", ".bz2", ".zst", ".zip")
"""Suffixes of compressed files, from which the compression is detected."""


def open_decompressed(path: Path) -> pa.NativeFile:
    """Open a file as a stream of its decompressed bytes.

    Raises
    ------
    OSError
        A zip archive is damaged or encrypted, or holds no file or several.
    """
    if path.suffix.lower() != ".zip":
        return pa.input_stream(str(path), compression="detect")
    try:
        archive = zipfile.ZipFile(path)
        member = _only_member(archive)
        # The member keeps the archive open, and closes it at its end.
        return pa.input_stream(archive.open(member))
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:
        raise OSError(str(error)) from error


def _only_member(archive: zipfile.ZipFile) -> str:
    """Return the name of the only file of an archive, besides those that macOS adds."""
    names = [
        info.filename
        for info in archive.infolist()
        if not info.is_dir() and not info.filename.startswith("__MACOSX/")
    ]
    if len(names) != 1:
        raise OSError(f"the archive holds {len(names)} files, not one table")
    return names[0]


class LineSkipper:
    """Stream filter that removes the first lines.

    Parameters
    ----------
    n_lines : int
        Number of lines to remove, with any kind of line end.
    """

    def __init__(self, n_lines: int) -> None:
        self._n_remaining = n_lines
        self._ended_with_return = False

    def __call__(self, chunk: pa.Buffer) -> pa.Buffer | bytes:
        """Return a chunk without the lines that are still to be removed."""
        if not self._n_remaining and not self._ended_with_return:
            return chunk
        content = bytes(chunk)
        if self._ended_with_return:
            # A line end of two characters, the second of which is in this chunk.
            content = content.removeprefix(b"\n")
            self._ended_with_return = False
        position = 0
        while self._n_remaining and position < len(content):
            position = _next_line(content, position)
            if position < 0:
                position = len(content)
            else:
                self._n_remaining -= 1
        if not self._n_remaining and position == len(content):
            self._ended_with_return = content.endswith(b"\r")
        remainder = content[position:]
        # Empty output would signal the end of the stream; blank lines are ignored.
        if not remainder and chunk:
            return b"\n"
        return remainder


def _next_line(content: bytes, start: int) -> int:
    """Return the position after the next line end, or -1 if there is none."""
    ends = [position for end in (b"\n", b"\r") if (position := content.find(end, start)) >= 0]
    if not ends:
        return -1
    position = min(ends)
    is_pair = content[position : position + 2] == b"\r\n"
    return position + 1 + is_pair
