"""Files whose blocks are small."""

import pytest

from csv_blocks import shrink_csv_blocks


@pytest.fixture
def small_csv_blocks(monkeypatch):
    shrink_csv_blocks(monkeypatch)
