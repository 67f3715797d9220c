"""Gap between eigenvalues d and d + 1 of a group, by which its best subspace is identified.

The best subspace of dimension d for a group is unique if these eigenvalues of its second moment
differ. Where they may be equal, another sample of the same group may have an entirely different
best subspace, and formulas for its loss, which divide by the gap, do not hold.
"""

import math
from dataclasses import dataclass

import numpy as np

from fairspan.auditing.intervals import none_if_nan
from fairspan.typing import FloatArray

# A gap of fewer standard errors counts as zero. In simulations, 80 to 2,000 rows of a group
# whose eigenvalues d and d + 1 are equal had a smaller gap in 0.77 to 0.88 of draws, and in all
# draws if further eigenvalues were equal as well.
_MIN_STANDARD_ERRORS = 2.0


@dataclass(frozen=True)
class EigenvalueGap:
    """Difference between eigenvalues d and d + 1 of a group, with its standard error.

    Attributes
    ----------
    value : float
        The gap, in squared (scaled) units of the features; infinite if there are only d of them,
        NaN if it is unknown.
    standard_error : float
        To first order, as if the eigenvectors were known. NaN if it is unknown.
    """

    value: float
    standard_error: float = math.nan

    def to_record(self) -> dict[str, float | None]:
        """Return the gap and its standard error; None if not known or infinite."""
        return {
            "eigenvalue_gap": self.value if math.isfinite(self.value) else None,
            "eigenvalue_gap_standard_error": none_if_nan(self.standard_error),
        }

    @property
    def in_standard_errors(self) -> float:
        """The gap divided by its standard error; infinite if it does not vary, or NaN."""
        if self.standard_error == 0:
            return math.inf if self.value > 0 else 0.0
        return self.value / self.standard_error

    @property
    def is_identified(self) -> bool:
        """Whether zero is more than two standard errors away; True if that is unknown."""
        return not self.in_standard_errors <= _MIN_STANDARD_ERRORS


UNKNOWN_GAP = EigenvalueGap(math.nan)
"""Gap of a group that has no estimates."""


def eigenvalue_gap(
    second_moment: FloatArray, moments_by_fold: FloatArray, shares: FloatArray, d: int
) -> EigenvalueGap:
    """Return the gap of a group with its standard error from the variation between folds.

    With u and v the eigenvectors d and d + 1 of the second moment S, S_f that of fold f of K and
    s_f its share of the weight, the gap is g = u'Su - v'Sv, that of a fold is g_f = u'S_f u -
    v'S_f v, and the variance of g is K / (K - 1) sum_f s_f^2 (g_f - g)^2. Rows with heavy tails or
    weights are covered, and clusters if each is in a single fold.

    Parameters
    ----------
    second_moment : (p, p) array
        S, in any orthonormal basis.
    moments_by_fold : (K, p, p) array
        S_f, in the same basis and about the same point.
    shares : (K,) array
        s_f; zero for folds without rows of the group.
    d : int
        Dimension, at least one.

    Examples
    --------
    >>> import numpy as np
    >>> moments_by_fold = np.array([np.diag([3.0, 1.0]), np.diag([5.0, 1.0])])
    >>> eigenvalue_gap(np.diag([4.0, 1.0]), moments_by_fold, np.array([0.5, 0.5]), 1)
    EigenvalueGap(value=3.0, standard_error=1.0)
    """
    if d >= len(second_moment):
        return EigenvalueGap(math.inf)
    values, vectors = np.linalg.eigh(second_moment)
    # Eigenvalues are in ascending order.
    value = float(values[-d] - values[-d - 1])
    axes = vectors[:, [-d, -d - 1]]
    variances_by_fold = np.einsum("ia,fij,ja->fa", axes, moments_by_fold, axes)
    gaps_by_fold = variances_by_fold[:, 0] - variances_by_fold[:, 1]
    return _gap_with_spread(value, shares * (gaps_by_fold - value), int((shares > 0).sum()))


def gap_from_left_out_folds(
    value: float, gaps_without_fold: FloatArray, shares: FloatArray
) -> EigenvalueGap:
    """Return the gap of a group with the standard error of :func:`eigenvalue_gap`.

    With s_f the share of fold f, s_f g_f + (1 - s_f) g_(-f) = g, where g_(-f) is the gap without
    fold f along the eigenvectors of all rows.

    Parameters
    ----------
    value : float
        The gap g.
    gaps_without_fold : (K,) array
        g_(-f); NaN if no rows of the group are left.
    shares : (K,) array
        s_f.

    Examples
    --------
    >>> import numpy as np
    >>> gap_from_left_out_folds(3.0, np.array([4.0, 2.0]), np.array([0.5, 0.5]))
    EigenvalueGap(value=3.0, standard_error=1.0)
    """
    if not math.isfinite(value):
        return EigenvalueGap(value)
    deviations = (1 - shares) * (value - gaps_without_fold)
    is_present = shares > 0
    return _gap_with_spread(value, deviations[is_present], int(is_present.sum()))


def _gap_with_spread(value: float, deviations: FloatArray, n_folds: int) -> EigenvalueGap:
    """Return the gap with its standard error; `deviations` are s_f (g_f - g)."""
    if n_folds < 2:
        return EigenvalueGap(value)
    variance = float((deviations**2).sum()) * n_folds / (n_folds - 1)
    return EigenvalueGap(value, math.sqrt(variance))
