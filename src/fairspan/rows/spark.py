"""Rows in a Spark DataFrame, read by Spark's own workers; only results leave them.

Every task returns one result, pickled, as Spark's own are: the workers run our code.
"""

import json
import pickle
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

from threadpoolctl import threadpool_limits

from fairspan import errors
from fairspan.errors import FairspanError, InvalidInput, InvalidType, MissingDependency
from fairspan.rows.arrays import is_from_package
from fairspan.rows.columns import (
    ColumnSelection,
    RowsInParts,
    StreamAdapter,
    column_name_arguments,
)
from fairspan.rows.frames import ArrowStreamRows
from fairspan.rows.groups import format_list
from fairspan.rows.protocol import (
    Aggregator,
    OnMissing,
    Result,
    RowMap,
    add_error_context,
    merge_in_order,
)
from fairspan.rows.validation import check_n_columns

Batches = Iterator[Any]

_SPLIT_VECTOR_HINT = (
    "Give each entry a column of its own, such as df.select([df.v[i] for i in range(p)]) after "
    "pyspark.ml.functions.vector_to_array"
)
# What tasks hand on: the number of the part, and its result or the error that it met.
_OUTCOME_SCHEMA = "part int, result binary, error string"


@dataclass(frozen=True, eq=False)
class SparkRows(RowsInParts):
    """Rows of a Spark DataFrame, whose groups and weights are columns of it.

    Attributes
    ----------
    frame : pyspark.sql.DataFrame
    chosen : ColumnSelection
    n_rows : None
        Not known before reading.
    """

    frame: Any
    selection: ColumnSelection
    n_rows: int | None = None

    def aggregate(self, tally: Aggregator[Result]) -> Result | None:
        """The tally's result over all partitions; None if there are no rows.

        Raises
        ------
        InvalidInput
            A feature that holds no numbers, before any job starts; whatever is wrong with the rows.
        """
        _check_numeric(self.frame, self.selection.features)
        outcomes = _map_in_arrow(
            _select_by_position(self.frame, self.selection.required_columns),
            partial(_aggregate_partition, tally, self.selection),
            _OUTCOME_SCHEMA,
        )
        return _run_and_merge(outcomes, tally)


class SparkAdapter(StreamAdapter):
    """Spark data frames, whose groups and weights are columns of them."""

    def accepts(self, X: Any) -> bool:
        """Whether it is one."""
        return is_from_package(X, "pyspark")

    def open(
        self, X: Any, sensitive_features: Any, sample_weight: Any, on_missing: OnMissing
    ) -> SparkRows:
        """Rows of a Spark DataFrame, whose groups and weights are columns of it."""
        frame = _validate_frame(X)
        named = column_name_arguments(sensitive_features, sample_weight, "a Spark DataFrame")
        return SparkRows(
            frame, ColumnSelection.from_patterns(frame.columns, {}, on_missing=on_missing, **named)
        )

    def map_rows(self, X: Any, row_map: RowMap) -> Any:
        """Reduced rows as a Spark DataFrame, computed when Spark needs them.

        Columns that are no features are carried along behind the components, as rows of Spark have
        no order by which they could be joined again.

        Raises
        ------
        InvalidInput
            A missing column, a feature that holds no numbers, or a column named like a component.
        """
        if row_map.affine is None or row_map.input_kind != "features":
            return super().map_rows(X, row_map)
        frame = _validate_frame(X)
        chosen = ColumnSelection.from_patterns(frame.columns, {})
        if row_map.feature_names is not None:
            chosen = chosen.select_features(row_map.feature_names)
        check_n_columns(len(chosen.features), row_map.n_inputs, "features")
        _check_numeric(frame, chosen.features)
        carried = [name for name in frame.columns if name not in chosen.features]
        taken = [name for name in carried if name in row_map.output_names]
        if taken:
            raise InvalidInput(
                f"X has columns {format_list(taken)}, which is what the reduced columns are called",
                "Allowed: other names",
                "Rename or drop them",
            )
        from pyspark.sql.types import DoubleType, StructField, StructType

        components = [
            StructField(name, DoubleType(), nullable=False) for name in row_map.output_names
        ]
        return _map_in_arrow(
            _select_by_position(frame, [*chosen.features, *carried]),
            partial(_transform_partition, row_map, list(chosen.features), carried),
            StructType(components + [frame.schema[name] for name in carried]),
        )


def _aggregate_partition(
    tally: Aggregator[Any], chosen: ColumnSelection, batches: Batches
) -> Batches:
    """What a task does: one pass over the batches of its partition; nothing if there are no rows.

    Errors in the rows are passed on as text: raising them would make Spark run the task again,
    several times, only to meet them again.
    """
    import pyarrow as pa

    named = (batch.rename_columns(list(chosen.required_columns)) for batch in batches)
    first = next(named, None)
    if first is None:
        return
    reader = pa.RecordBatchReader.from_batches(first.schema, chain([first], named))
    number = _partition_number()
    contents = error = None
    try:
        # With one thread for linear algebra, as other tasks run beside this one.
        with add_error_context(f"partition {number}"), threadpool_limits(1):
            result = tally.aggregate(ArrowStreamRows(reader, chosen))
            contents = None if result is None else pickle.dumps(result)
    except FairspanError as met:
        described = {"cause": met.cause, **met.details}
        error = json.dumps([type(met).__name__, *met.args, described])
    if contents is not None or error is not None:
        yield pa.RecordBatch.from_pydict(
            {
                "part": pa.array([number], pa.int32()),
                "result": pa.array([contents], pa.binary()),
                "error": pa.array([error], pa.string()),
            }
        )


def _transform_partition(
    row_map: RowMap, features: list[str], carried: list[str], batches: Batches
) -> Batches:
    """What a task does to transform: reduce its partition batch by batch."""
    import pyarrow as pa

    first_row = 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        where = f"partition {_partition_number()}, in its rows from {first_row}"
        with add_error_context(where), threadpool_limits(1):
            table = pa.Table.from_batches([batch.select(range(len(features)))])
            values = row_map.function(table.rename_columns(features))
        yield pa.RecordBatch.from_arrays(
            [*map(pa.array, values.T), *batch.columns[len(features) :]],
            names=[*row_map.output_names, *carried],
        )
        first_row += batch.num_rows


def _validate_frame(X: Any) -> Any:
    from pyspark.sql import DataFrame

    if not isinstance(X, DataFrame) or X.isStreaming:
        kind = f"{type(X).__module__.split('.')[0]} {type(X).__name__}"
        raise InvalidType(
            "X is a streaming DataFrame" if isinstance(X, DataFrame) else f"X is a {kind}",
            "Allowed: non-streaming data frames of pyspark.sql",
            "Convert it first, for example with X.to_spark() from pandas on Spark",
        )
    if len(set(X.columns)) < len(X.columns):
        twice = sorted({name for name in X.columns if X.columns.count(name) > 1})
        raise InvalidInput(
            f"Several columns of X have the same name: {format_list(twice)}",
            "Allowed: columns of different names",
            "Rename them",
        )
    return X


def _check_numeric(frame: Any, names: Sequence[str]) -> None:
    """Make sure that these columns hold numbers or truth values, before a job starts."""
    from pyspark.sql.types import BooleanType, NumericType

    kinds = {name: frame.schema[name].dataType for name in names}
    bad = {n: k for n, k in kinds.items() if not isinstance(k, NumericType | BooleanType)}
    if bad:
        spelled = sorted({kind.simpleString() for kind in bad.values()})
        vectors = any(kind.typeName() in ("array", "vectorudt") for kind in bad.values())
        raise InvalidInput(
            f"These columns hold no numbers, only values of type {', '.join(spelled)}: "
            f"{format_list(list(bad))}",
            "Allowed: numbers and truth values",
            _SPLIT_VECTOR_HINT
            if vectors
            else "Leave these columns out with X.drop(...), or encode them as numbers; name the "
            "group column as sensitive_features",
        )


def _select_by_position(frame: Any, names: Sequence[str]) -> Any:
    """These columns in this order, named by numbers: Spark cannot map names with points."""
    places = {name: str(place) for place, name in enumerate(frame.columns)}
    return frame.toDF(*places.values()).select([places[name] for name in names])


def _run_and_merge(outcomes: Any, tally: Aggregator[Result]) -> Result | None:
    """Run the tasks, and merge their results here, in the order of the parts.

    The same parts are always merged in the same order, so the bits are the same however the tasks
    were spread. No more results are fetched at a time than Spark allows.

    Parameters
    ----------
    outcomes : pyspark DataFrame of the schema `_OUTCOME`
    tally : Tally

    Raises
    ------
    FairspanError
        The error of the first part that met one.
    """
    from pyspark import StorageLevel

    # Kept on disk there, so that the rows are read once: for errors and to be merged.
    persisted = outcomes.persist(StorageLevel.DISK_ONLY)
    try:
        failed = _collect_failures(persisted.where("error is not null").select("part", "error"))
        if failed:
            name, *texts, described = json.loads(failed[0]["error"])
            cause = described.pop("cause")
            raise getattr(errors, name, InvalidInput)(
                *texts, cause=None if cause is None else errors.Cause(cause), **described
            )
        # One part after the other, in their order, as Spark limits what is fetched together.
        results = (pickle.loads(bytes(row["result"])) for row in persisted.toLocalIterator())
        return merge_in_order(tally, results)
    finally:
        persisted.unpersist()


def _collect_failures(outcomes: Any) -> list[Any]:
    """The outcomes in the order of the parts, or what is missing where workers cannot run our code.

    Raises
    ------
    MissingDependency
    """
    from pyspark.errors import PySparkException

    try:
        return sorted(outcomes.collect(), key=lambda row: row["part"])
    except PySparkException as error:
        _, found, rest = str(error).partition("ModuleNotFoundError: No module named ")
        if not found:
            raise
        missing = rest.split("'")[1]
        raise MissingDependency(
            f"The Python of Spark's workers has no package {missing}",
            "Allowed: workers with the same packages as here",
            'Install it there with: pip install "fairspan[spark]"; or point PYSPARK_PYTHON at the '
            "right Python before the session starts (its configuration does not reach the workers)",
        ) from error


def _map_in_arrow(
    frame: Any, function: Callable[[Iterator[Any]], Iterator[Any]], schema: Any
) -> Any:
    """The frame's ``mapInArrow``: pyarrow RecordBatches of each partition become others."""
    with warnings.catch_warnings():
        # New versions of pandas, which is not used here.
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")
        return frame.mapInArrow(function, schema)


def _partition_number() -> int:
    """Number of the partition that the running task reads."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else int(context.partitionId())
