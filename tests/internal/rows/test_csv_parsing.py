"""Columns of numbers in CSV files: when they are read as text and parsed."""

import numpy as np
import pytest

from fairspan import FileRows
from fairspan.errors import InvalidInput
from fairspan.rows.files import csv_files


def write_file(tmp_path, cells, delimiter=";", name="rows.csv"):
    path = tmp_path / name
    lines = [f"{cell}{delimiter}{'ab'[i % 2]}" for i, cell in enumerate(cells)]
    path.write_text("\n".join([f"x{delimiter}g", *lines, ""]), encoding="utf-8")
    return path


def read_all(rows):
    return np.vstack([block.values for block in rows.blocks()]).tolist()


@pytest.mark.usefixtures("small_csv_blocks")
def test_numbers_are_parsed_from_text_only_after_a_code_that_arrow_does_not_know(
    tmp_path, monkeypatch
):
    n_parsed_rows = []
    parse_columns = csv_files._parse_columns
    monkeypatch.setattr(
        csv_files,
        "_parse_columns",
        lambda *a: n_parsed_rows.append(a[0].num_rows) or parse_columns(*a),
    )
    n = 6_000  # several batches
    cells = [f"{i}.5" for i in range(n)]
    cells[5] = "-99.0"
    cells[7] = "?"
    settings = {"na_values": [-99, "?"], "on_missing": "drop"}
    path = write_file(tmp_path, cells)
    expected = [[i + 0.5] for i in range(n) if i not in (5, 7)]
    assert read_all(FileRows.open(path, ["g"], **settings)) == expected
    assert not n_parsed_rows
    # Rows that were read before are not read twice.
    cells[n - 2] = " ? "
    path = write_file(tmp_path, cells)
    expected.remove([n - 2 + 0.5])
    assert read_all(FileRows.open(path, ["g"], **settings)) == expected
    assert 0 < sum(n_parsed_rows) < n / 2
    cells[n - 1] = "x"
    with pytest.raises(InvalidInput, match="'x'"):
        read_all(FileRows.open(write_file(tmp_path, cells), ["g"], **settings))
