"""Rows in Dask collections, and a Dask cluster as an engine that reads files."""
