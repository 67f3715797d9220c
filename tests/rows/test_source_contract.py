"""One contract over every source: the same rows give the same moments and the same fit."""

from dataclasses import replace

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import csv, feather, parquet
from scipy import sparse

from case_selection import mark_most_long
from fairspan import FileRows, GroupMoments
from rows.source_cases import CASES, NAMES, P


def table(case):
    return pa.Table.from_pandas(case.frame(), preserve_index=False)


def as_stream(case, folder):
    class Stream:
        def __arrow_c_stream__(self, requested_schema=None):
            return table(case).to_reader(max_chunksize=111).__arrow_c_stream__(requested_schema)

    return Stream(), "g", case.weight


def as_parquet(case, folder):
    parquet.write_table(table(case), folder / "rows.parquet", row_group_size=90)
    return folder / "rows.parquet", "g", case.weight


def as_folder(case, folder):
    all_rows = table(case)
    for start in range(0, len(all_rows), 150):
        parquet.write_table(all_rows.slice(start, 150), folder / f"{start:04}.parquet")
    return str(folder), "g", case.weight


def as_partitions(case, folder):
    parquet.write_to_dataset(table(case), folder, partition_cols=["g"])
    return folder, "g", case.weight


def as_dictionary(case, folder):
    coded = table(case).set_column(P, "g", table(case)["g"].combine_chunks().dictionary_encode())
    parquet.write_table(coded, folder / "rows.parquet", row_group_size=90)
    return folder / "rows.parquet", "g", case.weight


def as_vectors(case, folder):
    flat = pa.array(np.ascontiguousarray(case.X).ravel(), from_pandas=False)
    columns = {"face": pa.FixedSizeListArray.from_arrays(flat, P)}
    columns |= {name: table(case)[name] for name in table(case).column_names[P:]}
    parquet.write_table(pa.table(columns), folder / "rows.parquet", row_group_size=90)
    return folder / "rows.parquet", "g", case.weight


def as_feather(case, folder):
    feather.write_feather(table(case), folder / "rows.feather", chunksize=90)
    return folder / "rows.feather", "g", case.weight


def as_csv(case, folder):
    wide = replace(case, X=case.X.astype(np.float64))  # text of float32 is another number
    csv.write_csv(table(wide), folder / "rows.csv")
    return folder / "rows.csv", "g", case.weight


def as_processes(case, folder):
    rows = FileRows.open(
        as_folder(case, folder)[0], ["g"], weight_column=case.weight, on_missing=case.on_missing
    )
    return replace(rows, n_jobs=2), None, None


def with_labels_and_weights(make):
    """Return a maker of rows without names, with separate labels and weights."""
    return lambda case, folder: (make(case.X), list(case.labels), case.weights)


def framed(make):
    """Return a maker of rows with names, with labels and weights among the columns."""
    return lambda case, folder: (make(case), "g", case.weight)


def as_dask_array(X):
    return pytest.importorskip("dask.array").from_array(X, chunks=(90, 4))


def as_dask_frame(case):
    dask_frame = pytest.importorskip("dask.dataframe")
    return dask_frame.from_pandas(case.frame(), npartitions=7, sort=False)


UNNAMED = {
    "array": with_labels_and_weights(np.asarray),
    "columns": with_labels_and_weights(np.asfortranarray),
    "csr": with_labels_and_weights(sparse.csr_array),
    "csc": with_labels_and_weights(sparse.csc_matrix),
    "strict array": with_labels_and_weights(
        lambda X: pytest.importorskip("array_api_strict").asarray(X)
    ),
    "torch": with_labels_and_weights(lambda X: pytest.importorskip("torch").asarray(X)),
    "dask array": with_labels_and_weights(as_dask_array),
}
SOURCES = UNNAMED | {
    "pandas": framed(lambda case: case.frame()),
    "polars": framed(lambda case: pl.from_arrow(table(case))),
    "pyarrow": framed(table),
    "duckdb": framed(lambda case: pytest.importorskip("duckdb").from_arrow(table(case))),
    "dask frame": framed(as_dask_frame),
    "stream": as_stream,
    "parquet": as_parquet,
    "folder": as_folder,
    "partitions": as_partitions,
    "dictionary": as_dictionary,
    "vectors": as_vectors,
    "feather": as_feather,
    "csv": as_csv,
}


@pytest.mark.parametrize(
    ("source", "case"),
    mark_most_long([(source, case) for source in SOURCES for case in CASES], step=5),
    ids=str,
)
def test_a_source_gives_the_moments_and_the_fit_of_its_rows(source, case, tmp_path):
    CASES[case].check(*SOURCES[source](CASES[case], tmp_path))


@pytest.mark.long
@pytest.mark.parametrize("case", ["rows without a feature", "groups absent from parts"])
def test_so_do_several_processes(case, tmp_path):
    CASES[case].check(*as_processes(CASES[case], tmp_path))


@pytest.mark.parametrize("source", SOURCES)
def test_names_of_the_features(source, tmp_path):
    names = GroupMoments.from_rows(*SOURCES[source](CASES["weights"], tmp_path)).feature_names
    if source in UNNAMED:
        assert names is None
    elif source == "vectors":
        assert names == tuple(f"face[{i}]" for i in range(P))
    else:
        assert names == tuple(NAMES)
