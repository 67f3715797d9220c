"""Folders of Parquet files with many small row groups."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

COLUMNS = ["x", "y", "z"]


def made_rows(seed, n):
    """Rows with two group columns and weights; small whole numbers in the labels."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 3)) * [1, 3, 0.1] + [100, 0, 5], columns=COLUMNS)
    frame["sex"] = rng.choice(["f", "m"], n)
    frame["age"] = rng.choice([20, 40], n)
    frame["w"] = rng.uniform(0.5, 2, n)
    return frame


def write_folder(folder, frame, n_files, row_group_size):
    """Write consecutive rows as files of many row groups; return their paths."""
    folder.mkdir()
    paths = []
    for number, rows in enumerate(np.array_split(np.arange(len(frame)), n_files)):
        path = folder / f"{number:02}.parquet"
        table = pa.Table.from_pandas(frame.iloc[rows], preserve_index=False)
        pq.write_table(table, path, row_group_size=row_group_size)
        paths.append(path)
    return paths
