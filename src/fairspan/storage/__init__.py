"""Files: safe writing, archives of arrays, and one strict schema for everything that is loaded."""

from fairspan.storage.archives import (
    Contents,
    archive_bytes,
    archive_of_bytes,
    is_archive,
    read_archive,
    read_document,
    write_archive,
    write_document,
)
from fairspan.storage.safe_writing import (
    check_name,
    replacing,
    write_whole,
    writing,
)
from fairspan.storage.schema import (
    MOMENTS,
    PARTS,
    SUBSPACE,
    NotAllowed,
    Schema,
)

__all__ = [
    "MOMENTS",
    "PARTS",
    "SUBSPACE",
    "Contents",
    "NotAllowed",
    "Schema",
    "archive_bytes",
    "archive_of_bytes",
    "check_name",
    "is_archive",
    "read_archive",
    "read_document",
    "replacing",
    "write_archive",
    "write_document",
    "write_whole",
    "writing",
]
