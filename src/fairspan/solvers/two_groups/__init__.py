"""Exact solvers for two groups, on the boundary of the trade-off between their errors."""
