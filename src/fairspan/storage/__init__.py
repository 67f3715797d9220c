"""Files: safe writing, archives of arrays, and one strict schema for everything that is loaded."""

from fairspan.storage.archives import (
    MOMENTS,
    PARTS,
    NotAllowed,
    Schema,
    archive_bytes,
    is_archive,
    read_archive,
    read_document,
    write_archive,
    write_document,
)
from fairspan.storage.safe_writing import check_name, replacing, write_whole

__all__ = [
    "MOMENTS",
    "PARTS",
    "NotAllowed",
    "Schema",
    "archive_bytes",
    "check_name",
    "is_archive",
    "read_archive",
    "read_document",
    "replacing",
    "write_archive",
    "write_document",
    "write_whole",
]
