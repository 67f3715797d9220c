"""Rows of a Spark DataFrame, aggregated by Spark's workers; only results are collected.

Each task returns one pickled result. Unpickling is as safe as Spark itself, since the workers run
our code.
"""

from __future__ import annotations

import json
import pickle
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

from threadpoolctl import threadpool_limits

from fairspan import errors
from fairspan.errors import FairspanError, InvalidInput, InvalidType, MissingDependency
from fairspan.rows.aggregation import Aggregator, Result, merge_in_order
from fairspan.rows.array_backend import is_from_package
from fairspan.rows.arrow_streams import ArrowStream, ArrowStreamRows
from fairspan.rows.blocks import OnMissing
from fairspan.rows.column_selection import (
    ColumnRoles,
    ColumnSelection,
    PartitionedColumnRows,
    StreamAdapter,
    column_roles,
)
from fairspan.rows.error_context import add_error_context
from fairspan.rows.labels import format_list
from fairspan.rows.metadata import RowMetadata
from fairspan.rows.row_adapters import RowMap
from fairspan.rows.row_validation import check_n_columns, describe_non_numeric
from fairspan.typing import TableLike

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame as SparkFrame
    from pyspark.sql import Row
    from pyspark.sql.types import StructType

# Record batches of the rows of one partition.
Batches: TypeAlias = "Iterator[pa.RecordBatch]"

_SPLIT_VECTOR_HINT = (
    "Split the vector into columns, for example with df.select([df.v[i] for i in range(p)]) after "
    "pyspark.ml.functions.vector_to_array"
)
# Output of a task: the partition number, and its result or error.
_OUTCOME_SCHEMA = "part int, result binary, error string"


@dataclass(frozen=True, eq=False)
class SparkRows(PartitionedColumnRows):
    """Rows of a Spark DataFrame with group and weight columns.

    Attributes
    ----------
    frame : pyspark.sql.DataFrame
    selection : ColumnSelection
    n_rows : None
        Unknown before reading.
    """

    frame: SparkFrame
    selection: ColumnSelection
    n_rows: int | None = None

    def aggregate(self, aggregator: Aggregator[Result]) -> Result | None:
        """Aggregate all partitions; None if there are no rows.

        Raises
        ------
        InvalidInput
            A non-numeric feature (before any job starts), or invalid rows.
        """
        _check_numeric(self.frame, self.selection.features)
        # Columns get their positions as names, since mapInArrow fails on names with dots.
        outcomes = _map_in_arrow(
            _select_by_position(self.frame, self.selection.required_columns),
            partial(_aggregate_partition, aggregator, self.selection),
            _OUTCOME_SCHEMA,
        )
        return _run_and_merge(outcomes, aggregator)


class SparkAdapter(StreamAdapter):
    """Adapter for Spark data frames."""

    def accepts(self, X: TableLike) -> bool:
        """Return whether `X` is a Spark object."""
        return is_from_package(X, "pyspark")

    def open(self, X: TableLike, metadata: RowMetadata, on_missing: OnMissing) -> SparkRows:
        """Open the rows of a Spark DataFrame."""
        frame = _validate_frame(X)
        roles = column_roles(metadata, "a Spark DataFrame")
        selection = ColumnSelection.from_patterns(
            frame.columns, vector_lengths={}, roles=roles, on_missing=on_missing
        )
        return SparkRows(frame, selection)

    def map_rows(self, X: TableLike, row_map: RowMap) -> TableLike:
        """Transform rows lazily to a Spark DataFrame.

        Only affine functions of features, such as `transform`, are applied. Others, such as scores
        and reconstructions, are refused: Spark rows have no order by which their results could be
        joined later. For the same reason, non-feature columns are appended to the components.

        Raises
        ------
        InvalidType
            The function is not an affine function of features.
        InvalidInput
            Missing column, non-numeric feature, or a column named like a component.
        """
        if row_map.affine is None or row_map.input_kind != "features":
            return super().map_rows(X, row_map)  # raises InvalidType
        frame = _validate_frame(X)
        # All columns are features, unless the model names its own. Columns of vectors are not
        # numeric, and are refused below.
        selection = ColumnSelection.from_patterns(frame.columns, {}, ColumnRoles())
        if row_map.feature_names is not None:
            selection = selection.select_features(row_map.feature_names)
        check_n_columns(len(selection.features), row_map.n_inputs, "features")
        _check_numeric(frame, selection.features)
        passed_through = [name for name in frame.columns if name not in selection.features]
        conflicting = [name for name in passed_through if name in row_map.output_names]
        if conflicting:
            raise InvalidInput(
                f"X has columns {format_list(conflicting)}, which clash with the names of the "
                "components",
                "Allowed: columns with other names",
                "Rename or drop them",
            )
        from pyspark.sql.types import DoubleType, StructField, StructType

        components = [
            StructField(name, DoubleType(), nullable=False) for name in row_map.output_names
        ]
        return _map_in_arrow(
            _select_by_position(frame, [*selection.features, *passed_through]),
            partial(_transform_partition, row_map, list(selection.features), passed_through),
            StructType(components + [frame.schema[name] for name in passed_through]),
        )


def _aggregate_partition(
    aggregator: Aggregator[Result], selection: ColumnSelection, batches: Batches
) -> Batches:
    """Aggregate one partition, given as Arrow record batches.

    Yields a single batch of one row in the schema `_OUTCOME_SCHEMA`, or nothing if the partition is
    empty. Errors in the rows are yielded as text, because raising would make Spark retry the task
    several times.
    """
    import pyarrow as pa

    # Columns arrive with their positions as names, since mapInArrow fails on names with dots.
    named = (batch.rename_columns(list(selection.required_columns)) for batch in batches)
    first = next(named, None)
    if first is None:
        return
    reader = pa.RecordBatchReader.from_batches(first.schema, chain([first], named))
    number = _partition_number()
    pickled_result = None
    error_json = None
    try:
        # One BLAS thread, since other tasks run in parallel.
        with add_error_context(f"partition {number}"), threadpool_limits(1):
            result = aggregator.aggregate(ArrowStreamRows(ArrowStream(reader), selection))
            pickled_result = None if result is None else pickle.dumps(result)
    except FairspanError as error:
        details = {"cause": error.cause, **error.details}
        error_json = json.dumps([type(error).__name__, *error.args, details])
    if pickled_result is not None or error_json is not None:
        yield pa.RecordBatch.from_pydict(
            {
                "part": pa.array([number], pa.int32()),
                "result": pa.array([pickled_result], pa.binary()),
                "error": pa.array([error_json], pa.string()),
            }
        )


def _transform_partition(
    row_map: RowMap, features: list[str], passed_through: list[str], batches: Batches
) -> Batches:
    """Transform one partition, batch by batch.

    The columns of each batch are the features, in order, followed by the columns to pass through;
    their names are positions (:func:`_select_by_position`).
    """
    import pyarrow as pa

    first_row = 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        location = f"partition {_partition_number()}, in its rows from {first_row}"
        with add_error_context(location), threadpool_limits(1):
            table = pa.Table.from_batches([batch.select(range(len(features)))])
            values = row_map.function(table.rename_columns(features))
        yield pa.RecordBatch.from_arrays(
            [*map(pa.array, values.T), *batch.columns[len(features) :]],
            names=[*row_map.output_names, *passed_through],
        )
        first_row += batch.num_rows


def _validate_frame(X: TableLike) -> SparkFrame:
    """Return `X` if it is a non-streaming Spark DataFrame with unique column names.

    Raises
    ------
    InvalidType, InvalidInput
        Another object, or several columns with one name.
    """
    from pyspark.sql import DataFrame

    if not isinstance(X, DataFrame) or X.isStreaming:
        type_name = f"{type(X).__module__.split('.')[0]} {type(X).__name__}"
        if isinstance(X, DataFrame):
            type_name = "streaming DataFrame"
        raise InvalidType(
            f"X is a {type_name}",
            "Allowed: non-streaming DataFrames of pyspark.sql",
            "Convert it first, for example with X.to_spark() from pandas on Spark",
        )
    if len(set(X.columns)) < len(X.columns):
        duplicates = sorted({name for name in X.columns if X.columns.count(name) > 1})
        raise InvalidInput(
            f"Several columns of X have the same name: {format_list(duplicates)}",
            "Allowed: unique column names",
            "Rename them",
        )
    return X


def _check_numeric(frame: SparkFrame, names: Sequence[str]) -> None:
    """Check that these columns are numeric or boolean, before a job starts.

    Raises
    ------
    InvalidInput
    """
    from pyspark.sql.types import BooleanType, NumericType

    types = {name: frame.schema[name].dataType for name in names}
    non_numeric = {
        name: type_
        for name, type_ in types.items()
        if not isinstance(type_, NumericType | BooleanType)
    }
    if not non_numeric:
        return
    remedy = (
        "Drop these columns with X.drop(...), or encode them as numbers; pass the group column as "
        "sensitive_features"
    )
    if any(type_.typeName() in ("array", "vectorudt") for type_ in non_numeric.values()):
        remedy = _SPLIT_VECTOR_HINT
    type_names = sorted({type_.simpleString() for type_ in non_numeric.values()})
    raise InvalidInput(
        describe_non_numeric(list(non_numeric), type_names),
        "Allowed: numbers and booleans",
        remedy,
    )


def _select_by_position(frame: SparkFrame, names: Sequence[str]) -> SparkFrame:
    """Select columns in this order and rename them to their positions.

    mapInArrow fails on names with dots. The functions that it calls restore the names.
    """
    position_of = {name: str(position) for position, name in enumerate(frame.columns)}
    return frame.toDF(*position_of.values()).select([position_of[name] for name in names])


def _run_and_merge(outcomes: SparkFrame, aggregator: Aggregator[Result]) -> Result | None:
    """Run the tasks and merge their results on the driver.

    Results are merged in partition order, so that the outcome is bit-identical for any scheduling,
    and fetched one at a time.

    Parameters
    ----------
    outcomes : pyspark DataFrame of the schema `_OUTCOME_SCHEMA`
    aggregator : Aggregator

    Raises
    ------
    FairspanError
        The error of the first partition that failed.
    """
    from pyspark import StorageLevel

    # Persist outcomes, so that rows are read once for errors and results.
    persisted = outcomes.persist(StorageLevel.DISK_ONLY)
    try:
        failures = _collect_failures(persisted.where("error is not null").select("part", "error"))
        if failures:
            raise _error_from_json(failures[0]["error"])
        # One partition at a time: Spark limits the size of a collect().
        results = (pickle.loads(bytes(row["result"])) for row in persisted.toLocalIterator())
        return merge_in_order(aggregator, results)
    finally:
        persisted.unpersist()


def _error_from_json(text: str) -> FairspanError:
    """Rebuild the error of a task."""
    class_name, *arguments, details = json.loads(text)
    cause = details.pop("cause")
    if cause is not None:
        cause = errors.Cause(cause)
    error: FairspanError = getattr(errors, class_name, InvalidInput)(
        *arguments, cause=cause, **details
    )
    return error


def _collect_failures(outcomes: SparkFrame) -> list[Row]:
    """Collect the errors of tasks in partition order; this runs the job.

    Raises
    ------
    MissingDependency
        The workers lack a package.
    """
    from pyspark.errors import PySparkException

    try:
        return sorted(outcomes.collect(), key=lambda row: row["part"])
    except PySparkException as error:
        _, match, remainder = str(error).partition("ModuleNotFoundError: No module named ")
        if not match:
            raise
        missing = remainder.split("'")[1]
        raise MissingDependency(
            f"The Python of Spark's workers lacks the package {missing}",
            "Allowed: workers with the same packages as the driver",
            'Install it there with: pip install "fairspan[spark]"; or point PYSPARK_PYTHON at the '
            "right Python before the session starts (Spark configuration is not passed on to "
            "workers)",
        ) from error


def _map_in_arrow(
    frame: SparkFrame,
    function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: str | StructType,
) -> SparkFrame:
    """Apply ``mapInArrow`` without pandas warnings."""
    with warnings.catch_warnings():
        # A warning about new pandas versions; pandas is not used.
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")
        return frame.mapInArrow(function, schema)


def _partition_number() -> int:
    """Return the partition number of the running task."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else int(context.partitionId())
