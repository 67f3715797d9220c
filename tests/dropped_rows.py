"""A table in which cells and groups are missing, in several containers."""

from functools import cache

import numpy as np
import pandas as pd
import pytest

N = 400
FEATURES = list("wxyz")


@cache
def draw_people():
    """Draw a frame with missing cells and groups, and return it with its complete rows."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(N, 4)) * [3, 2, 1, 1], columns=FEATURES)
    frame["g"] = rng.choice(list("abc"), N)
    frame.loc[frame["g"] == "b", "w"] *= 0.3
    frame = frame.mask(rng.random(frame.shape) < 0.04)
    frame["person"], frame["weight"] = np.arange(N) // 3, rng.integers(0, 4, N)
    return frame, frame.dropna().reset_index(drop=True)


@cache
def frame_of_features():
    """Return the frame without people and weights."""
    return draw_people()[0][[*FEATURES, "g"]]


def write_row_groups(folder):
    """Write a Parquet file of the table in several row groups."""
    path = folder / "rows.parquet"
    pytest.importorskip("pyarrow")
    frame_of_features().to_parquet(path, row_group_size=90)
    return path


def write_csv(folder):
    frame_of_features().to_csv(folder / "rows.csv", index=False)
    return folder / "rows.csv"


def make_partitions(folder):
    dask = pytest.importorskip("dask.dataframe")
    return dask.from_pandas(frame_of_features(), npartitions=3)


SOURCES = [
    write_row_groups,
    *(pytest.param(source, marks=pytest.mark.slow) for source in (write_csv, make_partitions)),
]
