"""A real Spark session for tests, or the reason why there is none."""

import os
import shutil
import sys
import warnings

import pytest

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "4",
}


def session_or_skip():
    """One session for a module: two cores, and a task may fail twice before the job does."""
    missing = _what_is_missing()
    if missing is not None:
        if os.environ.get("FAIRSPAN_REQUIRE_SPARK") == "1":
            pytest.fail(f"Spark was asked for, but {missing}")
        pytest.skip(f"{missing}; run: ./run test --with spark")
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2,3]").appName("fairspan")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


def _what_is_missing():
    try:
        import pyspark  # noqa: F401
    except ImportError:
        return "the extra 'spark' is not installed"
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        return "there is no Java"
    return None
