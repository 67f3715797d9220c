"""Rows in files of several formats, and in folders of them."""
