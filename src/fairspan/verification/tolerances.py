"""Tolerances for claims that are recomputed, with allowances for rounding."""

from dataclasses import dataclass

import numpy as np

from fairspan.certificates.certificate import Certificate
from fairspan.certificates.error_rounding import resolution_scale
from fairspan.certificates.status import ZERO_RESOLUTIONS
from fairspan.linalg.rounding import AGREEMENT_TOL, EPS, FIGURE_ROUNDING, LOOSE_TOL
from fairspan.problem.problem import Problem
from fairspan.typing import FloatArray

# Tolerance for products of components, also with forbidden directions: about three times the defect
# of row coordinates, `MAX_ORTHOGONALITY_DEFECT`.
ORTHONORMALITY_TOL = 1e-10
# Two computations of a figure differ by at most the sum of their rounding error bounds. In other
# coordinates, the second bound may be up to three times the first.
ROUNDING_FACTOR = 4.0
# Rounding error bounds are proportional to the number of terms, and so to that of the coordinates:
# up to `MAX_WIDE_FEATURES` = 2,500 features, against at least the five coordinates of six rows.
ROUNDING_BOUND_FACTOR = 500.0


def rounding_cap(certificate: Certificate) -> float:
    """Cap on allowances for rounding, relative to the figure that is compared.

    Six digits are compared, unless the model was fitted with a larger tolerance.
    """
    if 0 <= certificate.tol < 1:
        return max(certificate.tol, LOOSE_TOL)
    return LOOSE_TOL


def cap_tolerance(
    rounding: FloatArray | float,
    magnitude: FloatArray | float,
    zero_magnitude: float,
    max_relative_tol: float,
) -> FloatArray:
    """Cap the allowance for rounding of each figure at a fraction of the figure, shape (n,).

    Otherwise a large allowance could accept any claim. Figures that may be zero are exempt if
    their rounding is small relative to `zero_magnitude`.

    Parameters
    ----------
    rounding : (n,) array or float
        Rounding error bound of each figure.
    magnitude : (n,) array or float
        Magnitude of each figure.
    zero_magnitude : float
        Magnitude, such as a variance, beside which the rounding error must be small for a figure to
        count as zero. Errors are zero with as many dimensions as the rows span, for example. Zeros
        are not capped, since no fraction of them is a tolerance.
    max_relative_tol : float
        The fraction.
    """
    may_be_zero = magnitude <= ZERO_RESOLUTIONS * rounding
    is_zero = may_be_zero & (rounding <= max_relative_tol * zero_magnitude)
    capped = np.minimum(rounding, max_relative_tol * np.asarray(magnitude))
    return np.where(is_zero, rounding, capped)


def error_magnitude(problem: Problem, errors: FloatArray, rounding: float) -> float:
    """Largest error or, if all are negligible, a variance relative to which they are zero."""
    max_error = float(errors.max())
    if max_error > rounding:
        return max_error
    # With d = p every error is zero, however large the variance; and errors of sparse rows are sums
    # of squared residuals, not differences of variances.
    if problem.n_components == problem.n_features or not problem.second_moments.has_matrices:
        return float(problem.second_moments.traces.max())
    return problem.smallest_row_variance


@dataclass(frozen=True)
class Allowances:
    """Allowances for rounding in one round of checks.

    Attributes
    ----------
    is_capped : bool
        Whether they are capped at a fraction of each figure, so that a large one cannot accept any
        claim.
    is_converged : bool
        Whether the moments count as exact up to rounding. Otherwise figures may differ as much as
        those of two runs of the EM algorithm, which is more than a cap would allow.
    """

    is_capped: bool = True
    is_converged: bool = True


STRICT = Allowances()
"""Allowances of the checks that decide whether a model holds."""
UNCAPPED = Allowances(is_capped=False)
"""Allowances under which failures are due to more than rounding."""
NOT_CONVERGED = Allowances(is_capped=False, is_converged=False)
"""Allowances under which failures are due to more than where the EM algorithm ended."""


@dataclass(frozen=True)
class Tolerances:
    """Tolerances for the figures of a certificate.

    Attributes
    ----------
    objective : float
        Tolerance of the objective, of the bound, and of figures compared with them.
    method : float
        Part of it that is due to different methods of solving.
    gap : float
        Largest gap of a model that is called optimal, if the data leave it unresolved.
    matrix_free_resolution : float
        Resolution of a fit without matrices; zero if no fit of these data avoids them.
    is_converged : bool
        Whether the moments are exact up to rounding, rather than up to the end of the EM algorithm.
    """

    objective: float
    method: float
    gap: float
    matrix_free_resolution: float = 0.0
    is_converged: bool = True


def objective_tolerances(
    problem: Problem,
    recomputed: Certificate,
    certificate: Certificate,
    resolution: float,
    method_tol: float,
    *,
    is_capped: bool,
) -> Tolerances:
    """Tolerances of the objective and of figures in its units.

    The resolution claimed by the model proves nothing; only recomputed rounding counts.

    Parameters
    ----------
    problem : Problem
    recomputed, certificate : Certificate
        Recomputed from the data; and as claimed by the model.
    resolution : float
        Rounding error bound of the objective: its resolution, with the effects of a rotation of the
        subspace and of rounded means.
    method_tol : float
        Difference of the objective between methods of solving.
    is_capped : bool
        Whether allowances for rounding are capped at a fraction of the objective.

    Returns
    -------
    Tolerances
        Absolute tolerances of the objective and of the gap, and the part of the former that is due
        to the method; all in units of the objective.
    """
    # A few rounding errors of the largest variance: moments of the same rows may differ by these.
    gap = ROUNDING_FACTOR * EPS * float(problem.unrestricted.second_moments.traces.max())
    rounding = ROUNDING_FACTOR * resolution + method_tol
    if is_capped:
        max_relative_tol = rounding_cap(certificate)
        # `scale` is the magnitude with which gaps are compared, and may exceed the objective.
        magnitude = max(abs(recomputed.objective), recomputed.scale)
        # Largest error or, if all are negligible, the variance beside which they are. The common
        # error, which all groups share and no choice changes, would hide that they are.
        zero_magnitude = resolution_scale(
            problem, recomputed.errors - problem.embedding.common_error, recomputed.resolution
        )
        # An objective of at most `zero_bound` cannot be distinguished from zero. It counts as zero
        # if that bound is small beside the variance.
        zero_bound = ZERO_RESOLUTIONS * recomputed.resolution
        max_zero_bound = ZERO_RESOLUTIONS * max_relative_tol * zero_magnitude
        cap = max_relative_tol * magnitude
        if recomputed.scale <= zero_bound <= max_zero_bound:
            # No fraction of zero is a tolerance.
            cap = max(cap, rounding)
        rounding = min(rounding, cap)
        method_tol = min(method_tol, cap)
        gap = min(gap, cap)
    agreement = AGREEMENT_TOL * abs(recomputed.scale)
    agreement += FIGURE_ROUNDING * abs(recomputed.objective)
    return Tolerances(objective=rounding + agreement, method=method_tol, gap=gap)
