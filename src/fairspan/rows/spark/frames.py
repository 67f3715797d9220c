"""Rows in a Spark DataFrame, read by Spark's own workers; only merged results leave them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

from threadpoolctl import threadpool_limits

from fairspan.errors import InvalidInput, InvalidType
from fairspan.rows.arrays import comes_from
from fairspan.rows.checks import check_width
from fairspan.rows.columns import ChosenColumns, RowsByColumns, named_columns_only, not_scored
from fairspan.rows.engines import located
from fairspan.rows.frames import ArrowStream
from fairspan.rows.groups import listed
from fairspan.rows.protocol import Fold, OnMissing, Projection, Result
from fairspan.rows.spark.jobs import (
    OUTCOME,
    mapped,
    merged_there,
    outcome,
    partition_number,
)

Batches = Iterator[Any]

_ONE_ENTRY_ONE_COLUMN = (
    "Give each entry a column of its own, such as df.select([df.v[i] for i in range(p)]) after "
    "pyspark.ml.functions.vector_to_array"
)


@dataclass(frozen=True, eq=False)
class SparkRows(RowsByColumns):
    """Rows of a Spark DataFrame, whose groups and weights are columns of it.

    Attributes
    ----------
    frame : pyspark.sql.DataFrame
    chosen : ChosenColumns
    n_rows : None
        Not known before reading.
    """

    frame: Any
    chosen: ChosenColumns
    n_rows: int | None = None

    def folded(self, fold: Fold[Result]) -> Result | None:
        """The fold's result over all partitions; None if there are no rows.

        Raises
        ------
        InvalidInput
            A feature that holds no numbers, before any job starts; whatever is wrong with the rows.
        """
        _check_numeric(self.frame, self.chosen.features)
        read = _numbered(self.frame, self.chosen.read)
        return merged_there(
            mapped(read, partial(_read_partition, fold, self.chosen), OUTCOME), fold
        )


class SparkFrames:
    """Spark data frames, whose groups and weights are columns of them."""

    def takes(self, X: Any) -> bool:
        """Whether it is one."""
        return comes_from(X, "pyspark")

    def open_rows(
        self, X: Any, sensitive_features: Any, sample_weight: Any, on_missing: OnMissing
    ) -> SparkRows:
        """Rows of a Spark DataFrame, whose groups and weights are columns of it."""
        frame = _checked(X)
        named = named_columns_only(sensitive_features, sample_weight, "a Spark DataFrame")
        return SparkRows(frame, ChosenColumns.of(frame.columns, {}, on_missing=on_missing, **named))

    def scored(self, X: Any, score: object) -> Any:
        """A number each would have nowhere to go."""
        raise not_scored(X)

    def transformed(self, X: Any, projection: Projection) -> Any:
        """The reduced rows as a Spark DataFrame, computed when Spark needs them.

        Columns that are no features are carried along behind the components, as rows of Spark have
        no order by which they could be joined again.

        Raises
        ------
        InvalidInput
            A missing column, a feature that holds no numbers, or a column named like a component.
        """
        frame = _checked(X)
        chosen = ChosenColumns.of(frame.columns, {})
        if projection.feature_names is not None:
            chosen = chosen.selected(projection.feature_names)
        check_width(len(chosen.features), projection.encoder.shape[1], "features")
        _check_numeric(frame, chosen.features)
        carried = [name for name in frame.columns if name not in chosen.features]
        taken = [name for name in carried if name in projection.component_names]
        if taken:
            raise InvalidInput(
                f"X has columns {listed(taken)}, which is what the reduced columns are called",
                "Allowed: other names",
                "Rename or drop them",
            )
        reduced = partial(_reduced, projection, list(chosen.features), carried)
        read = _numbered(frame, [*chosen.features, *carried])
        from pyspark.sql.types import DoubleType, StructField, StructType

        names = projection.component_names
        fields = [StructField(name, DoubleType(), nullable=False) for name in names]
        schema = StructType(fields + [frame.schema[name] for name in carried])
        return mapped(read, reduced, schema)


def _read_partition(fold: Fold[Any], chosen: ChosenColumns, batches: Batches) -> Batches:
    """What a task does: one pass over the batches of its partition."""
    import pyarrow as pa

    named = (batch.rename_columns(list(chosen.read)) for batch in batches)
    first = next(named, None)
    if first is None:
        return
    reader = pa.RecordBatchReader.from_batches(first.schema, chain([first], named))
    rows = ArrowStream(reader, chosen)
    number = partition_number()
    yield from outcome(fold, number, f"partition {number}", lambda: fold.over(rows))


def _reduced(
    projection: Projection, features: list[str], carried: list[str], batches: Batches
) -> Batches:
    """What a task does to transform: reduce its partition batch by batch."""
    import pyarrow as pa

    first_row = 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        where = f"partition {partition_number()}, in its rows from {first_row}"
        with located(where), threadpool_limits(1):
            table = pa.Table.from_batches([batch.select(range(len(features)))])
            values = projection.transform(table.rename_columns(features))
        columns = [pa.array(column) for column in values.T]
        others = batch.columns[len(features) :]
        yield pa.RecordBatch.from_arrays(
            columns + others, names=[*projection.component_names, *carried]
        )
        first_row += batch.num_rows


def _checked(X: Any) -> Any:
    from pyspark.sql import DataFrame

    if not isinstance(X, DataFrame) or X.isStreaming:
        kind = f"{type(X).__module__.split('.')[0]} {type(X).__name__}"
        raise InvalidType(
            "X is a streaming DataFrame" if isinstance(X, DataFrame) else f"X is a {kind}",
            "Allowed: DataFrames of pyspark.sql that have an end",
            "Convert it first, for example with X.to_spark() from pandas on Spark",
        )
    if len(set(X.columns)) < len(X.columns):
        twice = sorted({name for name in X.columns if X.columns.count(name) > 1})
        raise InvalidInput(
            f"Several columns of X have the same name: {listed(twice)}",
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
            f"These columns hold no numbers but {', '.join(spelled)}: {listed(list(bad))}",
            "Allowed: numbers and truth values",
            _ONE_ENTRY_ONE_COLUMN
            if vectors
            else "Leave these columns out with X.drop(...), or encode them as numbers; name the "
            "group column as sensitive_features",
        )


def _numbered(frame: Any, names: Sequence[str]) -> Any:
    """These columns in this order, named by numbers: Spark cannot map names with points."""
    places = {name: str(place) for place, name in enumerate(frame.columns)}
    return frame.toDF(*places.values()).select([places[name] for name in names])
