"""A file appears under its name when it is complete, and a failed write leaves no trace."""

import errno
import os
import re
import stat
import sys

import pytest

from fairspan.errors import InvalidParameter
from fairspan.storage.atomic import open_atomic, write_atomic


def contents(folder):
    return sorted(path.name for path in folder.iterdir())


on_posix = pytest.mark.skipif(sys.platform == "win32", reason="of POSIX systems")


@on_posix
def test_nothing_is_readable_by_others_while_a_private_file_is_replaced(tmp_path):
    path = tmp_path / "out"
    path.touch(mode=0o600)
    with open_atomic(path) as file:
        assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == 0o600


@on_posix
def test_a_file_being_written_is_not_removed_as_abandoned(tmp_path):
    path = tmp_path / "out"
    with open_atomic(path) as slow:
        slow.write(b"slow")
        write_atomic(path, b"fast")
        assert path.read_bytes() == b"fast"
    assert path.read_bytes() == b"slow"


class Interrupted(BaseException):
    """Like KeyboardInterrupt: no Exception."""


@pytest.mark.parametrize(
    ("kind", "error_class"), [(OSError, InvalidParameter), (Interrupted, Interrupted)]
)
@pytest.mark.parametrize("existing", [None, b"before"])
def test_a_failed_write_leaves_no_trace(tmp_path, existing, kind, error_class):
    path = tmp_path / "out"
    if existing is not None:
        path.write_bytes(existing)

    def fail_halfway():
        with open_atomic(path) as file:
            file.write(b"half of it")
            (temporary,) = {*contents(tmp_path)} - {*original_contents}
            assert re.fullmatch(r"\.out\.[0-9a-f]{16}\.tmp", temporary)
            raise kind(errno.ENOSPC, "disk full")

    original_contents = contents(tmp_path)
    with pytest.raises(error_class):
        fail_halfway()
    assert contents(tmp_path) == ([] if existing is None else ["out"])
    assert existing is None or path.read_bytes() == existing


def test_a_successful_write_replaces_the_old_file(tmp_path):
    path = tmp_path / "out"
    path.write_bytes(b"before")
    with open_atomic(path) as file:
        file.write(b"after")
        assert path.read_bytes() == b"before"
    assert path.read_bytes() == b"after"
    assert contents(tmp_path) == ["out"]
