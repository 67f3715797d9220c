"""Rows in CSV, Parquet and Arrow files, and in folders of them."""
