"""The one place that solves eigenproblems: of matrices, and of operators too large to be matrices.

Whatever needs leading eigenvectors of second moments asks here. Ties, rank deficiency and signs are
resolved here, so that the same matrix always gives an identical result. Small matrices without such
questions go to numpy.
"""

from fairspan.linalg.eigen import (
    TIE_TOLERANCE,
    EigenCache,
    LeadingSubspace,
    SmallestSum,
    Spectrum,
    graded_eigh,
    is_zero,
    leading_subspace,
    may_be_scatter,
    root_mean_squares,
    rounding_of_basis,
    rounding_of_errors,
    scaled_to_one,
    smallest_sum,
    symmetric,
    symmetric_root,
    unit_of,
    with_positive_signs,
)
from fairspan.linalg.krylov import (
    GUARD,
    IterativeSubspace,
    leading_subspace_of,
    orthonormal_beside,
)

__all__ = [
    "GUARD",
    "TIE_TOLERANCE",
    "EigenCache",
    "IterativeSubspace",
    "LeadingSubspace",
    "SmallestSum",
    "Spectrum",
    "graded_eigh",
    "is_zero",
    "leading_subspace",
    "leading_subspace_of",
    "may_be_scatter",
    "orthonormal_beside",
    "root_mean_squares",
    "rounding_of_basis",
    "rounding_of_errors",
    "scaled_to_one",
    "smallest_sum",
    "symmetric",
    "symmetric_root",
    "unit_of",
    "with_positive_signs",
]
