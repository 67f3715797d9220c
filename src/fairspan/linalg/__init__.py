"""Eigensolvers for symmetric matrices, and for operators too large to form as matrices.

All leading eigenvectors of second moments are computed by this package. It resolves ties, rank
deficiency and signs, so that the same matrix always gives the same result. Small matrices that
raise none of these questions are passed to numpy directly.
"""

from fairspan.linalg.eigen import (
    Eigendecomposition,
    LeadingSubspace,
    leading_subspace,
    normalize_signs,
)
from fairspan.linalg.eigen_cache import EigenCache
from fairspan.linalg.eigenvalue_sums import (
    SmallestEigenvalueSum,
    basis_rounding_bound,
    column_rms,
    error_rounding_bound,
    smallest_eigenvalue_sum,
)
from fairspan.linalg.graded import graded_eigh
from fairspan.linalg.krylov import (
    N_GUARD_VECTORS,
    ApproximateSubspace,
    leading_subspace_krylov,
    orthonormalize_against,
)
from fairspan.linalg.powers_of_two import power_of_two_unit, scale_to_one
from fairspan.linalg.scatter import is_valid_scatter
from fairspan.linalg.symmetric import is_zero, symmetric_root, symmetrize

__all__ = [
    "N_GUARD_VECTORS",
    "ApproximateSubspace",
    "EigenCache",
    "Eigendecomposition",
    "LeadingSubspace",
    "SmallestEigenvalueSum",
    "basis_rounding_bound",
    "column_rms",
    "error_rounding_bound",
    "graded_eigh",
    "is_valid_scatter",
    "is_zero",
    "leading_subspace",
    "leading_subspace_krylov",
    "normalize_signs",
    "orthonormalize_against",
    "power_of_two_unit",
    "scale_to_one",
    "smallest_eigenvalue_sum",
    "symmetric_root",
    "symmetrize",
]
