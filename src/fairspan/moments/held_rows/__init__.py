"""Moments that refer to the rows in place of matrices: of few rows, and of sparse rows."""
