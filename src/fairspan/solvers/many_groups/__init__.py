"""Any number of groups: the dual of the relaxed problem, and solvers that are built on it."""
