"""Rows in arrays of other packages than numpy, computed on where they lie, such as a GPU."""
