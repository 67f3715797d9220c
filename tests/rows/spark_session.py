"""A real Spark session for tests, or the reason why there is none."""

import os
import shutil

import pytest

from fairspan.rows.spark.engine import session_of


def session_or_skip():
    """One session for a module: two cores, and a task may fail twice before the job does."""
    missing = _what_is_missing()
    if missing is not None:
        if os.environ.get("FAIRSPAN_REQUIRE_SPARK") == "1":
            pytest.fail(f"Spark was asked for, but {missing}")
        pytest.skip(f"{missing}; run: ./run test --with spark")
    with session_of("local[2,3]") as session:
        session.conf.set("spark.sql.shuffle.partitions", "4")
        yield session


def _what_is_missing():
    try:
        import pyspark  # noqa: F401
    except ImportError:
        return "the extra 'spark' is not installed"
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        return "there is no Java"
    return None
