"""Status of a solution: its meaning, and the rule by which a gap counts as optimal.

The gap is compared with the objective, never with the variance of the data: with a column of large
numbers, a gap that is small relative to the total variance can exceed every loss.

- **optimal**: the gap is at most the tolerance times the magnitude of the objective. Alternatively,
  the gap is at most the resolution of float64, and the resolution is at most the tolerance times
  the largest error. In either case the objective must be known: the resolution, relative to the
  magnitude of the objective, is at most the larger of the tolerance and 1e-6. An objective that
  cannot be distinguished from zero, as with identical groups or d = p, has no relative resolution.
  It is known if the resolution is at most the tolerance times the largest error or, if all errors
  are zero, times the variance.
- **unresolved**: the gap is at most the resolution of float64, which exceeds the tolerance: the
  data, not the solver, limit what can be proven.
- **open gap**: otherwise.
"""

from dataclasses import dataclass
from enum import StrEnum

from fairspan.certificates.error_rounding import resolution_scale
from fairspan.linalg.rounding import EPS, LOOSE_TOL
from fairspan.problem.problem import Problem
from fairspan.typing import FloatArray

# An objective of at most this many resolutions cannot be distinguished from zero: it may be one
# above the exact value, which may be one above zero.
ZERO_RESOLUTIONS = 2.0


class Status(StrEnum):
    """Status of a solution; compares equal to plain text: ``solution.status == "optimal"``.

    Examples
    --------
    >>> Status.OPTIMAL == "optimal", Status.OPTIMAL.message
    (True, 'no subspace is better by more than the tolerance')
    """

    OPTIMAL = "optimal"
    ESTIMATED = "estimated"
    OPEN_GAP = "open gap"
    UNRESOLVED = "unresolved"

    @property
    def message(self) -> str:
        """Meaning of the status and possible remedies."""
        return _STATUS_MESSAGES[self]


_STATUS_MESSAGES = {
    Status.OPTIMAL: "no subspace is better by more than the tolerance",
    Status.UNRESOLVED: "the gap is at most what double precision can resolve for these data, which "
    "exceeds the tolerance",
    Status.ESTIMATED: "no subspace was found that is better by more than the tolerance, but the "
    "bound relies on iteratively computed eigenvectors, which cannot prove that none was missed",
    Status.OPEN_GAP: "a better subspace may exist, by at most the gap if there is a bound; accept "
    "the gap or raise the tolerance (tol), or with more than two groups try allow_extra=True",
}


def shown_status(status_text: str) -> str:
    """Return a status in the word of pages and of the terminal, "proven" for "optimal".

    Examples
    --------
    >>> shown_status("optimal within 1 %"), shown_status("open gap")
    ('proven within 1 %', 'open gap')
    """
    return status_text.replace("optimal", "proven")


def tolerance_suffix(status: str, tol: float) -> str:
    """Suffix for the status "optimal" if the tolerance is loose.

    Examples
    --------
    >>> tolerance_suffix("optimal", 0.01), tolerance_suffix("optimal", 1e-9)
    (' within 1 %', '')
    >>> tolerance_suffix("open gap", 0.01)
    ''
    """
    if status == Status.OPTIMAL and tol > LOOSE_TOL:
        return f" within {tol * 100:.2g} %"
    return ""


@dataclass(frozen=True)
class MeasuredGap:
    """Objective of a solution and its gap, with bounds on their rounding errors.

    Attributes
    ----------
    objective, objective_rounding : float
        Value of the criterion, and its rounding error bound.
    value : float
        The objective minus its lower bound.
    max_value : float
        The same, with the rounding error of the objective where zero serves as the bound.
    bound_rounding : float
        Rounding error bound of the lower bound.
    """

    objective: float
    objective_rounding: float
    value: float
    max_value: float
    bound_rounding: float

    @property
    def resolution(self) -> float:
        """Largest gap that cannot be distinguished from zero."""
        return self.objective_rounding + self.bound_rounding


@dataclass(frozen=True)
class UnresolvedReason:
    """Property of the data by which double precision cannot resolve a gap.

    Attributes
    ----------
    text : str
    scaling_helps : bool
        Whether that is a feature of much larger numbers than the others, so that scaling the
        features, or measuring errors about their mean, removes the reason.
    """

    text: str
    scaling_helps: bool = False


@dataclass(frozen=True)
class GapAssessment:
    """Status of a solution, with the measures that decide it.

    Attributes
    ----------
    status : Status
        OPTIMAL only if the gap is proven to be within the tolerance; ESTIMATED if it is, but the
        bound is not proven; UNRESOLVED if double precision cannot decide.
    tol : float
        Largest gap that counts as optimal, relative to `scale`.
    scale : float
        Magnitude with which the gap is compared: that of the objective; for `Disparity`
        ``sum_g |w_g| e_g``, for Nash welfare 1. Under a restriction, at most the largest error
        within the allowed directions.
    absolute_tol : float
        Largest gap that counts as optimal, absolute: `tol` times `scale`, or the resolution if that
        is small relative to the largest error.
    resolution : float
        Largest gap that double precision cannot distinguish from zero, in units of the objective.
    unresolved_reason : str or None
        For UNRESOLVED, the property of the data responsible.
    scaling_helps : bool
        Whether scaling the features removes that reason.
    """

    status: Status
    tol: float
    scale: float
    absolute_tol: float
    resolution: float
    unresolved_reason: str | None = None
    scaling_helps: bool = False

    @property
    def may_be_zero(self) -> bool:
        """Whether the objective cannot be distinguished from zero."""
        return self.scale <= ZERO_RESOLUTIONS * self.resolution

    @property
    def status_text(self) -> str:
        """Status, with the tolerance if it is loose, such as "optimal within 1 %"."""
        return f"{self.status}{self.tolerance_suffix}"

    @property
    def tolerance_suffix(self) -> str:
        """Suffix such as " within 1 %" if an optimal solution has a loose tolerance; else empty."""
        return tolerance_suffix(self.status, self.tol)


def assess_gap(
    problem: Problem,
    errors: FloatArray,
    gap: MeasuredGap,
    *,
    violation: float,
    tol: float,
    tolerance_factor: float = 1.0,
) -> GapAssessment:
    """Compare a gap with the tolerance and with rounding, and decide the status.

    Parameters
    ----------
    problem : Problem
    errors : (k,) array
        Errors of the solution within the allowed directions.
    gap : MeasuredGap
        Objective minus lower bound, as computed (`value`) and at most (`max_value`), and the
        largest gap that cannot be distinguished from zero (`resolution`).
    violation : float
        Amount by which the solution violates the constraint of the criterion; infinite if it lies
        outside the limit of the restriction.
    tol : float
        Largest gap that counts as optimal, relative to the objective.
    tolerance_factor : float
        Factor on tolerance and resolution up to which a gap counts as closed; above 1 in a
        verification, whose rounding errors differ from those of the fit.
    """
    criterion = problem.criterion
    # The gap and the constraint violation must both be small. `max_value` is larger than `value`
    # where the bound is zero, which is exact, and the objective is rounded. A negative gap, a bound
    # above the objective, shows how uncertain both are, so its absolute value counts.
    shortfall = max(abs(gap.value), gap.max_value, violation)
    resolution = gap.resolution
    # Magnitude of the objective, with which the gap is compared.
    scale = criterion.scale(errors, problem)
    # The resolution may be small relative to the largest error (`is_small`). If the objective is
    # then within a few resolutions of zero (ZERO_RESOLUTIONS), it is known to be zero, up to a
    # small part of that error (`is_zero`). The gap can be judged (`is_resolvable`) in that case, or
    # if the resolution is small relative to the objective: within the tolerance, or LOOSE_TOL if
    # that is larger.
    is_small = resolution <= tolerance_factor * tol * resolution_scale(problem, errors, resolution)
    # Of the objective, only the part that the choice of a subspace changes may be zero: not the
    # errors that a restriction fixes.
    free_magnitude = _free_magnitude(problem, errors, scale)
    is_zero = is_small and free_magnitude <= tolerance_factor * ZERO_RESOLUTIONS * resolution
    is_resolvable = is_zero or resolution <= tolerance_factor * max(tol, LOOSE_TOL) * scale
    absolute_tol = tol * scale
    if is_resolvable and is_small:
        absolute_tol = max(absolute_tol, resolution)

    uncertainty = _objective_uncertainty(problem, gap)
    is_closed = max(shortfall, uncertainty) <= tolerance_factor * absolute_tol
    if is_resolvable and is_closed:
        status = Status.OPTIMAL
    elif shortfall <= tolerance_factor * resolution:
        status = Status.UNRESOLVED
    else:
        status = Status.OPEN_GAP
    return GapAssessment(status, tol, scale, absolute_tol, resolution)


def _objective_uncertainty(problem: Problem, gap: MeasuredGap) -> float:
    """Uncertainty of an objective that remains where its gap is closed."""
    # Next to a large constant, the last digit of the objective may exceed the tolerance.
    last_digit = EPS * abs(gap.objective + problem.objective_offset)
    if not problem.criterion.is_steep_at_zero:
        return last_digit
    # Where the criterion is steep, reaching the bound does not make the objective certain.
    return max(gap.objective_rounding, last_digit)


def _free_magnitude(problem: Problem, errors: FloatArray, scale: float) -> float:
    """Magnitude of the part of the objective that the choice of a subspace changes.

    Under a restriction the objective includes errors that no choice changes. What may be zero then
    is the largest error within the allowed directions. `scale` is the magnitude of the objective.
    """
    if problem.embedding.parent is None:
        return scale
    return problem.criterion.largest_scaled_error(errors, problem)
