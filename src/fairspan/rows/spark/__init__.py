"""Rows in Spark DataFrames, and a Spark cluster as an engine that reads files."""
