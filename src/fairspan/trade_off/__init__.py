"""The exact trade-off of two groups: every pair of errors at which neither can fall alone.

Of all d-dimensional subspaces, those that minimise w_1 e_1 + w_2 e_2 for weights that are not
negative are the Pareto frontier: the lower-left boundary of the convex hull of all pairs
(e_1(V), e_2(V)). Each is the answer of one symmetric eigenproblem, and every point of the boundary
belongs to some V of exactly d dimensions (see :mod:`fairspan.solvers.two_groups.contact`).
"""
