"""The fixtures of the tests of commands."""

from cli.conftest import data, features, run, table

__all__ = ["data", "features", "run", "table"]
