"""Solvers for any number of groups, based on the dual of the relaxed problem."""
