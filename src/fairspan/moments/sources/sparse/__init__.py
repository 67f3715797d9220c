"""Rows in scipy sparse matrices."""
