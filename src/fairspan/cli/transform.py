"""Output of the transform command."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import click
import numpy as np

from fairspan.cli.command import usage_error_if
from fairspan.cli.option_values import ReadOptions
from fairspan.cli.row_input import (
    NUMERIC_MODEL_FEATURES,
    check_numeric_features,
    csv_format,
    external_rows,
    na_values,
    read_options_for,
)
from fairspan.cross_decomposition.file_kind import PAIRED_FILE
from fairspan.cross_decomposition.paired_subspace import PairedSubspace
from fairspan.errors import InvalidInput, InvalidParameter
from fairspan.model.subspace import FairSubspace
from fairspan.moments.normal_model import NormalModel
from fairspan.registry import ExternalObject
from fairspan.rows.blocks import keeps_missing
from fairspan.rows.files.file_rows import FileRows
from fairspan.rows.protocol import RowSource
from fairspan.rows.row_validation import check_columns
from fairspan.storage.archive import peek_kind
from fairspan.storage.atomic import open_atomic
from fairspan.typing import FloatArray

_FORMAT_BY_SUFFIX = {
    ".csv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}


def transform_file(
    model: Path, data: Path | ExternalObject, out: Path, read_options: ReadOptions
) -> dict[str, object]:
    """Transform rows and write them with the copied columns.

    Rows are processed in blocks, so that they need not fit into memory. An output file appears only
    when it is complete.

    Parameters
    ----------
    model : Path
        Saved model.
    data : Path or ExternalObject
    out : Path
        Output file, whose suffix gives its format; "-" writes CSV to standard output.
    read_options : ReadOptions

    Returns
    -------
    dict
        Path of the output, its columns, and the numbers of rows written, rows dropped and
        components.
    """
    is_stdout = str(out) == "-"
    if not is_stdout and out.suffix.lower() not in _FORMAT_BY_SUFFIX:
        raise InvalidParameter(
            f"The output {out} has the suffix {out.suffix!r}",
            f"Allowed: {', '.join(_FORMAT_BY_SUFFIX)}, or - for standard output",
            "Choose one of these suffixes",
        )
    row_transform = _load_row_transform(model, data, read_options)
    rows = _open_rows_for_model(data, row_transform, read_options)
    import pyarrow as pa

    n_rows = 0
    n_dropped = 0
    blocks = rows.blocks()
    # Read the first block before writing, since standard output cannot be undone.
    first = next(blocks, None)
    if first is None:
        raise InvalidInput(
            f"{data} contains no rows", "Allowed: at least one row", "Check the file"
        )
    copied_fields = []
    if first.extra_columns is not None:
        copied_fields = list(first.extra_columns.schema)
    schema = pa.schema(
        [*copied_fields, *((name, pa.float64()) for name in row_transform.component_names)]
    )
    with _open_writer(out, schema) as writer:
        for block in chain([first], blocks):
            n_dropped += block.n_dropped
            if not len(block.values):
                continue
            reduced = row_transform.transform(block.values)
            copied_columns: Sequence[pa.ChunkedArray] = []
            if block.extra_columns is not None:
                copied_columns = block.extra_columns.columns
            writer.write(pa.table([*copied_columns, *reduced.T], schema=schema))
            n_rows += len(reduced)
    return {
        "output": str(out),
        "n_rows": n_rows,
        "n_dropped": n_dropped,
        "n_components": len(row_transform.component_names),
        "columns": schema.names,
    }


@contextmanager
def _open_writer(out: Path, schema: Any) -> Iterator[Any]:
    """Open the writer of Arrow tables for the format of an output.

    Parameters
    ----------
    out : Path
        Output file; "-" for CSV on standard output, which is not closed.
    schema : pyarrow.Schema

    Yields
    ------
    writer with a method `write`
    """
    import pyarrow as pa
    from pyarrow import csv, parquet

    writers = {"csv": csv.CSVWriter, "parquet": parquet.ParquetWriter, "arrow": pa.ipc.new_file}
    if str(out) == "-":
        with writers["csv"](sys.stdout.buffer, schema) as writer:
            yield writer
        return
    # Open the file here: Arrow accepts only UTF-8 paths.
    writer_type = writers[_FORMAT_BY_SUFFIX[out.suffix.lower()]]
    with open_atomic(out) as file, writer_type(file, schema) as writer:
        yield writer


@dataclass(frozen=True)
class _RowTransform:
    """Map of rows that a saved model defines.

    Attributes
    ----------
    feature_names : tuple of str or None
        Columns of the rows.
    component_names : tuple of str
        Columns of the output.
    imputation_model : NormalModel or None
        Normal model by which missing cells are imputed.
    transform : callable
        Maps (n, p) rows to (n, d) coordinates.
    """

    feature_names: tuple[str, ...] | None
    component_names: tuple[str, ...]
    imputation_model: NormalModel | None
    transform: Callable[[FloatArray], FloatArray]


def _load_row_transform(
    model: Path, data: Path | ExternalObject, read_options: ReadOptions
) -> _RowTransform:
    """Load a model of one table, or the one of two tables.

    Of two tables, the scores of Y are written if the data have its columns.
    """
    if peek_kind(model) != PAIRED_FILE.name:
        subspace = FairSubspace.load(model)
        return _RowTransform(
            subspace.feature_names,
            subspace.component_names,
            subspace.imputation_model,
            subspace.transform,
        )
    pair = PairedSubspace.load(model)
    x_names = pair.x.feature_names
    y_names = pair.y.feature_names
    if x_names is not None and y_names is not None and isinstance(data, Path):
        rows = FileRows.open(
            data, csv=csv_format(read_options.csv), na_values=na_values(read_options)
        )
        if set(y_names) <= set(rows.selection.available):
            p = pair.x.n_features

            def both_scores(values: FloatArray) -> FloatArray:
                scores = (pair.x.transform(values[:, :p]), pair.y.transform(values[:, p:]))
                return np.hstack(scores)

            return _RowTransform(
                (*x_names, *y_names),
                (*pair.x.score_names, *pair.y.score_names),
                None,
                both_scores,
            )
    return _RowTransform(x_names, pair.x.score_names, None, pair.x.transform)


def _open_rows_for_model(
    data: Path | ExternalObject, row_transform: _RowTransform, read_options: ReadOptions
) -> RowSource:
    """Open rows with the features of a model and the columns to copy, without groups.

    Raises
    ------
    click.UsageError
        An option applies neither to these rows nor to this model, or a copied column has the name
        of a component.
    InvalidInput
        A feature is missing or not numeric, or there is no such column to copy.
    """
    names = row_transform.feature_names
    if isinstance(data, ExternalObject):
        usage_error_if(
            read_options.changed_options, f"{data} is not a file: omit all options but -o."
        )
        rows_of_object = external_rows(data)
        if names is None:
            return rows_of_object
        return rows_of_object.select_features(names)
    usage_error_if(
        keeps_missing(read_options.cells.on_missing) and row_transform.imputation_model is None,
        f"--on-missing {read_options.cells.on_missing} requires a model that was fitted so: this "
        "one was fitted on complete rows, and does not know what to expect of missing cells.",
    )
    read_options = read_options_for([row_transform], data, read_options)
    rows = FileRows.open(
        data,
        on_missing=read_options.cells.on_missing,
        csv=csv_format(read_options.csv),
        na_values=na_values(read_options),
    )
    available = rows.selection.available  # all columns of the file, not only the features
    rows = replace(
        rows, selection=replace(rows.selection, ignore_unseen=read_options.cells.unseen == "ignore")
    )
    if names is not None:
        rows = rows.select_features(names)
    # A model needs all of its features, so the message must not suggest to exclude some.
    allowed, remedy = NUMERIC_MODEL_FEATURES
    check_numeric_features(rows, allowed, remedy)
    keep = read_options.columns.keep
    if read_options.columns.keep_all:
        keep = available
    check_columns(keep, available)
    for conflict in sorted(set(keep).intersection(row_transform.component_names)):
        raise click.UsageError(f"The column {conflict!r} would appear twice in the output.")
    return replace(
        rows, stage_name="transforming", selection=replace(rows.selection, extra_columns=keep)
    )
