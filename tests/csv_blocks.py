"""Small blocks of CSV files, so that small files have several."""

from functools import partial

import pytest


def shrink_csv_blocks(monkeypatch):
    """Read CSV files in blocks of 16 KB in place of a megabyte."""
    csv = pytest.importorskip("pyarrow.csv")
    monkeypatch.setattr(csv, "ReadOptions", partial(csv.ReadOptions, block_size=1 << 14))
    monkeypatch.setattr("fairspan.rows.files.csv_errors._CHUNK_BYTES", 1 << 14)
