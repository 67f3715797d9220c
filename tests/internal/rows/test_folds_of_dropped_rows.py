"""Rows keep their folds when others are dropped, whatever holds the table."""

from dataclasses import replace

import numpy as np
import pytest

from dropped_rows import SOURCES, frame_of_features
from fairspan.moments.fold_moments import compute_fold_moments
from fairspan.rows.aggregation import with_row_offsets
from fairspan.rows.folds import Folds
from fairspan.rows.mapped import MappedRows
from fairspan.rows.opening import open_group_rows


@pytest.mark.parametrize("on_missing", ["drop", "em", "em-drop-empty"])
@pytest.mark.parametrize("source", SOURCES)
def test_rows_keep_their_folds_when_others_are_dropped(source, on_missing, tmp_path):
    def rows_by_fold(table):
        rows = with_row_offsets(open_group_rows(table, "g", on_missing=on_missing))
        filled = MappedRows(rows, without_missing_cells)
        return [part.counts.tolist() for part in compute_fold_moments(filled, Folds(7)).by_fold]

    assert rows_by_fold(source(tmp_path)) == rows_by_fold(frame_of_features())


def without_missing_cells(block):
    return replace(block, values=np.nan_to_num(block.values))
