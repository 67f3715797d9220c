"""Model of rounding error, and the limits below which a number counts as rounding error.

float64 rounds the result of an operation by at most the fraction EPS / 2. A sum of n terms, or of n
products, is therefore off by at most n EPS times the sum of their magnitudes, in whatever order
they are added (Higham 2002, chapter 3). This is the model of all rounding errors here:

    rounding <= EPS * terms * norm

A **bound** that enters a proof or a resolution is this product, written out in this order with the
number of terms and a norm of the data at hand.

A **limit** decides whether a number is zero, or two are equal, where counting terms would not
change the answer. Limits are relative to the norm of that of which the number was computed. A limit
of n EPS covers sums of n terms in the worst case, and of about n^2 terms if errors of both signs
cancel, as they do in practice.
"""

import numpy as np
from numpy.typing import ArrayLike

from fairspan.typing import FloatArray

# Distance from one to the next larger number, 2.2e-16.
EPS = float(np.finfo(np.float64).eps)
# Smallest number of full precision, 2.2e-308.
TINY = float(np.finfo(np.float64).tiny)
# Up to this integer, all integers are exact.
MAX_EXACT_INTEGER = 2**53

# Numbers of terms, in units of EPS, where they do not follow from the sizes of arrays.
# An inner product of any number of entries: products are added in blocks, and errors cancel.
ENTRY_TERMS = 8.0
# The rotation of a subspace when its orthonormal basis is rounded.
ROTATION_TERMS = 16.0
# What remains of a vector that others span, or a singular value that is zero: a decomposition adds
# up a few roundings for each column. Zeros of factors of up to 60 columns were at most 3.6.
RANK_TERMS = 32.0
# An entry of a unit vector that was rotated or reflected several times.
TRANSFORMATION_TERMS = 64.0

# Limits, from the strictest to the loosest.
# A number after a handful of operations: 4.5 EPS.
VALUE_ROUNDING = 1e-15
# A figure (an error, score or piece) from given second moments, relative to its parts: 45 EPS.
FIGURE_ROUNDING = 1e-14
# An eigenvalue, or the variance along a direction, relative to the norm of the matrix: 450 EPS.
# Eigenvalues that differ by less are tied.
EIGENVALUE_ROUNDING = 1e-13
# An eigenvalue below this fraction of the largest is zero: ten times its rounding error.
ZERO_EIGENVALUE = 10 * EIGENVALUE_ROUNDING
# A sum over rows, features or groups, relative to its terms: 4,500 EPS, for 20 million terms.
SUM_ROUNDING = 1e-12
# Length of what remains of a unit vector that others span. Their condition number, up to 1e5,
# multiplies the rounding error.
RANK_TOL = 1e-10
# Angle, in radians, between a subspace and an exact one that it need not be closer to: variances
# change by the square, which is below EPS.
ANGLE_TOL = 1e-9
# A figure that was computed twice, by other methods or from rows in another order: seven of the
# sixteen digits may be lost.
AGREEMENT_TOL = 1e-9
# The coarsest agreement that is accepted: six digits of a figure are known.
LOOSE_TOL = 1e-6
# A figure that was given or computed in single precision: eight of its roundings, 1.2e-7 each.
SINGLE_PRECISION_TOL = 1e-6
# A difference below this fraction of its terms has lost four digits: it is computed without
# subtraction.
CANCELLATION_RATIO = 1e-4


def zero_negligible(values: ArrayLike, rounding: ArrayLike) -> FloatArray:
    """Set values to zero whose magnitude is within their rounding error bound.

    Parameters
    ----------
    values : array or float
    rounding : array or float
        Bounds on the rounding errors, for all values or for each.

    Examples
    --------
    >>> zero_negligible([1.0, -1e-17, 1e-3], 1e-15)
    array([1.   , 0.   , 0.001])
    """
    return np.where(np.abs(values) <= rounding, 0.0, values)
