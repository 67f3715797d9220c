"""Validation of moments that others computed: shapes, ranges, and valid scatter matrices."""

from typing import TypeVar

import numpy as np

from fairspan.errors import InvalidInput
from fairspan.linalg import is_valid_scatter
from fairspan.linalg.rounding import EPS, SUM_ROUNDING
from fairspan.moments.base_moments import BaseMoments, check_magnitudes
from fairspan.rows.labels import format_list
from fairspan.rows.weights import MAX_WEIGHT, MIN_WEIGHT
from fairspan.typing import AnyArray, FloatArray

MomentsType = TypeVar("MomentsType", bound=BaseMoments)

# Largest weight of a group: 1e20 rows of the largest weight of a row.
_MAX_GROUP_WEIGHT = 1e20 * MAX_WEIGHT
# Largest absolute exponent of the unit of weights: beyond that of subnormal numbers.
_MAX_EXPONENT = 1500


def check_moments(moments: BaseMoments, scatters: FloatArray) -> None:
    """Check that moments with (k, p, p) scatters are consistent, as those of rows would be.

    Raises
    ------
    InvalidInput
        Wrong shapes, NaN or infinity, groups that are not sorted, weights or counts out of range,
        or a scatter that is not symmetric or has a negative eigenvalue.
    """
    k = len(moments.groups)
    p = moments.means.shape[-1]
    check_arrays(
        {
            "counts": (moments.counts, (k,)),
            "weights": (moments.weights, (k,)),
            "means": (moments.means, (k, p)),
            "scatters": (scatters, (k, p, p)),
        }
    )
    labels = moments.labels
    if len(set(labels)) < k or sorted(labels) != labels:
        raise invalid_moments_error(f"groups are {format_list(labels)}")
    corrections = moments.mean_corrections
    if corrections is not None:
        check_arrays({"mean_corrections": (corrections, (k, p))})
        # A correction is at most half a unit in the last place of the mean that it corrects.
        if (np.abs(corrections) > EPS * np.abs(moments.means)).any():
            raise invalid_moments_error(
                "mean_corrections are larger than the rounding of the means"
            )
    # Exponents are even, so that the square root of the unit of weights is a power of two.
    exponent = moments.weight_exponent
    if type(exponent) is not int or exponent % 2 or abs(exponent) > _MAX_EXPONENT:
        raise invalid_moments_error(f"weight_exponent is {exponent!r}")
    if (moments.counts < 0).any():
        raise invalid_moments_error(f"counts are {format_list(moments.counts.tolist())}")
    if ((moments.weights < MIN_WEIGHT) | (moments.weights > _MAX_GROUP_WEIGHT)).any():
        raise invalid_moments_error(f"weights are {format_list(moments.weights.tolist())}")
    _check_scatters(moments, scatters)


def _check_scatters(moments: BaseMoments, scatters: FloatArray) -> None:
    """Check that the scatter of each group is symmetric and has no negative eigenvalue."""
    arrays = (scatters, moments.means, moments.weights)
    for label, scatter, mean, weight in zip(moments.labels, *arrays, strict=True):
        # Asymmetry is compared with the product of the two features' root sums of squares.
        sizes = np.sqrt(np.abs(np.diag(scatter)))
        if (np.abs(scatter - scatter.T) > SUM_ROUNDING * np.outer(sizes, sizes)).any():
            raise invalid_moments_error(f"The matrix of group {label!r} is not symmetric")
        if not is_valid_scatter(scatter, mean, weight):
            raise invalid_moments_error(f"The matrix of group {label!r} has a negative eigenvalue")


def check_no_overflow(moments: MomentsType) -> MomentsType:
    """Check that weights and second moments are finite, and return the moments.

    Moments of some of the rows are checked for nothing else: a column that is too small here may
    be large enough in the others.

    Raises
    ------
    InvalidInput
        Numbers or weights so large that second moments overflow.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        if not np.isfinite(moments.weights.sum()):
            raise InvalidInput(
                "The sum of the weights overflows float64",
                "Allowed: weights with a finite sum",
                "Divide all of them by a constant",
            )
        check_magnitudes(moments.means, moments.variances, moments.feature_names, is_partial=True)
    return moments


def check_arrays(arrays: dict[str, tuple[AnyArray, tuple[int, ...]]]) -> None:
    """Check shapes and finiteness of arrays; raises InvalidInput."""
    for name, (array, shape) in arrays.items():
        if np.shape(array) != shape:
            raise invalid_moments_error(f"{name} has shape {np.shape(array)}, not {shape}")
        if not np.isfinite(array).all():
            raise invalid_moments_error(f"{name} contains NaN or infinity")


def invalid_moments_error(received: str) -> InvalidInput:
    """Build the error for moments that are inconsistent; `received` describes what is wrong."""
    return InvalidInput(
        received,
        "Allowed: symmetric matrices (k, p, p) without negative eigenvalues, means (k, p), "
        "positive weights (k,), none less than 1e-200 of the largest, within "
        f"{MIN_WEIGHT:.0e} to {_MAX_GROUP_WEIGHT:.0e} for the constructor, "
        "counts (k,) of zero or more, and k distinct groups; all finite. "
        "The constructor takes groups in sorted order, from_covariances in any",
        "Check each argument; if matrices were rounded, set their negative eigenvalues to zero",
    )
