"""Rows in files: one module for each format, folders of them, and the rows themselves."""
