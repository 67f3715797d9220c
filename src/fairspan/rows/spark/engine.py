"""Parts read by the workers of a Spark cluster."""

import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from socket import create_connection
from typing import Any

from fairspan.errors import InvalidParameter, MissingDependency, imported
from fairspan.rows.engines import Part
from fairspan.rows.protocol import Fold, Result
from fairspan.rows.spark.jobs import (
    OUTCOME,
    mapped,
    merged_there,
    outcome,
    partition_number,
    quiet,
)

# Parts whose results are merged on the cluster before one comes here. Not a matter of the cluster's
# size, so that any cluster gives the same bits.
_WAVE = 64
_SECONDS_TO_CONNECT = 5

# All cores of this machine; unlike local[*], a task whose worker died is run again.
_THIS_MACHINE = "local[*,4]"

_MASTER_WITH_PORT = re.compile(r"([^,:/]+|\[[^\]]+\]):(\d+)")


@dataclass(frozen=True)
class OnSpark:
    """Reads parts on a Spark cluster, all of whose workers see the same files.

    Attributes
    ----------
    master : str or None
        Such as "spark://host:7077". None: the session that is active in this process, else a
        session on this machine.
    """

    master: str | None = None

    def results(
        self, fold: Fold[Result], parts: Sequence[Part]
    ) -> Iterator[tuple[int, Result | None]]:
        """Results over waves of consecutive parts.

        Raises
        ------
        MissingDependency
            The package pyspark or Java is not installed, here or where the workers run.
        InvalidParameter
            There is no master at the address, or a session with another one is active.
        """
        with session_of(self.master) as session:
            for start in range(0, len(parts), _WAVE):
                wave = list(parts[start : start + _WAVE])
                numbers = session.range(0, len(wave), 1, len(wave))
                outcomes = mapped(numbers, partial(_read_part, fold, wave), OUTCOME)
                yield len(wave), merged_there(outcomes, fold)


def _read_part(fold: Fold[Any], parts: Sequence[Part], batches: Iterator[Any]) -> Iterator[Any]:
    """What a task does: read the part of its own number, whatever is in its batches."""
    for _ in batches:
        pass
    number = partition_number()
    part = parts[number]
    yield from outcome(fold, number, part.where, lambda: fold.over(part))


@contextmanager
def session_of(master: str | None) -> Iterator[Any]:
    """The active session, or one that is stopped afterwards."""
    imported("pyspark", "spark", "Reading on Spark")
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        present = active.conf.get("spark.master", None)
        if master not in (None, present):
            raise InvalidParameter(
                f"The master is {master!r}, but a Spark session with {present!r} is active",
                "Allowed: one master in a process",
                "Leave the master out to use that session, or stop it first",
            )
        yield active
        return
    session = _started(SparkSession.builder, master or _THIS_MACHINE)
    try:
        yield session
    finally:
        session.stop()


def _started(builder: Any, master: str) -> Any:
    _check_java()
    _check_master(master)
    settings = {
        "spark.app.name": "fairspan",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    if master.startswith("local"):
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    for name, value in settings.items():
        builder = builder.config(name, value)
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkRuntimeError

    with _workers_with_this_python(), quiet():
        try:
            session = builder.master(master).getOrCreate()
        except PySparkRuntimeError as error:
            if "JAVA_GATEWAY_EXITED" not in str(error):
                raise
            raise _no_java("the one that was found did not start it") from error
        except Py4JJavaError as error:
            why = str(error.java_exception.getMessage()).splitlines()[0]
            if "stopped SparkContext" in why:  # what Spark says in the end, after a minute
                why = "what is there takes no application"
            raise _no_master(master, why) from error
    session.sparkContext.setLogLevel("ERROR")
    return session


@contextmanager
def _workers_with_this_python() -> Iterator[None]:
    """Spark reads it once, from the environment alone; what the user has set there stays."""
    if "PYSPARK_PYTHON" in os.environ:
        yield
        return
    os.environ["PYSPARK_PYTHON"] = sys.executable
    try:
        yield
    finally:
        del os.environ["PYSPARK_PYTHON"]


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    found = (Path(home) / "bin" / "java").exists() if home else shutil.which("java") is not None
    if not found:
        raise _no_java("no java was found")


def _no_java(why: str) -> MissingDependency:
    return MissingDependency(
        f"Spark needs Java 17 or newer, and {why}",
        "It is looked for in JAVA_HOME, and without that in PATH",
        "Install it (on Debian and Ubuntu: apt-get install openjdk-17-jre-headless), or point "
        "JAVA_HOME at it",
    )


def _check_master(master: str) -> None:
    """Knock first: Spark itself tries for a minute, and says so in a hundred lines."""
    if not master.startswith(("local", "spark://", "yarn", "k8s://", "mesos://")):
        raise _no_master(master, "that is no address of a master")
    if not master.startswith("spark://"):
        return
    reason = "it has no host and port"
    for host, port in _MASTER_WITH_PORT.findall(master.removeprefix("spark://")):
        try:
            create_connection((host.strip("[]"), int(port)), timeout=_SECONDS_TO_CONNECT).close()
        except (OSError, OverflowError) as error:
            reason = str(error)
        else:
            return
    raise _no_master(master, reason)


def _no_master(master: str, why: str) -> InvalidParameter:
    return InvalidParameter(
        f"No Spark master answers at {master!r} ({why.rstrip('.')})",
        "Allowed: a running master, such as spark://host:7077, yarn, or local[4,3] for this "
        "machine",
        "Start one with Spark's sbin/start-master.sh, and workers with sbin/start-worker.sh",
    )
