"""Output of the transform command."""

import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import click
import numpy as np

from fairspan.cli.command import usage_error_if
from fairspan.cli.option_values import ReadOptions
from fairspan.cli.row_input import (
    OF_MODEL,
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

_FORMAT_BY_EXTENSION = {
    ".csv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}


def transform_file(
    model: Path, data: Path | ExternalObject, out: Path, reading: ReadOptions
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
        Output file, whose extension gives its format; "-" writes CSV to standard output.
    reading : ReadOptions

    Returns
    -------
    dict
        Path of the output, its columns, and the numbers of rows written, rows dropped and
        components.
    """
    is_stdout = str(out) == "-"
    if not is_stdout and out.suffix.lower() not in _FORMAT_BY_EXTENSION:
        raise InvalidParameter(
            f"The output {out} has the ending {out.suffix!r}",
            f"Allowed: {', '.join(_FORMAT_BY_EXTENSION)}, or - for standard output",
            "Choose one of these endings",
        )
    subspace = _load_row_transform(model, data, reading)
    rows = _open_rows_for_model(data, subspace, reading)
    import pyarrow as pa
    from pyarrow import csv, parquet

    openers = {"csv": csv.CSVWriter, "parquet": parquet.ParquetWriter, "arrow": pa.ipc.new_file}
    file_format = "csv"
    if not is_stdout:
        file_format = _FORMAT_BY_EXTENSION[out.suffix.lower()]
    opener = openers[file_format]
    n_rows = n_dropped = 0
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
        [*copied_fields, *((name, pa.float64()) for name in subspace.component_names)]
    )
    # Open the file here: Arrow accepts only UTF-8 paths. Standard output is not closed.
    output = nullcontext(sys.stdout.buffer) if is_stdout else open_atomic(out)
    with output as file, opener(file, schema) as writer:
        for block in chain([first], blocks):
            n_dropped += block.n_dropped
            if len(block.values):
                reduced = subspace.transform(block.values)
                copied_columns: Sequence[pa.ChunkedArray] = []
                if block.extra_columns is not None:
                    copied_columns = block.extra_columns.columns
                writer.write(pa.table([*copied_columns, *reduced.T], schema=schema))
                n_rows += len(reduced)
    return {
        "output": str(out),
        "n_rows": n_rows,
        "n_dropped": n_dropped,
        "n_components": len(subspace.component_names),
        "columns": schema.names,
    }


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
    model: Path, data: Path | ExternalObject, reading: ReadOptions
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
        rows = FileRows.open(data, csv=csv_format(reading.csv), na_values=na_values(reading))
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
    data: Path | ExternalObject, subspace: _RowTransform, reading: ReadOptions
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
    names = subspace.feature_names
    if isinstance(data, ExternalObject):
        usage_error_if(reading.changed_options, f"{data} is not a file: omit all options but -o.")
        rows_of_object = external_rows(data)
        if names is None:
            return rows_of_object
        return rows_of_object.select_features(names)
    usage_error_if(
        keeps_missing(reading.cells.on_missing) and subspace.imputation_model is None,
        f"--on-missing {reading.cells.on_missing} is for models that were fitted so: this one was "
        "fitted on complete rows, and does not know what to expect of missing cells.",
    )
    reading = read_options_for([subspace], data, reading)
    rows = FileRows.open(
        data,
        on_missing=reading.cells.on_missing,
        csv=csv_format(reading.csv),
        na_values=na_values(reading),
    )
    available = rows.selection.available  # all columns of the file, not only the features
    rows = replace(
        rows, selection=replace(rows.selection, ignore_unseen=reading.cells.unseen == "ignore")
    )
    if names is not None:
        rows = rows.select_features(names)
    # A model needs all of its features, so the message must not suggest to exclude some.
    allowed, remedy = OF_MODEL
    check_numeric_features(rows, allowed, remedy)
    keep = reading.columns.keep
    if reading.columns.keep_all:
        keep = available
    check_columns(keep, available)
    for conflict in sorted(set(keep).intersection(subspace.component_names)):
        raise click.UsageError(f"The column {conflict!r} would appear twice in the output.")
    return replace(
        rows, stage_name="transforming", selection=replace(rows.selection, extra_columns=keep)
    )
