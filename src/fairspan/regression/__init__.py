"""Least squares from the groups' moments: one column on the others, or on a subspace of them.

Moments hold all that least squares needs, so no rows are read: parts of the data can be summed at
different places, and each group's mean squared error comes with the answer.
"""

from fairspan.regression.fits import least_squares, principal_component_regression
from fairspan.regression.results import LeastSquares, PrincipalComponentRegression

__all__ = [
    "LeastSquares",
    "PrincipalComponentRegression",
    "least_squares",
    "principal_component_regression",
]
