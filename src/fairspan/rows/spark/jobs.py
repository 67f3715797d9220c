"""One pass over rows on Spark: every task returns one result as bytes, and tasks merge them."""

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from threadpoolctl import threadpool_limits

from fairspan import errors
from fairspan.errors import FairspanError, InvalidInput
from fairspan.rows.engines import located, merged_in_order
from fairspan.rows.protocol import Fold, Result

# What tasks hand on: the number of the part, and its result or the error that it met.
OUTCOME = "part int, result binary, error string"

# Results merged by one task, fewer where they are large: Arrow hands them over side by side, in
# less than 2 GB, and those of several groups may yet grow.
_FAN_IN = 8
_BYTES_AT_A_TIME = 2**29


def outcome(
    fold: Fold[Result], part: int, where: str, compute: Callable[[], Result | None]
) -> Iterator[Any]:
    """The result of one task as a pyarrow RecordBatch; none if there are no rows.

    Errors in the rows are passed on too: raising them would make Spark run the task again, several
    times, only to meet them again.

    Parameters
    ----------
    fold : Fold
    part : int
        Number of the part, by which results are put in order.
    where : str
        What the part is called in messages.
    compute : callable
        Called here, with one thread for linear algebra, as other tasks run beside this one.
    """
    try:
        with located(where) if where else nullcontext(), threadpool_limits(1):
            result = compute()
    except FairspanError as error:
        yield _row(part, None, json.dumps([type(error).__name__, *error.args]))
    else:
        if result is not None:
            yield _row(part, fold.to_bytes(result), None)


def merged_there(outcomes: Any, fold: Fold[Result]) -> Result | None:
    """Run the tasks and merge their results on the cluster, until one is left to be fetched.

    Results are merged by part number, always the same ones with each other, so the bits are the
    same however the tasks were spread. The driver holds a single one: several would soon exceed
    what Spark allows it to collect.

    Parameters
    ----------
    outcomes : pyspark DataFrame of the schema `OUTCOME`
    fold : Fold

    Raises
    ------
    FairspanError
        The error of the first part that met one.
    """
    from pyspark import StorageLevel

    # Kept on disk there, so that the rows are read once: for errors and numbers, and to be merged.
    kept = outcomes.persist(StorageLevel.DISK_ONLY)
    try:
        with reported():
            told = kept.selectExpr("part", "error", "length(result) as size").collect()
        _raise_first(told)
        if not told:
            return None
        last, merged = max(row["part"] for row in told), kept
        fan_in = max(2, min(_FAN_IN, _BYTES_AT_A_TIME // max(row["size"] for row in told)))
        while last > 0:
            last //= fan_in
            numbered = merged.selectExpr("*", f"cast(part div {fan_in} as int) as target")
            with quiet():
                merged = numbered.groupBy("target").applyInArrow(_merging(fold), OUTCOME)
        with reported():
            final = merged.collect()
    finally:
        kept.unpersist()
    _raise_first(final)
    return fold.from_bytes(bytes(final[0]["result"]))


def mapped(frame: Any, function: Callable[[Iterator[Any]], Iterator[Any]], schema: Any) -> Any:
    """The frame's ``mapInArrow``: pyarrow RecordBatches of each partition become others."""
    with quiet():
        return frame.mapInArrow(function, schema)


def partition_number() -> int:
    """Number of the partition that the running task reads."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else int(context.partitionId())


@contextmanager
def quiet() -> Iterator[None]:
    """Without PySpark's warning about new versions of pandas, which is not used here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")
        yield


@contextmanager
def reported() -> Iterator[None]:
    """Say what is missing where Spark's workers cannot run our code.

    Raises
    ------
    MissingDependency
    """
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        _, found, rest = str(error).partition("ModuleNotFoundError: No module named ")
        if not found:
            raise
        missing = rest.split("'")[1]
        raise errors.MissingDependency(
            f"The Python of Spark's workers has no package {missing}",
            "Allowed: workers with the same packages as here",
            'Install it there with: pip install "fairspan[spark]"; or point PYSPARK_PYTHON at the '
            "right Python before the session starts (its configuration does not reach the workers)",
        ) from error


def _merging(fold: Fold[Any]) -> Callable[[Any], Any]:
    """What a task does with outcomes of neighbouring parts: make them one."""
    import pyarrow as pa

    # Spark takes from the annotations what is passed.
    def merge(outcomes: pa.Table) -> pa.Table:
        rows = outcomes.sort_by("part").to_pylist()
        target = rows[0]["target"]
        failed = [row for row in rows if row["error"] is not None]
        if failed:
            return pa.Table.from_batches([_row(target, None, failed[0]["error"])])
        results = (fold.from_bytes(row["result"]) for row in rows)
        one = outcome(fold, target, "", lambda: merged_in_order(fold, results))
        return pa.Table.from_batches(list(one))

    return merge


def _row(part: int, result: bytes | None, error: str | None) -> Any:
    import pyarrow as pa

    columns = {
        "part": pa.array([part], pa.int32()),
        "result": pa.array([result], pa.binary()),
        "error": pa.array([error], pa.string()),
    }
    return pa.RecordBatch.from_pydict(columns)


def _raise_first(rows: list[Any]) -> None:
    failed = [row for row in rows if row["error"] is not None]
    if failed:
        name, *parts = json.loads(min(failed, key=lambda row: row["part"])["error"])
        kind = getattr(errors, name, InvalidInput)
        raise kind(*parts)
