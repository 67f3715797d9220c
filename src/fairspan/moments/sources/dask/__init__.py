"""Rows in Dask collections, read and reduced by the workers."""
