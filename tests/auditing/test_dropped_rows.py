"""Figures of rows that remain do not depend on how and where the others were left out."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fairspan import FairPCA, audit
from fairspan.extending import CodedLabels, make_row_block
from fairspan.moments.fold_moments import compute_fold_moments
from fairspan.rows.aggregation import with_row_offsets
from fairspan.rows.folds import Folds
from fairspan.rows.mapped import MappedRows
from fairspan.rows.opening import open_group_rows

N = 400
FEATURES = list("wxyz")


def draw_people():
    """A frame in which cells and groups are missing, and the rows of it that are complete."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(N, 4)) * [3, 2, 1, 1], columns=FEATURES)
    frame["g"] = rng.choice(list("abc"), N)
    frame.loc[frame["g"] == "b", "w"] *= 0.3
    frame = frame.mask(rng.random(frame.shape) < 0.04)
    frame["person"], frame["weight"] = np.arange(N) // 3, rng.integers(0, 4, N)
    return frame, frame.dropna().reset_index(drop=True)


SOME, COMPLETE = draw_people()
MODEL = FairPCA(1).fit(COMPLETE[FEATURES], sensitive_features=COMPLETE["g"])


def moments_of_frame(frame, **options):
    return audit(MODEL, frame, "g", on_missing="drop", **options)


def of_arrays(frame, **options):
    X, groups = frame[FEATURES].to_numpy(), frame["g"].to_numpy()
    weights = frame["weight"].to_numpy(dtype=float)
    return audit(MODEL, X, groups, sample_weight=weights, on_missing="drop", **options)


def of_polars(frame, **options):
    polars = pytest.importorskip("polars")
    return audit(MODEL, polars.from_pandas(frame), "g", on_missing="drop", **options)


def figures(result):
    return [
        [value for group in model["groups"] for value in group.values()]
        for model in result.to_dict()["models"]
    ]


@pytest.mark.parametrize("read", [moments_of_frame, of_arrays, of_polars])
def test_rows_that_were_dropped_decide_no_figure_without_folds(read):
    here, there = read(SOME, folds=None), read(COMPLETE, folds=None)
    almost(here, there)
    assert here.rows.n_dropped == len(SOME) - len(COMPLETE)
    assert there.rows.n_dropped == 0
    assert [each.kind for each in here.verdicts] == [each.kind for each in there.verdicts]


def almost(left, right):
    for mine, theirs in zip(figures(left), figures(right), strict=True):
        for one, other in zip(mine, theirs, strict=True):
            assert one == (pytest.approx(other, rel=1e-10) if isinstance(one, float) else other)


def test_clusters_that_were_dropped_decide_no_figure():
    almost(moments_of_frame(SOME, clusters="person"), moments_of_frame(COMPLETE, clusters="person"))


SHOWN = SOME[[*FEATURES, "g"]]


def in_row_groups(folder):
    """A Parquet file of the table in several row groups."""
    path = folder / "rows.parquet"
    pytest.importorskip("pyarrow")
    SHOWN.to_parquet(path, row_group_size=90)
    return path


def in_text(folder):
    SHOWN.to_csv(folder / "rows.csv", index=False)
    return folder / "rows.csv"


def in_partitions(folder):
    dask = pytest.importorskip("dask.dataframe")
    return dask.from_pandas(SHOWN, npartitions=3)


SOURCES = [in_row_groups, in_text, in_partitions]


@pytest.mark.parametrize("source", SOURCES)
def test_what_holds_rows_of_which_some_are_dropped_decides_no_figure(source, tmp_path):
    here, there = moments_of_frame(SHOWN), moments_of_frame(source(tmp_path))
    almost(here, there)
    assert here.rows.n_dropped == there.rows.n_dropped == len(SOME) - len(COMPLETE)


class RowsInBlocks:
    """The table as a source of another package, in blocks of 90 rows."""

    feature_names, n_features, n_rows = tuple(FEATURES), len(FEATURES), None

    def select_features(self, names):
        assert names == self.feature_names
        return self

    def blocks(self):
        for first in range(0, N, 90):
            part = SHOWN[first : first + 90]
            labels = CodedLabels.from_labels(part["g"].to_list())
            values = part[FEATURES].to_numpy()
            yield make_row_block(first, values, labels, None, self.feature_names, "drop")


def test_rows_of_another_package_have_the_same_folds():
    almost(moments_of_frame(SHOWN), audit(MODEL, RowsInBlocks()))


@pytest.mark.parametrize("on_missing", ["drop", "em", "em-drop-empty"])
@pytest.mark.parametrize("source", SOURCES)
def test_rows_keep_their_folds_when_others_are_dropped(source, on_missing, tmp_path):
    def rows_by_fold(table):
        rows = with_row_offsets(open_group_rows(table, "g", on_missing=on_missing))
        filled = MappedRows(rows, without_missing_cells)
        return [part.counts.tolist() for part in compute_fold_moments(filled, Folds(7)).by_fold]

    assert rows_by_fold(source(tmp_path)) == rows_by_fold(SHOWN)


def without_missing_cells(block):
    return replace(block, values=np.nan_to_num(block.values))


def test_what_is_wrong_is_named_by_its_place_in_the_table():
    wrong = SOME.copy()
    row = int(np.flatnonzero(SOME.notna().all(axis=1))[-1])
    wrong.loc[row, "x"] = np.inf
    with pytest.raises(ValueError, match=rf"row {row + 1} "):
        moments_of_frame(wrong)
