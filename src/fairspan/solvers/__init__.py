"""Solvers: find a subspace and the dual weights that prove its quality."""
