"""Estimated number of rows of files."""

import gzip

import pytest

from fairspan.rows.files.row_estimate import estimate_n_rows


def test_rows_of_equal_files_are_counted(tmp_path):
    paths = [tmp_path / f"{i}.csv" for i in range(3)]
    for path in paths:
        path.write_text("x,y\n" + "1.5,2.5\n" * 100)
    assert estimate_n_rows(paths) == pytest.approx(300, abs=10)


def test_there_is_no_estimate_from_a_long_line_beside_many_headers(tmp_path):
    paths = [tmp_path / f"{i}.csv" for i in range(101)]
    paths[0].write_text("x,y,g\n" + "1" * 400 + ",2,a\n")
    for path in paths[1:]:
        path.write_text("x,y,g\n")
    assert estimate_n_rows(paths) is None


@pytest.mark.parametrize("suffix", [".gz", ".GZ"])
def test_there_is_no_estimate_of_compressed_rows(tmp_path, suffix):
    path = tmp_path / f"rows.csv{suffix}"
    path.write_bytes(gzip.compress(b"".join(b"%d,%d\n" % (i, i**3 % 977) for i in range(9999))))
    assert path.read_bytes().count(b"\n") >= 2
    assert estimate_n_rows([path]) is None
