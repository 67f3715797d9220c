"""Files: safe writing, archives of arrays, and one strict schema for everything that is loaded."""

from fairspan.storage.archives import (
    Contents,
    archive_bytes,
    archive_of_bytes,
    is_archive,
    read_archive,
    write_archive,
)
from fairspan.storage.names import check_name
from fairspan.storage.rules import NotAllowed
from fairspan.storage.safe_writing import (
    HeldFile,
    replacing,
    write_whole,
    writing,
)
from fairspan.storage.schema import (
    MOMENTS,
    RECORD,
    SUBSPACE,
    Schema,
)

__all__ = [
    "MOMENTS",
    "RECORD",
    "SUBSPACE",
    "Contents",
    "HeldFile",
    "NotAllowed",
    "Schema",
    "archive_bytes",
    "archive_of_bytes",
    "check_name",
    "is_archive",
    "read_archive",
    "replacing",
    "write_archive",
    "write_whole",
    "writing",
]
